"""What every request passes before a route sees it: an id, a limit on its body, and who may knock.

A scheduler without credentials is for this machine only. A web page that the machine's browser shows could still reach
it, so a request is refused that names a foreign host (DNS rebinding) or comes from a foreign page (its Origin).
"""

from __future__ import annotations

import ipaddress
import re
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from schedkit.api.bodies import MAX_BODY_BYTES
from schedkit.api.problems import problem
from schedkit.errors import NotAllowed, Reason, SchedkitError, TooLarge
from schedkit.ports import Chance

REQUEST_ID_BYTES: Final = 8
_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")


class Door:
    """ASGI middleware: request ids, body limits, and the loopback guard."""

    def __init__(self, app: ASGIApp, chance: Chance, loopback_only: bool) -> None:
        self._app = app
        self._chance = chance
        self._loopback_only = loopback_only

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        given = headers.get("x-request-id", "")
        request_id = given if _REQUEST_ID.fullmatch(given) else "req_" + self._chance.bytes(REQUEST_ID_BYTES).hex()
        scope["schedkit.request_id"] = request_id

        async def send_named(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)["X-Request-Id"] = request_id
            await send(message)

        refusal: SchedkitError | None = self._foreign(headers)
        body: bytes | None = b""
        if refusal is None:
            try:
                body = await _body(headers, receive)
            except TooLarge as error:
                refusal = error
        if refusal is not None:
            await problem(refusal, request_id)(scope, receive, send_named)
            return
        if body is None:
            return  # the caller went away in the middle of its body: half a request is no request
        await self._app(scope, _replay(body, receive), send_named)

    def _foreign(self, headers: Headers) -> NotAllowed | None:
        if not self._loopback_only:
            return None
        host = headers.get("host", "")
        if host and not _is_loopback(f"//{host}"):
            return NotAllowed(Reason.FORBIDDEN, f"this scheduler answers on this machine only, not as {host!r}")
        origin = headers.get("origin")
        if origin is not None and origin.partition("://")[2] != host:
            return NotAllowed(Reason.FORBIDDEN, f"a page of {origin!r} may not call this scheduler")
        return None


def _is_loopback(url: str) -> bool:
    try:
        host = urlsplit(url).hostname or ""
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


async def _body(headers: Headers, receive: Receive) -> bytes | None:
    """The whole body, cut off as soon as it is too long: measured before it is parsed (A2). None if it never ended."""
    length = headers.get("content-length", "0")
    if length.isdigit() and int(length) > MAX_BODY_BYTES:
        raise _too_large()
    chunks: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        chunks.append(message.get("body", b""))
        size += len(chunks[-1])
        if size > MAX_BODY_BYTES:
            raise _too_large()
        if not message.get("more_body", False):
            return b"".join(chunks)


def _replay(body: bytes, receive: Receive) -> Receive:
    """A receive that gives the body that was read, then whatever comes (a disconnect)."""
    given = False

    async def replayed() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replayed


def _too_large() -> TooLarge:
    return TooLarge(
        Reason.PAYLOAD_TOO_LARGE,
        f"the request's body has more than {MAX_BODY_BYTES:,} bytes",
        fix=("store large data elsewhere and send a reference to it",),
    )
