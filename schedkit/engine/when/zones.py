"""Time zones: a fixed list of IANA names, read from the pinned `tzdata` package and nowhere else (W2).

    name ──zone()──► ZoneInfo          refused with the nearest names, never opened as a path
    name ──transitions()──► Transition  each change of the offset, found by bisection
    name, instant ──stretch_at()──► Stretch   the time around an instant during which the offset stands still

The system's copy of the zone data is never consulted: it is often older, and hosts differ in it.
"""

from __future__ import annotations

import difflib
import re
from bisect import bisect_right
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from importlib.resources import files
from typing import Final
from zoneinfo import ZoneInfo

import tzdata  # type: ignore[import-untyped]

from schedkit.errors import InvalidInput, Reason
from schedkit.model.time import (
    DAY_MS,
    EPOCH,
    HOUR_MS,
    MAX_INSTANT,
    MIN_INSTANT,
    MINUTE_MS,
    SECOND_MS,
    Instant,
    rfc3339,
)

TZDATA_VERSION: Final[str] = tzdata.IANA_VERSION  # such as "2026f"; stored beside every next_run_at (W2)

# Inside these two a wall time of any zone still fits a datetime, whose years end at 1 and 9999.
EARLIEST: Final[Instant] = MIN_INSTANT + 2 * DAY_MS
LATEST: Final[Instant] = MAX_INSTANT - 2 * DAY_MS

# Two changes of one zone are never closer than 6.9 days (Recife in October 2000, Gaza's Ramadans), so a look every six
# days finds them all; a test compares with the compiled data of every zone.
SAMPLE_STEP_MS: Final = 6 * DAY_MS

MAX_NAME_CHARS: Final = 64  # the longest name has 32; what is longer is not worth comparing with the list
_PLACEHOLDERS: Final = frozenset({"Factory", "localtime", "posixrules"})  # in zone data, but no place on earth

