"""The queue in memory: work that is due, by priority; recoverable because every message is a timer in the store."""

from __future__ import annotations

import asyncio
import heapq
from collections import OrderedDict, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from schedkit.adapters.memory.waiting import first_of
from schedkit.model.jobs import Priority
from schedkit.model.time import Instant
from schedkit.model.timers import Timer
from schedkit.model.writes import Key
from schedkit.ports import Clock

_RANK: Final = {priority: rank for rank, priority in enumerate(Priority)}  # CRITICAL first


@dataclass(slots=True)
class _Line:
    """The tasks of one task queue, by priority and then by time."""

    heap: list[tuple[int, Instant, Key]] = field(default_factory=list)
    tasks: dict[tuple[Instant, Key], Timer] = field(default_factory=dict)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    asking: int = 0

    def put(self, timer: Timer) -> None:
        if timer.order not in self.tasks:
            self.tasks[timer.order] = timer
            heapq.heappush(self.heap, (_RANK[timer.priority], timer.at, timer.key))
        self.arrived.set()

    def take(self, limit: int) -> tuple[Timer, ...]:
        taken = [heapq.heappop(self.heap) for _ in range(min(limit, len(self.heap)))]
        return tuple(self.tasks.pop((at, key)) for _, at, key in taken)


class MemoryQueue:
    """A message that is waiting is not taken in twice. One that is in hand is: its timer may have been set anew."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ready: dict[Priority, OrderedDict[tuple[Instant, Key], Timer]] = {p: OrderedDict() for p in Priority}
        self._arrived: dict[Priority, asyncio.Event] = {p: asyncio.Event() for p in Priority}
        self._lines: defaultdict[str, _Line] = defaultdict(_Line)
        self._delays: set[asyncio.Task[None]] = set()

    def ready(self, priority: Priority) -> int:
        return len(self._ready[priority])

    def waiting(self) -> dict[str, tuple[int, Instant]]:
        """For each task queue with tasks: how many wait, and since when the first of them does."""
        return {
            name: (len(line.tasks), min(at for at, _ in line.tasks)) for name, line in self._lines.items() if line.tasks
        }

    async def send(self, timers: Sequence[Timer]) -> None:
        for timer in timers:
            self._put(timer)

    async def receive(self, priority: Priority, limit: int) -> tuple[Timer, ...]:
        ready = self._ready[priority]
        while not ready:
            self._arrived[priority].clear()
            await self._arrived[priority].wait()
        return tuple(ready.popitem(last=False)[1] for _ in range(min(limit, len(ready))))

    async def take(self, task_line: str, limit: int, wait_ms: int) -> tuple[Timer, ...]:
        line = self._lines[task_line]
        line.asking += 1
        try:
            if not line.tasks and wait_ms > 0:
                line.arrived.clear()
                await first_of(line.arrived.wait(), self._clock.sleep(wait_ms))
            return line.take(limit)
        finally:
            line.asking -= 1
            if not line.asking and not line.tasks:
                del self._lines[task_line]  # names that nobody asks for again would be kept for ever

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
        if timer.task_queue is not None:
            self._lines[timer.task_queue].put(timer)
            return
        self._ready[timer.priority].setdefault(timer.order, timer)
        self._arrived[timer.priority].set()
