"""The operator's verbs, each conditional on what the operator saw (W14)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from schedkit.engine.when import operate
from schedkit.engine.when.window import offset_ms
from schedkit.errors import Conflict, Reason
from schedkit.model.jobs import Job, JobStatus, MisfirePolicy, OverlapPolicy, job_attributes, job_of
from schedkit.model.runs import RunStatus, run_of
from schedkit.model.schedules import Cron, Interval, Once
from schedkit.model.time import parse_rfc3339
from schedkit.model.writes import Write
from tests.cases import load
from tests.engine.making import NOON, SHARDS, after, job, job_after, minute

PAUSED = JobStatus.PAUSED
VERBS: dict[str, Callable[[Job], Write]] = {
    "pause": lambda seen: operate.pause(seen, "why", minute(9), SHARDS, NOON),
    "resume": lambda seen: operate.resume(replace(seen, status=PAUSED), None, SHARDS, NOON),
    "edit": lambda seen: operate.edit(seen, replace(seen, description="new"), SHARDS, NOON),
    "skip next": lambda seen: operate.skip_next(seen, 1, SHARDS, NOON)[0],
    "cancel": lambda seen: operate.cancel(seen, SHARDS, NOON),
    "trigger": lambda seen: operate.trigger(seen, NOON, None, SHARDS, NOON)[0],
}


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_on_a_version_that_has_passed_is_refused(verb: str) -> None:
    write = VERBS[verb](job(version=3))
    status = PAUSED if verb == "resume" else JobStatus.SCHEDULED
    assert write.holds(job_attributes(job(version=3, status=status)))
    assert not write.holds(job_attributes(job(version=4, status=status)))
    assert not write.holds(job_attributes(job(version=3, status=JobStatus.CANCELLED)))
    assert not write.holds(None)


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb != "trigger"])
def test_a_verb_raises_the_version(verb: str) -> None:
    before = job(version=3, status=PAUSED if verb == "resume" else JobStatus.SCHEDULED)
    changed = job_after(VERBS[verb](job(version=3)), before)
    assert (changed.version, changed.updated_at) == (4, NOON)


# ── pause and resume ─────────────────────────────────────────────────────────────────────────────────────────────────


def paused(before: Job | None = None, until: int | None = None) -> Job:
    before = before or job()
    return job_after(operate.pause(before, "moving", until, SHARDS, NOON - 1), before)


def test_a_pause_keeps_the_schedule_where_it_stands() -> None:
    asleep = paused()
    assert (asleep.status, asleep.pause_reason, asleep.next_run_at, asleep.paused_at) == (
        *(PAUSED, "moving", NOON, NOON - 1),
    )


def test_pausing_again_changes_the_reason_and_the_end_but_not_the_beginning() -> None:
    again = job_after(operate.pause(paused(), "still moving", minute(60), SHARDS, minute(5)), paused())
    assert (again.pause_reason, again.paused_until, again.paused_at) == ("still moving", minute(60), NOON - 1)


def test_on_resume_what_was_due_meanwhile_does_not_run() -> None:
    """pause-01."""
    case = next(case for case in load() if case.id == "pause-01")
    hourly = job(Cron(case.input["cron"]), since=parse_rfc3339(case.input["last_scheduled_for"]))
    now = parse_rfc3339(case.input["resumed_at"])
    awake = job_after(operate.resume(paused(hourly), None, SHARDS, now), paused(hourly))
    assert awake.status is JobStatus.SCHEDULED
    assert awake.next_run_at == parse_rfc3339(case.expected["next_run_at"])
    assert (awake.pause_reason, awake.paused_at, awake.paused_until) == (None, None, None)


@pytest.mark.parametrize("misfire", MisfirePolicy)
def test_on_resume_with_a_policy_what_was_due_is_missed_by_that_policy(misfire: MisfirePolicy) -> None:
    awake = job_after(operate.resume(paused(), misfire, SHARDS, minute(60)), paused())
    assert (awake.next_run_at, awake.catch_up) == (NOON, misfire)


def test_a_resume_before_the_next_occurrence_leaves_it_alone() -> None:
    rare = paused(job(Cron("0 13 * * *")))
    assert job_after(operate.resume(rare, None, SHARDS, minute(59)), rare).next_run_at == minute(60)


def test_an_end_of_a_pause_that_is_noticed_late_was_its_end_all_the_same() -> None:
    """C3: from its end on the job was active."""
    asleep = paused(until=minute(5))
    assert job_after(operate.resume(asleep, None, SHARDS, minute(60)), asleep).next_run_at == minute(5)
    early = job_after(operate.resume(asleep, None, SHARDS, minute(3)), asleep)
    assert early.next_run_at == minute(4), "by hand, before its end"


def test_a_one_off_whose_time_passed_has_nothing_left_to_run() -> None:
    asleep = paused(job(Once(NOON, "2026-06-01T12:00:00Z")))
    item = after(operate.resume(asleep, None, SHARDS, minute(60)), job_attributes(asleep))
    assert (job_of(item).status, job_of(item).status_reason) == (JobStatus.FAILED, "MISSED_WHILE_PAUSED")
    assert "timer_at" not in item
    awake = job_after(operate.resume(asleep, MisfirePolicy.RUN_ONCE, SHARDS, minute(60)), asleep)
    assert (awake.status, awake.next_run_at) == (JobStatus.SCHEDULED, NOON)


# ── edit ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def edited(before: Job, now: int = NOON, **changes: object) -> Job:
    return job_after(operate.edit(before, replace(before, **changes), SHARDS, now), before)  # type: ignore[arg-type]


def test_an_edit_that_leaves_the_schedule_alone_leaves_an_overdue_occurrence_due() -> None:
    assert edited(job(), minute(60), description="new").next_run_at == NOON


def test_an_edited_schedule_counts_from_now() -> None:
    moved = edited(job(missed_run=7, catch_up=MisfirePolicy.RUN_ALL), minute(3), schedule=Cron("*/10 * * * *"))
    assert (moved.next_run_at, moved.counted_from) == (minute(10), minute(3))
    assert (moved.missed_run, moved.catch_up) == (0, None)


def test_an_edit_to_a_time_just_past_is_due_at_once() -> None:
    soon = Once(NOON - 30_000, "2026-06-01T11:59:30Z")
    assert edited(job(), NOON, schedule=soon).next_run_at == NOON - 30_000


def test_an_edit_is_refused_when_the_job_went_on_meanwhile() -> None:
    write = operate.edit(job(), replace(job(), description="new"), SHARDS, NOON)
    assert not write.holds(job_attributes(replace(job(), next_run_at=minute(1))))


def test_an_edited_window_moves_the_timer() -> None:
    write = operate.edit(job(), replace(job(), window_ms=600_000), SHARDS, NOON)
    assert after(write, job_attributes(job()))["timer_at"] == NOON + offset_ms("job_x", 600_000)


def test_no_more_runs_than_there_were_already_ends_the_schedule() -> None:
    assert edited(job(run_count=3), max_runs=3).next_run_at is None
    assert edited(job(run_count=3), max_runs=4).next_run_at == NOON


# ── cancel and trigger ───────────────────────────────────────────────────────────────────────────────────────────────


def test_a_cancelled_job_waits_for_nothing() -> None:
    item = after(operate.cancel(job(held=minute(-1)), SHARDS, NOON), job_attributes(job(held=minute(-1))))
    ended = job_of(item)
    assert (ended.status, ended.next_run_at, ended.held) == (JobStatus.CANCELLED, None, None)
    assert "timer_at" not in item


def test_a_trigger_makes_a_run_that_can_be_claimed_now_and_leaves_the_schedule_alone() -> None:
    known, made = operate.trigger(job(), minute(-3), '{"n":1}', SHARDS, NOON - 1)
    item = after(made, None)
    run = run_of(item)
    assert (run.status, run.triggered, run.not_before, run.payload) == (RunStatus.RETRY_WAIT, True, NOON - 1, '{"n":1}')
    assert item["timer_at"] == NOON - 1
    assert not made.holds(item), "one run for one time"
    assert job_after(known, job()) == replace(job(), last_triggered=minute(-3))


def test_an_edit_by_a_clock_that_is_behind_does_not_go_back_to_what_has_run() -> None:
    """W5: the last run was started by another machine's clock, two seconds ahead of ours."""
    ran = job(last_run=minute(1), next_run_at=minute(2), counted_from=minute(1), run_count=1)
    wanted = replace(ran, schedule=Interval(30_000, NOON))
    edited = job_after(operate.edit(ran, wanted, SHARDS, minute(1) - 2_000), ran)
    assert edited.next_run_at == minute(1.5)


