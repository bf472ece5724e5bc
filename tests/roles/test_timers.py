"""Near timers: loaded, dispatched on time and never early, found again when they were lost (C2, W9 to W11, H3)."""

from __future__ import annotations

import pytest

from schedkit.adapters.memory.buckets import MemoryBuckets
from schedkit.model.calls import Answered
from schedkit.model.jobs import Priority
from schedkit.model.keys import TimerKind, job_key
from schedkit.model.runs import RunStatus
from schedkit.model.time import DAY_MS, HOUR_MS, MINUTE_MS, parse_rfc3339, rfc3339
from schedkit.model.timers import Timer
from schedkit.roles.clockwatch import ClockWatch
from schedkit.roles.dispatcher import Dispatcher
from schedkit.roles.loader import MARK_LOOKED_AT_MS, SWEEP_AGES_MS, Loader
from tests.worlds import HANGS, SLOW, Takes, Virtual, settle, virtual

NOON = "2026-06-01T12:00:00Z"


async def test_a_job_starts_at_its_millisecond_and_not_before() -> None:
    async with virtual("2026-06-01T11:00:00Z") as (world, _):
        await world.create({"type": "ONCE", "run_at": "2026-06-01T12:00:00.250Z"})
        await world.wait_until("2026-06-01T12:00:00.249Z")
        assert world.targets.calls == []
        await world.wait(ms=1)
        assert [rfc3339(made.at) for made in world.targets.calls] == ["2026-06-01T12:00:00.250Z"]


async def test_jobs_made_a_moment_before_their_time_start_on_time_too() -> None:
    """W9: writers add near timers to the bucket themselves."""
    async with virtual("2026-06-01T11:59:59.990Z") as (world, _):
        await world.create("* * * * *")
        await world.wait(ms=10)
        assert [made.at for made in world.targets.calls] == [parse_rfc3339(NOON)]


async def test_a_one_off_up_to_a_minute_in_the_past_runs_at_once() -> None:
    async with virtual(NOON) as (world, _):
        job = await world.create({"type": "ONCE", "run_at": "2026-06-01T11:59:00Z"})
        await settle()
        assert await world.told(job["job_id"]) == [("11:59:00", "SUCCEEDED")]


async def test_the_sweep_finds_a_timer_whose_way_into_the_bucket_was_lost() -> None:
    """W11: it costs about a minute, and the job is not lost; here it is due before the loader passes again."""
    async with virtual("2026-06-01T11:59:30Z") as (world, process):
        await world.wait(seconds=20)
        await world.create({"type": "ONCE", "run_at": "2026-06-01T11:59:55Z"})
        lost = await process.world.buckets.due(parse_rfc3339("2026-06-01T11:59:55Z"), 10)
        assert len(lost) == 1
        await process.world.buckets.remove(lost)
        await world.wait_until("2026-06-01T12:02:30Z")
        (made,) = world.targets.calls
        assert MINUTE_MS <= made.at - lost[0].at <= 2 * MINUTE_MS + 15_000


async def test_a_timer_lost_well_before_its_time_is_loaded_again_or_swept_up() -> None:
    async with virtual("2026-06-01T11:59:30Z") as (world, process):
        await world.create("0 12 * * *")
        await process.world.buckets.remove(await process.world.buckets.due(parse_rfc3339(NOON), 10))
        await world.wait_until("2026-06-01T12:02:30Z")
        assert world.targets.times() == [NOON]


async def test_losing_every_bucket_costs_lateness_only() -> None:
    async with virtual("2026-06-01T11:59:30Z") as (world, process):
        for minute in range(5):
            await world.create(f"{minute} 12 * * *", misfire_policy="SKIP", misfire_grace_seconds=300)
        await world.wait_until("2026-06-01T12:00:30Z")
        await process.world.buckets.remove(await process.world.buckets.due(parse_rfc3339(NOON) + DAY_MS, 100))
        await world.wait(minutes=10)
        assert len(world.targets.calls) == 5


@pytest.mark.parametrize("missed_sweeps", [0, 1, 2, 5])
async def test_no_timer_falls_between_two_sweeps(missed_sweeps: int) -> None:
    """Whatever the moment of the sweeps, what is overdue is found by one of them."""
    async with Virtual(NOON) as world:
        ports = world.new_world()
        loader = Loader(ports)
        await world.create("0 13 * * *")
        await world.wait_until("2026-06-01T13:00:00Z")
        await world.wait(ms=missed_sweeps * 75_000)
        for _ in range(20):
            await world.wait(ms=75_000)
            await loader.sweep()
        assert await ports.queue.receive(Priority.DEFAULT, 9), "W11"


