"""One door for all schedules: is it possible, and when is it due next?

    Once       run_at, if that is still ahead
    Cron       the next wall time of its zone                     cron.py
    Interval   anchor + k x every, in elapsed time: no zone, no clock change

A one-time schedule is resolved to its instant when it is made, by the same rules for clock changes as a cron.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC
from typing import Final, assert_never

from schedkit.engine.when import cron as crons
from schedkit.engine.when import notes, zones
from schedkit.engine.when.calendar import Wall, date_text, time_text
from schedkit.engine.when.zones import Stretch
from schedkit.errors import InvalidInput, Reason
from schedkit.model.schedules import Cron, GapPolicy, Interval, Occurrence, Once, RepeatPolicy, Schedule
from schedkit.model.time import (
    MAX_INSTANT,
    MIN_INSTANT,
    MINUTE_MS,
    Instant,
    from_datetime,
    rfc3339,
    split_rfc3339,
)

PAST_TOLERANCE_MS: Final = 60_000  # a request may take this long from the caller's clock to ours; such a run starts now
_NEAR_MS: Final = crons.SAFE_MARGIN_MS  # no offset and no change is as large


def next_after(schedule: Schedule, after: Instant) -> Occurrence | None:
    """The first occurrence strictly later than `after` and within the schedule's bounds, or None (W5, W15)."""
    match schedule:
        case Cron():
            return crons.next_after(schedule, after)
        case Once():
            return _once(schedule) if schedule.run_at > after else None
        case Interval():
            return _interval(schedule, after)
        case _:
            assert_never(schedule)


def between(schedule: Schedule, since: Instant, until: Instant) -> Iterator[Instant]:
    """The occurrences of since <= time < until, oldest first."""
    after = since - 1
    while (occurrence := next_after(schedule, after)) is not None and occurrence.scheduled_for < until:
        after = occurrence.scheduled_for
        yield after


def check(schedule: Schedule, now: Instant) -> None:
    """Raises InvalidInput unless the schedule is well formed and will be due at least once after `now`."""
    match schedule:
        case Cron():
            crons.check(schedule, now)
        case Once():
            if schedule.time_zone is not None:
                zones.zone(schedule.time_zone)
            refuse_past(schedule, now)
        case Interval():
            _check_interval(schedule, now)
        case _:
            assert_never(schedule)


def _once(once: Once) -> Occurrence:
    if once.time_zone is None:
        return Occurrence(once.run_at, zones.wall_text(once.run_at, 0))
    return Occurrence(once.run_at, zones.local_text(zones.zone(once.time_zone), once.run_at))


