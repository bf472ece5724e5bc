"""Leases and the clock: who holds a run keeps it as long as it lives, whatever the wall clock does (H2, H3, C7)."""

from __future__ import annotations

from schedkit.model.calls import Answered
from schedkit.model.jobs import job_of
from schedkit.model.keys import job_key
from schedkit.model.time import MINUTE_MS
from tests.worlds import SLOW, Takes, once, virtual

NOON = "2026-06-01T12:00:00Z"


async def test_a_clock_set_forward_does_not_run_again_what_this_process_is_running() -> None:
    """The lease seems to have ended; its holder is alive, so it gets a new end."""
    async with virtual("2026-06-01T11:59:59Z") as (world, _):
        world.targets.script = [Takes(60_000)]
        job = await world.create(once(NOON), target=SLOW)
        await world.wait(seconds=2)
        world.clock.jump(10 * MINUTE_MS)
        await world.wait(minutes=3)
        assert len(world.targets.calls) == 1
        assert await world.told(job["job_id"]) == [("12:00:00", "SUCCEEDED")]
        (run,) = await world.runs(job["job_id"])
        assert run.epoch == 1


async def test_an_at_most_once_run_is_not_unknown_because_the_clock_was_set_forward() -> None:
    async with virtual("2026-06-01T11:59:59Z") as (world, _):
        world.targets.script = [Takes(60_000)]
        job = await world.create(once(NOON), target=SLOW, delivery="AT_MOST_ONCE")
        await world.wait(seconds=2)
        world.clock.jump(10 * MINUTE_MS)
        await world.wait(minutes=3)
        assert await world.told(job["job_id"]) == [("12:00:00", "SUCCEEDED")]


async def test_a_held_occurrence_waits_for_its_place_in_a_window_that_was_widened() -> None:
    """C2, W6, W13: never before its place, and nothing else of the job is held up by it."""
    async with virtual("2026-06-01T11:59:59Z") as (world, _):
        world.targets.script = [Takes(150_000), Answered(200)]
        job = await world.create("* * * * *", target=SLOW, overlap_policy="BUFFER_ONE")
        await world.wait_until("2026-06-01T12:01:30Z")
        assert job_of((await world.store.get(job_key(job["job_id"]))) or {}).held is not None
        await world.ask("PATCH", f"/v1/jobs/{job['job_id']}", json={"dispatch_window_seconds": 3_600})
        await world.wait(hours=3)
        for run in await world.runs(job["job_id"]):
            if run.attempts:
                assert run.attempts[0].started_at >= run.due_at
        assert len(world.targets.calls) > 1


async def test_a_held_occurrence_that_is_given_up_is_recorded() -> None:
    """C3: by an edit of the schedule, and by a cancel."""
    for verb, reason in (("PATCH", "RESCHEDULED"), ("DELETE", "JOB_CANCELLED")):
        async with virtual("2026-06-01T11:59:59Z") as (world, _):
            world.targets.script = [Takes(150_000)]
            job = await world.create("* * * * *", target=SLOW, overlap_policy="BUFFER_ONE")
            await world.wait_until("2026-06-01T12:01:30Z")
            yearly = {"json": {"schedule": {"type": "CRON", "cron": "0 0 1 1 *"}}} if verb == "PATCH" else {}
            await world.ask(verb, f"/v1/jobs/{job['job_id']}", **yearly)
            await world.wait(minutes=5)
            ended = {run.scheduled_for: (run.status, run.reason) for run in await world.runs(job["job_id"])}
            assert sorted(ended.values()) == [("SKIPPED", reason), ("SUCCEEDED", None)]
            assert len(world.targets.calls) == 1
