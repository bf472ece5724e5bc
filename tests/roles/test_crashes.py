"""kill -9 at every step, lost answers, a store that goes away: nothing is lost, nothing runs twice without a reason."""

from __future__ import annotations

from typing import Any

import pytest

from schedkit.model.calls import Answered, NoAnswer, NotSent
from schedkit.model.jobs import JobStatus
from schedkit.model.keys import job_key
from schedkit.model.runs import AttemptOutcome, Run, RunStatus
from schedkit.model.time import parse_rfc3339, rfc3339
from schedkit.model.timers import Timer, timer_of
from schedkit.model.writes import Item
from schedkit.roles.recovery import release_lost
from tests.worlds import FOREVER_MS, SLOW, Process, Takes, Virtual, settle, virtual

NOON = "2026-06-01T12:00:00Z"
MAX_STEPS = 40

STORIES: dict[str, dict[str, Any]] = {
    "a cron": {"schedule": "0 12 * * *"},
    "a one-off": {"schedule": {"type": "ONCE", "run_at": NOON}},
    "a retry": {"schedule": "0 12 * * *", "script": [Answered(503)], "retry_policy": {"initial_backoff_seconds": 0}},
    "a buffered job": {"schedule": "0 12 * * *", "overlap_policy": "BUFFER_ONE"},
    "a job with a bound": {"schedule": "0 12 * * *", "max_runs": 1},
}


async def crashed(world: Virtual, story: dict[str, Any], step: int, *, before: bool) -> tuple[str, bool]:
    """A job's noon on a process that dies at this step of its line to the store; (job id, whether it died)."""
    story = dict(story)
    world.targets.script = list(story.pop("script", ()))
    job = await world.create(story.pop("schedule"), **story)
    process = await world.boot()
    process.line.made = 0
    if before:
        process.line.dies_before = step
    else:
        process.line.dies_after = step
    await world.wait_until("2026-06-01T12:00:10Z")
    process.kill()
    return str(job["job_id"]), process.line.made > step


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("name", STORIES)
async def test_a_process_that_dies_at_any_step_loses_nothing(name: str, before: bool) -> None:
    """C1, C3, C4: wherever it died, the next process finishes the run; another call has a reason and a higher token."""
    for step in range(MAX_STEPS):
        async with Virtual("2026-06-01T11:59:50Z") as world:
            job_id, died = await crashed(world, STORIES[name], step, before=before)
            await world.boot()
            await world.wait_until("2026-06-01T12:03:00Z")
            run = await world.run(job_id, NOON)
            assert run is not None, step
            assert run.status is RunStatus.SUCCEEDED, step
            check_calls(world, run, retries=name == "a retry")
            await check_job(world, job_id, ends=name in ("a one-off", "a job with a bound"))
            if not died:
                return
    raise AssertionError("the story has more steps than were tried")


def check_calls(world: Virtual, run: Run, *, retries: bool) -> None:
    calls = world.targets.calls
    tokens = [made.token for made in calls]
    assert tokens == sorted(set(tokens)), "each call has a higher token than the one before"
    assert len({made.key for made in calls}) == 1
    lost = [attempt for attempt in run.attempts if attempt.outcome is AttemptOutcome.LEASE_EXPIRED]
    assert 1 + retries <= len(calls) <= 1 + retries + len(lost), "a call too many has a lost holder to explain it"
    assert len(lost) <= 1
    assert run.epoch == len(run.attempts)


async def check_job(world: Virtual, job_id: str, *, ends: bool) -> None:
    job = await world.job(job_id)
    assert job.run_count == 1
    assert job.status is (JobStatus.COMPLETED if ends else JobStatus.SCHEDULED)
    if not ends:
        assert rfc3339(job.next_run_at or 0) == "2026-06-02T12:00:00Z"


@pytest.mark.parametrize("arrow", ["claim", "advance", "settle SUCCEEDED"])
async def test_an_answer_that_is_lost_makes_no_second_call(arrow: str) -> None:
    """H2: a refused claim that finds its own token has won; every write after it is tried again in place."""
    async with virtual("2026-06-01T11:59:50Z") as (world, process):
        process.line.lose = [arrow]
        job = await world.create("0 12 * * *")
        await world.wait_until("2026-06-01T12:00:05Z")
        run = await world.run(job["job_id"], NOON)
        assert run is not None
        assert (run.status, run.epoch, len(world.targets.calls)) == (RunStatus.SUCCEEDED, 1, 1)
        assert process.line.lose == [], "it was lost, in fact"
        assert (await world.job(job["job_id"])).run_count == 1


