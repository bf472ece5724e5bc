"""A cron expression in words, and the traps in it: for people, offline, with no clock.

explain("*/15 9-17 * * 1-5")  ->  Every 15 minutes from 09:00 to 17:45, Monday to Friday
traps("0 0 31 * *", "UTC")    ->  MIDNIGHT_CROWD, SHORT_MONTHS
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from schedkit.engine.when import zones
from schedkit.engine.when.calendar import (
    SHORT_MONTH_DAYS,
    date_text,
    days_of_month,
    ever_fires,
    next_wall,
    time_text,
)
from schedkit.engine.when.cron import parsed
from schedkit.engine.when.cron_fields import DAY_OF_MONTH, FIELDS, Expression, Field, MonthDays, WeekDays
from schedkit.engine.when.notes import LARGEST_CLOCK_CHANGE_MS
from schedkit.model.schedules import DayRule
from schedkit.model.time import DAY_MS, Instant, from_datetime

MONTHS: Final = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
WEEKDAYS: Final = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
ORDINALS: Final = ("first", "second", "third", "fourth", "fifth")
MOST_TIMES: Final = 6  # more times of day than this read better as a rule
YEARS_LOOKED_AT: Final = 3  # a zone that changes its clocks does so within three years, Ramadan included


@dataclass(frozen=True, slots=True)
class FieldMeaning:
    """One field of an expression, in words."""

    name: str
    text: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """A whole expression, in words."""

    expression: str
    sentence: str
    fields: tuple[FieldMeaning, ...]


@dataclass(frozen=True, slots=True)
class Trap:
    """Something that surprises people. `code` is stable, `sentence` is for them."""

    code: str
    sentence: str


# ---- in words


def explain(expression: str, day_rule: DayRule = DayRule.OR) -> Explanation:
    """What the expression means, as a sentence and field by field. Raises InvalidInput as cron.check does."""
    read = parsed(expression)
    meanings = (
        _field_meaning(FIELDS[0], read.minutes, "minute"),
        _field_meaning(FIELDS[1], read.hours, "hour"),
        _month_days(read.month_days) if read.month_days.restricted else "any day of the month",
        _join([MONTHS[month - 1] for month in read.months]) if len(read.months) < 12 else "every month",
        _week_days(read.week_days) if read.week_days.restricted else "any day of the week",
    )
    sentence = " ".join(part for part in (_times(read) + _comma(read), _days(read, day_rule), _months(read)) if part)
    return Explanation(
        expression,
        sentence[0].upper() + sentence[1:],
        tuple(
            FieldMeaning(field.name, text, meaning)
            for field, text, meaning in zip(FIELDS, read.fields, meanings, strict=True)
        ),
    )


def _field_meaning(field: Field, values: tuple[int, ...], noun: str) -> str:
    size = field.high + 1
    if len(values) == size:
        return f"every {noun}"
    step = _step(values, size)
    if step is not None and step > 1:
        return f"every {step} {noun}s, from 0"
    plural = "" if len(values) == 1 else "s"
    return f"{noun}{plural} {_ranges(values)}"


def _times(read: Expression) -> str:
    """The time of day: `at 08:00`, `every 15 minutes from 09:00 to 17:45`, `every hour at minute 30`."""
    minutes, hours = read.minutes, read.hours
    step = _step(minutes, 60)
    pace = f"every {step} minutes" if step is not None and step > 1 else "every minute" if step == 1 else None
    if read.hour_is_free:
        if pace is not None:
            return pace
        if minutes == (0,):
            return "every hour, on the hour"
        plural = "" if len(minutes) == 1 else "s"
        return f"every hour at minute{plural} {_join([str(minute) for minute in minutes])}"
    if len(minutes) * len(hours) <= MOST_TIMES:
        return "at " + _join([f"{hour:02}:{minute:02}" for hour in hours for minute in minutes])
    contiguous = hours[-1] - hours[0] == len(hours) - 1
    if pace is not None and contiguous:
        return f"{pace} from {hours[0]:02}:{minutes[0]:02} to {hours[-1]:02}:{minutes[-1]:02}"
    hour_step = _step(hours, 24)
    if len(minutes) == 1 and hour_step is not None:
        return f"every {hour_step} hours from {hours[0]:02}:{minutes[0]:02}"
    if len(minutes) == 1 and contiguous:
        return f"every hour from {hours[0]:02}:{minutes[0]:02} to {hours[-1]:02}:{minutes[0]:02}"
    at = pace or f"at minutes {_join([str(minute) for minute in minutes])}"
    return f"{at} of hour{'' if len(hours) == 1 else 's'} {_ranges(hours)}"


def _comma(read: Expression) -> str:
    """Where days or months follow a span of times, or a span of days any time, a comma helps the reader."""
    if read.week_days.restricted and not read.month_days.restricted and _weekday_span(read.week_days):
        return ","
    limited = read.month_days.restricted or read.week_days.restricted or len(read.months) < 12
    return "," if limited and not _times(read).startswith("at ") else ""


def _days(read: Expression, rule: DayRule) -> str:
    by_date, by_weekday = read.month_days.restricted, read.week_days.restricted
    if by_date and by_weekday:
        dates, weekdays = f"on {_month_days(read.month_days)} of the month", f"on {_week_days(read.week_days)}"
        if rule is DayRule.AND:
            return f"{dates} and {weekdays} (only when both hold)"
        return f"{dates} or {weekdays} (either is enough)"
    if by_date:
        return f"on {_month_days(read.month_days)}"
    if by_weekday:
        return _weekday_span(read.week_days) or f"on {_week_days(read.week_days)}"
    return "" if read.hour_is_free else "every day"


def _months(read: Expression) -> str:
    months = read.months
    if len(months) == 12:
        return "" if not _only_by_date(read) else "of every month"
    names = [MONTHS[month - 1] for month in months]
    joined = f"{names[0]} to {names[-1]}" if _is_run(months) and len(months) > 2 else _join(names)
    return f"of {joined}" if _only_by_date(read) else f"in {joined}"


def _only_by_date(read: Expression) -> bool:
    return read.month_days.restricted and not read.week_days.restricted


def _month_days(days: MonthDays) -> str:
    parts: list[str] = []
    step = days.days[1] - days.days[0] if len(days.days) > 3 else 1
    if step > 1 and days.days == tuple(range(1, 32, step)):
        parts.append(f"every {step}{ {2: 'nd', 3: 'rd'}.get(step, 'th') } day from day 1")
    elif days.days:
        parts.append(f"day{'' if len(days.days) == 1 else 's'} {_ranges(days.days)}")
    if days.last:
        parts.append("the last day")
    parts += [f"the weekday nearest to day {day}" for day in days.nearest_weekday_to]
    return _join(parts)


def _week_days(days: WeekDays) -> str:
    parts: list[str] = []
    span = _weekday_span(days)
    if span is not None:
        parts.append(span)
    else:
        parts += [f"{WEEKDAYS[day]}s" for day in _from_monday(days.days)]
    parts += [f"the {ORDINALS[nth - 1]} {WEEKDAYS[day]} of the month" for day, nth in days.nth]
    parts += [f"the last {WEEKDAYS[day]} of the month" for day in days.last]
    return _join(parts)


def _weekday_span(days: WeekDays) -> str | None:
    """`Monday to Friday`, where the field is one run of three days or more."""
    ordered = _from_monday(days.days)
    places = [(day - 1) % 7 for day in ordered]
    if days.last or days.nth or len(ordered) < 3 or not _is_run(places):
        return None
    if len(ordered) == 7:
        return "every day of the week"
    return f"{WEEKDAYS[ordered[0]]} to {WEEKDAYS[ordered[-1]]}"


def _from_monday(days: Sequence[int]) -> list[int]:
    return sorted(days, key=lambda day: (day - 1) % 7)


def _is_run(values: Sequence[int]) -> bool:
    return values[-1] - values[0] == len(values) - 1


def _step(values: tuple[int, ...], size: int) -> int | None:
    """n where the values are 0, n, 2n … and n divides the field, so that the pace never breaks."""
    if values[0] != 0 or size % len(values):
        return None
    step = size // len(values)
    return step if len(values) > 1 and values == tuple(range(0, size, step)) else None


def _ranges(values: Sequence[int]) -> str:
    """`1, 3 and 10 to 15`"""
    parts: list[str] = []
    start = 0
    for place in range(1, len(values) + 1):
        if place < len(values) and values[place] == values[place - 1] + 1:
            continue
        run = values[start:place]
        parts += [f"{run[0]} to {run[-1]}"] if len(run) > 2 else [str(value) for value in run]
        start = place
    return _join(parts)


def _join(parts: Sequence[str]) -> str:
    if len(parts) < 2:
        return "".join(parts)
    return f"{', '.join(parts[:-1])} and {parts[-1]}"


# ---- traps


def traps(
    expression: str, time_zone: str, day_rule: DayRule = DayRule.OR, since: Instant | None = None
) -> tuple[Trap, ...]:
    """What may surprise the person who wrote it. Clock changes are looked for in the three years from `since`, by
    default from the start of the year of the zone data."""
    read = parsed(expression)
    zones.zone(time_zone)
    if not ever_fires(read, day_rule):
        return (Trap("NEVER_FIRES", f"never fires: no month has such a day ({expression.strip()})"),)
    start = since if since is not None else from_datetime(datetime(_data_year(), 1, 1, tzinfo=UTC))
    found = (
        _day_rule_trap(read, day_rule),
        _short_months_trap(read, day_rule),
        _midnight_trap(read),
        *_clock_change_traps(read, day_rule, time_zone, start),
        *(_step_trap(field, text) for field, text in zip(FIELDS, read.fields, strict=True)),
    )
    return tuple(trap for trap in found if trap is not None)


def _data_year() -> int:
    """The year in which the zone data was made: the nearest thing to a clock that a pure function has."""
    digits = re.match(r"[0-9]{4}", zones.TZDATA_VERSION)
    assert digits is not None, "IANA versions start with a year"
    return int(digits[0])


def _day_rule_trap(read: Expression, rule: DayRule) -> Trap | None:
    if not (read.month_days.restricted and read.week_days.restricted) or rule is DayRule.AND:
        return None
    return Trap(
        "DAY_OR",
        "day-of-month and day-of-week are both set: unix runs on either, quartz needs one ?; day_rule AND wants both",
    )


def _short_months_trap(read: Expression, rule: DayRule) -> Trap | None:
    """Days that some months do not have: leap days, the 31st."""

    def lacks(month: int) -> bool:
        length = SHORT_MONTH_DAYS.get(month, (31,))[0]
        return not any(days_of_month(read.month_days, read.week_days, rule, weekday, length) for weekday in range(7))

    lacking = [month for month in read.months if lacks(month)]
    if not lacking:
        return None
    if lacking == list(read.months):  # only a 29th of February is left, or it would never fire
        return Trap("LEAP_DAY", "runs on 29 February only: once in four years, and not in 2100")
    names = _join([MONTHS[month - 1] for month in lacking])
    return Trap("SHORT_MONTHS", f"does not run in {names}: they have no such day; L is the last day of every month")


def _midnight_trap(read: Expression) -> Trap | None:
    if read.hours != (0,) or read.minutes != (0,):
        return None
    return Trap(
        "MIDNIGHT_CROWD",
        "joins the midnight crowd: most daily jobs are due at 00:00; a dispatch window of 30 minutes costs nothing",
    )


def _clock_change_traps(read: Expression, rule: DayRule, time_zone: str, since: Instant) -> list[Trap]:
    """The first time it falls into a skipped hour, and the first time into a repeated one."""
    if read.hour_is_free:
        return []
    gap: Trap | None = None
    repeat: Trap | None = None
    for change in zones.transitions(time_zone, since, since + YEARS_LOOKED_AT * 366 * DAY_MS):
        before, after = change.at + change.offset_before_ms, change.at + change.offset_after_ms
        if abs(after - before) > LARGEST_CLOCK_CHANGE_MS:
            continue
        wall = next_wall(read, rule, min(before, after))
        if wall is None or wall >= max(before, after):
            continue
        time, day = time_text(wall), date_text(wall)
        if before < after and gap is None:
            gap = Trap(
                "DST_HOUR",
                f"{time} falls into the hour that is skipped on {day} in {time_zone}; by default it runs at the "
                "first minute after",
            )
        elif before > after and repeat is None:
            repeat = Trap(
                "DST_HOUR",
                f"{time} falls into the hour that is repeated on {day} in {time_zone}; by default it runs once, the "
                "first time",
            )
    return [trap for trap in (gap, repeat) if trap is not None]


_RESTARTS: Final = {
    "minute": "every hour",
    "hour": "every midnight",
    "day-of-month": "on the first of every month",
    "month": "every January",
    "day-of-week": "every Sunday",
}


def _step_trap(field: Field, text: str) -> Trap | None:
    match = re.fullmatch(r"(?:\*|0)/([0-9]+)", text)
    if match is None:
        return None
    step, size = int(match[1]), field.high - field.low + 1
    if step >= size:
        return Trap("STEP_TOO_LARGE", f"{text} in {field.name} is longer than the field: only {field.low} is left")
    if size % step == 0 and field is not DAY_OF_MONTH:
        return None
    last = field.low + (size - 1) // step * step
    return Trap(
        "UNEVEN_STEP",
        f"{text} in {field.name} restarts {_RESTARTS[field.name]}: {last} is followed by {field.low}, so the last gap "
        f"is not {step}",
    )
