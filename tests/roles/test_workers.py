"""Pull workers (H4, H5): what is handed out, kept, ended and given back, through the API of a running scheduler."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from schedkit.model.runs import RunStatus
from tests.worlds import Virtual, virtual

QUEUE: dict[str, Any] = {"type": "TASK_QUEUE", "task_queue": "ledger"}


async def poll(world: Virtual, worker: str = "w-1", **body: Any) -> list[dict[str, Any]]:
    """One poll that does not wait."""
    answer = await world.ask(
        "POST", "/v1/task-queues/ledger/tasks:poll", json={"worker_id": worker, "max_tasks": 10} | body
    )
    tasks: list[dict[str, Any]] = answer["tasks"]
    return tasks


async def say(world: Virtual, verb: str, run_id: str, **body: Any) -> tuple[int, dict[str, Any]]:
    answer = await world.api.post(f"/v1/runs/{run_id}:{verb}", json=body)
    return answer.status_code, answer.json()


async def keep_alive(world: Virtual, worker: str = "other") -> None:
    """A worker that is heard of all the time, and takes nothing."""
    while True:
        await world.api.post("/v1/task-queues/none/tasks:poll", json={"worker_id": worker, "max_tasks": 1})
        await world.clock.sleep(5_000)


async def one_task(world: Virtual, **fields: Any) -> dict[str, Any]:
    await world.create({"type": "ONCE", "run_at": "2026-06-01T12:00:10Z"}, target=QUEUE, **fields)
    await world.wait(seconds=10)
    (task,) = await poll(world)
    return task


async def test_a_task_is_handed_out_from_its_time_on_with_all_that_its_worker_needs() -> None:
    async with virtual() as (world, _):
        job = await world.create(
            {"type": "ONCE", "run_at": "2026-06-01T12:00:10Z"},
            target=QUEUE | {"task_type": "rebuild", "timeout_seconds": 3_600},
            payload={"ledger": "EU-2"},
            name="rebuild",
        )
        await world.wait(seconds=9)
        assert await poll(world) == []
        await world.wait(seconds=1)
        (task,) = await poll(world)
        assert task == {
            "run_id": f"{job['job_id']}:2026-06-01T12:00:10Z",
            "job_id": job["job_id"],
            "job_name": "rebuild",
            "task_queue": "ledger",
            "task_type": "rebuild",
            "scheduled_for": "2026-06-01T12:00:10Z",
            "epoch": 1,
            "attempt": 1,
            "lease_expires_at": "2026-06-01T12:00:40Z",
            "heartbeat_every_seconds": 10.0,
            "deadline": "2026-06-01T13:00:10Z",
            "payload": {"ledger": "EU-2"},
            "previous_progress": None,
            "idempotency_key": f"{job['job_id']}:2026-06-01T12:00:10Z",
        }
        assert await poll(world) == [], "it is handed out once"
        assert world.targets.calls == [], "nothing is called for it"


async def test_a_task_that_is_completed_ends_its_run_and_its_job() -> None:
    async with virtual() as (world, _):
        task = await one_task(world)
        status, run = await say(world, "complete", task["run_id"], epoch=1, outcome="SUCCEEDED", result={"rows": 7})
        assert (status, run["status"], run["result"]) == (200, "SUCCEEDED", '{"rows":7}')
        assert (await world.ask("GET", f"/v1/jobs/{task['job_id']}"))["status"] == "COMPLETED"


async def test_a_completion_that_is_said_again_gets_the_same_answer() -> None:
    async with virtual() as (world, _):
        task = await one_task(world)
        first = await say(world, "complete", task["run_id"], epoch=1, outcome="SUCCEEDED")
        assert await say(world, "complete", task["run_id"], epoch=1, outcome="SUCCEEDED") == first
        status, refusal = await say(world, "complete", task["run_id"], epoch=1, outcome="FAILED")
        assert (status, refusal["reason"]) == (409, "EPOCH_SUPERSEDED")


async def test_a_failure_is_tried_again_after_its_backoff_by_whichever_worker_asks() -> None:
    async with virtual() as (world, _):
        retry = {"max_attempts": 2, "initial_backoff_seconds": 60, "max_backoff_seconds": 60}
        task = await one_task(world, retry_policy=retry)
        status, run = await say(
            world, "complete", task["run_id"], epoch=1, outcome="FAILED", error="no rows", retry_after_seconds=90
        )
        assert (status, run["status"], run["attempt"]) == (200, "RETRY_WAIT", 2)
        await world.wait(seconds=89)
        assert await poll(world, "w-2") == []
        await world.wait(seconds=1)
        (again,) = await poll(world, "w-2")
        assert (again["epoch"], again["attempt"], again["idempotency_key"]) == (2, 2, task["run_id"])
        _, run = await say(world, "complete", again["run_id"], epoch=2, outcome="FAILED", error="no rows")
        assert (run["status"], run["reason"]) == ("FAILED", "ATTEMPTS_EXHAUSTED")


async def test_a_failure_that_is_not_retryable_ends_the_run() -> None:
    async with virtual() as (world, _):
        task = await one_task(world)
        _, run = await say(
            world, "complete", task["run_id"], epoch=1, outcome="FAILED", error="card refused", retryable=False
        )
        assert (run["status"], run["reason"]) == ("FAILED", "PERMANENT_FAILURE")
        assert run["attempts"][0]["error"] == "card refused"


async def test_an_at_most_once_task_that_failed_is_not_begun_again() -> None:
    async with virtual() as (world, _):
        task = await one_task(world, delivery="AT_MOST_ONCE")
        _, run = await say(world, "complete", task["run_id"], epoch=1, outcome="FAILED", error="lost")
        assert run["status"] == "FAILED"


async def test_heartbeats_keep_the_lease_and_carry_the_progress_to_the_next_attempt() -> None:
    async with virtual() as (world, _):
        task = await one_task(world)
        for _ in range(12):
            await world.wait(seconds=10)
            status, answer = await say(world, "heartbeat", task["run_id"], epoch=1, progress={"rows": 3})
            assert (status, answer["cancel_requested"]) == (200, False)
        assert answer["lease_expires_at"] == "2026-06-01T12:02:40Z"
        await say(world, "heartbeat", task["run_id"], epoch=1)
        await say(world, "release", task["run_id"], epoch=1)
        (again,) = await poll(world, "w-2")
        assert (again["epoch"], again["attempt"], again["previous_progress"]) == (2, 1, {"rows": 3})


async def test_a_lost_worker_loses_its_run_to_another_and_its_late_word_changes_nothing() -> None:
    """H4, H5, C5: the case that fencing exists for."""
    async with virtual() as (world, _):
        world.start(keep_alive(world))
        await world.wait(minutes=1)
        await world.create({"type": "ONCE", "run_at": "2026-06-01T12:01:10Z"}, target=QUEUE)
        await world.wait(seconds=10)
        (lost,) = await poll(world, "w-1")
        await world.wait(seconds=34)
        assert await poll(world, "w-2") == [], "the lease ended less than 5 s ago"
        await world.wait(seconds=11)
        (again,) = await poll(world, "w-2")
        assert (again["run_id"], again["epoch"], again["attempt"]) == (lost["run_id"], 2, 1)
        for verb, body in (("complete", {"outcome": "SUCCEEDED"}), ("heartbeat", {}), ("release", {})):
            status, refusal = await say(world, verb, lost["run_id"], epoch=1, **body)
            assert (status, refusal["reason"], refusal["epoch"]) == (409, "EPOCH_SUPERSEDED", 2)
        _, run = await say(world, "complete", again["run_id"], epoch=2, outcome="SUCCEEDED")
        assert run["status"] == "SUCCEEDED"
        assert [attempt["outcome"] for attempt in run["attempts"]] == ["LEASE_EXPIRED", "SUCCEEDED"]


async def test_a_run_that_was_given_back_is_fenced_before_anybody_claims_it_again() -> None:
    async with virtual() as (world, _):
        world.start(keep_alive(world))
        await world.wait(minutes=1)
        task = await one_task_at(world, "2026-06-01T12:01:10Z")
        await world.wait(minutes=1)
        status, refusal = await say(world, "complete", task["run_id"], epoch=1, outcome="SUCCEEDED")
        assert (status, refusal["reason"], refusal["run_status"]) == (409, "EPOCH_SUPERSEDED", "RETRY_WAIT")


async def one_task_at(world: Virtual, run_at: str, **fields: Any) -> dict[str, Any]:
    await world.create({"type": "ONCE", "run_at": run_at}, target=QUEUE, **fields)
    await world.wait_until(run_at)
    (task,) = await poll(world)
    return task


async def test_an_at_most_once_task_whose_worker_is_lost_is_unknown() -> None:
    async with virtual() as (world, _):
        world.start(keep_alive(world))
        await world.wait(minutes=1)
        task = await one_task_at(world, "2026-06-01T12:01:10Z", delivery="AT_MOST_ONCE")
        await world.wait(minutes=1)
        assert (await world.ask("GET", f"/v1/runs/{task['run_id']}"))["status"] == "UNKNOWN"
        assert await poll(world, "w-2") == []


async def test_what_its_deadline_passed_has_failed_however_often_it_was_heard_of() -> None:
    async with virtual() as (world, _):
        world.start(keep_alive(world))
        await world.wait(minutes=1)
        await world.create({"type": "ONCE", "run_at": "2026-06-01T12:01:10Z"}, target=QUEUE | {"timeout_seconds": 60})
        await world.wait(seconds=10)
        (task,) = await poll(world)
        for _ in range(8):
            await world.wait(seconds=10)
            await say(world, "heartbeat", task["run_id"], epoch=1)
        run = await world.ask("GET", f"/v1/runs/{task['run_id']}")
        assert (run["status"], run["attempt"]) == ("RETRY_WAIT", 2)
        assert run["attempts"][0]["error"] == "not done within 60 s"


async def test_a_cancelled_run_is_stopped_through_its_heartbeat() -> None:
    async with virtual() as (world, _):
        task = await one_task(world)
        status, refusal = await say(world, "complete", task["run_id"], epoch=1, outcome="CANCELLED")
        assert (status, refusal["reason"]) == (409, "CANCEL_NOT_REQUESTED")
        await world.ask("POST", f"/v1/runs/{task['run_id']}:cancel")
        _, answer = await say(world, "heartbeat", task["run_id"], epoch=1)
        assert answer["cancel_requested"] is True
        _, run = await say(world, "complete", task["run_id"], epoch=1, outcome="CANCELLED")
        assert run["status"] == "CANCELLED"
        assert (await world.ask("GET", f"/v1/jobs/{task['job_id']}"))["status"] == "CANCELLED"


async def test_what_succeeds_though_it_was_cancelled_is_recorded_as_that() -> None:
    async with virtual() as (world, _):
        task = await one_task(world)
        await world.ask("POST", f"/v1/runs/{task['run_id']}:cancel")
        _, run = await say(world, "complete", task["run_id"], epoch=1, outcome="SUCCEEDED")
        assert run["status"] == "SUCCEEDED_AFTER_CANCEL"


@pytest.mark.parametrize("verb", ["cancel", "pause"])
async def test_a_waiting_task_of_a_job_that_was_taken_away_is_not_handed_out(verb: str) -> None:
    async with virtual() as (world, _):
        job = await world.create("* * * * *", target=QUEUE)
        await world.wait(minutes=1)
        path = f"/v1/jobs/{job['job_id']}"
        await (world.api.delete(path) if verb == "cancel" else world.api.post(f"{path}:pause", json={}))
        assert await poll(world) == []
        assert [run.status for run in await world.runs(job["job_id"])] == [RunStatus.CANCELLED]


async def test_a_task_that_no_worker_took_in_time_is_skipped_as_expired() -> None:
    """W15."""
    async with virtual() as (world, _):
        job = await world.create(
            {"type": "ONCE", "run_at": "2026-06-01T12:00:10Z"}, target=QUEUE, expires_after_seconds=60
        )
        await world.wait(minutes=2)
        assert await poll(world) == []
        assert await world.told(job["job_id"]) == [("12:00:10", "EXPIRED")]


async def test_a_run_that_was_asked_for_does_not_expire_for_the_time_that_it_stands_for() -> None:
    """W14, W15."""
    async with virtual() as (world, _):
        job = await world.create("0 8 * * *", target=QUEUE, expires_after_seconds=60)
        await world.ask("POST", f"/v1/jobs/{job['job_id']}:trigger", json={"as_of": "2026-05-31T08:00:00Z"})
        (task,) = await poll(world)
        assert task["scheduled_for"] == "2026-05-31T08:00:00Z"


async def test_urgent_tasks_are_handed_out_first_and_older_ones_before_younger_ones() -> None:
    async with virtual() as (world, _):
        for name, second, priority in (("b", 10, "LOW"), ("a", 20, "CRITICAL"), ("c", 5, "LOW")):
            run_at = f"2026-06-01T12:00:{second:02d}Z"
            await world.create({"type": "ONCE", "run_at": run_at}, target=QUEUE, priority=priority, name=name)
        await world.wait(seconds=30)
        assert [task["job_name"] for task in await poll(world)] == ["a", "c", "b"]


async def test_a_poll_waits_for_the_first_task_and_no_longer_than_it_said() -> None:
    async with virtual() as (world, _):
        await world.create({"type": "ONCE", "run_at": "2026-06-01T12:00:10Z"}, target=QUEUE)
        waiting = world.start(poll(world, wait_seconds=20))
        await world.wait(seconds=9)
        assert not waiting.done()
        await world.wait(seconds=1)
        assert len(waiting.result()) == 1
        waiting = world.start(poll(world, wait_seconds=5))
        await world.wait(seconds=5)
        assert waiting.result() == []


async def test_without_max_tasks_a_poll_answers_one_task_or_nothing() -> None:
    async with virtual() as (world, _):
        path = "/v1/task-queues/ledger/tasks:poll"
        assert (await world.api.post(path, json={"worker_id": "w"})).status_code == 204
        await world.create({"type": "ONCE", "run_at": "2026-06-01T12:00:10Z"}, target=QUEUE)
        await world.wait(seconds=10)
        answer = await world.api.post(path, json={"worker_id": "w"})
        assert (answer.status_code, answer.json()["epoch"]) == (200, 1)


async def test_many_polls_at_once_hand_each_task_out_once() -> None:
    async with virtual() as (world, _):
        for _ in range(40):
            await world.create({"type": "ONCE", "run_at": "2026-06-01T12:00:10Z"}, target=QUEUE)
        await world.wait(seconds=10)
        answers = await asyncio.gather(*(poll(world, f"w-{n}", max_tasks=7) for n in range(10)))
        handed = [task["run_id"] for tasks in answers for task in tasks]
        assert len(handed) == len(set(handed)) == 40


async def test_a_batch_is_answered_entry_by_entry() -> None:
    async with virtual() as (world, _):
        task = await one_task(world)
        beats = [
            {"run_id": task["run_id"], "epoch": 1},
            {"run_id": task["run_id"], "epoch": 7},
            {"run_id": "job_none:2026-06-01T12:00:00Z", "epoch": 1},
            {"epoch": 1},
        ]
        answer = await world.ask("POST", "/v1/runs:batchHeartbeat", json={"heartbeats": beats})
        assert [one["status"] for one in answer["results"]] == [200, 409, 404, 400]
        words = [{"run_id": task["run_id"], "epoch": 1, "outcome": "SUCCEEDED"}]
        answer = await world.ask("POST", "/v1/runs:batchComplete", json={"completions": words})
        assert answer["results"] == [{"status": 200, "run_id": task["run_id"], "run_status": "SUCCEEDED", "attempt": 1}]


async def test_an_edited_target_moves_what_waits_to_where_it_belongs() -> None:
    async with virtual() as (world, _):
        job = await world.create("* * * * *", target=QUEUE, max_runs=1)
        await world.wait(minutes=1)
        moved = await world.ask("PATCH", f"/v1/jobs/{job['job_id']}", json={"target": {"task_queue": "elsewhere"}})
        assert moved["target"]["task_queue"] == "elsewhere"
        assert await poll(world) == [], "it goes to the other queue"
        answer = await world.ask(
            "POST", "/v1/task-queues/elsewhere/tasks:poll", json={"worker_id": "w", "max_tasks": 1}
        )
        assert len(answer["tasks"]) == 1


async def test_an_edit_from_a_queue_to_a_url_calls_what_waited() -> None:
    async with virtual() as (world, _):
        job = await world.create("* * * * *", target=QUEUE, max_runs=1)
        await world.wait(minutes=1)
        await world.ask("PATCH", f"/v1/jobs/{job['job_id']}", json={"target": {"url": "http://target.example/x"}})
        assert await poll(world) == []
        await world.wait(seconds=1)
        assert len(world.targets.calls) == 1


async def test_what_waited_in_a_queue_waits_again_after_a_restart_and_what_was_held_is_still_held() -> None:
    async with Virtual() as world:
        first = await world.boot()
        held = await one_task(world)
        await world.create({"type": "ONCE", "run_at": "2026-06-01T12:00:12Z"}, target=QUEUE)
        await world.wait(seconds=5)
        first.kill()
        await world.boot()
        (waited,) = await poll(world, "w-2")
        assert waited["epoch"] == 1
        status, _ = await say(world, "heartbeat", held["run_id"], epoch=1)
        assert status == 200, "a worker's lease is not its scheduler's"
        _, run = await say(world, "complete", held["run_id"], epoch=1, outcome="SUCCEEDED")
        assert run["status"] == "SUCCEEDED"


async def test_workers_that_were_heard_of_are_listed_with_what_they_hold() -> None:
    async with virtual() as (world, _):
        task = await one_task(world)
        (worker,) = (await world.ask("GET", "/v1/workers"))["items"]
        assert (worker["worker_id"], worker["task_queues"], worker["held"]) == ("w-1", ["ledger"], 1)
        await say(world, "complete", task["run_id"], epoch=1, outcome="SUCCEEDED")
        (worker,) = (await world.ask("GET", "/v1/workers"))["items"]
        assert worker["held"] == 0
        await world.wait(minutes=6)
        assert (await world.ask("GET", "/v1/workers"))["items"] == []
