"""The error tree: every way in which schedkit says no, with the code that names it.

    SchedkitError
    ├── InvalidInput        400  what was asked is malformed or impossible; nothing was changed
    ├── Unauthenticated     401
    ├── NotAllowed          403
    ├── NotFound            404
    ├── Conflict            409  someone else, or an earlier you, got there first
    ├── TooLarge            413
    ├── Unprocessable       422  well formed, but it contradicts what was said before
    ├── QuotaExceeded       429
    ├── StoreUnavailable    503  nothing was accepted; safe to repeat
    ├── QueueUnavailable    503  buckets or queue are away; what they carry stands in the store, and is only late
    ├── StartupRefused           the process cannot start: a locked, corrupt or read-only data folder, a taken port
    └── Internal            500  a bug; never raised on purpose

A code is stable. `Reason` lists them all, and `schedkit explain CODE` has an entry for each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, ClassVar


class Reason(StrEnum):
    """Every stable error code (spec: the contract's table of errors)."""

    INVALID_ARGUMENT = "INVALID_ARGUMENT"
    INVALID_FILE = "INVALID_FILE"
    INVALID_CRON = "INVALID_CRON"
    CRON_NEVER_FIRES = "CRON_NEVER_FIRES"
    NO_FURTHER_OCCURRENCE = "NO_FURTHER_OCCURRENCE"
    INVALID_TIME_ZONE = "INVALID_TIME_ZONE"
    INVALID_RUN_AT = "INVALID_RUN_AT"
    RUN_AT_IN_PAST = "RUN_AT_IN_PAST"
    OFFSET_NOT_IN_ZONE = "OFFSET_NOT_IN_ZONE"
    INVALID_JSON = "INVALID_JSON"
    INVALID_HEADER = "INVALID_HEADER"
    TARGET_NOT_ALLOWED = "TARGET_NOT_ALLOWED"
    PAYLOAD_TOO_LARGE = "PAYLOAD_TOO_LARGE"
    UNAUTHENTICATED = "UNAUTHENTICATED"
    FORBIDDEN = "FORBIDDEN"
    JOB_NOT_FOUND = "JOB_NOT_FOUND"
    RUN_NOT_FOUND = "RUN_NOT_FOUND"
    TARGET_NOT_FOUND = "TARGET_NOT_FOUND"
    REDRIVE_NOT_FOUND = "REDRIVE_NOT_FOUND"
    BACKFILL_NOT_FOUND = "BACKFILL_NOT_FOUND"
    KEY_NOT_FOUND = "KEY_NOT_FOUND"
    ROUTE_NOT_FOUND = "ROUTE_NOT_FOUND"
    METHOD_NOT_ALLOWED = "METHOD_NOT_ALLOWED"
    RUN_IN_PROGRESS = "RUN_IN_PROGRESS"
    RUN_FINISHED = "RUN_FINISHED"
    JOB_ENDED = "JOB_ENDED"
    NOTHING_TO_SKIP = "NOTHING_TO_SKIP"
    NOT_A_DEAD_LETTER = "NOT_A_DEAD_LETTER"
    NOT_REDRIVABLE = "NOT_REDRIVABLE"
    NOT_BACKFILLABLE = "NOT_BACKFILLABLE"
    NOT_UNKNOWN = "NOT_UNKNOWN"
    REDRIVE_STATE = "REDRIVE_STATE"
    VERSION_CONFLICT = "VERSION_CONFLICT"
    EPOCH_SUPERSEDED = "EPOCH_SUPERSEDED"
    CANCEL_NOT_REQUESTED = "CANCEL_NOT_REQUESTED"
    KEYS_AT_LIMIT = "KEYS_AT_LIMIT"
    KEY_ENDED = "KEY_ENDED"
    NAME_IN_USE = "NAME_IN_USE"
    IDEMPOTENCY_KEY_REUSED = "IDEMPOTENCY_KEY_REUSED"
    QUOTA_EXCEEDED = "QUOTA_EXCEEDED"
    STORE_UNAVAILABLE = "STORE_UNAVAILABLE"
    QUEUE_UNAVAILABLE = "QUEUE_UNAVAILABLE"
    DATA_FOLDER_IN_USE = "DATA_FOLDER_IN_USE"
    DATA_FOLDER_UNUSABLE = "DATA_FOLDER_UNUSABLE"
    DATABASE_CORRUPT = "DATABASE_CORRUPT"
    DATABASE_TOO_NEW = "DATABASE_TOO_NEW"
    PEPPER_UNUSABLE = "PEPPER_UNUSABLE"
    BACKUP_INVALID = "BACKUP_INVALID"
    CLOCK_BEHIND = "CLOCK_BEHIND"
    PORT_IN_USE = "PORT_IN_USE"
    INTERNAL = "INTERNAL"


class SchedkitError(Exception):
    """A refusal that says what was wrong, why the system insists, and how to fix it.

    `detail` is one sentence for a person; `why` is the rule behind it; `fix` is a list of things to do, each a
    command or a sentence; `field` is the path of the offending input; `extra` is whatever else helps to act.
    """

    status: ClassVar[int] = 500

    def __init__(
        self,
        reason: Reason,
        detail: str,
        *,
        why: str | None = None,
        fix: Sequence[str] = (),
        field: str | None = None,
        retry_after_seconds: int | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail
        self.why = why
        self.fix = tuple(fix)
        self.field = field
        self.retry_after_seconds = retry_after_seconds
        self.extra = dict(extra or {})

    def __str__(self) -> str:
        return f"{self.detail}  [{self.reason}]"


class InvalidInput(SchedkitError):
    status = 400


class Unauthenticated(SchedkitError):
    status = 401


class NotAllowed(SchedkitError):
    status = 403


class NotFound(SchedkitError):
    status = 404


class Conflict(SchedkitError):
    status = 409


class TooLarge(SchedkitError):
    status = 413


class Unprocessable(SchedkitError):
    status = 422


class QuotaExceeded(SchedkitError):
    status = 429


class StoreUnavailable(SchedkitError):
    status = 503

    def __init__(self, detail: str, *, why: str | None = None, fix: Sequence[str] = ()) -> None:
        super().__init__(
            Reason.STORE_UNAVAILABLE, detail, why=why, fix=fix, retry_after_seconds=STORE_RETRY_AFTER_SECONDS
        )


class QueueUnavailable(SchedkitError):
    status = 503

    def __init__(self, detail: str) -> None:
        super().__init__(Reason.QUEUE_UNAVAILABLE, detail, retry_after_seconds=STORE_RETRY_AFTER_SECONDS)


class StartupRefused(SchedkitError):
    status = 503


class Internal(SchedkitError):
    status = 500


STORE_RETRY_AFTER_SECONDS = 5  # long enough for a disk to be freed or a throttle to pass, short for a person
