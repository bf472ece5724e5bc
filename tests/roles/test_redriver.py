"""The redriver: dead letters start again at their pace, once each, whoever is lost on the way (F6, I19)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from schedkit.model.calls import Answered
from schedkit.model.keys import Index, parse_run_id, redrive_key, run_key, runs_listing, sortable
from schedkit.model.redrives import Redrive, RedriveState, redrive_of
from schedkit.model.runs import Attempt, AttemptOutcome, Run, RunStatus, listing, run_attributes, run_of
from schedkit.model.time import DAY_MS, MINUTE_MS, rfc3339
from schedkit.model.writes import Write
from schedkit.roles.redriver import Redriver
from tests.worlds import HANGS, SLOW, Process, Takes, Virtual

NO = Answered(400)
CAP = 5


async def letters(world: Virtual, count: int, **fields: Any) -> str:
    """A job whose last `count` runs are dead letters; its id."""
    job_id = str((await world.create("0 0 1 1 *", **fields))["job_id"])
    now = world.clock.now()
    for number in range(count):
        at = now - 1_000 - number
        tried = Attempt(1, 1, at, 0, at, AttemptOutcome.FAILED, 400, "the target answered 400")
        run = Run(
            job_id, at, RunStatus.FAILED, epoch=1, attempt=1, attempts=(tried,), finished_at=at, due_at=at,
            reason="PERMANENT_FAILURE", created_at=at,
        )  # fmt: skip
        died = {"dead_partition": "DEAD#default", "dead_at": sortable(at), "expires_at": at + 10**10}
        await world.store.apply(Write(run_key(job_id, at), "made", (), run_attributes(run) | listing(run) | died))
    return job_id


async def begun(world: Virtual, **asked: Any) -> str:
    body = {"filter": {}, "max_per_second": CAP} | asked
    return str((await world.ask("POST", "/v1/dlq:redrive", json=body))["redrive_id"])


async def standing(world: Virtual, redrive_id: str) -> Redrive:
    item = await world.store.get(redrive_key("default", redrive_id))
    assert item is not None
    return redrive_of(item)


def most_in_a_second(world: Virtual) -> int:
    times = [made.at for made in world.targets.calls]
    return max((sum(at <= other < at + 1_000 for other in times) for at in times), default=0)


async def dead(world: Virtual) -> int:
    return len((await world.ask("GET", "/v1/dlq", params={"limit": 500}))["items"])


async def test_all_that_failed_runs_again_under_the_next_epoch_and_the_same_key() -> None:
    async with Virtual() as world:
        job_id = await letters(world, 12)
        await world.boot(redriving=True)
        redrive_id = await begun(world)
        await world.wait(seconds=10)
        redrive = await standing(world, redrive_id)
        assert (redrive.state, redrive.redriven, redrive.succeeded) == (RedriveState.DONE, 12, 12)
        assert {(made.token, made.attempt) for made in world.targets.calls} == {(2, 1)}
        assert len({made.key for made in world.targets.calls}) == 12
        assert most_in_a_second(world) <= CAP
        assert await dead(world) == 0
        assert {run.status for run in await world.runs(job_id)} == {RunStatus.SUCCEEDED}


async def test_the_oldest_come_first() -> None:
    async with Virtual() as world:
        await letters(world, 6)
        await world.boot(redriving=True)
        await begun(world, limit=3)
        await world.wait(seconds=5)
        assert world.targets.times() == [rfc3339(world_at) for world_at in sorted(_times(world))]
        assert await dead(world) == 3


def _times(world: Virtual) -> list[int]:
    return [parse_run_id(made.key)[1] for made in world.targets.calls]


async def test_a_thousand_at_50_a_second_never_exceed_51_in_any_second_whoever_stands_still() -> None:
    """The redriver's process stands still for 3 s, then the executors do; what comes due meanwhile does not pile up."""
    async with Virtual() as world:
        await letters(world, 1_000)
        process = await world.boot(redriving=True)
        redrive_id = await begun(world, max_per_second=50)
        await world.wait(seconds=5)
        await stands_still(world, process, "release")
        await world.wait(seconds=3)
        await stands_still(world, process, "claim")
        await world.wait(seconds=30)
        assert (await standing(world, redrive_id)).state is RedriveState.DONE
        assert len({made.key for made in world.targets.calls}) == len(world.targets.calls) == 1_000
        assert 30 < most_in_a_second(world) <= 51


async def stands_still(world: Virtual, process: Process, arrow: str) -> None:
    """For 3 s no write of this arrow gets through; then all that waited do, at once."""
    gate = asyncio.Event()

    async def wait() -> None:
        if not gate.is_set():
            process.line.before[arrow] = wait
        await gate.wait()

    process.line.before[arrow] = wait
    await world.wait(seconds=3)
    process.line.before.pop(arrow, None)
    gate.set()


