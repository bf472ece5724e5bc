"""What an answer means: a document, or the error of its status with all that the server said.

2xx                       Answer
problem+json              the SchedkitError of its status, with reason, why and fix
anything else, nothing    Unreachable: no schedkit server spoke
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, cast

import httpx

from schedkit.errors import (
    Conflict,
    Internal,
    InvalidInput,
    NotAllowed,
    NotFound,
    QuotaExceeded,
    Reason,
    SchedkitError,
    StoreUnavailable,
    TooLarge,
    Unauthenticated,
    Unprocessable,
)


class Trouble(StrEnum):
    """Codes of what can go wrong before a scheduler answers; the server's own are `schedkit.errors.Reason`."""

    UNREACHABLE = "UNREACHABLE"


class Unreachable(SchedkitError):
    """No scheduler answered. Whether a change arrived is unknown; repeat it with the same `idempotency_key`."""

    status = 503

    def __init__(
        self,
        detail: str,
        *,
        url: str,
        idempotency_key: str | None = None,
        refused: bool = False,
        why: str | None = None,
    ) -> None:
        fix = ("start one: schedkit up", "or point at another: schedkit context use NAME") if refused else ()
        super().__init__(cast(Reason, Trouble.UNREACHABLE), detail, why=why, fix=fix)
        self.url = url
        self.idempotency_key = idempotency_key
        self.refused = refused  # nobody listens there, so nothing was sent


_BY_STATUS: Final[Mapping[int, type[SchedkitError]]] = {
    400: InvalidInput,
    401: Unauthenticated,
    403: NotAllowed,
    404: NotFound,
    405: InvalidInput,
    409: Conflict,
    412: Conflict,
    413: TooLarge,
    422: Unprocessable,
    429: QuotaExceeded,
}


def trouble_of(error: httpx.HTTPError | httpx.InvalidURL, url: str, timeout_s: float) -> SchedkitError:
    """The error of an exchange that httpx could not make; to be raised from `error`."""
    match error:
        case httpx.ConnectError():
            return Unreachable(f"{url} does not take connections: {cause(error)}", url=url, refused=True)
        case httpx.TimeoutException():
            refused = isinstance(error, httpx.ConnectTimeout | httpx.PoolTimeout)
            return Unreachable(f"{url} gave no answer within {timeout_s:g} s", url=url, refused=refused)
        case httpx.InvalidURL() | httpx.UnsupportedProtocol():
            return InvalidInput(Reason.INVALID_ARGUMENT, f"{url} is no http or https URL: {error}")
    return Unreachable(f"the connection to {url} broke: {cause(error)}", url=url)


def outcome_of(error: httpx.HTTPError | httpx.InvalidURL) -> str:
    """The same in one word, for a log of exchanges."""
    match error:
        case httpx.ConnectError():
            return "refused"
        case httpx.TimeoutException():
            return "timeout"
        case httpx.InvalidURL() | httpx.UnsupportedProtocol():
            return "?"
    return type(error).__name__


@dataclass(frozen=True, slots=True)
class Answer:
    """A successful answer: its status, its headers, and its JSON."""

    status: int
    headers: Mapping[str, str]
    data: Any


@dataclass(frozen=True, slots=True)
class Created:
    """A created job. `replayed` says that the same request had been accepted before and this is its answer again."""

    job: Mapping[str, Any]
    replayed: bool
    idempotency_key: str


def answer_of(response: httpx.Response, idempotency_key: str | None) -> Answer:
    """The document of a 2xx answer. Raises the error that any other one stands for."""
    data: Any = None
    if response.content:
        try:
            data = response.json()
        except ValueError:
            data = response.text
    if response.is_success:
        return Answer(response.status_code, response.headers, data)
    raise _refusal(response, data, idempotency_key)


def _refusal(response: httpx.Response, problem: Any, idempotency_key: str | None) -> SchedkitError:
    """The error of an answer that is none of 2xx."""
    status = response.status_code
    if not isinstance(problem, dict) or "reason" not in problem:
        where = f"{response.request.url.scheme}://{response.request.url.netloc.decode()}"
        return Unreachable(
            f"{where} answered http {status}, and not as a schedkit server does",
            url=where,
            idempotency_key=idempotency_key,
            why="something else listens there, or stands in between",
        )
    return refusal_of(status, problem, idempotency_key)


def refusal_of(status: int, told: Mapping[str, Any], idempotency_key: str | None = None) -> SchedkitError:
    """The error that a problem document stands for: an answer's own, or that of one entry of a batch."""
    standard = {"type", "title", "status", "detail", "reason", "why", "fix", "field", "retry_after_seconds"}
    extra = {name: value for name, value in told.items() if name not in standard} | {"http_status": status}
    if idempotency_key is not None:
        extra["idempotency_key"] = idempotency_key
    detail = str(told.get("detail") or told.get("title") or f"http {status}")
    if status == httpx.codes.SERVICE_UNAVAILABLE:
        error: SchedkitError = StoreUnavailable(detail, why=told.get("why"), fix=told.get("fix") or ())
        error.reason = _reason(told["reason"])
        error.retry_after_seconds = told.get("retry_after_seconds") or error.retry_after_seconds
        error.extra = extra
        return error
    kind = _BY_STATUS.get(status, Internal if status >= 500 else InvalidInput)
    return kind(
        _reason(told["reason"]),
        detail,
        why=told.get("why"),
        fix=told.get("fix") or (),
        field=told.get("field"),
        retry_after_seconds=told.get("retry_after_seconds"),
        extra=extra,
    )


def _reason(code: str) -> Reason:
    """The code as a Reason; a newer server's code stays the text it is."""
    try:
        return Reason(code)
    except ValueError:
        return cast(Reason, code)


def cause(error: BaseException) -> str:
    """The innermost cause in words, such as `Connection refused`."""
    while (inner := error.__cause__ or error.__context__) is not None:
        error = inner
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