async def test_an_answer_to_a_retry_s_claim_that_is_lost_makes_no_second_call() -> None:
    async with virtual("2026-06-01T11:59:50Z") as (world, process):
        world.targets.script = [Answered(503)]
        job = await world.create("0 12 * * *")
        await world.wait_until(NOON)
        process.line.lose = ["claim"]
        await world.wait(seconds=30)
        run = await world.run(job["job_id"], NOON)
        assert run is not None
        assert (run.status, run.epoch) == (RunStatus.SUCCEEDED, 2)
        assert [made.token for made in world.targets.calls] == [1, 2]


@pytest.mark.parametrize("seconds", [3, 45, 600])
async def test_a_store_that_goes_away_for_a_while_costs_time_and_nothing_else(seconds: int) -> None:
    """F11."""
    async with virtual("2026-06-01T11:59:50Z") as (world, process):
        world.targets.script = [Takes(5_000)]
        job = await world.create("* * * * *", misfire_policy="RUN_ALL")
        await world.wait_until("2026-06-01T12:00:02Z")
        process.line.down = True  # the first call is in flight
        await world.wait(seconds=seconds)
        process.line.down = False
        await world.wait(minutes=3)
        runs = await world.runs(job["job_id"])
        assert {run.status for run in runs} == {RunStatus.SUCCEEDED}
        minutes = (world.clock.now() - parse_rfc3339(NOON)) // 60_000
        assert [run.scheduled_for for run in runs] == [parse_rfc3339(NOON) + n * 60_000 for n in range(minutes + 1)]
        keys = [made.key for made in world.targets.calls]
        assert len(keys) == len(set(keys)) + (seconds > 90), "only a lease that ran out brings a second call"


async def test_a_call_in_flight_when_its_process_dies_is_made_again_at_once_by_the_next_one() -> None:
    """The folder's lock proves that the holder is gone: nobody waits for its lease."""
    async with Virtual("2026-06-01T11:59:50Z") as world:
        process = await world.boot()
        world.targets.script = [Takes(20_000)]
        await world.create("0 12 * * *")
        await world.wait_until("2026-06-01T12:00:02Z")
        process.kill()
        await world.boot()
        assert [(made.token, rfc3339(made.at)) for made in world.targets.calls] == [
            (1, NOON),
            (2, "2026-06-01T12:00:02Z"),
        ]


class CreepingClock:
    """A clock that has moved on each time it is read, as a real one has after each write; not for ever, though."""

    def __init__(self, at: int, reads: int) -> None:
        self._at = at
        self._reads = reads

    def now(self) -> int:
        self._reads -= 1
        assert self._reads, "it goes round in circles"
        self._at += 1
        return self._at

    async def sleep(self, duration_ms: float) -> None:
        raise AssertionError("nobody sleeps in a recovery")


async def test_recovery_ends_also_when_the_leases_had_run_out_long_ago() -> None:
    async with Virtual("2026-06-01T11:59:50Z") as world:
        process = await world.boot()
        world.targets.always = Takes(29_000)
        for _ in range(3):
            await world.create("0 12 * * *")
        await world.wait_until("2026-06-01T12:00:01Z")
        process.kill()
        await world.wait(hours=20)
        await release_lost(world.new_world(clock=CreepingClock(world.clock.now(), reads=100)))
        await world.wait(seconds=1)
        await world.boot()
        assert len(world.targets.calls) == 6


# ── at most once ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("step", range(3, 8))
async def test_an_at_most_once_run_whose_process_dies_is_unknown_and_never_called_again(step: int) -> None:
    """C7: marked before the call, never reclaimed."""
    async with Virtual("2026-06-01T11:59:50Z") as world:
        job = await world.create("0 12 * * *", delivery="AT_MOST_ONCE")
        process = await world.boot(serving=False)
        process.line.made, process.line.dies_before = 0, step
        world.start(process.executor.handle(await due_timer(world, job["job_id"])))
        world.clock.jump(10_000)
        world.start(process.executor.handle(await due_timer(world, job["job_id"])))
        await settle()
        process.kill()
        await world.boot()
        await world.wait(minutes=10)
        run = await world.run(job["job_id"], NOON)
        assert run is not None
        assert len(world.targets.calls) <= 1
        assert run.status in (RunStatus.UNKNOWN, RunStatus.SUCCEEDED)


async def due_timer(world: Virtual, job_id: str) -> Timer:
    item: Item | None = await world.store.get(job_key(job_id))
    assert item is not None
    timer = timer_of(job_key(job_id), item)
    assert timer is not None
    return timer


