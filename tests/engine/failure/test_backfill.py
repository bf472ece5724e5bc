"""Backfilling, one occurrence at a time: what may run after all, and what that does to its record (W14)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from schedkit.engine.failure import backfill
from schedkit.engine.failure import redrive as redriving
from schedkit.engine.who import claim as claiming
from schedkit.model.calls import Dead, Done
from schedkit.model.jobs import Delivery, JobStatus, OverlapPolicy, job_attributes
from schedkit.model.keys import RETENTION_MS
from schedkit.model.redrives import Order, PastRange, Redrive, RedriveState, Unfit, redrive_attributes, redrive_of
from schedkit.model.runs import Attempt, AttemptOutcome, Run, RunStatus, run_attributes, run_of
from schedkit.model.writes import Item
from tests.engine.making import NOON, OTHER, SHARDS, after, claimed, job, minute

LATER = minute(60)
PAST = PastRange("job_x", NOON, minute(10), "default")


def skipped(reason: str = "MISFIRED") -> Run:
    return run_of(after(claiming.skip(job(), NOON, NOON, reason, NOON + 1), None))


def ended(status: RunStatus, **fields: object) -> Run:
    return replace(claimed(), status=status, finished_at=NOON + 5, lease_owner=None, **fields)  # type: ignore[arg-type]


def given_up(outcome: AttemptOutcome, **fields: object) -> Run:
    tried = (Attempt(1, 1, NOON, 0, NOON + 1, outcome),)
    return ended(RunStatus.CANCELLED, attempts=tried, reason="JOB_PAUSED", **fields)


def stopped(outcome: AttemptOutcome) -> Run:
    return replace(given_up(outcome), reason="CANCEL_REQUESTED", cancel_requested=True)


@pytest.mark.parametrize(
    ("there", "why"),
    [
        (None, None),
        (skipped(), None),
        (skipped("OVERLAP"), None),
        (skipped("SKIPPED_BY_HAND"), None),
        (ended(RunStatus.CANCELLED, attempts=()), None),
        (given_up(AttemptOutcome.CANCELLED), None),
        (given_up(AttemptOutcome.CANCELLED, cancel_requested=True), None),
        (stopped(AttemptOutcome.CANCELLED), Unfit.CANCELLED_ALREADY),
        (stopped(AttemptOutcome.FAILED), Unfit.CANCELLED_ALREADY),
        (given_up(AttemptOutcome.LEASE_EXPIRED), Unfit.CANCELLED_ALREADY),
        (given_up(AttemptOutcome.FAILED), Unfit.CANCELLED_ALREADY),
        (ended(RunStatus.SUCCEEDED), Unfit.RAN_ALREADY),
        (ended(RunStatus.SUCCEEDED_AFTER_CANCEL), Unfit.RAN_ALREADY),
        (ended(RunStatus.FAILED), Unfit.FAILED_ALREADY),
        (ended(RunStatus.FAILED, dropped_at=NOON), Unfit.FAILED_ALREADY),
        (ended(RunStatus.UNKNOWN), Unfit.FAILED_ALREADY),
        (claimed(), Unfit.UNDER_WAY),
        (replace(claimed(), status=RunStatus.RETRY_WAIT), Unfit.UNDER_WAY),
    ],
)
def test_what_ran_or_runs_is_left_and_what_was_never_called_is_not(there: Run | None, why: Unfit | None) -> None:
    assert backfill.unfit(there, job(), NOON, LATER) is why


def test_of_a_job_that_is_not_called_nothing_is_started() -> None:
    assert backfill.unfit(None, None, NOON, LATER) is Unfit.JOB_GONE
    assert backfill.unfit(None, job(status=JobStatus.CANCELLED), NOON, LATER) is Unfit.JOB_CANCELLED
    assert backfill.unfit(None, job(status=JobStatus.PAUSED), NOON, LATER) is Unfit.JOB_PAUSED
    assert backfill.unfit(None, job(status=JobStatus.COMPLETED), NOON, LATER) is None


def test_what_waits_for_the_run_before_it_is_the_schedule_s_own() -> None:
    assert backfill.unfit(None, job(held=NOON), NOON, LATER) is Unfit.UNDER_WAY


def test_older_than_records_are_kept_nothing_is_started() -> None:
    assert backfill.unfit(None, job(), NOON, NOON + RETENTION_MS) is None
    assert backfill.unfit(None, job(), NOON, NOON + RETENTION_MS + 1) is Unfit.TOO_OLD


def test_what_may_have_run_before_a_restore_is_not_started_where_it_may_run_once_only() -> None:
    once = job(delivery=Delivery.AT_MOST_ONCE)
    assert backfill.unfit(None, once, NOON, LATER, restored_at=NOON) is Unfit.OUTCOME_UNKNOWN
    assert backfill.unfit(None, once, NOON, LATER, restored_at=NOON - 1) is None
    assert backfill.unfit(None, job(), NOON, LATER, restored_at=NOON) is None


# ── the write ────────────────────────────────────────────────────────────────────────────────────────────────────────


def begun(there: Run | None) -> tuple[Run, Item | None, Item]:
    """(the run as it waits, its item before, its item after)."""
    candidate = backfill.candidate(job(), NOON, there, LATER)
    before = run_attributes(there) | {"expires_at": LATER} if there is not None else None
    item = after(backfill.backfill_run(candidate, SHARDS, LATER, "bf_1"), before)
    return run_of(item), before, item


def test_an_occurrence_without_a_record_waits_to_be_called_under_its_own_time() -> None:
    run, _, item = begun(None)
    assert (run.scheduled_for, run.status, run.attempt, run.not_before) == (NOON, RunStatus.RETRY_WAIT, 0, LATER)
    assert (run.backfilled, run.triggered, run.redrive_id, run.epoch) == (True, False, "bf_1", 0)
    assert (item["timer_at"], item["listed_at"]) == (LATER, f"{NOON:015d}")


def test_it_may_start_from_its_own_time_on_wherever_its_place_in_the_window_is() -> None:
    windowed = job(window_ms=86_400_000)
    assert backfill.candidate(windowed, NOON, skipped(), LATER).due_at == NOON


def test_a_skipped_one_comes_to_wait_and_is_kept() -> None:
    run, _, item = begun(skipped())
    assert (run.status, run.reason, run.finished_at, run.backfilled) == (RunStatus.RETRY_WAIT, None, None, True)
    assert "expires_at" not in item


def test_its_next_claim_is_attempt_1_under_the_next_epoch() -> None:
    run, _, item = begun(given_up(AttemptOutcome.CANCELLED))
    again = run_of(after(claiming.claim_retry(run, job(), holder=OTHER, shards=SHARDS, now=LATER), item))
    assert (again.epoch, again.attempt, [tried.epoch for tried in again.attempts]) == (2, 1, [1, 2])


@pytest.mark.parametrize("there", [None, skipped()], ids=["none", "skipped"])
@pytest.mark.parametrize("meanwhile", [claimed(), ended(RunStatus.SUCCEEDED), begun(None)[0], begun(skipped())[0]])
def test_what_came_to_run_meanwhile_is_not_started(there: Run | None, meanwhile: Run) -> None:
    write = backfill.backfill_run(backfill.candidate(job(), NOON, there, LATER), SHARDS, LATER, "bf_1")
    assert not write.holds(run_attributes(meanwhile))


def test_a_record_that_went_away_meanwhile_is_not_made_anew() -> None:
    write = backfill.backfill_run(backfill.candidate(job(), NOON, skipped(), LATER), SHARDS, LATER, "bf_1")
    assert not write.holds(None)


# ── the backfill itself ──────────────────────────────────────────────────────────────────────────────────────────────


def driven(past: PastRange = PAST, **fields: object) -> Redrive:
    values: dict[str, object] = {"state": RedriveState.RUNNING, "epoch": 1, "owner": "node-1", "max_per_second": 100}
    return Redrive("bf_1", "default", NOON, NOON, past, **values | fields)  # type: ignore[arg-type]


def test_a_backfill_reads_as_it_was_stored() -> None:
    for past in (PAST, replace(PAST, order=Order.NEWEST, one_by_one=True, known_since=3, since=0)):
        assert redrive_of(redrive_attributes(driven(past))) == driven(past)


def test_a_release_leaves_the_job_alone_where_its_runs_may_overlap() -> None:
    candidate = backfill.candidate(job(), NOON, None, LATER)
    writes = redriving.release(driven(), [candidate], {"job_x": job()}, SHARDS, LATER)
    assert [write.arrow for write in writes] == ["release", "backfill"]


def test_where_they_may_not_overlap_one_is_open_at_a_time_and_the_schedule_knows_of_it() -> None:
    """W13."""
    alone = replace(PAST, one_by_one=True)
    assert redriving.room(driven(alone)) == 1
    assert redriving.room(driven(alone, open=("job_x:t",))) == 0
    candidate = backfill.candidate(job(), NOON, None, LATER)
    single = job(overlap=OverlapPolicy.SKIP)
    writes = redriving.release(driven(alone), [candidate], {"job_x": single}, SHARDS, LATER)
    assert writes[-1].changes == {"last_triggered": NOON}
    assert writes[-1].holds(job_attributes(single))
    assert not writes[-1].holds(job_attributes(replace(single, version=9)))


@pytest.mark.parametrize(("alone", "arrow"), [(False, "keep for redrive"), (True, "know of backfill")])
def test_a_job_that_has_ended_is_kept_for_its_backfilled_runs(alone: bool, arrow: str) -> None:
    over = job(status=JobStatus.COMPLETED, overlap=OverlapPolicy.SKIP)
    candidate = backfill.candidate(over, NOON, None, LATER)
    writes = redriving.release(driven(replace(PAST, one_by_one=alone)), [candidate], {"job_x": over}, SHARDS, LATER)
    assert [write.arrow for write in writes] == ["release", "backfill", arrow]
    assert writes[-1].changes["expires_at"] == LATER + RETENTION_MS
    assert writes[-1].holds(job_attributes(over))
    another_s = job_attributes(replace(over, last_triggered=minute(1)))
    assert writes[-1].holds(another_s) is not alone, "what another backfill started is waited for"


@pytest.mark.parametrize(("verdict", "counted"), [(Done(None, 200), "succeeded"), (Dead("no", "X", 400), "failed")])
def test_what_has_ended_is_counted(verdict: Done | Dead, counted: str) -> None:
    run, _, item = begun(None)
    held = run_of(after(claiming.claim_retry(run, job(), holder=OTHER, shards=SHARDS, now=LATER), item))
    over = run_of(claiming.settle(held, verdict, called_at=None, shards=SHARDS, now=LATER).result(item))
    write = redriving.follow(driven(open=(run.run_id,), redriven=1), {run.run_id: over}, LATER)
    assert write is not None
    assert (write.changes[counted], write.changes["open"]) == (1, [])
