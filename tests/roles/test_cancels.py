"""Cancelling jobs and runs while something is going on (I4)."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from schedkit.model.calls import Answered, NoAnswer
from schedkit.model.jobs import JobStatus
from schedkit.model.runs import AttemptOutcome, RunStatus
from tests.worlds import HANGS, SLOW, Takes, virtual

NOON = "2026-06-01T12:00:00Z"


@pytest.mark.parametrize(
    ("reply", "status"),
    [
        (Answered(200), RunStatus.SUCCEEDED_AFTER_CANCEL),
        (Answered(503), RunStatus.CANCELLED),
        (Answered(400), RunStatus.CANCELLED),
        (NoAnswer("reset"), RunStatus.CANCELLED),
    ],
)
async def test_a_call_in_flight_ends_as_it_ends_when_its_run_is_cancelled(reply: Answered, status: RunStatus) -> None:
    """C6: nothing is reported that was not seen; no retry after a cancel."""
    async with virtual("2026-06-01T11:59:50Z") as (world, _):
        world.targets.script = [Takes(10_000, reply)]
        job = await world.create("0 12 * * *")
        await world.wait_until("2026-06-01T12:00:05Z")
        asked = await world.ask("POST", f"/v1/runs/{job['job_id']}:{NOON}:cancel")
        assert (asked["status"], asked["cancel_requested"]) == ("RUNNING", True)
        await world.ask("POST", f"/v1/runs/{job['job_id']}:{NOON}:cancel")
        await world.wait(minutes=30)
        run = await world.run(job["job_id"], NOON)
        assert run is not None
        assert (run.status, len(world.targets.calls)) == (status, 1)


async def test_cancelling_a_job_leaves_a_call_in_flight_to_end_as_it_ends() -> None:
    async with virtual("2026-06-01T11:59:50Z") as (world, _):
        world.targets.script = [Takes(10_000)]
        job = await world.create("* * * * *")
        await world.wait_until("2026-06-01T12:00:05Z")
        await world.ask("DELETE", f"/v1/jobs/{job['job_id']}")
        await world.wait(minutes=5)
        assert await world.told(job["job_id"]) == [("12:00:00", "SUCCEEDED")]
        assert (await world.job(job["job_id"])).status is JobStatus.CANCELLED


async def test_cancelling_a_job_with_its_running_runs_asks_them_to_stop() -> None:
    async with virtual("2026-06-01T11:59:50Z") as (world, _):
        world.targets.script = [Takes(10_000)]
        job = await world.create("* * * * *")
        await world.wait_until("2026-06-01T12:00:05Z")
        await world.ask("DELETE", f"/v1/jobs/{job['job_id']}?running=cancel")
        await world.wait(minutes=5)
        assert await world.told(job["job_id"]) == [("12:00:00", "SUCCEEDED_AFTER_CANCEL")]


WORKED = {"type": "TASK_QUEUE", "task_queue": "rebuilds"}


@pytest.mark.parametrize(
    ("target", "reply", "polled", "becomes"),
    [
        (SLOW, HANGS, False, ("RUNNING", True)),
        (SLOW, Answered(503, retry_after="600"), False, ("CANCELLED", False)),
        (WORKED, None, False, ("CANCELLED", False)),
        (WORKED, None, True, ("RUNNING", True)),
    ],
    ids=["called", "waits for its retry", "waits for a worker", "held by a worker"],
)
async def test_cancelling_a_job_reaches_an_open_run_behind_any_number_of_others(
    target: dict[str, Any], reply: Any, polled: bool, becomes: tuple[str, bool]
) -> None:
    """More records than any one page has come after the run, whose time is long ago."""
    async with virtual("2026-06-01T11:59:50Z") as (world, _):
        world.targets.script = [reply] if reply else []
        job = await world.create("* * * * *", target=target)
        other = await world.create("* * * * *", target=WORKED)
        await world.wait_until("2026-06-01T12:00:01Z")
        if polled:
            poll = {"worker_id": "w-1", "max_tasks": 2}
            assert len((await world.ask("POST", "/v1/task-queues/rebuilds/tasks:poll", json=poll))["tasks"]) == 2
        untouched = await world.run(other["job_id"], NOON)
        for _ in range(7):
            await world.ask("POST", f"/v1/jobs/{job['job_id']}:skipNext", json={"count": 90})
        await world.ask("DELETE", f"/v1/jobs/{job['job_id']}?running=cancel")
        run = await world.run(job["job_id"], NOON)
        assert run is not None
        assert (run.status, run.cancel_requested) == becomes
        assert await world.run(other["job_id"], NOON) == untouched


async def test_a_run_that_goes_on_while_its_job_is_cancelled_is_looked_at_again() -> None:
    """C3: its worker gives it up just before it would be asked to stop; nobody may poll that queue ever again."""
    async with virtual("2026-06-01T11:59:50Z") as (world, process):
        job = await world.create("* * * * *", target=WORKED)
        await world.wait_until("2026-06-01T12:00:01Z")
        poll = {"worker_id": "w-1", "max_tasks": 1}
        held = (await world.ask("POST", "/v1/task-queues/rebuilds/tasks:poll", json=poll))["tasks"][0]
        failed = {"epoch": held["epoch"], "outcome": "FAILED", "error": "no disk"}
        process.line.before["request cancel"] = partial(
            world.ask, "POST", f"/v1/runs/{held['run_id']}:complete", json=failed
        )
        await world.ask("DELETE", f"/v1/jobs/{job['job_id']}?running=cancel")
        run = await world.run(job["job_id"], NOON)
        assert run is not None
        assert (run.status, run.reason) == (RunStatus.CANCELLED, "JOB_CANCELLED")


async def test_a_run_that_waits_for_its_retry_is_cancelled_at_once_with_its_job() -> None:
    async with virtual("2026-06-01T11:59:50Z") as (world, _):
        world.targets.script = [Answered(503, retry_after="60")]
        job = await world.create("0 12 * * *")
        await world.wait_until("2026-06-01T12:00:05Z")
        await world.ask("DELETE", f"/v1/jobs/{job['job_id']}")
        run = await world.run(job["job_id"], NOON)
        assert run is not None
        assert (run.status, run.reason) == (RunStatus.CANCELLED, "JOB_CANCELLED")
        await world.wait(minutes=5)
        assert len(world.targets.calls) == 1


async def test_a_cancel_that_lands_after_a_retry_was_read_and_before_it_is_claimed_wins() -> None:
    async with virtual("2026-06-01T11:59:50Z") as (world, process):
        world.targets.script = [Answered(503, retry_after="60")]
        job = await world.create("0 12 * * *")
        await world.wait_until("2026-06-01T12:00:05Z")
        process.line.before["claim"] = partial(world.ask, "DELETE", f"/v1/jobs/{job['job_id']}")
        await world.wait(minutes=5)
        run = await world.run(job["job_id"], NOON)
        assert run is not None
        assert (run.status, len(world.targets.calls)) == (RunStatus.CANCELLED, 1)


async def test_a_job_cancelled_while_its_retry_is_claimed_is_not_called() -> None:
    """The job is read again after the claim: a cancel that was acknowledged before it stops the call."""
    async with virtual("2026-06-01T11:59:50Z") as (world, process):
        world.targets.script = [Answered(503, retry_after="60")]
        job = await world.create("0 12 * * *")
        await world.wait_until("2026-06-01T12:00:05Z")
        before = await world.job(job["job_id"])
        process.line.before["claim"] = partial(world.change, before, {"status": "CANCELLED", "next_run_at": None})
        await world.wait(minutes=5)
        run = await world.run(job["job_id"], NOON)
        assert run is not None
        assert (run.status, run.reason, len(world.targets.calls)) == (RunStatus.CANCELLED, "JOB_CANCELLED", 1)
        assert run.attempts[-1].outcome is AttemptOutcome.CANCELLED


async def test_a_pause_stops_a_run_that_waits_for_its_retry() -> None:
    """A pause between two tries: the state machine's RETRY_WAIT → CANCELLED."""
    async with virtual("2026-06-01T11:59:50Z") as (world, _):
        world.targets.script = [Answered(503, retry_after="60")]
        job = await world.create("0 12 * * *")
        await world.wait_until("2026-06-01T12:00:05Z")
        await world.ask("POST", f"/v1/jobs/{job['job_id']}:pause")
        await world.wait(minutes=5)
        run = await world.run(job["job_id"], NOON)
        assert run is not None
        assert (run.status, run.reason, len(world.targets.calls)) == (RunStatus.CANCELLED, "JOB_PAUSED", 1)


