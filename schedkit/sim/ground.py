"""The ground a simulation stands on: true time, the history, chance by purpose, and wires that lose things.

    caller ── request ──► server: the effect happens here, whatever becomes of the caller ── reply ──► caller

A request or a reply is lost, late, or refused; the caller may be killed or stopped, or its clock be set, right before
its request leaves, or right after the effect. What travels does so in the `world`: a caller that dies takes nothing
along.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, Final, Protocol, TypeVar

from schedkit.errors import SchedkitError
from schedkit.model.time import SECOND_MS, Instant
from schedkit.sim.faults import Fault, Weather
from schedkit.sim.history import History
from schedkit.sim.loop import Process, SimLoop

T = TypeVar("T")


class Hurts(Protocol):
    """What can be done to a process at one of its own calls."""

    def kill(self) -> None: ...

    def stop(self) -> None: ...

    def set_clock(self) -> None: ...


TARGETS: Final = "targets"
GIVES_UP_MS: Final = 1_000  # a caller waits this long for a reply
REFUSES_AFTER_MS: Final = 10.0
LONGEST_DELAY_MS: Final = 3_000  # a delayed request takes effect within this
EARLY_MS: Final = 0.9  # event loops wake this much too early (uvloop does)

_ROUNDING: Final = 1e-6  # virtual seconds are floats


class Chance:
    """The `Chance` port from one seed."""

    def __init__(self, seed: str) -> None:
        self._random = Random(seed)
        self.draw = self._random.random

    def bytes(self, count: int) -> bytes:
        return self._random.randbytes(count)


class Ground:
    """What all parts of one simulation share."""

    def __init__(self, seed: int, weather: Weather, began: Instant) -> None:
        self.seed = seed
        self.weather = weather
        self.began = began
        self.storming = bool(weather.faults)
        self.loop = SimLoop(self.chance("order"))
        self.history = History(self.now)
        self.messages = self.chance("messages")

    def chance(self, purpose: str) -> Random:
        """A stream of chance of its own, so that one part drawing more does not change the others."""
        return Random(f"{self.seed}/{purpose}")

    def now(self) -> Instant:
        """True time in ms."""
        return self.began + math.floor(self.loop.time() * SECOND_MS + _ROUNDING)

    def later(self, delay_ms: float, act: Callable[..., Any], *args: Any) -> None:
        """Do this in the world after a while."""
        self.loop.call_later(delay_ms / SECOND_MS, act, *args, context=self.loop.world.context)

    def in_world(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        return self.loop.start(self.loop.world, work)

    def nemesis(self, fault: str, on: str, **details: Any) -> None:
        self.history.add("world", "nemesis", fault=fault, on=on, **details)

    def bug(self, node: str, error: BaseException | str) -> None:
        """Something raised that should not: the run has failed, whatever else it shows."""
        self.history.add(
            node, "bug", error=f"{type(error).__name__}: {error}" if isinstance(error, Exception) else error
        )


class SimClock:
    """The clock of one machine: off by `offset_ms`, and drifting. Its sleeps may end early."""

    def __init__(self, ground: Ground, chance: Random) -> None:
        self._ground = ground
        self._chance = chance
        self._early = Fault.EARLY in ground.weather
        self.offset_ms = 0.0
        self.drift_ppm = 0.0
        self._set_at = ground.now()

    def now(self) -> Instant:
        true = self._ground.now()
        if not self.offset_ms and not self.drift_ppm:
            return true
        return math.floor(true + self.offset_ms + (true - self._set_at) * self.drift_ppm / 1_000_000)

    async def sleep(self, duration_ms: float) -> None:
        if self._early and duration_ms > 1:
            duration_ms -= self._chance.random() * EARLY_MS
        await asyncio.sleep(max(0.0, duration_ms) / SECOND_MS)

    def set(self, offset_ms: float, drift_ppm: float) -> None:
        """Somebody sets it; time does not pass by that."""
        self.offset_ms, self.drift_ppm = offset_ms, drift_ppm
        self._set_at = self._ground.now()


class Wire:
    """From one process to one server."""

    def __init__(
        self,
        ground: Ground,
        process: Process,
        server: str,
        leg_ms: tuple[float, float],
        unavailable: Callable[[str], SchedkitError],
        hurts: Hurts,
    ) -> None:
        """`leg_ms`: how long a request or a reply travels, from … to."""
        self._ground = ground
        self._process = process
        self._server = server
        self._leg_ms = leg_ms
        self._unavailable = unavailable
        self._hurts = hurts
        weather = ground.weather
        # Between a look at the clock and the call of a target no program can help it: no clock is set there.
        skew = weather.skew if server != TARGETS else 0.0
        self._points = ((weather.crash, "crash"), (weather.stop, "stop"), (skew, "skew"))
        self._pointed = sum(rate for rate, _ in self._points)
        self.cut = False

    async def ask(self, verb: str, effect: Callable[[], T], down: bool = False) -> T:
        """The effect's result, unless the weather has it otherwise. Raises what `unavailable` makes."""
        ground, weather = self._ground, self._ground.weather
        draw = ground.messages.random
        answer: asyncio.Future[T] = ground.loop.create_future()
        if not ground.storming:
            ground.later(self._leg(), self._arrive, answer, effect)
            return await answer
        await self.point("before", verb)
        after = self._drawn_point()
        roll = draw()
        if self.cut or down:
            ground.later(GIVES_UP_MS, self._fail, answer, "no connection")
        elif (roll := roll - weather.throttle) < 0:
            ground.later(REFUSES_AFTER_MS, self._fail, answer, "throttled")
        elif (roll := roll - weather.lose) < 0:
            self._lose(verb, answer, effect, after)
        elif (roll := roll - weather.delay) < 0:
            self._told("delayed", verb)
            ground.later(draw() * LONGEST_DELAY_MS, self._arrive, answer, effect)
            ground.later(GIVES_UP_MS, self._fail, answer, "no reply in time")
        else:
            ground.later(self._leg(), self._arrive, answer, effect, after, verb)
        return await answer

    async def point(self, where: str, verb: str) -> None:
        """The process may die here, or be stopped, or have its clock set."""
        if self._ground.storming and (what := self._drawn_point()) is not None:
            self._hurt(what, where, verb)
            if what == "crash":
                await self._ground.loop.create_future()
            await asyncio.sleep(0)  # one that was stopped goes on from here

    def _drawn_point(self) -> str | None:
        if not self._pointed or (roll := self._ground.messages.random()) >= self._pointed:
            return None
        for rate, what in self._points:
            if (roll := roll - rate) < 0:
                return what
        return None

    def _hurt(self, what: str, where: str, verb: str) -> None:
        if what == "crash":
            self._told("crash", verb, point=where)
            self._hurts.kill()
        elif what == "stop":
            self._hurts.stop()
        else:
            self._hurts.set_clock()

    def _leg(self) -> float:
        low, high = self._leg_ms
        return low + (high - low) * self._ground.messages.random()

    def _lose(self, verb: str, answer: asyncio.Future[T], effect: Callable[[], T], after: str | None) -> None:
        ground = self._ground
        if ground.messages.random() < 0.5:
            self._told("request_lost", verb)
        else:
            self._told("reply_lost", verb)
            ground.later(self._leg(), self._effect, effect, after, verb)
        ground.later(GIVES_UP_MS, self._fail, answer, "no reply")

    def _arrive(
        self, answer: asyncio.Future[T], effect: Callable[[], T], after: str | None = None, verb: str = ""
    ) -> None:
        self._ground.later(self._leg(), _deliver, answer, self._effect(effect, after, verb))

    def _effect(self, effect: Callable[[], T], after: str | None, verb: str) -> T:
        result = effect()
        if after is not None and self._ground.storming:
            self._hurt(after, "after", verb)
        return result

    def _fail(self, answer: asyncio.Future[Any], why: str) -> None:
        if not answer.done():
            answer.set_exception(self._unavailable(f"{self._server}: {why}"))

    def _told(self, fault: str, verb: str, **details: Any) -> None:
        self._ground.nemesis(fault, self._process.name, server=self._server, verb=verb, **details)


def _deliver(answer: asyncio.Future[T], result: T) -> None:
    if not answer.done():
        answer.set_result(result)
