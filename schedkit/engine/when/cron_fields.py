"""The cron dialect (W1): text in, explicit numbers out, everything else refused with the field named.

    minute        0-59       * , - /
    hour          0-23       * , - /
    day-of-month  1-31       * , - / ?  L (last day)  15W (the weekday nearest to the 15th)
    month         1-12       * , - /     jan-dec
    day-of-week   0-7        * , - / ?  sun-sat  5L (last Friday)  5#2 (second Friday); 0 and 7 are Sunday

Ranges may wrap (`fri-mon`, `22-2`); `a-a` is one value; `a/n` runs from a to the end of the field. A macro (`@daily`)
stands for five fields. Nothing outside this table reaches any other parser.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from schedkit.errors import InvalidInput, Reason
from schedkit.model.schedules import MAX_EXPRESSION_CHARS

MACROS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
MONTH_NAMES: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
WEEKDAY_NAMES: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
SUNDAY_ALIAS: Final = 7


@dataclass(frozen=True, slots=True)
class Field:
    """One column of an expression: its name, its values, and the names some of them have."""

    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()

    @property
    def is_day(self) -> bool:
        return self is DAY_OF_MONTH or self is DAY_OF_WEEK


MINUTE: Final = Field("minute", 0, 59)
HOUR: Final = Field("hour", 0, 23)
DAY_OF_MONTH: Final = Field("day-of-month", 1, 31)
MONTH: Final = Field("month", 1, 12, MONTH_NAMES)
DAY_OF_WEEK: Final = Field("day-of-week", 0, 6, WEEKDAY_NAMES)
FIELDS: Final = (MINUTE, HOUR, DAY_OF_MONTH, MONTH, DAY_OF_WEEK)


@dataclass(frozen=True, slots=True)
class MonthDays:
    """The day-of-month field: plain numbers, `L`, and the `W` days. Only `*` and `?` leave it unrestricted."""

    restricted: bool
    days: tuple[int, ...]
    last: bool = False
    nearest_weekday_to: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class WeekDays:
    """The day-of-week field, 0 = Sunday: plain numbers, `5L` as 5, `5#2` as (5, 2)."""

    restricted: bool
    days: tuple[int, ...]
    last: tuple[int, ...] = ()
    nth: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Expression:
    """A cron expression as explicit, sorted numbers. `fields` keeps the five texts, in lower case."""

    fields: tuple[str, str, str, str, str]
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    month_days: MonthDays
    months: tuple[int, ...]
    week_days: WeekDays

    @property
    def hour_is_free(self) -> bool:
        """True for `*`, `*/1`, `0-23` and lists of all 24: such a cron follows elapsed time (W4)."""
        return len(self.hours) == 24


_BLANKS: Final = re.compile(r"[ \t]+")
_ITEM: Final = re.compile(r"(?P<first>\*|[0-9]{1,2}|[a-z]+)(?:-(?P<last>[0-9]{1,2}|[a-z]+))?(?:/(?P<step>[0-9]{1,3}))?")
_NEAREST: Final = re.compile(r"([0-9]{1,2})w")
_LAST_WEEKDAY: Final = re.compile(r"([0-9]|[a-z]{3})l")
_NTH_WEEKDAY: Final = re.compile(r"([0-9]|[a-z]{3})#([0-9]+)")


def split(text: str) -> tuple[str, ...]:
    """The fields of an expression in lower case, a macro spelled out; checked for size and characters only.

    The length is looked at before anything else, so a huge text costs nothing.
    """
    if len(text) > MAX_EXPRESSION_CHARS:
        raise refusal(f"the expression has {len(text)} characters; at most {MAX_EXPRESSION_CHARS} are read")
    odd = next((c for c in text if not (" " <= c <= "~" or c == "\t")), None)
    if odd is not None:
        raise refusal(f"the expression contains {odd!a}: only ASCII letters, digits, signs, blanks and tabs are read")
    stripped = text.strip(" \t").lower()
    if not stripped:
        raise refusal("the expression is empty", fix=["write five fields, such as 0 8 * * *"])
    return tuple(_BLANKS.split(MACROS.get(stripped, stripped)))


@lru_cache(maxsize=2_048)
def parse(text: str) -> Expression:
    """The expression as numbers. Raises InvalidInput(INVALID_CRON) naming the field that is wrong (W1)."""
    fields = split(text)
    if fields[0].startswith("@"):
        raise refusal(f'"{fields[0]}" is not a macro', fix=["macros are " + " ".join(MACROS)])
    if len(fields) != len(FIELDS):
        plural = "" if len(fields) == 1 else "s"
        raise refusal(
            f"the expression has {len(fields)} field{plural}; a Unix cron has five: " + " ".join(f.name for f in FIELDS)
        )
    minute, hour, day, month, weekday = fields
    return Expression(
        fields=(minute, hour, day, month, weekday),
        minutes=_plain(MINUTE, minute),
        hours=_plain(HOUR, hour),
        month_days=_month_days(day),
        months=_plain(MONTH, month),
        week_days=_week_days(weekday),
    )


def refusal(detail: str, *, fix: list[str] | None = None, why: str | None = None) -> InvalidInput:
    return InvalidInput(Reason.INVALID_CRON, detail, why=why, fix=fix or (), field="schedule.cron")


def _wrong(field: Field, item: str, what: str, *, fix: list[str] | None = None) -> InvalidInput:
    return refusal(f'{field.name} "{item}": {what}', fix=fix)


def _plain(field: Field, text: str) -> tuple[int, ...]:
    return tuple(sorted({value for item in text.split(",") for value in _values(field, item)}))


def _month_days(text: str) -> MonthDays:
    if text in ("*", "?"):
        return MonthDays(False, tuple(range(1, 32)))
    days: set[int] = set()
    nearest: set[int] = set()
    last = False
    for item in text.split(","):
        weekday = _NEAREST.fullmatch(item)
        if item == "l":
            last = True
        elif weekday is not None:
            nearest.add(_number(DAY_OF_MONTH, item, weekday[1]))
        elif item == "lw" or item.startswith("l-"):
            raise _wrong(DAY_OF_MONTH, item, "only Quartz counts back from the last day; here there are L and 15W")
        else:
            days.update(_values(DAY_OF_MONTH, item))
    return MonthDays(True, tuple(sorted(days)), last, tuple(sorted(nearest)))


def _week_days(text: str) -> WeekDays:
    if text in ("*", "?"):
        return WeekDays(False, tuple(range(7)))
    days: set[int] = set()
    last: set[int] = set()
    nth: set[tuple[int, int]] = set()
    for item in text.split(","):
        last_match, nth_match = _LAST_WEEKDAY.fullmatch(item), _NTH_WEEKDAY.fullmatch(item)
        if item == "l":
            raise _wrong(DAY_OF_WEEK, item, "L alone means Saturday in Quartz and nothing here", fix=["write 6 or 6L"])
        if last_match is not None:
            last.add(_number(DAY_OF_WEEK, item, last_match[1]) % 7)
        elif nth_match is not None:
            if not 1 <= int(nth_match[2]) <= 5:
                raise _wrong(DAY_OF_WEEK, item, "a month has a first (#1) to a fifth (#5) of each weekday")
            nth.add((_number(DAY_OF_WEEK, item, nth_match[1]) % 7, int(nth_match[2])))
        else:
            days.update(_values(DAY_OF_WEEK, item))
    return WeekDays(True, tuple(sorted(days)), tuple(sorted(last)), tuple(sorted(nth)))


def _values(field: Field, item: str) -> list[int]:
    """The numbers one item of a list stands for: `*`, a, a-b, each with an optional /step."""
    if item == "":
        raise refusal(f"{field.name}: an item is missing beside a comma")
    if "?" in item:
        raise _wrong(field, item, "? stands alone, and only in the two day fields; write *")
    match = _ITEM.fullmatch(item)
    if match is None or (match["first"] == "*" and match["last"] is not None):
        raise _wrong(field, item, "expected *, a value, a range a-b or a step such as */5")
    step = int(match["step"] or 1)
    if step == 0:
        raise _wrong(field, item, "a step of 0 never moves")
    if match["first"] == "*":
        return list(range(field.low, field.high + 1, step))
    first = _number(field, item, match["first"])
    if match["last"] is not None:
        return _range(field, first, _number(field, item, match["last"]), step)
    if match["step"] is not None:
        return _folded(field, range(first, max(first, field.high) + 1, step))
    return _folded(field, [first])


def _range(field: Field, first: int, last: int, step: int) -> list[int]:
    """a-b, or the way round over the field's end when a > b."""
    if first <= last:
        return _folded(field, range(first, last + 1, step))
    if field is DAY_OF_WEEK and first == SUNDAY_ALIAS:
        return list(range(0, last + 1, step))
    return [*range(first, field.high + 1), *range(field.low, last + 1)][::step]


def _folded(field: Field, values: range | list[int]) -> list[int]:
    return [value % 7 for value in values] if field is DAY_OF_WEEK else list(values)


def _number(field: Field, item: str, text: str) -> int:
    if text.isdigit():
        value, high = int(text), SUNDAY_ALIAS if field is DAY_OF_WEEK else field.high
        if not field.low <= value <= high:
            raise _wrong(field, item, f"{value} is outside {field.low}-{high}")
        return value
    if text in field.names:
        return field.names.index(text) + field.low
    if field.names:
        known = next((name for name in field.names if text.startswith(name)), None)
        raise _wrong(
            field,
            item,
            f'"{text}" is not a name; names have three letters: ' + " ".join(field.names),
            fix=[f"write {known}"] if known else None,
        )
    raise _wrong(field, item, f'"{text}" is not a number')