async def test_an_at_most_once_run_in_flight_at_the_crash_becomes_unknown_and_a_dead_letter() -> None:
    async with Virtual("2026-06-01T11:59:50Z") as world:
        job = await world.create("0 12 * * *", delivery="AT_MOST_ONCE")
        process = await world.boot()
        world.targets.script = [Takes(20_000)]
        await world.wait_until("2026-06-01T12:00:02Z")
        process.kill()
        await world.boot()
        await world.wait(minutes=5)
        run = await world.run(job["job_id"], NOON)
        assert run is not None
        assert (run.status, len(world.targets.calls)) == (RunStatus.UNKNOWN, 1)
        snapshot = await world.ask("GET", "/v1/ops/snapshot")
        assert snapshot["dead_letters"] == 1


@pytest.mark.parametrize(
    ("reply", "status", "calls"),
    [
        (NotSent("connection refused"), RunStatus.SUCCEEDED, 2),
        (NoAnswer("reset"), RunStatus.UNKNOWN, 1),
        (Answered(503), RunStatus.FAILED, 1),
        (Takes(FOREVER_MS), RunStatus.UNKNOWN, 1),
    ],
)
async def test_an_at_most_once_run_is_tried_again_only_where_nothing_reached_the_target(
    reply: NotSent | NoAnswer | Answered | Takes, status: RunStatus, calls: int
) -> None:
    async with virtual("2026-06-01T11:59:50Z") as (world, _):
        world.targets.script = [reply]
        job = await world.create("0 12 * * *", delivery="AT_MOST_ONCE")
        await world.wait(minutes=5)
        run = await world.run(job["job_id"], NOON)
        assert run is not None
        assert (run.status, len(world.targets.calls)) == (status, calls)


# ── runs that kill whoever holds them ────────────────────────────────────────────────────────────────────────────────


async def test_a_run_that_kills_ten_holders_in_a_row_stops_and_its_owner_can_see_it() -> None:
    """poison-01, F7."""
    async with Virtual("2026-06-01T11:59:50Z") as world:
        world.targets.always = Takes(20_000)
        job = await world.create("0 12 * * *", overlap_policy="BUFFER_ONE")
        for holders in range(1, 14):
            process = await world.boot()
            await world.wait(seconds=10)
            process.kill()
            assert len(world.targets.calls) == min(holders, 10) if holders > 1 else len(world.targets.calls) == 1
        run = await world.run(job["job_id"], NOON)
        assert run is not None
        assert (run.status, run.reason) == (RunStatus.FAILED, "POISON")
        world.targets.always = Answered(200)
        await world.boot()
        await world.wait_until("2026-06-02T12:00:00Z")
        assert (await world.told(job["job_id"]))[-1] == ("12:00:00", "SUCCEEDED"), "the job itself goes on"


# ── shutdown ─────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_shutdown_takes_nothing_more_and_lets_what_fits_finish() -> None:
    """shutdown-01, F10."""
    async with virtual("2026-06-01T11:59:50Z") as (world, process):
        world.targets.script = [Takes(30_000)]
        job = await world.create("* * * * *", target=SLOW)
        await world.wait_until("2026-06-01T12:00:10Z")
        await process.stop_receiving()
        drained = world.start(drain(process, 30_000))
        await world.wait(seconds=20)
        assert await drained == 0
        await process.executor.release_all()
        await world.wait(minutes=5)
        assert world.targets.times() == [NOON], "nothing was received after the signal"
        assert (await world.told(job["job_id"]))[0] == ("12:00:00", "SUCCEEDED")


async def test_what_does_not_fit_in_the_grace_is_stopped_and_free_for_the_next_process_at_once() -> None:
    async with virtual("2026-06-01T11:59:50Z") as (world, process):
        world.targets.script = [Takes(300_000)]
        job = await world.create("0 12 * * *", target=SLOW)
        await world.wait_until("2026-06-01T12:00:10Z")
        await process.stop_receiving()
        assert await drain(process, 0) == 1
        await process.executor.release_all()
        await world.boot(alone=False)
        assert [(made.token, rfc3339(made.at)) for made in world.targets.calls] == [
            (1, NOON),
            (2, "2026-06-01T12:00:10Z"),
        ]
        assert await world.told(job["job_id"]) == [("12:00:00", "SUCCEEDED")]


async def drain(process: Process, grace_ms: int) -> int:
    return sum([await pool.drain(grace_ms) for pool in process.pools.values()])
