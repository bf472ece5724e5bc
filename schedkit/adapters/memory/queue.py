"""The queue in memory: work that is due, by priority; recoverable because every message is a timer in the store."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence

from schedkit.model.jobs import Priority
from schedkit.model.time import Instant
from schedkit.model.timers import Timer
from schedkit.model.writes import Key
from schedkit.ports import Clock


class MemoryQueue:
    """A message that is already waiting or in hand is not taken in twice."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ready: dict[Priority, OrderedDict[tuple[Instant, Key], Timer]] = {p: OrderedDict() for p in Priority}
        self._taken: dict[tuple[Instant, Key], Timer] = {}
        self._arrived: dict[Priority, asyncio.Event] = {p: asyncio.Event() for p in Priority}
        self._delays: dict[tuple[Instant, Key], asyncio.Task[None]] = {}

    def ready(self, priority: Priority) -> int:
        return len(self._ready[priority])

    async def send(self, timers: Sequence[Timer]) -> None:
        for timer in timers:
            if timer.order not in self._taken:
                self._put(timer)

    async def receive(self, priority: Priority, limit: int) -> tuple[Timer, ...]:
        ready = self._ready[priority]
        while not ready:
            self._arrived[priority].clear()
            await self._arrived[priority].wait()
        batch = [ready.popitem(last=False) for _ in range(min(limit, len(ready)))]
        self._taken.update(batch)
        return tuple(timer for _, timer in batch)

    async def done(self, timer: Timer) -> None:
        self._taken.pop(timer.order, None)

    async def again(self, timer: Timer, delay_ms: int) -> None:
        self._delays[timer.order] = asyncio.ensure_future(self._later(timer, delay_ms))

    async def _later(self, timer: Timer, delay_ms: int) -> None:
        await self._clock.sleep(delay_ms)
        del self._delays[timer.order]
        self._taken.pop(timer.order, None)
        self._put(timer)

    def _put(self, timer: Timer) -> None:
        self._ready[timer.priority].setdefault(timer.order, timer)
        self._arrived[timer.priority].set()
