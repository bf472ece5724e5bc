"""Backfills over HTTP: the plan, what is refused, one for each key, the list."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.asking import DAILY, refused
from tests.worlds import Virtual

DAYS = {"from": "2026-05-20T00:00:00Z", "to": "2026-06-01T12:00:00Z"}


async def test_a_dry_run_says_what_would_run_and_what_would_not_and_begins_nothing(running: Virtual) -> None:
    made = await running.create("* * * * *", name="digest")
    path = f"/v1/jobs/{made['job_id']}"
    await running.wait(minutes=5)
    await running.ask("POST", path + ":skipNext", json={"count": 2})
    await running.wait(minutes=5, seconds=30)
    span = {"from": "2026-06-01T11:30:00Z", "to": "2026-06-01T13:00:00Z", "max_per_second": 2, "dry_run": True}
    assert await running.ask("POST", path + ":backfill", json=span) == {
        "job_id": made["job_id"],
        "job_name": "digest",
        "from": "2026-06-01T11:30:00Z",
        "to": "2026-06-01T12:10:00.001Z",
        "order": "oldest",
        "one_by_one": False,
        "occurrences": 41,
        "total": 33,
        "starts": {"NO_RECORD": 31, "SKIPPED_BY_HAND": 2},
        "left": {"RAN_ALREADY": 8},
        "max_per_second": 2,
        "seconds": 17,
        "notes": [],
    }
    assert (await running.ask("GET", "/v1/backfills"))["items"] == []


async def test_a_backfill_is_answered_as_begun_and_can_be_looked_at(world: Virtual) -> None:
    made = await world.create(DAILY, name="digest", overlap_policy="SKIP")
    answer = await world.api.post("/v1/jobs/digest:backfill", json=DAYS | {"note": "the outage"})
    assert answer.status_code == 202
    begun = answer.json()
    assert answer.headers["location"] == f"/v1/backfills/{begun['backfill_id']}"
    assert (begun["job_id"], begun["job_name"], begun["state"], begun["total"], begun["max_per_second"]) == (
        *(made["job_id"], "digest", "PLANNED", 13, 1),
    )
    assert (begun["one_by_one"], begun["order"], begun["note"]) == (True, "oldest", "the outage")
    assert await world.ask("GET", f"/v1/backfills/{begun['backfill_id']}") == begun
    assert (await world.ask("GET", "/v1/backfills"))["items"] == [begun]
    assert (await world.ask("GET", "/v1/backfills", params={"state": "DONE"}))["items"] == []
    assert (await world.ask("GET", "/v1/redrives"))["items"] == []


async def test_thirty_days_ago_by_the_clock_of_who_asks_is_as_far_back_as_records_are_kept(world: Virtual) -> None:
    """What was thirty days ago as somebody typed it is a little more as it arrives."""
    await world.create(DAILY, name="digest")
    asked = DAYS | {"from": "2026-05-02T11:59:59.990Z", "dry_run": True}
    plan = await world.ask("POST", "/v1/jobs/digest:backfill", json=asked)
    assert (plan["from"], plan["total"]) == ("2026-05-02T12:00:00Z", 30)
    assert plan["notes"] == ["begins at 2026-05-02T12:00:00Z: records of runs are kept for 30 days"]
    begun = await world.ask("POST", "/v1/jobs/digest:backfill", json=asked | {"dry_run": False})
    assert (begun["from"], begun["occurrences"], begun["total"], begun["left"]) == (plan["from"], 30, 30, {})


async def test_one_key_begins_one_backfill(world: Virtual) -> None:
    await world.create(DAILY, name="digest")
    key = {"Idempotency-Key": "k1"}
    first = await world.api.post("/v1/jobs/digest:backfill", json=DAYS, headers=key)
    again = await world.api.post("/v1/jobs/digest:backfill", json=DAYS, headers=key)
    assert (again.json(), again.headers["idempotent-replayed"]) == (first.json(), "true")
    other = await world.api.post("/v1/jobs/digest:backfill", json=DAYS | {"order": "newest"}, headers=key)
    refused(other, 422, "IDEMPOTENCY_KEY_REUSED", "Idempotency-Key")
    redrive = await world.api.post("/v1/dlq:redrive", json={"filter": {}}, headers=key)
    refused(redrive, 422, "IDEMPOTENCY_KEY_REUSED", "Idempotency-Key")
    assert len((await world.ask("GET", "/v1/backfills"))["items"]) == 1


@pytest.mark.parametrize(("verb", "fix"), [("pause", "schedkit job resume digest"), ("cancel", "create a new job")])
async def test_a_job_that_is_not_called_is_refused(world: Virtual, verb: str, fix: str) -> None:
    made = await world.create(DAILY, name="digest")
    if verb == "pause":
        await world.ask("POST", "/v1/jobs/digest:pause")
    else:
        await world.ask("DELETE", "/v1/jobs/digest")
    answer = await world.api.post(f"/v1/jobs/{made['job_id']}:backfill", json=DAYS)
    assert refused(answer, 409, "NOT_BACKFILLABLE")["fix"] == [fix]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"from": "2026-06-01T12:00:00Z"}, "to"),
        ({"from": "2026-05-02T10:59:59Z"}, "from"),
        ({"from": None}, "from"),
        ({"to": "tomorrow"}, "to"),
        ({"max_per_second": 0}, "max_per_second"),
        ({"max_per_second": 10_001}, "max_per_second"),
        ({"order": "random"}, "order"),
        ({"since": "2026-05-30T00:00:00Z"}, "since"),
    ],
)
async def test_what_cannot_be_meant_is_refused_and_begins_nothing(
    world: Virtual, change: dict[str, Any], field: str
) -> None:
    await world.create(DAILY, name="digest")
    answer = await world.api.post("/v1/jobs/digest:backfill", json=DAYS | change)
    refused(answer, 400, "INVALID_ARGUMENT", field)
    assert (await world.ask("GET", "/v1/backfills"))["items"] == []


async def test_more_than_ten_thousand_occurrences_are_refused(world: Virtual) -> None:
    await world.create("* * * * *", name="digest")
    answer = await world.api.post("/v1/jobs/digest:backfill", json=DAYS)
    problem = refused(answer, 400, "INVALID_ARGUMENT", "to")
    assert problem["fix"] == ["end at 2026-05-26T22:40:00Z, and ask for the rest from there on"]


async def test_verbs_belong_to_states(world: Virtual) -> None:
    await world.create(DAILY, name="digest")
    begun = await world.ask("POST", "/v1/jobs/digest:backfill", json=DAYS)
    path = f"/v1/backfills/{begun['backfill_id']}"
    assert (await world.ask("POST", path + ":pause"))["state"] == "PAUSED"
    assert (await world.ask("POST", path + ":pause"))["state"] == "PAUSED"
    assert (await world.ask("POST", path + ":resume"))["state"] == "PLANNED"
    assert (await world.ask("POST", path + ":stop"))["state"] == "STOPPED"
    assert (await world.ask("POST", path + ":stop"))["state_reason"] == "STOPPED_BY_HAND"
    refused(await world.api.post(path + ":resume"), 409, "REDRIVE_STATE")


async def test_a_backfill_is_no_redrive_and_a_redrive_no_backfill(world: Virtual) -> None:
    await world.create(DAILY, name="digest")
    backfill = await world.ask("POST", "/v1/jobs/digest:backfill", json=DAYS)
    redrive = await world.ask("POST", "/v1/dlq:redrive", json={"filter": {}})
    refused(await world.api.get(f"/v1/redrives/{backfill['backfill_id']}"), 404, "REDRIVE_NOT_FOUND", "redrive_id")
    refused(await world.api.post(f"/v1/redrives/{backfill['backfill_id']}:stop"), 404, "REDRIVE_NOT_FOUND")
    refused(await world.api.get(f"/v1/backfills/{redrive['redrive_id']}"), 404, "BACKFILL_NOT_FOUND", "backfill_id")
    refused(await world.api.post(f"/v1/backfills/{redrive['redrive_id']}:stop"), 404, "BACKFILL_NOT_FOUND")
