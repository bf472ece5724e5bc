"""Lists on the way from the server to the screen: how many, `--filter`, `--sort`.

--filter 'status=PAUSED,name~digest'     =  !=  ~ (contains)  >  <  >=  <=   on any field, all have to hold
--sort -next_run_at                      by any field, `-` for the largest first; what has no value comes last
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

from schedkit.cli.output import Doc, at_path, known, raw
from schedkit.errors import InvalidInput, Reason

_TERM: Final = re.compile(r"\s*(?P<path>[\w.]+)\s*(?P<op>!=|>=|<=|=|~|>|<)\s*(?P<value>.*?)\s*")


def keep(items: Iterable[Doc], expression: str | None) -> list[Doc]:
    """The items for which every term of `--filter` holds."""
    terms = [_term(text) for text in (expression or "").split(",") if text.strip()]
    items = list(items)
    known((path for path, _, _ in terms), items, "--filter")
    return [item for item in items if all(_holds(item, *term) for term in terms)]


def _term(text: str) -> tuple[str, str, str]:
    match = _TERM.fullmatch(text)
    if match is None:
        raise InvalidInput(
            Reason.INVALID_ARGUMENT,
            f"--filter takes FIELD=VALUE (also != ~ > < >= <=), not {text.strip()!r}",
            fix=["schedkit job list --filter 'status=PAUSED,name~digest'"],
            field="--filter",
        )
    return match["path"], match["op"], match["value"]


def _holds(item: Doc, path: str, op: str, wanted: str) -> bool:
    value = at_path(item, path)
    text = raw(value)
    match op:
        case "=":
            return text.lower() == wanted.lower()
        case "!=":
            return text.lower() != wanted.lower()
        case "~":
            return wanted.lower() in text.lower()
    if value is None:
        return False
    left: Any = value
    right: Any = wanted
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            right = float(wanted)
        except ValueError:
            left = text
    else:
        left = text
    return bool({">": left > right, "<": left < right, ">=": left >= right, "<=": left <= right}[op])


def ordered(items: Sequence[Doc], key: str | None) -> list[Doc]:
    """By one field; numbers as numbers, text as text."""
    if key is None:
        return list(items)
    path = key.removeprefix("-")
    known([path], items, "--sort")
    valued = [item for item in items if at_path(item, path) is not None]
    rest = [item for item in items if at_path(item, path) is None]
    return sorted(valued, key=lambda item: _rank(at_path(item, path)), reverse=key.startswith("-")) + rest


def _rank(value: Any) -> tuple[int, float, str]:
    if isinstance(value, int | float):
        return 0, float(value), ""
    return 1, 0.0, raw(value).lower()
