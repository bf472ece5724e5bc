"""H5, H6: lost workers' runs go to others, and an outage of our own starts no second copies."""

from __future__ import annotations

import asyncio
from typing import Any

from schedkit.model.time import SECOND_MS
from tests.worlds import Process, Virtual, virtual

QUEUE: dict[str, Any] = {"type": "TASK_QUEUE", "task_queue": "q"}
RUN_AT = "2026-06-01T12:00:10Z"


async def poll(world: Virtual, worker: str, most: int) -> list[dict[str, Any]]:
    answer = await world.ask("POST", "/v1/task-queues/q/tasks:poll", json={"worker_id": worker, "max_tasks": most})
    tasks: list[dict[str, Any]] = answer["tasks"]
    return tasks


async def hold(world: Virtual, count: int, workers: int = 4) -> list[dict[str, Any]]:
    """So many runs in the hands of so many workers."""
    for _ in range(count):
        await world.create({"type": "ONCE", "run_at": RUN_AT}, target=QUEUE)
    await world.wait(seconds=10)
    tasks: list[dict[str, Any]] = []
    while len(tasks) < count:
        tasks += await poll(world, f"w-{len(tasks) % workers}", 50)
    return tasks


async def beat(world: Virtual, tasks: list[dict[str, Any]]) -> list[int]:
    """One heartbeat for each; the status of each answer."""
    statuses = []
    for start in range(0, len(tasks), 50):
        beats = [{"run_id": task["run_id"], "epoch": task["epoch"]} for task in tasks[start : start + 50]]
        answer = await world.ask("POST", "/v1/runs:batchHeartbeat", json={"heartbeats": beats})
        statuses += [one["status"] for one in answer["results"]]
    return statuses


async def keep(world: Virtual, tasks: list[dict[str, Any]], seconds: int) -> None:
    """Workers that are well, for so long."""
    for _ in range(seconds // 10):
        await beat(world, tasks)
        await world.wait(seconds=10)


async def test_an_outage_of_the_heartbeats_gives_nothing_away_and_every_worker_goes_on_after_it() -> None:
    async with virtual() as (world, process):
        tasks = await hold(world, 120)
        await keep(world, tasks, 40)
        await world.wait(minutes=10)  # nobody can call
        assert process.reaper.ended == 120
        assert process.reaper.given_back == 0
        assert set(await beat(world, tasks)) == {200}
        await keep(world, tasks, 90)
        assert process.reaper.given_back == 0
        assert process.reaper.suspended is None


async def test_after_a_restart_living_workers_keep_what_they_have() -> None:
    async with Virtual() as world:
        first = await world.boot()
        tasks = await hold(world, 30)
        await keep(world, tasks, 40)
        first.kill()
        await world.wait(minutes=5)
        second = await world.boot()
        await world.wait(seconds=3)
        assert set(await beat(world, tasks)) == {200}
        await keep(world, tasks, 60)
        assert second.reaper.given_back == 0


async def test_a_lost_worker_is_given_away_and_the_others_are_not() -> None:
    async with virtual() as (world, process):
        tasks = await hold(world, 40)
        lost, kept = tasks[:5], tasks[5:]
        await keep(world, tasks, 40)
        await keep(world, kept, 60)
        assert process.reaper.given_back == len(lost)
        assert {task["run_id"] for task in await poll(world, "w-new", 50)} == {task["run_id"] for task in lost}


async def test_a_mass_loss_drains_at_its_cap() -> None:
    async with virtual() as (world, process):
        tasks = await hold(world, 200)
        await keep(world, tasks, 40)
        kept = tasks[:60]
        gone = await rate_of(world, process, kept, passes=40)
        assert process.reaper.given_back == 140
        assert max(gone) <= 10, "ten in ten seconds"


async def rate_of(world: Virtual, process: Process, kept: list[dict[str, Any]], passes: int) -> list[int]:
    """How many were given back in each window of ten seconds while these workers are well."""
    gone, before = [], process.reaper.given_back
    for _ in range(passes):
        await beat(world, kept)
        await world.wait(seconds=10)
        gone.append(process.reaper.given_back - before)
        before = process.reaper.given_back
    return gone


async def test_a_heartbeat_that_lands_before_the_reapers_write_keeps_the_run() -> None:
    async with virtual() as (world, process):
        tasks = await hold(world, 2)
        await keep(world, tasks, 40)
        (late,) = tasks[:1]
        await keep(world, tasks[1:], 20)
        beaten = asyncio.Event()

        async def first() -> None:
            await beat(world, [late])
            beaten.set()

        process.line.before["give back"] = first
        await keep(world, tasks[1:], 20)
        assert beaten.is_set()
        assert process.reaper.given_back == 0
        assert (await beat(world, [late])) == [200]


async def test_the_reaper_waits_out_a_store_that_is_away() -> None:
    async with virtual() as (world, process):
        tasks = await hold(world, 3)
        await keep(world, tasks, 40)
        process.line.down = True
        await world.wait(seconds=30)
        process.line.down = False
        assert process.reaper.given_back == 0
        await world.clock.advance(SECOND_MS)
