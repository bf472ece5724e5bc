"""A holder that was lost between its claim and its advance: whoever comes next finds a run that its job knows nothing
of. The run counts, it is the job's last run for the overlap rule, and the schedule goes on from it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from schedkit.errors import StoreUnavailable
from schedkit.model.calls import Answered
from schedkit.model.jobs import JobStatus
from schedkit.model.runs import RunStatus
from schedkit.model.time import parse_rfc3339
from schedkit.model.writes import Item, Key
from tests.worlds import HANGS, SLOW, Process, Takes, Virtual

NOON = "2026-06-01T12:00:00Z"
EVERY_MINUTE = "* * * * *"


async def claimed_only(world: Virtual, schedule: str = EVERY_MINUTE, **fields: Any) -> tuple[str, Process]:
    """A job whose noon was claimed by a process that died before it advanced the job; (job id, that process)."""
    job_id = str((await world.create(schedule, **fields))["job_id"])
    process = await world.boot()
    process.line.before["advance"] = process.line._die
    await world.wait_until("2026-06-01T12:00:05Z")
    process.kill()
    assert (await world.job(job_id)).last_run is None
    run = await world.run(job_id, NOON)
    assert run is not None
    assert run.status is RunStatus.RUNNING
    return job_id, process


@pytest.mark.parametrize("misfire", ["RUN_ONCE", "SKIP", "RUN_ALL"])
async def test_a_run_that_was_claimed_before_an_outage_counts_whatever_the_misfire_policy(misfire: str) -> None:
    async with Virtual("2026-06-01T11:59:50Z") as world:
        job_id, _ = await claimed_only(world, misfire_policy=misfire)
        await world.wait(minutes=10)
        await world.boot()
        await world.wait_until("2026-06-01T12:11:30Z")
        runs = await world.runs(job_id)
        assert runs[0].status is RunStatus.SUCCEEDED
        assert (await world.job(job_id)).run_count == sum(bool(run.attempts) for run in runs)


async def test_the_overlap_rule_knows_the_run_whose_job_was_never_advanced() -> None:
    """W13: the minutes missed meanwhile do not run beside the one that was claimed."""
    async with Virtual("2026-06-01T11:59:50Z") as world:
        job_id, _ = await claimed_only(world, overlap_policy="SKIP", target=SLOW)
        world.targets.always = HANGS
        await world.wait(minutes=5)
        await world.boot()
        await world.wait_until("2026-06-01T12:06:30Z")
        assert world.targets.times() == [NOON]
        told = await world.told(job_id)
        assert told[0] == ("12:00:00", "RUNNING")
        assert {status for _, status in told[1:]} <= {"OVERLAP", "MISFIRED"}


async def test_a_bound_on_the_number_of_runs_holds() -> None:
    async with Virtual("2026-06-01T11:59:50Z") as world:
        job_id, _ = await claimed_only(world, max_runs=1)
        await world.wait(minutes=10)
        await world.boot()
        await world.wait(minutes=5)
        assert world.targets.times() == [NOON]
        job = await world.job(job_id)
        assert (job.run_count, job.status) == (1, JobStatus.COMPLETED)


async def test_who_takes_the_run_over_advances_its_job() -> None:
    """With another process alive beside: its lease ends, and the one that reclaims does what the lost one left."""
    async with Virtual("2026-06-01T11:59:50Z") as world:
        job_id, _ = await claimed_only(world, "0 12 * * *")
        other = await world.boot(alone=False, serving=False)
        await world.wait(minutes=2)
        lease = await world.store.timers("L#0", until=world.clock.now(), limit=1)
        await other.executor.handle(lease[0])
        job = await world.job(job_id)
        assert (job.run_count, job.last_run) == (1, parse_rfc3339(NOON))
        assert world.targets.times() == [NOON]


async def test_a_job_that_was_moved_away_meanwhile_is_not_called_for_its_old_time() -> None:
    """I4: the pause was acknowledged before anybody took the run over."""
    async with Virtual("2026-06-01T11:59:50Z") as world:
        job_id, _ = await claimed_only(world)
        client = world.client_of(world.new_world())
        assert (await client.post(f"/v1/jobs/{job_id}:pause")).is_success
        await client.aclose()
        await world.boot()
        await world.wait(minutes=5)
        assert world.targets.times() == []
        run = await world.run(job_id, NOON)
        assert run is not None
        assert (run.status, run.reason) == (RunStatus.CANCELLED, "JOB_PAUSED")


async def test_a_retry_may_be_claimed_while_the_settling_before_it_is_repeated_for_its_lost_reply() -> None:
    """By the same executor: the first of the two lets go of its own run only, and the second stays in hand."""
    async with Virtual("2026-06-01T11:59:50Z") as world:
        world.targets.script = [Answered(503), Takes(30_000)]
        job = await world.create("0 12 * * *", retry_policy={"initial_backoff_seconds": 0}, target=SLOW)
        process = await world.boot()
        process.line.lose = ["settle RETRY_WAIT"]

        async def claimed_meanwhile() -> None:
            (retry,) = await world.store.timers("R#0", until=world.clock.now(), limit=1)
            world.start(process.executor.handle(retry))
            while len(world.targets.calls) < 2:
                await asyncio.sleep(0)

        process.line.after_loss = claimed_meanwhile
        await world.wait_until("2026-06-01T12:00:10Z")
        assert [made.token for made in world.targets.calls] == [1, 2]
        assert [run.epoch for run in process.executor._holding.values()] == [2]
        await world.wait(minutes=1)
        assert process.executor._holding == {}
        assert await world.told(job["job_id"]) == [("12:00:00", "SUCCEEDED")]


async def test_a_read_that_fails_after_a_claim_is_tried_again_and_does_not_cost_the_lease(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """F11: the claim has landed, so whoever gave up here would leave the run to its lease, a minute and more."""
    async with Virtual("2026-06-01T11:59:50Z") as world:
        world.targets.script = [Answered(503, retry_after="5")]
        job = await world.create("0 12 * * *")
        process = await world.boot()
        await world.wait_until("2026-06-01T12:00:02Z")
        read, failures = process.line.get, 2

        async def get(key: Key) -> Item | None:
            nonlocal failures
            run = await world.run(job["job_id"], NOON)
            if run is not None and run.status is RunStatus.RUNNING and failures:
                failures -= 1
                raise StoreUnavailable("throttled")
            return await read(key)

        monkeypatch.setattr(process.line, "get", get)
        await world.wait_until("2026-06-01T12:00:08Z")
        assert failures == 0
        assert await world.told(job["job_id"]) == [("12:00:00", "SUCCEEDED")]
        assert [made.token for made in world.targets.calls] == [1, 2]


async def test_a_retry_is_called_although_a_held_occurrence_before_it_has_started_meanwhile() -> None:
    """The job's last run goes back then, which says nothing of a run that was called before."""
    async with Virtual("2026-06-01T11:59:50Z") as world:
        job = await world.create(EVERY_MINUTE, overlap_policy="BUFFER_ONE", target=SLOW)
        world.targets.script = [Takes(220_000), Answered(503, retry_after="90")]
        await world.boot()
        await world.wait_until("2026-06-01T12:01:30Z")  # noon is out, one minute past is held
        await world.ask("PATCH", f"/v1/jobs/{job['job_id']}", json={"overlap_policy": "ALLOW"})
        await world.wait_until("2026-06-01T12:06:00Z")
        told = await world.told(job["job_id"])
        assert {status for _, status in told[:5]} == {"SUCCEEDED"}, told


