"""One chaos run: a fleet of three nodes on one file, and a `schedkit up` on its own, both under load and in a storm."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import orjson

from schedkit.adapters.sqlite.folder import DATABASE_NAME
from schedkit.sim.history import Event, History
from tests.chaos import machines, recording
from tests.chaos.judging import Judgement, judged
from tests.chaos.load import Load
from tests.chaos.machines import Machine, State
from tests.chaos.moods import target
from tests.chaos.nemesis import Nemesis

FLEET, ALONE = "fleet", "alone"
SKEW_MS = 1_000
RESTART_MS = 10_000
RECOVER_MS = 150_000  # a lease (63 s), its margin, a sweep (two minutes at most), some of it at the same time
CALM_MS = 5_000  # the machine has other work too
LONGEST_STORM_S = 100.0  # the long stops of a fleet need this, whatever was asked for
ENDED_WITHIN_S = 240.0
SEEN_SHARE = 0.85  # of requests go to a machine that was up a moment ago
LOOK_EVERY_S = 0.25
STATES = ("jobs?status=SCHEDULED", "runs?status=RUNNING", "runs?status=RETRY_WAIT")  # of what has not ended
FAULTS = {
    FLEET: ["kill", "crash", "stop", "skew", "targets"],
    ALONE: ["kill", "crash", "stop", "skew", "outage", "targets"],
}
PROFILES = {FLEET: "small", ALONE: "embedded"}


def now_ms() -> int:
    return time.time_ns() // 1_000_000


@dataclass
class System:
    """One of the two: its machines, what happens to them, and what is asked of them."""

    kind: str
    seed: str
    database: Path
    machines: list[Machine]
    history: History
    load: Load
    nemesis: Nemesis
    trouble: str | None = None

    def live(self, seconds: float) -> None:
        """From the start to the end of everything; what goes wrong in here is kept as `trouble`."""
        try:
            self._live(seconds)
        except Exception as error:  # of the harness: it is reported, and the other system goes on
            self.trouble = f"{type(error).__name__}: {error}"

    def _live(self, seconds: float) -> None:
        for machine in self.machines:
            machine.boot()
        for machine in self.machines:
            machine.wait_ready()
            self.history.add("world", "nemesis", fault="skew", on=machine.name, offset_ms=machine.offset_ms)
        storm_s = max(seconds, LONGEST_STORM_S) if self.kind == FLEET else seconds
        self.load.recurring(now_ms() + round(storm_s * 1_000))
        stop = threading.Event()
        asking = threading.Thread(target=self.load.one_offs, args=(stop,), daemon=True)
        asking.start()
        self.nemesis.begin()
        threading.Event().wait(storm_s)
        stop.set()
        asking.join()
        self.nemesis.heal()
        self.history.add("world", "heal")
        if not self.load.finish(60):
            self.trouble = "some requests never had an answer"
        self._wait_until_ended()

    def _wait_until_ended(self) -> None:
        deadline = time.monotonic() + ENDED_WITHIN_S
        pause = threading.Event()
        while time.monotonic() < deadline:
            with contextlib.suppress(httpx.HTTPError):
                if not any(self._some(path) for path in STATES):
                    return
            pause.wait(LOOK_EVERY_S)

    def _some(self, path: str) -> bool:
        answer = httpx.get(f"{self.machines[0].url}/v1/{path}", timeout=10, trust_env=False).json()
        return bool(answer["items"] or answer["next_cursor"])

    def end(self) -> None:
        """Stop everything that is left."""
        self.nemesis.quit()
        self.load.quit()
        for machine in self.machines:
            machine.end()

    def judge(self, folder: Path) -> tuple[Judgement, Path]:
        """The history, written to a file, and what it amounts to."""
        path = folder / f"{self.kind}.jsonl"
        events = self.events()
        with path.open("wb") as file:
            for event in events:
                file.write(orjson.dumps(event, option=orjson.OPT_APPEND_NEWLINE))
        judgement = judged(events, self.load.acked, self.load.cancelled)
        judgement.figures |= {"unavailable": self.load.unavailable, "full_disks": self.nemesis.full_disks}
        judgement.wrong += self.load.surprises
        for machine in self.machines:
            judgement.wrong += machine.crashes
            judgement.wrong += [f"{machine.name} logged: {text}" for text in recording.unexpected(machine.log)]
        if self.trouble is not None:
            judgement.wrong.append(self.trouble)
        if self.nemesis.full_disks and not self.load.unavailable:
            judgement.wrong.append("the disk was full, and no create was refused")
        if self.kind == FLEET and not judgement.figures["stale"]:
            judgement.wrong.append("no stale write was tried, so nothing shows that one is refused")
        return judgement, path

    def events(self) -> list[Event]:
        """Everything that happened, from every source."""
        committed = list(recording.commits(self.database))
        epochs = {(e["partition"], e["sort"]): e["after"].get("epoch", 0) for e in committed if e["after"]}
        refused = [e for m in self.machines for e in recording.refusals(m.name, m.log, epochs)]
        told = list(self.history.events)
        began = min(event["t"] for event in (*committed, *told))
        healed = next((event["t"] for event in told if event["kind"] == "heal"), began)
        # Nothing is scheduled any more, so the history is complete as long as one likes: until every bound is over.
        ended = max(now_ms(), healed + RECOVER_MS + CALM_MS + 1)
        header = {
            "seed": self.seed, "profile": PROFILES[self.kind], "faults": FAULTS[self.kind], "skew_ms": SKEW_MS,
            "restart_ms": RESTART_MS, "late_ms": None, "recover_ms": RECOVER_MS, "calm_ms": CALM_MS,
        }  # fmt: skip
        begin = {"t": began, "node": "world", "kind": "begin", **header}
        end = {"t": ended, "node": "world", "kind": "end"}
        return recording.merged([begin], told, committed, refused, [end])


@contextlib.contextmanager
def systems(seed: int, folder: Path) -> Iterator[list[System]]:
    """The fleet and the one that is alone; every process of theirs is gone afterwards."""
    with contextlib.ExitStack() as stack:
        made = [_system(kind, f"{seed}/{kind}", folder, stack) for kind in (FLEET, ALONE)]
        yield made


def _system(kind: str, seed: str, folder: Path, stack: contextlib.ExitStack) -> System:
    home = folder / kind
    (home / "data").mkdir(parents=True)
    database = home / "data" / DATABASE_NAME
    recording.watched(database)
    history = History(now_ms)
    chance = random.Random(f"{seed}/nemesis")
    offsets = [chance.randrange(-SKEW_MS + 50, SKEW_MS - 50) for _ in range(3)]
    if kind == FLEET:
        made = [machines.node(f"node-{n}", home, database, history, offset) for n, offset in enumerate(offsets, 1)]
    else:
        made = [machines.up("main", home, history, offsets[0])]
    url = stack.enter_context(target(history, seed))
    load = Load(history, seed.replace("/", "-"), lambda: _doors(made), url)
    system = System(kind, seed, database, made, history, load, Nemesis(made, chance, alone=kind == ALONE))
    stack.callback(system.end)
    return system


def _doors(made: list[Machine]) -> list[str]:
    """As a balancer sees them: those that answer, and now and then one that does not."""
    up = [machine for machine in made if machine.state is State.UP]
    return [machine.url for machine in (up if up and random.random() < SEEN_SHARE else made)]


def run(seed: int, seconds: float, folder: Path) -> list[tuple[System, Judgement, Path]]:
    """Both systems at the same time, then their judgement."""
    with systems(seed, folder) as made:
        threads = [threading.Thread(target=system.live, args=(seconds,), daemon=True) for system in made]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert all(machine.state is State.DEAD for system in made for machine in system.machines)
    return [(system, *system.judge(folder)) for system in made]