def test_an_edit_cures_a_job_that_ran_while_the_clock_was_far_ahead() -> None:
    ran = job(last_run=minute(500_000), next_run_at=minute(500_001), counted_from=minute(500_000), run_count=1)
    edited = job_after(operate.edit(ran, replace(ran, schedule=Interval(30_000, NOON)), SHARDS, minute(1) - 1), ran)
    assert edited.next_run_at == minute(1)


def test_on_resume_a_held_occurrence_is_looked_at_at_once() -> None:
    """W13: the run that it waited for may have ended during the pause, and nobody was woken by that."""
    held = paused(job(overlap=OverlapPolicy.BUFFER_ONE, held=NOON, next_run_at=minute(5), last_run=minute(-1)))
    item = after(operate.resume(held, None, SHARDS, minute(2)), job_attributes(held))
    assert item["timer_at"] == minute(2)


# ── skip next ────────────────────────────────────────────────────────────────────────────────────────────────────────


def skipped(before: Job, count: int = 1, now: int = NOON - 1) -> tuple[Job, tuple[int, ...]]:
    move, times = operate.skip_next(before, count, SHARDS, now)
    return job_after(move, before), times


@pytest.mark.parametrize("count", [1, 3, 90])
def test_the_next_occurrences_are_passed_over_and_the_schedule_stands(count: int) -> None:
    went_on, times = skipped(job(last_run=minute(-1), run_count=4), count)
    assert times == tuple(minute(n) for n in range(count))
    assert (went_on.next_run_at, went_on.counted_from, went_on.schedule) == (minute(count), times[-1], job().schedule)
    assert (went_on.status, went_on.last_run, went_on.run_count) == (JobStatus.SCHEDULED, minute(-1), 4)


