"""Who runs an occurrence when several could, and what a holder that lost its lease can still do (C4, C5, H1, H2)."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from schedkit.engine.who import claim as claiming
from schedkit.model.calls import Answered, Done
from schedkit.model.jobs import JobStatus
from schedkit.model.keys import job_key
from schedkit.model.runs import AttemptOutcome, RunStatus
from schedkit.model.time import parse_rfc3339, rfc3339
from schedkit.model.timers import timer_of
from schedkit.model.writes import Refused
from tests.cases import load
from tests.worlds import Process, Takes, Virtual, settle, virtual

CASES = {case.id: case for case in load()}
NOON = "2026-06-01T12:00:00Z"


async def a_due_job(world: Virtual, **fields: object) -> str:
    """A job due at noon, at noon, with nobody there who has done anything about it."""
    job = await world.create("0 12 * * *", **fields)
    await world.wait_until(NOON)
    return str(job["job_id"])


async def handle(process: Process, world: Virtual, job_id: str) -> None:
    """Hand the job's own timer to an executor, as a queue would."""
    item = await world.store.get(job_key(job_id))
    assert item is not None
    timer = timer_of(job_key(job_id), item)
    assert timer is not None
    await process.executor.handle(timer)


async def test_two_executors_that_see_one_due_job_call_its_target_once() -> None:
    expected = CASES["dup-01"].expected
    async with Virtual("2026-06-01T11:59:00Z") as world:
        job_id = await a_due_job(world)
        first, second = [await world.boot(alone=False, serving=False) for _ in range(2)]
        await asyncio.gather(handle(first, world, job_id), handle(second, world, job_id))
        run = await world.run(job_id, NOON)
        assert run is not None
        assert run.epoch == expected["claims_won"]
        assert len(world.targets.calls) == expected["target_calls"]
        assert (await world.job(job_id)).run_count == 1


async def test_a_message_that_comes_twice_runs_nothing_twice() -> None:
    async with virtual("2026-06-01T11:59:00Z") as (world, process):
        job = await world.create("* * * * *")
        item = await world.store.get(job_key(job["job_id"]))
        assert item is not None
        timer = timer_of(job_key(job["job_id"]), item)
        assert timer is not None
        await world.wait_until("2026-06-01T12:00:30Z")
        for _ in range(5):
            await process.world.queue.send([timer])
            await settle()
        assert world.targets.times() == [NOON]


async def test_a_live_lease_elsewhere_is_left_alone_and_its_end_brings_one_more_call() -> None:
    """dup-03 and the lease of timeout + 60 s (H2): the second call has the same key and a higher token."""
    async with Virtual("2026-06-01T11:59:00Z") as world:
        await world.create("0 12 * * *")
        process = await world.boot()
        world.targets.script = [Takes(20_000)]
        await world.wait_until("2026-06-01T12:00:05Z")
        process.kill()
        await world.boot(alone=False)
        await world.wait_until("2026-06-01T12:01:35Z")
        assert len(world.targets.calls) == 1, "30 s timeout + 60 s, and a margin of 5 s"
        await world.wait(ms=1)
        assert [made.token for made in world.targets.calls] == [1, 2]
        assert len({made.key for made in world.targets.calls}) == 1
        assert [made.attempt for made in world.targets.calls] == [1, 1]


async def test_a_late_finish_of_an_old_holder_changes_nothing() -> None:
    case = CASES["lease-01"]
    async with Virtual("2026-06-01T11:59:00Z") as world:
        job_id = await a_due_job(world)
        world.targets.always = Takes(25_000)
        slow = await world.boot()
        await settle()
        held = await world.run(job_id, NOON)
        assert held is not None
        slow.kill()
        await world.wait(seconds=96)
        await world.boot(alone=False)
        await settle()
        write = claiming.settle(held, Done("late"), called_at=held.created_at, shards=1, now=world.clock.now())
        before = await world.run(job_id, NOON)
        assert isinstance(await world.store.apply(write), Refused), case.expected["A_result"]
        after = await world.run(job_id, NOON)
        assert after == before
        assert after is not None
        assert after.status == case.expected["run"]["state"]
        assert after.epoch == held.epoch + 1
        assert after.lease_owner != held.lease_owner


