"""What a scheduler does about the occurrences that came while it was down, late, or paused (W12, W14, W9a)."""

from __future__ import annotations

from typing import Any

import pytest

from schedkit.model.jobs import JobStatus
from schedkit.model.runs import RunStatus
from schedkit.model.time import parse_rfc3339, rfc3339
from tests.cases import load
from tests.worlds import Virtual, once, virtual

CASES = {case.id: case for case in load()}


async def after_an_outage(given: dict[str, Any], world: Virtual, **fields: Any) -> str:
    """A job that ran last at `last_scheduled_for`; then the machine was off until `back_up_at`. Returns its id."""
    process = await world.boot()
    job = await world.create(
        {"type": "CRON", "cron": given["cron"], "time_zone": given["time_zone"]},
        misfire_policy=given["misfire_policy"],
        **fields,
    )
    await world.wait_until(given["last_scheduled_for"])
    assert world.targets.times() == [given["last_scheduled_for"]]
    process.kill()
    await world.wait_until(given["back_up_at"])
    world.targets.calls.clear()
    await world.boot()
    return str(job["job_id"])


@pytest.mark.parametrize("name", ["misfire-01", "misfire-02", "misfire-03"])
async def test_a_missed_occurrence_is_run_or_recorded_as_the_policy_says(name: str) -> None:
    given, expected = CASES[name].input, CASES[name].expected
    start = rfc3339(parse_rfc3339(given["last_scheduled_for"]) - 1_000)
    async with Virtual(start) as world:
        job_id = await after_an_outage(given, world)
        recorded = (await world.runs(job_id))[1:]
        assert len(recorded) == expected["missed_count"], "C3: every occurrence ends in a recorded state"
        assert len(world.targets.calls) == expected["run_count"]
        assert [run.status for run in recorded].count(RunStatus.SKIPPED) == (
            expected["missed_count"] - expected["run_count"]
        )
        assert {run.reason for run in recorded if run.status is RunStatus.SKIPPED} == {"MISFIRED"}
        assert rfc3339((await world.job(job_id)).next_run_at or 0) == expected["next_run_at"], CASES[name].why
        if expected["run_count"]:
            assert recorded[-1].status is RunStatus.SUCCEEDED, "the latest one runs"
            late_ms = parse_rfc3339(given["back_up_at"]) - recorded[-1].scheduled_for
            assert recorded[-1].misfired is (late_ms > 60_000)
        world.targets.calls.clear()
        await world.wait_until(expected["next_run_at"])
        assert world.targets.times() == [expected["next_run_at"]], "then the normal grid"


async def test_a_little_late_is_no_misfire() -> None:
    case = CASES["misfire-05"]
    async with Virtual("2026-06-01T00:00:00Z") as world:
        process = await world.boot()
        grace = case.input["grace_seconds"]
        job = await world.create("30 0 * * *", misfire_policy="SKIP", misfire_grace_seconds=grace)
        process.kill()
        await world.wait_until(case.input["picked_up_at"])
        await world.boot()
        run = await world.run(job["job_id"], case.input["scheduled_for"])
        assert run is not None
        assert run.misfired is case.expected["misfired"]
        assert run.attempts[0].lag_ms == 1_776
        assert len(world.targets.calls) == 1


@pytest.mark.parametrize(("late_ms", "skipped"), [(60_000, False), (60_001, True)])
async def test_the_grace_ends_after_its_last_millisecond(late_ms: int, skipped: bool) -> None:
    async with Virtual("2026-06-01T00:29:00Z") as world:
        process = await world.boot()
        job = await world.create("30 0 * * *", misfire_policy="SKIP")
        process.kill()
        await world.wait(minutes=1, ms=late_ms)
        await world.boot()
        assert await world.told(job["job_id"]) == [("00:30:00", "MISFIRED" if skipped else "SUCCEEDED")]


async def test_run_all_runs_each_missed_occurrence_in_order() -> None:
    given = CASES["misfire-01"].input | {"misfire_policy": "RUN_ALL"}
    async with Virtual("2026-06-01T11:59:59Z") as world:
        job_id = await after_an_outage(given, world)
        times = world.targets.times()
        assert times == sorted(times)
        assert len(times) == 11
        assert (await world.job(job_id)).missed_run == 11
        await world.wait(minutes=5)
        assert (await world.job(job_id)).missed_run == 0, "the catch-up is over"


