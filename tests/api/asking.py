"""Short ways to ask the API, and to say what a refusal must look like."""

from __future__ import annotations

from typing import Any, Final

import httpx

from tests.worlds import URL, Virtual, schedule_of

DAILY: Final = {"type": "CRON", "cron": "0 8 * * *", "time_zone": "UTC"}
JSON: Final = {"Content-Type": "application/json"}


def body(schedule: str | dict[str, Any] = "0 8 * * *", **fields: Any) -> dict[str, Any]:
    return {"schedule": schedule_of(schedule), "target": {"url": URL}} | fields


async def post(world: Virtual, schedule: str | dict[str, Any] = "0 8 * * *", **fields: Any) -> httpx.Response:
    return await world.api.post("/v1/jobs", json=body(schedule, **fields))


def refused(answer: httpx.Response, status: int, reason: str, field: str | None = None) -> dict[str, Any]:
    """The problem document, after checking its shape (RFC 9457) and what it names."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    problem: dict[str, Any] = answer.json()
    assert problem["reason"] == reason, problem
    assert problem["status"] == status
    assert problem["type"].endswith(reason)
    assert problem["title"]
    assert len(problem["detail"]) > 5
    assert problem["request_id"] == answer.headers["x-request-id"]
    assert problem.get("field") == field or field is None, problem
    assert "Traceback" not in answer.text
    return problem
