"""The examples as real servers on the loopback, with a front that loses an answer now and then."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, MutableMapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import uvicorn

from schedkit.embedded import Server

Scope = MutableMapping[str, Any]
Asgi = Callable[[Scope, Callable[[], Awaitable[Any]], Callable[[Any], Awaitable[None]]], Awaitable[None]]
Wsgi = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


@dataclass(slots=True)
class Front:
    """What stands before a target: it hears every call, and answers 503 to the next ones *after* their work is done."""

    lost: int = 0
    headers: list[dict[str, str]] = field(default_factory=list)

    def loses(self) -> bool:
        self.lost -= 1
        return self.lost >= 0

    def before_asgi(self, app: Asgi) -> Asgi:
        async def front(scope: Scope, receive: Any, send: Any) -> None:
            self.headers.append({name.decode(): value.decode() for name, value in scope["headers"]})
            lost = self.loses()

            async def answer(message: Any) -> None:
                await send(message | {"status": 503} if lost and "status" in message else message)

            await app(scope, receive, answer)

        return front

    def before_wsgi(self, app: Wsgi) -> Wsgi:
        def front(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
            given = {name.removeprefix("HTTP_").replace("_", "-"): environ[name] for name in environ if "HTTP_" in name}
            self.headers.append(given)
            lost = self.loses()
            return app(environ, lambda status, *rest: start("503 Unavailable" if lost else status, *rest))

        return front


@asynccontextmanager
async def serving_asgi(app: Asgi) -> AsyncIterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = Server(uvicorn.Config(app, log_config=None, access_log=False, lifespan="off"))
        task = asyncio.create_task(server.serve([listener]))
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            await task


@asynccontextmanager
async def serving_wsgi(app: Wsgi) -> AsyncIterator[str]:
    class Quiet(WSGIRequestHandler):
        def log_message(self, format: str, *args: Any) -> None: ...

    with make_server("127.0.0.1", 0, app, WSGIServer, Quiet) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            await asyncio.to_thread(server.shutdown)
            thread.join()