async def test_a_second_redrive_of_the_same_letters_starts_none_of_them_twice() -> None:
    async with Virtual() as world:
        await letters(world, 20)
        await world.boot(redriving=True)
        first, second = await begun(world), await begun(world)
        await world.wait(seconds=20)
        both = [await standing(world, redrive_id) for redrive_id in (first, second)]
        assert [one.state for one in both] == [RedriveState.DONE] * 2
        assert sum(one.redriven for one in both) == len(world.targets.calls) == 20


async def test_two_processes_on_one_store_keep_one_cap() -> None:
    async with Virtual() as world:
        await letters(world, 30)
        await world.boot(redriving=True)
        await world.boot(alone=False, redriving=True)
        redrive_id = await begun(world)
        await world.wait(seconds=20)
        assert (await standing(world, redrive_id)).epoch == 1
        assert len(world.targets.calls) == 30
        assert most_in_a_second(world) <= CAP


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("nth", range(24))
async def test_a_process_that_dies_at_any_call_of_the_store_loses_nothing_and_repeats_nothing(
    nth: int, before: bool
) -> None:
    """The next one goes on where it was: each letter is released once, and the cap holds over both."""
    async with Virtual() as world:
        await letters(world, 6)
        redrive_id = await begun(world, canary=2, goes_on=True)
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
        await world.wait(seconds=200)
        redrive = await standing(world, redrive_id)
        assert (redrive.state, redrive.redriven, redrive.succeeded) == (RedriveState.DONE, 6, 6)
        assert len({made.key for made in world.targets.calls}) == 6
        assert {run.series for run in await all_runs(world)} == {2}
        assert most_in_a_second(world) <= CAP + 1


async def test_a_scheduler_that_is_restarted_alone_waits_for_no_lease() -> None:
    async with Virtual() as world:
        await letters(world, 6)
        first = await world.boot(redriving=True)
        redrive_id = await begun(world, max_per_second=2)
        await world.wait(ms=2_500)
        first.kill()
        await world.boot(redriving=True)
        await world.wait(seconds=9)
        redrive = await standing(world, redrive_id)
        assert (redrive.state, redrive.redriven) == (RedriveState.DONE, 6)


async def all_runs(world: Virtual) -> list[Run]:
    page = await world.store.page(runs_listing("default"), index=Index.LISTED, limit=1_000)
    return [run_of(item) for _, item in page.items]


@pytest.mark.parametrize("arrow", ["take redrive", "release", "follow", "pass page", "turn"])
async def test_an_answer_that_is_lost_on_its_way_changes_nothing(arrow: str) -> None:
    async with Virtual() as world:
        await letters(world, 6)
        process = await world.boot(redriving=True)
        process.line.lose = [arrow]
        redrive_id = await begun(world, canary=1, goes_on=True)
        await world.wait(seconds=200)
        redrive = await standing(world, redrive_id)
        assert (redrive.state, redrive.redriven, redrive.skipped) == (RedriveState.DONE, 6, {})
        assert len(world.targets.calls) == 6


async def test_a_holder_that_was_replaced_while_it_stood_still_changes_nothing_any_more() -> None:
    """C5: it wakes up in the middle of a release; the write is refused, for another has gone on."""
    async with Virtual() as world:
        await letters(world, 10)
        old = await world.boot(serving=False)
        redrive_id = await begun(world)
        woken = asyncio.Event()
        old.line.before["release"] = woken.wait
        world.start(Redriver(old.world).serve())
        await world.wait(seconds=30)
        await world.boot(alone=False, redriving=True)
        await world.wait(seconds=30)
        woken.set()
        await world.wait(seconds=5)
        redrive = await standing(world, redrive_id)
        assert (redrive.state, redrive.redriven, redrive.epoch) == (RedriveState.DONE, 10, 2)
        assert len(world.targets.calls) == 10


# ── the canary ───────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_canary_that_fails_stops_the_redrive_and_the_rest_stays() -> None:
    async with Virtual() as world:
        await letters(world, 20)
        world.targets.script = [Answered(200), NO]
        await world.boot(redriving=True)
        redrive_id = await begun(world, canary=3, max_per_second=50)
        await world.wait(seconds=30)
        redrive = await standing(world, redrive_id)
        assert (redrive.state, redrive.state_reason) == (RedriveState.STOPPED, "CANARY_FAILED")
        assert len(world.targets.calls) <= 3
        assert await dead(world) == 18


async def test_the_rest_waits_for_a_yes_and_then_goes_on() -> None:
    async with Virtual() as world:
        await letters(world, 8)
        await world.boot(redriving=True)
        redrive_id = await begun(world, canary=3)
        await world.wait(seconds=60)
        assert (await standing(world, redrive_id)).state is RedriveState.WAITING
        assert len(world.targets.calls) == 3
        await world.ask("POST", f"/v1/redrives/{redrive_id}:continue")
        await world.wait(seconds=10)
        assert (await standing(world, redrive_id)).state is RedriveState.DONE
        assert len(world.targets.calls) == 8


