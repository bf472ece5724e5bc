"""A real scheduler's API for a command line in the same process: the virtual world, its event loop in a thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import httpx
import pytest

from tests.worlds import Virtual

PATIENCE_S = 30.0
T = TypeVar("T")


@dataclass
class Living:
    """The world, and what was asked of it. `before` runs once before the next request of its method."""

    world: Virtual
    loop: asyncio.AbstractEventLoop
    asked: list[tuple[str, str]] = field(default_factory=list)
    before: dict[str, Callable[[], object]] = field(default_factory=dict)
    cut_after: int | None = None  # this many changes get through, then the line is dead
    lose: str | None = None  # the next answer to this method is lost

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(PATIENCE_S)

    def api(self, method: str, path: str, **rest: Any) -> dict[str, Any]:
        """Ask as somebody else would."""
        answer = self.do(self.world.api.request(method, path, **rest))
        assert answer.is_success, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def pass_time(self, minutes: int) -> None:
        self.do(self.world.wait(minutes=minutes))

    def handle(self, request: httpx.Request) -> httpx.Response:
        changes = request.method != "GET"
        if changes and self.cut_after is not None:
            if self.cut_after == 0:
                raise httpx.ConnectError("the line is dead")
            self.cut_after -= 1
        if (meddle := self.before.pop(request.method, None)) is not None:
            meddle()
        path = request.url.raw_path.decode()
        self.asked.append((request.method, path))
        headers = {name: value for name, value in request.headers.items() if name not in ("host", "content-length")}
        answer = self.do(self.world.api.request(request.method, path, content=request.read(), headers=headers))
        if self.lose == request.method:
            self.lose = None
            raise httpx.ReadError("the answer was lost")
        kept = {name: value for name, value in answer.headers.items() if name != "content-length"}
        return httpx.Response(answer.status_code, headers=kept, content=answer.content, request=request)

    @property
    def changes(self) -> list[tuple[str, str]]:
        return [asked for asked in self.asked if asked[0] != "GET"]


@contextmanager
def living(monkeypatch: pytest.MonkeyPatch, at: str = "2026-06-01T12:00:00Z") -> Iterator[Living]:
    """The world runs; the client of the command line talks to it instead of to the network."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def enter() -> Virtual:
        return await Virtual(at).__aenter__()

    world = asyncio.run_coroutine_threadsafe(enter(), loop).result(PATIENCE_S)
    here = Living(world, loop)
    transport = httpx.MockTransport(here.handle)
    monkeypatch.setattr("schedkit.client.opened", lambda kind, url, _: kind(base_url=url, transport=transport))
    monkeypatch.setattr("schedkit.cli.values.now_ms", world.clock.now)
    try:
        yield here
    finally:
        here.do(world.__aexit__())
        loop.call_soon_threadsafe(loop.stop)
        thread.join(PATIENCE_S)
        loop.close()
