"""What every kind of buckets and every kind of queue promises, on virtual time: those in memory, and those that the
simulator's processes share."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from schedkit.adapters.memory.buckets import MemoryBuckets
from schedkit.adapters.memory.queue import MemoryQueue
from schedkit.errors import QueueUnavailable
from schedkit.model.jobs import Priority
from schedkit.model.keys import TimerKind, job_key
from schedkit.model.time import SECOND_MS
from schedkit.model.timers import Timer
from schedkit.ports import Buckets, Queue
from schedkit.sim.carriers import BucketLine, BucketServer, QueueLine, QueueServer
from schedkit.sim.ground import Ground, SimClock, Wire
from schedkit.sim.loop import Process
from tests.sim.calm import BEGAN, Unhurt, ground, run

SLACK_MS = 10  # what the network of a calm simulation takes

Story = Callable[[Ground, Any], Coroutine[Any, Any, None]]


def wire(there: Ground) -> Wire:
    return Wire(there, Process("node"), "server", (0.1, 1.0), QueueUnavailable, Unhurt())


def buckets_of(kind: str, there: Ground) -> Buckets:
    clock = SimClock(there, there.chance("clock"))
    return MemoryBuckets(clock) if kind == "memory" else BucketLine(wire(there), BucketServer(there), clock)


def queue_of(kind: str, there: Ground) -> Queue:
    clock = SimClock(there, there.chance("clock"))
    return MemoryQueue(clock) if kind == "memory" else QueueLine(wire(there), QueueServer(there), there, "node")


@pytest.fixture(params=["memory", "simulated"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def with_buckets(kind: str, story: Story) -> None:
    there = ground()
    run(there, story(there, buckets_of(kind, there)))


def with_queue(kind: str, story: Story) -> None:
    there = ground()
    run(there, story(there, queue_of(kind, there)))


def timer(name: str, after_ms: int = 0, priority: Priority = Priority.DEFAULT) -> Timer:
    return Timer(BEGAN + after_ms, job_key(name), TimerKind.DUE, priority)


async def within(there: Ground, work: Awaitable[Any]) -> float:
    """How long it takes, in ms."""
    began = there.loop.time()
    await work
    return (there.loop.time() - began) * SECOND_MS


# ── buckets ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_is_due_comes_earliest_first_and_stays_until_it_is_removed(kind: str) -> None:
    async def story(there: Ground, buckets: Buckets) -> None:
        third, first, second = timer("c", 3), timer("a", 1), timer("b", 2)
        await buckets.add([third, first, second, timer("later", 1_000)])
        assert await buckets.due(BEGAN + 3, 10) == (first, second, third)
        assert await buckets.due(BEGAN + 3, 2) == (first, second)
        await buckets.remove([first, third])
        assert await buckets.due(BEGAN + 3, 10) == (second,)

    with_buckets(kind, story)


def test_a_timer_that_is_added_twice_stands_once_and_one_that_is_not_there_can_be_removed(kind: str) -> None:
    async def story(there: Ground, buckets: Buckets) -> None:
        await buckets.remove([timer("a")])
        await buckets.add([timer("a")])
        await buckets.add([timer("a"), timer("a")])
        assert await buckets.due(BEGAN, 10) == (timer("a"),)
        await buckets.remove([timer("a")])
        assert await buckets.due(BEGAN, 10) == ()

    with_buckets(kind, story)


def test_a_wait_ends_when_the_earliest_timer_comes_or_at_its_own_end(kind: str) -> None:
    async def story(there: Ground, buckets: Buckets) -> None:
        assert 1_000 <= await within(there, buckets.wait(there.now(), 1_000)) <= 1_000 + SLACK_MS
        await buckets.add([timer("a", there.now() - BEGAN + 500)])
        assert 500 - SLACK_MS <= await within(there, buckets.wait(there.now(), 1_000)) <= 500 + SLACK_MS
        assert await within(there, buckets.wait(there.now(), 1_000)) <= SLACK_MS, "it has come"

    with_buckets(kind, story)


def test_a_wait_ends_when_an_earlier_timer_is_added(kind: str) -> None:
    async def story(there: Ground, buckets: Buckets) -> None:
        await buckets.add([timer("far", 60_000)])
        waiting = asyncio.ensure_future(within(there, buckets.wait(there.now(), 30_000)))
        await asyncio.sleep(2)
        await buckets.add([timer("near", 5_000)])
        assert 2_000 <= await waiting <= 5_000 + SLACK_MS

    with_buckets(kind, story)


# ── queue ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_messages_come_by_priority_and_a_receive_waits_for_the_first(kind: str) -> None:
    async def story(there: Ground, queue: Queue) -> None:
        high = timer("a", priority=Priority.HIGH)
        receiving = asyncio.ensure_future(queue.receive(Priority.HIGH, 10))
        await queue.send([timer("b", priority=Priority.LOW)])
        await asyncio.sleep(1)
        assert not receiving.done()
        await queue.send([high])
        assert await receiving == (high,)
        assert await queue.receive(Priority.LOW, 10) == (timer("b", priority=Priority.LOW),)

    with_queue(kind, story)


def test_a_receive_takes_no_more_than_its_limit_and_each_message_once(kind: str) -> None:
    async def story(there: Ground, queue: Queue) -> None:
        sent = [timer(name) for name in "abc"]
        await queue.send(sent)
        await asyncio.sleep(1)
        assert await queue.receive(Priority.DEFAULT, 2) == (sent[0], sent[1])
        assert await queue.receive(Priority.DEFAULT, 2) == (sent[2],)
        for message in sent:
            await queue.done(message)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(60):
                await queue.receive(Priority.DEFAULT, 2)

    with_queue(kind, story)


def test_what_is_given_back_comes_again_after_its_delay(kind: str) -> None:
    async def story(there: Ground, queue: Queue) -> None:
        await queue.send([timer("a")])
        (message,) = await queue.receive(Priority.DEFAULT, 1)
        await queue.again(message, 3_000)
        assert 3_000 - SLACK_MS <= await within(there, queue.receive(Priority.DEFAULT, 1)) <= 3_000 + 2 * SLACK_MS
        await queue.done(message)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(60):
                await queue.receive(Priority.DEFAULT, 1)

    with_queue(kind, story)


def test_a_timer_that_is_sent_while_it_is_in_hand_comes_once_more(kind: str) -> None:
    """Its item may have set the same time anew: what is in hand may have read it before that."""

    async def story(there: Ground, queue: Queue) -> None:
        await queue.send([timer("a")])
        assert await queue.receive(Priority.DEFAULT, 1) == (timer("a"),)
        await queue.send([timer("a")])
        assert await queue.receive(Priority.DEFAULT, 1) == (timer("a"),)

    with_queue(kind, story)


def test_a_shared_queue_shows_a_message_again_that_was_not_done() -> None:
    """H2: what its receiver took to its grave is hidden for 15 s; where each process has its own, the store has it."""

    async def story(there: Ground, queue: Queue) -> None:
        await queue.send([timer("a")])
        await queue.receive(Priority.DEFAULT, 1)
        again_ms = await within(there, queue.receive(Priority.DEFAULT, 1))
        assert 15_000 - SLACK_MS <= again_ms <= 15_000 + SLACK_MS

    with_queue("simulated", story)


def test_a_mark_stands_once_it_is_set(kind: str) -> None:
    async def story(there: Ground, buckets: Buckets) -> None:
        assert not await buckets.marked()
        await buckets.mark()
        assert await buckets.marked()

    with_buckets(kind, story)


def test_a_mark_is_lost_with_the_timers() -> None:
    async def story(there: Ground, buckets: Buckets) -> None:
        assert isinstance(buckets, BucketLine)
        await buckets.add([timer("a")])
        await buckets.mark()
        assert buckets._server.lose(1.0, there.chance("loss")) == 1
        assert not await buckets.marked()
        assert await buckets.due(BEGAN, 10) == ()

    with_buckets("simulated", story)


# ── tasks ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def task(name: str, line: str = "t/q", after_ms: int = 0, priority: Priority = Priority.DEFAULT) -> Timer:
    return Timer(BEGAN + after_ms, job_key(name), TimerKind.TASK, priority, line)


def test_a_task_stands_in_its_own_line_and_in_no_priority(kind: str) -> None:
    async def story(there: Ground, queue: Queue) -> None:
        await queue.send([task("a"), task("b", "t/other"), timer("c")])
        await asyncio.sleep(1)
        assert await queue.take("t/q", 10, 0) == (task("a"),)
        assert await queue.take("t/other", 10, 0) == (task("b", "t/other"),)
        assert await queue.take("t/none", 10, 0) == ()
        assert await queue.receive(Priority.DEFAULT, 10) == (timer("c"),)

    with_queue(kind, story)


def test_a_take_waits_for_the_first_task_and_no_longer_than_it_may(kind: str) -> None:
    async def story(there: Ground, queue: Queue) -> None:
        assert 3_000 <= await within(there, queue.take("t/q", 10, 3_000)) <= 3_000 + 2 * SLACK_MS
        taking = asyncio.ensure_future(queue.take("t/q", 10, 20_000))
        await asyncio.sleep(1)
        assert not taking.done()
        await queue.send([task("a")])
        assert await taking == (task("a"),)

    with_queue(kind, story)


def test_a_task_is_taken_once_and_comes_again_where_it_is_given_back(kind: str) -> None:
    async def story(there: Ground, queue: Queue) -> None:
        await queue.send([task("a"), task("b")])
        await asyncio.sleep(1)
        first, second = await queue.take("t/q", 1, 0), await queue.take("t/q", 9, 0)
        assert {*first, *second} == {task("a"), task("b")}
        await queue.done(first[0])
        await queue.again(second[0], 2_000)
        assert 2_000 - SLACK_MS <= await within(there, queue.take("t/q", 9, 20_000)) <= 2_000 + 3 * SLACK_MS

    with_queue(kind, story)
