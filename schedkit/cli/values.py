"""Values as people type them: times, durations, labels, payloads. What comes in here goes out through `show`.

time       2026-09-28T09:00:00Z   2026-09-28 09:00 (with --tz)   09:00   10m (from now)   -2h   now
duration   500ms   30s   5m   1h   3d   1h30m
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from schedkit.errors import InvalidInput, Reason
from schedkit.model.spans import LONGEST_MS, SPAN, span_ms
from schedkit.model.time import (
    DAY_MS,
    MAX_INSTANT,
    SECOND_MS,
    Instant,
    from_datetime,
    parse_rfc3339,
    rfc3339,
    split_rfc3339,
    to_datetime,
)

_TIME_OF_DAY: Final = re.compile(r"\d\d:\d\d(:\d\d)?", re.ASCII)


def now_ms() -> Instant:
    """The wall time of this machine: the one clock of the command line."""
    return time.time_ns() // 1_000_000


def duration_ms(text: str, field: str = "duration", longest_ms: int = LONGEST_MS) -> int:
    """`1h30m` as milliseconds."""
    try:
        return span_ms(text, longest_ms)
    except ValueError as problem:
        raise InvalidInput(Reason.INVALID_ARGUMENT, str(problem), field=field) from problem


def duration_seconds(text: str, field: str = "duration", longest_ms: int = LONGEST_MS) -> int:
    """A duration the API takes in whole seconds."""
    length_ms = duration_ms(text, field, longest_ms)
    if length_ms % SECOND_MS:
        raise InvalidInput(Reason.INVALID_ARGUMENT, f"{field} is in whole seconds, not {text}", field=field)
    return length_ms // SECOND_MS


def zone_of(name: str | None) -> Any:
    """The tzinfo of an IANA name from the pinned zone data, or this machine's zone for None."""
    if name is None:
        return None
    from schedkit.engine.when import zones

    return zones.zone(name)


def local(at: Instant, zone: str | None) -> datetime:
    """An instant on the wall clock of a zone; None is this machine's."""
    return to_datetime(at).astimezone(zone_of(zone))


def instant(text: str, *, zone: str | None = None, now: Instant | None = None, field: str = "time") -> Instant:
    """Any of the forms above as an instant; a time without an offset is read in `zone`."""
    text = text.strip()
    here = now_ms() if now is None else now
    if text == "now":
        return here
    sign, span = (-1, text[1:]) if text[:1] == "-" else (1, text.removeprefix("+"))
    if SPAN.fullmatch(span):
        return _within_years(here + sign * duration_ms(span), text, field)
    if _TIME_OF_DAY.fullmatch(text):
        text = f"{local(here, zone):%Y-%m-%d}T{text}"
    try:
        if split_rfc3339(text)[1] is not None:
            return parse_rfc3339(text)
        return from_datetime(datetime.fromisoformat(text).replace(tzinfo=zone_of(zone)).astimezone())
    except (ValueError, OverflowError) as problem:
        raise InvalidInput(
            Reason.INVALID_ARGUMENT, f"{text!r} is no time: write {_time_forms(here)}", field=field
        ) from problem


def _time_forms(now: Instant) -> str:
    """Examples that could be meant: those with a date are tomorrow's."""
    day = f"{to_datetime(now + DAY_MS):%Y-%m-%d}"
    return f"{day}T09:00:00Z, '{day} 09:00', 09:00, 10m (from now), -2h (ago) or now"


def since(text: str | None, zone: str | None, field: str = "--since") -> str | None:
    """--since and --until of a list, for the API: `24h` is 24 hours ago here."""
    if text is None:
        return None
    backwards = f"-{text.strip()}" if SPAN.fullmatch(text.strip()) else text
    return rfc3339(instant(backwards, zone=zone, field=field))


def _within_years(at: Instant, text: str, field: str) -> Instant:
    if not 0 <= at <= MAX_INSTANT:
        raise InvalidInput(Reason.INVALID_ARGUMENT, f"{text} is out of range: years 1970 to 9999", field=field)
    return at


