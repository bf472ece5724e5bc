"""The audit log: one record for each call that changes something, in chains that show when they were altered."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from schedkit.engine.audit import Check
from schedkit.model.audit import Record
from schedkit.model.keys import audit_key
from schedkit.model.time import parse_rfc3339
from schedkit.model.writes import Write
from tests.api.asking import body, post, refused
from tests.api.keyed import Keyed, keyed
from tests.api.test_access import ROUTES, called
from tests.documented import app_of, document_of
from tests.worlds import Virtual

# Calls that are no GET and leave no record: one that only computes, and what workers do, which their runs remember.
UNRECORDED = {
    "POST /v1/schedules:preview",
    "POST /v1/task-queues/{task_queue}/tasks:poll",
    "POST /v1/runs/{run_id}:heartbeat",
    "POST /v1/runs/{run_id}:complete",
    "POST /v1/runs/{run_id}:release",
    "POST /v1/runs:batchHeartbeat",
    "POST /v1/runs:batchComplete",
}
RECORDED = [route for route in ROUTES if not route.startswith("GET ") and route not in UNRECORDED]


def checked(documents: list[dict[str, Any]]) -> tuple[Check, list[str]]:
    """A walk over records as the API shows them, and what it found."""
    check = Check()
    found = [check.see(Record.of({**it, "at": parse_rfc3339(it["at"])}), it["hash"]) for it in documents]
    return check, [problem for problem in found if problem is not None]


def described(there: Keyed, route: str) -> dict[str, Any]:
    """What the document says of a route."""
    method, path = route.split(" ")
    operation: dict[str, Any] = document_of(app_of(there.world.api))["paths"][path][method.lower()]
    return operation


async def log_of(world: Virtual) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = (await world.ask("GET", "/v1/audit", params={"limit": 500}))["items"]
    return items


@pytest.mark.parametrize("route", RECORDED)
async def test_a_call_that_changes_something_is_one_record(route: str) -> None:
    async with keyed() as there:
        before = await there.records()
        answer = await called(there, route, "admin")
        assert answer.is_success, answer.text
        fresh = (await there.records())[: -len(before)]
        assert len(fresh) == 1
        record = fresh[0]
        assert record["action"] == described(there, route)["x-audit"]
        assert (record["tenant_id"], record["team_id"], record["key_id"]) == ("acme", "platform", there.ids["admin"])
        assert record["request_id"] == answer.headers["x-request-id"]
        assert record["address"] == "127.0.0.1"
        assert record["outcome"] == ("UNCHANGED" if route.endswith(":resume") else "DONE")
        assert checked(await there.records())[1] == []


@pytest.mark.parametrize("route", sorted(UNRECORDED))
async def test_what_is_said_to_leave_no_record_leaves_none(route: str) -> None:
    async with keyed() as there:
        before = await there.records()
        await called(there, route, "admin")
        assert await there.records() == before


async def test_of_refused_calls_those_of_a_role_too_low_are_recorded() -> None:
    async with keyed() as there:
        before = await there.records()
        for who in ("none", "other team", "other tenant"):
            await called(there, "DELETE /v1/jobs/{ref}", who)
        await there.world.api.post("/v1/jobs", json={"shedule": 1}, headers=there.of("operator"))
        await called(there, "GET /v1/audit", "viewer")
        assert await there.records() == before
        await called(there, "DELETE /v1/jobs/{ref}", "viewer")
        fresh = (await there.records())[: -len(before)]
        assert [(it["action"], it["outcome"], it["key_id"]) for it in fresh] == [
            ("cancel_job", "REFUSED", there.ids["viewer"])
        ]


async def test_a_record_names_the_thing_its_versions_and_the_reason_that_was_given(world: Virtual) -> None:
    job = await world.create("0 8 * * *", name="digest", payload={"password": "hunter2"})
    headers = {"Schedkit-Reason": "mail server is moved, ticket 4411"}
    await world.api.post("/v1/jobs/digest:pause", headers=headers)
    run = await world.ask("POST", "/v1/jobs/digest:trigger")
    await world.ask("POST", f"/v1/runs/{run['run_id']}:cancel")
    cancelled, triggered, paused, created = await log_of(world)
    assert (created["resource"], created["before"], created["after"]) == (job["job_id"], None, "1")
    assert (paused["before"], paused["after"], paused["given"]) == ("1", "2", "mail server is moved, ticket 4411")
    assert triggered["resource"] == job["job_id"]
    assert cancelled["resource"] == run["run_id"]
    assert None not in (cancelled["before"], cancelled["after"])
    assert cancelled["before"] != cancelled["after"], "a run has no version, so it is marked by a hash"
    assert "hunter2" not in str(await log_of(world))


async def test_a_batch_is_one_record_that_names_what_it_made(world: Virtual) -> None:
    answer = await world.ask("POST", "/v1/jobs:batchCreate", json={"jobs": [body(), {"schedule": 1}, body()]})
    made = [result["job"]["job_id"] for result in answer["results"] if result["status"] == 201]
    records = await log_of(world)
    assert [(it["action"], sorted(it["resources"])) for it in records] == [("batch_create", sorted(made))]
    found = await world.ask("GET", "/v1/audit", params={"resource": made[1]})
    assert found["items"] == records


async def test_a_repeat_that_finds_it_done_is_recorded_as_that(world: Virtual) -> None:
    for _ in range(2):
        await world.api.post("/v1/jobs", json=body(), headers={"Idempotency-Key": "k"})
    assert [it["outcome"] for it in await log_of(world)] == ["UNCHANGED", "DONE"]


async def test_an_answer_that_is_lost_loses_neither_the_change_nor_its_record(world: Virtual) -> None:
    world.line.lose = ["create"]
    refused(await post(world), 503, "STORE_UNAVAILABLE")
    assert len((await world.ask("GET", "/v1/jobs"))["items"]) == 1
    assert [it["outcome"] for it in await log_of(world)] == ["DONE"]
    await post(world)
    check, wrong = checked(await log_of(world))
    assert (check.count, wrong) == (2, []), "the place that was taken unheard is not taken twice"


async def test_a_process_that_dies_leaves_both_or_neither(world: Virtual) -> None:
    for after in (False, True):
        process = await world.boot(serving=False)
        write = process.line.made + 2  # after a look at the name, and at the end of the chain
        process.line.dies_before, process.line.dies_after = (None, write) if after else (write, None)
        dying = world.start(post(world, name=f"n{after}"))
        await world.wait(seconds=1)
        assert not dying.done()
        await world.boot(serving=False)
        jobs = [job["name"] for job in (await world.ask("GET", "/v1/jobs"))["items"]]
        assert jobs == (["nTrue"] if after else [])
        assert len(await log_of(world)) == len(jobs)


async def test_many_calls_at_once_through_several_processes_stay_in_their_chains(world: Virtual) -> None:
    others = [world.client_of(world.new_world()) for _ in range(3)]
    asked = [client.post("/v1/jobs", json=body()) for client in (world.api, *others) for _ in range(25)]
    assert {answer.status_code for answer in await asyncio.gather(*asked)} == {201}
    for client in others:
        await client.aclose()
    records = await log_of(world)
    check, wrong = checked(records)
    assert (check.count, wrong) == (100, [])
    assert {chain: record.seq for chain, record in check.oldest.items()} == dict.fromkeys(check.tips, 1)
    seen = Counter((it["chain"], it["seq"]) for it in records)
    assert max(seen.values()) == 1


async def test_calls_one_after_the_other_make_one_chain_whatever_the_clock_does(world: Virtual) -> None:
    for _ in range(3):
        await post(world)
        world.clock.jump(-60_000)
    records = await log_of(world)
    assert [(it["chain"], it["seq"]) for it in records] == [(0, 3), (0, 2), (0, 1)]
    assert checked(records)[1] == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"resource": "job_other"}, "record 2 was changed"),
        ({"key_id": "somebody"}, "record 2 was changed"),
        ({"at": 1}, "record 2 was changed"),
        ({"outcome": "REFUSED"}, "record 2 was changed"),
        ({"given": "I was asked to"}, "record 2 was changed"),
    ],
)
async def test_a_record_that_was_altered_is_found(world: Virtual, changes: dict[str, Any], said: str) -> None:
    for _ in range(3):
        await post(world)
    await world.store.apply(Write(audit_key("default", 0, 2), "tampered", (), changes))
    assert said in " ".join(checked(await log_of(world))[1])


async def test_a_record_that_was_altered_with_its_hash_or_taken_out_is_found(world: Virtual) -> None:
    for _ in range(4):
        await post(world)
    records = await log_of(world)
    forged = Record.of({**records[2], "at": parse_rfc3339(records[2]["at"]), "resource": "job_other"})
    replaced = [*records[:2], {**records[2], "resource": "job_other", "hash": forged.hash}, records[3]]
    assert "record 2 was replaced" in " ".join(checked(replaced)[1])
    assert "are gone" in " ".join(checked([records[0], *records[2:]])[1])


async def test_the_log_is_filtered_and_paged(world: Virtual) -> None:
    for number in range(5):
        await world.create("0 8 * * *", name=f"n{number}")
        await world.wait(minutes=1)
    await world.ask("DELETE", "/v1/jobs/n3")
    assert [it["action"] for it in (await world.ask("GET", "/v1/audit", params={"limit": 2}))["items"]] == [
        "cancel_job",
        "create_job",
    ]
    page = await world.ask("GET", "/v1/audit", params={"action": "create_job", "limit": 3})
    rest = await world.ask("GET", "/v1/audit", params={"action": "create_job", "cursor": page["next_cursor"]})
    assert (len(page["items"]), len(rest["items"])) == (3, 2)
    times = {"since": "2026-06-01T12:01:00Z", "until": "2026-06-01T12:02:00Z"}
    assert len((await world.ask("GET", "/v1/audit", params=times))["items"]) == 2
    refused(await world.api.get("/v1/audit", params={"outcome": "FINE"}), 400, "INVALID_ARGUMENT", "outcome")


async def test_records_are_forgotten_after_thirteen_months_and_the_rest_is_whole(world: Virtual) -> None:
    for _ in range(3):
        await post(world)
        await world.wait(days=200)
    await world.store.expire(world.clock.now(), 100)
    check, wrong = checked(await log_of(world))
    assert (check.count, wrong, check.oldest[0].seq) == (2, [], 2)


async def test_keys_and_refusals_leave_no_secret_in_the_log() -> None:
    async with keyed() as there:
        made = await there.ask("admin", "POST", "/v1/keys", json={"name": "n", "role": "viewer"})
        assert made["secret"] not in there.text()
        assert (await there.records())[0]["resource"] == made["key_id"]


def test_the_two_tables_of_routes_speak_of_the_same_ones() -> None:
    assert set(ROUTES) >= UNRECORDED
