"""Buckets in memory: a heap of near timers. Lost with the process and rebuilt from the store."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Sequence

from schedkit.adapters.memory.waiting import first_of
from schedkit.model.keys import TimerKind
from schedkit.model.time import Instant
from schedkit.model.timers import Timer
from schedkit.model.writes import Key
from schedkit.ports import Clock


class MemoryBuckets:
    """A timer stands once for each (item, time); adding it again changes nothing."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._heap: list[tuple[Instant, Key, TimerKind]] = []
        self._members: dict[tuple[Instant, Key], Timer] = {}
        self._earlier = asyncio.Event()
        self._marked = False

    def __len__(self) -> int:
        return len(self._members)

    async def add(self, timers: Sequence[Timer]) -> None:
        for timer in timers:
            if timer.order in self._members:
                continue
            if not self._heap or timer.at < self._heap[0][0]:
                self._earlier.set()
            self._members[timer.order] = timer
            heapq.heappush(self._heap, (timer.at, timer.key, timer.kind))

    async def due(self, now: Instant, limit: int) -> tuple[Timer, ...]:
        found: dict[tuple[Instant, Key], Timer] = {}
        while self._heap and self._heap[0][0] <= now and len(found) < limit:
            at, key, _ = heapq.heappop(self._heap)
            if (timer := self._members.get((at, key))) is not None:
                found[timer.order] = timer
        for timer in found.values():
            heapq.heappush(self._heap, (timer.at, timer.key, timer.kind))
        return tuple(found.values())

    async def remove(self, timers: Sequence[Timer]) -> None:
        for timer in timers:
            self._members.pop(timer.order, None)
        while self._heap and self._heap[0][:2] not in self._members:
            heapq.heappop(self._heap)

    async def mark(self) -> None:
        self._marked = True

    async def marked(self) -> bool:
        return self._marked

    async def wait(self, now: Instant, at_most_ms: int) -> None:
        wait_ms = min(at_most_ms, self._heap[0][0] - now) if self._heap else at_most_ms
        self._earlier.clear()
        if wait_ms <= 0:
            return
        await first_of(self._clock.sleep(wait_ms), self._earlier.wait())
