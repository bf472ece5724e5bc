"""GET /v1/ops/stream: frames, places to go on from, gaps, and who hears of what (A5)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from schedkit.api import stream
from schedkit.api.stream import Streams, Wish, told
from schedkit.model.access import Caller, Role
from schedkit.model.events import Event, EventKind
from schedkit.roles.feed import Feed
from tests.api.asking import refused
from tests.worlds import Virtual, once

ADMIN = Caller("default", "default", Role.ADMIN)


def wish(
    *topics: str, kinds: tuple[str, ...] = (), number: int = 0, restarted: bool = False, follow: bool = False
) -> Wish:
    return Wish(frozenset(topics or ("events",)), frozenset(kinds), number, restarted, follow)


async def no_snapshot() -> bytes:
    return b'{"n":1}'


def parsed(text: bytes) -> list[tuple[str, Any, str | None]]:
    """(event, document, place) of each frame; comments left out."""
    found = []
    for frame in text.decode().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in frame.splitlines() if not line.startswith(":"))
        if fields:
            found.append((fields["event"], json.loads(fields["data"]), fields.get("id")))
    return found


async def all_of(frames: AsyncIterator[bytes]) -> list[tuple[str, Any, str | None]]:
    return parsed(b"".join([frame async for frame in frames]))


def event(
    n: int, kind: EventKind = EventKind.RUN, tenant: str | None = "default", team: str | None = "default"
) -> Event:
    return Event(kind, f"e{n}", n, f"s{n}", tenant_id=tenant, team_id=team)


async def heard(feed: Feed, caller: Caller = ADMIN, **rest: Any) -> list[str]:
    async with Virtual() as world:
        frames = await all_of(told(world.new_world(), caller, feed, wish(**rest), no_snapshot))
    return [doc.get("what") or name for name, doc, _ in frames]


def ring(*events: Event, kept: int = 10) -> Feed:
    feed = Feed(Virtual().clock, "boot", kept)
    for one in events:
        feed.add(one)
    return feed


async def test_events_come_in_order_each_with_the_place_to_go_on_from() -> None:
    async with Virtual() as world:
        feed = ring(event(1), event(2))
        frames = await all_of(told(world.new_world(), ADMIN, feed, wish(), no_snapshot))
    assert [(name, place) for name, _, place in frames] == [
        ("hello", "boot-0"), ("event", "boot-1"), ("event", "boot-2"),
    ]  # fmt: skip
    assert frames[1][1] == {
        "kind": "run", "what": "e1", "at": "1970-01-01T00:00:00.001Z", "subject": "s1", "who": None,
        "team_id": "default",
    }  # fmt: skip


async def test_who_missed_some_is_told_how_many_and_goes_on() -> None:
    many = ring(*[event(n) for n in range(1, 21)], kept=3)
    assert await heard(many, number=5) == ["hello", "gap", "e18", "e19", "e20"]
    assert await heard(many, number=18) == ["hello", "e19", "e20"]
    assert await heard(ring(event(1)), restarted=True) == ["hello", "gap", "e1"], "another process's numbers"


async def test_kinds_are_filtered() -> None:
    both = ring(event(1), event(2, EventKind.LEASE), event(3, EventKind.AUDIT))
    assert await heard(both, kinds=("lease", "audit")) == ["hello", "e2", "e3"]


@pytest.mark.parametrize(
    ("caller", "sees"),
    [
        (Caller("default", "default", Role.ADMIN), ["own", "other team", "every team", "audit", "alert"]),
        (Caller("default", "default", Role.VIEWER), ["own", "every team"]),
        (Caller("default", "default", Role.OPERATOR), ["own", "every team"]),
        (Caller("acme", "default", Role.ADMIN), ["other tenant"]),
        (Caller("acme", "other", Role.VIEWER), []),
    ],
    ids=["admin", "viewer", "operator", "another tenant's admin", "another tenant's viewer"],
)
async def test_each_hears_of_what_is_theirs(caller: Caller, sees: list[str]) -> None:
    """A3: another team's and another tenant's are not there; the audit log and the scheduler's own are for admins."""
    feed = ring(
        Event(EventKind.RUN, "own", 1, "s", tenant_id="default", team_id="default"),
        Event(EventKind.LEASE, "other team", 1, "s", tenant_id="default", team_id="payments"),
        Event(EventKind.REDRIVE, "every team", 1, "s", tenant_id="default", team_id="default"),
        Event(EventKind.AUDIT, "audit", 1, "s", tenant_id="default", team_id="default"),
        Event(EventKind.ALERT, "alert", 1, "s"),
        Event(EventKind.RUN, "other tenant", 1, "s", tenant_id="acme", team_id="default"),
    )
    assert (await heard(feed, caller))[1:] == sees


