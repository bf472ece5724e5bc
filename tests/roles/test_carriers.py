"""Buckets and queue that are away, and clocks that differ: what they carry is late at most, and never early."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from schedkit.adapters.memory.buckets import MemoryBuckets
from schedkit.adapters.memory.queue import MemoryQueue
from schedkit.adapters.memory.store import MemoryStore
from schedkit.errors import QueueUnavailable
from schedkit.model.jobs import Priority
from schedkit.model.time import parse_rfc3339
from schedkit.model.timers import Timer
from schedkit.model.writes import Item, Key
from schedkit.roles.dispatcher import Dispatcher
from schedkit.roles.executor import Executor
from schedkit.roles.loader import Loader
from schedkit.roles.pool import Pool
from tests.worlds import ManualClock, Virtual

NOON = "2026-06-01T12:00:00Z"


class AwayBuckets(MemoryBuckets):
    """Buckets that can be away."""

    away = False

    async def add(self, timers: Sequence[Timer]) -> None:
        self._look()
        await super().add(timers)

    async def due(self, now: int, limit: int) -> tuple[Timer, ...]:
        self._look()
        return await super().due(now, limit)

    def _look(self) -> None:
        if self.away:
            raise QueueUnavailable("the buckets are away")


class AwayQueue(MemoryQueue):
    """A queue that can be away."""

    away = False

    async def send(self, timers: Sequence[Timer]) -> None:
        if self.away:
            raise QueueUnavailable("the queue is away")
        await super().send(timers)

    async def receive(self, priority: Priority, limit: int) -> tuple[Timer, ...]:
        if self.away:
            raise QueueUnavailable("the queue is away")
        return await super().receive(priority, limit)


async def serving(world: Virtual) -> tuple[AwayBuckets, AwayQueue]:
    """A scheduler whose buckets and queue can be taken away, and whose API is the world's."""
    buckets, queue = AwayBuckets(world.clock), AwayQueue(world.clock)
    ports = replace(world.new_world(), buckets=buckets, queue=queue)
    executor = Executor(ports)
    world.start(Loader(ports).serve())
    world.start(Dispatcher(ports).serve())
    for priority in Priority:
        world.start(Pool(ports, priority, executor.handle).serve())
    world._clients.append(world.client_of(ports))
    await world.wait(ms=1)
    return buckets, queue


async def test_a_create_is_accepted_while_the_buckets_are_away_and_the_sweep_finds_it() -> None:
    """W11: the timer stands in the store, so a cache is no reason to refuse."""
    async with Virtual("2026-06-01T11:59:50Z") as world:
        buckets, _ = await serving(world)
        buckets.away = True
        creating = world.start(world.create({"type": "ONCE", "run_at": NOON}))
        await world.wait(seconds=5)
        assert creating.done()
        buckets.away = False
        await world.wait(minutes=3)
        assert world.targets.times() == [NOON]


@pytest.mark.parametrize("which", ["buckets", "queue"])
async def test_the_roles_outlive_an_outage_of_what_carries_the_work(which: str) -> None:
    async with Virtual("2026-06-01T11:59:50Z") as world:
        buckets, queue = await serving(world)
        await world.create("* * * * *")
        carrier = buckets if which == "buckets" else queue
        await world.wait(seconds=5)
        carrier.away = True
        await world.wait(seconds=60)
        assert world.targets.calls == []
        carrier.away = False
        await world.wait(minutes=4)
        assert world.targets.times()[-1] == "2026-06-01T12:04:00Z"
        assert len(world.targets.calls) >= 4


async def test_an_executor_whose_clock_is_behind_puts_a_message_off_and_loses_no_timer() -> None:
    """H3: the dispatcher's clock is right and the executor's two seconds behind: it runs when both say so, and at once
    then: nothing waits for a sweep."""
    async with Virtual("2026-06-01T11:59:50Z") as world:
        ports = world.new_world()
        late = replace(ports, clock=Behind(world.clock, -2_000))
        executor = Executor(late)
        world.start(Loader(ports).serve())
        world.start(Dispatcher(ports).serve())
        for priority in Priority:
            world.start(Pool(late, priority, executor.handle).serve())
        world._clients.append(world.client_of(ports))
        await world.create({"type": "ONCE", "run_at": NOON})
        await world.wait_until("2026-06-01T12:00:01.900Z")
        assert world.targets.calls == [], "never early by its own clock"
        await world.wait_until("2026-06-01T12:00:03Z")
        assert [made.at - parse_rfc3339(NOON) for made in world.targets.calls] == [2_000]


class Behind:
    """A clock that is off by some ms; it sleeps as the true one does."""

    def __init__(self, clock: ManualClock, offset_ms: int) -> None:
        self._clock = clock
        self.offset_ms = offset_ms

    def now(self) -> int:
        return self._clock.now() + self.offset_ms

    async def sleep(self, duration_ms: float) -> None:
        await self._clock.sleep(duration_ms)


async def test_a_clock_that_is_set_back_while_the_job_is_read_puts_the_message_off() -> None:
    """H3: by the time the plan is made it is too early again, and then the message must not be done with."""
    async with Virtual("2026-06-01T11:59:50Z") as world:
        job = await world.create({"type": "ONCE", "run_at": NOON})
        ports = world.new_world()
        clock = Behind(world.clock, 0)
        store = SetsBack(world.store, clock)
        executor = Executor(replace(ports, clock=clock, store=store))
        (due,) = await world.store.timers("D#0", until=parse_rfc3339(NOON), limit=1)
        await world.wait_until(NOON)
        assert await executor.handle(due) == 1_000
        assert world.targets.calls == []
        await world.wait(seconds=1)
        assert await executor.handle(due) is None
        assert await world.told(job["job_id"]) == [("12:00:00", "SUCCEEDED")]


class SetsBack(MemoryStore):
    """A store during whose first read somebody sets the clock back by a second."""

    def __init__(self, store: object, clock: Behind) -> None:
        assert isinstance(store, MemoryStore)
        self.__dict__ = store.__dict__
        self._clock: Behind = clock
        self._read = False

    async def get(self, key: Key) -> Item | None:
        if not self._read:
            self._read, self._clock.offset_ms = True, -1_000
        return await super().get(key)