async def test_an_executor_that_woke_up_too_late_says_nothing_of_its_reply() -> None:
    """The stalled process itself: its reply comes after another one has finished the run."""
    async with Virtual("2026-06-01T11:59:00Z") as world:
        job_id = await a_due_job(world)
        stalled = await world.boot(alone=False, serving=False)
        world.targets.script = [Takes(29_000, Answered(500))]
        work = world.start(handle(stalled, world, job_id))
        await settle()
        stalled.line.down = True  # it can neither renew nor record anything
        await world.wait(seconds=96)
        other = await world.boot(alone=False)
        await world.wait(seconds=1)
        assert [made.token for made in world.targets.calls] == [1, 2]
        stalled.line.down = False
        await world.wait(seconds=60)
        await asyncio.gather(work, return_exceptions=True)
        run = await world.run(job_id, NOON)
        assert run is not None
        assert (run.status, run.epoch) == (RunStatus.SUCCEEDED, 2)
        assert [attempt.outcome for attempt in run.attempts] == [
            AttemptOutcome.LEASE_EXPIRED,
            AttemptOutcome.SUCCEEDED,
        ]
        assert [settled.status for settled in other.settled] == [RunStatus.SUCCEEDED]
        assert stalled.settled == []


async def test_a_cancel_before_the_claim_stops_the_call() -> None:
    """race-01: read from the index, cancelled, then claimed."""
    case = CASES["race-01"]
    async with virtual("2026-06-01T11:59:00Z") as (world, process):
        job = await world.create("0 12 * * *")
        item = await world.store.get(job_key(job["job_id"]))
        assert item is not None
        timer = timer_of(job_key(job["job_id"]), item)
        assert timer is not None
        await process.stop_receiving()
        await world.wait_until(NOON)
        await world.ask("DELETE", f"/v1/jobs/{job['job_id']}")
        await process.executor.handle(timer)
        assert len(world.targets.calls) == case.expected["target_calls"]
        assert (await world.job(job["job_id"])).status == case.expected["job_status"]


@pytest.mark.parametrize(("method", "path"), [("DELETE", ""), ("POST", ":pause")])
async def test_a_verb_that_lands_between_claim_and_advance_stops_the_call(method: str, path: str) -> None:
    """I4: the claim landed, but the job had been taken away before it went on."""
    async with Virtual("2026-06-01T11:59:00Z") as world:
        job_id = await a_due_job(world)
        process = await world.boot(alone=False, serving=False)
        process.line.before["advance"] = partial(world.ask, method, f"/v1/jobs/{job_id}{path}")
        await handle(process, world, job_id)
        assert world.targets.calls == []
        run = await world.run(job_id, NOON)
        assert run is not None
        assert run.status is RunStatus.CANCELLED


async def test_an_edit_that_leaves_the_schedule_alone_between_claim_and_advance_changes_nothing_of_the_call() -> None:
    async with Virtual("2026-06-01T11:59:00Z") as world:
        job_id = await a_due_job(world)
        process = await world.boot(alone=False, serving=False)
        process.line.before["advance"] = lambda: world.ask("PATCH", f"/v1/jobs/{job_id}", json={"description": "new"})
        await handle(process, world, job_id)
        assert world.targets.times() == [NOON]
        job = await world.job(job_id)
        assert (job.description, job.run_count) == ("new", 1)
        assert rfc3339(job.next_run_at or 0) == "2026-06-02T12:00:00Z"


async def test_a_trigger_between_claim_and_advance_costs_the_claimed_run_nothing() -> None:
    async with Virtual("2026-06-01T11:59:00Z") as world:
        job_id = await a_due_job(world)
        process = await world.boot(alone=False, serving=False)
        process.line.lose = ["advance"]
        process.line.after_loss = partial(world.ask, "POST", f"/v1/jobs/{job_id}:trigger")
        await asyncio.gather(handle(process, world, job_id), world.wait(seconds=1))
        assert NOON in world.targets.times()


# ── edits of what is due, or running ─────────────────────────────────────────────────────────────────────────────────


async def test_an_edit_that_leaves_the_schedule_alone_leaves_an_overdue_occurrence_due() -> None:
    case = CASES["edit-01"]
    async with Virtual("2026-06-01T11:30:00Z") as world:
        job = await world.create(case.input["job"]["cron"])
        await world.wait_until(case.input["now"])
        edited = await world.ask("PATCH", f"/v1/jobs/{job['job_id']}", json=case.input["edit"])
        assert edited["next_run_at"] == case.expected["next_run_at"]
        await world.boot()
        assert (world.targets.times() == [case.expected["next_run_at"]]) is case.expected["overdue_run_happens"]