async def test_a_run_that_ended_comes_as_it_stands() -> None:
    async with Virtual() as world:
        feed = Feed(world.clock, "boot")
        process = await world.boot()
        await world.create(once("2026-06-01T12:00:01Z"))
        await world.wait(seconds=2)
        (run,) = process.settled
        about, when = run.job_id, run.scheduled_for
        feed.add(Event(EventKind.LEASE, "claim", 0, about, tenant_id="default", team_id="default"))
        feed.add(Event(EventKind.RUN, "settle", 0, about, None, "default", "default", {"final": True}, when))
        frames = await all_of(told(process.world, ADMIN, feed, wish("runs"), no_snapshot))
    (_, (name, doc, place)) = frames
    assert (name, doc["run_id"], doc["status"], place) == ("run", run.run_id, "SUCCEEDED", "boot-2")


async def test_one_snapshot_a_second_is_built_for_all_who_see_the_same() -> None:
    built = []

    async def build() -> dict[str, Any]:
        built.append(1)
        return {"number": len(built)}

    async def at(now: int, caller: Caller = ADMIN) -> bytes:
        return await streams.snapshot(caller, lambda: now, build)

    streams = Streams()
    viewer, other = Caller("default", "a", Role.VIEWER), Caller("default", "b", Role.VIEWER)
    for now in (0, 500, 999):
        assert await at(now) == b'{"number":1}'
    assert await at(500, viewer) == b'{"number":2}'
    assert await at(500, other) == b'{"number":3}'
    assert await at(1_000) == b'{"number":4}'
    assert await at(-60_000) == b'{"number":5}', "a clock that was set back"


async def test_a_snapshot_that_takes_long_is_built_less_often() -> None:
    clock = [0]

    async def build() -> dict[str, Any]:
        clock[0] += 3_000
        return {"at": clock[0]}

    streams, built = Streams(), set()
    while clock[0] < 60_000:
        built.add(await streams.snapshot(ADMIN, lambda: clock[0], build))
        clock[0] += 1_000
    assert len(built) == 2


async def test_a_snapshot_comes_each_second_and_a_stream_ends_when_it_must() -> None:
    async with Virtual() as world:
        feed = Feed(world.clock, "boot")
        frames = told(world.new_world(), ADMIN, feed, wish("snapshot", follow=True), no_snapshot)
        assert [name for name, _, _ in parsed(await anext(frames) + await anext(frames))] == ["hello", "snapshot"]
        world.clock.jump(1_000)
        feed.add(event(1))
        assert [name for name, _, _ in parsed(await anext(frames))] == ["snapshot"]
        world.clock.jump(stream.LONGEST_MS)
        feed.add(event(2))
        assert [name for name, _, _ in parsed(await anext(frames))] == ["snapshot"]
        with pytest.raises(StopAsyncIteration):
            await anext(frames)


async def test_a_stream_ends_with_its_process() -> None:
    async with Virtual() as world:
        feed = Feed(world.clock, "boot")
        frames = told(world.new_world(), ADMIN, feed, wish(follow=True), no_snapshot)
        await anext(frames)
        feed.close()
        with pytest.raises(StopAsyncIteration):
            await anext(frames)


async def test_what_is_asked_for_is_checked_at_the_door() -> None:
    async with Virtual() as world:
        for query, headers, reason in (
            ("topics=everything", {}, "INVALID_ARGUMENT"),
            ("topics=events&kinds=rumour", {}, "INVALID_ARGUMENT"),
            ("topics=events&kinds=", {}, "INVALID_ARGUMENT"),
            ("topics=events,", {}, "INVALID_ARGUMENT"),
            ("since=yesterday", {}, "INVALID_ARGUMENT"),
            ("bogus=1", {}, "INVALID_ARGUMENT"),
            ("topics=events", {"Last-Event-ID": "no id"}, "INVALID_HEADER"),
        ):
            refused(await world.api.get(f"/v1/ops/stream?{query}", headers=headers), 400, reason)
        squared = {b"Last-Event-ID": b"b-\xb2"}  # a digit to str.isdigit, and no number to int
        refused(await world.api.get("/v1/ops/stream", headers=squared), 400, "INVALID_HEADER")
        answer = await world.api.get("/v1/ops/stream", params={"topics": "snapshot,events"})
        assert answer.headers["content-type"].startswith("text/event-stream")
        names = [name for name, _, _ in parsed(answer.content)]
        assert names == ["hello", "snapshot"], "and a world without a feed has nothing more to say"


async def test_there_are_only_so_many_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "MOST_READERS", 0)
    async with Virtual() as world:
        refused(await world.api.get("/v1/ops/stream"), 429, "QUOTA_EXCEEDED")