async def test_a_clock_that_is_set_back_makes_jobs_wait_and_none_runs_early_or_twice() -> None:
    async with virtual("2026-06-01T11:59:00Z") as (world, _):
        job = await world.create("* * * * *")
        await world.wait_until("2026-06-01T12:10:30Z")
        world.clock.jump(-5 * MINUTE_MS)
        await world.wait(minutes=12)
        starts = [made.at - parse_rfc3339(made.scheduled_for) for made in world.targets.calls]
        assert min(starts) >= 0, "never early"
        times = world.targets.times()
        assert len(times) == len(set(times)) == 18, "never twice, and none is left out"
        assert {run.status for run in await world.runs(job["job_id"])} == {RunStatus.SUCCEEDED}


async def test_jobs_made_after_the_clock_was_set_back_are_on_time() -> None:
    async with virtual(NOON) as (world, _):
        await world.wait(minutes=5)
        world.clock.jump(-HOUR_MS)
        await world.create("20 11 * * *")
        await world.wait_until("2026-06-01T11:30:00Z")
        assert [rfc3339(made.at) for made in world.targets.calls] == ["2026-06-01T11:20:00Z"]


async def test_a_clock_that_is_set_forward_starts_what_became_due_within_a_minute() -> None:
    async with virtual(NOON) as (world, _):
        await world.create("30 12 * * *")
        await world.wait(minutes=1)
        world.clock.jump(HOUR_MS)
        await world.wait(minutes=1)
        assert world.targets.times() == ["2026-06-01T12:30:00Z"]


async def test_the_clock_watch_sees_jumps_and_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    async with Virtual(NOON) as world:
        watch = ClockWatch(world.new_world())
        world.clock.jump(20)
        assert abs(watch.look()) < 1_000
        assert caplog.records == []
        world.clock.jump(-30_000)
        assert watch.look() == pytest.approx(-30_000, abs=900)
        assert "set back by 30" in caplog.text
        world.clock.jump(60_000)
        watch.look()
        assert "set forward by" in caplog.text
        assert watch.last_jump_ms > 0


async def test_the_dispatcher_takes_a_timer_out_of_its_bucket_only_after_it_was_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """W10."""
    async with Virtual(NOON) as world:
        ports = world.new_world()
        timer = Timer(parse_rfc3339(NOON), job_key("job_1"), TimerKind.DUE)
        await ports.buckets.add([timer])

        async def breaks(timers: object) -> None:
            raise ConnectionError("the queue is away")

        monkeypatch.setattr(ports.queue, "send", breaks)
        with pytest.raises(ConnectionError):
            await Dispatcher(ports).poll()
        assert await ports.buckets.due(world.clock.now(), 9) == (timer,)


async def test_the_dispatcher_by_itself_sends_what_is_due_and_sleeps_until_then() -> None:
    async with Virtual("2026-06-01T11:59:59.500Z") as world:
        ports = world.new_world()
        await ports.buckets.add([Timer(parse_rfc3339(NOON), job_key("job_1"), TimerKind.DUE)])
        world.start(Dispatcher(ports).serve())
        received = world.start(ports.queue.receive(Priority.DEFAULT, 10))
        await world.wait(ms=499)
        assert not received.done()
        await world.wait(ms=1)
        assert [timer.key for timer in received.result()] == [job_key("job_1")]


async def test_an_earlier_timer_wakes_a_dispatcher_that_sleeps_for_a_later_one() -> None:
    async with virtual("2026-06-01T11:59:30Z") as (world, _):
        await world.create({"type": "ONCE", "run_at": "2026-06-01T12:00:20Z"})
        await world.wait(seconds=10)
        await world.create({"type": "ONCE", "run_at": NOON})
        await world.wait_until(NOON)
        assert world.targets.times() == [NOON]