def _interval(interval: Interval, after: Instant) -> Occurrence | None:
    assert interval.every_ms > 0, "an interval moves forward"
    earliest = after + 1 if interval.start_at is None else max(after + 1, interval.start_at)
    k = max(0, -((interval.anchor_at - earliest) // interval.every_ms))  # the least k that reaches `earliest`
    at = interval.anchor_at + k * interval.every_ms
    if at > MAX_INSTANT or (interval.end_at is not None and at >= interval.end_at):
        return None
    return Occurrence(at, zones.wall_text(at, 0))


def _check_interval(interval: Interval, now: Instant) -> None:
    if interval.every_ms <= 0:
        raise InvalidInput(
            Reason.INVALID_ARGUMENT,
            "an interval must be longer than 0 seconds",
            fix=["give every_seconds as a positive number"],
            field="schedule.every_seconds",
        )
    if _interval(interval, now) is not None:
        return
    bound = interval.end_at if interval.end_at is not None else MAX_INSTANT
    raise InvalidInput(
        Reason.NO_FURTHER_OCCURRENCE,
        f"the interval has no occurrence between {_shown(now)} and {_shown(bound)}",
        why="a job that can never run again is refused rather than kept for ever",
        fix=["move end_at or anchor_at"],
        field="schedule.end_at" if interval.end_at is not None else "schedule.anchor_at",
    )


def refuse_past(once: Once, now: Instant, tolerance_ms: int = PAST_TOLERANCE_MS) -> None:
    """Raises RUN_AT_IN_PAST for a time more than the tolerance ago; within it the run starts at once."""
    late_ms = now - once.run_at
    if late_ms <= tolerance_ms:
        return
    raise InvalidInput(
        Reason.RUN_AT_IN_PAST,
        f"{once.text} is {_shown(once.run_at)}, which has passed: it is {_shown(now)} now",
        why=f"a time up to {tolerance_ms // 1_000} s ago runs at once; an older one is more likely a mistake",
        fix=["give a time ahead of now, or trigger the job by hand"],
        field="schedule.run_at",
    )


def resolve_once(
    text: str, time_zone: str | None, gap: GapPolicy, repeat: RepeatPolicy
) -> tuple[Once, bool, tuple[str, ...]]:
    """(the schedule, whether a clock change decided its instant, what to tell the caller about it).

    An offset in the text decides by itself, also between the two passes of a repeated hour. A wall time without one
    needs the zone; BOTH means FIRST here, since one time is one run.
    """
    try:
        local, offset_minutes = split_rfc3339(text)
    except ValueError as malformed:
        raise _invalid(f'"{_cut(text)}" is not a time: {malformed}') from malformed
    if time_zone is not None:
        zones.zone(time_zone)
    wall = from_datetime(local.replace(tzinfo=UTC))
    if offset_minutes is not None:
        at = _in_range(wall - offset_minutes * MINUTE_MS, text)
        # Z says which instant is meant and nothing about the place, so any zone may stand beside it.
        if time_zone is not None and text[-1] not in "Zz":
            _require_offset(text, at, offset_minutes * MINUTE_MS, time_zone)
        return Once(at, text, time_zone, gap, repeat), False, ()
    if time_zone is None:
        raise InvalidInput(
            Reason.INVALID_ARGUMENT,
            f"{text} has no offset and no time zone, so it names no instant",
            fix=["give time_zone, such as Europe/Berlin", f"or write the offset: {text}Z"],
            field="schedule.time_zone",
        )
    at, note = _resolved(text, wall, time_zone, gap, repeat)
    return Once(_in_range(at, text), text, time_zone, gap, repeat), bool(note), note


def _resolved(
    text: str, wall: Wall, time_zone: str, gap: GapPolicy, repeat: RepeatPolicy
) -> tuple[Instant, tuple[str, ...]]:
    """The instant of a wall time, and a note where clocks change over it (W3)."""
    passes: list[Stretch] = []
    stretch = zones.stretch_at(time_zone, wall - _NEAR_MS)
    while True:
        if stretch.start + stretch.before_ms <= wall < stretch.start + stretch.offset_ms:
            return _in_gap(text, wall, stretch, time_zone, gap)
        if stretch.start + stretch.offset_ms <= wall < stretch.end + stretch.offset_ms:
            passes.append(stretch)
        if stretch.end > min(wall + _NEAR_MS, zones.LATEST):
            break
        stretch = zones.stretch_at(time_zone, stretch.end)
    if not passes:  # before the first or after the last day that a datetime can hold in every zone
        return wall - zones.offset_ms_at(time_zone, wall), ()
    if len(passes) == 1:
        return wall - passes[0].offset_ms, ()
    second = repeat is RepeatPolicy.SECOND
    chosen = passes[1] if second else passes[0]
    once = repeat if second else RepeatPolicy.FIRST
    return wall - chosen.offset_ms, (notes.repeated(time_text(wall), once, chosen, second=second),)


def _in_gap(text: str, wall: Wall, stretch: Stretch, time_zone: str, gap: GapPolicy) -> tuple[Instant, tuple[str, ...]]:
    """What a wall time becomes that the jump at the start of `stretch` leaves out."""
    length_ms = stretch.offset_ms - stretch.before_ms
    if length_ms > notes.LARGEST_CLOCK_CHANGE_MS:
        raise _invalid(f"{date_text(wall)} {time_text(wall)} does not exist in {time_zone}: the calendar jumps over it")
    match gap:
        case GapPolicy.FIRST_VALID:
            return stretch.start, (notes.gone([time_text(wall)]),)
        case GapPolicy.SHIFT_FORWARD:
            return wall - stretch.before_ms, (notes.shifted(wall, stretch),)
        case GapPolicy.SKIP:
            raise _invalid(
                f"{text} does not exist in {time_zone}: clocks go forward over it, and dst_gap_policy is SKIP",
                fix=[f"use {zones.wall_text(stretch.start, stretch.offset_ms)}, the first instant after the jump"],
            )


def _require_offset(text: str, at: Instant, offset_ms: int, time_zone: str) -> None:
    actual = zones.local_text(zones.zone(time_zone), at)
    if zones.offset_ms_at(time_zone, at) == offset_ms:
        return
    raise InvalidInput(
        Reason.OFFSET_NOT_IN_ZONE,
        f"{time_zone} does not have the offset of {text} then; that instant is {actual} there",
        why="an offset that contradicts the zone is a mistake in one of the two",
        fix=[f"write {actual}", "or leave the offset out, to take the zone's own"],
        field="schedule.run_at",
    )


def _in_range(at: Instant, text: str) -> Instant:
    if not MIN_INSTANT <= at <= MAX_INSTANT:
        raise _invalid(f"{text} is outside the years 1 to 9999 in UTC")
    return at


def _invalid(detail: str, *, fix: list[str] | None = None) -> InvalidInput:
    return InvalidInput(
        Reason.INVALID_RUN_AT,
        detail,
        fix=fix or ["write a date and a time, such as 2026-09-28T09:00:00, with an offset or beside a time_zone"],
        field="schedule.run_at",
    )


def _shown(at: Instant) -> str:
    return rfc3339(min(max(at, MIN_INSTANT), MAX_INSTANT))


def _cut(text: str) -> str:
    return text if len(text) <= 64 else text[:64] + "…"
