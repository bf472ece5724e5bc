"""The next occurrence of a cron in its zone, through every clock change (W3, W4, W5).

                     the wall time is missing (a gap)             the wall time happens twice
    fixed hours      FIRST_VALID: once, at the jump               FIRST: the first pass
    (W3)             SHIFT_FORWARD: as much later as the gap      SECOND: the second pass
                     SKIP: not at all                             BOTH: two runs
    free hour (W4)   not at all                                   both passes: elapsed time

The zone is a row of stretches with one offset each; within a stretch an occurrence is `wall - offset`. The rules touch
only the two edges of a stretch, so an answer is the first candidate in this stretch or the next one that has any. A
candidate is always later than `after`, hence every chain strictly increases, whatever the zone and the policies.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Final

from schedkit.engine.when import cron_fields, dialects, zones
from schedkit.engine.when.calendar import ever_fires, next_wall
from schedkit.engine.when.cron_fields import Expression
from schedkit.engine.when.notes import LARGEST_CLOCK_CHANGE_MS, Candidate, notes_for
from schedkit.engine.when.zones import Stretch
from schedkit.errors import InvalidInput, Reason
from schedkit.model.schedules import MAX_EXPRESSION_CHARS, Cron, DayRule, GapPolicy, Occurrence, RepeatPolicy
from schedkit.model.time import DAY_MS, Instant, rfc3339

# A wall time differs from what the offset before a change would say by at most the largest change there was, 24 h and
# a few minutes. Two days cover it.
SAFE_MARGIN_MS: Final = 2 * DAY_MS

# The longest wait between matching days is 40 years (a leap day on a given weekday, across 2100). A cron that stays
# silent longer only ever names wall times that are skipped (`30 2 * 3 0#2` in New York under SKIP).
LONGEST_WAIT_MS: Final = 45 * 366 * DAY_MS


def parsed(text: str) -> Expression:
    """The expression as numbers. Raises INVALID_CRON, naming the dialect it looks like where it is another's (W1)."""
    if len(text) > MAX_EXPRESSION_CHARS:
        return cron_fields.parse(text)  # raises; a huge text is not kept as a cache key
    return _parsed(text)


@lru_cache(maxsize=4_096)
def _parsed(text: str) -> Expression:
    try:
        return cron_fields.parse(text)
    except InvalidInput as plain:
        foreign = dialects.recognised(text)
        if foreign is None:
            raise
        raise foreign from plain


def check(cron: Cron, after: Instant) -> None:
    """Raises unless the cron has an occurrence after `after`: INVALID_CRON, INVALID_TIME_ZONE, CRON_NEVER_FIRES, or
    NO_FURTHER_OCCURRENCE where only its bounds or the calendar's end stand in the way (W1, W2, W15)."""
    expression = parsed(cron.expression)
    zones.zone(cron.time_zone)
    if not ever_fires(expression, cron.day_rule):
        raise _never_fires(cron, expression)
    if next_after(cron, after) is not None:
        return
    unbounded = replace(cron, start_at=None, end_at=None)
    caught_up = replace(unbounded, gap=GapPolicy.FIRST_VALID)
    if next_after(unbounded, after) is None and next_after(caught_up, after) is not None:
        raise InvalidInput(
            Reason.CRON_NEVER_FIRES,
            f'"{cron.expression}" only ever names times that clock changes skip in {cron.time_zone}',
            why="dst_gap_policy SKIP drops every occurrence whose local time does not exist",
            fix=["use dst_gap_policy FIRST_VALID"],
            field="schedule.cron",
        )
    bound = f" and before end_at {rfc3339(cron.end_at)}" if cron.end_at is not None else ""
    raise InvalidInput(
        Reason.NO_FURTHER_OCCURRENCE,
        f'"{cron.expression}" has no occurrence after {rfc3339(_clamped(after))}{bound}',
        why="a job that can never run again is refused rather than kept for ever",
        fix=["move end_at, or choose another expression"] if bound else ["choose an expression with a later time"],
        field="schedule.end_at" if bound else "schedule.cron",
    )


def _never_fires(cron: Cron, expression: Expression) -> InvalidInput:
    day, month, weekday = expression.fields[2:]
    both = expression.month_days.restricted and expression.week_days.restricted and cron.day_rule is DayRule.AND
    which = f'day-of-month "{day}"' + (f' that is also day-of-week "{weekday}"' if both else "")
    return InvalidInput(
        Reason.CRON_NEVER_FIRES,
        f'"{cron.expression}" can never fire: no month in "{month}" has a {which}',
        why="a job that can never run is refused rather than kept for ever",
        fix=["use L for the last day of the month"] if not both else ["use day_rule OR, or drop one of the day fields"],
        field="schedule.cron",
    )