def test_an_occurrence_that_is_held_back_is_the_next_one() -> None:
    held = job(
        overlap=OverlapPolicy.BUFFER_ONE, held=NOON, next_run_at=minute(1), counted_from=NOON, last_run=minute(-1)
    )
    went_on, times = skipped(held, now=minute(0.5))
    assert (times, went_on.held, went_on.next_run_at) == ((NOON,), None, minute(1))
    went_on, times = skipped(held, 2, now=minute(0.5))
    assert (times, went_on.held, went_on.next_run_at) == ((NOON, minute(1)), None, minute(2))


def test_an_occurrence_that_is_overdue_and_not_claimed_is_skipped() -> None:
    assert skipped(job(), now=minute(5))[1] == (NOON,)


def test_skips_end_where_the_schedule_does() -> None:
    short = job(Interval(60_000, NOON, end_at=minute(2)))
    went_on, times = skipped(short, 5)
    assert (times, went_on.next_run_at, went_on.status) == ((NOON, minute(1)), None, JobStatus.SCHEDULED)
    with pytest.raises(Conflict) as refusal:
        operate.skip_next(went_on, 1, SHARDS, NOON)
    assert refusal.value.reason == Reason.NOTHING_TO_SKIP


def test_a_one_off_that_is_skipped_ends_cancelled_and_waits_for_nothing() -> None:
    once = job(Once(NOON, "2026-06-01T12:00:00Z"))
    move, times = operate.skip_next(once, 1, SHARDS, NOON - 1)
    item = after(move, job_attributes(once))
    ended = job_of(item)
    assert (times, ended.status, ended.status_reason) == ((NOON,), JobStatus.CANCELLED, "SKIPPED_BY_HAND")
    assert "timer_at" not in item
    assert item["expires_at"] > NOON


def test_a_paused_job_has_nothing_to_skip() -> None:
    with pytest.raises(Conflict) as refusal:
        operate.skip_next(paused(), 1, SHARDS, NOON)
    assert refusal.value.reason == Reason.NOTHING_TO_SKIP
    assert refusal.value.fix == ("schedkit job resume job_x",)


@pytest.mark.parametrize("went_on", [{"next_run_at": minute(1)}, {"held": NOON}], ids=["claimed", "held"])
def test_a_skip_of_what_is_no_longer_next_is_refused(went_on: dict[str, Any]) -> None:
    move, _ = operate.skip_next(job(), 1, SHARDS, NOON)
    assert not move.holds(job_attributes(replace(job(), **went_on)))
