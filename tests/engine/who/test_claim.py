"""The state machine of a run: every arrow, and every refusal (C4, C5, C7, H2)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedkit.engine.who import cancel as cancelling
from schedkit.engine.who import claim as claiming
from schedkit.engine.who.claim import Holder
from schedkit.model.calls import Dead, Done, RetryAt, Unknown, Verdict
from schedkit.model.keys import run_key
from schedkit.model.runs import RECLAIM_MARGIN_MS, AttemptOutcome, Run, RunStatus, run_attributes, run_of
from schedkit.model.time import Instant
from schedkit.model.writes import Applied, Item, Refused, Write
from tests.engine.making import ME, NOON, OTHER, SHARDS, after, claimed, job, minute

R = RunStatus
FINAL_BY_VERDICT: dict[R, Verdict] = {
    R.SUCCEEDED: Done("ok", 200),
    R.FAILED: Dead("no", "PERMANENT_FAILURE", 400),
    R.UNKNOWN: Unknown("who knows"),
}
AGAIN = RetryAt(minute(1), "the target answered 503", 503)


def settled(run: Run, verdict: Verdict, now: Instant | None = None) -> Write:
    return claiming.settle(run, verdict, called_at=None, shards=SHARDS, now=now if now is not None else minute(0.5))


def waiting() -> Run:
    return run_of(after(settled(claimed(), AGAIN), run_attributes(claimed())))


# ── arrows ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_claim_makes_the_run_running_under_epoch_1_with_a_lease_that_outlives_the_call() -> None:
    run = claimed()
    assert (run.status, run.epoch, run.attempt, run.lease_owner, run.claim_token) == (
        R.RUNNING,
        1,
        1,
        "node-1",
        "token-1",
    )
    assert run.lease_expires_at == NOON + 30_000 + 60_000
    assert run.attempts[0].lag_ms == 0


def test_a_claim_of_a_run_that_exists_is_refused_and_changes_nothing() -> None:
    write = claiming.claim(job(), NOON, NOON, misfired=False, holder=OTHER, shards=SHARDS, now=NOON)
    assert not write.holds(run_attributes(claimed()))


def test_a_claim_before_its_time_is_a_programmer_s_error() -> None:
    """C2."""
    with pytest.raises(AssertionError, match="never early"):
        claiming.claim(job(), NOON, NOON, misfired=False, holder=ME, shards=SHARDS, now=NOON - 1)
    with pytest.raises(AssertionError, match="never early"):
        claiming.claim(job(), NOON, NOON + 5_000, misfired=False, holder=ME, shards=SHARDS, now=NOON + 4_999)


def test_a_retry_is_claimed_from_not_before_on_and_not_a_millisecond_sooner() -> None:
    """F1a."""
    run = waiting()
    assert run.not_before == minute(1)
    with pytest.raises(AssertionError, match="never early"):
        claiming.claim_retry(run, job(), holder=ME, shards=SHARDS, now=minute(1) - 1)
    again = run_of(
        after(claiming.claim_retry(run, job(), holder=ME, shards=SHARDS, now=minute(1)), run_attributes(run))
    )
    assert (again.status, again.epoch, again.attempt, again.not_before) == (R.RUNNING, 2, 2, None)


def test_a_message_of_an_earlier_try_cannot_claim_a_later_one() -> None:
    run = waiting()
    write = claiming.claim_retry(run, job(), holder=ME, shards=SHARDS, now=minute(1))
    later = replace(run, not_before=minute(5))
    assert not write.holds(run_attributes(later))


def test_a_reclaim_raises_the_epoch_keeps_the_attempt_and_says_that_the_holder_was_lost() -> None:
    run = claimed()
    assert run.lease_expires_at is not None
    now = run.lease_expires_at + RECLAIM_MARGIN_MS + 1
    again = run_of(after(claiming.reclaim(run, job(), holder=OTHER, shards=SHARDS, now=now), run_attributes(run)))
    assert (again.status, again.epoch, again.attempt, again.reclaims) == (R.RUNNING, 2, 1, 1)
    assert [attempt.outcome for attempt in again.attempts] == [AttemptOutcome.LEASE_EXPIRED, None]
    with pytest.raises(AssertionError, match="live lease"):
        claiming.reclaim(run, job(), holder=OTHER, shards=SHARDS, now=now - 1)


def test_a_reclaim_is_refused_where_the_lease_moved_meanwhile() -> None:
    run = claimed()
    assert run.lease_expires_at is not None
    write = claiming.reclaim(run, job(), holder=OTHER, shards=SHARDS, now=run.lease_expires_at + 5_001)
    assert not write.holds(run_attributes(replace(run, lease_expires_at=run.lease_expires_at + 1)))


def test_a_released_lease_can_be_reclaimed_at_once() -> None:
    run = claimed()
    now = NOON + 1_000
    released = run_of(after(claiming.release(run, shards=SHARDS, now=now), run_attributes(run)))
    assert claiming.reclaim(released, job(), holder=OTHER, shards=SHARDS, now=now).holds(run_attributes(released))


@pytest.mark.parametrize("status", FINAL_BY_VERDICT)
def test_a_final_state_has_no_holder_no_timer_and_an_end(status: R) -> None:
    run = claimed()
    item = after(
        settled(run, FINAL_BY_VERDICT[status]), run_attributes(run) | {"timer_partition": "L#0", "timer_at": 1}
    )
    ended = run_of(item)
    assert ended.status is status
    assert (ended.lease_owner, ended.lease_expires_at, ended.claim_token) == (None, None, None)
    assert ended.finished_at == minute(0.5)
    assert "timer_partition" not in item
    assert ("dead_partition" in item) is (status in (R.FAILED, R.UNKNOWN)), "F6"


@pytest.mark.parametrize(
    ("verdict", "status"),
    [
        (Done(None, 200), R.SUCCEEDED_AFTER_CANCEL),
        (AGAIN, R.CANCELLED),
        (Dead("no", "PERMANENT_FAILURE"), R.CANCELLED),
        (Unknown("?"), R.UNKNOWN),
    ],
)
def test_after_a_cancel_was_requested_a_run_ends_as_it_was_seen_to_end(verdict: Verdict, status: R) -> None:
    """C6."""
    asked = after(cancelling.request_cancel(claimed()), run_attributes(claimed()))
    assert run_of(after(settled(run_of(asked), verdict), asked)).status is status


def test_a_settling_that_has_not_seen_the_cancel_is_refused() -> None:
    asked = after(cancelling.request_cancel(claimed()), run_attributes(claimed()))
    assert not settled(claimed(), Done()).holds(asked)


def test_the_start_of_an_attempt_is_the_moment_of_its_call_and_its_lag_follows() -> None:
    run = claimed()
    write = claiming.settle(run, Done(), called_at=NOON + 40, shards=SHARDS, now=NOON + 90)
    (attempt,) = run_of(after(write, run_attributes(run))).attempts
    assert (attempt.started_at, attempt.lag_ms, attempt.finished_at) == (NOON + 40, 40, NOON + 90)


def test_a_clock_that_was_set_back_gives_no_negative_lag_or_duration() -> None:
    run = claimed()
    write = claiming.settle(run, Done(), called_at=NOON - 500, shards=SHARDS, now=NOON - 100)
    (attempt,) = run_of(after(write, run_attributes(run))).attempts
    assert attempt.lag_ms >= 0
    assert (attempt.finished_at or 0) >= attempt.started_at


def test_a_holder_that_finds_its_own_token_has_won_and_nobody_else() -> None:
    """H2: the answer to the claim was lost."""
    item = run_attributes(claimed(holder=ME))
    assert claiming.won(Refused(0, item), ME) == claimed(holder=ME)
    assert claiming.won(Applied((item,)), ME) == claimed(holder=ME)
    assert claiming.won(Refused(0, item), OTHER) is None
    assert claiming.won(Refused(0, None), ME) is None


def test_the_token_goes_with_the_lease() -> None:
    ended = after(settled(claimed(), AGAIN), run_attributes(claimed()))
    assert claiming.won(Refused(0, ended), ME) is None


def test_a_skip_is_recorded_once_and_never_over_a_run() -> None:
    write = claiming.skip(job(), NOON, NOON, "MISFIRED", minute(9))
    run = run_of(after(write, None))
    assert (run.status, run.reason, run.finished_at) == (R.SKIPPED, "MISFIRED", minute(9))
    assert not write.holds(run_attributes(claimed()))


def test_a_cancel_by_somebody_who_saw_an_earlier_try_is_refused() -> None:
    seen = waiting()
    again = after(claiming.claim_retry(seen, job(), holder=ME, shards=SHARDS, now=minute(1)), run_attributes(seen))
    waits_again = after(settled(run_of(again), RetryAt(minute(5), "x")), again)
    assert not cancelling.cancel_waiting(seen, "JOB_CANCELLED", minute(2)).holds(waits_again)
    assert cancelling.cancel_waiting(run_of(waits_again), "JOB_CANCELLED", minute(2)).holds(waits_again)


def test_attempts_are_kept_up_to_a_bound() -> None:
    run = claimed()
    for n in range(1, 200):
        item = after(settled(run, RetryAt(minute(n), "x")), run_attributes(run))
        run = run_of(after(claiming.claim_retry(run_of(item), job(), holder=ME, shards=SHARDS, now=minute(n)), item))
    assert len(run.attempts) == 120
    assert run.attempts[-1].epoch == run.epoch == 200


# ── every story ──────────────────────────────────────────────────────────────────────────────────────────────────────

LEGAL = {
    (None, R.RUNNING),
    (None, R.SKIPPED),
    (R.RETRY_WAIT, R.RUNNING),
    (R.RETRY_WAIT, R.CANCELLED),
    *((R.RUNNING, to) for to in R if to is not R.SKIPPED),
}
ARROWS = [
    "claim",
    "retry",
    "reclaim",
    "release",
    "done",
    "again",
    "dead",
    "unknown",
    "skip",
    "cancel waiting",
    "cancel claimed",
    "request cancel",
]
STEP = st.tuples(st.sampled_from(ARROWS), st.integers(0, 5), st.integers(0, 200_000))


def decided(arrow: str, seen: Run | None, holder: Holder, now: Instant) -> Write | None:
    """The write that somebody who saw the run like this decides on; None where no rule lets them."""
    if arrow in ("claim", "skip"):
        if arrow == "claim":
            return claiming.claim(job(), NOON, NOON, misfired=False, holder=holder, shards=SHARDS, now=now)
        return claiming.skip(job(), NOON, NOON, "OVERLAP", now)
    if seen is None:
        return None
    running, waits = seen.status is R.RUNNING, seen.status is R.RETRY_WAIT
    verdicts: dict[str, Verdict] = {
        "done": Done("ok", 200),
        "again": RetryAt(now + 1_000, "503", 503),
        "dead": Dead("no", "PERMANENT_FAILURE", 400),
        "unknown": Unknown("?"),
    }
    match arrow:
        case "retry" if waits and seen.not_before is not None and now >= seen.not_before:
            return claiming.claim_retry(seen, job(), holder=holder, shards=SHARDS, now=now)
        case "reclaim" if running and now > (seen.lease_expires_at or 0) + RECLAIM_MARGIN_MS:
            return claiming.reclaim(seen, job(), holder=holder, shards=SHARDS, now=now)
        case "release" if running:
            return claiming.release(seen, shards=SHARDS, now=now)
        case "cancel waiting" if waits:
            return cancelling.cancel_waiting(seen, "JOB_CANCELLED", now)
        case "cancel claimed" if running:
            return cancelling.cancel_claimed(seen, "JOB_CANCELLED", now)
        case "request cancel" if running:
            return cancelling.request_cancel(seen)
        case _ if running and arrow in verdicts:
            return claiming.settle(seen, verdicts[arrow], called_at=None, shards=SHARDS, now=now)
    return None


def status_of(item: Item | None) -> R | None:
    return R(item["status"]) if item is not None else None


@settings(max_examples=400, deadline=None)
@given(st.lists(STEP, min_size=1, max_size=30))
def test_whatever_happens_every_step_is_legal_and_nobody_with_an_old_epoch_changes_anything(
    steps: list[tuple[str, int, int]],
) -> None:
    """Holders act on what they saw up to five states ago, in any order, at any time."""
    item: Item | None = None
    past: list[Item | None] = [None]
    now = NOON
    for number, (arrow, age, pause_ms) in enumerate(steps):
        now += pause_ms
        seen_item = past[max(0, len(past) - 1 - age)]
        seen = run_of(seen_item) if seen_item is not None else None
        write = decided(arrow, seen, Holder("node", f"token-{number}"), now)
        if write is None:
            continue
        assert write.key == run_key("job_x", NOON)
        if not write.holds(item):
            continue
        new: dict[str, Any] = write.result(item)
        was, becomes = status_of(item), status_of(new)
        assert (was, becomes) in LEGAL, write.arrow
        if item is not None:
            assert seen is not None
            assert seen.epoch == item["epoch"], "C5: who is behind changes nothing"
            assert new["epoch"] >= item["epoch"]
        claims = write.arrow in ("claim", "reclaim")
        assert new["epoch"] - (item["epoch"] if item else 0) == claims, "every claim raises the epoch by one"
        check_item(new)
        item = new
        past.append(item)


def check_item(item: Item) -> None:
    """What is true of every run, at all times."""
    run = run_of(item)
    assert ("timer_partition" in item) is (not run.status.final), "W8: what waits has one timer, what ended has none"
    assert (run.lease_expires_at is not None) is (run.status is R.RUNNING)
    assert (run.not_before is not None) is (run.status is R.RETRY_WAIT)
    assert (run.finished_at is not None) is run.status.final
    assert ("dead_partition" in item) is (run.status in (R.FAILED, R.UNKNOWN))
    assert "listed_partition" in item
    assert all(attempt.lag_ms >= 0 for attempt in run.attempts)
    assert [attempt.outcome is None for attempt in run.attempts].count(True) == (run.status is R.RUNNING)


def test_stored_runs_read_as_they_were_written() -> None:
    for run in (claimed(), waiting()):
        assert run_of({name: value for name, value in run_attributes(run).items() if value is not None}) == run


def test_a_lease_is_extended_from_where_it_was_read_to_end_and_only_forward() -> None:
    """I16: of two that extend at once, the one that read before the other wrote is refused."""
    run = claimed()
    late = after(claiming.extend(run, job(), shards=SHARDS, now=minute(1)), run_attributes(run))
    assert late["lease_expires_at"] > (run.lease_expires_at or 0)
    assert not claiming.extend(run, job(), shards=SHARDS, now=minute(1) - 2).holds(late)
    again = claiming.extend(run_of(late), job(), shards=SHARDS, now=NOON)
    assert after(again, late)["lease_expires_at"] == late["lease_expires_at"], "a clock behind does not shorten it"


def test_a_lease_that_was_taken_over_is_not_extended() -> None:
    """I10: the holder before has been fenced off."""
    run = claimed()
    ended = (run.lease_expires_at or 0) + RECLAIM_MARGIN_MS + 1
    taken = after(claiming.reclaim(run, job(), holder=OTHER, shards=SHARDS, now=ended), run_attributes(run))
    assert not claiming.extend(run, job(), shards=SHARDS, now=ended).holds(taken)
