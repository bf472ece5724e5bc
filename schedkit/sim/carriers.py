"""Buckets and queue as servers that processes share, with what such servers do: lose things, deliver twice, be away.

BucketServer   a sorted set of near timers (a cache: it can be emptied)
QueueServer    messages by priority; what is received is hidden for 15 s, and comes again unless it is done
"""

from __future__ import annotations

import asyncio
import heapq
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Final

from schedkit.model.jobs import Priority
from schedkit.model.keys import TimerKind
from schedkit.model.time import SECOND_MS, Instant
from schedkit.model.timers import Timer
from schedkit.model.writes import Key
from schedkit.sim.ground import Ground, SimClock, Wire

VISIBILITY_MS: Final = 15 * SECOND_MS  # H2: short, so that a lost receive costs little
LONG_POLL_MS: Final = 20 * SECOND_MS
LARGEST_RECEIVE: Final = 10
MOST_RECEIVES: Final = 10  # F7: after these a message is poison
LONGEST_REORDER_MS: Final = 2_000


class BucketServer:
    """Near timers of all shards, in order."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._heap: list[tuple[Instant, Key, TimerKind]] = []
        self._members: dict[tuple[Instant, Key], Timer] = {}
        self._waiting: dict[int, asyncio.Future[None]] = {}
        self._asked = 0
        self.marked = False
        self.down = False

    def add(self, timers: Sequence[Timer]) -> None:
        earliest = self._heap[0][0] if self._heap else None
        for timer in timers:
            if timer.order not in self._members:
                self._members[timer.order] = timer
                heapq.heappush(self._heap, (timer.at, timer.key, timer.kind))
        if self._heap and (earliest is None or self._heap[0][0] < earliest):
            self._wake()

    def due(self, now: Instant, limit: int) -> tuple[Timer, ...]:
        self._tidy()
        if not self._heap or self._heap[0][0] > now:
            return ()
        found = sorted(order for order in self._members if order[0] <= now)
        return tuple(self._members[order] for order in found[:limit])

    def remove(self, timers: Sequence[Timer]) -> None:
        for timer in timers:
            self._members.pop(timer.order, None)

    def mark(self) -> None:
        self.marked = True

    def next_at(self) -> Instant | None:
        self._tidy()
        return self._heap[0][0] if self._heap else None

    def lose(self, share: float, chance: Random) -> int:
        """A cache forgets this share of its members; returns how many."""
        self.marked = self.marked and chance.random() >= share
        lost = [order for order in self._members if chance.random() < share]
        for order in lost:
            del self._members[order]
        return len(lost)

    def wait(self) -> tuple[int, asyncio.Future[None]]:
        """A number, and what is done when a timer comes that is earlier than all others."""
        self._asked += 1
        waits: asyncio.Future[None] = self._ground.loop.create_future()
        self._waiting[self._asked] = waits
        return self._asked, waits

    def leave(self, number: int) -> None:
        self._waiting.pop(number, None)

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for waits in waiting.values():
            if not waits.done():
                waits.set_result(None)

    def _tidy(self) -> None:
        while self._heap and self._heap[0][:2] not in self._members:
            heapq.heappop(self._heap)


class BucketLine:
    """The `Buckets` of one process."""

    def __init__(self, wire: Wire, server: BucketServer, clock: SimClock) -> None:
        self.wire = wire
        self._server = server
        self._clock = clock

    async def add(self, timers: Sequence[Timer]) -> None:
        await self.wire.ask("add", partial(self._server.add, tuple(timers)), self._server.down)

    async def due(self, now: Instant, limit: int) -> tuple[Timer, ...]:
        return await self.wire.ask("due", partial(self._server.due, now, limit), self._server.down)

    async def remove(self, timers: Sequence[Timer]) -> None:
        await self.wire.ask("remove", partial(self._server.remove, tuple(timers)), self._server.down)

    async def mark(self) -> None:
        await self.wire.ask("mark", self._server.mark, self._server.down)

    async def marked(self) -> bool:
        server = self._server
        return await self.wire.ask("marked", lambda: server.marked, server.down)

    async def wait(self, now: Instant, at_most_ms: int) -> None:
        server = self._server
        number, earlier = server.wait()
        try:
            at = await self.wire.ask("next", server.next_at, server.down)
            wait_ms = at_most_ms if at is None else min(at_most_ms, at - now)
            if wait_ms <= 0:
                return
            sleep = asyncio.ensure_future(self._clock.sleep(wait_ms))
            await asyncio.wait((sleep, earlier), return_when=asyncio.FIRST_COMPLETED)
            sleep.cancel()
        finally:
            server.leave(number)


@dataclass(slots=True, eq=False)
class Message:
    timer: Timer
    receives: int = 0
    hidden: bool = False
    gone: bool = False


@dataclass(slots=True)
class _Line:
    """What stands in one priority's queue, and who waits for it."""

    visible: deque[Message] = field(default_factory=deque)
    waiting: deque[tuple[asyncio.Future[list[Message]], int]] = field(default_factory=deque)


