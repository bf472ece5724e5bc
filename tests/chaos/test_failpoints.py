"""Failpoints: what a value says, what a process does to itself there, and that nothing is wrapped without one."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from schedkit.adapters import failpoints
from schedkit.adapters.failpoints import Failpoint, Point, TrappedStore, armed, bare, read
from schedkit.adapters.memory.buckets import MemoryBuckets
from schedkit.adapters.memory.queue import MemoryQueue
from schedkit.adapters.memory.store import MemoryStore
from schedkit.adapters.system import SystemChance, SystemClock
from schedkit.errors import InvalidInput
from schedkit.model.calls import Answered, Call, Reply
from schedkit.model.time import rfc3339
from schedkit.model.writes import Applied, Outcome, Write
from schedkit.ports import World
from schedkit.sim.history import History
from tests.chaos.machines import State, up
from tests.conformance.items import A, create
from tests.e2e.processes import target, until

CALL = Call("http://127.0.0.1:9/", "POST", {}, None, 1_000)


class Answers:
    async def call(self, call: Call) -> Reply:
        return Answered(200)


def world() -> World:
    clock = SystemClock()
    return World(clock, SystemChance(), MemoryStore(), MemoryBuckets(clock), MemoryQueue(clock), Answers(), "node-1")


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("after_call:stop", [Failpoint(Point.AFTER_CALL, "stop")]),
        ("before_commit:kill:0.12", [Failpoint(Point.BEFORE_COMMIT, "kill", 0.12)]),
        (
            "before_call:kill:1, after_commit:stop:0.5",
            [Failpoint(Point.BEFORE_CALL, "kill", 1.0), Failpoint(Point.AFTER_COMMIT, "stop", 0.5)],
        ),
        ("", []),
    ],
)
def test_a_value_names_points_actions_and_probabilities(text: str, meant: list[Failpoint]) -> None:
    assert list(read(text)) == meant


@pytest.mark.parametrize(
    "text", ["after_call", "after_call:pause", "during_call:stop", "after_call:stop:2", "after_call:stop:0", "stop:x"]
)
def test_a_value_that_is_not_understood_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(InvalidInput, match="is no failpoint") as refused:
        read(text)
    assert "SCHEDKIT_FAILPOINT=after_call:stop:0.12" in refused.value.fix[1]


@pytest.mark.parametrize("text", [None, ""])
def test_without_a_value_nothing_is_wrapped(text: str | None) -> None:
    plain = world()
    assert armed(plain, text) is plain
    assert bare(plain.store) is plain.store


async def test_each_point_is_passed_at_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    passed: list[signal.Signals] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: passed.append(number))
    plain = world()
    trapped = armed(plain, "before_commit:stop,after_commit:kill,before_call:kill,after_call:stop")
    assert bare(trapped.store) is plain.store
    assert bare(trapped.targets) is plain.targets
    assert isinstance(await trapped.store.apply(create(A, n=1)), Applied)
    assert passed == [signal.SIGSTOP, signal.SIGKILL]
    assert await trapped.store.get(A) == {"n": 1}
    assert await trapped.targets.call(CALL) == Answered(200)
    assert passed[2:] == [signal.SIGKILL, signal.SIGSTOP]


async def test_a_stop_waits_until_no_write_is_under_way_and_holds_up_new_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stopped process that had the lock of a file would stop all others with it."""
    happened: list[Any] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: happened.append("stop"))
    landing = asyncio.Event()
    plain = world()

    async def slowly(writes: list[Write]) -> Outcome:
        happened.append("asked")
        await landing.wait()
        happened.append("written")
        return Applied(tuple({} for _ in writes))

    monkeypatch.setattr(plain.store, "apply_all", slowly)
    trap = failpoints.Trap(plain.chance, read("after_call:stop"))
    store = TrappedStore(plain.store, trap)
    first = asyncio.ensure_future(store.apply(create(A, n=1)))
    await asyncio.sleep(0)
    stopping = asyncio.ensure_future(trap.passing(Point.AFTER_CALL))
    await asyncio.sleep(0)
    second = asyncio.ensure_future(store.apply(create(A, n=2)))
    await asyncio.sleep(0)
    assert happened == ["asked"]
    landing.set()
    await asyncio.gather(first, stopping, second)
    assert happened == ["asked", "written", "stop", "asked", "written"]


def test_a_process_stops_itself_with_a_finished_call_in_hand_and_goes_on_when_continued(tmp_path: Path) -> None:
    machine = up("main", tmp_path, History(lambda: 0), 0)
    try:
        machine.boot("after_call:stop")
        machine.wait_ready()
        with target() as there:
            due = rfc3339(int(time.time() * 1_000) + 200)
            body = {"schedule": {"type": "ONCE", "run_at": due}, "target": {"url": there.url}}
            job = httpx.post(f"{machine.url}/v1/jobs", json=body, timeout=10).json()["job_id"]
            until(lambda: machine.state is State.STOPPED or None, "the stop")
            there.wait_for(1)
            machine.cont()

            def completed() -> bool | None:
                return httpx.get(f"{machine.url}/v1/jobs/{job}", timeout=10).json()["status"] == "COMPLETED" or None

            until(completed, "the end of the job")
            assert len(there.calls) == 1
    finally:
        machine.end()
