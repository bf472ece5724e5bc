"""The days and wall times an expression matches, with no zone and no clock change in sight.

A wall time is a whole number of milliseconds that a clock on a wall has counted since 1970-01-01T00:00, so that two
wall times can be compared and an instant is `wall - offset`. Years end at 9999.

croniter lists the plain days of a month and the plain days of a week, from fields already rewritten as explicit
numbers. Everything on which it differs from W1 stays here: how the two day fields combine (it drops the rule when a
list covers the whole field, or when `#` or `W` is present), `L`, `15W`, `5L`, `5#2`; and the times within a day, which
are two sorted tuples. What it listed is kept by the shape of the month: 7 first weekdays x 4 lengths.
"""

from __future__ import annotations

from bisect import bisect_left
from datetime import date, datetime, timedelta
from functools import lru_cache
from typing import Final

from croniter import croniter  # type: ignore[import-untyped]

from schedkit.engine.when.cron_fields import Expression, MonthDays, WeekDays
from schedkit.model.schedules import DayRule
from schedkit.model.time import DAY_MS, MINUTE_MS

Wall = int  # ms since 1970-01-01T00:00 on some wall

EPOCH_ORDINAL: Final = date(1970, 1, 1).toordinal()
LAST_ORDINAL: Final = date.max.toordinal()
MINUTES_PER_DAY: Final = 1_440
SHORT_MONTH_DAYS: Final = {2: (28, 29), 4: (30,), 6: (30,), 9: (30,), 11: (30,)}
_FULL_MONTH_DAYS: Final = (31,)

_A_31_DAY_MONTH: Final = datetime(2026, 1, 1)  # noqa: DTZ001 - naive on purpose: any month of 31 days lists days alike
_A_SUNDAY: Final = datetime(2026, 1, 4)  # noqa: DTZ001
_JUST_BEFORE: Final = timedelta(minutes=1)


@lru_cache(maxsize=2_048)
def ever_fires(expression: Expression, rule: DayRule) -> bool:
    """False when no month of any year has a matching day: every shape of month returns within 400 years."""
    if _every_day(expression):
        return True
    return any(
        days_of_month(expression.month_days, expression.week_days, rule, first_weekday, length)
        for month in expression.months
        for length in SHORT_MONTH_DAYS.get(month, _FULL_MONTH_DAYS)
        for first_weekday in range(7)
    )


