"""The loop: virtual time, one order in a process, a drawn order between processes, deaths that clean up nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from random import Random

import pytest

from schedkit.sim.loop import Process, SimLoop, State, Stuck


@pytest.fixture
def loop() -> Iterator[SimLoop]:
    made = SimLoop(Random(1))
    yield made
    made.bury()


def test_a_day_of_sleep_takes_no_time(loop: SimLoop) -> None:
    async def story() -> float:
        await asyncio.sleep(86_400)
        return loop.time()

    assert loop.run_until_complete(story()) == 86_400


def test_sleepers_wake_in_the_order_of_their_times(loop: SimLoop) -> None:
    woken: list[int] = []

    async def sleeper(seconds: int) -> None:
        await asyncio.sleep(seconds)
        woken.append(seconds)

    async def story() -> None:
        await asyncio.gather(*(sleeper(seconds) for seconds in (3, 1, 2)))

    loop.run_until_complete(story())
    assert woken == [1, 2, 3]


def test_a_cancelled_timer_does_not_fire(loop: SimLoop) -> None:
    fired: list[str] = []

    async def story() -> None:
        loop.call_later(1, fired.append, "cancelled").cancel()
        loop.call_later(2, fired.append, "kept")
        await asyncio.sleep(3)

    loop.run_until_complete(story())
    assert fired == ["kept"]


def interleaving(seed: int) -> list[str]:
    loop = SimLoop(Random(seed))
    seen: list[str] = []

    async def steps(name: str) -> None:
        for step in range(20):
            seen.append(f"{name}{step}")
            await asyncio.sleep(0)

    async def story() -> None:
        await asyncio.gather(*(loop.start(Process(name), steps(name)) for name in "ab"))

    loop.run_until_complete(story())
    loop.bury()
    return seen


def test_within_a_process_the_order_stands_and_between_processes_the_seed_decides() -> None:
    one, other = interleaving(1), interleaving(2)
    for seen in (one, other):
        for name in "ab":
            assert [step for step in seen if step[0] == name] == [f"{name}{step}" for step in range(20)]
    assert one != other
    assert one == interleaving(1)


def test_what_is_killed_runs_no_finally_and_no_except(loop: SimLoop) -> None:
    seen: list[str] = []
    process = Process("node")

    async def work() -> None:
        try:
            seen.append("began")
            await asyncio.sleep(10)
            seen.append("went on")
        except BaseException:
            seen.append("except")
            raise
        finally:
            seen.append("finally")

    async def story() -> None:
        loop.start(process, work())  # nobody holds the task: a collected one would run its cleanup
        await asyncio.sleep(5)
        loop.kill(process)
        await asyncio.sleep(100)

    loop.run_until_complete(story())
    assert seen == ["began"]
    assert process.state is State.DEAD


def test_an_answer_to_a_dead_process_reaches_nobody(loop: SimLoop) -> None:
    seen: list[str] = []
    process = Process("node")
    answer: asyncio.Future[str] = loop.create_future()

    async def work() -> None:
        seen.append(await answer)

    async def story() -> None:
        loop.start(process, work())
        await asyncio.sleep(1)
        loop.kill(process)
        answer.set_result("too late")
        await asyncio.sleep(1)

    loop.run_until_complete(story())
    assert seen == []


def test_a_stopped_process_goes_on_where_it_was(loop: SimLoop) -> None:
    seen: list[float] = []
    process = Process("node")

    async def work() -> None:
        while True:
            await asyncio.sleep(1)
            seen.append(loop.time())

    async def story() -> None:
        loop.start(process, work())
        await asyncio.sleep(2.5)
        loop.stop_process(process)
        await asyncio.sleep(10)
        loop.continue_process(process)
        await asyncio.sleep(1.2)

    loop.run_until_complete(story())
    assert seen == [1.0, 2.0, 12.5, 13.5]


def test_tasks_inherit_the_process_of_their_maker(loop: SimLoop) -> None:
    seen: list[str] = []
    process = Process("node")

    async def child() -> None:
        await asyncio.sleep(1)
        seen.append("child")

    async def work() -> None:
        await asyncio.gather(child(), child())

    async def story() -> None:
        loop.start(process, work())
        await asyncio.sleep(0.5)
        loop.kill(process)
        await asyncio.sleep(5)

    loop.run_until_complete(story())
    assert seen == []


def test_waiting_for_what_nobody_does_is_an_error_and_not_a_hang(loop: SimLoop) -> None:
    async def story() -> None:
        await loop.create_future()

    with pytest.raises(Stuck, match="every coroutine waits"):
        loop.run_until_complete(story())


def test_spinning_without_time_passing_is_an_error_and_not_a_hang(
    loop: SimLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("schedkit.sim.loop.MAX_CALLBACKS_AT_ONCE", 1_000)

    async def story() -> None:
        while True:
            await asyncio.sleep(0)

    with pytest.raises(Stuck, match="world spins"):
        loop.run_until_complete(story())


def test_there_are_no_threads(loop: SimLoop) -> None:
    async def story() -> None:
        await asyncio.to_thread(print)

    with pytest.raises(RuntimeError, match="no threads"):
        loop.run_until_complete(story())


def test_what_a_callback_raises_is_kept_as_a_bug(loop: SimLoop) -> None:
    async def story() -> None:
        loop.call_soon(lambda: [][0])
        await asyncio.sleep(1)

    loop.run_until_complete(story())
    assert [type(bug) for bug in loop.bugs] == [IndexError]
