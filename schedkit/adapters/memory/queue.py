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
    """A message that is waiting is not taken in twice. One that is in hand is: its timer may have been set anew."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ready: dict[Priority, OrderedDict[tuple[Instant, Key], Timer]] = {p: OrderedDict() for p in Priority}
        self._arrived: dict[Priority, asyncio.Event] = {p: asyncio.Event() for p in Priority}
        self._delays: set[asyncio.Task[None]] = set()

    def ready(self, priority: Priority) -> int:
        return len(self._ready[priority])

    async def send(self, timers: Sequence[Timer]) -> None:
        for timer in timers:
            self._put(timer)

    async def receive(self, priority: Priority, limit: int) -> tuple[Timer, ...]:
        ready = self._ready[priority]
        while not ready:
            self._arrived[priority].clear()
            await self._arrived[priority].wait()
        return tuple(ready.popitem(last=False)[1] for _ in range(min(limit, len(ready))))

    async def done(self, timer: Timer) -> None:
        """Nothing is kept of a message in hand: should it be lost with its process, its timer stands in the store."""

    async def again(self, timer: Timer, delay_ms: int) -> None:
        task = asyncio.ensure_future(self._later(timer, delay_ms))
        self._delays.add(task)
        task.add_done_callback(self._delays.discard)

    async def _later(self, timer: Timer, delay_ms: int) -> None:
        await self._clock.sleep(delay_ms)
        self._put(timer)

    def _put(self, timer: Timer) -> None:
        self._ready[timer.priority].setdefault(timer.order, timer)
        self._arrived[timer.priority].set()
