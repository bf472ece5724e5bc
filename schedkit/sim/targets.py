"""The targets of a simulation: they do as their name says, and remember every call.

http://ok.example/       answers 200 within some milliseconds
http://flaky.example/    fails one call in four: 503 (now and then with Retry-After), 500, a reset
http://slow.example/     takes up to twice the usual timeout
http://wrong.example/    now and then answers 400: permanent
http://hang.example/     now and then never answers
http://down.example/     refuses connections while it is down
"""

from __future__ import annotations

import asyncio
from itertools import count
from random import Random
from typing import Final

from schedkit.model.calls import Answered, Call, NoAnswer, NotSent, Reply
from schedkit.model.keys import parse_run_id
from schedkit.model.time import SECOND_MS
from schedkit.sim.faults import Fault
from schedkit.sim.ground import Ground, SimClock, Wire

NETWORK_MS: Final = (0.5, 5.0)
USUAL_MS: Final = (1.0, 40.0)
SLOW_MS: Final = (100.0, 20_000.0)
HOSTS: Final = ("ok", "flaky", "slow", "wrong", "hang", "down")


class TargetServer:
    """All targets; they behave once there are faults, and answer 200 in a calm world."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._chance: Random = ground.chance("targets")
        self._calls = count(1)
        self._moody = Fault.TARGETS in ground.weather
        self.down: set[str] = set()
        self.in_flight = 0

    def called(self, node: str, own: int | None, call: Call) -> int:
        number = next(self._calls)
        key = call.headers["Idempotency-Key"]
        job, scheduled_for = parse_run_id(key)
        self._ground.history.add(
            node,
            "target.call",
            call=number,
            key=key,
            job=job,
            scheduled_for=scheduled_for,
            token=int(call.headers["X-Fencing-Token"]),
            attempt=int(call.headers["X-Attempt"]),
            timeout_ms=call.timeout_ms,
            own=own,
            url=call.url,
        )
        return number

    def request(self, number: int, call: Call, answer: asyncio.Future[Reply]) -> None:
        """It reaches its target after a while, whatever becomes of the caller."""
        host = call.url.partition("://")[2].partition(".")[0]
        if host in self.down:
            self._ground.later(self._between(NETWORK_MS), _answer, answer, NotSent("connection refused"))
        else:
            self._ground.later(self._between(NETWORK_MS), self._arrived, number, host, answer)

    def _arrived(self, number: int, host: str, answer: asyncio.Future[Reply]) -> None:
        reply, takes_ms, does = self._mood(host)
        if does:
            self._ground.history.add(host, "target.effect", call=number)
        if takes_ms is not None:
            self.in_flight += 1
            self._ground.later(takes_ms, self._reply, number, host, answer, reply)

    def _reply(self, number: int, host: str, answer: asyncio.Future[Reply], reply: Reply) -> None:
        self.in_flight -= 1
        status = reply.http_status if isinstance(reply, Answered) else None
        wait = reply.retry_after if isinstance(reply, Answered) else None
        asked = {} if wait is None else {"retry_after_ms": int(wait) * SECOND_MS}
        self._ground.history.add(host, "target.reply", call=number, status=status, **asked)
        self._ground.later(self._between(NETWORK_MS), _answer, answer, reply)

    def _mood(self, host: str) -> tuple[Reply, float | None, bool]:
        """(the reply, after how long or never, whether it does what it was asked)."""
        takes_ms = self._between(USUAL_MS)
        if not self._moody:
            return Answered(200), takes_ms, True
        roll = self._chance.random()
        match host:
            case "flaky" if roll < 0.15:
                wait = str(self._chance.randrange(1, 20)) if roll < 0.05 else None
                return Answered(503, retry_after=wait), takes_ms, False
            case "flaky" if roll < 0.2:
                return Answered(500), takes_ms, True
            case "flaky" if roll < 0.25:
                return NoAnswer("connection reset"), takes_ms, True
            case "slow":
                return Answered(200), self._between(SLOW_MS), True
            case "wrong" if roll < 0.2:
                return Answered(400), takes_ms, False
            case "hang" if roll < 0.2:
                return NoAnswer("no answer"), None, roll < 0.1
        return Answered(200), takes_ms, True

    def _between(self, bounds: tuple[float, float]) -> float:
        low, high = bounds
        return low + (high - low) * self._chance.random()


class TargetLine:
    """The `Targets` of one process."""

    def __init__(self, wire: Wire, ground: Ground, server: TargetServer, node: str, clock: SimClock | None) -> None:
        """`clock`: by which the caller may not be early; None for a worker, for which its API looked at the clock."""
        self._wire = wire
        self._ground = ground
        self._server = server
        self._node = node
        self._clock = clock

    async def call(self, call: Call) -> Reply:
        if not call.url:
            return NotSent("the target is not registered", permanent=True)
        await self._wire.point("before", "call")
        reply = await self._called(call)
        await self._wire.point("after", "call")
        return reply

    async def _called(self, call: Call) -> Reply:
        number = self._server.called(self._node, self._clock.now() if self._clock is not None else None, call)
        answer: asyncio.Future[Reply] = self._ground.loop.create_future()
        self._server.request(number, call, answer)
        self._ground.loop.call_later(call.timeout_ms / SECOND_MS, _answer, answer, NoAnswer("no answer in time"))
        return await answer


def _answer(answer: asyncio.Future[Reply], reply: Reply) -> None:
    if not answer.done():
        answer.set_result(reply)
