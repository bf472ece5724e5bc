"""The arrows of redriving: of a run, of the operator's verbs, of whoever carries a redrive out (F6, C4, C5)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from schedkit.engine.failure import redrive as redriving
from schedkit.errors import Conflict
from schedkit.model.jobs import HttpTarget, Job, JobStatus
from schedkit.model.keys import sortable
from schedkit.model.redrives import (
    MAX_OPEN,
    DeadFilter,
    Redrive,
    RedriveState,
    Unfit,
    redrive_attributes,
    redrive_of,
)
from schedkit.model.runs import Attempt, AttemptOutcome, Run, RunStatus, run_attributes, run_of
from schedkit.model.schedules import Once

NOW = 1_780_315_200_000
JOB = Job("job_a", Once(NOW - 60_000, "…"), HttpTarget("https://t.example/"), NOW - 90_000, NOW - 90_000)
DEAD = Run(
    "job_a",
    NOW - 60_000,
    RunStatus.FAILED,
    epoch=3,
    attempt=2,
    reclaims=1,
    reason="ATTEMPTS_EXHAUSTED",
    attempts=(Attempt(2, 3, NOW - 59_000, 0, NOW - 58_000, AttemptOutcome.FAILED, 503, "the target answered 503"),),
    finished_at=NOW - 58_000,
    payload='{"n":1}',
)
PLANNED = Redrive("rd_1", "default", NOW, NOW, DeadFilter(), total=10)


def item_of(run: Run, **more: Any) -> dict[str, Any]:
    died = {"dead_partition": "DEAD#default", "dead_at": sortable(run.finished_at or 0), "expires_at": NOW * 2}
    return {**run_attributes(run), **died, **more}


def held(**fields: Any) -> Redrive:
    """A redrive that somebody carries out."""
    usual: dict[str, Any] = {"state": RedriveState.RUNNING, "epoch": 1, "owner": "n1", "lease_expires_at": NOW + 10_000}
    return replace(PLANNED, **usual | fields)


def after(write: Any, before: Redrive) -> Redrive:
    return redrive_of(write.result(redrive_attributes(before)))


def runs(count: int) -> list[Run]:
    return [replace(DEAD, scheduled_for=DEAD.scheduled_for + number) for number in range(count)]


# ── of a run ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_redriven_run_waits_for_attempt_1_of_a_new_series_under_the_same_epoch_and_payload() -> None:
    write = redriving.redrive_run(DEAD, 1, NOW, "rd_1")
    item = write.result(item_of(DEAD))
    run = run_of(item)
    assert (run.status, run.attempt, run.series, run.epoch, run.not_before) == (RunStatus.RETRY_WAIT, 0, 2, 3, NOW)
    assert (run.attempts, run.payload, run.redrive_id, run.reclaims) == (DEAD.attempts, DEAD.payload, "rd_1", 0)
    assert (run.reason, run.finished_at) == (None, None)
    assert {"dead_partition", "dead_at", "expires_at"}.isdisjoint(item)
    assert (item["timer_partition"], item["timer_at"]) == ("R#0", NOW)


@pytest.mark.parametrize(
    "change",
    [{"status": "RETRY_WAIT"}, {"status": "UNKNOWN"}, {"epoch": 4}, {"dead_at": sortable(NOW)}, {"dead_at": None}],
)
@pytest.mark.parametrize("arrow", ["redrive", "drop"])
def test_a_dead_letter_that_is_not_as_it_was_listed_is_left_alone(change: dict[str, Any], arrow: str) -> None:
    write = redriving.redrive_run(DEAD, 1, NOW)
    if arrow == "drop":
        write = redriving.drop(DEAD, None, NOW, archive=True)
    assert write.holds(item_of(DEAD))
    assert not write.holds(item_of(DEAD) | change)


def test_a_cancel_that_was_asked_for_in_the_series_before_does_not_stop_the_new_one() -> None:
    unknown = replace(DEAD, status=RunStatus.UNKNOWN, cancel_requested=True)
    assert not run_of(redriving.redrive_run(unknown, 1, NOW).result(item_of(unknown))).cancel_requested


@pytest.mark.parametrize(
    ("job", "run", "why"),
    [
        (JOB, {}, None),
        (replace(JOB, status=JobStatus.FAILED), {}, None),
        (None, {}, Unfit.JOB_GONE),
        (replace(JOB, status=JobStatus.CANCELLED), {}, Unfit.JOB_CANCELLED),
        (replace(JOB, status=JobStatus.PAUSED), {}, Unfit.JOB_PAUSED),
        (replace(JOB, status=JobStatus.PAUSED), {"triggered": True}, None),
        (JOB, {"status": RunStatus.UNKNOWN}, Unfit.OUTCOME_UNKNOWN),
    ],
)
def test_what_would_be_cancelled_at_once_or_called_twice_unasked_is_not_redriven(
    job: Job | None, run: dict[str, Any], why: Unfit | None
) -> None:
    assert redriving.unfit(replace(DEAD, **run), job, include_unknown=False) is why


def test_an_unknown_run_is_redriven_where_that_was_asked_for() -> None:
    assert redriving.unfit(replace(DEAD, status=RunStatus.UNKNOWN), JOB, include_unknown=True) is None


def test_a_job_that_has_ended_is_kept_as_long_as_its_run_may_be_called() -> None:
    assert redriving.keep_job(JOB, NOW) is None
    kept = redriving.keep_job(replace(JOB, status=JobStatus.FAILED), NOW)
    assert kept is not None
    assert list(kept.changes) == ["expires_at"]


@pytest.mark.parametrize(("archive", "expires_at"), [(True, NOW * 2), (False, NOW)])
def test_what_is_dropped_leaves_the_dead_letters_and_stays_in_the_history(archive: bool, expires_at: int) -> None:
    item = redriving.drop(DEAD, "old news", NOW, archive=archive).result(item_of(DEAD))
    assert (item["status"], item["dropped_at"], item["note"]) == ("FAILED", NOW, "old news")
    assert item["expires_at"] == expires_at
    assert "dead_at" not in item
    assert not redriving.dead(run_of(item))


def test_an_unknown_run_is_settled_by_what_a_person_found_out() -> None:
    unknown = replace(DEAD, status=RunStatus.UNKNOWN)
    done = redriving.resolve(unknown, True, "in the ledger", NOW).result(item_of(unknown))
    assert (done["status"], done["resolved_at"], done["note"]) == ("SUCCEEDED", NOW, "in the ledger")
    assert "dead_at" not in done
    failed = redriving.resolve(unknown, False, None, NOW).result(item_of(unknown))
    assert (failed["status"], failed["dead_at"]) == ("FAILED", sortable(NOW - 58_000))


# ── of a redrive ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_redrive_is_stored_as_it_is() -> None:
    full = held(filter=DeadFilter("t", "job_a", "POISON", 1, 2, ("job_a:x",)), skipped={"CHANGED": 2}, open=("a", "b"))
    assert redrive_of(redrive_attributes(full)) == full
    assert redrive_of(redrive_attributes(PLANNED)) == PLANNED


def test_a_redrive_is_listed_until_it_has_ended() -> None:
    item = redriving.plan(PLANNED).result(None)
    assert item["listed_partition"] == "REDRIVING"
    stop = redriving.stop(PLANNED, NOW)
    assert stop is not None
    over = stop.result(item)
    assert "listed_partition" not in over
    assert over["expires_at"] > NOW


def test_a_holder_begins_under_the_next_epoch_and_a_live_lease_is_left_alone() -> None:
    taken = redriving.take(PLANNED, "n1", NOW)
    assert taken is not None
    mine = after(taken, PLANNED)
    assert (mine.epoch, mine.owner, mine.state) == (1, "n1", RedriveState.RUNNING)
    assert redriving.take(mine, "n2", NOW) is None
    assert redriving.take(mine, "n2", NOW + 15_000) is None
    assert redriving.take(mine, "n2", NOW + 15_001) is not None
    assert redriving.take(mine, "n1", NOW) is not None  # its own process, started again
    with_canary = replace(PLANNED, canary=2)
    first = redriving.take(with_canary, "n1", NOW)
    assert first is not None
    assert after(first, with_canary).state is RedriveState.CANARY


@pytest.mark.parametrize("state", [s for s in RedriveState if not s.driven])
def test_what_waits_or_has_ended_is_taken_up_by_nobody(state: RedriveState) -> None:
    assert redriving.take(replace(PLANNED, state=state), "n1", NOW) is None


def test_every_write_is_refused_where_the_redrive_has_changed() -> None:
    mine = held()
    release = redriving.release(mine, runs(1), {"job_a": JOB}, 1, NOW)
    assert release[0].holds(redrive_attributes(mine))
    assert not release[0].holds(redrive_attributes(replace(mine, version=2)))


def test_a_release_counts_its_runs_and_keeps_each_ended_job_once() -> None:
    mine = held(state=RedriveState.CANARY, canary=5)
    release = redriving.release(mine, runs(2), {"job_a": replace(JOB, status=JobStatus.FAILED)}, 1, NOW)
    assert [write.arrow for write in release] == ["release", "redrive", "redrive", "keep for redrive"]
    moved = after(release[0], mine)
    assert (moved.redriven, len(moved.open), moved.first) == (2, 2, moved.open)


@pytest.mark.parametrize(
    ("fields", "room"),
    [
        ({}, MAX_OPEN),
        ({"walked": True}, 0),
        ({"limit": 3, "redriven": 1}, 2),
        ({"open": ("x",) * MAX_OPEN}, 0),
        ({"state": RedriveState.CANARY, "canary": 3, "redriven": 1}, 2),
        ({"state": RedriveState.PAUSED}, 0),
    ],
)
def test_there_is_room_for_what_was_asked_for_and_no_more(fields: dict[str, Any], room: int) -> None:
    assert redriving.room(held(**fields)) == room


def test_what_has_ended_is_counted_and_let_go() -> None:
    mine = held(redriven=5, open=("good", "bad", "gone", "later", "waits"))
    known: dict[str, Run | None] = {
        "good": replace(DEAD, status=RunStatus.SUCCEEDED, redrive_id="rd_1"),
        "bad": replace(DEAD, redrive_id="rd_1"),
        "gone": None,
        "later": replace(DEAD, status=RunStatus.RUNNING, redrive_id="rd_2"),
        "waits": replace(DEAD, status=RunStatus.RETRY_WAIT, redrive_id="rd_1"),
    }
    write = redriving.follow(mine, known, NOW)
    assert write is not None
    seen = after(write, mine)
    assert (seen.succeeded, seen.failed, seen.cancelled, seen.open) == (1, 2, 1, ("waits",))
    assert redriving.follow(seen, known, NOW) is None
    assert redriving.follow(seen, known, NOW + 5_001) is not None  # the lease is renewed


@pytest.mark.parametrize(
    ("fields", "state", "reason"),
    [
        ({"state": RedriveState.CANARY, "canary": 2, "redriven": 2, "succeeded": 2}, RedriveState.WAITING, None),
        (
            {"state": RedriveState.CANARY, "canary": 2, "redriven": 2, "succeeded": 2, "goes_on": True},
            RedriveState.RUNNING,
            None,
        ),
        (
            {"state": RedriveState.CANARY, "canary": 2, "redriven": 2, "failed": 1, "open": ("x",)},
            RedriveState.STOPPED,
            "CANARY_FAILED",
        ),
        ({"state": RedriveState.CANARY, "canary": 2, "redriven": 1, "walked": True}, RedriveState.DONE, None),
        ({"walked": True}, RedriveState.DONE, None),
        ({"walked": True, "failed": 3}, RedriveState.DONE, None),
    ],
)
def test_a_redrive_goes_on_ends_or_asks(fields: dict[str, Any], state: RedriveState, reason: str | None) -> None:
    mine = held(**fields)
    write = redriving.turn(mine, NOW)
    assert write is not None
    assert (after(write, mine).state, after(write, mine).state_reason) == (state, reason)


@pytest.mark.parametrize(
    "fields", [{}, {"walked": True, "open": ("x",)}, {"state": RedriveState.CANARY, "canary": 2, "redriven": 1}]
)
def test_a_redrive_that_is_under_way_stays_as_it_is(fields: dict[str, Any]) -> None:
    assert redriving.turn(held(**fields), NOW) is None


def test_a_pause_is_lifted_to_where_it_came_from() -> None:
    mine = held(state=RedriveState.CANARY, canary=2)
    pause = redriving.pause(mine, NOW)
    assert pause is not None
    paused = after(pause, mine)
    assert (paused.state, paused.owner) == (RedriveState.PAUSED, None)
    assert redriving.pause(paused, NOW) is None
    resume = redriving.resume(paused, NOW)
    assert resume is not None
    assert after(resume, paused).state is RedriveState.CANARY
    assert redriving.resume(mine, NOW) is None


def test_yes_to_the_rest_may_be_said_before_the_canary_has_ended() -> None:
    early = held(state=RedriveState.CANARY, canary=2)
    write = redriving.proceed(early, NOW)
    assert write is not None
    assert after(write, early).goes_on
    waiting = held(state=RedriveState.WAITING)
    write = redriving.proceed(waiting, NOW)
    assert write is not None
    assert after(write, waiting).state is RedriveState.RUNNING
    assert redriving.proceed(held(), NOW) is None
    with pytest.raises(Conflict):
        redriving.proceed(held(state=RedriveState.PAUSED), NOW)


@pytest.mark.parametrize("verb", [redriving.pause, redriving.resume, redriving.proceed])
@pytest.mark.parametrize("state", [s for s in RedriveState if s.ended])
def test_what_has_ended_is_moved_by_nobody(verb: Any, state: RedriveState) -> None:
    with pytest.raises(Conflict):
        verb(held(state=state), NOW)
    assert redriving.stop(held(state=state), NOW) is None
