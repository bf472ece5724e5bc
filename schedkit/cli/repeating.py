"""The exact repeat of a create: what counted from now stands in it as the time it meant then.

job create --in 1h --target demo-echo   →   job create --at 2026-09-28T22:40:32Z --target demo-echo --idempotency-key K
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from schedkit.cli.failures import ExitCode, exit_code, key_of
from schedkit.cli.invocation import Invocation
from schedkit.errors import Reason, SchedkitError
from schedkit.model.spans import SPAN

_FROM_NOW: Final = {  # flag → (the field its value ends up in, the flag that says it as a time)
    "--in": ("run_at", "--at"),
    "--at": ("run_at", "--at"),
    "--start": ("start_at", "--start"),
    "--end": ("end_at", "--end"),
}
_KEY: Final = "--idempotency-key"
_JOB_ID: Final = re.compile(r"\bjob_\w+")


def tell(me: Invocation, error: SchedkitError, schedule: Mapping[str, Any], key: str | None) -> None:
    """Add to the error of a create what asks for the very same again, where the line as it stands would not."""
    times = [words for flag, words in _flags(me.line) if flag in _FROM_NOW]
    if not times:
        return
    if exit_code(error) is ExitCode.UNREACHABLE and (sent := key_of(error)) is not None:
        error.fix = (f"exact repeat: {command(me.line, schedule, sent)}", *error.fix)
    elif error.reason == Reason.IDEMPOTENCY_KEY_REUSED and key is not None and all(map(_counts_from_now, times)):
        first = _first(me, error)
        exact = command(me.line, first, key) if first is not None else "the same line with --at and the first time"
        error.fix = (f"--in and other spans count from now; exact repeat: {exact}", *error.fix)


def _counts_from_now(words: Sequence[str]) -> bool:
    """Whether a flag's value means another time with each call; a time that was named would be put out of its place."""
    value = words[-1].partition("=")[2] if len(words) == 1 else words[-1]
    return value.strip() == "now" or SPAN.fullmatch(value.strip().lstrip("+-")) is not None


def command(line: Sequence[str], schedule: Mapping[str, Any], key: str) -> str:
    """The line with times for spans, and with its key."""
    said = []
    for flag, words in _flags(line):
        field, named = _FROM_NOW.get(flag, ("", ""))
        if schedule.get(field):
            said += [named, str(schedule[field])]
        elif flag != _KEY:
            said += words
    return shlex.join(["schedkit", *said, _KEY, key])


def _flags(line: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Each of our flags with its value, in one word or in two; every other word alone."""
    words = iter(line)
    for word in words:
        flag, equals, _ = word.partition("=")
        ours = flag == _KEY or flag in _FROM_NOW
        yield flag, [word] if equals or not ours else [word, *(value for value in [next(words, None)] if value)]


def _first(me: Invocation, error: SchedkitError) -> Mapping[str, Any] | None:
    """The schedule of the job that the key made, which the refusal names."""
    found = _JOB_ID.search(error.detail)
    try:
        schedule: Mapping[str, Any] | None = me.client.get_job(found[0])["schedule"] if found else None
    except SchedkitError:
        return None
    return schedule
