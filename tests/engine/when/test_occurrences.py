"""One door for all schedules, and one-time schedules through clock changes (W3, W5, W15)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedkit.engine.when import occurrences
from schedkit.errors import InvalidInput, Reason
from schedkit.model.schedules import Cron, GapPolicy, Interval, Occurrence, Once, RepeatPolicy
from schedkit.model.time import HOUR_MS, MAX_INSTANT, SECOND_MS, parse_rfc3339, rfc3339

NEW_YORK = "America/New_York"
NOW = parse_rfc3339("2026-06-01T12:00:00Z")


def resolve(
    text: str,
    zone: str | None = NEW_YORK,
    gap: GapPolicy = GapPolicy.FIRST_VALID,
    repeat: RepeatPolicy = RepeatPolicy.FIRST,
) -> tuple[str, bool, tuple[str, ...]]:
    once, adjusted, notes = occurrences.resolve_once(text, zone, gap, repeat)
    assert (once.text, once.time_zone, once.gap, once.repeat) == (text, zone, gap, repeat)
    return rfc3339(once.run_at), adjusted, notes


def refusal(text: str, zone: str | None = NEW_YORK, gap: GapPolicy = GapPolicy.FIRST_VALID) -> InvalidInput:
    with pytest.raises(InvalidInput) as caught:
        occurrences.resolve_once(text, zone, gap, RepeatPolicy.FIRST)
    return caught.value


# ---- once


def test_a_wall_time_is_read_on_the_clock_of_its_zone() -> None:
    assert resolve("2026-09-28T09:00:00", "Europe/Berlin") == ("2026-09-28T07:00:00Z", False, ())
    assert resolve("2026-09-28T09:00", "Asia/Kathmandu") == ("2026-09-28T03:15:00Z", False, ())
    assert resolve("2026-09-28T09:00:00.250", "Europe/Berlin") == ("2026-09-28T07:00:00.250Z", False, ())


def test_an_offset_or_z_needs_no_zone() -> None:
    assert resolve("2026-09-28T09:00:00Z", None) == ("2026-09-28T09:00:00Z", False, ())
    assert resolve("2026-09-28T09:00:00-04:00", None) == ("2026-09-28T13:00:00Z", False, ())
    assert resolve("2026-09-28T09:00:00z", "Europe/Berlin") == ("2026-09-28T09:00:00Z", False, ())


def test_a_time_in_a_gap_follows_the_gap_policy() -> None:
    text, missing = "2026-03-08T02:30:00", "02:30 does not exist this day (clocks go forward): "
    assert resolve(text) == ("2026-03-08T07:00:00Z", True, (missing + "runs at the first minute after",))
    assert resolve(text, gap=GapPolicy.SHIFT_FORWARD) == (
        "2026-03-08T07:30:00Z",
        True,
        (missing + "runs 1 h later, at 03:30",),
    )
    error = refusal(text, gap=GapPolicy.SKIP)
    assert error.reason is Reason.INVALID_RUN_AT
    assert "does not exist in America/New_York" in error.detail
    assert "2026-03-08T03:00:00-04:00" in error.fix[0]


@pytest.mark.parametrize(
    ("repeat", "at", "which"),
    [
        (RepeatPolicy.FIRST, "2026-11-01T05:30:00Z", "first"),
        (RepeatPolicy.SECOND, "2026-11-01T06:30:00Z", "second"),
        (RepeatPolicy.BOTH, "2026-11-01T05:30:00Z", "first"),
    ],
)
def test_a_repeated_time_follows_the_repeat_policy(repeat: RepeatPolicy, at: str, which: str) -> None:
    note = f"01:30 happens twice this day (clocks go back): runs once, the {which} time"
    assert resolve("2026-11-01T01:30:00", repeat=repeat) == (at, True, (note,))


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("2026-11-01T00:59:59.999", "2026-11-01T04:59:59.999Z"),
        ("2026-11-01T02:00:00", "2026-11-01T07:00:00Z"),
        ("2026-03-08T01:59:59", "2026-03-08T06:59:59Z"),
        ("2026-03-08T03:00:00", "2026-03-08T07:00:00Z"),
    ],
)
def test_a_time_beside_the_change_is_left_alone(text: str, at: str) -> None:
    assert resolve(text) == (at, False, ())


def test_an_explicit_offset_picks_the_pass() -> None:
    assert resolve("2026-11-01T01:30:00-04:00") == ("2026-11-01T05:30:00Z", False, ())
    assert resolve("2026-11-01T01:30:00-05:00") == ("2026-11-01T06:30:00Z", False, ())


def test_an_offset_that_the_zone_does_not_have_then_is_refused() -> None:
    error = refusal("2026-07-01T09:00:00-05:00")
    assert (error.reason, error.field) == (Reason.OFFSET_NOT_IN_ZONE, "schedule.run_at")
    assert "write 2026-07-01T10:00:00-04:00" in error.fix
    assert refusal("2026-07-01T09:00:00+00:00").reason is Reason.OFFSET_NOT_IN_ZONE


def test_a_bare_wall_time_asks_for_a_zone() -> None:
    error = refusal("2026-07-01T09:00:00", None)
    assert (error.reason, error.field) == (Reason.INVALID_ARGUMENT, "schedule.time_zone")


def test_a_day_that_the_calendar_leaves_out_is_refused() -> None:
    assert refusal("2011-12-30T08:00:00", "Pacific/Apia").reason is Reason.INVALID_RUN_AT


@pytest.mark.parametrize(
    "text", ["", "now", "2026-13-01T00:00:00", "2026-02-29T00:00:00", "2026-1-1T00:00:00", "9" * 999]
)
def test_a_malformed_time_is_refused(text: str) -> None:
    error = refusal(text)
    assert (error.reason, error.field) == (Reason.INVALID_RUN_AT, "schedule.run_at")
    assert len(error.detail) < 200


def test_an_unknown_zone_is_refused_even_beside_an_offset() -> None:
    assert refusal("2026-07-01T09:00:00Z", "Mars/Olympus").reason is Reason.INVALID_TIME_ZONE


@pytest.mark.parametrize("zone", [None, "UTC", "Pacific/Kiritimati", "Pacific/Midway"])
@pytest.mark.parametrize("offset", ["", "Z", "+23:59", "-23:59"])
@pytest.mark.parametrize("text", ["0001-01-01T00:00:00", "0001-01-02T12:00:00", "9999-12-31T23:59:59.999"])
def test_the_ends_of_the_calendar_are_refused_or_kept_but_never_overflow(
    text: str, offset: str, zone: str | None
) -> None:
    try:
        once, _, _ = occurrences.resolve_once(text + offset, zone, GapPolicy.FIRST_VALID, RepeatPolicy.FIRST)
    except InvalidInput:
        return
    assert occurrences.next_after(once, once.run_at - 1) is not None


@given(st.text(max_size=40), st.sampled_from([None, NEW_YORK, "x"]))
@settings(derandomize=True, deadline=None, database=None, max_examples=300)
def test_any_text_is_a_time_or_refused(text: str, zone: str | None) -> None:
    try:
        occurrences.resolve_once(text, zone, GapPolicy.FIRST_VALID, RepeatPolicy.FIRST)
    except InvalidInput as error:
        assert error.field in ("schedule.run_at", "schedule.time_zone")  # noqa: PT017 - either is right


def test_a_time_up_to_a_minute_ago_is_allowed_and_an_older_one_refused() -> None:
    occurrences.refuse_past(Once(NOW - 60_000, "x"), NOW)
    with pytest.raises(InvalidInput) as caught:
        occurrences.refuse_past(Once(NOW - 60_001, "2026-06-01T11:58:59Z"), NOW)
    assert caught.value.reason is Reason.RUN_AT_IN_PAST
    with pytest.raises(InvalidInput):
        occurrences.refuse_past(Once(NOW - 1, "x"), NOW, tolerance_ms=0)


def test_a_once_is_due_once() -> None:
    once = Once(NOW, "2026-06-01T08:00:00", NEW_YORK)
    assert occurrences.next_after(once, NOW - 1) == Occurrence(NOW, "2026-06-01T08:00:00-04:00")
    assert occurrences.next_after(once, NOW) is None
    assert occurrences.next_after(Once(NOW, "x"), 0) == Occurrence(NOW, "2026-06-01T12:00:00+00:00")


# ---- intervals


def interval_times(interval: Interval, after: int, count: int) -> list[int]:
    found: list[int] = []
    while len(found) < count and (occurrence := occurrences.next_after(interval, after)) is not None:
        after = occurrence.scheduled_for
        found.append(after)
    return found


def test_an_interval_counts_elapsed_time_from_its_anchor() -> None:
    interval = Interval(900 * SECOND_MS, NOW)
    assert interval_times(interval, NOW - 10 * HOUR_MS, 3) == [NOW, NOW + 900_000, NOW + 1_800_000]
    assert interval_times(interval, NOW, 1) == [NOW + 900_000]
    assert interval_times(interval, NOW + 899_999, 2) == [NOW + 900_000, NOW + 1_800_000]
    assert occurrences.next_after(interval, NOW - 1) == Occurrence(NOW, "2026-06-01T12:00:00+00:00")


def test_an_interval_keeps_to_its_bounds() -> None:
    interval = Interval(1_000, 0, start_at=2_500, end_at=5_000)
    assert interval_times(interval, 0, 9) == [3_000, 4_000]
    occurrences.check(interval, 3_999)
    with pytest.raises(InvalidInput) as caught:
        occurrences.check(interval, 4_000)
    assert (caught.value.reason, caught.value.field) == (Reason.NO_FURTHER_OCCURRENCE, "schedule.end_at")
    with pytest.raises(InvalidInput):
        occurrences.check(Interval(HOUR_MS, MAX_INSTANT - 1), MAX_INSTANT)
    with pytest.raises(InvalidInput) as caught:
        occurrences.check(Interval(0, 0), 0)
    assert caught.value.reason is Reason.INVALID_ARGUMENT


@given(st.integers(1, 10**9), st.integers(-(10**12), 10**12), st.integers(-(10**12), 10**12))
@settings(derandomize=True, deadline=None, database=None)
def test_the_next_of_an_interval_is_the_least_multiple_after(every_ms: int, anchor: int, after: int) -> None:
    occurrence = occurrences.next_after(Interval(every_ms, anchor), after)
    assert occurrence is not None
    at = occurrence.scheduled_for
    assert at > after
    assert at >= anchor
    assert (at - anchor) % every_ms == 0
    assert at - every_ms <= after or at == anchor


# ---- the door


def test_the_door_opens_for_every_kind_of_schedule() -> None:
    for schedule in (Cron("0 8 * * *", NEW_YORK), Once(NOW, "x", NEW_YORK), Interval(1_000, 0)):
        occurrences.check(schedule, NOW)
        assert occurrences.next_after(schedule, NOW - 1) is not None
    with pytest.raises(InvalidInput):
        occurrences.check(Cron("0 0 30 2 *"), NOW)
    with pytest.raises(InvalidInput):
        occurrences.check(Once(NOW, "x", "Mars/Olympus"), NOW)
