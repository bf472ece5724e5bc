"""What happens, as server-sent events: each second a snapshot, events as they come, runs as they end.

    id: 4f1c-1042          where to go on: sent back as Last-Event-ID after a line that broke
    event: event | run | snapshot | gap | hello
    data: {…}              one line of JSON

A comment comes every ten seconds where there is nothing else to say. A reader that is too slow is told what it missed
(`gap`), and goes on from there. A stream ends by itself after some minutes, so that a key that was revoked reads no
more; whoever wants to go on asks again.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Protocol

import orjson
from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import StreamingResponse

from schedkit.api.access import CallerDep, Guarded, needs
from schedkit.api.jobs_in import instant_in
from schedkit.api.ops import snapshot_of, vitals_of
from schedkit.api.problems import refuses
from schedkit.api.requests import When, WorldDep
from schedkit.api.views import event_out, run_out
from schedkit.errors import InvalidInput, QuotaExceeded, Reason, StoreUnavailable
from schedkit.model.access import Caller, Role
from schedkit.model.events import Event, EventKind
from schedkit.model.keys import run_key
from schedkit.model.runs import run_of
from schedkit.model.time import MINUTE_MS, SECOND_MS, Instant
from schedkit.ports import World

TOPICS: Final = ("snapshot", "events", "runs")
MOST_READERS: Final = 100  # of one process: dashboards and people, not machines
BATCH: Final = 500  # events between two turns of everybody else
QUIET_S: Final = 10.0  # a proxy that hears nothing for long would hang up
TICK_MS: Final = SECOND_MS
LONGEST_KEPT_MS: Final = MINUTE_MS
SHARE: Final = 10  # a snapshot is kept ten times as long as it took
LONGEST_MS: Final = 10 * MINUTE_MS

router = APIRouter(prefix="/v1/ops", tags=["operate"], route_class=Guarded)


class Following(Protocol):
    """The events of this process, by number."""

    boot: str
    last: int
    closed: bool

    def after(self, number: int, limit: int) -> tuple[int, list[tuple[int, Event]]]: ...

    def since(self, at: Instant) -> int: ...

    async def wait(self, number: int, at_most_s: float) -> None: ...


@dataclass(slots=True)
class Nothing:
    """The feed of a process that keeps none: a stream of it ends at once."""

    boot: str = "0"
    last: int = 0
    closed: bool = True

    def after(self, number: int, limit: int) -> tuple[int, list[tuple[int, Event]]]:
        return 0, []

    def since(self, at: Instant) -> int:
        return 0

    async def wait(self, number: int, at_most_s: float) -> None: ...


@dataclass(slots=True)
class Streams:
    """What the streams of an app share: the feed, their number, and a snapshot a second for all who see the same."""

    feed: Following = field(default_factory=Nothing)
    open: int = 0
    _kept: dict[tuple[str, str | None], tuple[Instant, bytes]] = field(default_factory=dict)  # until when, and what
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def snapshot(
        self, caller: Caller, now: Callable[[], Instant], build: Callable[[], Awaitable[Mapping[str, Any]]]
    ) -> bytes:
        """The snapshot of this second for this caller's team or tenant, as JSON.

        One that takes long to build is kept for longer, so that they never take more than a tenth of the time.
        """
        audience = caller.tenant_id, caller.reach
        async with self._lock:
            began = now()
            fresh = {who: kept for who, kept in self._kept.items() if 0 < kept[0] - began <= LONGEST_KEPT_MS}
            if audience not in fresh:
                built = orjson.dumps(await build())
                kept_ms = max(TICK_MS, min(LONGEST_KEPT_MS, SHARE * (now() - began)))
                fresh[audience] = began + kept_ms, built
            self._kept = fresh
            return fresh[audience][1]


@dataclass(frozen=True, slots=True)
class Wish:
    """What a reader wants to hear of, and from where on. `follow`: it stays for what is to come."""

    topics: frozenset[str]
    kinds: frozenset[str]
    number: int
    restarted: bool
    follow: bool


FRAME: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "id": {"type": "string", "description": "where to go on"},
        "event": {"enum": ["hello", "gap", "snapshot", "event", "run"]},
        "data": {"type": "string", "contentMediaType": "application/json"},
    },
    "required": ["event", "data"],
}
FRAMES: Final[dict[int | str, dict[str, Any]]] = {200: {"content": {"text/event-stream": {"schema": FRAME}}}}


def _commas(words: Iterable[str]) -> dict[str, Any]:
    """In the document: some of these words, with commas between."""
    return {"pattern": "^({0})(,({0}))*$".format("|".join(words))}


@router.get("/stream", summary="What happens, as server-sent events", responses=FRAMES | refuses(429))
@needs(Role.VIEWER)
async def stream(
    request: Request,
    world: WorldDep,
    caller: CallerDep,
    topics: Annotated[str, Query(json_schema_extra=_commas(TOPICS))] = "snapshot",
    kinds: Annotated[str | None, Query(json_schema_extra=_commas(EventKind))] = None,
    since: When = None,
    follow: bool = True,
    last_event_id: Annotated[str | None, Header(alias="Last-Event-ID", description="where to go on")] = None,
) -> StreamingResponse:
    """`topics`: snapshot, events, runs. `kinds`: run, lease, redrive, audit, alert. `since`: as far as memory goes.

    Without `follow` it ends when it has said what there is.
    """
    streams = request.app.state.streams
    assert isinstance(streams, Streams), "the app is made with its streams"
    wish = _wish(streams.feed, topics, kinds, instant_in(since, "since"), last_event_id, follow)
    if streams.open >= MOST_READERS:
        raise QuotaExceeded(
            Reason.QUOTA_EXCEEDED,
            f"{streams.open} streams are open, and that is as many as there may be",
            why="each of them takes a little of what the scheduler needs to be on time",
            fix=("close a dashboard that nobody looks at",),
            retry_after_seconds=10,
            extra={"scope": "streams"},
        )
    vitals = vitals_of(request)

    async def snapshot() -> bytes:
        return await streams.snapshot(caller, world.clock.now, lambda: snapshot_of(vitals, world, caller))

    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(
        _counted(streams, told(world, caller, streams.feed, wish, snapshot)),
        media_type="text/event-stream",
        headers=headers,
    )


async def _counted(streams: Streams, frames: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    streams.open += 1
    try:
        async for frame in frames:
            yield frame
    finally:
        streams.open -= 1


async def told(
    world: World, caller: Caller, feed: Following, wish: Wish, snapshot: Callable[[], Awaitable[bytes]]
) -> AsyncIterator[bytes]:
    """The frames of one stream, several in one piece where they come together."""
    number, began = wish.number, world.clock.now()
    tick = began if "snapshot" in wish.topics else None
    yield _frame("hello", orjson.dumps({"boot": feed.boot}), f"{feed.boot}-{number}")
    if wish.restarted:
        yield _frame("gap", orjson.dumps({"lost": None, "why": "the scheduler was started anew"}))
    while True:
        pieces: list[bytes] = []
        lost, events = feed.after(number, BATCH)
        if lost:
            pieces.append(_frame("gap", orjson.dumps({"lost": lost, "why": "they came faster than they were read"})))
        for at, event in events:
            pieces += await _frames(world, caller, wish, event, f"{feed.boot}-{at}")
        number = events[-1][0] if events else number + lost
        if tick is not None and not 0 < tick - world.clock.now() <= TICK_MS:
            pieces.append(_frame("snapshot", await snapshot()))
            tick = world.clock.now() + TICK_MS
        if pieces:
            yield b"".join(pieces)
        caught_up = number >= feed.last
        if caught_up and (not wish.follow or feed.closed or not 0 <= world.clock.now() - began < LONGEST_MS):
            return
        if not caught_up:
            await world.clock.sleep(0)  # everybody else has a turn between two batches
            continue
        await feed.wait(number, QUIET_S if tick is None else TICK_MS / SECOND_MS)
        if number >= feed.last and tick is None and not feed.closed:
            yield b": nothing new\n\n"


async def _frames(world: World, caller: Caller, wish: Wish, event: Event, place: str) -> list[bytes]:
    """What one event is to this reader; the last frame of it has its place, since who has that has all of them."""
    if not event.shown_to(caller):
        return []
    said: list[tuple[str, Any]] = []
    if "events" in wish.topics and (not wish.kinds or event.kind in wish.kinds):
        said.append(("event", event_out(event)))
    if "runs" in wish.topics and event.ended and event.scheduled_for is not None:
        try:
            item = await world.store.get(run_key(event.about, event.scheduled_for))
        except StoreUnavailable:
            item = None
        if item is not None:
            said.append(("run", run_out(run_of(item))))
    last = len(said) - 1
    return [_frame(name, orjson.dumps(doc), place if n == last else None) for n, (name, doc) in enumerate(said)]


def _frame(name: str, data: bytes, place: str | None = None) -> bytes:
    head = f"id: {place}\n".encode() if place is not None else b""
    return b"%bevent: %b\ndata: %b\n\n" % (head, name.encode(), data)


def _wish(
    feed: Following, topics: str, kinds: str | None, since: Instant | None, last_id: str | None, follow: bool
) -> Wish:
    """Raises InvalidInput for a topic or a kind that there is not, and for an id that no stream gave."""
    wanted = frozenset(_words(topics, TOPICS, "topics"))
    of_kind = frozenset[str]() if kinds is None else frozenset(_words(kinds, tuple(EventKind), "kinds"))
    number, restarted = feed.last if since is None else feed.since(since), False
    if last_id is not None:
        boot, _, text = last_id.rpartition("-")
        if not re.fullmatch("[0-9]{1,15}", text):
            raise InvalidInput(
                Reason.INVALID_HEADER, f"{last_id[:60]!r} is no id of an event", field="Last-Event-ID",
                fix=("send back an id as it came, or none",),
            )  # fmt: skip
        restarted = boot != feed.boot
        number = 0 if restarted else min(int(text), feed.last)
    return Wish(wanted, of_kind, number, restarted, follow)


def _words(text: str, known: tuple[str, ...], name: str) -> list[str]:
    words = [word.strip() for word in text.split(",")]
    for word in words:
        if word not in known:
            raise InvalidInput(
                Reason.INVALID_ARGUMENT, f"{name}: {word[:40]!r} is none of {', '.join(known)}", field=name
            )
    return words
