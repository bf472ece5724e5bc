"""What every request passes: ids, who may knock, idempotency keys, and the pages for those who operate it."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from schedkit.engine.when.window import offset_ms
from schedkit.errors import Reason
from schedkit.model.calls import Answered
from schedkit.model.time import parse_rfc3339, rfc3339
from tests.api.asking import DAILY, JSON, body, post, refused
from tests.cases import load
from tests.worlds import Virtual

CASES = {case.id: case for case in load()}


# ── Idempotency-Key ──────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_key_that_comes_again_gives_the_first_answer_again_or_refuses_another_body(world: Virtual) -> None:
    """idem-01, I3."""
    case = CASES["idem-01"]
    first, again, other = [
        await world.api.post(
            "/v1/jobs", json=body(request["body"]["cron"]), headers={"Idempotency-Key": request["key"]}
        )
        for request in case.input["requests"]
    ]
    assert (first.status_code, "idempotent-replayed" in first.headers) == (201, False)
    assert (again.status_code, again.headers["idempotent-replayed"]) == (200, "true")
    assert again.json() == first.json()
    problem = refused(other, 422, "IDEMPOTENCY_KEY_REUSED", "Idempotency-Key")
    assert first.json()["job_id"] in problem["detail"]
    assert len((await world.ask("GET", "/v1/jobs"))["items"]) == case.expected["jobs"]


async def test_bodies_are_compared_by_their_meaning(world: Virtual) -> None:
    """idem-03: blanks, the order of names, and defaults that are spelled out."""
    payloads = [request["body_raw"] for request in CASES["idem-03"].input["requests"][:2]]
    answers = []
    for payload in payloads:
        text = json.dumps(body()).removesuffix("}") + f', "payload": {payload}}}'
        answers.append(await world.api.post("/v1/jobs", content=text, headers=JSON | {"Idempotency-Key": "k1"}))
    spelled_out = body(payload=json.loads(payloads[0]), priority="DEFAULT", misfire_grace_seconds=60)
    answers.append(await world.api.post("/v1/jobs", json=spelled_out, headers={"Idempotency-Key": "k1"}))
    assert [answer.status_code for answer in answers] == [201, 200, 200]
    assert len({answer.json()["job_id"] for answer in answers}) == 1


async def test_no_payload_and_a_payload_of_null_are_two_meanings(world: Virtual) -> None:
    await world.api.post("/v1/jobs", json=body(), headers={"Idempotency-Key": "k"})
    answer = await world.api.post("/v1/jobs", json=body(payload=None), headers={"Idempotency-Key": "k"})
    refused(answer, 422, "IDEMPOTENCY_KEY_REUSED")


async def test_a_key_is_honoured_for_24_hours(world: Virtual) -> None:
    made = []
    for pause_ms in (0, 24 * 3_600_000 - 1, 1, 24 * 3_600_000 - 1, 1):
        await world.wait(ms=pause_ms)
        answer = await world.api.post("/v1/jobs", json=body(), headers={"Idempotency-Key": "k"})
        made.append((answer.status_code, answer.json()["job_id"]))
    assert [status for status, _ in made] == [201, 200, 201, 200, 201]
    assert len({job_id for _, job_id in made}) == 3
    answer = await world.api.post("/v1/jobs", json=body("0 9 * * *"), headers={"Idempotency-Key": "k"})
    refused(answer, 422, "IDEMPOTENCY_KEY_REUSED")


async def test_of_many_requests_with_one_key_at_once_one_makes_the_job(world: Virtual) -> None:
    asked = (world.api.post("/v1/jobs", json=body(name="n"), headers={"Idempotency-Key": "k"}) for _ in range(20))
    answers = await asyncio.gather(*asked)
    assert sorted(answer.status_code for answer in answers) == [200] * 19 + [201]
    assert len({answer.json()["job_id"] for answer in answers}) == 1


async def test_a_create_whose_answer_was_lost_can_be_repeated(world: Virtual) -> None:
    world.line.lose = ["create"]
    lost = await world.api.post("/v1/jobs", json=body(), headers={"Idempotency-Key": "k"})
    refused(lost, 503, "STORE_UNAVAILABLE")
    again = await world.api.post("/v1/jobs", json=body(), headers={"Idempotency-Key": "k"})
    assert (again.status_code, again.headers["idempotent-replayed"]) == (200, "true")
    assert len((await world.ask("GET", "/v1/jobs"))["items"]) == 1


async def test_without_a_key_every_request_is_a_wish_of_its_own(world: Virtual) -> None:
    answers = [await post(world), await post(world)]
    assert answers[0].json()["job_id"] != answers[1].json()["job_id"]


# ── request ids ──────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_every_answer_names_its_request(world: Virtual) -> None:
    first, second = await world.api.get("/healthz"), await world.api.get("/nowhere")
    assert re.fullmatch(r"req_[0-9a-f]{16}", first.headers["x-request-id"])
    assert first.headers["x-request-id"] != second.headers["x-request-id"]


@pytest.mark.parametrize(
    ("given", "kept"), [("abc-1.2_Z", True), ("x" * 64, True), ("x" * 65, False), ("a b", False), ("<x>", False)]
)
async def test_a_request_id_of_the_caller_is_kept_where_it_is_harmless(world: Virtual, given: str, kept: bool) -> None:
    answer = await world.api.get("/healthz", headers={"X-Request-Id": given})
    assert (answer.headers["x-request-id"] == given) is kept


# ── who may knock ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("host", ["127.0.0.1:8700", "localhost", "LOCALHOST:1", "[::1]:8700", "127.9.9.9", ""])
async def test_this_machine_by_any_of_its_names_may_knock(world: Virtual, host: str) -> None:
    assert (await world.api.get("/healthz", headers={"Host": host})).status_code == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8700", "127.0.0.1.evil.example", "10.0.0.1", "[::]", "[::1", "[", "]:1", "@"],
)
async def test_a_foreign_host_is_refused_because_a_name_can_be_rebound(world: Virtual, host: str) -> None:
    refused(await world.api.get("/healthz", headers={"Host": host}), 403, "FORBIDDEN")


@pytest.mark.parametrize(
    "origin",
    ["https://evil.example", "null", "", "http://127.0.0.1:9999", "http://[", "file://", "http://localhost:8700"],
)
async def test_a_page_of_another_origin_is_refused(world: Virtual, origin: str) -> None:
    answer = await world.api.post("/v1/jobs", json=body(), headers={"Origin": origin})
    refused(answer, 403, "FORBIDDEN")
    assert (await world.ask("GET", "/v1/jobs"))["items"] == []


async def test_a_page_of_the_scheduler_itself_may_knock(world: Virtual) -> None:
    answer = await world.api.post("/v1/jobs", json=body(), headers={"Origin": "http://127.0.0.1:8700"})
    assert answer.status_code == 201


# ── preview ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["dst-01", "dst-02", "dst-03", "dst-04", "dst-05"])
async def test_preview_follows_the_policies_for_clock_changes(world: Virtual, name: str) -> None:
    """W3: New York on 1 November and 8 March 2026."""
    given = CASES[name].input
    schedule = {
        "type": "CRON",
        "cron": given["cron"],
        "time_zone": given["time_zone"],
        "dst_gap_policy": given["dst_gap_policy"].upper(),
        "dst_overlap_policy": given["dst_overlap_policy"].upper(),
    }
    shown = await world.ask(
        "POST",
        "/v1/schedules:preview",
        json={"schedule": schedule, "after": given["after"], "count": given["count"]},
    )
    occurrences = shown["occurrences"]
    assert [occurrence["scheduled_for"] for occurrence in occurrences] == CASES[name].expected
    notes = " ".join(note for occurrence in occurrences for note in occurrence["notes"])
    said = {
        "dst-01": "happens twice",
        "dst-02": "",
        "dst-03": "runs at",
        "dst-04": "skipped",
        "dst-05": "does not exist",
    }
    assert said[name] in notes
    for occurrence in occurrences:
        assert parse_rfc3339(occurrence["local"]) == parse_rfc3339(occurrence["scheduled_for"])


async def test_preview_shows_where_in_its_window_a_job_would_start(world: Virtual) -> None:
    asked = {"schedule": DAILY, "count": 2, "job_id": "job_x", "dispatch_window_seconds": 300}
    for occurrence in (await world.ask("POST", "/v1/schedules:preview", json=asked))["occurrences"]:
        start = parse_rfc3339(occurrence["scheduled_for"]) + offset_ms("job_x", 300_000)
        assert occurrence["dispatch_at"] == rfc3339(start)


async def test_preview_is_strictly_after_and_shows_fewer_at_the_end_of_time(world: Virtual) -> None:
    bounded = DAILY | {"end_at": "2026-06-04T00:00:00Z"}
    asked = {"schedule": bounded, "after": "2026-06-02T08:00:00Z", "count": 9}
    shown = await world.ask("POST", "/v1/schedules:preview", json=asked)
    assert [occurrence["scheduled_for"] for occurrence in shown["occurrences"]] == ["2026-06-03T08:00:00Z"]
    once = {"type": "ONCE", "run_at": "2026-11-01T01:30:00", "time_zone": "America/New_York"}
    shown = await world.ask("POST", "/v1/schedules:preview", json={"schedule": once})
    assert [occurrence["scheduled_for"] for occurrence in shown["occurrences"]] == ["2026-11-01T05:30:00Z"]
    assert shown["occurrences"][0]["notes"]


@pytest.mark.parametrize(
    ("extra", "field"), [({"count": 0}, "count"), ({"count": 1_001}, "count"), ({"after": "x"}, "after")]
)
async def test_preview_names_what_it_does_not_understand(world: Virtual, extra: dict[str, Any], field: str) -> None:
    answer = await world.api.post("/v1/schedules:preview", json={"schedule": DAILY} | extra)
    refused(answer, 400, "INVALID_ARGUMENT", field)


# ── for those who operate it ─────────────────────────────────────────────────────────────────────────────────────────


async def test_ready_says_why_not(world: Virtual) -> None:
    assert (await world.ask("GET", "/readyz")) == {"status": "ready"}
    world.not_ready = "the disk is full"
    answer = await world.api.get("/readyz")
    assert (answer.status_code, answer.json()["reason"]) == (503, "the disk is full")
    assert (await world.api.get("/healthz")).status_code == 200


async def test_metrics_are_prometheus_text_and_count_what_happened(running: Virtual) -> None:
    running.targets.script = [Answered(503), Answered(200), Answered(400)]
    await running.create("* * * * *", retry_policy={"initial_backoff_seconds": 0})
    await running.wait(minutes=3)
    answer = await running.api.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    values = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }
    assert values["schedkit_attempts_total", "FAILED"] == 2
    assert values["schedkit_attempts_total", "SUCCEEDED"] == 2
    assert values["schedkit_runs_total", "SUCCEEDED"] == 2
    assert values["schedkit_runs_total", "FAILED"] == 1
    assert values["schedkit_dispatch_lag_seconds_count",] == 3


async def test_the_snapshot_counts_jobs_and_dead_letters(running: Virtual) -> None:
    running.targets.always = Answered(400)
    await running.create("1 12 * * *")
    await running.create(DAILY, paused=True)
    await running.wait(minutes=2)
    snapshot = await running.ask("GET", "/v1/ops/snapshot")
    assert snapshot["now"] == "2026-06-01T12:02:00Z"
    assert (snapshot["jobs"]["SCHEDULED"], snapshot["jobs"]["PAUSED"], snapshot["dead_letters"]) == (1, 1, 1)


async def test_the_snapshot_is_shown_also_while_the_store_is_away(world: Virtual) -> None:
    world.line.down = True
    snapshot = await world.ask("GET", "/v1/ops/snapshot")
    assert snapshot["store"]["ok"] is False
    assert snapshot["alerts"][0]["level"] == "CRIT"


async def test_versions_are_told(world: Virtual) -> None:
    assert re.fullmatch(r"20\d\d[a-z]", (await world.ask("GET", "/v1/version"))["tzdata"])


# ── openapi.json ─────────────────────────────────────────────────────────────────────────────────────────────────────


def references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        for name, value in node.items():
            if name == "$ref":
                yield value
            else:
                yield from references(value)
    elif isinstance(node, list):
        for value in node:
            yield from references(value)


async def test_every_reference_of_the_openapi_document_resolves(world: Virtual) -> None:
    document = await world.ask("GET", "/openapi.json")
    assert document["openapi"].startswith("3.1")
    found = set(references(document))
    assert found
    for reference in found:
        node = document
        for part in reference.removeprefix("#/").split("/"):
            node = node[part]
        assert node


async def test_every_route_has_a_summary_and_says_how_it_refuses(world: Virtual) -> None:
    document = await world.ask("GET", "/openapi.json")
    operations = [(path, method, it) for path, item in document["paths"].items() for method, it in item.items()]
    assert len(operations) >= 15
    for path, method, operation in operations:
        assert operation["summary"], (path, method)
        refusal = operation["responses"]["400"]["content"]["application/problem+json"]["schema"]
        assert refusal == {"$ref": "#/components/schemas/Problem"}, (path, method)
        assert all(status.isdigit() for status in operation["responses"]), "no range that would hide a status"
    reasons = document["components"]["schemas"]["Problem"]["properties"]["reason"]["enum"]
    assert set(reasons) == {reason.value for reason in Reason}


async def test_every_route_that_reads_a_body_describes_it(world: Virtual) -> None:
    document = await world.ask("GET", "/openapi.json")
    create = document["paths"]["/v1/jobs"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    job = document["components"]["schemas"][create["$ref"].rpartition("/")[2]]
    assert {"schedule", "target"} <= set(job["required"])
    assert job["additionalProperties"] is False
    for path in ("/v1/jobs:batchCreate", "/v1/schedules:preview", "/v1/jobs/{ref}:pause"):
        assert "requestBody" in document["paths"][path]["post"], path
    optional = document["paths"]["/v1/jobs/{ref}:pause"]["post"]["requestBody"]
    assert optional["required"] is False, "a verb needs no body"


async def test_the_page_of_the_documentation_is_there(world: Virtual) -> None:
    answer = await world.api.get("/docs")
    assert answer.status_code == 200
    assert "/v1/jobs" in answer.text
