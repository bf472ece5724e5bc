"""A job moves along its schedule, and only from where it was seen to stand (W5, W8, W13)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from schedkit.engine.when import advance as advancing
from schedkit.engine.when import operate
from schedkit.engine.when.plan import LOOK_AGAIN_MS, Start
from schedkit.engine.when.window import offset_ms
from schedkit.engine.when.zones import TZDATA_VERSION
from schedkit.model.jobs import Job, JobStatus, OverlapPolicy, job_attributes, job_of
from schedkit.model.keys import TimerKind, timer_partition
from schedkit.model.runs import RunStatus
from schedkit.model.schedules import Cron, Interval, Once, Schedule
from schedkit.model.time import DAY_MS, parse_rfc3339
from schedkit.model.writes import Write
from tests.engine.making import NOON, SHARDS, after, job, job_after, minute

ONCE = Once(NOON, "2026-06-01T12:00:00Z")


def advanced(before: Job, start: Start | None = None, now: int = NOON) -> Job:
    return job_after(advancing.advance(before, start or Start(NOON), SHARDS, now), before)


def timer_at(write: Write, before: Job) -> int | None:
    item = after(write, job_attributes(before))
    assert item.get("timer_partition") in (None, timer_partition(TimerKind.DUE, "job_x", SHARDS))
    return item.get("timer_at")


# ── create ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_new_job_waits_for_its_first_occurrence_at_its_place_in_the_window() -> None:
    new = job(window_ms=600_000)
    item = after(advancing.create(new, SHARDS), None)
    assert job_of(item) == new
    assert item["timer_at"] == NOON + offset_ms("job_x", 600_000)
    assert not advancing.create(new, SHARDS).holds(item), "a repeat is one refused write"


def test_a_paused_job_waits_for_the_end_of_its_pause_or_for_nobody() -> None:
    assert "timer_at" not in after(advancing.create(job(status=JobStatus.PAUSED), SHARDS), None)
    until = job(status=JobStatus.PAUSED, paused_until=minute(9))
    assert after(advancing.create(until, SHARDS), None)["timer_at"] == minute(9)


def test_a_name_is_taken_when_it_is_free_or_from_the_holder_that_was_seen() -> None:
    named = job(name="report")
    first = after(advancing.take_name(named, None), None)
    assert first["job_id"] == "job_x"
    assert not advancing.take_name(named, None).holds(first)
    second = after(advancing.take_name(replace(named, job_id="job_y"), first), first)
    assert second["job_id"] == "job_y"
    assert not advancing.take_name(named, first).holds(second), "somebody took it meanwhile"


def test_a_name_that_went_away_and_came_back_is_not_mistaken_for_one_that_stayed() -> None:
    named = job(name="report")
    first = after(advancing.take_name(named, None), None)
    away = after(advancing.take_name(replace(named, job_id="job_y"), first), first)
    back = after(advancing.take_name(named, away), away)
    assert back["job_id"] == first["job_id"]
    assert not advancing.take_name(replace(named, job_id="job_z"), first).holds(back)


# ── advance ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_next_occurrence_counts_from_the_one_before_and_never_from_now() -> None:
    """W5."""
    late = advanced(job(), now=minute(0.9))
    assert (late.next_run_at, late.counted_from, late.last_run, late.run_count) == (minute(1), NOON, NOON, 1)
    assert advanced(job(), now=minute(60)).next_run_at == minute(1)


def test_an_overdue_next_occurrence_keeps_its_own_time_as_its_timer() -> None:
    write = advancing.advance(job(), Start(NOON), SHARDS, minute(60))
    assert timer_at(write, job()) == minute(1)


@pytest.mark.parametrize(
    "changed",
    [
        {"next_run_at": minute(1)},
        {"status": JobStatus.PAUSED},
        {"status": JobStatus.CANCELLED, "next_run_at": None},
        {"version": 2},
    ],
)
def test_a_job_that_was_changed_meanwhile_refuses_to_go_on(changed: dict[str, object]) -> None:
    write = advancing.advance(job(), Start(NOON), SHARDS, NOON)
    assert not write.holds(job_attributes(replace(job(), **changed)))  # type: ignore[arg-type]


def test_an_advance_is_made_once() -> None:
    write = advancing.advance(job(), Start(NOON), SHARDS, NOON)
    assert not write.holds(write.result(job_attributes(job())))


def test_a_bound_on_the_number_of_runs_ends_the_schedule() -> None:
    bounded = job(max_runs=2)
    first = advanced(bounded)
    assert first.next_run_at == minute(1)
    second = advanced(first, Start(minute(1)), minute(1))
    assert (second.run_count, second.next_run_at) == (2, None)


def test_a_catch_up_is_counted_and_forgotten_when_the_job_is_on_time() -> None:
    missed = advanced(job(missed_run=4), Start(NOON, misfired=True))
    assert missed.missed_run == 5
    assert advanced(missed, Start(minute(1)), minute(1)).missed_run == 0


def test_the_end_of_a_schedule_looks_for_the_end_of_the_last_run() -> None:
    write = advancing.advance(job(ONCE), Start(NOON), SHARDS, NOON)
    assert timer_at(write, job(ONCE)) == NOON + LOOK_AGAIN_MS


# ── hold and look again ──────────────────────────────────────────────────────────────────────────────────────────────


def test_a_held_occurrence_stays_while_the_schedule_goes_on() -> None:
    buffered = job(overlap=OverlapPolicy.BUFFER_ONE)
    holding = job_after(advancing.hold(buffered, SHARDS, NOON), buffered)
    assert (holding.held, holding.next_run_at, holding.run_count) == (NOON, minute(1), 0)
    started = advanced(holding, Start(NOON, held=True), minute(0.5))
    assert (started.held, started.next_run_at, started.last_run) == (None, minute(1), NOON)


def test_only_one_occurrence_is_held() -> None:
    holding = job(held=minute(-1), overlap=OverlapPolicy.BUFFER_ONE)
    assert not advancing.hold(job(), SHARDS, NOON).holds(job_attributes(holding))


def test_a_job_that_waits_looks_again_by_itself_and_at_its_next_occurrence_at_the_latest() -> None:
    rare = job(Interval(DAY_MS, NOON), overlap=OverlapPolicy.BUFFER_ONE)
    assert timer_at(advancing.hold(rare, SHARDS, NOON), rare) == NOON + LOOK_AGAIN_MS
    holding = job(held=minute(-1))
    assert timer_at(advancing.look_again(holding, SHARDS, minute(9)), holding) == NOON
    assert timer_at(advancing.look_again(holding, SHARDS, NOON - 7), holding) == NOON - 7


def test_looking_again_changes_nothing_but_the_timer() -> None:
    holding = job(held=minute(-1))
    assert job_after(advancing.look_again(holding, SHARDS, minute(9)), holding) == holding


# ── pass by ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_job_goes_on_after_the_last_occurrence_that_was_skipped() -> None:
    passed = job_after(advancing.pass_by(job(), minute(5), SHARDS, minute(9), reason="MISFIRED"), job())
    assert (passed.next_run_at, passed.last_run, passed.run_count) == (minute(6), None, 0)


def test_a_held_occurrence_that_expired_is_let_go_and_nothing_else() -> None:
    holding = job(held=minute(-1))
    passed = job_after(advancing.pass_by(holding, minute(-1), SHARDS, NOON, reason="EXPIRED", held=True), holding)
    assert (passed.held, passed.next_run_at) == (None, NOON)


def test_a_job_that_never_ran_keeps_the_reason_of_its_end() -> None:
    passed = job_after(advancing.pass_by(job(ONCE), NOON, SHARDS, minute(9), reason="MISFIRED"), job(ONCE))
    assert (passed.next_run_at, passed.status_reason) == (None, "MISFIRED")


# ── finish ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("last", "once", "cron"),
    [
        (RunStatus.SUCCEEDED, JobStatus.COMPLETED, JobStatus.COMPLETED),
        (RunStatus.SUCCEEDED_AFTER_CANCEL, JobStatus.COMPLETED, JobStatus.COMPLETED),
        (RunStatus.FAILED, JobStatus.FAILED, JobStatus.COMPLETED),
        (RunStatus.UNKNOWN, JobStatus.FAILED, JobStatus.COMPLETED),
        (RunStatus.SKIPPED, JobStatus.FAILED, JobStatus.COMPLETED),
        (RunStatus.CANCELLED, JobStatus.CANCELLED, JobStatus.COMPLETED),
    ],
)
def test_a_one_off_ends_as_its_run_did_and_a_series_is_complete(
    last: RunStatus, once: JobStatus, cron: JobStatus
) -> None:
    for schedule, status in ((ONCE, once), (Cron("* * * * *"), cron)):
        over = job(schedule, next_run_at=None, last_run=NOON)
        item = after(advancing.finish(over, last, "WHY", minute(1)), job_attributes(over))
        assert job_of(item).status is status
        assert job_of(item).status_reason == (None if status is JobStatus.COMPLETED else "WHY")
        assert "timer_at" not in item


@pytest.mark.parametrize(
    "changed", [{"held": NOON}, {"next_run_at": minute(1)}, {"last_run": minute(1)}, {"version": 2}]
)
def test_a_job_with_something_left_does_not_end(changed: dict[str, object]) -> None:
    over = job(next_run_at=None, last_run=NOON)
    write = advancing.finish(over, RunStatus.SUCCEEDED, None, minute(1))
    assert not write.holds(job_attributes(replace(over, **changed)))  # type: ignore[arg-type]


# ── recount ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_other_zone_data_gives_the_next_run_anew_from_where_the_schedule_counts() -> None:
    """W2, tzdata-03."""
    winnipeg = Cron("30 8 * * *", "America/Winnipeg")
    stale = job(
        winnipeg,
        since=parse_rfc3339("2026-12-01T14:30:00Z"),
        zone_data="2025b",
        next_run_at=parse_rfc3339("2026-12-02T14:30:00Z"),
    )
    write = advancing.recount(stale, SHARDS, parse_rfc3339("2026-12-01T20:00:00Z"))
    assert write is not None
    anew = job_after(write, stale)
    assert anew.next_run_at == timer_at(write, stale) == parse_rfc3339("2026-12-02T13:30:00Z")
    assert anew.zone_data == TZDATA_VERSION
    assert advancing.recount(anew, SHARDS, NOON) is None


def test_a_one_off_given_as_a_wall_time_is_resolved_anew() -> None:
    text = "2026-12-02T08:30:00"
    stale_at = parse_rfc3339("2026-12-02T14:30:00Z")
    stale = job(Once(stale_at, text, "America/Winnipeg"), zone_data="2025b")
    write = advancing.recount(stale, SHARDS, NOON)
    assert write is not None
    assert job_after(write, stale).next_run_at == parse_rfc3339("2026-12-02T13:30:00Z")


@pytest.mark.parametrize("status", [JobStatus.COMPLETED, JobStatus.FAILED, JobStatus.CANCELLED])
def test_a_job_that_has_ended_is_not_recounted(status: JobStatus) -> None:
    assert advancing.recount(job(status=status, zone_data="2025b"), SHARDS, NOON) is None


def test_an_occurrence_that_is_due_stays_due_under_other_zone_data() -> None:
    stale = job(zone_data="2025b")
    write = advancing.recount(stale, SHARDS, minute(60))
    assert write is not None
    assert job_after(write, stale).next_run_at == NOON


def test_what_was_due_before_other_zone_data_came_is_known_by_its_records_only() -> None:
    """W2, W16: computed anew it would be an hour off from what was run."""
    counts_from = parse_rfc3339("2026-11-30T14:30:00Z")
    stale = job(
        Cron("30 8 * * *", "America/Winnipeg"),
        since=counts_from,
        zone_data="2025b",
        known_since=NOON,
        pauses=((NOON, minute(1)),),
    )
    write = advancing.recount(stale, SHARDS, counts_from + 1)
    assert write is not None
    assert (job_after(write, stale).known_since, job_after(write, stale).pauses) == (counts_from, ())


def test_a_one_off_that_is_past_keeps_its_time_and_its_ledger() -> None:
    """W2, W16: its instant was resolved once, so nothing of its past is computed anew."""
    text = "2026-06-01T07:00"
    over = job(Once(NOON, text, "America/Winnipeg"), status=JobStatus.FAILED, next_run_at=None, zone_data="2025b")
    assert advancing.recount(over, SHARDS, minute(10)) is None


@pytest.mark.parametrize("schedule", [Cron("30 8 * * *"), Cron("30 8 * * *", "Etc/GMT+5"), Interval(60_000, NOON)])
def test_a_schedule_that_no_zone_data_moves_keeps_its_ledger(schedule: Schedule) -> None:
    stale = job(schedule, zone_data="2025b", known_since=minute(-9), pauses=((minute(-3), minute(-2)),))
    write = advancing.recount(stale, SHARDS, NOON)
    assert write is not None
    kept = job_after(write, stale)
    assert (kept.known_since, kept.pauses, kept.zone_data) == (minute(-9), stale.pauses, TZDATA_VERSION)


@pytest.mark.parametrize("status", [JobStatus.COMPLETED, JobStatus.SCHEDULED])
def test_a_schedule_that_has_come_to_its_end_keeps_that_and_forgets_how_its_past_was_computed(
    status: JobStatus,
) -> None:
    over = job(
        Cron("30 8 * * *", "America/Winnipeg"),
        status=status,
        next_run_at=None,
        counted_from=minute(9),
        known_since=NOON,
        zone_data="2025b",
    )
    write = advancing.recount(over, SHARDS, minute(10))
    assert write is not None
    anew = job_after(write, over)
    assert (anew.status, anew.next_run_at, anew.known_since) == (status, None, minute(9))
    assert anew.version == over.version
    assert advancing.recount(anew, SHARDS, minute(10)) is None


# ── the timer follows from the whole schedule ────────────────────────────────────────────────────────────────────────


def test_a_write_that_was_made_from_an_older_reading_of_the_schedule_is_refused() -> None:
    """W8: whatever sets the timer is conditional on all that the timer follows from, or it would wake nobody."""
    held = job(overlap=OverlapPolicy.BUFFER_ONE, held=NOON, next_run_at=minute(1), last_run=minute(-1))
    went_on = job_attributes(replace(held, next_run_at=minute(9), counted_from=minute(8)))  # others were passed by
    start_held = Start(NOON, held=True)
    assert advancing.advance(held, start_held, SHARDS, minute(9)).holds(job_attributes(held))
    assert not advancing.advance(held, start_held, SHARDS, minute(9)).holds(went_on)
    assert not operate.pause(held, None, None, SHARDS, minute(9)).holds(went_on)
    waits = replace(held, held=None)
    assert not advancing.advance(waits, Start(minute(1)), SHARDS, minute(2)).holds(job_attributes(held))
