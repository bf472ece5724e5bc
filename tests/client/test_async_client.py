"""The async client: the tries, waits and errors of the sync one, by a clock and a chance that are given."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from schedkit.client import Answer, AsyncClient, Client, Unreachable
from schedkit.client.asking import MAX_TRIES
from schedkit.errors import InvalidInput, NotFound, SchedkitError, StoreUnavailable

JOB = {"job_id": "job_1", "name": "digest"}
LOST = httpx.ReadError("connection reset")
REFUSED = httpx.ConnectError("refused")


def refusal(status: int, reason: str, **headers: str) -> httpx.Response:
    doc = {"title": "No", "status": status, "detail": "not now", "reason": reason}
    return httpx.Response(status, json=doc, headers=headers)


def busy(**headers: str) -> httpx.Response:
    return refusal(503, "STORE_UNAVAILABLE", **headers)


def again(answer: httpx.Response) -> httpx.Response:
    """The same answer, not read yet."""
    return httpx.Response(answer.status_code, headers=answer.headers, content=answer.content)


@dataclass(slots=True)
class World:
    """Answers from a list, the last again and again, and a clock that moves only by waits and by slow answers."""

    answers: list[Any]
    answer_takes_s: float = 0.0
    now_s: float = 1_000.0
    chance: float = 0.5
    requests: list[httpx.Request] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now_s += seconds

    async def answer(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        self.now_s += self.answer_takes_s
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return again(answer)

    def client(self, url: str = "http://sched.example", **rest: Any) -> AsyncClient:
        return AsyncClient(
            url,
            transport=httpx.MockTransport(self.answer),
            monotonic=lambda: self.now_s,
            sleep=self.sleep,
            draw=lambda: self.chance,
            **rest,
        )


async def create(client: AsyncClient) -> Answer:
    async with client:
        return await client.call("POST", "/v1/jobs", body={"name": "digest"}, idempotency_key="key-1")


async def test_a_keyed_create_is_repeated_with_its_key_when_the_answer_is_lost() -> None:
    world = World([LOST, LOST, httpx.Response(201, json=JOB)])
    answer = await create(world.client())
    assert (answer.status, answer.data) == (201, JOB)
    assert [request.headers["idempotency-key"] for request in world.requests] == ["key-1"] * 3
    assert {request.content for request in world.requests} == {b'{"name": "digest"}'}
    assert world.waits == [0.1, 0.2], "half of a backoff that doubles, by the chance that was given"


async def test_a_post_without_a_key_is_made_once() -> None:
    for answer in (LOST, busy()):
        world = World([answer, httpx.Response(200, json=JOB)])
        with pytest.raises((Unreachable, StoreUnavailable)):
            await world.client().call("POST", "/v1/jobs/digest:trigger", body={})
        assert (len(world.requests), world.waits) == (1, [])


async def test_a_refused_connection_carried_nothing_and_is_tried_again_elsewhere_than_on_this_machine() -> None:
    world = World([REFUSED, httpx.Response(200, json=JOB)])
    assert (await world.client().call("POST", "/v1/jobs/digest:trigger")).data == JOB
    world = World([REFUSED])
    with pytest.raises(Unreachable) as told:
        await create(world.client("http://127.0.0.1:8700"))
    assert (told.value.refused, told.value.idempotency_key) == (True, "key-1")
    assert len(world.requests) == 1


async def test_it_gives_up_at_the_deadline_by_the_clock_that_is_given() -> None:
    world = World([LOST], answer_takes_s=4.0)
    with pytest.raises(Unreachable) as told:
        await create(world.client(timeout_s=10.0))
    assert told.value.idempotency_key == "key-1"
    assert len(world.requests) == 3
    assert world.now_s - 1_000 == pytest.approx(12.3), "three answers of 4 s and two waits; no wait past the deadline"
    left = [request.extensions["timeout"]["read"] for request in world.requests]
    assert left == pytest.approx([10.0, 5.9, 1.7]), "each exchange has what is left"


async def test_it_gives_up_after_its_last_try() -> None:
    world = World([busy()], chance=0.0)
    with pytest.raises(StoreUnavailable):
        await create(world.client())
    assert len(world.requests) == MAX_TRIES


async def test_retry_after_is_waited_for_unless_it_lies_past_the_deadline() -> None:
    world = World([busy(**{"retry-after": "3"}), httpx.Response(201, json=JOB)])
    await create(world.client())
    assert world.waits == [3.1]
    world = World([busy(**{"retry-after": "60"}), httpx.Response(201, json=JOB)])
    with pytest.raises(StoreUnavailable):
        await create(world.client(timeout_s=10.0))
    assert world.waits == []


async def test_a_refusal_is_raised_as_the_error_of_its_status() -> None:
    with pytest.raises(NotFound) as told:
        await World([refusal(404, "JOB_NOT_FOUND")]).client().call("GET", "/v1/jobs/digest")
    assert told.value.detail == "not now"
    for url in ("ftp://x", "http://x:port"):
        with pytest.raises(InvalidInput):
            await AsyncClient(url).call("GET", "/v1/version")


async def test_a_token_is_asked_for_with_every_exchange() -> None:
    world = World([LOST, httpx.Response(200, json=JOB)])
    tokens = iter(["a", "b"])
    await world.client(token=lambda: next(tokens)).call("GET", "/v1/jobs/digest")
    assert [request.headers["authorization"] for request in world.requests] == ["Bearer a", "Bearer b"]


async def test_a_call_that_is_cancelled_is_not_made_again() -> None:
    world = World([LOST])

    async def cancelled(request: httpx.Request) -> httpx.Response:
        world.requests.append(request)
        raise asyncio.CancelledError

    client = AsyncClient("http://sched.example", transport=httpx.MockTransport(cancelled), sleep=world.sleep)
    with pytest.raises(asyncio.CancelledError):
        await create(client)
    assert (len(world.requests), world.waits) == (1, [])


async def test_it_asks_over_a_real_socket() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with AsyncClient(f"http://127.0.0.1:{port}") as client:
            assert (await client.call("GET", "/v1/version")).data == {}
    with pytest.raises(Unreachable) as told:
        await AsyncClient(f"http://127.0.0.1:{port}").call("GET", "/v1/version")
    assert told.value.refused


class Leaping(selectors.SelectSelector):
    """A selector that does not wait: it moves its clock by what it would have waited."""

    now_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        assert timeout is not None, "nobody would ever wake up"
        self.now_s += max(0.0, timeout)
        return super().select(0)


@pytest.fixture
def leaping() -> Iterator[asyncio.AbstractEventLoop]:
    """An event loop whose time is that of its timers."""
    selector = Leaping()
    loop = asyncio.SelectorEventLoop(selector)
    loop.time = lambda: selector.now_s  # type: ignore[method-assign]
    yield loop
    loop.close()


def test_a_transport_that_never_answers_ends_at_the_deadline_of_a_loop_in_virtual_time(
    leaping: asyncio.AbstractEventLoop,
) -> None:
    async def silent(request: httpx.Request) -> httpx.Response:
        await asyncio.Event().wait()
        raise AssertionError("nobody set it")

    async def ask() -> None:
        transport = httpx.MockTransport(silent)
        await create(
            AsyncClient("http://sched.example", timeout_s=3_600.0, transport=transport, monotonic=leaping.time)
        )

    with pytest.raises(Unreachable, match="gave no answer within 3600 s") as told:
        leaping.run_until_complete(ask())
    assert not told.value.refused
    assert leaping.time() == pytest.approx(3_600.0)


def outcome(error: SchedkitError) -> Mapping[str, Any]:
    return {
        "kind": type(error),
        "told": str(error),
        **{name: getattr(error, name) for name in ("reason", "why", "fix")},
    }


@pytest.mark.parametrize(
    "answer",
    [
        LOST,
        REFUSED,
        httpx.ConnectTimeout("slow"),
        httpx.ReadTimeout("slow"),
        httpx.RemoteProtocolError("nonsense"),
        httpx.UnsupportedProtocol("ftp"),
        busy(),
        refusal(429, "QUOTA_EXCEEDED"),
        httpx.Response(502, text="bad gateway"),
    ],
    ids=lambda answer: type(answer).__name__ if isinstance(answer, Exception) else str(answer.status_code),
)
async def test_it_fails_as_the_sync_client_does(answer: Any) -> None:
    sync, world = World([answer]), World([answer])

    def answered(request: httpx.Request) -> httpx.Response:
        sync.requests.append(request)
        if isinstance(answer, Exception):
            raise answer
        return again(answer)

    with pytest.raises(SchedkitError) as wanted:
        Client("http://sched.example", transport=httpx.MockTransport(answered), sleep=lambda seconds: None).create_job(
            {"name": "digest"}, idempotency_key="key-1"
        )
    with pytest.raises(SchedkitError) as told:
        await create(world.client())
    assert outcome(told.value) == outcome(wanted.value)
    assert len(world.requests) == len(sync.requests)
