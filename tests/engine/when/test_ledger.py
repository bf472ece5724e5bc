"""The ledger: every occurrence in one sum, by what its record says and by where the schedule stands (W16)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from schedkit.engine.when import ledger, operate
from schedkit.engine.when.ledger import Ledger
from schedkit.engine.who import claim as claiming
from schedkit.model.calls import Dead, Done, RetryAt, Unknown
from schedkit.model.jobs import MAX_PAUSES, Job, MisfirePolicy, job_attributes, job_of
from schedkit.model.keys import RETENTION_MS
from schedkit.model.runs import Attempt, AttemptOutcome, Run, RunStatus, run_attributes, run_of
from schedkit.model.schedules import Interval
from tests.engine.making import NOON, SHARDS, after, claimed, job, job_after, minute

WENT_ON: dict[str, Any] = {"counted_from": minute(9), "next_run_at": minute(10), "known_since": NOON - 1}


def counted(runs: dict[int, Run], *, minutes: int = 10, **fields: Any) -> Ledger:
    """The ledger of a job that is due every minute and has gone on to minute 10."""
    times = [minute(n) for n in range(minutes)]
    return ledger.count(job(**WENT_ON | fields), times, {minute(n): run for n, run in runs.items()})


def settled(verdict: Any, at: int = NOON, *, late_ms: int = 0) -> Run:
    run = claimed(job(), at, now=at + late_ms)
    write = claiming.settle(run, verdict, called_at=None, shards=SHARDS, now=at + late_ms + 1)
    return run_of(after(write, run_attributes(run)))


def skipped(reason: str, at: int = NOON) -> Run:
    return run_of(after(claiming.skip(job(), at, at, reason, at + 1), None))


def cancelled(reason: str, *, attempts: bool, outcome: AttemptOutcome = AttemptOutcome.CANCELLED) -> Run:
    """As its holder found out after the claim that it is unwanted, so that a cancel was requested, or before that."""
    tried = (Attempt(1, 1, NOON, 0, NOON + 1, outcome),) if attempts else ()
    return replace(claimed(), status=RunStatus.CANCELLED, reason=reason, cancel_requested=True, attempts=tried)


@pytest.mark.parametrize(
    ("run", "place"),
    [
        (settled(Done(None, 200)), "ran"),
        (settled(Dead("no", "PERMANENT_FAILURE", 400)), "ran"),
        (settled(Unknown("lost")), "ran"),
        (settled(Done(None, 200), late_ms=60_000), "ran"),
        (settled(Done(None, 200), late_ms=60_001), "late"),
        (settled(Dead("no", "PERMANENT_FAILURE", 400), late_ms=60_001), "late"),
        (settled(RetryAt(minute(5), "no", 503)), "waiting"),
        (claimed(), "waiting"),
        (skipped("OVERLAP"), "skipped OVERLAP"),
        (skipped("SKIPPED_BY_HAND"), "skipped SKIPPED_BY_HAND"),
        (skipped("RESCHEDULED"), "skipped RESCHEDULED"),
        (skipped("MISFIRED"), "missed MISFIRED"),
        (skipped("EXPIRED"), "missed EXPIRED"),
        (cancelled("JOB_PAUSED", attempts=False), "skipped JOB_PAUSED"),
        (cancelled("RUN_CANCELLED", attempts=True), "skipped RUN_CANCELLED"),
        (cancelled("CANCEL_REQUESTED", attempts=True), "ran"),
        (cancelled("JOB_CANCELLED", attempts=True, outcome=AttemptOutcome.LEASE_EXPIRED), "ran"),
    ],
)
def test_a_record_has_one_place_in_the_sum(run: Run, place: str) -> None:
    found = counted({0: run}, minutes=1)
    name, _, reason = place.partition(" ")
    there = getattr(found, name)
    assert (there[reason] if reason else there) == 1
    assert found.expected == 1
    assert found.unaccounted == []


def test_of_those_that_ran_it_is_told_how_many_were_cancelled_at_work() -> None:
    found = counted({0: cancelled("CANCEL_REQUESTED", attempts=True), 1: cancelled("JOB_PAUSED", attempts=False)})
    assert (found.ran, found.cancelled, found.skipped) == (1, 1, {"JOB_PAUSED": 1})


def test_a_try_that_was_given_up_before_its_call_is_no_start_where_it_was_called_later() -> None:
    given_up = Attempt(1, 1, NOON, 0, NOON + 1, AttemptOutcome.CANCELLED)
    called = Attempt(1, 2, minute(60), 0, minute(60), AttemptOutcome.SUCCEEDED)
    after_all = replace(settled(Done(None, 200)), attempts=(given_up, called))
    assert counted({0: after_all}, minutes=1).late == 1


def test_an_occurrence_without_a_record_is_accounted_for_by_nothing() -> None:
    found = counted({n: settled(Done(None, 200), minute(n)) for n in range(10) if n not in (3, 7)})
    assert (found.expected, found.ran, found.unaccounted) == (10, 8, [minute(3), minute(7)])


def test_what_the_schedule_has_not_come_to_is_waiting() -> None:
    assert counted({}, counted_from=NOON - 1, next_run_at=NOON).waiting == 10
    assert counted({}, counted_from=minute(9), held=minute(9), minutes=10).waiting == 1


def test_no_more_is_waiting_than_the_job_is_to_run() -> None:
    found = counted({}, counted_from=NOON - 1, next_run_at=NOON, max_runs=7, run_count=4)
    assert (found.waiting, found.expected) == (3, 3)


def test_a_run_that_the_schedule_did_not_ask_for_is_beside_it() -> None:
    found = ledger.count(job(**WENT_ON), [], {NOON + 1: settled(Done(None, 200))})
    assert (found.beside, found.expected) == (1, 0)


# ── pauses, and what can be known ────────────────────────────────────────────────────────────────────────────────────


def rested(before: Job, since: int, through: int, misfire: MisfirePolicy | None = None) -> Job:
    asleep = job_after(operate.pause(before, None, None, SHARDS, since), before)
    return job_after(operate.resume(asleep, misfire, SHARDS, through), asleep)


def test_what_was_due_in_a_pause_was_missed_because_of_it() -> None:
    awake = rested(job(), minute(0) - 1, minute(3))
    found = ledger.count(awake, [minute(n) for n in range(5)], {})
    assert (found.missed, found.waiting, found.unaccounted) == ({"MISSED_WHILE_PAUSED": 4}, 1, [])
    assert job_of(job_attributes(awake)) == awake


def test_a_pause_that_passed_nothing_over_leaves_no_trace() -> None:
    assert rested(job(), NOON - 60_000, NOON - 30_000).pauses == ()
    assert rested(job(), NOON - 1, minute(3), MisfirePolicy.RUN_ONCE).pauses == ()


def test_pauses_with_nothing_between_them_are_one() -> None:
    awake = rested(rested(job(), NOON - 1, minute(3)), minute(3) + 1, minute(5))
    assert awake.pauses == ((NOON - 1, minute(5)),)


def test_the_oldest_pauses_are_forgotten_and_then_nothing_is_known_of_what_was_before() -> None:
    awake = job(known_since=NOON - 1)
    for n in range(MAX_PAUSES + 1):
        ran = replace(awake, counted_from=minute(10 * n), next_run_at=minute(10 * n + 1))
        awake = rested(ran, minute(10 * n) + 1, minute(10 * n + 5))
    assert (len(awake.pauses), awake.known_since) == (MAX_PAUSES, minute(5))
    assert awake.pauses[0] == (minute(10), minute(15))


def test_an_edit_of_the_schedule_begins_a_new_ledger_and_another_edit_does_not() -> None:
    before = job(known_since=NOON - 1, pauses=((NOON, minute(1)),))
    moved = job_after(operate.edit(before, replace(before, schedule=Interval(30_000, NOON)), SHARDS, minute(7)), before)
    assert (moved.known_since, moved.pauses) == (minute(7), ())
    same = job_after(operate.edit(before, replace(before, description="new"), SHARDS, minute(7)), before)
    assert (same.known_since, same.pauses) == (before.known_since, before.pauses)


def test_it_is_known_from_the_last_change_of_the_schedule_and_as_long_as_runs_are_kept() -> None:
    assert ledger.known_from(job(known_since=NOON), minute(5)) == NOON + 1
    assert ledger.known_from(job(known_since=NOON), NOON + RETENTION_MS + 60_000) == minute(1)


@pytest.mark.parametrize(("version", "known"), [(1, NOON - 60_000), (2, minute(4))])
def test_of_a_job_that_was_stored_before_this_was_noted_the_last_touch_counts(version: int, known: int) -> None:
    old = job(version=version, created_at=NOON - 60_000, updated_at=minute(4))
    assert ledger.known_from(old, minute(5)) == known + 1


def test_nothing_is_expected_of_a_schedule_that_has_come_to_its_end() -> None:
    assert ledger.expected_until(job(counted_from=minute(3), next_run_at=None)) == minute(3) + 1
    assert ledger.expected_until(job()) > minute(10_000_000)


# ── what only records tell ───────────────────────────────────────────────────────────────────────────────────────────


def at(*minutes: int, **fields: Any) -> list[Run]:
    return [replace(settled(Done(None, 200), minute(n)), **fields) for n in minutes]


def test_while_another_schedule_was_in_force_a_job_was_due_where_it_has_records() -> None:
    """W16: made at noon, changed five minutes later; due every two minutes then, and every minute since."""
    changed = job(created_at=NOON, known_since=minute(5))
    scheduled = ledger.by_schedule(changed, minute(-2), minute(8))
    due = ledger.was_due(changed, scheduled, [*at(2, 4, 6), *at(3, triggered=True)])
    assert due == [minute(n) for n in (-2, -1, 0, 2, 4, 6, 7)]


def test_a_job_whose_schedule_never_changed_was_due_by_it() -> None:
    unchanged = job(created_at=NOON, known_since=NOON - 1)
    scheduled = list(ledger.by_schedule(unchanged, minute(-2), minute(8)))
    assert scheduled == [minute(n) for n in range(-2, 8)]
    assert ledger.was_due(unchanged, scheduled, at(2)) == scheduled
