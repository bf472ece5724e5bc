"""Calls over real sockets: one attempt is one request, and it goes only where it may (F1, F8, F9)."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from schedkit.adapters.http.targets import MAX_BODY_BYTES, HttpTargets
from schedkit.engine.failure.retry import judge
from schedkit.model.calls import Answered, Call, Dead, NoAnswer, NotSent
from schedkit.model.jobs import Delivery, RetryPolicy
from tests.cases import of_kinds

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Peer:
    """A raw TCP server: it counts the requests whose head it read, then does what `talk` says."""

    talk: Talk
    url: str = ""
    heads: list[str] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            self.heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
            await self.talk(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


def answer(status: int, body: bytes = b"", headers: str = "") -> Talk:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\n{headers}\r\n".encode() + body)
        await writer.drain()

    return talk


async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Read the request, and close: the target may have done its work, and nobody knows."""


@asynccontextmanager
async def peer(talk: Talk) -> AsyncIterator[Peer]:
    there = Peer(talk)
    server = await asyncio.start_server(there.serve, "127.0.0.1", 0)
    there.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/work"
    async with server:
        yield there


@asynccontextmanager
async def targets(**options: Any) -> AsyncIterator[HttpTargets]:
    calling = HttpTargets(**{"loopback_allowed": True} | options)
    try:
        yield calling
    finally:
        await calling.close()


def call(url: str, method: str = "POST", timeout_ms: int = 5_000) -> Call:
    return Call(url, method, {"Idempotency-Key": "k"}, b"{}" if method != "GET" else None, timeout_ms)


@pytest.mark.parametrize("method", ["GET", "PUT", "POST", "PATCH", "DELETE"])
async def test_one_attempt_is_one_request_whatever_the_method(method: str) -> None:
    """C4, C7: the HTTP client's own retries would call a target twice under one fencing token."""
    async with peer(hang_up) as there, targets() as calling:
        reply = await calling.call(call(there.url, method))
        assert isinstance(reply, NoAnswer)
        assert len(there.heads) == 1


async def test_an_answer_is_told_with_its_status_body_and_retry_after() -> None:
    async with peer(answer(429, b"later", "Retry-After: 7\r\n")) as there, targets() as calling:
        assert await calling.call(call(there.url)) == Answered(429, "later", "7")


async def test_a_redirect_is_an_answer_that_is_not_followed_and_ends_the_run() -> None:
    """ssrf-03, F9, F1."""
    case = next(case for case in of_kinds("ssrf") if case.id == "ssrf-03")
    status, location = case.input["answer"]["status"], case.input["answer"]["location"]
    async with peer(answer(status, headers=f"Location: {location}\r\n")) as there, targets() as calling:
        reply = await calling.call(call(there.url))
    assert reply == Answered(status)
    assert len(there.heads) == 1
    verdict = judge(reply, attempt=1, policy=RetryPolicy(), delivery=Delivery.AT_LEAST_ONCE, now=0, draw=0.5)
    assert isinstance(verdict, Dead)


async def test_a_refused_connection_reached_nobody() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    async with targets() as calling:
        reply = await calling.call(call(f"http://127.0.0.1:{port}/"))
    assert reply == NotSent(f"127.0.0.1 port {port} could not be reached: connection refused")


async def test_no_answer_within_the_timeout_may_have_reached_the_target() -> None:
    async def silence(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with peer(silence) as there, targets() as calling:
        assert await calling.call(call(there.url, timeout_ms=50)) == NoAnswer("no answer within 0.05 s")


async def test_a_long_answer_is_read_only_in_part() -> None:
    async with peer(answer(200, b"x" * (3 * MAX_BODY_BYTES))) as there, targets() as calling:
        reply = await calling.call(call(there.url))
    assert isinstance(reply, Answered)
    assert len(reply.body) == MAX_BODY_BYTES


async def test_a_name_that_resolves_to_a_forbidden_address_is_not_called(monkeypatch: pytest.MonkeyPatch) -> None:
    """F9: checked where the connection is made, so a name cannot point elsewhere between the check and the call."""
    answers = iter([["93.184.216.34"], ["169.254.169.254"]])

    def resolve(host: str, port: int, *rest: Any) -> list[Any]:
        found = next(answers)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in found]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    socket.getaddrinfo("hooks.example", 80)  # what a check made earlier would have seen
    async with targets() as calling:
        reply = await calling.call(call("http://hooks.example/"))
    assert reply == NotSent("hooks.example may not be called: 169.254.169.254 is a metadata service", permanent=True)


async def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    async with peer(answer(200)) as there, targets() as calling:
        assert await calling.call(call(there.url)) == Answered(200)


async def test_a_target_that_is_not_registered_is_a_permanent_failure() -> None:
    async with targets() as calling:
        assert await calling.call(call("")) == NotSent("the job's target is not registered (any more)", permanent=True)
