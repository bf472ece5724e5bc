"""Errors as RFC 9457 problem+json: what, where, why, how to fix it. Never a stack trace, never a secret."""

from __future__ import annotations

import logging
import re
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Match

from schedkit.errors import Internal, InvalidInput, NotAllowed, NotFound, Reason, SchedkitError, Unauthenticated

MEDIA_TYPE: Final = "application/problem+json"
TYPE_PREFIX: Final = "urn:schedkit:error:"

REFUSALS: Final = {
    400: "What was asked is malformed or impossible",
    401: "No API key, or one that opens nothing",
    403: "The caller may not do this",
    404: "What is named is not there, or is not the caller's",
    409: "Someone else, or an earlier you, got there first",
    413: "The body, or a part of it, is too large",
    422: "It contradicts what was said before under the same key",
    429: "Too many calls without a right key came from this address",
    503: "Nothing was accepted; safe to repeat",
}

log = logging.getLogger(__name__)


def problem(error: SchedkitError, request_id: str) -> JSONResponse:
    """The answer to a request that was refused."""
    body: dict[str, Any] = {
        "type": TYPE_PREFIX + error.reason.value,
        "title": error.reason.value.replace("_", " ").capitalize(),
        "status": error.status,
        "detail": error.detail,
        "reason": error.reason.value,
        "request_id": request_id,
    }
    optional = {
        "why": error.why,
        "fix": list(error.fix) or None,
        "field": error.field,
        "retry_after_seconds": error.retry_after_seconds,
    }
    body |= {name: value for name, value in optional.items() if value is not None} | error.extra
    headers = {"Retry-After": str(error.retry_after_seconds)} if error.retry_after_seconds is not None else {}
    if isinstance(error, Unauthenticated):
        headers["WWW-Authenticate"] = 'Bearer realm="schedkit"'
    return JSONResponse(body, error.status, headers, MEDIA_TYPE)


def refuses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """For a route's `responses`: that it may refuse in these ways, besides those that every such route has."""
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {status: {"description": REFUSALS[status], "content": content} for status in statuses}


def request_id_of(request: Request) -> str:
    return str(request.scope.get("schedkit.request_id", "req_unknown"))


async def on_schedkit_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, SchedkitError), "registered for SchedkitError"
    return problem(error, request_id_of(request))


async def on_http_exception(request: Request, error: Exception) -> JSONResponse:
    """What the router says by itself: no such route, no such method."""
    assert isinstance(error, HTTPException), "registered for HTTPException"
    where = f"{request.method} {request.url.path}"
    known: SchedkitError
    if error.status_code == 404:
        known = NotFound(Reason.ROUTE_NOT_FOUND, f"there is no {where}", fix=("see GET /docs, or GET /openapi.json",))
    elif error.status_code == 405:
        allowed = _allowed(request)
        known = NotAllowedMethod(Reason.METHOD_NOT_ALLOWED, f"{where} is not a call; allowed: {allowed}")
    elif error.status_code == 403:
        known = NotAllowed(Reason.FORBIDDEN, str(error.detail))
    else:
        known = InvalidInput(Reason.INVALID_ARGUMENT, f"{where}: {error.detail}")
    answer = problem(known, request_id_of(request))
    if error.status_code == 405:
        answer.headers["Allow"] = _allowed(request)
    return answer


async def on_bug(request: Request, error: Exception) -> JSONResponse:
    """Something we did not foresee: the log has the trace, the caller has the request id to find it by."""
    request_id = request_id_of(request)
    log.error("%s %s failed (%s)", request.method, request.url.path, request_id, exc_info=error)
    answer = problem(
        Internal(
            Reason.INTERNAL,
            "schedkit failed in a way that was not foreseen",
            fix=(f"look for {request_id} in the server's log, and report it",),
        ),
        request_id,
    )
    answer.headers["X-Request-Id"] = request_id  # this answer does not pass the door
    return answer


class NotAllowedMethod(SchedkitError):
    status = 405


def _allowed(request: Request) -> str:
    """Every method that some route takes on this path; `…:pause` is a path of its own, and no job called so."""
    found = [route for route in request.app.state.routes if route.matches(request.scope)[0] is not Match.NONE]
    closest = max((route.path_format for route in found), key=lambda path: len(re.sub(r"{.*?}", "", path)), default="")
    return ", ".join(sorted({method for route in found if route.path_format == closest for method in route.methods}))
