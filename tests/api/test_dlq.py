"""Dead letters over HTTP: lists, groups, plans, redrives and their verbs, one run, settling, giving up."""

from __future__ import annotations

from typing import Any

import pytest

from schedkit.model.calls import Answered, NoAnswer
from tests.api.asking import refused
from tests.worlds import Virtual, once

NO = Answered(400)
UNKNOWN_ID = "rd_01J9ZK8V4T6Q00000000000000"


async def died(world: Virtual, at: str, status: int = 400, **fields: Any) -> str:
    """The id of a run that has failed for good."""
    world.targets.always = Answered(status)
    job = await world.create(once(at), **fields)
    await world.wait_until(at)
    await world.wait(ms=500)
    return f"{job['job_id']}:{at}"


async def three(world: Virtual) -> list[str]:
    """Three dead letters, oldest first: of two jobs with a name, one at a registered target."""
    await world.boot()
    registered = {"target": {"target_id": "billing", "path": "/x"}, "name": "bill"}
    return [
        await died(world, "2026-06-01T12:01:00Z", name="first"),
        await died(world, "2026-06-01T12:02:00Z", 404, **registered),
        await died(world, "2026-06-01T12:03:00Z", 503, name="last", retry_policy={"max_attempts": 1}),
    ]


async def ids(world: Virtual, **params: Any) -> list[str]:
    return [item["run_id"] for item in (await world.ask("GET", "/v1/dlq", params=params))["items"]]


async def test_dead_letters_are_listed_newest_first_page_by_page(world: Virtual) -> None:
    runs = await three(world)
    assert await ids(world) == runs[::-1]
    first = await world.ask("GET", "/v1/dlq", params={"limit": 2})
    second = await world.ask("GET", "/v1/dlq", params={"limit": 2, "cursor": first["next_cursor"]})
    assert [item["run_id"] for item in (*first["items"], *second["items"])] == runs[::-1]
    assert second["next_cursor"] is None
    last = first["items"][0]
    assert (last["error"], last["http_status"], last["reason"]) == (
        "the target answered 503; attempt 1 of 1",
        503,
        "ATTEMPTS_EXHAUSTED",
    )
    assert (last["failed_at"], last["attempts_made"], last["status"]) == ("2026-06-01T12:03:00Z", 1, "FAILED")


@pytest.mark.parametrize(
    ("params", "found"),
    [
        ({"target_id": "billing"}, [1]),
        ({"job": "last"}, [2]),
        ({"job_id": "first"}, [0]),
        ({"reason": "ATTEMPTS_EXHAUSTED"}, [2]),
        ({"failed_after": "2026-06-01T12:02:00Z"}, [2, 1]),
        ({"failed_before": "2026-06-01T12:02:30Z"}, [1, 0]),
        ({"status": "UNKNOWN"}, []),
        ({"target_id": "nobody"}, []),
    ],
)
async def test_each_filter_keeps_what_it_says(world: Virtual, params: dict[str, str], found: list[int]) -> None:
    runs = await three(world)
    assert await ids(world, **params) == [runs[place] for place in found]


async def test_groups_are_counted_with_their_oldest_and_newest(world: Virtual) -> None:
    await three(world)
    told = await world.ask("GET", "/v1/dlq", params={"group_by": "reason,error"})
    assert (told["counted"], told["complete"]) == (3, True)
    assert {
        "reason": "ATTEMPTS_EXHAUSTED",
        "error": "the target answered 503",
        "count": 1,
        "oldest": "2026-06-01T12:03:00Z",
        "newest": "2026-06-01T12:03:00Z",
    } in told["items"]
    by_reason = await world.ask("GET", "/v1/dlq", params={"group_by": "reason"})
    assert [(group["reason"], group["count"]) for group in by_reason["items"]] == [
        ("PERMANENT_FAILURE", 2),
        ("ATTEMPTS_EXHAUSTED", 1),
    ]


