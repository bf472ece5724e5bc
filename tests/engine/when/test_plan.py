"""What to do about a job whose time has come (W12, W13, W15)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedkit.engine.when.advance import advance, hold, pass_by
from schedkit.engine.when.plan import (
    CHUNK,
    AutoResume,
    Close,
    Hold,
    NotDue,
    Skip,
    Start,
    plan,
)
from schedkit.engine.when.window import offset_ms
from schedkit.model.jobs import Job, JobStatus, MisfirePolicy, OverlapPolicy
from schedkit.model.schedules import Cron, Interval
from schedkit.model.time import HOUR_MS, MINUTE_MS, SECOND_MS, Instant, parse_rfc3339
from tests.cases import load
from tests.engine.making import NOON, SHARDS, job, job_after, minute

CASES = {case.id: case for case in load()}
MAX_STEPS = 2_000


# ── one decision ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_nothing_is_done_before_the_time_not_even_a_millisecond() -> None:
    assert plan(job(), False, NOON - 1) == NotDue()
    assert plan(job(), False, NOON) == Start(NOON)


def test_a_job_with_a_window_waits_for_its_own_place_in_it() -> None:
    windowed = job(window_ms=600_000)
    place = NOON + offset_ms("job_x", 600_000)
    assert place > NOON
    assert plan(windowed, False, place - 1) == NotDue()
    assert plan(windowed, False, place) == Start(NOON)


def test_lateness_counts_from_the_place_in_the_window() -> None:
    windowed = job(Cron("0 12 * * *"), window_ms=600_000, misfire=MisfirePolicy.SKIP)
    place = NOON + offset_ms("job_x", 600_000)
    assert plan(windowed, False, place + MINUTE_MS) == Start(NOON)
    assert plan(windowed, False, place + MINUTE_MS + 1) == Skip((NOON,), "MISFIRED")


@pytest.mark.parametrize("status", [status for status in JobStatus if status is not JobStatus.SCHEDULED])
def test_a_job_that_is_not_scheduled_is_never_due(status: JobStatus) -> None:
    assert plan(job(status=status), False, NOON + HOUR_MS) == NotDue()


def test_a_pause_with_an_end_is_over_at_its_end() -> None:
    paused = job(status=JobStatus.PAUSED, paused_until=minute(5))
    assert plan(paused, False, minute(5) - 1) == NotDue()
    assert plan(paused, False, minute(5)) == AutoResume()


def test_a_job_without_a_further_occurrence_closes() -> None:
    assert plan(job(next_run_at=None), False, NOON) == Close()
    assert plan(job(next_run_at=None), True, NOON) == Close()


def test_a_few_seconds_late_is_on_time() -> None:
    """misfire-05."""
    for policy in MisfirePolicy:
        assert plan(job(misfire=policy), False, NOON + 1_776) == Start(NOON)


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (MisfirePolicy.RUN_ONCE, Skip((NOON, minute(1), minute(2)), "MISFIRED")),
        (MisfirePolicy.SKIP, Skip((NOON, minute(1), minute(2)), "MISFIRED")),
        (MisfirePolicy.RUN_ALL, Start(NOON, misfired=True)),
    ],
)
def test_what_is_late_is_run_or_skipped_as_the_policy_says(policy: MisfirePolicy, expected: Skip | Start) -> None:
    """Three and a half minutes after noon: 12:02 is late, 12:03 is within its grace."""
    assert plan(job(misfire=policy), False, minute(3.5)) == expected


def test_the_only_missed_occurrence_runs_under_run_once() -> None:
    assert plan(job(Cron("0 12 * * *")), False, NOON + 5 * HOUR_MS) == Start(NOON, misfired=True)


def test_resume_can_put_another_policy_in_place_of_the_job_s_own() -> None:
    resumed = job(misfire=MisfirePolicy.SKIP, catch_up=MisfirePolicy.RUN_ALL)
    assert plan(resumed, False, minute(9)) == Start(NOON, misfired=True)


def test_run_all_runs_a_hundred_and_then_behaves_as_run_once() -> None:
    missed = job(misfire=MisfirePolicy.RUN_ALL)
    assert plan(replace(missed, missed_run=99), False, minute(9)) == Start(NOON, misfired=True)
    assert plan(replace(missed, missed_run=100), False, minute(2.5)) == Skip((NOON, minute(1)), "MISFIRED")


@pytest.mark.parametrize("policy", [MisfirePolicy.RUN_ONCE, MisfirePolicy.SKIP])
def test_a_long_outage_is_worked_off_in_chunks_that_fit_in_one_write(policy: MisfirePolicy) -> None:
    decision = plan(job(misfire=policy), False, NOON + 1_000 * MINUTE_MS)
    assert isinstance(decision, Skip)
    assert decision.occurrences == tuple(minute(n) for n in range(CHUNK))


@pytest.mark.parametrize(
    ("overlap", "expected"),
    [
        (OverlapPolicy.ALLOW, Start(NOON)),
        (OverlapPolicy.SKIP, Skip((NOON,), "OVERLAP")),
        (OverlapPolicy.BUFFER_ONE, Hold()),
    ],
)
def test_a_run_that_is_still_open_matters_as_the_overlap_policy_says(
    overlap: OverlapPolicy, expected: Start | Skip | Hold
) -> None:
    assert plan(job(overlap=overlap), True, NOON) == expected
    assert plan(job(overlap=overlap), False, NOON) == Start(NOON)


def test_one_occurrence_is_held_and_those_after_it_are_skipped() -> None:
    holding = job(overlap=OverlapPolicy.BUFFER_ONE, held=minute(-1))
    assert plan(holding, True, NOON) == Skip((NOON,), "OVERLAP")
    assert plan(holding, True, NOON - 1) == NotDue()


def test_what_was_held_starts_first_when_the_other_run_has_ended() -> None:
    holding = job(overlap=OverlapPolicy.BUFFER_ONE, held=minute(-1))
    assert plan(holding, False, NOON) == Start(minute(-1), held=True)
    assert plan(replace(holding, next_run_at=None), False, NOON) == Start(minute(-1), held=True)
    assert plan(replace(holding, next_run_at=None), True, NOON) == NotDue()


def test_a_held_occurrence_is_not_a_misfire_however_long_it_waited() -> None:
    holding = job(overlap=OverlapPolicy.BUFFER_ONE, held=minute(-100), misfire=MisfirePolicy.SKIP)
    assert plan(holding, False, NOON) == Start(minute(-100), held=True)


def test_what_did_not_start_in_time_expires() -> None:
    """W15: strictly later than its time plus the bound."""
    short = job(expires_after_ms=5 * SECOND_MS)
    assert plan(short, False, NOON + 5 * SECOND_MS) == Start(NOON)
    assert plan(short, False, NOON + 5 * SECOND_MS + 1) == Skip((NOON,), "EXPIRED")
    held = job(expires_after_ms=5 * SECOND_MS, held=minute(-1), overlap=OverlapPolicy.BUFFER_ONE)
    assert plan(held, False, NOON) == Skip((minute(-1),), "EXPIRED", held=True)


# ── whole stories: apply each decision until nothing is due ──────────────────────────────────────────────────────────


def worked_off(
    start: Job, now: Instant, *, open_run: bool = False
) -> tuple[Job, list[Instant], list[tuple[Instant, str]]]:
    """(the job when nothing is due any more, what was started, what was skipped and why); runs end at once."""
    current, started, skipped = start, list[Instant](), list[tuple[Instant, str]]()
    for _ in range(MAX_STEPS):
        match plan(current, open_run, now):
            case Start() as begin:
                current = job_after(advance(current, begin, SHARDS, now), current)
                started.append(begin.scheduled_for)
            case Skip(occurrences, reason, held) if occurrences:
                write = pass_by(current, occurrences[-1], SHARDS, now, reason=reason, held=held)
                current = job_after(write, current)
                skipped += [(at, reason) for at in occurrences]
            case Hold():
                current = job_after(hold(current, SHARDS, now), current)
            case _:
                return current, started, skipped
    raise AssertionError("it never ends")


@pytest.mark.parametrize("name", ["misfire-01", "misfire-02", "misfire-03"])
def test_an_outage_is_worked_off_as_expected(name: str) -> None:
    given_, expected = CASES[name].input, CASES[name].expected
    missed = job(
        Cron(given_["cron"], given_["time_zone"]),
        since=parse_rfc3339(given_["last_scheduled_for"]),
        misfire=MisfirePolicy(given_["misfire_policy"]),
    )
    finished, started, skipped = worked_off(missed, parse_rfc3339(given_["back_up_at"]))
    assert len(started) == expected["run_count"]
    assert len(started) + len(skipped) == expected["missed_count"]
    assert finished.next_run_at == parse_rfc3339(expected["next_run_at"])


POLICIES: dict[str, Any] = {
    "misfire": st.sampled_from(MisfirePolicy),
    "overlap": st.sampled_from(OverlapPolicy),
    "misfire_grace_ms": st.sampled_from([0, 60_000, 3_600_000]),
    "expires_after_ms": st.sampled_from([None, 1_000, 600_000]),
    "window_ms": st.sampled_from([0, 1, 60_000, 3_600_000]),
    "max_runs": st.sampled_from([None, 1, 3]),
    "missed_run": st.sampled_from([0, 98, 100]),
    "catch_up": st.one_of(st.none(), st.sampled_from(MisfirePolicy)),
}


@settings(max_examples=150, deadline=None)
@given(st.fixed_dictionaries(POLICIES), st.integers(1, 20 * HOUR_MS), st.integers(60, 3_600), st.booleans())
def test_every_occurrence_that_was_due_is_started_or_skipped_or_held_exactly_once(
    policies: dict[str, Any], outage_ms: int, every_s: int, open_run: bool
) -> None:
    """C3, W16: nothing vanishes and nothing is counted twice, whatever the policies and however long the outage."""
    every_ms = every_s * SECOND_MS
    start = job(Interval(every_ms, NOON), **policies)
    now = NOON + outage_ms
    finished, started, skipped = worked_off(start, now, open_run=open_run)
    handled = sorted([*started, *(at for at, _ in skipped), *([finished.held] if finished.held is not None else [])])
    assert handled == [NOON + n * every_ms for n in range(len(handled))], "in a row, from the first one on"
    assert all(at <= now - offset_ms("job_x", start.window_ms) for at in handled), "never early"
    if finished.next_run_at is not None:
        assert finished.next_run_at == NOON + len(handled) * every_ms
        assert finished.next_run_at + offset_ms("job_x", start.window_ms) > now, "nothing is left that is due"
    else:
        assert start.max_runs == len(started)
    if start.max_runs is not None:
        assert len(started) <= start.max_runs
    assert len(started) <= 101 + HOUR_MS // every_ms + 1, "a catch-up has a bound"
