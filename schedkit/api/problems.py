"""Errors as RFC 9457 problem+json: what, where, why, how to fix it. Never a stack trace, never a secret."""

from __future__ import annotations

import logging
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Match

from schedkit.errors import Internal, InvalidInput, NotAllowed, NotFound, Reason, SchedkitError, Unauthenticated

MEDIA_TYPE: Final = "application/problem+json"
TYPE_PREFIX: Final = "urn:schedkit:error:"

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
    """Every method that some route takes on this path."""
    methods: set[str] = set()
    for route in request.app.state.routes:
        if route.matches(request.scope)[0] is not Match.NONE:
            methods |= route.methods
    return ", ".join(sorted(methods))
