"""`schedkit target`: for those who receive calls. What is here works offline."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from schedkit.cli import show, values
from schedkit.cli.failures import ExitCode
from schedkit.cli.frame import noun, verb
from schedkit.cli.invocation import Invocation
from schedkit.cli.output import One
from schedkit.errors import InvalidInput, Reason
from schedkit.model.time import SECOND_MS, Instant, rfc3339

app = noun("Receive calls: check a signature (works offline)")

Option = typer.Option
SCHEMA: Final = "schedkit.signature/v1"


@verb(app, "verify-signature")
def verify_signature(
    me: Invocation,
    secret_file: Annotated[list[Path], Option("--secret-file", metavar="F", help="The secret; again for the old one.")],
    header: Annotated[list[str], Option("--header", metavar="H", help="'name: value', or @FILE with such lines.")],
    body: Annotated[str, Option("--body", metavar="FILE", help="The body, byte for byte; - for stdin.")],
    at: Annotated[str | None, Option("--at", metavar="TIME", help="Judge its age as of this time; now.")] = None,
    tolerance: Annotated[str, Option("--tolerance", metavar="5m", help="How far clocks may be apart.")] = "5m",
) -> None:
    """Check a signature you received; exit 10 where it is not valid.

    Examples:
      schedkit target verify-signature --secret-file billing.secret --header @call.headers --body call.json
      schedkit target verify-signature --secret-file new --secret-file old --header @call.headers --body - --at 12:00
    """
    now = values.instant(at, zone=me.zone, field="--at") if at is not None else values.now_ms()
    headers = [pair for text in header for pair in _headers(text)]
    secrets = [_read(str(place), "--secret-file").rstrip(b"\r\n") for place in secret_file]  # as the scheduler does
    allowed_s = values.duration_seconds(tolerance, "--tolerance")
    doc = _judged(headers, _read(body, "--body"), secrets, now, allowed_s)
    me.show(One(SCHEMA, doc, _lines(me, doc, now), "idempotency_key"))
    if not doc["valid"]:
        raise typer.Exit(ExitCode.ANSWER_IS_NO)


def _judged(
    headers: list[tuple[str, str]], body: bytes, secrets: list[bytes], now: Instant, tolerance_s: int
) -> dict[str, Any]:
    """The verdict as a document. Raises InvalidInput where a secret file holds none."""
    from schedkit.target import InvalidSignature, verify

    doc: dict[str, Any] = {"valid": False, "reason": None, "detail": None}
    try:
        found = verify(headers, body, secrets, now=now / SECOND_MS, tolerance=tolerance_s)
    except InvalidSignature as refused:
        return doc | {"reason": refused.reason.value, "detail": refused.detail}
    except ValueError as error:
        raise InvalidInput(Reason.INVALID_ARGUMENT, f"--secret-file: {error}", field="--secret-file") from None
    signed_at = rfc3339(found.timestamp * SECOND_MS)
    told = {"idempotency_key": found.idempotency_key, "signed_at": signed_at}
    return doc | told | {"valid": True, "epoch": found.epoch, "attempt": found.attempt}


def _lines(me: Invocation, doc: dict[str, Any], now: Instant) -> list[str | tuple[str, str]]:
    if not doc["valid"]:
        return [("signature", "not valid"), ("reason", doc["reason"]), ("because", doc["detail"])]
    signed = f"{show.stamp(doc['signed_at'], me.zone)}, {show.away(values.instant(doc['signed_at']), now)}"
    lines: list[str | tuple[str, str]] = [("signature", "valid"), ("key", doc["idempotency_key"]), ("signed", signed)]
    numbers = {"token": doc["epoch"], "attempt": doc["attempt"]}
    return lines + [(name, f"{number}, not signed") for name, number in numbers.items() if number is not None]


def _headers(text: str) -> list[tuple[str, str]]:
    """`name: value`, or those of a file as curl and proxies write them; a status line among them is no header."""
    if not text.startswith("@"):
        return list(values.header_pairs([text]).items())
    lines = _read(text[1:], "--header").decode("latin-1").splitlines()
    parts = [line.partition(":") for line in lines]
    return [(name.strip(), value.strip()) for name, colon, value in parts if colon]


def _read(place: str, flag: str) -> bytes:
    """The bytes of a file, or of stdin for `-`."""
    try:
        return sys.stdin.buffer.read() if place == "-" else Path(place).read_bytes()
    except OSError as problem:
        raise InvalidInput(Reason.INVALID_ARGUMENT, f"cannot read {place}: {problem.strerror}", field=flag) from problem
