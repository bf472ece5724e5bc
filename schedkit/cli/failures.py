"""How a refusal reads, and which exit code it is. Scripts tell repeat-me (7), back-off (6), someone-else-won (4) and
no (10) apart.

    0 done   1 a bug   2 wrong usage   3 not found   4 conflict   5 not allowed   6 over quota   7 not reachable
    8 not confirmed   9 invalid input   10 the answer is no   11 not in time   130 ctrl+c
"""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
from collections.abc import Sequence
from enum import IntEnum, StrEnum
from pathlib import Path
from typing import Any, Final

from schedkit.errors import (
    Conflict,
    InvalidInput,
    NotAllowed,
    NotFound,
    QuotaExceeded,
    Reason,
    SchedkitError,
    StartupRefused,
    TooLarge,
    Unauthenticated,
    Unprocessable,
)

MIN_WIDTH: Final = 40  # a narrower terminal breaks the lines itself


class ExitCode(IntEnum):
    """Stable; `schedkit explain exit-codes` says them."""

    DONE = 0
    BUG = 1
    USAGE = 2
    NOT_FOUND = 3
    CONFLICT = 4
    NOT_ALLOWED = 5
    OVER_QUOTA = 6
    UNREACHABLE = 7
    NOT_CONFIRMED = 8
    INVALID = 9
    ANSWER_IS_NO = 10
    NOT_IN_TIME = 11
    INTERRUPTED = 130


class Code(StrEnum):
    """Codes of refusals that the command line makes by itself."""

    USAGE = "USAGE"
    NOT_CONFIRMED = "NOT_CONFIRMED"
    READ_ONLY_CONTEXT = "READ_ONLY_CONTEXT"
    CONTEXT_NOT_FOUND = "CONTEXT_NOT_FOUND"
    WORD_NOT_FOUND = "WORD_NOT_FOUND"
    CONFIG_INVALID = "CONFIG_INVALID"
    FILE_EXISTS = "FILE_EXISTS"
    NO_TOKEN = "NO_TOKEN"  # noqa: S105 - a code, not a token
    NOT_IN_TIME = "NOT_IN_TIME"
    WILL_NOT_RUN = "WILL_NOT_RUN"
    WORKER_INVALID = "WORKER_INVALID"
    UNREACHABLE = "UNREACHABLE"
    OUTPUT_LOST = "OUTPUT_LOST"
    BUG = "BUG"


class Refusal(Exception):
    """The command line says no by itself, before or without a server. A `plain` one is its message and nothing more."""

    plain = False

    def __init__(
        self, code: Code, exit_code: ExitCode, message: str, *, why: str | None = None, fix: Sequence[str] = ()
    ) -> None:
        super().__init__(message)
        self.code, self.exit_code, self.message, self.why, self.fix = code, exit_code, message, why, tuple(fix)


_BY_KIND: Final[tuple[tuple[type[SchedkitError], ExitCode], ...]] = (
    (InvalidInput, ExitCode.INVALID),
    (Unprocessable, ExitCode.INVALID),
    (TooLarge, ExitCode.INVALID),
    (NotFound, ExitCode.NOT_FOUND),
    (Conflict, ExitCode.CONFLICT),
    (Unauthenticated, ExitCode.NOT_ALLOWED),
    (NotAllowed, ExitCode.NOT_ALLOWED),
    (QuotaExceeded, ExitCode.OVER_QUOTA),
)
_TAKEN: Final = (Reason.DATA_FOLDER_IN_USE, Reason.PORT_IN_USE)  # another process got there first


def exit_code(error: SchedkitError) -> ExitCode:
    if isinstance(error, StartupRefused):
        return ExitCode.CONFLICT if error.reason in _TAKEN else ExitCode.INVALID
    for kind, code in _BY_KIND:
        if isinstance(error, kind):
            return code
    return ExitCode.UNREACHABLE  # 5xx, network