async def test_a_pause_that_lands_just_before_the_claim_of_a_retry_stops_it() -> None:
    """I4: it was acknowledged before the claim, and so the job is read once more after the claim."""
    async with virtual("2026-06-01T11:59:50Z") as (world, process):
        world.targets.script = [Answered(503, retry_after="60")]
        job = await world.create("0 12 * * *")
        await world.wait_until("2026-06-01T12:00:05Z")
        process.line.before["claim"] = lambda: world.ask("POST", f"/v1/jobs/{job['job_id']}:pause")
        await world.wait(minutes=5)
        run = await world.run(job["job_id"], NOON)
        assert run is not None
        assert (run.status, run.reason, len(world.targets.calls)) == (RunStatus.CANCELLED, "JOB_PAUSED", 1)


async def test_a_triggered_run_of_a_paused_job_is_tried_again() -> None:
    async with virtual("2026-06-01T11:59:50Z") as (world, _):
        world.targets.script = [Answered(503, retry_after="60")]
        job = await world.create("0 12 * * *", paused=True)
        await world.ask("POST", f"/v1/jobs/{job['job_id']}:trigger")
        await world.wait(minutes=5)
        assert await world.told(job["job_id"]) == [("11:59:50", "SUCCEEDED")]
        assert len(world.targets.calls) == 2


async def test_cancelling_a_waiting_run_ends_a_one_off_cancelled() -> None:
    async with virtual("2026-06-01T11:59:50Z") as (world, _):
        world.targets.script = [Answered(503, retry_after="60")]
        job = await world.create({"type": "ONCE", "run_at": NOON})
        await world.wait_until("2026-06-01T12:00:05Z")
        run = await world.ask("POST", f"/v1/runs/{job['job_id']}:{NOON}:cancel")
        assert (run["status"], run["reason"]) == ("CANCELLED", "RUN_CANCELLED")
        await world.wait(seconds=1)
        assert (await world.job(job["job_id"])).status is JobStatus.CANCELLED


async def test_cancelling_the_run_that_a_held_occurrence_waits_for_starts_it_at_once() -> None:
    async with virtual("2026-06-01T11:59:50Z") as (world, _):
        world.targets.script = [Answered(503, retry_after="600")]
        job = await world.create("* * * * *", overlap_policy="BUFFER_ONE")
        await world.wait_until("2026-06-01T12:01:10Z")
        await world.ask("POST", f"/v1/runs/{job['job_id']}:{NOON}:cancel")
        await world.wait(seconds=1)
        assert world.targets.times() == [NOON, "2026-06-01T12:01:00Z"]