async def test_run_all_stops_at_a_hundred_and_then_runs_only_the_latest() -> None:
    """W12: at most 100, then RUN_ONCE for the rest; nothing vanishes."""
    given = CASES["misfire-02"].input | {"misfire_policy": "RUN_ALL", "back_up_at": "2026-06-01T12:29:30Z"}
    async with Virtual("2026-06-01T08:28:59Z") as world:
        job_id = await after_an_outage(given, world)
        assert len(world.targets.calls) == 101
        assert world.targets.times()[-1] == "2026-06-01T12:29:00Z"
        runs = (await world.runs(job_id))[1:]
        assert len(runs) == 240
        assert [run.status for run in runs] == (
            [RunStatus.SUCCEEDED] * 100 + [RunStatus.SKIPPED] * 139 + [RunStatus.SUCCEEDED]
        )


async def test_a_one_off_that_was_missed_runs_late() -> None:
    async with Virtual() as world:
        process = await world.boot()
        job = await world.create(once("2026-06-01T13:00:00Z"))
        process.kill()
        await world.wait(hours=10)
        await world.boot()
        run = await world.run(job["job_id"], "2026-06-01T13:00:00Z")
        assert run is not None
        assert (run.status, run.misfired) == (RunStatus.SUCCEEDED, True)
        assert (await world.job(job["job_id"])).status is JobStatus.COMPLETED


async def test_a_one_off_that_was_missed_under_skip_ends_failed_so_that_nothing_vanishes() -> None:
    async with Virtual() as world:
        process = await world.boot()
        job = await world.create(once("2026-06-01T13:00:00Z"), misfire_policy="SKIP")
        process.kill()
        await world.wait(hours=10)
        await world.boot()
        assert await world.told(job["job_id"]) == [("13:00:00", "MISFIRED")]
        ended = await world.job(job["job_id"])
        assert (ended.status, ended.status_reason) == (JobStatus.FAILED, "MISFIRED")
        assert world.targets.calls == []


async def test_a_frequent_cron_that_caught_up_is_on_time_again() -> None:
    """W9a: what is overdue when it is set goes straight to the queue."""
    async with Virtual("2026-06-01T11:59:59Z") as world:
        given = CASES["misfire-01"].input | {"cron": "* * * * *", "misfire_policy": "RUN_ALL"}
        await after_an_outage(given, world)
        world.targets.calls.clear()
        await world.wait(minutes=10)
        assert [made.at - parse_rfc3339(made.scheduled_for) for made in world.targets.calls] == [0] * 10


async def test_an_occurrence_that_could_not_start_in_time_expires() -> None:
    """W15."""
    async with Virtual() as world:
        process = await world.boot()
        job = await world.create("0 * * * *", expires_after_seconds=600)
        process.kill()
        await world.wait_until("2026-06-01T15:05:00Z")
        await world.boot()
        assert await world.told(job["job_id"]) == [
            ("13:00:00", "EXPIRED"),
            ("14:00:00", "EXPIRED"),
            ("15:00:00", "SUCCEEDED"),
        ]


# ── pauses ───────────────────────────────────────────────────────────────────────────────────────────────────────────


async def paused_as_in(case: dict[str, Any], world: Virtual) -> str:
    await world.boot()
    job = await world.create(case["cron"])
    await world.wait_until(case["paused_at"])
    assert world.targets.times() == [case["last_scheduled_for"]]
    await world.ask("POST", f"/v1/jobs/{job['job_id']}:pause")
    await world.wait_until(case["resumed_at"])
    assert len(world.targets.calls) == 1
    world.targets.calls.clear()
    return str(job["job_id"])


async def test_a_pause_is_no_outage_nothing_runs_on_resume() -> None:
    case = CASES["pause-01"]
    async with Virtual("2026-06-01T09:59:00Z") as world:
        job_id = await paused_as_in(case.input, world)
        job = await world.ask("POST", f"/v1/jobs/{job_id}:resume")
        await world.wait(minutes=29)
        assert len(world.targets.calls) == case.expected["run_count_on_resume"]
        assert job["next_run_at"] == case.expected["next_run_at"]
        await world.wait(minutes=2)
        assert world.targets.times() == [case.expected["next_run_at"]]