def next_wall(expression: Expression, rule: DayRule, wall: Wall) -> Wall | None:
    """The first matching wall time at or after `wall`, or None before the year 10000."""
    day, minute_of_day = divmod(-(-wall // MINUTE_MS), MINUTES_PER_DAY)
    today = day + EPOCH_ORDINAL
    ordinal = next_day(expression, rule, today)
    if ordinal == today:
        time = _time_of_day(expression, minute_of_day)
        if time is not None:
            return day * DAY_MS + time * MINUTE_MS
        ordinal = next_day(expression, rule, today + 1)
    if ordinal is None:
        return None
    return (ordinal - EPOCH_ORDINAL) * DAY_MS + (expression.hours[0] * 60 + expression.minutes[0]) * MINUTE_MS


def _time_of_day(expression: Expression, minute_of_day: int) -> int | None:
    """The first matching minute of a matching day at or after one."""
    hour, minute = divmod(minute_of_day, 60)
    hours, minutes = expression.hours, expression.minutes
    place = bisect_left(hours, hour)
    if place < len(hours) and hours[place] == hour:
        within = bisect_left(minutes, minute)
        if within < len(minutes):
            return hour * 60 + minutes[within]
        place += 1
    return hours[place] * 60 + minutes[0] if place < len(hours) else None


def _every_day(expression: Expression) -> bool:
    return not expression.month_days.restricted and not expression.week_days.restricted and len(expression.months) == 12


def next_day(expression: Expression, rule: DayRule, ordinal: int) -> int | None:
    """The first matching day at or after a day, both counted as date.toordinal does."""
    if ordinal > LAST_ORDINAL:
        return None
    if _every_day(expression):
        return ordinal
    if not ever_fires(expression, rule):
        return None
    start = date.fromordinal(max(ordinal, 1))
    year, month, day = start.year, start.month, start.day
    months = expression.months
    place = bisect_left(months, month)
    if place == len(months) or months[place] != month:
        day = 1  # a later month: all of it counts
    while True:
        if place == len(months):
            year, place = year + 1, 0
        if year > date.max.year:
            return None
        first = date(year, months[place], 1)
        days = days_of_month(
            expression.month_days, expression.week_days, rule, first.isoweekday() % 7, _length(year, months[place])
        )
        within = bisect_left(days, day)
        if within < len(days):
            return first.toordinal() + days[within] - 1
        place, day = place + 1, 1


def _length(year: int, month: int) -> int:
    lengths = SHORT_MONTH_DAYS.get(month, _FULL_MONTH_DAYS)
    leap = len(lengths) == 2 and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return lengths[1] if leap else lengths[0]


@lru_cache(maxsize=8_192)
def days_of_month(
    month_days: MonthDays, week_days: WeekDays, rule: DayRule, first_weekday: int, length: int
) -> tuple[int, ...]:
    """The matching days, 1 to `length`, of a month whose first day is `first_weekday` (0 = Sunday)."""
    every = set(range(1, length + 1))
    by_date = _by_date(month_days, first_weekday, length) if month_days.restricted else every
    by_weekday = _by_weekday(week_days, first_weekday, length) if week_days.restricted else every
    both = month_days.restricted and week_days.restricted
    matching = by_date | by_weekday if both and rule is DayRule.OR else by_date & by_weekday
    return tuple(sorted(matching))


def _by_date(month_days: MonthDays, first_weekday: int, length: int) -> set[int]:
    found = {day for day in _plain_month_days(month_days.days) if day <= length}
    if month_days.last:
        found.add(length)
    for day in month_days.nearest_weekday_to:
        if day <= length:
            found.add(_nearest_weekday(day, first_weekday, length))
    return found


def _nearest_weekday(day: int, first_weekday: int, length: int) -> int:
    """Monday to Friday nearest to a day, never leaving its month."""
    weekday = (first_weekday + day - 1) % 7
    if weekday == 6:
        return day - 1 if day > 1 else day + 2
    if weekday == 0:
        return day + 1 if day < length else day - 2
    return day


def _by_weekday(week_days: WeekDays, first_weekday: int, length: int) -> set[int]:
    def first_of(weekday: int) -> int:
        return (weekday - first_weekday) % 7 + 1

    found: set[int] = set()
    for weekday in _plain_week_days(week_days.days):
        found.update(range(first_of(weekday), length + 1, 7))
    for weekday in week_days.last:
        found.add(range(first_of(weekday), length + 1, 7)[-1])
    for weekday, nth in week_days.nth:
        day = first_of(weekday) + (nth - 1) * 7
        if day <= length:
            found.add(day)
    return found


@lru_cache(maxsize=1_024)
def _plain_month_days(days: tuple[int, ...]) -> tuple[int, ...]:
    """The days of a long month that croniter finds for a list of numbers."""
    if not days:
        return ()
    return _listed(f"0 0 {','.join(map(str, days))} * *", _A_31_DAY_MONTH, days=31, offset=1)


@lru_cache(maxsize=128)  # there are 128 sets of weekdays
def _plain_week_days(days: tuple[int, ...]) -> tuple[int, ...]:
    """The weekdays, 0 = Sunday, that croniter finds in one week for a list of numbers."""
    if not days:
        return ()
    return _listed(f"0 0 * * {','.join(map(str, days))}", _A_SUNDAY, days=7, offset=0)


def _listed(plain: str, start: datetime, days: int, offset: int) -> tuple[int, ...]:
    walls = croniter(plain, start - _JUST_BEFORE)
    found: list[int] = []
    while True:
        day = (walls.get_next(datetime) - start).days
        if day >= days:
            return tuple(found)
        found.append(day + offset)


def times_between(expression: Expression, rule: DayRule, start: Wall, end: Wall, limit: int) -> tuple[Wall, ...]:
    """The matching wall times with start <= wall < end, at most `limit` of them."""
    found: list[Wall] = []
    wall = next_wall(expression, rule, start)
    while wall is not None and wall < end and len(found) < limit:
        found.append(wall)
        wall = next_wall(expression, rule, wall + 1)
    return tuple(found)


def time_text(wall: Wall) -> str:
    """`02:30`"""
    hour, minute = divmod(wall % DAY_MS // MINUTE_MS, 60)
    return f"{hour:02}:{minute:02}"


def date_text(wall: Wall) -> str:
    """`2026-03-08`"""
    return date.fromordinal(wall // DAY_MS + EPOCH_ORDINAL).isoformat()
