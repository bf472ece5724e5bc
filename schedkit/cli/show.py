"""Formatters: how times, spans, counts and outcomes read. One module, so that two screens can never differ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from schedkit.cli.values import local
from schedkit.model.spans import span_text
from schedkit.model.time import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, Instant, parse_rfc3339, to_datetime

compact = span_text

DASH: Final = "-"
HEARD_MS: Final = 100  # what an answer takes to come back: `--in 30s` is still `in 30 s` when it is shown
DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")  # never the machine's language

# The colour of a state; its word is always there too.
TONES: Final[Mapping[str, str]] = {
    "SUCCEEDED": "green",
    "SCHEDULED": "green",
    "RUNNING": "cyan",
    "RETRY_WAIT": "yellow",
    "PAUSED": "yellow",
    "SKIPPED": "yellow",
    "SUCCEEDED_AFTER_CANCEL": "yellow",
    "UNKNOWN": "red",
    "FAILED": "red",
    "CANCELLED": "dim",
    "COMPLETED": "dim",
    "ok": "green",
    "WARN": "yellow",
    "CRIT": "red",
    "down": "red",
}


def span(span_ms: float) -> str:
    """`4 ms`, `1.4 s`, `30 s`, `5m 30s`, `17h 30m`, `1d 17h 30m`."""
    span_ms = abs(span_ms)
    if span_ms < SECOND_MS:
        return f"{span_ms:.0f} ms"
    if span_ms < 10 * SECOND_MS and span_ms % SECOND_MS:
        return f"{span_ms / SECOND_MS:.1f} s"
    if span_ms < MINUTE_MS:
        return f"{span_ms // SECOND_MS:.0f} s"
    if span_ms < 10 * MINUTE_MS and span_ms % MINUTE_MS >= SECOND_MS:
        return f"{span_ms // MINUTE_MS:.0f}m {span_ms % MINUTE_MS // SECOND_MS:.0f}s"
    return countdown(span_ms)


def countdown(span_ms: float) -> str:
    """The nearest minute: `50m`, `20h 0m`, `1d 17h 30m`; below one minute, the nearest second: `30s`."""
    if _nearest(span_ms, SECOND_MS) < MINUTE_MS:
        return f"{_nearest(max(0, span_ms), SECOND_MS) // SECOND_MS}s"
    days, rest = divmod(_nearest(span_ms, MINUTE_MS), DAY_MS)
    hours, rest = divmod(rest, HOUR_MS)
    minutes = rest // MINUTE_MS
    if days:
        return f"{days}d {hours}h {minutes}m"
    return f"{hours}h {minutes}m" if hours else f"{minutes}m"


def _nearest(span_ms: float, unit_ms: int) -> int:
    return int((span_ms + unit_ms / 2) // unit_ms) * unit_ms


def away(at: Instant, now: Instant) -> str:
    """`in 30 s`, `2h 5m ago`, `now`."""
    delta = at - now
    if abs(delta) < SECOND_MS:
        return "now"
    whole = (abs(delta) + HEARD_MS) // SECOND_MS * SECOND_MS
    return f"in {span(whole)}" if delta > 0 else f"{span(whole)} ago"


def seconds(value: float | None) -> str:
    return DASH if value is None else compact(value * SECOND_MS)


def stamp(text: str | None, zone: str | None) -> str:
    """An API time on the wall clock of a zone, with its offset: `2026-09-28 23:41:02 +02:00`."""
    if not text:
        return DASH
    moment = local(parse_rfc3339(text), zone)
    millis = f".{moment.microsecond // 1_000:03d}" if moment.microsecond else ""
    offset = moment.strftime("%z")
    return f"{moment:%Y-%m-%d %H:%M:%S}{millis} {offset[:3]}:{offset[3:5]}"


def clock(at: Instant, zone: str | None) -> str:
    """For a log of one day: `23:40:05.003 +02:00`."""
    moment = local(at, zone)
    offset = moment.strftime("%z")
    return f"{moment:%H:%M:%S}.{moment.microsecond // 1_000:03d} {offset[:3]}:{offset[3:5]}"


def long_stamp(text: str, zone: str | None) -> str:
    """With its day of the week: `Mon 2026-09-28 23:41:02 +02:00`."""
    return f"{DAYS[local(parse_rfc3339(text), zone).weekday()]} {stamp(text, zone)}"


def wall(text: str, name: str) -> str:
    """A local time with its offset, by day and zone: `Sat 2026-10-31 01:30 EDT`; seconds where there are any."""
    at = parse_rfc3339(text)
    moment = local(at, name)
    clock = f"{moment:%H:%M:%S}" if moment.second else f"{moment:%H:%M}"
    return f"{DAYS[moment.weekday()]} {moment:%Y-%m-%d} {clock} {moment:%Z}"


def utc(at: Instant) -> str:
    """`2026-10-31 05:30Z`; seconds where there are any."""
    moment = to_datetime(at)
    return f"{moment:%Y-%m-%d %H:%M}" + (f":{moment:%S}" if moment.second else "") + "Z"


def lag(lag_ms: float | None) -> str:
    return DASH if lag_ms is None else f"{span(lag_ms)} late" if lag_ms >= SECOND_MS else span(lag_ms)


def schedule(spec: Mapping[str, Any]) -> str:
    """`cron "0 8 * * *" America/New_York`, `every 15m`, `once`."""
    match spec.get("type"):
        case "CRON":
            return f'cron "{spec.get("cron")}" {spec.get("time_zone", "UTC")}'
        case "INTERVAL":
            return f"every {seconds(spec.get('every_seconds'))}"
        case "ONCE":
            return "once"
        case other:
            return str(other)


def full_schedule(spec: Mapping[str, Any]) -> str:
    """As `schedule`, and when it is, for what is due once."""
    if spec.get("type") != "ONCE":
        return schedule(spec)
    return " ".join(filter(None, ("once, at", spec.get("run_at"), spec.get("time_zone"))))


def short_schedule(spec: Mapping[str, Any]) -> str:
    """For a column: `0 8 * * * America/New_York`, `every 15m`, `once`."""
    text = schedule(spec)
    return text.removeprefix('cron "').replace('" ', "  ") if text.startswith("cron ") else text


def target(spec: Mapping[str, Any]) -> str:
    """`POST http://…`, or the id of a registered one; `queue ledger (CHARGE)` for what waits for a worker."""
    if spec.get("type") == "TASK_QUEUE" or spec.get("task_queue"):
        return f"queue {task_queue(spec)}"
    url = spec.get("url") or str(spec.get("target_id", "")) + str(spec.get("path", ""))
    return f"{spec.get('method', 'POST')} {url}"


def auth(spec: Mapping[str, Any] | None) -> str:
    """How calls are signed: the references of the secrets; empty where they are not."""
    if not spec or spec.get("type") == "NONE":
        return ""
    before = f", and with {spec['previous_secret_ref']} before it" if spec.get("previous_secret_ref") else ""
    return f"{spec.get('type')} with {spec.get('secret_ref')}{before}"


def task_queue(found: Mapping[str, Any]) -> str:
    """`ledger (CHARGE)`: the queue of a target or a run, and the type of its tasks; empty where there is none."""
    kind = f" ({found['task_type']})" if found.get("task_type") else ""
    return f"{found['task_queue']}{kind}" if found.get("task_queue") else ""


def pairs(labels: Mapping[str, str] | None) -> str:
    return ", ".join(f"{key}={value}" for key, value in sorted((labels or {}).items())) or DASH


def count(number: int, one: str, many: str | None = None) -> str:
    """`1 run`, `12 runs`, `4,912 runs`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def place(offset_ms: int) -> str:
    """A place in a window: `+2m41s`."""
    minutes, rest = divmod(offset_ms // SECOND_MS, 60)
    return f"+{minutes}m{rest:02d}s" if minutes else f"+{rest}s"


def line(text: str) -> str:
    """A line that nothing in it can break or colour."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