def next_after(cron: Cron, after: Instant) -> Occurrence | None:
    """The first occurrence strictly later than `after` and within the cron's bounds, or None (W5, W15)."""
    expression = parsed(cron.expression)
    zones.zone(cron.time_zone)
    lower = after if cron.start_at is None else max(after, cron.start_at - 1)
    found = _search(cron, expression, lower, zones.LATEST)
    if found is None or (cron.end_at is not None and found.at >= cron.end_at):
        return None
    return Occurrence(
        found.at,
        zones.wall_text(found.at, found.stretch.offset_ms),
        notes_for(cron, expression, found, lower),
    )


def previous_at_or_before(cron: Cron, at: Instant, not_before: Instant) -> Instant | None:
    """The latest occurrence with not_before <= occurrence <= at, or None: what a misfired job still runs (W12).

    next_after never decreases when its argument grows, so halving finds the last argument whose answer is <= at.
    """
    expression = parsed(cron.expression)
    at = at if cron.end_at is None else min(at, cron.end_at - 1)
    not_before = not_before if cron.start_at is None else max(not_before, cron.start_at)
    low, high, latest = not_before - 1, at, None
    while low < high:
        middle = (low + high) // 2
        found = _search(cron, expression, middle, at)
        if found is not None and found.at <= at:
            low = latest = found.at
        else:
            high = middle
    return latest


def _clamped(at: Instant) -> Instant:
    return min(max(at, zones.EARLIEST), zones.LATEST)


def _search(cron: Cron, expression: Expression, lower: Instant, last: Instant) -> Candidate | None:
    """The first candidate later than `lower`, stretch by stretch; one later than `last` may be left out."""
    lower = max(lower, zones.EARLIEST)
    last = min(last, zones.LATEST, lower + LONGEST_WAIT_MS)
    gap, repeat = cron.gap, cron.repeat
    if expression.hour_is_free:  # W4: both passes, nothing in a gap
        gap, repeat = GapPolicy.SKIP, RepeatPolicy.BOTH
    while lower < last:
        stretch = zones.stretch_at(cron.time_zone, lower + 1)
        found = _first_within(expression, cron.day_rule, gap, repeat, stretch, lower)
        if found is not None:
            return found if found.at <= zones.LATEST else None
        lower = _resume(expression, cron.day_rule, stretch, lower)
    return None


def _resume(expression: Expression, rule: DayRule, stretch: Stretch, lower: Instant) -> Instant:
    """Where to go on when a stretch has nothing left: its end, or far beyond it when the next matching day is.

    The leap is allowed only from far inside the stretch: near its end, wall times already passed may come again.
    """
    following = stretch.end - 1
    if stretch.end - lower < SAFE_MARGIN_MS:
        return following
    wall = next_wall(expression, rule, max(lower + 1, stretch.start) + stretch.offset_ms)
    if wall is None:
        return zones.LATEST
    return max(following, wall - stretch.offset_ms - SAFE_MARGIN_MS)


def _first_within(
    expression: Expression,
    rule: DayRule,
    gap: GapPolicy,
    repeat: RepeatPolicy,
    stretch: Stretch,
    lower: Instant,
) -> Candidate | None:
    """The first candidate of one stretch that is later than `lower`."""
    offset_ms, start, end = stretch.offset_ms, stretch.start, stretch.end
    moved = _moved_by_gap(expression, rule, gap, stretch, lower)
    if moved is not None and gap is GapPolicy.FIRST_VALID:
        return moved  # at the very start of the stretch: nothing can come before it
    first, limit = max(lower + 1, start) + offset_ms, end + offset_ms
    if repeat is RepeatPolicy.FIRST:
        first = max(first, start + stretch.before_ms)  # up to here the stretch before had the same wall times
    elif repeat is RepeatPolicy.SECOND:
        limit = min(limit, end + stretch.after_ms)  # from here on the next stretch has them again
    wall = next_wall(expression, rule, first) if first < limit else None
    if wall is None or wall >= limit:
        return moved
    at = wall - offset_ms
    if moved is not None and moved.at <= at:
        return moved  # two occurrences on one instant are one run (W3)
    return Candidate(at, wall, stretch)


def _moved_by_gap(
    expression: Expression, rule: DayRule, gap: GapPolicy, stretch: Stretch, lower: Instant
) -> Candidate | None:
    """The first occurrence that the jump at the start of the stretch moved to a time later than `lower` (W3)."""
    length_ms = stretch.offset_ms - stretch.before_ms
    if gap is GapPolicy.SKIP or not 0 < length_ms <= LARGEST_CLOCK_CHANGE_MS:
        return None
    gap_starts, gap_ends = stretch.start + stretch.before_ms, stretch.start + stretch.offset_ms
    if gap is GapPolicy.FIRST_VALID:
        wall = next_wall(expression, rule, gap_starts) if stretch.start > lower else None
        return Candidate(stretch.start, wall, stretch, True) if wall is not None and wall < gap_ends else None
    wall = next_wall(expression, rule, max(gap_starts, lower + 1 + stretch.before_ms))
    if wall is None or wall >= gap_ends:
        return None
    return Candidate(wall - stretch.before_ms, wall, stretch, True)
