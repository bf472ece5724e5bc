"""For those who receive calls: is this call ours, and has its work been done? Needs the standard library only.

    delivery = verify(request.headers, body, secret)              raises InvalidSignature: answer 401
    with connection:                                              one transaction for the key and the effect
        if remember(connection, delivery.idempotency_key, delivery.epoch):
            ...                                                   the effect; a repeat answers as the first call did

The signature (Standard Webhooks) covers id, timestamp and body. The fencing token and the attempt are not under it: TLS
keeps them. `remember` is built so that a forged token can refuse work, and never make it be done twice.
"""

from __future__ import annotations

import hmac
import re
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Protocol

from schedkit.engine.signing import (
    ID_HEADER,
    SIGNATURE_HEADER,
    TIMESTAMP_HEADER,
    VERSION,
    signature,
    signing_key,
)

KEY_HEADER: Final = "idempotency-key"
EPOCH_HEADER: Final = "x-fencing-token"
ATTEMPT_HEADER: Final = "x-attempt"
TOLERANCE_S: Final = 300  # how far the clocks of sender and receiver may be apart, and how long a copy stays useful
TABLE: Final = "schedkit_deliveries"
CREATE_TABLE: Final = f"""\
CREATE TABLE IF NOT EXISTS {TABLE} (
    idempotency_key VARCHAR(255) PRIMARY KEY,
    epoch BIGINT,
    remembered_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP
)"""

_HEADERS: Final = (ID_HEADER, TIMESTAMP_HEADER, SIGNATURE_HEADER, KEY_HEADER, EPOCH_HEADER, ATTEMPT_HEADER)
_WHOLE: Final = re.compile(r"0|[1-9][0-9]{0,17}")  # \d and int() take digits of every script, signs and underscores
_ANOTHER_SPLIT: Final = re.compile(r"\.[0-9]+(\.|$)")  # id "1" and body "2.x" are signed like id "1.T" and body "x"
_PLACEHOLDERS: Final = {"qmark": "?", "format": "%s", "pyformat": "%s"}

Text = str | bytes
Headers = Mapping[str, Text] | Mapping[bytes, Text] | Iterable[tuple[Text, Text]]


class Cause(StrEnum):
    """Why a call is refused; for logs and tests. The caller needs to hear no more than 401."""

    HEADER_MISSING = "HEADER_MISSING"
    HEADER_TWICE = "HEADER_TWICE"
    HEADER_MALFORMED = "HEADER_MALFORMED"
    TIMESTAMP_MALFORMED = "TIMESTAMP_MALFORMED"
    TIMESTAMP_TOO_OLD = "TIMESTAMP_TOO_OLD"
    TIMESTAMP_AHEAD = "TIMESTAMP_AHEAD"
    SIGNATURE_WRONG = "SIGNATURE_WRONG"
    KEY_DIFFERS = "KEY_DIFFERS"


class InvalidSignature(Exception):
    """This call is not to be acted upon: not ours, changed on its way, or a copy of an old one. Answer 401."""

    def __init__(self, reason: Cause, detail: str) -> None:
        super().__init__(f"{detail}  [{reason}]")
        self.reason = reason
        self.detail = detail


