"""Spans of time as people write them, in files and on the command line: `500ms`, `30s`, `5m`, `1h30m`, `3d`."""

from __future__ import annotations

import re
from typing import Final

from schedkit.model.time import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS

UNITS_MS: Final = {"ms": 1, "s": SECOND_MS, "m": MINUTE_MS, "h": HOUR_MS, "d": DAY_MS, "w": 7 * DAY_MS}
SPAN: Final = re.compile(r"(?:\d{1,12}(?:\.\d{1,3})?(?:ms|[smhdw]))+", re.ASCII)
SPAN_FORMS: Final = "500ms, 30s, 5m, 1h or 3d"
LONGEST_MS: Final = 36_500 * DAY_MS  # a century: longer is a slip of the finger, and soon past the last year there is

_PART: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhdw])", re.ASCII)


def span_ms(text: str, longest_ms: int = LONGEST_MS) -> int:
    """`1h30m` as milliseconds. Raises ValueError that says what is wrong."""
    text = text.strip()
    if not SPAN.fullmatch(text):
        raise ValueError(f"{text!r} is no duration: write {SPAN_FORMS}")
    length_ms = round(sum(float(number) * UNITS_MS[unit] for number, unit in _PART.findall(text)))
    if length_ms > longest_ms:
        raise ValueError(f"{text} is too long: at most {span_text(longest_ms)}")
    return length_ms


def span_text(length_ms: float) -> str:
    """A span in the largest unit that says it whole: `500ms`, `30s`, `5m`, `1h`, `3d`."""
    if not length_ms:
        return "0s"
    for unit, size_ms in (("d", DAY_MS), ("h", HOUR_MS), ("m", MINUTE_MS), ("s", SECOND_MS)):
        if length_ms % size_ms == 0:
            return f"{length_ms // size_ms:.0f}{unit}"
    return f"{length_ms:.0f}ms"
