"""A scheduler over a store that was put back from a backup: what runs again, under which tokens, and what does not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from copy import deepcopy
from dataclasses import replace
from typing import Any

from schedkit.adapters.memory.store import MemoryStore
from schedkit.engine.restoring import mark
from schedkit.model.runs import RunStatus
from schedkit.model.time import parse_rfc3339, rfc3339
from schedkit.roles.recovery import take_back
from tests.roles.test_workers import QUEUE, one_task, poll, say
from tests.worlds import HANGS, Virtual, once, virtual


def copy_of(world: Virtual) -> MemoryStore:
    """A backup: the store as it stands now."""
    return deepcopy(world.store)  # type: ignore[return-value]


@asynccontextmanager
async def restored(store: MemoryStore, taken_at: str, at: str) -> AsyncIterator[Virtual]:
    """A scheduler that starts on a backup, at a later time."""
    async with Virtual(at, store=store, seed=2) as world:
        floor = world.clock.now()
        await store.apply(mark(parse_rfc3339(taken_at), floor))
        await take_back(replace(world.new_world(), epoch_floor=floor))
        await world.boot()
        yield world


async def test_a_run_that_ended_after_the_backup_is_called_again_under_its_key_and_a_higher_token() -> None:
    """C4: the target saw tokens after the backup; it sees no lower one, and none twice."""
    async with virtual() as (world, _):
        world.targets.always = HANGS
        job = await world.create(once("2026-06-01T12:00:10Z"))
        backup = copy_of(world)
        await world.wait(seconds=120)  # attempts that the backup knows nothing of
        before = list(world.targets.calls)
    assert len(before) >= 2
    async with restored(backup, "2026-06-01T12:00:00Z", "2026-06-01T12:05:00Z") as world:
        await world.wait(seconds=1)
        (again,) = world.targets.calls
        assert again.key == before[0].key == f"{job['job_id']}:2026-06-01T12:00:10Z"
        assert again.token > max(made.token for made in before)
        assert (await world.job(job["job_id"])).status == "COMPLETED"


async def test_two_schedulers_from_one_backup_never_share_a_token() -> None:
    async with virtual() as (world, _):
        await world.create("* * * * *")
        backup = copy_of(world)
    tokens: dict[str, list[int]] = {}
    for at in ("2026-06-01T12:05:00Z", "2026-06-01T12:06:30Z"):
        async with restored(deepcopy(backup), "2026-06-01T12:00:00Z", at) as world:
            await world.wait(minutes=3)
            for made in world.targets.calls:
                tokens.setdefault(made.key, []).append(made.token)
    assert any(len(given) > 1 for given in tokens.values())
    for given in tokens.values():
        assert given == sorted(set(given))


async def test_what_was_running_at_the_backup_starts_again_at_once() -> None:
    async with virtual() as (world, _):
        world.targets.always = HANGS
        await world.create(
            once("2026-06-01T12:00:10Z"), target={"url": "http://target.example/", "timeout_seconds": 300}
        )
        await world.wait(seconds=11)
        backup = copy_of(world)
    async with restored(backup, "2026-06-01T12:00:11Z", "2026-06-01T12:00:30Z") as world:
        await world.wait(ms=100)
        assert [made.attempt for made in world.targets.calls] == [1], "the same attempt, and no wait for its lease"


async def test_what_was_due_since_the_backup_follows_the_misfire_policy() -> None:
    async with virtual() as (world, _):
        once_only = await world.create("*/10 * * * *")
        every = await world.create("*/10 * * * *", misfire_policy="RUN_ALL")
        none = await world.create("*/10 * * * *", misfire_policy="SKIP")
        backup = copy_of(world)
    async with restored(backup, "2026-06-01T12:00:00Z", "2026-06-01T12:34:00Z") as world:
        await world.wait(seconds=5)
        assert await world.told(once_only["job_id"]) == [
            ("12:10:00", "MISFIRED"), ("12:20:00", "MISFIRED"), ("12:30:00", "SUCCEEDED"),
        ]  # fmt: skip
        assert [status for _, status in await world.told(every["job_id"])] == ["SUCCEEDED"] * 3
        assert [status for _, status in await world.told(none["job_id"])] == ["MISFIRED"] * 3


async def test_at_most_once_is_not_called_for_a_time_before_the_restore() -> None:
    """C7: the occurrence may have been called after the backup was taken, so it ends UNKNOWN; the next one runs."""
    async with virtual() as (world, _):
        job = await world.create("* * * * *", delivery="AT_MOST_ONCE")
        queued = await world.create("* * * * *", delivery="AT_MOST_ONCE", target=QUEUE)
        backup = copy_of(world)
    async with restored(backup, "2026-06-01T12:00:00Z", "2026-06-01T12:01:30Z") as world:
        await world.wait(seconds=5)
        assert world.targets.calls == []
        assert await poll(world) == []
        assert [status for _, status in await world.told(job["job_id"])] == ["UNKNOWN"]
        assert [status for _, status in await world.told(queued["job_id"])] == ["UNKNOWN"]
        dead = await world.ask("GET", "/v1/dlq")
        assert len(dead["items"]) == 2, "a person finds out, and settles it or starts it again"
        for item in dead["items"]:
            await world.ask("POST", f"/v1/runs/{item['run_id']}:retry", json={"include_unknown": True})
        await world.wait(seconds=1)
        assert (len(world.targets.calls), len(await poll(world))) == (1, 1)


async def test_a_worker_from_before_the_restore_changes_nothing() -> None:
    """C5: what it holds is another world's; the run goes to whoever asks next, under a higher epoch."""
    async with virtual() as (world, _):
        task = await one_task(world)
        backup = copy_of(world)
        taken_at = rfc3339(world.clock.now())
    async with restored(backup, taken_at, "2026-06-01T12:00:30Z") as world:
        for verb, body in (
            ("heartbeat", {}),
            ("complete", {"outcome": "SUCCEEDED"}),
            ("complete", {"outcome": "FAILED", "error": "x"}),
            ("release", {}),
        ):
            status, refusal = await say(world, verb, task["run_id"], epoch=task["epoch"], **body)
            assert (status, refusal["reason"]) == (409, "EPOCH_SUPERSEDED"), verb
        (again,) = await poll(world, "w-2")
        assert again["run_id"] == task["run_id"]
        assert again["epoch"] > task["epoch"] + 1_000_000
        status, run = await say(world, "complete", again["run_id"], epoch=again["epoch"], outcome="SUCCEEDED")
        assert (status, run["status"]) == (200, "SUCCEEDED"), "an epoch of today's size goes in and out of the API"


async def test_a_worker_s_run_that_may_run_once_only_is_unknown_after_a_restore() -> None:
    async with virtual() as (world, _):
        task = await one_task(world, delivery="AT_MOST_ONCE")
        backup = copy_of(world)
    async with restored(backup, "2026-06-01T12:00:10Z", "2026-06-01T12:00:30Z") as world:
        run: dict[str, Any] = await world.ask("GET", f"/v1/runs/{task['run_id']}")
        assert run["status"] == RunStatus.UNKNOWN
        await world.wait(minutes=1)
        assert (await world.job(task["job_id"])).status == "FAILED", "its job comes to hear of it"