def run_at(text: str, zone: str | None, now: Instant) -> dict[str, str]:
    """--at as the API's ONCE schedule: a wall time with a zone stays one, so that the server applies its DST rules."""
    stripped = text.strip()
    if _TIME_OF_DAY.fullmatch(stripped):
        today = local(now, zone)
        stripped = f"{today:%Y-%m-%d}T{stripped}"
        if instant(stripped, zone=zone) < now:  # 09:00 said at 10:00 is tomorrow's
            tomorrow = local(now + DAY_MS, zone)
            stripped = f"{tomorrow:%Y-%m-%d}T{text.strip()}"
    try:
        _, offset_minutes = split_rfc3339(stripped)
    except ValueError:
        return {"run_at": rfc3339(instant(stripped, zone=zone, now=now, field="--at"))}
    wall = stripped.replace(" ", "T", 1)
    if zone is not None and wall[-1] not in "Zz":  # UTC is said already: no zone can add to it
        return {"run_at": wall, "time_zone": zone}
    return {"run_at": wall if offset_minutes is not None else rfc3339(instant(wall, field="--at"))}


def pairs(items: Iterable[str] | None, what: str) -> dict[str, str]:
    """`k=v` flags as a map."""
    found: dict[str, str] = {}
    for item in items or ():
        key, equals, value = item.partition("=")
        if not equals or not key:
            raise InvalidInput(Reason.INVALID_ARGUMENT, f"{what} takes k=v, not {item!r}", field=what)
        found[key] = value
    return found


def header_pairs(items: Iterable[str] | None) -> dict[str, str]:
    """`--header k=v` or `k: v`; nothing secret, since flags are seen by everyone on the machine."""
    colons = (re.sub(r"^([^=:]+):", r"\1=", item) for item in items or ())
    headers = {name.strip(): value.strip() for name, value in pairs(colons, "--header").items()}
    if any(name.lower() in ("authorization", "proxy-authorization", "cookie") for name in headers):
        raise InvalidInput(
            Reason.INVALID_HEADER,
            "a secret is never a flag value",
            why="flags are seen in the process list and in the shell's history",
            fix=["call a target that adds its secret by itself, such as a gateway"],
            field="--header",
        )
    return headers


def payload(text: str, line: str = "schedkit job trigger digest", flag: str = "--payload") -> Any:
    """JSON itself, `@file`, or `-` for stdin. Bytes that are no UTF-8 or text that is no JSON are refused here.

    `line` is the command whose `flag` this is, for the way out.
    """
    source = text
    try:
        if text == "-":
            source = sys.stdin.read()
        elif text.startswith("@"):
            source = Path(text[1:]).read_text(encoding="utf-8")
        return json.loads(source, parse_constant=_no_constant)
    except OSError as problem:
        raise InvalidInput(
            Reason.INVALID_ARGUMENT, f"cannot read {text[1:]}: {problem.strerror}", field=flag
        ) from problem
    except (ValueError, RecursionError) as problem:
        raise InvalidInput(
            Reason.INVALID_JSON,
            f"the {flag.removeprefix('--')} is no JSON: {problem}",
            fix=[f"""{line} {flag} '{{"say":"hello"}}'"""],
            field=flag,
        ) from problem


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON value")


def choice(text: str, known: Sequence[str], flag: str) -> str:
    """A word of a fixed list, in any case, `-` and `_` alike; the list's own spelling is what comes back."""
    wanted = text.strip().replace("_", "-").lower()
    for word in known:
        if word.replace("_", "-").lower() == wanted:
            return word
    raise InvalidInput(
        Reason.INVALID_ARGUMENT,
        f"{flag} is one of {', '.join(word.lower().replace('_', '-') for word in known)}; not {text!r}",
        field=flag,
    )


def choices(text: str, known: Sequence[str], flag: str) -> list[str]:
    return [choice(word, known, flag) for word in text.split(",") if word.strip()]