class StaleEpoch(Exception):
    """A call with a higher fencing token was here before: this caller has lost its lease. Answer 409."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """A call that is ours. `epoch` (the fencing token) and `attempt` are None where their headers are not there."""

    idempotency_key: str
    timestamp: int  # seconds since 1970, by the scheduler's clock
    epoch: int | None = None
    attempt: int | None = None


def verify(
    headers: Headers,
    body: bytes,
    secret: Text | Sequence[Text],
    *,
    now: float | None = None,
    tolerance: int = TOLERANCE_S,
) -> Delivery:
    """The call, if one of the secrets signed it within `tolerance` seconds of `now` (this machine's clock).

    `headers` are a mapping or pairs, names in any case, str or bytes; `body` is what came, before any parsing. Several
    secrets are for the time in which one is replaced. Raises InvalidSignature, and ValueError for a secret that is
    empty or no base64 after `whsec_`: then nothing can be verified, and it is not the caller's doing.
    """
    keys = _keys(secret)
    given = _ours(headers)
    message_id, stamp, signatures = (_needed(given, name) for name in (ID_HEADER, TIMESTAMP_HEADER, SIGNATURE_HEADER))
    timestamp = _whole(stamp, TIMESTAMP_HEADER, Cause.TIMESTAMP_MALFORMED)
    if _ANOTHER_SPLIT.search(message_id):
        raise InvalidSignature(Cause.HEADER_MALFORMED, f"{ID_HEADER} could be an id, a timestamp and part of a body")
    expected = [signature(key, message_id, stamp, body).encode() for key in keys]
    offered = [part.encode() for part in signatures.split(" ") if part.startswith(f"{VERSION},")]
    # Every pair is compared, and to its end: how long it takes says nothing about where they differ.
    if not any([hmac.compare_digest(ours, theirs) for ours in expected for theirs in offered]):
        raise InvalidSignature(Cause.SIGNATURE_WRONG, f"no {VERSION} signature fits this id, timestamp and body")
    age = int(time.time() if now is None else now) - timestamp  # noqa: TID251 - a receiver has no World
    if abs(age) > tolerance:
        cause, where = (Cause.TIMESTAMP_TOO_OLD, "behind") if age > 0 else (Cause.TIMESTAMP_AHEAD, "ahead of")
        raise InvalidSignature(cause, f"the call was signed {abs(age)} s {where} this clock; {tolerance} s at most")
    if given.get(KEY_HEADER, message_id) != message_id:
        raise InvalidSignature(Cause.KEY_DIFFERS, f"{KEY_HEADER} is not the {ID_HEADER} that was signed")
    numbers = {name: _whole(given[name], name) for name in (EPOCH_HEADER, ATTEMPT_HEADER) if name in given}
    return Delivery(message_id, timestamp, numbers.get(EPOCH_HEADER), numbers.get(ATTEMPT_HEADER))


class Connection(Protocol):
    """What `remember` needs of a DB-API connection; sqlite3, psycopg and Django's have it."""

    def cursor(self) -> Any:
        """A cursor with execute, rowcount and close."""


def remember(connection: Connection, key: str, epoch: int | None = None, *, paramstyle: str | None = None) -> bool:
    """Keep the key in the caller's own transaction: True where it is new, False where it was there (a repeat).

    Do the effect in the same transaction and only where this is True; effect and key are then committed together, or
    neither is, and a second caller waits for the first one's transaction. With `epoch`, the highest one of each key is
    kept, and a lower one raises StaleEpoch. Raises ValueError where no transaction would hold the two together, or
    where the placeholders are not known: `paramstyle` is `qmark` (?) or `format` (%s), and is found out by itself for
    sqlite3, psycopg and Django. The table is CREATE_TABLE's; SQLite 3.24 or PostgreSQL.
    """
    if _commits_each_statement(connection):
        raise ValueError("this connection commits each statement by itself: begin a transaction first")
    mark = _placeholder(connection, paramstyle)
    cursor = connection.cursor()
    try:
        cursor.execute(
            f"INSERT INTO {TABLE} (idempotency_key, epoch) VALUES ({mark}, {mark})"  # noqa: S608 - nobody's input
            " ON CONFLICT (idempotency_key) DO NOTHING",
            (key, epoch),
        )
        if cursor.rowcount == 1:
            return True
        if epoch is not None:
            cursor.execute(
                f"UPDATE {TABLE} SET epoch = {mark} WHERE idempotency_key = {mark}"  # noqa: S608
                f" AND (epoch IS NULL OR epoch <= {mark})",
                (epoch, key, epoch),
            )
            if cursor.rowcount != 1:
                raise StaleEpoch(f"{key}: a call with a higher fencing token than {epoch} was here before")
        return False
    finally:
        cursor.close()


def _keys(secret: Text | Sequence[Text]) -> list[bytes]:
    secrets = [secret] if isinstance(secret, str | bytes) else list(secret)
    if not secrets:
        raise ValueError("there is no secret to verify with")
    return [signing_key(one.encode() if isinstance(one, str) else one) for one in secrets]


def _ours(headers: Headers) -> dict[str, str]:
    """The headers that matter here, by their names in small letters. One that comes twice could mean either."""
    pairs: Iterable[tuple[Any, Any]] = headers.items() if hasattr(headers, "items") else headers
    found: dict[str, str] = {}
    for raw_name, raw_value in pairs:
        name = (raw_name.decode("latin-1") if isinstance(raw_name, bytes) else raw_name).lower()
        if name not in _HEADERS:
            continue
        if name in found:
            raise InvalidSignature(Cause.HEADER_TWICE, f"{name} came twice")
        value = raw_value.decode("latin-1") if isinstance(raw_value, bytes) else raw_value
        if not value.isascii():
            raise InvalidSignature(Cause.HEADER_MALFORMED, f"{name} has other characters than ASCII")
        found[name] = value
    return found


def _needed(given: Mapping[str, str], name: str) -> str:
    if name not in given:
        raise InvalidSignature(Cause.HEADER_MISSING, f"there is no header {name}")
    return given[name]


def _whole(text: str, name: str, cause: Cause = Cause.HEADER_MALFORMED) -> int:
    if not _WHOLE.fullmatch(text):
        raise InvalidSignature(cause, f"{name} is no whole number")
    return int(text)


def _commits_each_statement(connection: Any) -> bool:
    """Autocommit, and no transaction open: sqlite3, psycopg, and Django outside of atomic()."""
    if hasattr(connection, "in_atomic_block"):
        return not connection.in_atomic_block and connection.get_autocommit()
    if hasattr(connection, "in_transaction"):
        by_itself = connection.isolation_level is None or getattr(connection, "autocommit", None) is True
        return by_itself and not connection.in_transaction
    idle = getattr(getattr(connection, "info", None), "transaction_status", None) == 0
    return idle and getattr(connection, "autocommit", None) is True


def _placeholder(connection: object, paramstyle: str | None) -> str:
    """How the connection's driver writes a parameter: as its module says, and `%s` for Django over any driver."""
    if paramstyle is None:
        packages = [kind.__module__.partition(".")[0] for kind in type(connection).__mro__]
        styles = ("format" if name == "django" else getattr(sys.modules[name], "paramstyle", None) for name in packages)
        paramstyle = next((style for style in styles if style is not None), None)
    if paramstyle not in _PLACEHOLDERS:
        raise ValueError(f"say the paramstyle of this connection: {' or '.join(_PLACEHOLDERS)}, not {paramstyle}")
    return _PLACEHOLDERS[paramstyle]
