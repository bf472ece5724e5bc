"""Everything the API refuses: which status, which reason, which field (1-contract's table of errors)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from schedkit.errors import Reason
from tests.api.asking import DAILY, JSON, body, post, refused
from tests.cases import Case, of_kinds
from tests.worlds import URL, Virtual

CRON_KINDS = ("cron-never", "cron-parse")


def cases(*kinds: str) -> list[Case]:
    return list(of_kinds(*kinds))


# ── schedules ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        (expression, case.expected["each"]["error"])
        for case in cases(*CRON_KINDS)
        for expression in case.input.get("crons", ())
    ],
)
async def test_a_cron_that_cannot_be_kept_is_refused_at_creation(world: Virtual, expression: str, reason: str) -> None:
    refused(await post(world, expression), 400, reason, "schedule.cron")


@pytest.mark.parametrize("name", next(case for case in cases("tz-name") if case.id == "tzname-01").input["names"])
async def test_a_name_that_is_no_zone_is_refused(world: Virtual, name: str) -> None:
    schedule = {"type": "CRON", "cron": "0 8 * * *", "time_zone": name}
    refused(await post(world, schedule), 400, "INVALID_TIME_ZONE", "schedule.time_zone")


@pytest.mark.parametrize("case", [case for case in cases("tz-name") if "cron" in case.input], ids=str)
async def test_a_zone_by_its_other_names_is_a_zone(case: Case) -> None:
    async with Virtual(case.input["after"]) as world:
        made = await world.create({"type": "CRON", "cron": case.input["cron"], "time_zone": case.input["time_zone"]})
        assert [made["next_run_at"]] == case.expected, case.why


@pytest.mark.parametrize("case", cases("once-time"), ids=str)
async def test_a_one_time_schedule_is_resolved_or_refused(case: Case) -> None:
    given = case.input
    async with Virtual(given.get("now", "2026-02-01T00:00:00Z")) as world:
        for text in given.get("run_ats", [given.get("run_at")]):
            schedule = {"type": "ONCE", "run_at": text} | {
                name: value.upper() if name.startswith("dst") else value
                for name, value in given.items()
                if name in ("time_zone", "dst_gap_policy", "dst_overlap_policy")
            }
            answer = await post(world, schedule)
            if "next_run_at" in case.expected:
                assert answer.status_code == 201, answer.text
                assert answer.json()["next_run_at"] == case.expected["next_run_at"]
                assert answer.json()["adjusted"] == case.expected.get("adjusted", answer.json()["adjusted"])
                assert bool(answer.json()["notes"]) == answer.json()["adjusted"]
            else:
                allowed = case.expected.get("each", case.expected)["error"]
                problem = refused(answer, 400, answer.json()["reason"], "schedule.run_at")
                assert problem["reason"] in ([allowed] if isinstance(allowed, str) else allowed), (text, case.why)


@pytest.mark.parametrize(
    ("schedule", "reason", "field"),
    [
        ({"type": "ONCE", "run_at": "2026-06-01T11:58:59Z"}, "RUN_AT_IN_PAST", "schedule.run_at"),
        (
            {"type": "ONCE", "run_at": "2026-07-01T12:00:00-08:00", "time_zone": "America/New_York"},
            "OFFSET_NOT_IN_ZONE",
            "schedule.run_at",
        ),
        ({"type": "ONCE", "run_at": "2026-07-01T12:00:00"}, "INVALID_ARGUMENT", "schedule.time_zone"),
        ({"type": "ONCE", "run_at": 1790596800}, "INVALID_RUN_AT", "schedule.run_at"),
        ({"type": "ONCE"}, "INVALID_RUN_AT", "schedule.run_at"),
        ({"type": "CRON"}, "INVALID_CRON", "schedule.cron"),
        ({"type": "CRON", "cron": 5}, "INVALID_CRON", "schedule.cron"),
        ({"type": "CRON", "cron": "0 8 * * *", "time_zone": None}, "INVALID_TIME_ZONE", "schedule.time_zone"),
        (
            {"type": "CRON", "cron": "0 8 * * *", "end_at": "2026-06-01T13:00:00Z"},
            "NO_FURTHER_OCCURRENCE",
            "schedule.end_at",
        ),
        (
            {"type": "CRON", "cron": "0 8 * * *", "start_at": "2026-07-02T00:00:00Z", "end_at": "2026-07-01T00:00:00Z"},
            "INVALID_ARGUMENT",
            "schedule.end_at",
        ),
        ({"type": "CRON", "cron": "0 8 * * *", "start_at": "tomorrow"}, "INVALID_ARGUMENT", "schedule.start_at"),
        ({"type": "CRON", "cron": "0 8 * * *", "day_rule": "XOR"}, "INVALID_ARGUMENT", "schedule.day_rule"),
        (
            {"type": "CRON", "cron": "0 8 * * *", "dst_gap_policy": "skip"},
            "INVALID_ARGUMENT",
            "schedule.dst_gap_policy",
        ),
        ({"type": "INTERVAL", "every_seconds": 0.5}, "INVALID_ARGUMENT", "schedule.every_seconds"),
        ({"type": "INTERVAL", "every_seconds": "900"}, "INVALID_ARGUMENT", "schedule.every_seconds"),
        ({"type": "INTERVAL", "every_seconds": True}, "INVALID_ARGUMENT", "schedule.every_seconds"),
        ({"type": "INTERVAL", "every_seconds": 1e18}, "INVALID_ARGUMENT", "schedule.every_seconds"),
        (
            {"type": "INTERVAL", "every_seconds": 60, "end_at": "2026-06-01T12:00:30Z"},
            "NO_FURTHER_OCCURRENCE",
            "schedule.end_at",
        ),
        ({"type": "NEVER"}, "INVALID_ARGUMENT", "schedule.type"),
        ({}, "INVALID_ARGUMENT", "schedule.type"),
    ],
)
async def test_a_schedule_is_refused_with_what_is_wrong_in_it(
    world: Virtual, schedule: dict[str, Any], reason: str, field: str
) -> None:
    answer = await world.api.post("/v1/jobs", json=body() | {"schedule": schedule})
    refused(answer, 400, reason, field)
    preview = await world.api.post("/v1/schedules:preview", json={"schedule": schedule})
    refused(preview, 400, reason, field)


# ── types and unknown fields (A2) ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"shedule": {}}, "shedule"),
        ({"target": {"url": URL, "methd": "GET"}}, "target.methd"),
        ({"retry_policy": {"attempts": 3}}, "retry_policy.attempts"),
        ({"schedule": DAILY | {"timezone": "UTC"}}, "schedule.timezone"),
        ({"priority": "high"}, "priority"),
        ({"priority": 1}, "priority"),
        ({"max_runs": "3"}, "max_runs"),
        ({"max_runs": True}, "max_runs"),
        ({"max_runs": 0}, "max_runs"),
        ({"max_runs": 1.5}, "max_runs"),
        ({"max_runs": 10**30}, "max_runs"),
        ({"expires_after_seconds": 0}, "expires_after_seconds"),
        ({"dispatch_window_seconds": 86_401}, "dispatch_window_seconds"),
        ({"dispatch_window_seconds": -1}, "dispatch_window_seconds"),
        ({"misfire_grace_seconds": "60"}, "misfire_grace_seconds"),
        ({"paused": "yes"}, "paused"),
        ({"paused": 1}, "paused"),
        ({"labels": {"a": 1}}, "labels.a"),
        ({"labels": ["a"]}, "labels"),
        ({"labels": {"": "x"}}, "labels."),
        ({"labels": {"a=b": "x"}}, "labels.a=b"),
        ({"labels": {str(n): "" for n in range(65)}}, "labels"),
        ({"name": 5}, "name"),
        ({"description": "x" * 1_025}, "description"),
        ({"target": {"url": URL, "timeout_seconds": 301}}, "target.timeout_seconds"),
        ({"target": {"url": URL, "timeout_seconds": "5"}}, "target.timeout_seconds"),
        ({"target": {"url": URL, "method": "TRACE"}}, "target.method"),
        ({"target": {}}, "target"),
        ({"target": {"url": URL, "target_id": "billing"}}, "target"),
        ({"target": {"url": URL, "path": "/x"}}, "target.path"),
        ({"target": {"target_id": "billing", "path": "x"}}, "target.path"),
        ({"target": {"target_id": "billing", "path": "/\r\n"}}, "target.path"),
        ({"target": "http://x"}, "target"),
        ({"target": {"url": "not a url"}}, "target.url"),
        ({"retry_policy": {"max_attempts": 0}}, "retry_policy.max_attempts"),
        ({"retry_policy": {"max_attempts": 101}}, "retry_policy.max_attempts"),
        ({"retry_policy": {"max_backoff_seconds": 901}}, "retry_policy.max_backoff_seconds"),
        ({"retry_policy": {"initial_backoff_seconds": -1}}, "retry_policy.initial_backoff_seconds"),
        ({"retry_policy": {"initial_backoff_seconds": False}}, "retry_policy.initial_backoff_seconds"),
    ],
)
async def test_a_field_that_is_unknown_or_of_the_wrong_type_is_named(
    world: Virtual, fields: dict[str, Any], field: str
) -> None:
    answer = await world.api.post("/v1/jobs", json=body() | fields)
    problem = refused(answer, 400, "INVALID_ARGUMENT", field)
    assert field.rpartition(".")[2] in problem["detail"]
    assert (await world.ask("GET", "/v1/jobs"))["items"] == []


@pytest.mark.parametrize("missing", ["schedule", "target"])
async def test_a_field_that_must_be_there_is_named(world: Virtual, missing: str) -> None:
    given = body()
    del given[missing]
    refused(await world.api.post("/v1/jobs", json=given), 400, "INVALID_ARGUMENT", missing)


@pytest.mark.parametrize("verb", ["pause", "resume", "trigger"])
async def test_a_verb_takes_no_body_an_empty_one_or_known_fields(world: Virtual, verb: str) -> None:
    made = await world.create(DAILY)
    path = f"/v1/jobs/{made['job_id']}:{verb}"
    refused(await world.api.post(path, json={"reasn": "x"}), 400, "INVALID_ARGUMENT", "reasn")
    assert (await world.api.post(path)).status_code == 200
    assert (await world.api.post(path, json={})).status_code == 200


# ── headers (header-01) ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "headers",
    [
        *of_kinds("header")[0].input["headers"],
        {"": "x"},
        {"X A": "1"},
        {"X-A": "😀"},
        {"X-A": 5},
        {"X-A": "x" * 4_097},
        {"Idempotency-Key": "mine"},
        {"x-fencing-token": "9"},
        {"Host": "other"},
        {"Content-Length": "0"},
        {f"X-{n}": "" for n in range(65)},
    ],
)
async def test_a_header_that_could_not_be_sent_is_refused_at_creation(world: Virtual, headers: dict[str, Any]) -> None:
    refused(await post(world, target={"url": URL, "headers": headers}), 400, "INVALID_HEADER")


# ── bodies ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "nonsense",
        '{"a": 1,}',
        '{"payload": 1e400}',
        '{"payload": 0.1234567890123456789}',
        '{"payload": ' + "9" * 39 + "}",
        '{"payload": -Infinity}',
        '{"payload": 1, "payload": 2}',
        '{"payload": ' + "[" * 65 + "]" * 65 + "}",
        '{"payload": "\x01"}',
        '{"\\ud800": 1}',
    ],
)
async def test_a_body_that_is_not_json_or_could_not_be_kept_exactly_is_refused(world: Virtual, text: str) -> None:
    answer = await world.api.post("/v1/jobs", content=text.encode(), headers=JSON)
    refused(answer, 400, "INVALID_JSON")


@pytest.mark.parametrize("text", next(case for case in of_kinds("payload") if case.id == "payload-03").input["bodies"])
async def test_a_payload_that_python_alone_would_read_is_refused(world: Virtual, text: str) -> None:
    """payload-03."""
    given = json.dumps(body()).removesuffix("}") + f', "payload": {text}}}'
    refused(await world.api.post("/v1/jobs", content=given, headers=JSON), 400, "INVALID_JSON")


@pytest.mark.parametrize("raw", [b"\xff\xfe{}", b'{"payload": "\xe9"}'])
async def test_a_body_that_is_not_utf_8_is_refused(world: Virtual, raw: bytes) -> None:
    refused(await world.api.post("/v1/jobs", content=raw, headers=JSON), 400, "INVALID_JSON")


@pytest.mark.parametrize("value", ["[]", "5", '"text"', "null", "true"])
async def test_a_body_that_is_no_object_is_refused(world: Virtual, value: str) -> None:
    refused(await world.api.post("/v1/jobs", content=value, headers=JSON), 400, "INVALID_ARGUMENT")


async def test_a_body_of_another_type_is_refused_since_a_web_page_could_send_it(world: Virtual) -> None:
    for media in ("text/plain", "application/x-www-form-urlencoded", ""):
        answer = await world.api.post("/v1/jobs", content=json.dumps(body()), headers={"Content-Type": media})
        refused(answer, 400, "INVALID_ARGUMENT", "Content-Type")
    answer = await world.api.post(
        "/v1/jobs", content=json.dumps(body()), headers={"Content-Type": "application/json; charset=utf-8"}
    )
    assert answer.status_code == 201


async def test_a_body_over_256_kib_is_refused_before_it_is_parsed(world: Virtual) -> None:
    """A2: what is in it does not matter, and neither does whether its length was announced."""
    limit = 256 * 1_024
    refused(await world.api.post("/v1/jobs", content=b"x" * (limit + 1), headers=JSON), 413, "PAYLOAD_TOO_LARGE")
    refused(await world.api.post("/v1/jobs", content=b"x" * limit, headers=JSON), 400, "INVALID_JSON")

    async def chunks() -> Any:
        for _ in range(5):
            yield b" " * 60_000

    refused(await world.api.post("/v1/jobs", content=chunks(), headers=JSON), 413, "PAYLOAD_TOO_LARGE")


async def test_a_payload_is_measured_in_bytes(world: Virtual) -> None:
    """payload-05: 64 KiB of UTF-8, quotes included."""
    case = next(case for case in of_kinds("payload") if case.id == "payload-05")
    text = case.input["payload_char"] * case.input["repeat"]
    answer = await world.api.post(
        "/v1/jobs", content=json.dumps(body(payload=text), ensure_ascii=False).encode(), headers=JSON
    )
    refused(answer, 413, "PAYLOAD_TOO_LARGE")
    refused(await post(world, payload="é" * 32_768), 413, "PAYLOAD_TOO_LARGE", "payload")
    assert (await post(world, payload="é" * 32_767)).status_code == 201


async def test_a_payload_reaches_its_target_as_it_was_sent(running: Virtual) -> None:
    """payload-01."""
    case = next(case for case in of_kinds("payload") if case.id == "payload-01")
    for text in case.input["payloads"]:
        given = json.dumps(body("* * * * *")).removesuffix("}") + f', "payload": {text}}}'
        made = (await running.api.post("/v1/jobs", content=given, headers=JSON)).json()
        await running.wait(minutes=1)
        sent = running.targets.calls[-1].call
        assert sent.body == text.encode(), case.why
        assert sent.headers["Content-Type"] == "application/json"
        await running.ask("DELETE", f"/v1/jobs/{made['job_id']}")


async def test_a_job_without_a_payload_sends_no_body_and_null_sends_null(running: Virtual) -> None:
    await running.create("1 12 * * *")
    await running.create("2 12 * * *", payload=None)
    await running.create("3 12 * * *", payload={"a": 1}, target={"url": URL, "method": "GET"})
    await running.wait(minutes=3)
    assert [made.call.body for made in running.targets.calls] == [None, b"null", None]


# ── targets ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("url", of_kinds("ssrf")[0].input["target_urls"])
async def test_a_url_that_reaches_into_the_machine_or_its_network_is_refused(world: Virtual, url: str) -> None:
    """ssrf-01."""
    refused(await post(world, target={"url": url}), 400, "TARGET_NOT_ALLOWED", "target.url")


# ── keys that make a repeat safe ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("key", ["", "x" * 256, "a\x7fb"])
async def test_an_idempotency_key_that_cannot_be_one_is_refused(world: Virtual, key: str) -> None:
    answer = await world.api.post("/v1/jobs", json=body(), headers={"Idempotency-Key": key})
    refused(answer, 400, "INVALID_ARGUMENT", "Idempotency-Key")


# ── routes ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("path", ["/", "/v1", "/v2/jobs", "/v1/jobs:explode", "/v1/jobs/x/y"])
async def test_a_path_that_is_no_route_is_said_to_be_none(world: Virtual, path: str) -> None:
    refused(await world.api.get(path), 404, "ROUTE_NOT_FOUND")


async def test_a_method_that_a_route_does_not_have_is_refused_with_those_it_has(world: Virtual) -> None:
    answer = await world.api.put("/v1/jobs", json={})
    refused(answer, 405, "METHOD_NOT_ALLOWED")
    assert answer.headers["allow"]


async def test_a_store_in_trouble_is_503_with_retry_after_and_nothing_is_accepted(world: Virtual) -> None:
    """F11."""
    made = await world.create(DAILY)
    world.line.down = True
    path = f"/v1/jobs/{made['job_id']}"
    asked = [("POST", "/v1/jobs", body()), ("GET", path, None), ("PATCH", path, {"name": "x"}), ("DELETE", path, None)]
    for method, where, given in asked:
        answer = await world.api.request(method, where, json=given)
        problem = refused(answer, 503, "STORE_UNAVAILABLE")
        assert int(answer.headers["retry-after"]) == problem["retry_after_seconds"] > 0
    batch = await world.ask("POST", "/v1/jobs:batchCreate", json={"jobs": [body()]})
    assert batch["results"][0]["error"]["reason"] == "STORE_UNAVAILABLE"
    world.line.down = False
    assert [job["job_id"] for job in (await world.ask("GET", "/v1/jobs"))["items"]] == [made["job_id"]]


async def test_a_bug_is_500_with_the_request_s_id_and_without_its_trace(
    world: Virtual, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def breaks(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a secret detail")

    monkeypatch.setattr(world.line, "page", breaks)
    answer = await world.api.get("/v1/jobs")
    problem = refused(answer, 500, "INTERNAL")
    assert "secret" not in answer.text
    assert problem["request_id"] in caplog.text
    assert "ZeroDivisionError" in caplog.text


def test_every_reason_is_spelled_as_it_is_named() -> None:
    assert all(reason.name == reason.value for reason in Reason)
