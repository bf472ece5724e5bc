"""Strict JSON: what comes in is stored and sent on as it is, so whatever cannot be carried exactly is refused.

Python's own reader takes NaN, Infinity, lone surrogates, repeated names, numbers that a double rounds, and nesting
that overflows its stack; each of these is INVALID_JSON here.
"""

from __future__ import annotations

import json
from collections import Counter
from decimal import Decimal
from hashlib import blake2b
from typing import Any, Final, NoReturn

from schedkit.errors import InvalidInput, Reason

MAX_DEPTH: Final = 64
MAX_INTEGER_DIGITS: Final = 38  # what a decimal number of the widest store carries


def loads(body: bytes) -> Any:
    """The value in a JSON text. Raises InvalidInput (INVALID_JSON) with what is wrong and where."""
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        raise _invalid(f"it is not UTF-8 (byte {error.start})") from None
    if _depth(text) > MAX_DEPTH:
        raise _invalid(f"it is nested more than {MAX_DEPTH} deep")
    try:
        value = json.loads(
            text,
            parse_constant=_refuse_constant,
            parse_float=_exact_float,
            parse_int=_exact_int,
            object_pairs_hook=_unique,
        )
        json.dumps(value, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        raise _invalid(f"{error.msg} at line {error.lineno} column {error.colno}") from None
    except UnicodeEncodeError:
        raise _invalid("it has half of a surrogate pair, which no UTF-8 text can hold") from None
    return value


def dumps(value: Any) -> str:
    """JSON text, compact, every character as itself."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def canonical(value: Any) -> bytes:
    """One text for one meaning: what an Idempotency-Key is compared by."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def digest(meaning: bytes) -> str:
    return blake2b(meaning, digest_size=16).hexdigest()


def _depth(text: str) -> int:
    depth = deepest = 0
    inside = escaped = False
    for character in text:
        if inside:
            if escaped:
                escaped = False
            elif character == "\\":
                escaped = True
            elif character == '"':
                inside = False
        elif character == '"':
            inside = True
        elif character in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif character in "]}":
            depth -= 1
    return deepest


def _exact_float(text: str) -> float:
    value = float(text)
    if repr(value) == text:
        return value
    try:
        exact = Decimal(text) == Decimal(repr(value))
    except ArithmeticError:  # an exponent that no decimal has
        exact = False
    if not exact:
        raise _invalid(f"the number {text[:40]} would be changed by a double; send it as a string")
    return value


def _exact_int(text: str) -> int:
    if len(text.lstrip("-")) > MAX_INTEGER_DIGITS:
        raise _invalid(f"the number {text[:40]} has more than {MAX_INTEGER_DIGITS} digits; send it as a string")
    return int(text)


def _refuse_constant(name: str) -> NoReturn:
    raise _invalid(f"{name} is not JSON")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise _invalid(f"the name {twice!r} stands twice in one object")
    return found


def _invalid(why: str) -> InvalidInput:
    return InvalidInput(
        Reason.INVALID_JSON,
        f"the body is not JSON that can be kept exactly: {why}",
        why="a payload reaches its target just as it was sent, so nothing may be rounded or guessed",
    )