async def test_one_dead_letter_has_its_attempts_and_what_is_none_is_not_found(world: Virtual) -> None:
    run = (await three(world))[0]
    letter = await world.ask("GET", f"/v1/dlq/{run}")
    assert (letter["run_id"], len(letter["attempts"]), letter["series"]) == (run, 1, 1)
    await world.ask("POST", f"/v1/runs/{run}:retry")
    refused(await world.api.get(f"/v1/dlq/{run}"), 404, "RUN_NOT_FOUND", "run_id")


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"group_by": "colour"}, "group_by"),
        ({"failed_after": "yesterday"}, "failed_after"),
        ({"failed_after": "2026-06-02T00:00:00Z", "failed_before": "2026-06-01T00:00:00Z"}, "failed_before"),
        ({"targett": "x"}, "targett"),
    ],
)
async def test_a_list_that_cannot_be_is_refused(world: Virtual, params: dict[str, str], field: str) -> None:
    refused(await world.api.get("/v1/dlq", params=params), 400, "INVALID_ARGUMENT", field)


# ── redrives ─────────────────────────────────────────────────────────────────────────────────────────────────────────


async def redrive(world: Virtual, key: str | None = None, **body: Any) -> Any:
    headers = {"Idempotency-Key": key} if key is not None else {}
    return await world.api.post("/v1/dlq:redrive", json={"filter": {}} | body, headers=headers)


async def test_a_plan_says_what_would_start_what_stays_and_why_and_changes_nothing(world: Virtual) -> None:
    await three(world)
    answer = await redrive(world, dry_run=True, max_per_second=1, canary=1)
    assert answer.status_code == 200
    plan = answer.json()
    assert (plan["total"], plan["skipped"], plan["seconds"], plan["complete"]) == (3, {}, 3, True)
    assert plan["causes"] == [{"error": f"the target answered {status}", "count": 1} for status in (400, 404, 503)]
    assert (plan["oldest"], plan["newest"]) == ("2026-06-01T12:01:00Z", "2026-06-01T12:03:00Z")
    assert (await world.ask("GET", "/v1/redrives"))["items"] == []
    assert len(await ids(world)) == 3


async def test_a_redrive_is_accepted_and_can_be_looked_at(world: Virtual) -> None:
    await three(world)
    answer = await redrive(world, filter={"job_id": "last"}, max_per_second=7, note="target is back")
    assert answer.status_code == 202
    begun = answer.json()
    assert (begun["state"], begun["total"], begun["max_per_second"]) == ("PLANNED", 1, 7)
    assert answer.headers["location"] == f"/v1/redrives/{begun['redrive_id']}"
    assert await world.ask("GET", answer.headers["location"]) == begun
    assert (await world.ask("GET", "/v1/redrives"))["items"] == [begun]
    assert (await world.ask("GET", "/v1/redrives", params={"state": "DONE"}))["items"] == []


async def test_one_idempotency_key_begins_one_redrive(world: Virtual) -> None:
    await three(world)
    first, again = await redrive(world, "k1"), await redrive(world, "k1")
    assert (first.status_code, again.status_code) == (202, 202)
    assert again.headers["idempotent-replayed"] == "true"
    assert again.json()["redrive_id"] == first.json()["redrive_id"]
    refused(await redrive(world, "k1", canary=1), 422, "IDEMPOTENCY_KEY_REUSED", "Idempotency-Key")
    assert len((await world.ask("GET", "/v1/redrives"))["items"]) == 1


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"max_per_second": 0}, "max_per_second"),
        ({"max_per_second": 10_001}, "max_per_second"),
        ({"max_per_second": True}, "max_per_second"),
        ({"canary": -1}, "canary"),
        ({"limit": 0}, "limit"),
        ({"filter": {"colour": "red"}}, "filter.colour"),
        ({"filter": {"run_ids": ["job_a"]}}, "filter.run_ids"),
        ({"filter": {"failed_after": "soon"}}, "failed_after"),
        ({"wait": 1}, "wait"),
    ],
)
async def test_a_redrive_that_cannot_be_is_refused_and_begins_nothing(
    world: Virtual, body: dict[str, Any], field: str
) -> None:
    refused(await redrive(world, **body), 400, "INVALID_ARGUMENT", field)
    assert (await world.ask("GET", "/v1/redrives"))["items"] == []