_ABBREVIATIONS: Final = {
    "PST": ("America/Los_Angeles",),
    "PDT": ("America/Los_Angeles",),
    "PT": ("America/Los_Angeles",),
    "MDT": ("America/Denver",),
    "MT": ("America/Denver",),
    "CST": ("America/Chicago", "Asia/Shanghai"),
    "CDT": ("America/Chicago",),
    "CT": ("America/Chicago",),
    "EDT": ("America/New_York",),
    "ET": ("America/New_York",),
    "AKST": ("America/Anchorage",),
    "AKDT": ("America/Anchorage",),
    "AST": ("America/Halifax", "Asia/Riyadh"),
    "ADT": ("America/Halifax",),
    "BRT": ("America/Sao_Paulo",),
    "BST": ("Europe/London",),
    "WEST": ("Europe/Lisbon",),
    "CEST": ("Europe/Berlin", "Europe/Paris"),
    "MESZ": ("Europe/Berlin",),
    "MEZ": ("Europe/Berlin",),
    "EEST": ("Europe/Athens", "Europe/Kyiv"),
    "MSK": ("Europe/Moscow",),
    "IST": ("Asia/Kolkata", "Asia/Jerusalem", "Europe/Dublin"),
    "PKT": ("Asia/Karachi",),
    "SGT": ("Asia/Singapore",),
    "HKT": ("Asia/Hong_Kong",),
    "KST": ("Asia/Seoul",),
    "JST": ("Asia/Tokyo",),
    "AWST": ("Australia/Perth",),
    "ACST": ("Australia/Darwin", "Australia/Adelaide"),
    "ACDT": ("Australia/Adelaide",),
    "AEST": ("Australia/Sydney", "Australia/Brisbane"),
    "AEDT": ("Australia/Sydney",),
    "NZST": ("Pacific/Auckland",),
    "NZDT": ("Pacific/Auckland",),
    "Z": ("UTC",),
}
_UTC_OFFSET: Final = re.compile(r"(?:UTC|GMT|Etc/UTC)?([+-])(\d{1,2})(?::?(\d\d))?", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Transition:
    """A change of a zone's offset: from `at` on, the second one holds."""

    at: Instant
    offset_before_ms: int
    offset_after_ms: int
    abbreviation_before: str
    abbreviation_after: str


@dataclass(frozen=True, slots=True)
class Stretch:
    """start <= t < end, during which the offset stands still, and the offsets on its two sides.

    A side that is more than a year away is cut short, with the same offset beyond: a cut changes no answer.
    """

    start: Instant
    end: Instant
    offset_ms: int
    before_ms: int
    after_ms: int


@cache
def names() -> tuple[str, ...]:
    """Every name a schedule may use, aliases such as US/Eastern among them, sorted."""
    listed = files("tzdata").joinpath("zones").read_text(encoding="ascii").split()
    return tuple(sorted(set(listed) - _PLACEHOLDERS))


@cache
def _name_set() -> frozenset[str]:
    return frozenset(names())


def zone(name: str) -> ZoneInfo:
    """The zone of an IANA name. Raises InvalidInput(INVALID_TIME_ZONE) for every other text (W2)."""
    if name not in _name_set():
        raise _no_such_zone(name)
    return _loaded(name)


@cache  # bounded by the list of names
def _loaded(name: str) -> ZoneInfo:
    with files("tzdata.zoneinfo").joinpath(*name.split("/")).open("rb") as compiled:
        return ZoneInfo.from_file(compiled, key=name)


def _no_such_zone(name: str) -> InvalidInput:
    shown = name if len(name) <= MAX_NAME_CHARS else name[:MAX_NAME_CHARS] + "…"
    detail = f'"{shown}" is not the name of a time zone' if name else "the time zone is empty"
    fix: list[str]
    offset = _UTC_OFFSET.fullmatch(name) if len(name) <= MAX_NAME_CHARS else None
    if offset is not None:
        detail, fix = _offset_advice(name, offset)
    else:
        fix = [f"use {near}" for near in close_names(name)]
        if not fix:
            fix = ["use an IANA name such as Europe/Berlin, America/New_York or UTC"]
    return InvalidInput(
        Reason.INVALID_TIME_ZONE,
        detail,
        why="a schedule keeps to a place's clock, so it names the place: abbreviations and bare offsets do not say "
        "when clocks change",
        fix=fix,
        field="schedule.time_zone",
    )


def _offset_advice(name: str, offset: re.Match[str]) -> tuple[str, list[str]]:
    sign, hours, minutes = offset[1], int(offset[2]), int(offset[3] or 0)
    place = "or name the place, such as Europe/Berlin, so that clock changes are followed"
    if not hours and not minutes:
        return f'"{name}" is an offset, not a time zone', ["use UTC"]
    fixed = f"Etc/GMT{'-' if sign == '+' else '+'}{hours}"
    if minutes or fixed not in _name_set():
        return f'"{name}" is an offset, not a time zone, and no zone is fixed at it', [
            "name the place, such as Asia/Kolkata (+05:30)"
        ]
    side = "ahead of" if sign == "+" else "behind"
    plural = "s" if hours > 1 else ""
    return f'"{name}" is an offset, not a time zone', [
        f"use {fixed}, which is {hours} hour{plural} {side} UTC (the sign in Etc names is the other way round)",
        place,
    ]


def stands_still(name: str) -> bool:
    """No zone data will ever move this zone: UTC, or a plain offset from it."""
    return name == "UTC" or name.startswith("Etc/")


def close_names(name: str) -> tuple[str, ...]:
    """At most three names of the list that the text may have meant, the best first."""
    text = name.strip()
    if not text or len(text) > MAX_NAME_CHARS:
        return ()
    if text.upper() in _ABBREVIATIONS:
        return _ABBREVIATIONS[text.upper()]
    folded = re.sub(r"[\s\-_]+", "_", text.casefold())
    for prefix in ("posix/", "right/"):
        folded = folded.removeprefix(prefix)
    by_folded = {re.sub(r"[\-_]+", "_", known.casefold()): known for known in names()}
    if folded in by_folded:
        return (by_folded[folded],)
    by_city = {known_folded.rsplit("/", 1)[-1]: known for known_folded, known in by_folded.items()}
    city = folded.rsplit("/", 1)[-1]
    if city in by_city:
        return (by_city[city],)
    near = difflib.get_close_matches(folded, by_folded, n=3, cutoff=0.75)
    near_cities = difflib.get_close_matches(city, by_city, n=3, cutoff=0.8)
    found = [by_folded[one] for one in near] + [by_city[one] for one in near_cities]
    return tuple(dict.fromkeys(found))[:3]


def transitions(name: str, since: Instant, until: Instant) -> tuple[Transition, ...]:
    """Every change of the zone's offset with since <= at < until, in order."""
    zone(name)
    since, until = max(since, EARLIEST), min(until, LATEST)
    if since >= until:
        return ()
    found: list[Transition] = []
    for year in range(_year_of(since), _year_of(until - 1) + 1):
        found += [change for change in _year_transitions(name, year) if since <= change.at < until]
    return tuple(found)


def offset_ms_at(name: str, at: Instant) -> int:
    """The zone's offset from UTC at an instant: positive east of Greenwich."""
    return stretch_at(name, at).offset_ms


def stretch_at(name: str, at: Instant) -> Stretch:
    """The stretch that holds `at`."""
    at = min(max(at, EARLIEST), LATEST)
    starts, stretches = _year_stretches(name, _year_of(at))
    return stretches[bisect_right(starts, at) - 1]


@lru_cache(maxsize=8_192)  # about 600 zones in a dozen years each
def _year_stretches(name: str, year: int) -> tuple[tuple[Instant, ...], tuple[Stretch, ...]]:
    """The stretches of a year and its two neighbours: one that touches the year has both its ends right."""
    low, high = max(_year_start(year - 1), EARLIEST), min(_year_start(year + 2), LATEST + 1)
    # The outer cuts lie well inside what was searched, so that no unseen change can repeat a wall time before them.
    first, last = low + 3 * DAY_MS, high - 3 * DAY_MS
    if low == EARLIEST:
        first = low
    if high == LATEST + 1:
        last = high
    changes = [
        one for near in (year - 1, year, year + 1) for one in _year_transitions(name, near) if first <= one.at < last
    ]
    located = zone(name)
    edges = [first, *(change.at for change in changes), last]
    offsets = [_offset_ms(located, first), *(change.offset_after_ms for change in changes)]
    sides = [offsets[0], *offsets, offsets[-1]]
    stretches = tuple(
        Stretch(edges[n], edges[n + 1], sides[n + 1], sides[n], sides[n + 2]) for n in range(len(offsets))
    )
    return tuple(edges[:-1]), stretches


@lru_cache(maxsize=16_384)
def _year_transitions(name: str, year: int) -> tuple[Transition, ...]:
    """Every change within a UTC year, by looking every few days and bisecting where the offset differs."""
    located = zone(name)
    low, high = max(_year_start(year), EARLIEST), min(_year_start(year + 1), LATEST)
    if low >= high:
        return ()  # beyond what a datetime can hold
    found: list[Transition] = []
    seen = low - SECOND_MS if low > EARLIEST else low  # a change may fall on the year's first second
    seen_ms = _offset_ms(located, seen)
    while seen < high - SECOND_MS:
        ahead = min(seen + SAMPLE_STEP_MS, high - SECOND_MS)
        if _offset_ms(located, ahead) == seen_ms:
            seen = ahead
            continue
        change = _bisect(located, seen, ahead, seen_ms)
        found.append(change)
        seen, seen_ms = change.at, change.offset_after_ms
    return tuple(found)


def _bisect(located: ZoneInfo, before: Instant, after: Instant, before_ms: int) -> Transition:
    """The first whole second between two instants from which the offset is another."""
    low, high = before // SECOND_MS, after // SECOND_MS
    while high - low > 1:
        middle = (low + high) // 2
        if _offset_ms(located, middle * SECOND_MS) == before_ms:
            low = middle
        else:
            high = middle
    at = high * SECOND_MS
    return Transition(
        at, before_ms, _offset_ms(located, at), _abbreviation(located, at - SECOND_MS), _abbreviation(located, at)
    )


def _offset_ms(located: ZoneInfo, at: Instant) -> int:
    offset = datetime.fromtimestamp(at // SECOND_MS, located).utcoffset()
    assert offset is not None, "a zone has an offset at every instant"
    return offset.days * DAY_MS + offset.seconds * SECOND_MS


def _abbreviation(located: ZoneInfo, at: Instant) -> str:
    return datetime.fromtimestamp(at // SECOND_MS, located).tzname() or ""


def abbreviation_at(located: ZoneInfo, at: Instant) -> str:
    """`EDT`, or `+03` where the zone has no abbreviation of letters."""
    return _abbreviation(located, min(max(at, EARLIEST), LATEST))


def _year_start(year: int) -> Instant:
    if year < 1:
        return MIN_INSTANT
    if year > 9999:
        return MAX_INSTANT + 1
    return (datetime(year, 1, 1, tzinfo=UTC) - EPOCH).days * DAY_MS


def _year_of(at: Instant) -> int:
    return (EPOCH + timedelta(milliseconds=at)).year


def local_text(located: ZoneInfo, at: Instant) -> str:
    """`2026-11-01T01:30:00-04:00`: the wall time with its offset, milliseconds only where there are any.

    In the first and the last two days that a datetime can hold there may be no wall time; UTC is shown then.
    """
    if not EARLIEST <= at <= LATEST:
        return rfc3339(at)
    return wall_text(at, _offset_ms(located, at))


def wall_text(at: Instant, offset_ms: int) -> str:
    """As local_text, where the offset is known already."""
    wall = (EPOCH + timedelta(milliseconds=at + offset_ms)).replace(tzinfo=None)
    precision = "milliseconds" if at % SECOND_MS else "seconds"
    return wall.isoformat(timespec=precision) + _offset_text(offset_ms)


@lru_cache(maxsize=2_048)
def _offset_text(offset_ms: int) -> str:
    hours, rest = divmod(abs(offset_ms), HOUR_MS)
    minutes, rest = divmod(rest, MINUTE_MS)
    seconds = f":{rest // SECOND_MS:02}" if rest else ""  # local mean time, before there were zones
    return f"{'-' if offset_ms < 0 else '+'}{hours:02}:{minutes:02}{seconds}"
