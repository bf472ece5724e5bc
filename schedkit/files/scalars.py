"""Single values of a job file as the API takes them. Each function raises InvalidInput that says what to write."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from schedkit.engine.when import occurrences, zones
from schedkit.errors import InvalidInput, Reason
from schedkit.files.documents import DEFAULT_RETRY, SECRET_HEADERS
from schedkit.files.keys import BY_NAME
from schedkit.model.jobs import MAX_ATTEMPTS, MAX_BACKOFF_MS
from schedkit.model.schedules import GapPolicy, RepeatPolicy
from schedkit.model.spans import SPAN_FORMS, span_ms, span_text
from schedkit.model.time import SECOND_MS, rfc3339

MAX_TEXT_CHARS: Final = 1_024
MAX_SHOWN_CHARS: Final = 60
YEAR_S: Final = 365 * 86_400
SHORTEST_S: Final = {"expires_after": 1}
LONGEST_S: Final = {"window": 86_400, "misfire_grace": YEAR_S, "expires_after": YEAR_S}
NO_PAIRS: Final = "write them as { name: text }"


def wrong(detail: str, *fix: str) -> InvalidInput:
    """A value that cannot be, and what to write instead."""
    return InvalidInput(Reason.INVALID_ARGUMENT, detail, fix=fix)


def shown(value: Any) -> str:
    """A value in a message, cut where it is long."""
    said = json.dumps(value, ensure_ascii=False, default=str)
    return said if len(said) <= MAX_SHOWN_CHARS else said[: MAX_SHOWN_CHARS - 3] + "..."


def text(value: Any) -> str:
    """Text that says something."""
    if not isinstance(value, str):
        raise wrong(f"{shown(value)} is no text", *([f'write "{value}"'] if isinstance(value, int | float) else []))
    if not value.strip():
        raise wrong("the text is empty")
    if len(value) > MAX_TEXT_CHARS:
        raise wrong(f"the text has {len(value):,} characters; {MAX_TEXT_CHARS:,} at most")
    return value


def word(key: str, value: Any) -> str:
    """A word of the key's list as the API's own; case, `-` and `_` do not matter."""
    known = BY_NAME[key].words
    said = text(value).replace("_", "-").lower()
    for name, meant in known.items():
        if said in (name.lower(), meant.replace("_", "-").lower()):
            return meant
    raise wrong(f"{shown(value)} is none of {', '.join(known)}")


def flag(value: Any) -> bool:
    """true or false."""
    if not isinstance(value, bool):
        raise wrong(f"{shown(value)} is neither true nor false")
    return value


def count(value: Any, most: int) -> int:
    """A whole number from 1 on."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise wrong(f"{shown(value)} is no whole number from 1 to {most:,}")
    return value


def milliseconds(value: Any) -> int:
    """A duration in ms."""
    if not isinstance(value, str):
        fix = [f"write {value}s"] if isinstance(value, int) and not isinstance(value, bool) else []
        raise wrong(f"{shown(value)} has no unit; a duration is {SPAN_FORMS}", *fix)
    try:
        return span_ms(value)
    except ValueError as problem:
        raise wrong(str(problem)) from problem


def seconds(value: Any) -> int | float:
    """A duration in seconds, whole where it is whole."""
    return number(milliseconds(value))


def whole_seconds(key: str, value: Any) -> int:
    """A duration that the API takes in whole seconds, within the bounds of its key."""
    length_ms = milliseconds(value)
    low, high = SHORTEST_S.get(key, 0), LONGEST_S[key]
    if length_ms % SECOND_MS or not low <= length_ms // SECOND_MS <= high:
        raise wrong(f"{value} is not within {low}s to {span_text(high * SECOND_MS)}, in whole seconds")
    return length_ms // SECOND_MS


def bounded_seconds(value: Any, low_s: int, high_s: int) -> int | float:
    """A duration in seconds within these bounds."""
    length_ms = milliseconds(value)
    if not low_s * SECOND_MS <= length_ms <= high_s * SECOND_MS:
        raise wrong(f"{value} is outside {low_s}s to {span_text(high_s * SECOND_MS)}")
    return number(length_ms)


def number(length_ms: int) -> int | float:
    """Milliseconds as the API's seconds."""
    whole, rest = divmod(length_ms, SECOND_MS)
    return whole if rest == 0 else length_ms / SECOND_MS


def pairs(value: Any) -> dict[str, str]:
    """Names and texts, such as labels."""
    if not isinstance(value, Mapping):
        raise wrong(f"{shown(value)} are no pairs", NO_PAIRS)
    for name, said in value.items():
        if not isinstance(said, str):
            raise wrong(f"{name} is {shown(said)}, which is no text", f'write {name}: "{_bare(said)}"')
    return dict(value)


def headers(value: Any) -> dict[str, str]:
    """Headers of a call; no secret stands in a file that others read."""
    found = pairs(value)
    for name in found:
        if name.lower() in SECRET_HEADERS:
            raise wrong(f"{name} is a secret, and files are kept and shared", "call a target that adds it by itself")
    return found


def reference(value: Any) -> str:
    """Where a secret stands. What is given is not quoted: somebody may have written the secret itself."""
    if not isinstance(value, str) or not value.startswith(("env:", "file:")) or len(value) > MAX_TEXT_CHARS:
        raise wrong("it is no reference of a secret", "write env:SCHEDKIT_SECRET_NAME or file:/folder/name")
    return value


def retry(value: Any) -> dict[str, Any]:
    """`{ max_attempts: 5, backoff: 10s..10m }`, either of the two."""
    if not isinstance(value, Mapping) or set(value) - {"max_attempts", "backoff"} or not value:
        raise wrong(f"{shown(value)} is no retry policy", "write { max_attempts: 5, backoff: 10s..10m }")
    policy: dict[str, Any] = dict(DEFAULT_RETRY)
    if value.get("max_attempts") is not None:
        policy["max_attempts"] = count(value["max_attempts"], MAX_ATTEMPTS)
    if value.get("backoff") is not None:
        first, dots, longest = text(value["backoff"]).partition("..")
        policy["initial_backoff_seconds"] = _wait(first)
        policy["max_backoff_seconds"] = _wait(longest) if dots else max(_wait(first), policy["max_backoff_seconds"])
        if policy["initial_backoff_seconds"] > policy["max_backoff_seconds"]:
            raise wrong(f"the first wait {first} is longer than the longest {longest}", f"write {longest}..{first}")
    return policy


def zone(value: Any) -> str:
    """The name of a zone that there is."""
    name = text(value)
    zones.zone(name)
    return name


def instant(value: Any, located: str) -> str:
    """A time as the API's UTC text; without an offset it is read on the clock of the zone `located`."""
    once, _, _ = occurrences.resolve_once(text(value), located, GapPolicy.FIRST_VALID, RepeatPolicy.FIRST)
    if once.run_at < 0:
        raise wrong(f"{value} lies before 1970")
    return rfc3339(once.run_at)


def _wait(said: str) -> int | float:
    return bounded_seconds(said.strip(), 0, MAX_BACKOFF_MS // SECOND_MS)


def _bare(value: Any) -> str:
    return "true" if value is True else "false" if value is False else "" if value is None else str(value)