@pytest.mark.parametrize(("misfire", "runs"), [("RUN_ALL", 4), ("RUN_ONCE", 1), ("SKIP", 0)])
async def test_resume_can_say_what_happens_to_what_was_missed(misfire: str, runs: int) -> None:
    case = CASES["pause-01"]
    async with Virtual("2026-06-01T09:59:00Z") as world:
        job_id = await paused_as_in(case.input, world)
        await world.ask("POST", f"/v1/jobs/{job_id}:resume", json={"misfire": misfire})
        await world.wait(seconds=1)
        assert len(world.targets.calls) == runs
        assert len(await world.runs(job_id)) == 1 + case.expected["occurrences_while_paused"]
        await world.wait_until("2026-06-01T15:00:00Z")
        assert (await world.job(job_id)).catch_up is None, "what resume said holds for the catch-up only"


async def test_a_pause_with_an_end_ends_by_itself() -> None:
    async with virtual("2026-06-01T12:00:00Z") as (world, _):
        job = await world.create("0 * * * *")
        await world.ask("POST", f"/v1/jobs/{job['job_id']}:pause", json={"until": "2026-06-01T15:30:00Z"})
        await world.wait_until("2026-06-01T15:29:59Z")
        assert (await world.job(job["job_id"])).status is JobStatus.PAUSED
        await world.wait_until("2026-06-01T15:30:00Z")
        assert (await world.job(job["job_id"])).status is JobStatus.SCHEDULED
        await world.wait_until("2026-06-01T16:30:00Z")
        assert world.targets.times() == ["2026-06-01T16:00:00Z"]


async def test_occurrences_after_the_end_of_a_pause_are_kept_though_nobody_was_there_to_end_it() -> None:
    """C3: the job is active from `until` on, so what falls due then is missed, not paused."""
    async with Virtual("2026-06-01T12:00:00Z") as world:
        process = await world.boot()
        job = await world.create("0 * * * *", misfire_policy="RUN_ONCE")
        await world.ask("POST", f"/v1/jobs/{job['job_id']}:pause", json={"until": "2026-06-01T14:30:00Z"})
        await world.wait(minutes=30)
        process.kill()
        await world.wait_until("2026-06-01T17:15:00Z")
        await world.boot()
        assert await world.told(job["job_id"]) == [
            ("15:00:00", "MISFIRED"),
            ("16:00:00", "MISFIRED"),
            ("17:00:00", "SUCCEEDED"),
        ]


async def test_a_one_off_whose_time_passed_in_a_pause_ends_failed_on_resume() -> None:
    async with virtual() as (world, _):
        job = await world.create(once("2026-06-01T13:00:00Z"))
        await world.ask("POST", f"/v1/jobs/{job['job_id']}:pause")
        await world.wait(hours=2)
        resumed = await world.ask("POST", f"/v1/jobs/{job['job_id']}:resume")
        assert (resumed["status"], resumed["status_reason"]) == ("FAILED", "MISSED_WHILE_PAUSED")
        await world.wait(hours=2)
        assert world.targets.calls == []


# ── zone data ────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_new_zone_data_moves_the_next_run_before_anything_is_dispatched() -> None:
    """W2: a job stored under older data, read by a program with newer data."""
    case = CASES["tzdata-03"]
    stored, now = case.input["job"], case.input["now"]
    async with Virtual(now) as world:
        job = await world.create({"type": "CRON", "cron": stored["cron"], "time_zone": stored["time_zone"]})
        before = await world.job(job["job_id"])
        stale = {"zone_data": stored["computed_with"], "next_run_at": parse_rfc3339(stored["next_run_at"])}
        await world.change(before, stale | {"timer_at": stale["next_run_at"]})
        await world.boot()
        assert rfc3339((await world.job(job["job_id"])).next_run_at or 0) == case.expected["next_run_at"]
        await world.wait_until(case.expected["next_run_at"])
        assert world.targets.times() == [case.expected["next_run_at"]]
        await world.wait_until("2026-12-02T20:00:00Z")
        assert world.targets.times() == [case.expected["next_run_at"]], case.expected["dispatched_at_old_time"]
        assert (await world.job(job["job_id"])).zone_data == before.zone_data


async def test_zone_data_of_another_version_that_changes_nothing_leaves_an_overdue_job_due() -> None:
    async with Virtual("2026-06-01T11:30:00Z") as world:
        job = await world.create("0 * * * *")
        await world.change(await world.job(job["job_id"]), {"zone_data": "2025b"})
        await world.wait_until("2026-06-01T12:00:30Z")
        await world.boot()
        assert world.targets.times() == ["2026-06-01T12:00:00Z"]
