"""Jobs that wait for a worker, and what became of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from schedkit.client import Client
from tests.e2e.processes import until


def due_now() -> dict[str, Any]:
    return {"type": "ONCE", "run_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}


def job(client: Client, queue: str, payload: Any = None, **fields: Any) -> Callable[[], dict[str, Any]]:
    """Create a job that is due now; gives a function that reads its run, once there is one."""
    target = {"type": "TASK_QUEUE", "task_queue": queue} | fields.pop("target", {})
    made = client.create_job({"schedule": due_now(), "target": target, "payload": payload} | fields).job

    def run() -> dict[str, Any]:
        found: dict[str, Any] = until(lambda: next(iter(client.job_runs(made["job_id"])["items"]), None), "run")
        return found

    return run


def ended(run: Callable[[], dict[str, Any]], *states: str) -> dict[str, Any]:
    """The run, when it is in one of these states."""

    def look() -> dict[str, Any] | None:
        found = run()
        return found if found["status"] in states else None

    return until(look, f"run in {states}")