def document(error: SchedkitError | Refusal) -> dict[str, Any]:
    """The error as `-o json` prints it."""
    if isinstance(error, Refusal):
        told: dict[str, Any] = {"code": error.code.value, "message": error.message, "why": error.why}
        told |= {"fix": list(error.fix), "http_status": None, "request_id": None, "retryable": False}
        return told | {"retry_after_s": None, "exit_code": int(error.exit_code)}
    code = exit_code(error)
    return {
        "code": str(error.reason),
        "message": error.detail,
        "why": error.why,
        "fix": list(error.fix),
        "http_status": error.extra.get("http_status"),
        "request_id": error.extra.get("request_id"),
        "retryable": code in (ExitCode.OVER_QUOTA, ExitCode.UNREACHABLE),
        "retry_after_s": error.retry_after_seconds,
        "exit_code": int(code),
        **({"field": error.field} if error.field else {}),
        **({"idempotency_key": key} if (key := key_of(error)) else {}),
    }


def key_of(error: SchedkitError) -> str | None:
    """The key under which a change without an answer can be repeated."""
    key = getattr(error, "idempotency_key", None) or error.extra.get("idempotency_key")
    return str(key) if key and exit_code(error) is ExitCode.UNREACHABLE else None


def report(error: SchedkitError | Refusal, *, as_json: bool, color: bool) -> None:
    """Say on stderr what was refused, why, and what to do."""
    told = document(error)
    if as_json:
        print(json.dumps({"error": told}), file=sys.stderr)
        return
    if isinstance(error, Refusal) and error.plain:
        print(error.message, file=sys.stderr)
        return
    red, plain = ("\x1b[31m", "\x1b[0m") if color else ("", "")
    print(_wrapped(f"{red}error:{plain} ", "error: ", f"{told['message']}  [{told['code']}]"), file=sys.stderr)
    if told["exit_code"] == ExitCode.INVALID and told.get("field") and str(told["field"]) not in told["message"]:
        print(f"  at:  {printable(str(told['field']))}", file=sys.stderr)
    if told["why"]:
        print(_wrapped("  why: ", "  why: ", told["why"]), file=sys.stderr)
    fixes = list(told["fix"])
    if (key := told.get("idempotency_key")) and not any(key in fix for fix in fixes):
        fixes.append(f"safe to repeat: add --idempotency-key {key}")
    if told["retry_after_s"]:
        fixes.append(f"wait {told['retry_after_s']} s, then try again")
    for index, fix in enumerate(fixes):
        print(f"  {'fix:' if index == 0 else '    '} {printable(fix)}", file=sys.stderr)
    facts = [f"http {told['http_status']}" if told["http_status"] else "", told["request_id"] or ""]
    shown = ", ".join(fact for fact in facts if fact)
    if told["code"] != Code.USAGE:
        print(f"  more: schedkit explain {told['code']}" + (f"   ({shown})" if shown else ""), file=sys.stderr)


def _wrapped(start: str, shown: str, text: str) -> str:
    """`start` and the text, on a terminal broken between words; `shown` is the start without its colour."""
    text = printable(text)
    if not sys.stderr.isatty():
        return start + text
    width = max(MIN_WIDTH, shutil.get_terminal_size().columns) - len(shown)
    lines = textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False) or [""]
    return start + ("\n" + " " * len(shown)).join(lines)


def nothing_here() -> Refusal:
    """Nothing is configured and nothing listens on the default address: a newcomer, not an error."""
    refusal = Refusal(
        Code.UNREACHABLE,
        ExitCode.UNREACHABLE,
        "no scheduler here yet.  start one: schedkit up   or point at one: schedkit context add NAME --url URL",
        fix=("schedkit up", "schedkit context add NAME --url URL"),
    )
    refusal.plain = True
    return refusal


def report_bug(error: BaseException, *, as_json: bool) -> None:
    """An exception nobody foresaw: the trace goes to a file, its place to the person."""
    import traceback

    import platformdirs

    trace = "".join(traceback.format_exception(error))
    told = f"this is a bug in schedkit: {type(error).__name__}: {error}"
    try:
        folder = Path(platformdirs.user_log_dir("schedkit", ensure_exists=True))
        log = folder / "last-error.log"
        log.write_text(trace, encoding="utf-8", errors="backslashreplace")
        where = f"the trace is in {log}; schedkit --debug prints it"
    except OSError:
        where = trace
    report(Refusal(Code.BUG, ExitCode.BUG, told, why=where), as_json=as_json, color=False)


def printable(text: str) -> str:
    """Text without control characters: what a server or a job's name says must not drive the terminal."""
    return "".join(
        char if char.isprintable() or char in "\n" else char.encode("unicode_escape").decode() for char in text
    )
