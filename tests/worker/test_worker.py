"""The worker SDK against a real scheduler over real connections: what a user's functions meet."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from schedkit.testing import FakeServer
from schedkit.worker import Cancelled, Fail, Retry, Superseded, Task, Worker
from tests.e2e.processes import until
from tests.worker.jobs import due_now, ended, job

SOON_S = 30.0


@pytest.fixture(scope="module")
def server() -> Iterator[FakeServer]:
    with FakeServer() as server:
        yield server


@contextmanager
def serving(*workers: Worker) -> Iterator[None]:
    """These workers serve in a thread, on one event loop."""
    started, loops = threading.Event(), []
    stop: list[asyncio.Event] = []

    async def serve() -> None:
        stop.append(asyncio.Event())
        loops.append(asyncio.get_running_loop())
        started.set()
        await asyncio.gather(*(worker.serve(stop[0]) for worker in workers))

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    started.wait()
    try:
        yield
    finally:
        loops[0].call_soon_threadsafe(stop[0].set)
        thread.join()


def test_a_function_gets_the_payload_as_arguments_and_its_result_is_recorded(server: FakeServer) -> None:
    worker = Worker("args", url=server.url)

    @worker.task
    def rebuild(task: Task, ledger: str, rows: int = 3) -> dict[str, Any]:
        return {"ledger": ledger, "rows": rows, "key": task.idempotency_key}

    run = job(server.client, "args", {"ledger": "EU-2"})
    with serving(worker):
        done = ended(run, "SUCCEEDED")
    assert done["result"] == f'{{"ledger":"EU-2","rows":3,"key":"{done["run_id"]}"}}'
    assert done["attempts"][0]["outcome"] == "SUCCEEDED"


def test_a_coroutine_function_runs_on_the_loop_of_its_worker(server: FakeServer) -> None:
    worker = Worker("async", url=server.url)
    threads = []

    @worker.task
    async def fetch(task: Task) -> str:
        threads.append(threading.current_thread().name)
        await asyncio.sleep(0)
        return "fetched"

    run = job(server.client, "async")
    with serving(worker):
        assert ended(run, "SUCCEEDED")["result"] == '"fetched"'
    assert threads != ["schedkit-courier"]


@pytest.mark.parametrize(
    ("payload", "why"),
    [
        (None, "its payload has no 'ledger'"),
        ([1], "its payload is a list, not an object"),
        ({"ledger": 7}, "payload.ledger: Input should be a valid string"),
        ({"ledger": "EU", "colour": "red"}, "its payload has 'colour', which rebuild does not take"),
    ],
)
def test_a_payload_that_does_not_fit_fails_at_once_and_says_why(server: FakeServer, payload: Any, why: str) -> None:
    worker = Worker("misfit", url=server.url)

    @worker.task
    def rebuild(task: Task, ledger: str) -> None:
        raise AssertionError("not called")

    run = job(server.client, "misfit", payload)
    with serving(worker):
        failed = ended(run, "FAILED")
    assert failed["reason"] == "PERMANENT_FAILURE"
    assert why in failed["attempts"][0]["error"]


def test_what_a_function_raises_decides_whether_it_is_tried_again(server: FakeServer) -> None:
    worker = Worker("raises", url=server.url)
    seen: list[tuple[str, int]] = []

    @worker.task
    def work(task: Task, how: str) -> str:
        seen.append((how, task.attempt))
        if task.attempt > 1:
            return "at last"
        match how:
            case "retry":
                raise Retry("not yet", after="1ms")
            case "fail":
                raise Fail("card refused")
            case _:
                raise RuntimeError("oops")

    policy = {"max_attempts": 3, "initial_backoff_seconds": 0, "max_backoff_seconds": 0}
    runs = {how: job(server.client, "raises", {"how": how}, retry_policy=policy) for how in ("retry", "fail", "error")}
    with serving(worker):
        assert ended(runs["retry"], "SUCCEEDED")["attempts"][0]["error"] == "not yet"
        assert ended(runs["error"], "SUCCEEDED")["attempts"][0]["error"] == "RuntimeError: oops"
        assert ended(runs["fail"], "FAILED")["attempts"][0]["error"] == "card refused"
    assert ("fail", 2) not in seen


def test_the_type_of_a_task_picks_its_function(server: FakeServer) -> None:
    worker = Worker("types", url=server.url)

    @worker.task("CHARGE")
    def charge(task: Task) -> str:
        return "charged"

    @worker.task
    def refund(task: Task) -> str:
        return "refunded"

    runs = [job(server.client, "types", target={"task_type": kind}) for kind in ("CHARGE", "refund")]
    lost = job(server.client, "types", target={"task_type": "ship"}, retry_policy={"max_attempts": 1})
    with serving(worker):
        assert [ended(run, "SUCCEEDED")["result"] for run in runs] == ['"charged"', '"refunded"']
        assert "no function for 'ship'" in ended(lost, "FAILED")["attempts"][0]["error"]


def test_a_cancelled_run_stops_its_function_at_its_next_check(server: FakeServer) -> None:
    worker = Worker("cancel", url=server.url)
    began, stopped = threading.Event(), []

    @worker.task
    def work(task: Task) -> None:
        began.set()
        try:
            while True:
                task.check()
                time.sleep(0.001)
        except Cancelled as error:
            stopped.append(str(error))
            raise

    run = job(server.client, "cancel", target={"lease_seconds": 5})
    with serving(worker):
        assert began.wait(SOON_S)
        server.client.cancel_run(run()["run_id"])
        assert ended(run, "CANCELLED")["attempts"][0]["outcome"] == "CANCELLED"
    assert len(stopped) == 1


def test_a_coroutine_is_cancelled_where_it_waits(server: FakeServer) -> None:
    worker = Worker("acancel", url=server.url)
    began, cleaned = threading.Event(), threading.Event()

    @worker.task
    async def work(task: Task) -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.set()

    run = job(server.client, "acancel", target={"lease_seconds": 5})
    with serving(worker):
        assert began.wait(SOON_S)
        server.client.cancel_run(run()["run_id"])
        ended(run, "CANCELLED")
    assert cleaned.is_set()


def test_a_function_whose_run_has_ended_otherwise_is_superseded_and_its_result_is_dropped(server: FakeServer) -> None:
    """C5: the run was completed by somebody else under the same epoch, so this worker has lost it."""
    worker = Worker("superseded", url=server.url)
    began, seen = threading.Event(), []

    @worker.task
    def work(task: Task) -> str:
        began.set()
        try:
            while True:
                task.check()
                time.sleep(0.001)
        except Superseded:
            seen.append("superseded")
            return "too late"

    run = job(server.client, "superseded", target={"lease_seconds": 5})
    with serving(worker):
        assert began.wait(SOON_S)
        body = {"epoch": 1, "outcome": "SUCCEEDED", "result": "by another"}
        server.client.call("POST", f"/v1/runs/{run()['run_id']}:complete", body=body)
        until(lambda: seen or None, "superseded function")
    assert run()["result"] == '"by another"'


def test_progress_reaches_the_next_attempt(server: FakeServer) -> None:
    worker = Worker("progress", url=server.url)
    found = []

    @worker.task
    def work(task: Task) -> None:
        found.append(task.previous_progress)
        task.progress(rows=len(found) * 10)
        if task.attempt < 3:
            raise Retry("go on")

    policy = {"max_attempts": 3, "initial_backoff_seconds": 0, "max_backoff_seconds": 0}
    run = job(server.client, "progress", retry_policy=policy)
    with serving(worker):
        ended(run, "SUCCEEDED")
    assert found == [{}, {"rows": 10}, {"rows": 20}]


def test_a_function_that_blocks_keeps_its_lease_and_one_that_stalls_does_not(server: FakeServer) -> None:
    worker = Worker("stalls", url=server.url)
    release = threading.Event()

    @worker.task(stall_after="1s")
    def silent(task: Task) -> None:
        release.wait(SOON_S)

    @worker.task
    def blocks(task: Task) -> str:
        return "lived" if not release.wait(7) else "?"

    short = {"lease_seconds": 5, "task_type": "silent"}
    stalled = job(server.client, "stalls", target=short, retry_policy={"max_attempts": 1})
    blocked = job(server.client, "stalls", target=short | {"task_type": "blocks"})
    with serving(worker):
        assert ended(stalled, "FAILED")["attempts"][0]["error"].startswith("it stalled: it said nothing for 1 s")
        done = ended(blocked, "SUCCEEDED")
        release.set()
    assert (done["result"], done["epoch"]) == ('"lived"', 1)


def test_a_worker_that_ends_gives_back_what_it_could_not_finish(server: FakeServer) -> None:
    worker = Worker("drain", url=server.url, drain_timeout="10ms")
    began = threading.Event()

    @worker.task
    async def work(task: Task) -> None:
        began.set()
        await asyncio.Event().wait()

    run = job(server.client, "drain")
    with serving(worker):
        assert began.wait(SOON_S)
    back = run()
    assert (back["status"], back["attempt"], back["attempts"][0]["outcome"]) == ("RETRY_WAIT", 1, "RELEASED")
    other = Worker("drain", url=server.url)
    other.task("work")(lambda task: "done by another")
    with serving(other):
        assert ended(run, "SUCCEEDED")["epoch"] == 2


def test_many_tasks_through_two_workers_are_each_done_once(server: FakeServer) -> None:
    done: list[str] = []
    workers = [Worker("many", url=server.url, concurrency=20) for _ in range(2)]
    for worker in workers:
        worker.task("work")(lambda task: done.append(task.run_id))
    target = {"type": "TASK_QUEUE", "task_queue": "many"}
    bodies = [{"schedule": due_now(), "target": target} for _ in range(400)]
    answer = server.client.call("POST", "/v1/jobs:batchCreate", body={"jobs": bodies})
    made = {result["job"]["job_id"] for result in answer.data["results"]}
    with serving(*workers):
        until(lambda: len(done) >= 400 or None, "400 tasks")
    assert {run_id.partition(":")[0] for run_id in done} == made
    assert len(done) == 400


def test_a_scheduler_that_refuses_for_good_ends_the_worker(server: FakeServer) -> None:
    worker = Worker("not a queue's name", url=server.url)
    worker.task("work")(lambda task: None)
    with pytest.raises(Exception, match="task_queue"):
        asyncio.run(worker.serve(asyncio.Event()))


def test_results_that_are_too_large_together_are_reported_one_by_one(server: FakeServer) -> None:
    """One of a batch must not make its neighbours look superseded."""
    worker = Worker("large", url=server.url, concurrency=20)
    together = threading.Barrier(20)

    @worker.task
    def work(task: Task, size: int) -> str:
        together.wait(SOON_S)
        return "x" * size

    runs = [job(server.client, "large", {"size": size}) for size in [20_000] * 19 + [300_000]]
    with serving(worker):
        done = [ended(run, "SUCCEEDED") for run in runs]
    assert [run["epoch"] for run in done] == [1] * 20
    assert [len(run["result"] or "") for run in done] == [4_096] * 19 + [0]


@pytest.mark.parametrize("rows", [float("nan"), "x" * 5_000, "\ud800", {1, 2}])
def test_progress_that_no_scheduler_would_take_is_refused_at_once(server: FakeServer, rows: Any) -> None:
    worker = Worker("refused", url=server.url)

    @worker.task
    def work(task: Task) -> str:
        try:
            task.progress(rows=rows)
        except ValueError:
            return "refused"
        return "taken"

    run = job(server.client, "refused")
    with serving(worker):
        assert ended(run, "SUCCEEDED")["result"] == '"refused"'
