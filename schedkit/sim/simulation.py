"""One simulation: from a seed to a verdict."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final

from schedkit.model.time import HOUR_MS, SECOND_MS
from schedkit.sim.checker import Verdict, check
from schedkit.sim.faults import LONGEST_TIMEOUT_MS, RESTART_MS, SKEW_MS, Fault, Profile, Weather, drawn
from schedkit.sim.fleet import Fleet
from schedkit.sim.ground import Ground
from schedkit.sim.history import History
from schedkit.sim.jobs import BEGINNINGS, Maker
from schedkit.sim.loop import Process, Stuck
from schedkit.sim.network import Network
from schedkit.sim.operators import Operators
from schedkit.sim.storm import Storm
from schedkit.sim.users import VERBS, Users

DEFAULT_HOURS: Final = 0.8
DEFAULT_JOBS: Final = 45
DEFAULT_SLOTS: Final = 50
CALM_MS: Final = 5 * 60 * SECOND_MS  # watched after everything has recovered
SHORTEST_STORM_SHARE: Final = 0.3


@dataclass(frozen=True, slots=True)
class Settings:
    """What to simulate. What is None is drawn from the seed."""

    seed: int
    hours: float = DEFAULT_HOURS
    jobs: int = DEFAULT_JOBS
    slots: int = DEFAULT_SLOTS
    profile: Profile | None = None
    faults: Iterable[Fault] | None = None
    verbs: tuple[str, ...] = VERBS  # what users do to jobs that are there, one as often as it stands here


@dataclass(slots=True)
class Result:
    """What came of it. `cpu_s` is the machine's, everything else is the seed's."""

    settings: Settings
    weather: Weather
    digest: str
    verdict: Verdict
    history: History
    cpu_s: float

    @property
    def document(self) -> dict[str, Any]:
        """What a program reads: the same for the same seed, but for the seconds of this machine under `machine`."""
        simulated_s = self.settings.hours * HOUR_MS / SECOND_MS
        return {
            "schema": "schedkit.simulation/v1",
            "seed": self.settings.seed,
            "digest": self.digest,
            "violations": [asdict(violation) for violation in self.verdict.violations],
            "profile": self.weather.profile.value,
            "mode": self.weather.mode,
            "faults": self.weather.names,
            "hours": self.settings.hours,
            "events": len(self.history.events),
            "figures": self.verdict.figures,
            "machine": {
                "cpu_seconds": round(self.cpu_s, 3),
                "simulated_per_cpu_second": round(simulated_s / self.cpu_s),
            },
        }


def simulate(settings: Settings) -> Result:
    """Run it to its end. Bugs that were raised are violations too."""
    started = time.process_time()
    weather = drawn(settings.seed, settings.profile, settings.faults)
    began, zones = _beginning(settings.seed)
    ground = Ground(settings.seed, weather, began)
    fleet = Fleet(ground, settings.slots)
    network = Network(ground, fleet)
    storm = Storm(ground, fleet)
    duration_ms = round(settings.hours * HOUR_MS)
    maker = Maker(ground.chance("jobs"), zones, began + duration_ms, Fault.TARGETS in weather)
    users = Users(ground, network, maker, settings.jobs, settings.verbs)
    operators = Operators(ground, users)

    def died(member: Any) -> None:
        network.broke(member)
        storm.restart(member)

    async def story() -> None:
        ground.history.add("world", "begin", **_header(settings, weather))
        for member in fleet.members:
            fleet.boot(member)
        living = [ground.loop.start(Process("user"), who.live()) for who in (users, operators)]
        storm_ms = max(SHORTEST_STORM_SHARE * duration_ms, duration_ms - weather.recover_ms - CALM_MS)
        storm.begin()
        await asyncio.sleep(storm_ms / SECOND_MS)
        storm.heal()
        await asyncio.sleep((duration_ms - storm_ms) / SECOND_MS)
        for life in living:
            if life.done():
                life.result()
        ground.history.add("world", "end")

    fleet.on_death, fleet.transport = died, network
    with heard(ground), uncollected():
        try:
            ground.loop.run_until_complete(ground.in_world(story()))
        except Stuck as error:
            ground.bug("world", error)
        for raised in ground.loop.bugs:
            ground.bug("world", raised)
        verdict = check(ground.history.events)
        fleet.end()
        ground.loop.bury()
    digest = ground.history.digest
    return Result(settings, weather, digest, verdict, ground.history, time.process_time() - started)


def _beginning(seed: int) -> tuple[int, tuple[str, ...]]:
    began, zones = BEGINNINGS[seed % len(BEGINNINGS)]
    return began + seed * 7_919 % (2 * SECOND_MS), zones


def _header(settings: Settings, weather: Weather) -> dict[str, Any]:
    return {
        "seed": settings.seed,
        "profile": weather.profile.value,
        "mode": weather.mode,
        "faults": weather.names,
        "hours": settings.hours,
        "jobs": settings.jobs,
        "skew_ms": SKEW_MS if Fault.SKEW in weather else 0,
        "restart_ms": RESTART_MS,
        "timeout_ms": LONGEST_TIMEOUT_MS,
        "late_ms": weather.late_ms,
        "recover_ms": weather.recover_ms,
        "calm_ms": weather.calm_ms,
    }


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """No garbage collection: it would close coroutines of the dead, at moments that no seed decides."""
    was = gc.isenabled()
    gc.disable()
    gc.freeze()  # the collection at the end need not look at what was there before
    try:
        yield
    finally:
        gc.unfreeze()
        if was:
            gc.enable()


class _Ears(logging.Handler):
    """The product's log says when something was raised that nobody expected."""

    def __init__(self, ground: Ground) -> None:
        super().__init__(logging.ERROR)
        self._ground = ground

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[1] is not None:
            self._ground.bug(record.name, record.exc_info[1])


@contextlib.contextmanager
def heard(ground: Ground) -> Iterator[None]:
    """While it runs, the product's log goes to the history where it tells of a bug, and nowhere else."""
    log, ears = logging.getLogger("schedkit"), _Ears(ground)
    kept = log.handlers[:], log.propagate, log.level
    log.handlers, log.propagate = [ears], False
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.handlers, log.propagate = kept[0], kept[1]
        log.setLevel(kept[2])
