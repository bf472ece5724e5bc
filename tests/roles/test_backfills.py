"""Backfills: what did not run of the past runs, once each and at its pace, whoever is lost on the way (W14)."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from schedkit.model.calls import Answered
from schedkit.model.jobs import JobStatus
from schedkit.model.keys import redrive_key
from schedkit.model.redrives import Redrive, RedriveState, redrive_of
from schedkit.model.runs import RunStatus
from schedkit.model.time import MINUTE_MS
from schedkit.roles.redriver import Redriver
from tests.roles.test_redriver import most_in_a_second
from tests.worlds import Takes, Virtual

SINCE = "2026-06-01T11:00:00Z"
CAP = 5


async def hourly(world: Virtual, minutes: int = 5, **fields: Any) -> str:
    """The id of a job that is due every `minutes`, made at noon: what was due in the hour before has no record."""
    every = {"type": "INTERVAL", "every_seconds": minutes * 60, "anchor_at": "2026-01-01T00:00:00Z"}
    return str((await world.create(every, **fields))["job_id"])


async def begun(world: Virtual, job_id: str, **asked: Any) -> str:
    body = {"from": SINCE, "to": "2026-06-01T12:00:00Z", "max_per_second": CAP} | asked
    return str((await world.ask("POST", f"/v1/jobs/{job_id}:backfill", json=body))["backfill_id"])


async def standing(world: Virtual, backfill_id: str) -> Redrive:
    item = await world.store.get(redrive_key("default", backfill_id))
    assert item is not None
    return redrive_of(item)


async def test_what_was_missed_runs_under_its_own_time_and_the_schedule_stays_where_it_is() -> None:
    async with Virtual() as world:
        job_id = await hourly(world)
        before = await world.job(job_id)
        await world.boot(redriving=True)
        backfill_id = await begun(world, job_id)
        await world.wait(seconds=10)
        backfill = await standing(world, backfill_id)
        assert (backfill.state, backfill.redriven, backfill.succeeded) == (RedriveState.DONE, 12, 12)
        assert world.targets.times() == [f"2026-06-01T11:{n:02d}:00Z" for n in range(0, 60, 5)]
        assert most_in_a_second(world) <= CAP
        assert await world.job(job_id) == before
        runs = await world.runs(job_id)
        assert {(run.status, run.backfilled, run.redrive_id) for run in runs} == {("SUCCEEDED", True, backfill_id)}


async def test_the_newest_come_first_where_that_was_asked_for() -> None:
    async with Virtual() as world:
        job_id = await hourly(world)
        await world.boot(redriving=True)
        await begun(world, job_id, order="newest")
        await world.wait(seconds=10)
        assert world.targets.times() == [f"2026-06-01T11:{n:02d}:00Z" for n in range(55, -1, -5)]


async def test_what_ran_never_runs_again_and_what_failed_is_left_to_a_redrive() -> None:
    """An hour: ten run, one fails. An outage of an hour: the last one runs after it; the rest is backfilled."""
    async with Virtual() as world:
        job_id = await hourly(world)
        process = await world.boot()
        world.targets.script = [Answered(400)]
        await world.wait(minutes=56)
        process.kill()
        await world.wait(minutes=60)
        await world.boot(redriving=True)
        await world.wait(seconds=30)
        called = len(world.targets.calls)
        span = {"from": "2026-06-01T12:00:01Z", "to": "2026-06-01T14:00:00Z"}
        backfill_id = await begun(world, job_id, **span)
        await world.wait(seconds=20)
        backfill = await standing(world, backfill_id)
        assert backfill.skipped == {"RAN_ALREADY": 11, "FAILED_ALREADY": 1}
        shown = await world.ask("GET", f"/v1/backfills/{backfill_id}")
        assert (shown["occurrences"], shown["total"], shown["started"], shown["left"]) == (23, 11, 11, backfill.skipped)
        assert (backfill.redriven, len(world.targets.calls) - called) == (11, 11)
        assert len({made.key for made in world.targets.calls}) == len(world.targets.calls)
        again = await begun(world, job_id, **span)
        await world.wait(seconds=20)
        assert (await standing(world, again)).redriven == 0


async def test_what_it_started_counts_once_though_it_failed_and_a_redrive_had_it_run_before_a_new_holder_came() -> None:
    """W14: occurrences = started + left."""
    async with Virtual() as world:
        job_id = await hourly(world)
        first = await world.boot(redriving=True)
        world.targets.script = [Answered(400)]
        backfill_id = await begun(world, job_id, max_per_second=1)
        await world.wait(seconds=5)
        first.kill()
        await world.boot()
        await world.ask("POST", f"/v1/runs/{job_id}:{SINCE}:retry")
        await world.wait(seconds=5)
        await world.boot(alone=False, redriving=True)
        await world.wait(seconds=100)
        backfill = await standing(world, backfill_id)
        assert (backfill.state, backfill.redriven, backfill.skipped) == (RedriveState.DONE, 12, {})


async def test_two_backfills_of_the_same_hour_share_it() -> None:
    async with Virtual() as world:
        job_id = await hourly(world)
        await world.boot(redriving=True)
        first, second = await begun(world, job_id), await begun(world, job_id)
        await world.wait(seconds=20)
        both = [await standing(world, backfill_id) for backfill_id in (first, second)]
        assert [one.state for one in both] == [RedriveState.DONE] * 2
        assert sum(one.redriven for one in both) == len(world.targets.calls) == 12


async def test_a_run_that_fails_again_has_its_retries_and_counts_once() -> None:
    async with Virtual() as world:
        job_id = await hourly(world, retry_policy={"max_attempts": 2, "initial_backoff_seconds": 0})
        await world.boot(redriving=True)
        world.targets.always = Answered(503)
        backfill_id = await begun(world, job_id)
        await world.wait(seconds=20)
        backfill = await standing(world, backfill_id)
        assert (backfill.state, backfill.failed) == (RedriveState.DONE, 12)
        assert len(world.targets.calls) == 24


# ── overlap ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def overlapping(world: Virtual, took_ms: int) -> bool:
    starts = sorted(made.at for made in world.targets.calls)
    return any(later - earlier < took_ms for earlier, later in pairwise(starts))


@pytest.mark.parametrize("policy", ["SKIP", "BUFFER_ONE"])
async def test_where_runs_may_not_overlap_they_come_one_after_the_other_beside_the_schedule_s_too(policy: str) -> None:
    """W13."""
    async with Virtual() as world:
        job_id = await hourly(world, overlap_policy=policy)
        await world.boot(redriving=True)
        world.targets.always = Takes(29_000)
        backfill_id = await begun(world, job_id)
        await world.wait(minutes=20)
        assert (await standing(world, backfill_id)).succeeded == 12
        assert not overlapping(world, 29_000)
        later = [run for run in await world.runs(job_id) if not run.backfilled]
        assert len(later) == 4, "the schedule has gone on, and each of its times has its record"


async def test_two_backfills_of_a_job_that_has_ended_take_turns_as_those_of_a_living_one() -> None:
    """W13."""
    async with Virtual() as world:
        job_id = await hourly(world, overlap_policy="SKIP", max_runs=1)
        await world.boot(redriving=True)
        await world.wait(minutes=6)
        assert (await world.job(job_id)).status is JobStatus.COMPLETED
        world.targets.calls.clear()
        world.targets.always = Takes(29_000)
        both = [await begun(world, job_id), await begun(world, job_id)]
        await world.wait(minutes=10)
        done = [await standing(world, backfill_id) for backfill_id in both]
        assert [one.state for one in done] == [RedriveState.DONE] * 2
        assert sum(one.succeeded for one in done) == len(world.targets.calls) == 12
        assert not overlapping(world, 29_000)


async def test_where_runs_may_overlap_they_do() -> None:
    async with Virtual() as world:
        job_id = await hourly(world)
        await world.boot(redriving=True)
        world.targets.always = Takes(29_000)
        await begun(world, job_id)
        await world.wait(minutes=2)
        assert len(world.targets.calls) == 12
        assert overlapping(world, 29_000)


# ── crashes, pauses, verbs that come between ─────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("nth", range(28))
async def test_a_process_that_dies_at_any_call_of_the_store_loses_nothing_and_repeats_nothing(
    nth: int, before: bool
) -> None:
    async with Virtual() as world:
        job_id = await hourly(world, 10)
        backfill_id = await begun(world, job_id)
        dying = await world.boot(serving=False)
        redriver = Redriver(dying.world)
        if before:
            dying.line.dies_before = dying.line.made + nth
        else:
            dying.line.dies_after = dying.line.made + nth
        task = world.start(redriver.serve())
        await world.wait(seconds=2)
        task.cancel()
        dying.kill()
        await world.boot(alone=False, redriving=True)
        await world.wait(seconds=100)
        backfill = await standing(world, backfill_id)
        assert (backfill.state, backfill.redriven, backfill.succeeded) == (RedriveState.DONE, 6, 6)
        assert len(world.targets.calls) == len({made.key for made in world.targets.calls}) == 6
        assert most_in_a_second(world) <= CAP + 1


@pytest.mark.parametrize("arrow", ["take redrive", "release", "follow", "pass page", "turn"])
async def test_an_answer_that_is_lost_on_its_way_changes_nothing(arrow: str) -> None:
    async with Virtual() as world:
        job_id = await hourly(world)
        process = await world.boot(redriving=True)
        backfill_id = await begun(world, job_id)
        process.line.lose = [arrow]
        await world.wait(seconds=200)  # the timer that was not passed on is swept up
        assert process.line.lose == []
        backfill = await standing(world, backfill_id)
        assert (backfill.state, backfill.redriven, backfill.succeeded) == (RedriveState.DONE, 12, 12)
        assert len(world.targets.calls) == 12


async def test_it_holds_while_it_is_paused_goes_on_when_resumed_and_ends_when_stopped() -> None:
    async with Virtual() as world:
        job_id = await hourly(world, 1)
        await world.boot(redriving=True)
        backfill_id = await begun(world, job_id, max_per_second=2)
        await world.wait(seconds=6)
        await world.ask("POST", f"/v1/backfills/{backfill_id}:pause")
        await world.wait(seconds=2)
        called = len(world.targets.calls)
        assert 0 < called < 60
        await world.wait(seconds=30)
        assert len(world.targets.calls) == called
        await world.ask("POST", f"/v1/backfills/{backfill_id}:resume")
        await world.wait(seconds=6)
        await world.ask("POST", f"/v1/backfills/{backfill_id}:stop")
        await world.wait(seconds=2)
        stopped = await standing(world, backfill_id)
        assert (stopped.state, stopped.state_reason) == (RedriveState.STOPPED, "STOPPED_BY_HAND")
        assert called < stopped.redriven < 60


@pytest.mark.parametrize(("verb", "reason"), [("pause", "JOB_PAUSED"), ("cancel", "JOB_CANCELLED")])
async def test_of_a_job_that_is_paused_or_cancelled_meanwhile_nothing_more_is_started(verb: str, reason: str) -> None:
    async with Virtual() as world:
        job_id = await hourly(world, 1)
        await world.boot(redriving=True)
        backfill_id = await begun(world, job_id, max_per_second=2)
        await world.wait(seconds=6)
        if verb == "cancel":
            await world.ask("DELETE", f"/v1/jobs/{job_id}")
        else:
            await world.ask("POST", f"/v1/jobs/{job_id}:pause")
        await world.wait(seconds=20)
        backfill = await standing(world, backfill_id)
        assert backfill.state is RedriveState.DONE
        assert backfill.skipped == {reason: 60 - backfill.redriven}


async def test_the_rest_of_a_schedule_that_is_edited_meanwhile_is_left() -> None:
    async with Virtual() as world:
        job_id = await hourly(world, 1)
        await world.boot(redriving=True)
        backfill_id = await begun(world, job_id, max_per_second=2)
        await world.wait(seconds=6)
        hourly_now = {"schedule": {"type": "INTERVAL", "every_seconds": 3600}}
        await world.ask("PATCH", f"/v1/jobs/{job_id}", json=hourly_now)
        called = len(world.targets.calls)
        await world.wait(seconds=60)
        backfill = await standing(world, backfill_id)
        assert backfill.state is RedriveState.DONE
        assert 0 < backfill.redriven <= called + 1, "one may have been read before the edit"
        assert backfill.skipped == {"CHANGED": 60 - backfill.redriven}


async def test_what_was_missed_under_the_schedule_before_runs_under_its_own_time_and_nothing_runs_by_the_new_one() -> (
    None
):
    """W14: an edit does not make a past that never was."""
    async with Virtual() as world:
        job_id = await hourly(world, 10)
        await world.boot(redriving=True)
        await world.wait(minutes=5)
        await world.ask("POST", f"/v1/jobs/{job_id}:skipNext", json={"count": 2})
        await world.wait(minutes=50)
        await world.ask("PATCH", f"/v1/jobs/{job_id}", json={"schedule": {"type": "INTERVAL", "every_seconds": 420}})
        await world.wait(minutes=10)
        world.targets.calls.clear()
        span = {"from": "2026-06-01T12:00:01Z", "to": "2026-06-01T13:05:00Z"}
        backfill = await standing(world, await begun(world, job_id, **span))
        await world.wait(seconds=10)
        backfill = await standing(world, backfill.redrive_id)
        assert world.targets.times() == ["2026-06-01T12:10:00Z", "2026-06-01T12:20:00Z"]
        assert (backfill.redriven, backfill.skipped) == (2, {"RAN_ALREADY": 4})


async def test_what_somebody_asks_for_by_hand_at_that_very_moment_runs_once() -> None:
    async with Virtual() as world:
        job_id = await hourly(world)
        process = await world.boot(redriving=True)
        by_hand = {"as_of": "2026-06-01T11:00:00Z"}
        process.line.before["release"] = lambda: world.ask("POST", f"/v1/jobs/{job_id}:trigger", json=by_hand)
        backfill_id = await begun(world, job_id)
        await world.wait(seconds=20)
        backfill = await standing(world, backfill_id)
        assert (backfill.state, backfill.redriven, backfill.skipped) == (RedriveState.DONE, 11, {"CHANGED": 1})
        assert len(world.targets.calls) == len({made.key for made in world.targets.calls}) == 12


async def test_an_occurrence_that_is_held_back_is_left_to_the_schedule() -> None:
    async with Virtual() as world:
        world.targets.always = Takes(90_000)
        target = {"url": "http://target.example/work", "timeout_seconds": 300}
        job_id = await hourly(world, 1, overlap_policy="BUFFER_ONE", target=target)
        await world.boot(redriving=True)
        await world.wait(minutes=2, seconds=10)
        assert (await world.job(job_id)).held is not None
        span = {"from": "2026-06-01T12:00:01Z", "to": "2026-06-01T12:02:30Z", "dry_run": True}
        plan = await world.ask("POST", f"/v1/jobs/{job_id}:backfill", json=span)
        assert (plan["total"], plan["left"]) == (0, {"UNDER_WAY": 2})


async def test_workers_get_what_is_backfilled_though_it_would_have_expired() -> None:
    async with Virtual() as world:
        queue = {"type": "TASK_QUEUE", "task_queue": "rebuilds"}
        job_id = await hourly(world, 10, target=queue, expires_after_seconds=60)
        await world.boot(redriving=True)
        await begun(world, job_id)
        await world.wait(seconds=5)
        poll = {"worker_id": "w", "max_tasks": 10, "wait_seconds": 0}
        tasks = (await world.ask("POST", "/v1/task-queues/rebuilds/tasks:poll", json=poll))["tasks"]
        assert [task["attempt"] for task in tasks] == [1]
        done = {"epoch": tasks[0]["epoch"], "outcome": "SUCCEEDED"}
        await world.ask("POST", f"/v1/runs/{tasks[0]['run_id']}:complete", json=done)


async def test_what_was_skipped_beforehand_runs_though_its_place_in_the_window_is_still_to_come() -> None:
    async with Virtual() as world:
        job_id = await hourly(world, 1, dispatch_window_seconds=86_400)
        await world.ask("POST", f"/v1/jobs/{job_id}:skipNext", json={"count": 3})
        await world.wait(minutes=4)
        await world.boot(redriving=True)
        await begun(world, job_id, **{"from": "2026-06-01T12:00:01Z", "to": "2026-06-01T12:04:00Z"})
        await world.wait(seconds=10)
        assert world.targets.times() == [f"2026-06-01T12:0{n}:00Z" for n in (1, 2, 3)]


async def test_a_one_off_that_was_missed_runs_after_all_and_keeps_its_own_end() -> None:
    async with Virtual() as world:
        job = await world.create({"type": "ONCE", "run_at": "2026-06-01T12:10:00Z"}, misfire_policy="SKIP")
        await world.wait(minutes=30)
        await world.boot(redriving=True)
        await world.wait(seconds=30)
        assert (await world.job(job["job_id"])).status is JobStatus.FAILED
        await begun(world, job["job_id"], to="2026-06-01T12:30:00Z")
        await world.wait(seconds=10)
        (run,) = await world.runs(job["job_id"])
        assert (run.status, run.backfilled) == (RunStatus.SUCCEEDED, True)
        kept = await world.job(job["job_id"])
        assert (kept.status, kept.status_reason) == (JobStatus.FAILED, "MISFIRED")


async def test_what_grows_older_than_records_are_kept_while_it_waits_is_left() -> None:
    async with Virtual() as world:
        job_id = await hourly(world, 10)
        await world.boot(redriving=True)
        backfill_id = await begun(world, job_id)
        await world.ask("POST", f"/v1/backfills/{backfill_id}:pause")
        world.clock.jump(30 * 24 * 60 * MINUTE_MS)
        await world.ask("POST", f"/v1/backfills/{backfill_id}:resume")
        await world.wait(seconds=10)
        assert (await standing(world, backfill_id)).skipped == {"TOO_OLD": 6}