# ── pools ────────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_slow_pool_does_not_hold_up_another_one() -> None:
    """F5: pools per priority; within one, no more calls at once than it has slots."""
    async with Virtual("2026-06-01T11:59:00Z") as world:
        await world.boot(slots=2)
        world.targets.script = [Takes(20_000)] * 4
        for _ in range(4):
            await world.create("0 12 * * *", priority="LOW")
        await world.wait_until("2026-06-01T12:00:01Z")
        assert len(world.targets.calls) == 2
        await world.create({"type": "ONCE", "run_at": "2026-06-01T12:00:02Z"}, priority="CRITICAL")
        await world.wait(seconds=1)
        assert world.targets.times()[2:] == ["2026-06-01T12:00:02Z"]
        await world.wait_until("2026-06-01T12:00:20Z")
        assert len(world.targets.calls) == 5


async def test_a_target_that_hangs_is_left_at_its_timeout_and_tried_again() -> None:
    async with virtual("2026-06-01T11:59:00Z") as (world, _):
        world.targets.script = [HANGS]
        job = await world.create("0 12 * * *", target=SLOW, retry_policy={"initial_backoff_seconds": 0})
        await world.wait_until("2026-06-01T12:05:01Z")
        assert [rfc3339(made.at) for made in world.targets.calls] == [NOON, "2026-06-01T12:05:00Z"]
        assert await world.told(job["job_id"]) == [("12:00:00", "SUCCEEDED")]


async def test_a_bug_in_one_job_s_handling_leaves_all_others_alone(caplog: pytest.LogCaptureFixture) -> None:
    async with virtual("2026-06-01T11:59:00Z") as (world, _):
        bad = await world.create("0 12 * * *")
        await world.change(await world.job(bad["job_id"]), {"schedule": {"type": "NONSENSE"}})
        good = await world.create("0 12 * * *")
        await world.wait_until(NOON)
        assert await world.told(good["job_id"]) == [("12:00:00", "SUCCEEDED")]
        assert "failed; it will be tried again" in caplog.text


@pytest.mark.parametrize("zero", ["initial_backoff_seconds", "max_backoff_seconds"])
async def test_retries_without_a_wait_follow_at_once(zero: str) -> None:
    async with virtual("2026-06-01T11:59:00Z") as (world, _):
        world.targets.script = [Answered(503)] * 4
        await world.create("0 12 * * *", retry_policy={zero: 0})
        await world.wait_until(NOON)
        assert [made.attempt for made in world.targets.calls] == [1, 2, 3, 4, 5]


async def test_retries_wait_as_long_as_the_target_asks_for() -> None:
    """F1: Retry-After is a floor."""
    async with virtual("2026-06-01T11:59:00Z") as (world, _):
        world.targets.script = [
            Answered(429, retry_after="120"),
            Answered(503, retry_after="Mon, 01 Jun 2026 12:05:00 GMT"),
        ]
        await world.create("0 12 * * *", retry_policy={"initial_backoff_seconds": 0})
        await world.wait_until("2026-06-01T12:10:00Z")
        assert [rfc3339(made.at) for made in world.targets.calls] == [
            NOON,
            "2026-06-01T12:02:00Z",
            "2026-06-01T12:05:00Z",
        ]


def test_the_ages_of_a_sweep_double_up_to_a_day() -> None:
    assert SWEEP_AGES_MS[:4] == (MINUTE_MS, 2 * MINUTE_MS, 4 * MINUTE_MS, 8 * MINUTE_MS)
    assert SWEEP_AGES_MS[-1] <= DAY_MS < 2 * SWEEP_AGES_MS[-1]


async def test_a_loader_that_finds_the_mark_gone_loads_everything_again() -> None:
    """W11, I13: also what was due meanwhile, and long before the sweep would look for it."""
    async with virtual("2026-06-01T11:59:00Z") as (world, process):
        await world.create({"type": "ONCE", "run_at": "2026-06-01T11:59:22Z"})
        await world.create({"type": "ONCE", "run_at": "2026-06-01T11:59:40Z"})
        await world.wait_until("2026-06-01T11:59:21Z")
        buckets = process.world.buckets
        assert isinstance(buckets, MemoryBuckets)
        await buckets.remove(await buckets.due(world.clock.now() + DAY_MS, 100))
        buckets._marked = False
        await world.wait_until("2026-06-01T11:59:39Z")
        assert world.targets.times() == ["2026-06-01T11:59:22Z"]
        assert world.targets.calls[0].at <= parse_rfc3339("2026-06-01T11:59:22Z") + MARK_LOOKED_AT_MS
        await world.wait_until("2026-06-01T11:59:41Z")
        assert world.targets.times()[1:] == ["2026-06-01T11:59:40Z"]
