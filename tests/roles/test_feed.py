"""The feed: events of writes that landed, kept in a ring that no reader holds up or makes grow."""

from __future__ import annotations

import asyncio
import logging

import pytest

from schedkit.adapters.observed import ObservedStore
from schedkit.model.events import Event, EventKind
from schedkit.roles.feed import Alerts, Feed
from tests.conformance.items import A, create, if_is, put
from tests.roles.test_workers import QUEUE, poll, say
from tests.worlds import HANGS, ManualClock, Virtual, once


def event(number: int) -> Event:
    return Event(EventKind.RUN, "settle", number, f"job_x:{number}")


def feed(kept: int = 4) -> Feed:
    return Feed(ManualClock(0), "boot", kept)


def numbers(found: tuple[int, list[tuple[int, Event]]]) -> tuple[int, list[int]]:
    lost, events = found
    assert all(event.at == number for number, event in events)
    return lost, [number for number, _ in events]


def test_a_reader_goes_on_after_its_last_one_and_is_told_what_it_missed() -> None:
    ring = feed()
    assert numbers(ring.after(0, 10)) == (0, [])
    for number in range(1, 4):
        ring.add(event(number))
    assert numbers(ring.after(0, 10)) == (0, [1, 2, 3])
    assert numbers(ring.after(1, 1)) == (0, [2])
    for number in range(4, 11):
        ring.add(event(number))
    assert numbers(ring.after(3, 10)) == (3, [7, 8, 9, 10]), "4, 5 and 6 are gone"
    assert numbers(ring.after(3, 2)) == (3, [7, 8])
    assert numbers(ring.after(10, 10)) == (0, [])


def test_a_reader_may_begin_at_a_time() -> None:
    ring = feed()
    for number in range(1, 11):
        ring.add(event(number))
    assert [ring.since(at) for at in (0, 7, 8, 10, 11)] == [6, 6, 7, 9, 10]


async def test_a_reader_waits_for_news_and_no_longer() -> None:
    ring = feed()
    await ring.wait(0, 0.001)
    waiting = asyncio.create_task(ring.wait(0, 60))
    await asyncio.sleep(0)
    ring.add(event(1))
    await waiting
    await ring.wait(0, 60)
    closing = asyncio.create_task(ring.wait(1, 60))
    await asyncio.sleep(0)
    ring.close()
    await closing


async def test_a_write_that_was_refused_tells_nothing() -> None:
    told: list[str] = []
    world = Virtual()
    store = ObservedStore(world.store, lambda writes, items: told.extend(write.arrow for write in writes))
    await store.apply(create(A, n=1))
    await store.apply(create(A, n=2))
    await store.apply_all([put(A, if_is("n", 2), n=3)])
    assert told == ["test"]


async def test_warnings_of_the_log_are_alerts_from_whatever_thread() -> None:
    ring = feed(100)
    log = logging.getLogger("tests.alerts")
    log.addHandler(handler := Alerts(ring, ManualClock(5)))
    log.info("nothing")
    await asyncio.to_thread(log.warning, "%d timers were late", 3)
    await asyncio.sleep(0)
    log.removeHandler(handler)
    ((_, found),) = ring.after(0, 10)[1]
    assert (found.kind, found.what, found.at, found.subject) == (EventKind.ALERT, "WARNING", 5, "alerts")
    assert found.facts["text"] == "3 timers were late"


def listening(world: Virtual) -> Feed:
    """Everything that is written from now on is told."""
    ring = Feed(world.clock, "boot")
    world.store = ObservedStore(world.store, ring.heard)
    world.line._store = world.store
    return ring


def told(ring: Feed) -> list[tuple[str, str]]:
    return [(event.kind.value, event.what) for _, event in ring.after(0, 1_000)[1]]


async def test_the_life_of_runs_is_told_without_their_heartbeats() -> None:
    async with Virtual() as world:
        ring = listening(world)
        await world.boot()
        await world.create(once("2026-06-01T12:00:01Z"))
        await world.wait(seconds=2)
        await world.create(once("2026-06-01T12:00:10Z"), target=QUEUE)
        await world.wait(seconds=10)
        (task,) = await poll(world)
        await say(world, "heartbeat", task["run_id"], epoch=1)
        await say(world, "complete", task["run_id"], epoch=1, outcome="FAILED", error="no", retryable=False)
        await world.ask("POST", f"/v1/runs/{task['run_id']}:retry")
        assert [line for line in told(ring) if line[0] != "audit"] == [
            ("lease", "claim"),
            ("run", "settle SUCCEEDED"),
            ("run", "ready"),
            ("lease", "claim"),
            ("run", "settle FAILED"),
            ("run", "redrive"),
        ]
        ended = [event.subject for _, event in ring.after(0, 1_000)[1] if event.ended]
        assert len(ended) == 2
        assert ended[1] == task["run_id"]
        assert {what for kind, what in told(ring) if kind == "audit"} == {"create_job", "retry_run"}


async def test_what_a_run_carries_is_not_in_its_events() -> None:
    """The ring is small because events are: no payload, no result, no attempts."""
    async with Virtual() as world:
        ring = listening(world)
        await world.boot()
        world.targets.always = HANGS
        await world.create(once("2026-06-01T12:00:01Z"), payload={"secret": "x" * 1_000})
        await world.wait(seconds=200)
        assert len(ring.after(0, 1_000)[1]) > 3
        assert max(len(repr(event)) for _, event in ring.after(0, 1_000)[1]) < 1_000


@pytest.mark.parametrize("past", [False, True], ids=["redrive", "backfill"])
async def test_a_redrive_or_a_backfill_is_told_at_its_turns(past: bool) -> None:
    async with Virtual() as world:
        ring = listening(world)
        await world.boot(redriving=True)
        job = await world.create("0 8 * * *")
        span: dict[str, object] = {"from": "2026-06-01T00:00:00Z", "to": "2026-06-01T01:00:00Z"}
        path, body = (f"/v1/jobs/{job['job_id']}:backfill", span) if past else ("/v1/dlq:redrive", {"filter": {}})
        await world.ask("POST", path, json=body)
        await world.wait(seconds=10)
        found = [what for kind, what in told(ring) if kind == "redrive"]
        assert found[0] == "plan redrive"
        assert found[-1] == "turn DONE"
        assert "follow" not in found
