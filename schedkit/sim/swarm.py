"""The swarm: many seeds, each in a process of its own, told in the order of the seeds.

A worker that dies takes the others' seeds with it, as far as the pool can tell. So no more than one seed a worker is
under way, and where the pool breaks each of these is run once more, alone: what breaks it again is that seed's failure.
"""

from __future__ import annotations

import multiprocessing
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, Final

from schedkit.errors import InvalidInput, Reason
from schedkit.model.time import HOUR_MS, SECOND_MS
from schedkit.sim.report import injected, repeat
from schedkit.sim.simulation import Settings, simulate

LARGEST_SEED: Final = 2**63 - 1

Doc = dict[str, Any]
Simulate = Callable[[Settings], Doc]


@dataclass(slots=True)
class Totals:
    """What all seeds amount to."""

    seeds: int = 0
    failed: int = 0
    simulated_s: float = 0.0
    cpu_s: float = 0.0
    runs: int = 0
    calls: int = 0
    explained: int = 0
    unexplained: int = 0
    stale_refused: int = 0
    injected: Counter[str] = field(default_factory=Counter)
    crash_points: Counter[str] = field(default_factory=Counter)
    checks: Counter[str] = field(default_factory=Counter)

    def add(self, doc: Doc) -> None:
        """One more seed."""
        figures = doc["figures"]
        self.seeds += 1
        self.failed += bool(doc["violations"])
        self.simulated_s += doc["hours"] * HOUR_MS / SECOND_MS if doc["digest"] else 0
        self.cpu_s += doc["machine"]["cpu_seconds"]
        self.runs += sum(figures.get("runs", {}).values())
        self.calls += figures.get("calls", 0)
        twice = figures.get("duplicates", {})
        self.explained += sum(twice.get("explained", {}).values())
        self.unexplained += twice.get("unexplained", 0)
        self.stale_refused += figures.get("refused_stale", 0)
        self.injected.update(injected(figures.get("faults", {})))
        self.crash_points.update(figures.get("crash_points", {}))
        self.checks.update(figures.get("violations") or Counter(found["check"] for found in doc["violations"]))

    @property
    def document(self) -> Doc:
        """What a program reads."""
        return {
            "seeds": self.seeds,
            "failed": self.failed,
            "simulated_hours": round(self.simulated_s * SECOND_MS / HOUR_MS, 3),
            "runs": self.runs,
            "calls": self.calls,
            "duplicates_explained": self.explained,
            "duplicates_unexplained": self.unexplained,
            "stale_writes_refused": self.stale_refused,
            "faults_injected": dict(sorted(self.injected.items())),
            "crash_points": dict(sorted(self.crash_points.items())),
            "violations": dict(sorted(self.checks.items())),
        }

    @property
    def machine(self) -> Doc:
        """What this machine took for it; everything else is the seeds'."""
        speed = round(self.simulated_s / self.cpu_s) if self.cpu_s else None
        return {"cpu_seconds": round(self.cpu_s, 1), "simulated_per_cpu_second": speed}


def simulated(settings: Settings) -> Doc:
    """The document of one seed, without the lag of every run. What raises is a failure of that seed."""
    started = time.process_time()
    try:
        doc = simulate(settings).document
    except Exception as error:
        return failure(settings, "raised", f"{type(error).__name__}: {error}", time.process_time() - started)
    doc["figures"].pop("lags_ms", None)
    return doc | {"repeat": repeat(settings)}


def failure(settings: Settings, check: str, text: str, cpu_s: float = 0.0) -> Doc:
    """The document of a seed that came to no verdict."""
    told = {"invariant": "-", "check": check, "t": 0, "key": "-", "text": text}
    return {
        "seed": settings.seed,
        "digest": None,
        "violations": [told],
        "profile": str(settings.profile or "drawn"),
        "faults": [],
        "hours": settings.hours,
        "figures": {},
        "machine": {"cpu_seconds": round(cpu_s, 3)},
        "repeat": repeat(settings),
    }


def swarm(settings: Settings, seeds: Sequence[int], workers: int, simulate_one: Simulate = simulated) -> Iterator[Doc]:
    """The document of each seed, in their order. With one worker everything runs in this process."""
    each = [replace(settings, seed=seed) for seed in seeds]
    if workers == 1 or len(each) <= 1:
        yield from map(simulate_one, each)
        return
    told: dict[int, Doc] = {}
    given = 0
    for place, doc in _in_parallel(each, min(workers, len(each)), simulate_one):
        told[place] = doc
        while given in told:
            yield told.pop(given)
            given += 1


def _in_parallel(each: Sequence[Settings], workers: int, simulate_one: Simulate) -> Iterator[tuple[int, Doc]]:
    """(place, document) as they come; whatever ends this ends the workers too."""
    pool = _pool(workers)
    waiting = iter(enumerate(each))
    under_way: dict[Future[Doc], int] = {}
    try:
        while True:
            for place, settings in islice(waiting, workers - len(under_way)):
                under_way[pool.submit(simulate_one, settings)] = place
            if not under_way:
                return
            done, _ = wait(under_way, return_when=FIRST_COMPLETED)
            if any(isinstance(future.exception(), BrokenProcessPool) for future in done):
                places = sorted(under_way.values())
                under_way.clear()
                pool.shutdown()
                yield from ((place, _alone(each[place], simulate_one)) for place in places)
                pool = _pool(workers)
                continue
            for future in sorted(done, key=under_way.__getitem__):
                yield under_way.pop(future), future.result()
    finally:
        _end(pool)


def _alone(settings: Settings, simulate_one: Simulate) -> Doc:
    """One seed with a pool of its own: if its worker dies, it is this seed's doing."""
    pool = _pool(1)
    try:
        return pool.submit(simulate_one, settings).result()
    except BrokenProcessPool:
        return failure(settings, "worker_died", "the process that ran it died: out of memory, or killed")
    finally:
        _end(pool)


def _pool(workers: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(
        workers,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=signal.signal,
        initargs=(signal.SIGINT, signal.SIG_IGN),  # ctrl+c is for the one who started them
    )


def _end(pool: ProcessPoolExecutor) -> None:
    """Without waiting for the seeds under way, but until their processes are gone: the pool's own thread joins them."""
    for process in multiprocessing.active_children():
        process.terminate()
    pool.shutdown(cancel_futures=True)


def read_seeds(path: Path) -> list[int]:
    """The seeds of a file: one number a line, `#` begins a comment. Raises InvalidInput, naming the line."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise InvalidInput(Reason.INVALID_ARGUMENT, f"{path} cannot be read: {why}", field="--seeds-file") from error
    return list(_seeds_in(lines, path))


def _seeds_in(lines: Iterable[str], path: Path) -> Iterator[int]:
    for number, line in enumerate(lines, 1):
        text = line.partition("#")[0].strip()
        if not text:
            continue
        if not (text.isascii() and text.isdecimal() and int(text) <= LARGEST_SEED):
            raise InvalidInput(
                Reason.INVALID_ARGUMENT,
                f"{path}, line {number} is no seed: {text[:40]!r}",
                field="--seeds-file",
                fix=("one whole number a line; # begins a comment",),
            )
        yield int(text)