async def test_a_redrive_without_a_filter_is_a_mistake_and_of_another_tenant_is_not_yours(world: Virtual) -> None:
    refused(await world.api.post("/v1/dlq:redrive", json={}), 400, "INVALID_ARGUMENT", "filter")
    refused(await redrive(world, filter={"tenant_id": "other"}), 403, "FORBIDDEN", "filter.tenant_id")
    refused(await redrive(world, filter={"job_id": "nobody"}), 404, "JOB_NOT_FOUND", "job_id")


async def test_verbs_belong_to_states(world: Virtual) -> None:
    await three(world)
    redrive_id = (await redrive(world)).json()["redrive_id"]

    async def verb(name: str) -> str:
        state: str = (await world.ask("POST", f"/v1/redrives/{redrive_id}:{name}"))["state"]
        return state

    assert [await verb(name) for name in ("pause", "pause", "resume", "resume")] == ["PAUSED"] * 2 + ["PLANNED"] * 2
    assert await verb("continue") == "PLANNED"
    await verb("pause")
    refused(await world.api.post(f"/v1/redrives/{redrive_id}:continue"), 409, "REDRIVE_STATE")
    assert [await verb("stop"), await verb("stop")] == ["STOPPED"] * 2
    assert (await world.ask("DELETE", f"/v1/redrives/{redrive_id}"))["state"] == "STOPPED"
    for name in ("pause", "resume", "continue"):
        refused(await world.api.post(f"/v1/redrives/{redrive_id}:{name}"), 409, "REDRIVE_STATE")
    refused(await world.api.get(f"/v1/redrives/{UNKNOWN_ID}"), 404, "REDRIVE_NOT_FOUND", "redrive_id")


async def test_a_store_that_is_away_accepts_nothing(world: Virtual) -> None:
    await three(world)
    world.line.down = True
    client = world.client_of(world.new_world(world.line))
    answer = await client.post("/v1/dlq:redrive", json={"filter": {}})
    refused(answer, 503, "STORE_UNAVAILABLE")
    await client.aclose()


# ── one run ──────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_one_dead_letter_starts_again_at_once_and_fails_into_the_dead_letters_once(world: Virtual) -> None:
    run = (await three(world))[0]
    calls = len(world.targets.calls)
    world.targets.always = NO
    again = await world.ask("POST", f"/v1/runs/{run}:retry")
    assert (again["status"], again["series"], again["attempt"], again["epoch"]) == ("RETRY_WAIT", 2, 0, 1)
    await world.wait(seconds=1)
    assert len(world.targets.calls) == calls + 1
    made = world.targets.calls[-1]
    assert (made.key, made.token, made.attempt) == (run, 2, 1)
    assert (await ids(world)).count(run) == 1
    assert [attempt["epoch"] for attempt in (await world.ask("GET", f"/v1/runs/{run}"))["attempts"]] == [1, 2]


async def test_what_is_no_dead_letter_is_not_started_again(world: Virtual) -> None:
    run = (await three(world))[0]
    world.targets.always = Answered(200)
    await world.ask("POST", f"/v1/runs/{run}:retry")
    await world.wait(seconds=1)
    refused(await world.api.post(f"/v1/runs/{run}:retry"), 409, "NOT_A_DEAD_LETTER")
    refused(await world.api.post("/v1/runs/job_x:2026-06-01T12:00:00Z:retry"), 404, "RUN_NOT_FOUND", "run_id")


@pytest.mark.parametrize("how", ["pause", "cancel"])
async def test_a_letter_of_a_job_that_would_not_call_it_stays_where_it_is(world: Virtual, how: str) -> None:
    await world.boot()
    world.targets.always = NO
    await world.create("* * * * *", name="often")
    await world.wait(minutes=1, seconds=5)
    run = (await ids(world))[0]
    if how == "pause":
        await world.ask("POST", "/v1/jobs/often:pause")
    else:
        await world.ask("DELETE", "/v1/jobs/often")
    problem = refused(await world.api.post(f"/v1/runs/{run}:retry"), 409, "NOT_REDRIVABLE")
    assert problem["why"]
    assert run in await ids(world)
    plan = (await redrive(world, dry_run=True)).json()
    assert plan["skipped"] == {"JOB_PAUSED" if how == "pause" else "JOB_CANCELLED": 1}
    assert len(plan["notes"]) == 1


