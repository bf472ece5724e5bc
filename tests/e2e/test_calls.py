"""A real scheduler process calls a real HTTP server: at the right time, with its key and its token, until it worked."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from schedkit.model.time import parse_rfc3339, rfc3339
from tests.e2e.processes import Target, Up, clock_at, target, until, up


@pytest.fixture(scope="module")
def there() -> Iterator[Target]:
    with target() as server:
        server.answers["/fails-once"] = lambda key, seen: (503 if seen == 1 else 200, 0.0)
        server.answers["/refuses"] = lambda key, seen: (400, 0.0)
        server.answers["/slow"] = lambda key, seen: (200, 0.4)
        yield server


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    with up(tmp_path_factory.mktemp("up"), "--no-demo") as running:
        yield running


@pytest.fixture
def api(scheduler: Up) -> Iterator[httpx.Client]:
    with scheduler.client() as client:
        yield client


def create(api: httpx.Client, url: str, schedule: dict[str, Any], **fields: Any) -> dict[str, Any]:
    answer = api.post("/v1/jobs", json={"schedule": schedule, "target": {"url": url}, **fields})
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


def in_ms(delay_ms: int) -> dict[str, Any]:
    return {"type": "ONCE", "run_at": rfc3339(int(time.time() * 1_000) + delay_ms)}


def runs(api: httpx.Client, job_id: str, count: int = 1) -> list[dict[str, Any]]:
    """The runs of a job, once this many of them have ended."""

    def look() -> list[dict[str, Any]] | None:
        items = api.get(f"/v1/jobs/{job_id}/runs").json()["items"]
        ended = [run for run in items if run["finished_at"]]
        return ended if len(ended) >= count else None

    return until(look, f"{count} runs of {job_id} that ended")


def test_a_one_off_is_called_once_at_its_time_with_key_and_token(api: httpx.Client, there: Target) -> None:
    """C2, F8."""
    job = create(api, f"{there.url}/once", in_ms(700), payload={"user_id": 1001, "price": 30.4})
    (run,) = runs(api, job["job_id"])
    (call,) = there.of(f"{job['job_id']}:{job['next_run_at']}")
    assert call.started_at * 1_000 >= parse_rfc3339(job["next_run_at"])
    assert (call.token, call.attempt) == (1, 1)
    assert call.body == b'{"user_id":1001,"price":30.4}'
    assert call.headers["content-type"] == "application/json"
    assert call.headers["traceparent"].startswith("00-")
    assert (run["status"], run["run_id"]) == ("SUCCEEDED", call.key)
    assert run["lag_ms"] >= 0
    ended = api.get(f"/v1/jobs/{job['job_id']}").json()
    assert (ended["status"], ended["next_run_at"]) == ("COMPLETED", None)


def test_an_interval_keeps_its_grid_and_a_cancel_stops_it(api: httpx.Client, there: Target) -> None:
    job = create(api, f"{there.url}/interval", {"type": "INTERVAL", "every_seconds": 1})
    anchor = parse_rfc3339(job["schedule"]["anchor_at"])
    seen = runs(api, job["job_id"], count=3)
    due = sorted(parse_rfc3339(run["scheduled_for"]) for run in seen)
    assert due == [anchor + 1_000 * step for step in range(1, len(due) + 1)]
    for run in seen:
        (call,) = there.of(run["run_id"])
        assert call.started_at * 1_000 >= parse_rfc3339(run["scheduled_for"])
    assert api.delete(f"/v1/jobs/{job['job_id']}").json()["status"] == "CANCELLED"
    cancelled_at = time.time()
    marker = create(api, f"{there.url}/marker", in_ms(1_500))  # a later job that runs proves that time went on
    runs(api, marker["job_id"])
    late = [call for call in there.calls if call.path == "/interval" and call.started_at > cancelled_at + 0.2]
    assert late == []


def test_a_cron_job_runs_at_the_minute(there: Target, tmp_path: Path) -> None:
    """C2. The process begins some seconds before a minute, so that nobody waits for a whole one."""
    clock = clock_at(parse_rfc3339("2026-06-01T11:59:55Z"))
    with up(tmp_path, "--no-demo", env=clock) as scheduler, scheduler.client() as api:
        job = create(api, f"{there.url}/cron", {"type": "CRON", "cron": "* * * * *"})
        assert job["next_run_at"].endswith(":00Z")
        called = [until(lambda: there.of(f"{job['job_id']}:{job['next_run_at']}") or None, "call", patience_s=75)[0]]
        assert [call for call in there.calls if call.path == "/cron"] == called
        started_at = called[0].started_at + int(clock["SCHEDKIT_CLOCK_OFFSET_MS"]) / 1_000
        assert 0 <= started_at - parse_rfc3339(job["next_run_at"]) / 1_000 < 5


def test_a_target_that_fails_once_is_called_again_with_the_same_key_and_a_higher_token(
    api: httpx.Client, there: Target
) -> None:
    """C4, F1."""
    job = create(api, f"{there.url}/fails-once", in_ms(0), retry_policy={"initial_backoff_seconds": 0.2})
    (run,) = runs(api, job["job_id"])
    first, second = there.of(run["run_id"])
    assert (first.token, first.attempt, second.token, second.attempt) == (1, 1, 2, 2)
    assert [attempt["http_status"] for attempt in run["attempts"]] == [503, 200]
    assert run["status"] == "SUCCEEDED"


def test_a_permanent_failure_is_not_tried_again(api: httpx.Client, there: Target) -> None:
    """F1, F6."""
    job = create(api, f"{there.url}/refuses", in_ms(0))
    (run,) = runs(api, job["job_id"])
    assert (run["status"], run["reason"], len(there.of(run["run_id"]))) == ("FAILED", "PERMANENT_FAILURE", 1)
    assert api.get(f"/v1/jobs/{job['job_id']}").json()["status"] == "FAILED"


def test_a_call_in_flight_cannot_be_recalled_and_its_success_is_told_as_it_was(
    api: httpx.Client, there: Target
) -> None:
    """C6."""
    job = create(api, f"{there.url}/slow", in_ms(0))
    key = f"{job['job_id']}:{job['next_run_at']}"

    def running() -> bool | None:
        answer = api.get(f"/v1/runs/{key}")
        return True if answer.status_code == 200 and answer.json()["status"] == "RUNNING" else None

    until(running, "running run")
    assert api.post(f"/v1/runs/{key}:cancel").json()["cancel_requested"] is True
    (run,) = runs(api, job["job_id"])
    assert run["status"] == "SUCCEEDED_AFTER_CANCEL"


def test_an_identical_create_answers_the_first_job_and_another_body_is_refused(
    api: httpx.Client, there: Target
) -> None:
    """A1: Idempotency-Key."""
    body = {"schedule": in_ms(60_000), "target": {"url": there.url}}
    key = {"Idempotency-Key": "e2e-1"}
    first = api.post("/v1/jobs", json=body, headers=key)
    again = api.post("/v1/jobs", json=body, headers=key)
    other = api.post("/v1/jobs", json=body | {"priority": "HIGH"}, headers=key)
    assert (first.status_code, again.status_code, other.status_code) == (201, 200, 422)
    assert again.json()["job_id"] == first.json()["job_id"]
    assert again.headers["Idempotent-Replayed"] == "true"
    assert other.json()["reason"] == "IDEMPOTENCY_KEY_REUSED"