async def test_a_wish_said_at_resume_outlives_a_run_that_was_given_up() -> None:
    """W14: SKIP was said for all that was missed, also where one of them had been claimed before the pause landed."""
    async with Virtual("2026-06-01T11:59:50Z") as world:
        job_id = str((await world.create(EVERY_MINUTE, misfire_grace_seconds=5))["job_id"])
        process = await world.boot()
        await world.wait_until("2026-06-01T12:00:30Z")
        process.line.before["advance"] = lambda: world.ask("POST", f"/v1/jobs/{job_id}:pause")
        await world.wait_until("2026-06-01T12:05:30Z")
        await world.ask("POST", f"/v1/jobs/{job_id}:resume", json={"misfire": "SKIP"})
        await world.wait_until("2026-06-01T12:05:50Z")
        assert world.targets.times() == [NOON]
        assert (await world.job(job_id)).run_count == 1


async def test_who_takes_a_run_away_is_named_also_where_it_happens_at_the_last_moment() -> None:
    async with Virtual("2026-06-01T11:59:50Z") as world:
        job_id, _ = await claimed_only(world)
        client = world.client_of(world.new_world())
        process = await world.boot(serving=False)
        process.line.before["advance"] = lambda: client.post(f"/v1/jobs/{job_id}:pause")
        await world.wait(minutes=3)
        (lease,) = await world.store.timers("L#0", until=world.clock.now(), limit=1)
        await process.executor.handle(lease)
        await client.aclose()
        assert await world.told(job_id) == [("12:00:00", "CANCELLED")]
        run = await world.run(job_id, NOON)
        assert run is not None
        assert run.reason == "JOB_PAUSED"
