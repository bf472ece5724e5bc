"""What to tell a person about an occurrence that a clock change moved, repeated or makes look odd (W5).

missing    02:30 does not exist this day (clocks go forward): runs at the first minute after
repeated   01:30 happens twice this day (clocks go back): runs once, the first time
shifted    clocks changed: same local time, -1 h offset, UTC time moves
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from schedkit.engine.when import zones
from schedkit.engine.when.calendar import Wall, date_text, time_text, times_between
from schedkit.engine.when.cron_fields import Expression
from schedkit.engine.when.zones import Stretch
from schedkit.model.schedules import Cron, GapPolicy, RepeatPolicy
from schedkit.model.time import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, Instant

# Cron daemons treat a jump of up to three hours as a clock change, and more as a new calendar (Apia, 2011-12-30).
LARGEST_CLOCK_CHANGE_MS: Final = 3 * HOUR_MS
MOST_TIMES_NAMED: Final = 4  # a sentence stays readable; a cron may lose 180 minutes to a gap

FIRST_AFTER: Final = "at the first minute after"


@dataclass(frozen=True, slots=True)
class Candidate:
    """An occurrence as found: its instant, the wall time asked for, the stretch it fell in, moved by a gap or not."""

    at: Instant
    wall: Wall
    stretch: Stretch
    moved: bool = False


def notes_for(cron: Cron, expression: Expression, found: Candidate, lower: Instant) -> tuple[str, ...]:
    """A sentence for each clock change that touches this occurrence, which was the first one after `lower`."""
    stretch = found.stretch
    crossed = stretch.start > lower  # the stretch began since the occurrence before
    second = found.wall < stretch.start + stretch.before_ms  # the stretch before had this wall time too
    first = found.wall >= stretch.end + stretch.after_ms  # the next stretch will have it again
    if not (crossed or first or second):
        return ()
    if expression.hour_is_free:
        return _free(cron, expression, stretch, crossed=crossed, second=second)
    if found.moved:
        return (_moved(cron, expression, found),)
    if first or second:
        return (repeated(time_text(found.wall), cron.repeat, stretch, second=second),)
    skipped = _skipped(cron, expression, stretch)
    change_ms = stretch.offset_ms - zones.offset_ms_at(cron.time_zone, lower)
    if not change_ms:
        return skipped
    return (*skipped, f"clocks changed: same local time, {signed_length(change_ms)} offset, UTC time moves")


def _free(cron: Cron, expression: Expression, stretch: Stretch, *, crossed: bool, second: bool) -> tuple[str, ...]:
    if second:
        return (second_pass(stretch),)
    lost = _lost(cron, expression, stretch) if crossed else ()
    if not lost:
        return ()
    gap_starts, gap_ends = stretch.start + stretch.before_ms, stretch.start + stretch.offset_ms
    if gap_ends - gap_starts > LARGEST_CLOCK_CHANGE_MS:
        return (f"the calendar jumps: {_day_and_time(gap_starts)} to {_day_and_time(gap_ends)} does not exist",)
    return (f"clocks go forward: {time_text(gap_starts)} to {time_text(gap_ends)} does not exist this day",)


def _moved(cron: Cron, expression: Expression, found: Candidate) -> str:
    stretch = found.stretch
    if cron.gap is GapPolicy.SHIFT_FORWARD:
        return shifted(found.wall, stretch)
    return gone([time_text(wall) for wall in _lost(cron, expression, stretch)])


def _skipped(cron: Cron, expression: Expression, stretch: Stretch) -> tuple[str, ...]:
    """What the jump at the start of the stretch dropped."""
    length_ms = stretch.offset_ms - stretch.before_ms
    if length_ms <= 0 or (cron.gap is not GapPolicy.SKIP and length_ms <= LARGEST_CLOCK_CHANGE_MS):
        return ()
    lost = [_day_and_time(wall) for wall in _lost(cron, expression, stretch)]
    if not lost:
        return ()
    cause = "the calendar jumps" if length_ms > LARGEST_CLOCK_CHANGE_MS else "clocks go forward"
    return (f"{_in_words(lost)} {_do_not_exist(lost)} ({cause}): skipped",)


def _lost(cron: Cron, expression: Expression, stretch: Stretch) -> tuple[Wall, ...]:
    """The matching wall times in the gap before a stretch, enough of them to say so."""
    return times_between(
        expression,
        cron.day_rule,
        stretch.start + stretch.before_ms,
        stretch.start + stretch.offset_ms,
        limit=MOST_TIMES_NAMED + 1,
    )


def gone(times: list[str]) -> str:
    """For FIRST_VALID: the wall times that are missing, and what happens instead."""
    runs = "run once," if len(times) > 1 else "runs"
    return f"{_in_words(times)} {_do_not_exist(times)} this day (clocks go forward): {runs} {FIRST_AFTER}"


def shifted(wall: Wall, stretch: Stretch) -> str:
    """For SHIFT_FORWARD: how much later the missing wall time runs."""
    length_ms = stretch.offset_ms - stretch.before_ms
    return (
        f"{time_text(wall)} does not exist this day (clocks go forward): "
        f"runs {length(length_ms)} later, at {time_text(wall + length_ms)}"
    )


def repeated(time: str, repeat: RepeatPolicy, stretch: Stretch, *, second: bool) -> str:
    """For a wall time that happens twice: which of the two this is."""
    if repeat is RepeatPolicy.BOTH:
        if second:
            return second_pass(stretch)
        return f"{time} happens twice this day (clocks go back): runs both times, this is the first"
    which = "second" if repeat is RepeatPolicy.SECOND else "first"
    return f"{time} happens twice this day (clocks go back): runs once, the {which} time"


def second_pass(stretch: Stretch) -> str:
    """What to say of an occurrence in the second pass of what a change repeats."""
    length_ms = stretch.before_ms - stretch.offset_ms
    names = {HOUR_MS: "hour", HOUR_MS // 2: "half hour", DAY_MS: "day"}
    return f"second pass of the repeated {names.get(length_ms, length(length_ms))}"


def signed_length(length_ms: int) -> str:
    """`-1 h`, `+30 min`"""
    return f"{'-' if length_ms < 0 else '+'}{length(abs(length_ms))}"


def length(length_ms: int) -> str:
    """`1 h`, `30 min`, `5 h 45 min`"""
    hours, rest_ms = divmod(length_ms, HOUR_MS)
    minutes, rest_ms = divmod(rest_ms, MINUTE_MS)
    parts = ((hours, "h"), (minutes, "min"), (rest_ms // SECOND_MS, "s"))
    return " ".join(f"{count} {unit}" for count, unit in parts if count)


def _day_and_time(wall: Wall) -> str:
    return f"{date_text(wall)} {time_text(wall)}"


def _do_not_exist(times: list[str]) -> str:
    return "does not exist" if len(times) == 1 else "do not exist"


def _in_words(times: list[str]) -> str:
    if len(times) == 1:
        return times[0]
    if len(times) > MOST_TIMES_NAMED:
        return f"{', '.join(times[: MOST_TIMES_NAMED - 1])} and more times"
    return f"{', '.join(times[:-1])} and {times[-1]}"