# ── unknown ──────────────────────────────────────────────────────────────────────────────────────────────────────────


async def unknown(world: Virtual) -> str:
    await world.boot()
    world.targets.always = NoAnswer("connection reset")
    job = await world.create(once("2026-06-01T12:00:10Z"), delivery="AT_MOST_ONCE", name="pay")
    await world.wait(seconds=15)
    return f"{job['job_id']}:2026-06-01T12:00:10Z"


async def test_what_may_have_been_done_is_called_again_only_where_that_is_said(world: Virtual) -> None:
    run = await unknown(world)
    plan = (await redrive(world, dry_run=True)).json()
    assert (plan["total"], plan["skipped"]) == (0, {"OUTCOME_UNKNOWN": 1})
    included = (await redrive(world, dry_run=True, include_unknown=True)).json()
    assert (included["total"], included["unknown"]) == (1, 1)
    assert "called again" in included["notes"][0]
    refused(await world.api.post(f"/v1/runs/{run}:retry"), 409, "NOT_REDRIVABLE")
    world.targets.always = Answered(200)
    await world.ask("POST", f"/v1/runs/{run}:retry", json={"include_unknown": True})
    await world.wait(seconds=1)
    assert (await world.ask("GET", f"/v1/runs/{run}"))["status"] == "SUCCEEDED"


@pytest.mark.parametrize(("said", "still_dead"), [("SUCCEEDED", 0), ("FAILED", 1)])
async def test_an_unknown_run_is_settled_by_hand_once(world: Virtual, said: str, still_dead: int) -> None:
    run = await unknown(world)
    settled = await world.ask("POST", f"/v1/runs/{run}:resolve", json={"as": said, "note": "seen in the ledger"})
    assert (settled["status"], settled["note"]) == (said, "seen in the ledger")
    assert settled["resolved_at"]
    assert len(await ids(world)) == still_dead
    refused(await world.api.post(f"/v1/runs/{run}:resolve", json={"as": said}), 409, "NOT_UNKNOWN")
    refused(await world.api.post(f"/v1/runs/{run}:resolve", json={"as": "CANCELLED"}), 400, "INVALID_ARGUMENT", "as")


# ── giving up ────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_what_is_dropped_is_listed_no_more_and_stays_in_the_history(world: Virtual) -> None:
    runs = await three(world)
    plan = await world.ask("POST", "/v1/dlq:drop", json={"filter": {"run_ids": runs[:2]}, "dry_run": True})
    assert (plan["total"], plan["dropped"]) == (2, 0)
    done = await world.ask("POST", "/v1/dlq:drop", json={"filter": {"run_ids": runs[:2]}, "note": "old"})
    assert (done["dropped"], done["more"]) == (2, False)
    assert await ids(world) == runs[2:]
    kept = await world.ask("GET", f"/v1/runs/{runs[0]}")
    assert (kept["status"], kept["note"]) == ("FAILED", "old")
    assert kept["dropped_at"]
    refused(await world.api.post(f"/v1/runs/{runs[0]}:retry"), 409, "NOT_A_DEAD_LETTER")
    again = await world.ask("POST", "/v1/dlq:drop", json={"filter": {"run_ids": runs[:2]}})
    assert again["dropped"] == 0


async def test_a_limit_leaves_more_and_without_the_archive_it_is_forgotten_soon(world: Virtual) -> None:
    runs = await three(world)
    done = await world.ask("POST", "/v1/dlq:drop", json={"filter": {}, "limit": 1, "archive": False})
    assert (done["dropped"], done["more"]) == (1, True)
    await world.wait(minutes=21)
    refused(await world.api.get(f"/v1/runs/{runs[0]}"), 404, "RUN_NOT_FOUND", "run_id")
