"""Failpoints: places where a process stops or kills itself, to practise what happens to work that it has in hand.

    SCHEDKIT_FAILPOINT=after_call:stop          SIGSTOP to itself when a target has answered, before that is recorded
    SCHEDKIT_FAILPOINT=after_commit:kill:0.01   SIGKILL to itself after one commit in a hundred, before it hears of it

    point    before_call   after_call   before_commit   after_commit
    action   stop   kill
    a third part is the probability of each pass; several are separated by commas

Signals from outside hardly ever hit the moment between a call and its record, and that is the one that matters.
Wrapped around the ports of a world, and only where the variable is set.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

from schedkit.adapters.observed import ObservedStore
from schedkit.errors import InvalidInput, Reason
from schedkit.model.calls import Call, Reply
from schedkit.model.time import Instant
from schedkit.model.writes import Outcome, Write
from schedkit.ports import Chance, Store, Targets, World

VARIABLE: Final = "SCHEDKIT_FAILPOINT"


class Point(StrEnum):
    BEFORE_CALL = "before_call"
    AFTER_CALL = "after_call"
    BEFORE_COMMIT = "before_commit"
    AFTER_COMMIT = "after_commit"


SIGNALS: Final[Mapping[str, signal.Signals]] = {"stop": signal.SIGSTOP, "kill": signal.SIGKILL}


@dataclass(frozen=True, slots=True)
class Failpoint:
    """What happens, where, and how likely it is each time."""

    point: Point
    action: str
    probability: float = 1.0


def read(text: str) -> tuple[Failpoint, ...]:
    """The failpoints that a value names. Raises InvalidInput for one that is not understood."""
    return tuple(_read(part.strip()) for part in text.split(",") if part.strip())


def _read(part: str) -> Failpoint:
    point, _, rest = part.partition(":")
    action, _, probability = rest.partition(":")
    with contextlib.suppress(ValueError):
        found = Failpoint(Point(point), action, float(probability or 1))
        if action in SIGNALS and 0 < found.probability <= 1:
            return found
    raise InvalidInput(
        Reason.INVALID_ARGUMENT,
        f"{VARIABLE}: {part!r} is no failpoint",
        field=VARIABLE,
        why="a failpoint that is not understood would practise nothing",
        fix=(
            f"write POINT:ACTION or POINT:ACTION:PROBABILITY, with one of {', '.join(Point)}; {' or '.join(SIGNALS)};"
            " and a number above 0 and at most 1",
            f"an example: {VARIABLE}=after_call:stop:0.12",
        ),
    )


def armed(world: World, text: str | None) -> World:
    """The world with the failpoints of a value around its ports; the same world where there are none."""
    failpoints = read(text) if text else ()
    if not failpoints:
        return world
    trap = Trap(world.chance, failpoints)
    return replace(world, store=TrappedStore(world.store, trap), targets=TrappedTargets(world.targets, trap))


def bare(port: Store | Targets) -> Any:
    """The adapter itself, whatever is around it."""
    while isinstance(port, TrappedStore | TrappedTargets | ObservedStore):
        port = port.inner
    return port


class Trap:
    """Draws at each pass, and does what was drawn."""

    def __init__(self, chance: Chance, failpoints: Sequence[Failpoint]) -> None:
        self._chance = chance
        self._failpoints = tuple(failpoints)
        self._open = asyncio.Event()
        self._open.set()
        self._idle = asyncio.Event()
        self._idle.set()
        self._writing = 0

    async def passing(self, point: Point) -> None:
        """Go on, or stop, or end."""
        for failpoint in self._failpoints:
            if failpoint.point is point and self._chance.draw() < failpoint.probability:
                await self._do(failpoint.action)

    @contextlib.asynccontextmanager
    async def write(self) -> AsyncIterator[None]:
        """A write is under way in here."""
        await self._open.wait()
        self._writing += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._writing -= 1
            if not self._writing:
                self._idle.set()

    async def _do(self, action: str) -> None:
        """A stop waits until no write is under way: a file's lock, held by a stopped process, would stop the others."""
        if action == "stop":
            self._open.clear()
            await self._idle.wait()
        os.kill(os.getpid(), SIGNALS[action])
        self._open.set()


class TrappedStore:
    """A `Store` with failpoints around its writes."""

    def __init__(self, inner: Store, trap: Trap) -> None:
        self.inner = inner
        self.get = inner.get
        self.timers = inner.timers
        self.page = inner.page
        self._trap = trap

    async def apply(self, write: Write) -> Outcome:
        return await self.apply_all((write,))

    async def apply_all(self, writes: Sequence[Write]) -> Outcome:
        await self._trap.passing(Point.BEFORE_COMMIT)
        async with self._trap.write():
            outcome = await self.inner.apply_all(writes)
        await self._trap.passing(Point.AFTER_COMMIT)
        return outcome

    async def expire(self, now: Instant, limit: int) -> int:
        async with self._trap.write():
            return await self.inner.expire(now, limit)


class TrappedTargets:
    """`Targets` with failpoints around each call."""

    def __init__(self, inner: Targets, trap: Trap) -> None:
        self.inner = inner
        self._trap = trap

    async def call(self, call: Call) -> Reply:
        await self._trap.passing(Point.BEFORE_CALL)
        reply = await self.inner.call(call)
        await self._trap.passing(Point.AFTER_CALL)
        return reply