async def test_the_end_of_a_run_never_writes_back_an_old_copy_of_the_job() -> None:
    case = CASES["edit-03"]
    async with virtual("2026-06-01T11:59:00Z") as (world, _):
        world.targets.script = [Takes(60_000)]
        job = await world.create("0 * * * *", target={"url": "http://target.example/", "timeout_seconds": 120})
        await world.wait_until("2026-06-01T12:00:05Z")
        assert (await world.ask("GET", f"/v1/jobs/{job['job_id']}"))["next_run_at"] == "2026-06-01T13:00:00Z"
        cron = case.expected["job"]["cron"]
        await world.ask("PATCH", f"/v1/jobs/{job['job_id']}", json={"schedule": {"type": "CRON", "cron": cron}})
        await world.wait_until("2026-06-01T12:01:01Z")
        after = await world.ask("GET", f"/v1/jobs/{job['job_id']}")
        assert after["schedule"]["cron"] == cron
        assert after["next_run_at"] == case.expected["job"]["next_run_at"]
        assert after["recent_runs"][0]["status"] == "SUCCEEDED"


async def test_both_passes_of_a_repeated_hour_are_two_runs_with_two_keys() -> None:
    case = CASES["idem-04"]
    async with virtual(case.input["after"]) as (world, _):
        job = await world.create(
            {
                "type": "CRON",
                "cron": case.input["cron"],
                "time_zone": case.input["time_zone"],
                "dst_overlap_policy": "BOTH",
            }
        )
        await world.wait(hours=12)
        keys = [made.key.replace(job["job_id"], "job_x") for made in world.targets.calls]
        assert keys == case.expected["idempotency_keys"]


# ── jobs that end ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("reply", "status", "reason"),
    [
        (Answered(204), JobStatus.COMPLETED, None),
        (Answered(404), JobStatus.FAILED, "PERMANENT_FAILURE"),
        (Answered(503), JobStatus.FAILED, "ATTEMPTS_EXHAUSTED"),
    ],
)
async def test_a_one_off_ends_as_its_run_ended(reply: Answered, status: JobStatus, reason: str | None) -> None:
    async with virtual("2026-06-01T11:59:00Z") as (world, _):
        world.targets.always = reply
        job = await world.create(
            {"type": "ONCE", "run_at": NOON}, retry_policy={"max_attempts": 2, "initial_backoff_seconds": 0}
        )
        await world.wait(minutes=2)
        ended = await world.job(job["job_id"])
        assert (ended.status, ended.status_reason) == (status, reason)
        item = await world.store.get(job_key(job["job_id"]))
        assert item is not None
        assert timer_of(job_key(job["job_id"]), item) is None, "nothing is left to wait for"


async def test_a_cron_whose_run_failed_goes_on_with_its_next_occurrence() -> None:
    """F6."""
    async with virtual("2026-06-01T11:59:00Z") as (world, _):
        world.targets.script = [Answered(410)]
        job = await world.create("* * * * *")
        await world.wait_until("2026-06-01T12:01:00Z")
        assert await world.told(job["job_id"]) == [("12:00:00", "FAILED"), ("12:01:00", "SUCCEEDED")]


async def test_a_cron_ends_completed_after_its_end() -> None:
    async with virtual("2026-06-01T11:59:00Z") as (world, _):
        job = await world.create({"type": "CRON", "cron": "* * * * *", "end_at": "2026-06-01T12:02:00Z"})
        await world.wait(minutes=10)
        assert world.targets.times() == [NOON, "2026-06-01T12:01:00Z"]
        assert (await world.job(job["job_id"])).status is JobStatus.COMPLETED


async def test_a_job_with_a_window_starts_at_its_own_place_in_it_every_time() -> None:
    """W6, C2: lag counts from scheduled_for + offset, and is never negative."""
    async with virtual("2026-06-01T11:59:00Z") as (world, _):
        job = await world.create("0 * * * *", dispatch_window_seconds=600)
        await world.wait(hours=5)
        offsets = {made.at - parse_rfc3339(made.scheduled_for) for made in world.targets.calls}
        assert len(world.targets.calls) == 5
        assert len(offsets) == 1
        assert 0 < offsets.pop() < 600_000
        assert {run.attempts[0].lag_ms for run in await world.runs(job["job_id"])} == {0}
