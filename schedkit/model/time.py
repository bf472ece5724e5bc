"""Instants: whole milliseconds since 1970-01-01T00:00:00Z, and their one text form.

Everywhere inside, a time is an `int` of milliseconds, UTC. RFC 3339 text exists only at the edges (API, CLI) and in
run ids; zoned datetimes exist only in `engine.when`.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

Instant = int  # ms since the epoch, UTC

SECOND_MS: Final = 1_000
MINUTE_MS: Final = 60 * SECOND_MS
HOUR_MS: Final = 60 * MINUTE_MS
DAY_MS: Final = 24 * HOUR_MS

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MIN_INSTANT: Final = -62_135_596_800_000  # 0001-01-01T00:00:00Z, what a datetime can hold
MAX_INSTANT: Final = 253_402_300_799_999  # 9999-12-31T23:59:59.999Z

_DATE_TIME: Final = re.compile(
    r"(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)[Tt ](?P<hour>\d\d):(?P<minute>\d\d)"
    r"(?::(?P<second>\d\d)(?:\.(?P<fraction>\d{1,9}))?)?(?P<zone>[Zz]|[+-]\d\d:\d\d)?",
    re.ASCII,
)
_LONGEST_DATE_TIME: Final = len("2026-09-28T09:00:00.123456789+02:00")


def to_datetime(at: Instant) -> datetime:
    """The aware UTC datetime of an instant. Raises OverflowError outside years 1 to 9999."""
    return EPOCH + timedelta(milliseconds=at)


def from_datetime(at: datetime) -> Instant:
    """The instant of an aware datetime, microseconds cut off towards the past."""
    assert at.tzinfo is not None, "an instant needs a zone"
    delta = at - EPOCH
    return delta.days * DAY_MS + delta.seconds * SECOND_MS + delta.microseconds // 1_000


def rfc3339(at: Instant) -> str:
    """`2026-09-28T12:00:00Z`, or `…00.250Z` where the instant has milliseconds (the form used in run ids)."""
    text = to_datetime(at).replace(tzinfo=None)
    return text.isoformat(timespec="milliseconds" if at % SECOND_MS else "seconds") + "Z"


def parse_rfc3339(text: str) -> Instant:
    """The instant of an RFC 3339 date-time with `Z` or an offset. Raises ValueError on anything else.

    Dates alone, week dates, leap seconds, 24:00 and bare numbers are refused; digits past milliseconds are cut off.
    """
    local, offset_minutes = split_rfc3339(text)
    if offset_minutes is None:
        raise ValueError("a time needs Z or an offset such as +02:00")
    return from_datetime(local.replace(tzinfo=UTC)) - offset_minutes * MINUTE_MS


def split_rfc3339(text: str) -> tuple[datetime, int | None]:
    """(naive local datetime, offset in minutes or None) of `YYYY-MM-DDTHH:MM[:SS[.fff]][Z|±HH:MM]`.

    Raises ValueError for every other shape, and for fields out of range.
    """
    match = _DATE_TIME.fullmatch(text) if len(text) <= _LONGEST_DATE_TIME else None
    if match is None:
        raise ValueError("expected a date and a time, such as 2026-09-28T09:00:00")
    year, month, day, hour, minute = (int(match[n]) for n in ("year", "month", "day", "hour", "minute"))
    second = int(match["second"] or 0)
    millis = int((match["fraction"] or "")[:3].ljust(3, "0"))
    local = datetime(year, month, day, hour, minute, second, millis * 1_000)  # noqa: DTZ001 - naive on purpose
    zone = match["zone"]
    if zone is None:
        return local, None
    if zone in "Zz":
        return local, 0
    offset_hours, offset_minutes = int(zone[1:3]), int(zone[4:6])
    if offset_hours > 23 or offset_minutes > 59:
        raise ValueError(f"no such offset: {zone}")
    return local, (1 if zone[0] == "+" else -1) * (offset_hours * 60 + offset_minutes)
