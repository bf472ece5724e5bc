"""The crons, rule sets and nights on which the engine is compared with the simulator's oracle.

The crons are written out as sets and a predicate on dates beside the text the engine gets.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime, timedelta
from functools import cache
from hashlib import blake2b
from importlib.resources import files
from zoneinfo import ZoneInfo

from schedkit.sim.oracle import DAY_MINUTES, Known, Walk, every_day, offset_minutes, read_zone

__all__ = ["FIXED", "FREE", "Known", "Night", "first_after", "rule_sets", "utc"]

FIRST_DAY, LAST_DAY = date(2024, 1, 1), date(2031, 1, 1)
WINDOW_MINUTES = 36 * 60  # looked at on either side of a change


def is_sunday(day: date) -> bool:
    return day.isoweekday() == 7


def is_last_sunday(day: date) -> bool:
    return is_sunday(day) and (day + timedelta(days=7)).month != day.month


def is_last_day(day: date) -> bool:
    return (day + timedelta(days=1)).month != day.month


def known(
    text: str, minutes: Iterable[int], hours: Iterable[int], on: Callable[[date], bool] = every_day, free: bool = False
) -> Known:
    return Known(text, frozenset(minutes), frozenset(hours), on, free)


FIXED = (
    known("30 1 * * *", [30], [1]),
    known("30 2 * * *", [30], [2]),
    known("0 2 * * *", [0], [2]),
    known("0 0 * * *", [0], [0]),
    known("0 3 * * *", [0], [3]),
    known("15 0 ? * sat,SUN", [15], [0], lambda day: day.isoweekday() in (6, 7)),
    known("*/15 2 * * *", [0, 15, 30, 45], [2]),
    known("0 */2 * * *", [0], range(0, 24, 2)),
    known("*/30 0-3 * * *", [0, 30], [0, 1, 2, 3]),
    known("45 22-2 * * *", [45], [22, 23, 0, 1, 2]),
    known("59/15 1,23 * * *", [59], [1, 23]),
    known("30 2 25-31 3,10 sun", [30], [2], lambda d: d.month in (3, 10) and (d.day >= 25 or is_sunday(d))),
    known("45 1,2 * * 7L", [45], [1, 2], is_last_sunday),
    known("30 1-2 1W,L * sun#1", [30], [1, 2], lambda d: is_last_day(d) or _first_sunday(d) or _first_weekday(d)),
)
FREE = (
    known("0 * * * *", [0], range(24), free=True),
    known("7-59/20 0-23 * * *", [7, 27, 47], range(24), free=True),
    known("*/30 */1 * * 0,1,6", [0, 30], range(24), lambda day: day.isoweekday() in (1, 6, 7), free=True),
)


def _first_sunday(day: date) -> bool:
    return is_sunday(day) and day.day <= 7


def _first_weekday(day: date) -> bool:
    """The weekday nearest to the 1st: the 1st, or the Monday after a weekend."""
    if day.day == 1:
        return day.isoweekday() <= 5
    return day.isoweekday() == 1 and day.day in (2, 3)


def minute_of(day: date) -> int:
    return (day - date(1970, 1, 1)).days * DAY_MINUTES


@cache
def rule_sets() -> tuple[tuple[str, tuple[int, ...]], ...]:
    """(a name, its changes in UTC minutes) for every distinct row of offsets from 2024 to 2030 that has a change.

    Files that are equal byte for byte are read once. Changes are found by a look at each midnight and then at every
    quarter of an hour of the days between two midnights that differ.
    """
    distinct: dict[bytes, str] = {}
    for name in sorted(files("tzdata").joinpath("zones").read_text(encoding="ascii").split()):
        compiled = files("tzdata.zoneinfo").joinpath(*name.split("/")).read_bytes()
        distinct.setdefault(blake2b(compiled).digest(), name)
    found: dict[tuple[tuple[int, int], ...], str] = {}
    for name in distinct.values():
        found.setdefault(_row_of_offsets(read_zone(name)), name)
    return tuple((name, tuple(at for at, _ in row[1:])) for row, name in found.items() if len(row) > 1)


def _row_of_offsets(located: ZoneInfo) -> tuple[tuple[int, int], ...]:
    low, high = minute_of(FIRST_DAY), minute_of(LAST_DAY)
    row = [(low, offset_minutes(located, low))]
    for day in range(low, high, DAY_MINUTES):
        if offset_minutes(located, day + DAY_MINUTES) == row[-1][1]:
            continue
        for minute in range(day, day + DAY_MINUTES + 1, 15):
            offset = offset_minutes(located, minute)
            if offset != row[-1][1]:
                row.append((minute, offset))
    return tuple(row)


class Night(Walk):
    """The days around one change of a zone's clocks, minute by minute."""

    def __init__(self, name: str, change: int) -> None:
        super().__init__(name, change - WINDOW_MINUTES, change + WINDOW_MINUTES)


def first_after(due: list[int], minute: int) -> int | None:
    place = bisect_right(due, minute)
    return due[place] if place < len(due) else None


def utc(minute: int) -> str:
    return datetime.fromtimestamp(minute * 60, UTC).isoformat()