async def test_the_rest_waits_until_the_canary_has_ended_however_long_it_takes() -> None:
    async with Virtual() as world:
        await letters(world, 8, target=SLOW)
        world.targets.script = [Takes(60_000)]
        await world.boot(redriving=True)
        await begun(world, canary=1, goes_on=True)
        await world.wait(seconds=55)
        assert len(world.targets.calls) == 1
        await world.wait(seconds=30)
        assert len(world.targets.calls) == 8


# ── what happens meanwhile ───────────────────────────────────────────────────────────────────────────────────────────


async def test_what_fails_again_is_a_dead_letter_again_once_and_is_not_started_again() -> None:
    async with Virtual() as world:
        await letters(world, 4)
        world.targets.always = NO
        await world.boot(redriving=True)
        redrive_id = await begun(world)
        await world.wait(seconds=20)
        redrive = await standing(world, redrive_id)
        assert (redrive.state, redrive.redriven, redrive.failed) == (RedriveState.DONE, 4, 4)
        assert len(world.targets.calls) == 4
        assert await dead(world) == 4


async def test_a_redrive_that_is_paused_starts_nothing_until_it_is_resumed() -> None:
    async with Virtual() as world:
        await letters(world, 20)
        await world.boot(redriving=True)
        redrive_id = await begun(world, max_per_second=2)
        await world.wait(seconds=4)
        await world.ask("POST", f"/v1/redrives/{redrive_id}:pause")
        await world.wait(seconds=2)
        called = len(world.targets.calls)
        assert 0 < called < 20
        await world.wait(seconds=60)
        assert len(world.targets.calls) == called
        await world.ask("POST", f"/v1/redrives/{redrive_id}:resume")
        await world.wait(seconds=20)
        assert (await standing(world, redrive_id)).state is RedriveState.DONE
        assert len(world.targets.calls) == 20


async def test_a_redrive_that_is_stopped_leaves_the_rest_where_it_is() -> None:
    async with Virtual() as world:
        await letters(world, 20)
        await world.boot(redriving=True)
        redrive_id = await begun(world, max_per_second=2)
        await world.wait(seconds=4)
        await world.ask("DELETE", f"/v1/redrives/{redrive_id}")
        await world.wait(seconds=20)
        redrive = await standing(world, redrive_id)
        assert (redrive.state, redrive.state_reason) == (RedriveState.STOPPED, "STOPPED_BY_HAND")
        assert await dead(world) + len(world.targets.calls) == 20


@pytest.mark.parametrize(("verb", "reason"), [("pause", "JOB_PAUSED"), ("cancel", "JOB_CANCELLED")])
async def test_letters_of_a_job_that_is_cancelled_or_paused_meanwhile_stay_where_they_are(
    verb: str, reason: str
) -> None:
    async with Virtual() as world:
        job_id = await letters(world, 20)
        await world.boot(redriving=True)
        redrive_id = await begun(world, max_per_second=2)
        await world.wait(seconds=4)
        if verb == "cancel":
            await world.ask("DELETE", f"/v1/jobs/{job_id}")
        else:
            await world.ask("POST", f"/v1/jobs/{job_id}:pause")
        await world.wait(seconds=20)
        redrive = await standing(world, redrive_id)
        assert redrive.state is RedriveState.DONE
        assert redrive.skipped == {reason: 20 - redrive.redriven}
        assert await dead(world) >= 20 - redrive.redriven


async def test_no_more_than_a_few_wait_where_nobody_starts_them() -> None:
    """Executors that are away for an hour find as many as may wait, not an hour's worth."""
    async with Virtual() as world:
        await letters(world, 100)
        lonely = await world.boot(serving=False)
        redrive_id = await begun(world, max_per_second=50)
        world.start(Redriver(lonely.world).serve())
        await world.wait(minutes=2)
        assert (await standing(world, redrive_id)).redriven == 5
        assert len(world.targets.calls) == 0


async def test_a_target_that_hangs_is_not_given_more_than_may_be_open() -> None:
    async with Virtual() as world:
        await letters(world, 600, target=SLOW)
        world.targets.always = HANGS
        await world.boot(redriving=True, slots=1_000)
        redrive_id = await begun(world, max_per_second=1_000)
        await world.wait(minutes=2)
        assert (await standing(world, redrive_id)).redriven == 500


async def test_a_run_of_a_job_that_has_ended_is_called_though_the_job_was_about_to_be_forgotten() -> None:
    async with Virtual() as world:
        world.targets.script = [NO]
        job = await world.create({"type": "ONCE", "run_at": "2026-06-01T12:00:01Z"})
        process = await world.boot()
        await world.wait(minutes=1)
        world.clock.jump(30 * DAY_MS - 2 * MINUTE_MS)
        world.targets.script = [Answered(503, retry_after="900"), Answered(503, retry_after="900")] * 2
        await begun(world)
        redriver = world.start(Redriver(process.world).serve())
        await world.wait(seconds=5)
        redriver.cancel()
        await world.wait(hours=2)
        (run,) = await world.runs(job["job_id"])
        assert (run.status, run.series, run.attempt) == (RunStatus.SUCCEEDED, 2, 5)