class QueueServer:
    """At least once, roughly in order: a line for each priority, and for each task queue."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._lines: defaultdict[str, _Line] = defaultdict(_Line)
        self._chance = ground.chance("queue")
        self.down = False

    def ready(self, priority: Priority) -> int:
        return len(self._lines[priority].visible)

    def purge(self) -> int:
        """Somebody empties it: what is in hand goes on, what waits is gone. Returns how many."""
        waiting = [message for line in self._lines.values() for message in line.visible]
        for message in waiting:
            message.gone = True
        return len(waiting)

    def send(self, node: str, timers: Sequence[Timer], delay_ms: float = 0) -> None:
        for timer in timers:
            _tell(self._ground, node, "queue.send", timer)
            if self._happens(self._ground.weather.vanish):
                self._ground.nemesis("vanished", "queue")
                continue
            self._show(Message(timer), delay_ms)
            if self._happens(self._ground.weather.duplicate):
                self._ground.nemesis("duplicate", "queue")
                self._show(Message(timer), delay_ms + self._chance.random() * LONGEST_REORDER_MS)

    def receive(self, name: str, limit: int, wait_ms: int = LONG_POLL_MS) -> asyncio.Future[list[Message]]:
        """What is visible, or what becomes so within the long poll; empty after it."""
        answer: asyncio.Future[list[Message]] = self._ground.loop.create_future()
        line = self._lines[name]
        line.waiting.append((answer, min(limit, LARGEST_RECEIVE)))
        self._ground.later(min(wait_ms, LONG_POLL_MS), self._end_poll, line, answer)
        self._serve(line)
        return answer

    def done(self, node: str, message: Message) -> None:
        message.gone = True
        _tell(self._ground, node, "queue.done", message.timer)

    def again(self, node: str, message: Message | None, timer: Timer, delay_ms: int) -> None:
        """F5: send it anew with a delay, and delete this one: to be put off is not to be received once more."""
        self.send(node, (timer,), delay_ms)
        if message is not None:
            message.gone = True

    def _happens(self, rate: float) -> bool:
        return self._ground.storming and rate > 0 and self._chance.random() < rate

    def _show(self, message: Message, delay_ms: float = 0) -> None:
        if delay_ms > 0:
            self._ground.later(delay_ms, self._show, message)
        elif not message.gone:
            message.hidden = False
            line = self._lines[message.timer.task_queue or message.timer.priority]
            line.visible.append(message)
            self._serve(line)

    def _serve(self, line: _Line) -> None:
        while line.visible and line.waiting:
            answer, limit = line.waiting.popleft()
            if answer.done():
                continue
            taken = [self._take(line.visible.popleft()) for _ in range(min(limit, len(line.visible)))]
            answer.set_result([message for message in taken if message is not None])

    def _take(self, message: Message) -> Message | None:
        if message.gone:
            return None
        message.receives += 1
        if message.receives > MOST_RECEIVES:
            message.gone = True
            _tell(self._ground, "world", "queue.poison", message.timer)
            return None
        message.hidden = True
        self._ground.later(VISIBILITY_MS, self._reappear, message, message.receives)
        return message

    def _reappear(self, message: Message, receives: int) -> None:
        if message.hidden and not message.gone and message.receives == receives:
            self._show(message)

    def _end_poll(self, line: _Line, answer: asyncio.Future[list[Message]]) -> None:
        if not answer.done():
            answer.set_result([])


class QueueLine:
    """The `Queue` of one process; it keeps the receipts of what it has in hand."""

    def __init__(self, wire: Wire, server: QueueServer, ground: Ground, node: str) -> None:
        self.wire = wire
        self._server = server
        self._ground = ground
        self._node = node
        self._in_hand: dict[Timer, list[Message]] = {}

    async def send(self, timers: Sequence[Timer]) -> None:
        await self.wire.ask("send", partial(self._server.send, self._node, tuple(timers)), self._server.down)

    async def receive(self, priority: Priority, limit: int) -> tuple[Timer, ...]:
        server = self._server
        while True:
            poll = await self.wire.ask("receive", lambda: server.receive(priority, limit), server.down)
            if messages := await poll:
                return self._received(messages)

    async def take(self, task_line: str, limit: int, wait_ms: int) -> tuple[Timer, ...]:
        server = self._server
        poll = await self.wire.ask("take", lambda: server.receive(task_line, limit, wait_ms), server.down)
        return self._received(await poll)

    async def done(self, timer: Timer) -> None:
        message = self._receipt(timer)
        if message is not None:
            await self.wire.ask("done", partial(self._server.done, self._node, message), self._server.down)

    async def again(self, timer: Timer, delay_ms: int) -> None:
        put_off = partial(self._server.again, self._node, self._receipt(timer), timer, delay_ms)
        await self.wire.ask("again", put_off, self._server.down)

    def _received(self, messages: Sequence[Message]) -> tuple[Timer, ...]:
        for message in messages:
            self._in_hand.setdefault(message.timer, []).append(message)
            _tell(self._ground, self._node, "queue.receive", message.timer)
        return tuple(message.timer for message in messages)

    def _receipt(self, timer: Timer) -> Message | None:
        receipts = self._in_hand.get(timer)
        if not receipts:
            return None
        message = receipts.pop(0)
        if not receipts:
            del self._in_hand[timer]
        return message


def _tell(ground: Ground, node: str, kind: str, timer: Timer) -> None:
    partition, sort = timer.key
    ground.history.add(node, kind, partition=partition, sort=sort, at=timer.at, priority=timer.priority.value)
