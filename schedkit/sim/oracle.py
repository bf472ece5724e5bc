"""A second opinion on schedules: it walks the minutes of UTC and applies the policies to what a wall clock shows.

    ONCE       its one instant
    INTERVAL   anchor + k x every
    CRON       minute and hour fields of `*`, numbers, lists, ranges and steps; `*` in the three day fields

It shares nothing with the engine: its zones come straight from the files of the tzdata package, and it knows one offset
for each minute and no stretches between two clock changes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import cache, lru_cache
from importlib.resources import files
from itertools import chain
from typing import Any, Final
from zoneinfo import ZoneInfo

from schedkit.model.time import DAY_MS, MINUTE_MS, Instant

DAY_MINUTES: Final = 1_440
MARGIN_MINUTES: Final = 30 * 60  # walked beyond what is asked for, so that the far pass of any wall time is seen
LARGEST_CLOCK_CHANGE_MINUTES: Final = 180
STEP_MINUTES: Final = 15  # no zone changes its clocks twice within this

FIELD_SIZES: Final = (60, 24)
ANY_DAY: Final = frozenset({"*", "?"})
MACROS: Final = {"@hourly": "0 * * * *", "@daily": "0 0 * * *", "@midnight": "0 0 * * *"}


def every_day(_: date) -> bool:
    return True


@dataclass(frozen=True)
class Known:
    """A cron whose meaning is written out. `free` when it follows elapsed time."""

    text: str
    minutes: frozenset[int]
    hours: frozenset[int]
    on: Callable[[date], bool] = every_day
    free: bool = False

    def walls(self, low: int, high: int) -> list[int]:
        """Matching wall minutes since 1970 in [low, high)."""
        times = sorted(hour * 60 + minute for hour in self.hours for minute in self.minutes)
        days = range(low // DAY_MINUTES, high // DAY_MINUTES + 1)
        matching = [day * DAY_MINUTES for day in days if self.on(date(1970, 1, 1) + timedelta(days=day))]
        return [start + time for start in matching for time in times if low <= start + time < high]


class Walk:
    """Some time in one zone, minute by minute: what a clock on the wall shows at each minute of UTC."""

    def __init__(self, name: str, start: int, end: int) -> None:
        """`start` and `end` are UTC minutes since 1970; the walk begins a margin earlier and ends a margin later."""
        located = read_zone(name)
        self.start, self.end = start, end
        first, last = start - MARGIN_MINUTES, end + MARGIN_MINUTES
        self.passes: dict[int, list[int]] = {}  # wall minute -> the UTC minutes at which a clock shows it
        self.jumps: list[tuple[int, int, int]] = []  # (UTC minute, first missing wall minute, first one after)
        expected_wall = first + offset_minutes(located, first)
        self.low = expected_wall
        for minute, offset in _offsets(located, first, last):
            wall = minute + offset
            if wall > expected_wall:
                self.jumps.append((minute, expected_wall, wall))
            self.passes.setdefault(wall, []).append(minute)
            expected_wall = wall + 1
        self.high = expected_wall

    def occurrences(self, cron: Known, gap: str, repeat: str) -> list[int]:
        """The UTC minutes in (start, end] at which the cron is due, by definition of the two policies."""
        due: set[int] = set()
        for wall in cron.walls(self.low, self.high):
            passes = self.passes.get(wall, [])
            if cron.free or len(passes) == 1 or repeat == "BOTH":
                due.update(passes)
            elif passes:
                due.add(passes[1 if repeat == "SECOND" else 0])
            if not passes and not cron.free and gap != "SKIP":
                due.update(self._caught_up(wall, gap))
        return sorted(minute for minute in due if self.start < minute <= self.end)

    def _caught_up(self, wall: int, gap: str) -> list[int]:
        for minute, missing, resumed in self.jumps:
            if missing <= wall < resumed and resumed - missing <= LARGEST_CLOCK_CHANGE_MINUTES:
                return [minute if gap == "FIRST_VALID" else minute + wall - missing]
        return []


@cache
def read_zone(name: str) -> ZoneInfo:
    """A zone of the pinned tzdata package, whatever the machine has."""
    with files("tzdata.zoneinfo").joinpath(*name.split("/")).open("rb") as compiled:
        return ZoneInfo.from_file(compiled, key=name)


def offset_minutes(located: ZoneInfo, minute: int) -> int:
    """What the zone adds to UTC at this UTC minute."""
    offset = datetime.fromtimestamp(minute * 60, located).utcoffset()
    assert offset is not None
    return int(offset.total_seconds()) // 60


def _offsets(located: ZoneInfo, first: int, last: int) -> list[tuple[int, int]]:
    """(minute, offset) of every minute; single minutes are looked at only where two quarters of an hour differ."""
    found: list[tuple[int, int]] = []
    before = offset_minutes(located, first)
    for start in range(first, last, STEP_MINUTES):
        end = min(start + STEP_MINUTES, last)
        after = offset_minutes(located, end)
        if before == after:
            found += [(minute, before) for minute in range(start, end)]
        else:
            found += [(minute, offset_minutes(located, minute)) for minute in range(start, end)]
        before = after
    return found


@lru_cache(maxsize=4_096)
def cron_known(expression: str) -> Known:
    """What a plain cron means. Raises ValueError for one that this oracle does not speak."""
    fields = MACROS.get(expression.strip().lower(), expression).split()
    if len(fields) != 5 or not set(fields[2:]) <= ANY_DAY:
        raise ValueError(f"not a cron of minutes and hours: {expression}")
    minutes, hours = (_values(field, size) for field, size in zip(fields, FIELD_SIZES, strict=False))
    return Known(expression, minutes, hours, free=len(hours) == FIELD_SIZES[1])


def _values(field: str, size: int) -> frozenset[int]:
    found: set[int] = set()
    for part in field.split(","):
        span, _, step = part.partition("/")
        first, dash, last = span.partition("-")
        if span == "*":
            low, high = 0, size - 1
        else:
            low = int(first)
            high = int(last) if dash else size - 1 if step else low
        length = (high - low) % size + 1 if high != low else 1
        found.update((low + n) % size for n in range(0, length, int(step or 1)))
    return frozenset(found)


@lru_cache(maxsize=64)  # each is some thousand numbers; a simulation walks two or three days in half a dozen zones
def _walk(zone: str, day: int) -> Walk:
    return Walk(zone, day * DAY_MINUTES - 1, (day + 1) * DAY_MINUTES - 1)


@lru_cache(maxsize=16_384)
def _of_day(expression: str, zone: str, gap: str, repeat: str, day: int) -> tuple[Instant, ...]:
    """The occurrences of one day of UTC."""
    found = _walk(zone, day).occurrences(cron_known(expression), gap, repeat)
    return tuple(minute * MINUTE_MS for minute in found)


def occurrences(schedule: Mapping[str, Any], since_ms: Instant, until_ms: Instant) -> list[Instant]:
    """When a stored schedule is due, since < at <= until. Raises ValueError for a cron it does not speak."""
    if schedule["type"] == "ONCE":
        return [schedule["run_at"]] if since_ms < schedule["run_at"] <= until_ms else []
    start_at, end_at = schedule.get("start_at"), schedule.get("end_at")
    since = since_ms if start_at is None else max(since_ms, start_at - 1)
    until = until_ms if end_at is None else min(until_ms, end_at - 1)
    if since >= until:
        return []
    if schedule["type"] == "INTERVAL":
        anchor, every = schedule["anchor_at"], schedule["every_ms"]
        passed = max(0, (since - anchor) // every + 1)  # intervals from the anchor to the first one after `since`
        return list(range(anchor + passed * every, until + 1, every))
    what = (schedule["expression"], schedule["time_zone"], schedule["gap"], schedule["repeat"])
    days = range(since // DAY_MS, until // DAY_MS + 1)
    if len(days) == 1:
        found: tuple[Instant, ...] | list[Instant] = _of_day(*what, days[0])
    else:
        found = list(chain.from_iterable(_of_day(*what, day) for day in days))
    return list(found[bisect_right(found, since) : bisect_right(found, until)])
