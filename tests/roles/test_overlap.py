"""What happens when the previous run has not ended (W13)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from schedkit.model.calls import Answered, NoAnswer
from schedkit.model.jobs import JobStatus
from schedkit.model.keys import job_key, run_key
from schedkit.model.runs import RunStatus
from schedkit.model.time import HOUR_MS, parse_rfc3339, rfc3339
from schedkit.model.timers import timer_of
from schedkit.model.writes import Write
from tests.cases import load
from tests.worlds import HANGS, OK, SLOW, Takes, virtual

CASES = {case.id: case for case in load()}


async def test_skip_drops_a_tick_that_finds_the_previous_run_going() -> None:
    case = CASES["overlap-01"]
    async with virtual("2026-06-01T11:59:00Z") as (world, _):
        world.targets.always = Takes(case.input["run_seconds"] * 1_000)
        job = await world.create(case.input["cron"], overlap_policy=case.input["overlap_policy"], target=SLOW)
        await world.wait_until(case.input["last_tick"])
        await world.ask("POST", f"/v1/jobs/{job['job_id']}:pause")
        await world.wait(minutes=10)
        starts = [(made.scheduled_for[11:19], rfc3339(made.at)[11:19]) for made in world.targets.calls]
        assert starts == [(start["scheduled_for"], start["starts_at"]) for start in case.expected["starts"]]
        skipped = [run for run in await world.runs(job["job_id"]) if run.status is RunStatus.SKIPPED]
        assert [rfc3339(run.scheduled_for)[11:19] for run in skipped] == case.expected["skipped"]
        assert {run.reason for run in skipped} == {"OVERLAP"}


async def test_allow_lets_runs_overlap() -> None:
    async with virtual("2026-06-01T11:59:00Z") as (world, _):
        world.targets.always = Takes(150_000)
        await world.create("* * * * *", target=SLOW)
        await world.wait_until("2026-06-01T12:05:30Z")
        assert [made.at - parse_rfc3339(made.scheduled_for) for made in world.targets.calls] == [0] * 6


async def test_buffer_one_holds_one_and_starts_it_the_moment_the_other_ends() -> None:
    async with virtual("2026-06-01T11:59:00Z") as (world, _):
        world.targets.always = Takes(150_000)
        job = await world.create("* * * * *", overlap_policy="BUFFER_ONE", target=SLOW)
        await world.wait_until("2026-06-01T12:02:00Z")
        assert (await world.ask("GET", f"/v1/jobs/{job['job_id']}"))["held_run_at"] == "2026-06-01T12:01:00Z"
        await world.wait_until("2026-06-01T12:07:29Z")
        starts = [(made.scheduled_for[11:19], rfc3339(made.at)[11:19]) for made in world.targets.calls]
        assert starts == [("12:00:00", "12:00:00"), ("12:01:00", "12:02:30"), ("12:03:00", "12:05:00")]
        assert await world.told(job["job_id"]) == [
            ("12:00:00", "SUCCEEDED"),
            ("12:01:00", "SUCCEEDED"),
            ("12:02:00", "OVERLAP"),
            ("12:03:00", "RUNNING"),
            ("12:04:00", "OVERLAP"),
            ("12:06:00", "OVERLAP"),
            ("12:07:00", "OVERLAP"),
        ]


@pytest.mark.parametrize("ending", [Answered(400), NoAnswer("reset")])
async def test_a_held_occurrence_starts_also_when_the_other_fails(ending: Answered | NoAnswer) -> None:
    async with virtual("2026-06-01T11:59:00Z") as (world, _):
        world.targets.script = [Takes(90_000, ending), OK]
        job = await world.create("* * * * *", overlap_policy="BUFFER_ONE", retry_policy={"max_attempts": 1}, max_runs=2)
        await world.wait_until("2026-06-01T12:01:30Z")
        assert await world.told(job["job_id"]) == [("12:00:00", "FAILED"), ("12:01:00", "SUCCEEDED")]


async def test_a_run_that_waits_for_its_retry_is_still_open() -> None:
    async with virtual("2026-06-01T11:59:00Z") as (world, _):
        world.targets.script = [Answered(503, retry_after="90")]
        job = await world.create("* * * * *", overlap_policy="SKIP")
        await world.wait_until("2026-06-01T12:01:59Z")
        assert await world.told(job["job_id"]) == [("12:00:00", "SUCCEEDED"), ("12:01:00", "OVERLAP")]


async def test_a_held_occurrence_starts_though_its_wake_up_was_lost() -> None:
    """W11: a lost message costs lateness only; here the answer to the settling write is lost."""
    async with virtual("2026-06-01T11:59:00Z") as (world, process):
        world.targets.script = [Takes(290_000)]
        process.line.lose = ["settle SUCCEEDED"]
        job = await world.create(
            {"type": "INTERVAL", "every_seconds": 200, "anchor_at": "2026-06-01T12:00:00Z"},
            overlap_policy="BUFFER_ONE",
            max_runs=2,
            target=SLOW,
        )
        await world.wait_until("2026-06-01T12:04:49Z")
        assert world.targets.times() == ["2026-06-01T12:00:00Z"]
        await world.wait_until("2026-06-01T12:06:00Z")
        assert process.line.lose == [], "it was lost, in fact"
        assert world.targets.times() == ["2026-06-01T12:00:00Z", "2026-06-01T12:03:20Z"]
        assert (await world.told(job["job_id"]))[0] == ("12:00:00", "SUCCEEDED")


async def test_a_held_occurrence_of_a_rare_job_waits_with_a_timer_that_lies_ahead() -> None:
    """W8: every waiting item has one next timer; one that has passed would wake nobody."""
    async with virtual("2026-06-01T11:59:00Z") as (world, _):
        job = await world.create(
            {"type": "INTERVAL", "every_seconds": 100, "anchor_at": "2026-06-01T12:00:00Z"},
            overlap_policy="BUFFER_ONE",
            max_runs=3,
            target=SLOW,
        )
        world.targets.always = Takes(299_000)
        await world.wait_until("2026-06-01T12:02:30Z")
        for _ in range(5):
            await world.wait(seconds=20)
            item = await world.store.get(job_key(job["job_id"]))
            assert item is not None
            assert item["held"] == parse_rfc3339("2026-06-01T12:01:40Z")
            assert item["timer_at"] > world.clock.now()


async def test_doubles_of_a_message_set_no_timers_of_their_own_while_an_occurrence_is_held() -> None:
    """H1: else each of them would come back every ten seconds for as long as the run before it takes."""
    async with virtual("2026-06-01T11:59:00Z") as (world, process):
        world.targets.script = [HANGS]
        target = {**SLOW, "timeout_seconds": 300}
        job = await world.create("* * * * *", overlap_policy="BUFFER_ONE", target=target)
        await world.wait_until("2026-06-01T12:02:30Z")
        run, *_ = await world.runs(job["job_id"])
        stuck = {"lease_expires_at": world.clock.now() - HOUR_MS}  # of a holder that nobody has missed yet
        await world.store.apply(Write(run_key(run.job_id, run.scheduled_for), "changed by hand", (), stuck))
        await world.wait_until("2026-06-01T12:02:45Z")
        item = await world.store.get(job_key(job["job_id"]))
        assert item is not None
        timer = timer_of(job_key(job["job_id"]), item)
        assert timer is not None
        for _ in range(5):
            await process.world.queue.send([replace(timer, at=world.clock.now())])
            await world.wait(ms=7)
        now = world.clock.now()
        far = await process.world.buckets.due(now + HOUR_MS, 100)
        assert len([known for known in far if known.key == timer.key]) <= 2, "its own, and one that was replaced"


async def test_a_held_occurrence_can_expire() -> None:
    async with virtual("2026-06-01T11:59:00Z") as (world, _):
        world.targets.script = [Takes(150_000)]
        job = await world.create("* * * * *", overlap_policy="BUFFER_ONE", expires_after_seconds=60, target=SLOW)
        await world.wait_until("2026-06-01T12:02:30Z")
        assert (await world.told(job["job_id"]))[1] == ("12:01:00", "EXPIRED")


async def test_a_triggered_run_counts_for_the_overlap_rule() -> None:
    async with virtual("2026-06-01T11:59:30Z") as (world, _):
        world.targets.script = [Takes(60_000)]
        job = await world.create("* * * * *", overlap_policy="SKIP")
        await world.ask("POST", f"/v1/jobs/{job['job_id']}:trigger")
        await world.wait_until("2026-06-01T12:01:00Z")
        assert await world.told(job["job_id"]) == [
            ("11:59:30", "SUCCEEDED"),
            ("12:00:00", "OVERLAP"),
            ("12:01:00", "SUCCEEDED"),
        ]


async def test_a_job_with_a_bound_on_its_runs_ends_after_the_last_of_them() -> None:
    """W15: max_runs."""
    async with virtual("2026-06-01T11:59:30Z") as (world, _):
        world.targets.always = Takes(5_000)
        job = await world.create("* * * * *", max_runs=3)
        await world.wait_until("2026-06-01T12:02:04Z")
        assert (await world.job(job["job_id"])).status is JobStatus.SCHEDULED
        await world.wait(seconds=2)
        assert (await world.job(job["job_id"])).status is JobStatus.COMPLETED
        await world.wait(minutes=10)
        assert len(world.targets.calls) == 3
