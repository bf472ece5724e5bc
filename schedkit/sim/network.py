"""The network between users and the API: a request reaches one of the doors and is answered, or something is lost."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, Final

import httpx
from fastapi import FastAPI

from schedkit.sim.fleet import Fleet, Member
from schedkit.sim.ground import Ground

LEG_MS: Final = (0.3, 3.0)


class Network(httpx.AsyncBaseTransport):
    """A transport for a client: each request goes to a door drawn by chance."""

    def __init__(self, ground: Ground, fleet: Fleet) -> None:
        self._ground = ground
        self._fleet = fleet
        self._chance = ground.chance("network")
        self._waiting: dict[str, list[asyncio.Future[httpx.Response]]] = {}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Raises ConnectError where no door is open, ReadError where the connection breaks."""
        ground = self._ground
        doors = self._fleet.doors()
        if not doors:
            raise httpx.ConnectError("connection refused", request=request)
        member = self._chance.choice(doors)
        answer: asyncio.Future[httpx.Response] = ground.loop.create_future()
        self._waiting.setdefault(member.name, []).append(answer)
        lost = self._lost()
        if lost != "request_lost":
            ground.later(self._leg(), self._arrive, member, member.starts, request, answer, lost)
        try:
            return await answer
        finally:
            self._waiting[member.name].remove(answer)

    def broke(self, member: Member) -> None:
        """This machine's process died: whoever waits for it sees the connection break."""
        for answer in self._waiting.get(member.name, []):
            if not answer.done():
                answer.set_exception(httpx.ReadError("connection reset"))

    def _lost(self) -> str | None:
        ground = self._ground
        if not ground.storming or self._chance.random() >= ground.weather.lose:
            return None
        lost = self._chance.choice(["request_lost", "reply_lost"])
        ground.nemesis(lost, "user", server="api", verb="request")
        return lost

    def _arrive(
        self,
        member: Member,
        start: int,
        request: httpx.Request,
        answer: asyncio.Future[httpx.Response],
        lost: str | None,
    ) -> None:
        if member.app is None or member.dead or member.starts != start:
            if not answer.done():
                answer.set_exception(httpx.ReadError("connection reset"))
            return
        loop = self._ground.loop
        task = loop.start(member.process, _answered(member.app, request))

        def back(done: asyncio.Task[httpx.Response]) -> None:
            if lost is None:
                self._ground.later(self._leg(), _deliver, answer, done)

        task.add_done_callback(back, context=loop.world.context)

    def _leg(self) -> float:
        low, high = LEG_MS
        return low + (high - low) * self._chance.random()


async def _answered(app: FastAPI, request: httpx.Request) -> httpx.Response:
    """What the app answers; httpx's own transport for ASGI takes twice as long about it."""
    body, asked = await request.aread(), False
    status, headers, parts = 500, [], []

    async def receive() -> dict[str, Any]:
        nonlocal asked
        if asked:
            await asyncio.get_running_loop().create_future()  # the caller stays on the line
        asked = True
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        nonlocal status, headers
        if message["type"] == "http.response.start":
            status, headers = message["status"], message["headers"]
        else:
            parts.append(message.get("body", b""))

    url = request.url
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": request.method,
        "headers": [(name.lower(), value) for name, value in request.headers.raw],
        "scheme": url.scheme,
        "path": url.path,
        "raw_path": url.raw_path.partition(b"?")[0],
        "query_string": url.query,
        "server": (url.host, url.port),
        "client": ("127.0.0.1", 0),
        "root_path": "",
    }
    with contextlib.suppress(Exception):  # what is raised was answered, and is in the log
        await app(scope, receive, send)
    return httpx.Response(status, headers=headers, content=b"".join(parts))


def _deliver(answer: asyncio.Future[httpx.Response], done: asyncio.Task[httpx.Response]) -> None:
    if not answer.done():
        answer.set_result(done.result())
