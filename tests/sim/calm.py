"""Parts of a simulated world in which nothing goes wrong, for tests of one part."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from schedkit.model.time import parse_rfc3339
from schedkit.ports import Store
from schedkit.sim.faults import Fault, Profile, Weather
from schedkit.sim.ground import Chance, Ground, SimClock, Wire
from schedkit.sim.loop import Process
from schedkit.sim.store import StoreLine, StoreServer

T = TypeVar("T")

BEGAN = parse_rfc3339("2026-06-01T12:00:00Z")


def ground(*faults: Fault, seed: int = 1, profile: Profile = Profile.CELL, **rates: float) -> Ground:
    """A ground with these faults; `rates` as Weather has them."""
    return Ground(seed, Weather(profile, frozenset(faults), "chosen", **rates), BEGAN)  # type: ignore[arg-type]


class Unhurt:
    """Nothing happens to this process."""

    def kill(self) -> None: ...

    def stop(self) -> None: ...

    def set_clock(self) -> None: ...


class StraightWire(Wire):
    """Every request takes effect at once, in whatever loop the test runs."""

    async def ask(self, verb: str, effect: Callable[[], T], down: bool = False) -> T:
        return effect()


def simulated_store() -> Store:
    """The simulator's store without its network."""
    there = ground()
    process = Process("node")
    wire = StraightWire(there, process, "store", (0, 0), AssertionError, Unhurt())  # type: ignore[arg-type]
    return StoreLine(wire, StoreServer(there), "node", SimClock(there, there.chance("clock")))


def run(there: Ground, story: Coroutine[Any, Any, T], process: Process | None = None) -> T:
    """Run a story to its end on virtual time, in a process or in the world."""
    result: T = there.loop.run_until_complete(there.loop.start(process or there.loop.world, story))
    return result


__all__ = ["BEGAN", "Chance", "Unhurt", "ground", "run", "simulated_store"]
