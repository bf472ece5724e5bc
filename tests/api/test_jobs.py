"""Jobs over HTTP: made, read, listed, edited, paused, triggered, cancelled."""

from __future__ import annotations

import asyncio
import re

import pytest

from schedkit.model.calls import Answered
from tests.api.asking import DAILY, body, post, refused
from tests.worlds import URL, Takes, Virtual

# ── create and read ──────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_new_job_is_answered_with_its_defaults_and_its_next_run(world: Virtual) -> None:
    answer = await post(world, {"type": "CRON", "cron": "0 8 * * *", "time_zone": "America/New_York"})
    assert answer.status_code == 201
    job = answer.json()
    assert re.fullmatch(r"job_[0-9A-HJKMNP-TV-Z]{26}", job["job_id"])
    assert answer.headers["location"] == f"/v1/jobs/{job['job_id']}"
    expected = {
        "tenant_id": "default",
        "status": "SCHEDULED",
        "priority": "DEFAULT",
        "dispatch_window_seconds": 0,
        "retry_policy": {"max_attempts": 5, "initial_backoff_seconds": 10, "max_backoff_seconds": 600},
        "misfire_policy": "RUN_ONCE",
        "misfire_grace_seconds": 60,
        "overlap_policy": "ALLOW",
        "delivery": "AT_LEAST_ONCE",
        "labels": {},
        "next_run_at": "2026-06-02T12:00:00Z",
        "next_run_local": "2026-06-02T08:00:00-04:00",
        "created_at": "2026-06-01T12:00:00Z",
        "updated_at": "2026-06-01T12:00:00Z",
        "version": 1,
        "adjusted": False,
    }
    assert {name: job[name] for name in expected} == expected


async def test_a_job_reads_as_it_was_made(world: Virtual) -> None:
    wanted = body(
        "*/5 * * * *",
        name="report",
        description="the daily report",
        payload={"a": [1, 2.5, None, "é"]},
        priority="HIGH",
        dispatch_window_seconds=60,
        retry_policy={"max_attempts": 3, "initial_backoff_seconds": 1.5, "max_backoff_seconds": 30},
        misfire_policy="SKIP",
        misfire_grace_seconds=5,
        overlap_policy="BUFFER_ONE",
        delivery="AT_MOST_ONCE",
        labels={"team": "billing"},
        max_runs=7,
        expires_after_seconds=3600,
        target={"url": URL, "method": "PUT", "timeout_seconds": 2.5, "headers": {"X-Team": "billing"}},
    )
    made = await world.ask("POST", "/v1/jobs", json=wanted)
    read = await world.ask("GET", f"/v1/jobs/{made['job_id']}")
    assert read == made | {"recent_runs": []}
    target, schedule = wanted.pop("target"), wanted.pop("schedule")
    assert {name: read[name] for name in wanted} == wanted
    assert {name: read["target"][name] for name in target} == target
    assert {name: read["schedule"][name] for name in schedule} == schedule


async def test_a_job_is_found_by_its_name_too(world: Virtual) -> None:
    made = await world.create("0 8 * * *", name="nightly report")
    assert (await world.ask("GET", "/v1/jobs/nightly%20report"))["job_id"] == made["job_id"]


@pytest.mark.parametrize("path", ["job_01ARZ3NDEKTSV4RRFFQ69G5FAV", "nobody", "%FF", "job_", "a:b"])
async def test_an_unknown_job_is_not_found(world: Virtual, path: str) -> None:
    refused(await world.api.get(f"/v1/jobs/{path}"), 404, "JOB_NOT_FOUND", "job_id")
    refused(await world.api.get(f"/v1/jobs/{path}/runs"), 404, "JOB_NOT_FOUND")
    refused(await world.api.delete(f"/v1/jobs/{path}"), 404, "JOB_NOT_FOUND")


async def test_a_registered_target_is_named_by_its_id(world: Virtual) -> None:
    made = await world.create(DAILY, target={"target_id": "billing", "path": "/invoices"})
    assert made["target"]["target_id"] == "billing"
    unknown = await post(world, target={"target_id": "nobody"})
    problem = refused(unknown, 404, "TARGET_NOT_FOUND", "target.target_id")
    assert "billing" in problem["detail"]


async def test_a_paused_job_has_no_next_run_until_it_is_resumed(world: Virtual) -> None:
    made = await world.create(DAILY, paused=True)
    assert (made["status"], made["next_run_at"]) == ("PAUSED", None)
    resumed = await world.ask("POST", f"/v1/jobs/{made['job_id']}:resume")
    assert (resumed["status"], resumed["next_run_at"]) == ("SCHEDULED", "2026-06-02T08:00:00Z")


async def test_an_interval_without_an_anchor_first_runs_one_interval_from_now(world: Virtual) -> None:
    made = await world.create({"type": "INTERVAL", "every_seconds": 900})
    assert made["next_run_at"] == "2026-06-01T12:15:00Z"
    assert made["schedule"]["anchor_at"] == "2026-06-01T12:00:00Z"


# ── names ────────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_name_belongs_to_one_job_at_a_time_and_is_free_when_that_has_ended(world: Virtual) -> None:
    first = await world.create(DAILY, name="report")
    problem = refused(await post(world, name="report"), 409, "NAME_IN_USE", "name")
    assert first["job_id"] in problem["detail"]
    await world.ask("DELETE", f"/v1/jobs/{first['job_id']}")
    second = await world.create(DAILY, name="report")
    assert (await world.ask("GET", "/v1/jobs/report"))["job_id"] == second["job_id"] != first["job_id"]
    assert (await world.ask("GET", f"/v1/jobs/{first['job_id']}"))["status"] == "CANCELLED"


async def test_of_many_that_want_one_name_at_once_one_gets_it(world: Virtual) -> None:
    answers = await asyncio.gather(*(post(world, name="report") for _ in range(20)))
    assert sorted(answer.status_code for answer in answers) == [201] + [409] * 19
    assert len((await world.ask("GET", "/v1/jobs"))["items"]) == 1


async def test_a_job_that_was_renamed_leaves_its_old_name(world: Virtual) -> None:
    first = await world.create(DAILY, name="old")
    await world.ask("PATCH", "/v1/jobs/old", json={"name": "new"})
    assert (await world.ask("GET", "/v1/jobs/new"))["job_id"] == first["job_id"]
    refused(await world.api.get("/v1/jobs/old"), 404, "JOB_NOT_FOUND")
    await world.create(DAILY, name="old")
    refused(await world.api.patch("/v1/jobs/old", json={"name": "new"}), 409, "NAME_IN_USE", "name")


@pytest.mark.parametrize("name", ["", " a", "a ", "a/b", "a:b", "job_x", "a\nb", "x" * 129, "\u200b"])
async def test_a_name_that_could_not_stand_where_an_id_can_is_refused(world: Virtual, name: str) -> None:
    refused(await post(world, name=name), 400, "INVALID_ARGUMENT", "name")


@pytest.mark.parametrize("name", ["a", "é 😀", "x" * 128, "Nightly report (old)", "1"])
async def test_any_other_name_is_one(world: Virtual, name: str) -> None:
    assert (await world.create(DAILY, name=name))["name"] == name


# ── list ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_list_is_paged_newest_first_without_a_loss_or_a_repeat(world: Virtual) -> None:
    made = []
    for _ in range(7):
        made.append((await world.create(DAILY))["job_id"])
        await world.wait(ms=1)
    seen: list[str] = []
    cursor = None
    while True:
        page = await world.ask("GET", "/v1/jobs", params={"limit": 3} | ({"cursor": cursor} if cursor else {}))
        seen += [job["job_id"] for job in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert seen == made[::-1]


async def test_a_list_can_be_narrowed(world: Virtual) -> None:
    await world.create("0 13 * * *", name="alpha-1", labels={"team": "a", "tier": "1"})
    await world.create("0 14 * * *", name="alpha-2", labels={"team": "a"}, paused=True)
    await world.create("0 15 * * *", name="beta", target={"target_id": "billing"})
    narrow = {
        "status=PAUSED": {"alpha-2"},
        "status=PAUSED&status=SCHEDULED": {"alpha-1", "alpha-2", "beta"},
        "label=team=a": {"alpha-1", "alpha-2"},
        "label=team=a&label=tier=1": {"alpha-1"},
        "name_prefix=alpha": {"alpha-1", "alpha-2"},
        "target_id=billing": {"beta"},
        "due_before=2026-06-01T15:00:00Z": {"alpha-1"},  # a paused job has no next run
        "status=COMPLETED": set(),
    }
    for query, names in narrow.items():
        assert {job["name"] for job in (await world.ask("GET", f"/v1/jobs?{query}"))["items"]} == names, query


async def test_a_narrow_list_finds_what_lies_pages_away(world: Virtual) -> None:
    await world.create(DAILY, labels={"rare": "1"})
    for _ in range(30):
        await world.create(DAILY)
    assert len((await world.ask("GET", "/v1/jobs?label=rare=1&limit=2"))["items"]) == 1


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("limit=0", "limit"),
        ("limit=501", "limit"),
        ("limit=x", "limit"),
        ("status=NOPE", "status"),
        ("label=nope", "label"),
        ("cursor=nonsense", "cursor"),
        ("due_before=tomorrow", "due_before"),
    ],
)
async def test_a_list_names_the_parameter_it_does_not_understand(world: Virtual, query: str, field: str) -> None:
    problem = refused(await world.api.get(f"/v1/jobs?{query}"), 400, "INVALID_ARGUMENT")
    assert problem["field"].startswith(field)


# ── edit ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_an_edit_changes_the_given_fields_and_raises_the_version(world: Virtual) -> None:
    made = await world.create(DAILY, description="old", labels={"a": "1"}, payload={"n": 1})
    await world.wait(seconds=5)
    edited = await world.ask("PATCH", f"/v1/jobs/{made['job_id']}", json={"description": "new", "priority": "LOW"})
    changed = {"description": "new", "priority": "LOW", "version": 2, "updated_at": "2026-06-01T12:00:05Z"}
    assert edited == made | changed


async def test_an_edit_that_changes_nothing_is_no_edit(world: Virtual) -> None:
    made = await world.create(DAILY, description="same")
    for patch in ({}, {"description": "same"}, {"schedule": DAILY}):
        assert (await world.ask("PATCH", f"/v1/jobs/{made['job_id']}", json=patch))["version"] == 1


async def test_null_takes_away_what_a_job_need_not_have(world: Virtual) -> None:
    made = await world.create(DAILY, name="report", description="x", max_runs=3, expires_after_seconds=9)
    patch = {"name": None, "description": None, "max_runs": None, "expires_after_seconds": None, "labels": None}
    edited = await world.ask("PATCH", "/v1/jobs/report", json=patch)
    assert {name: edited[name] for name in patch} == patch | {"labels": {}}
    refused(await world.api.get("/v1/jobs/report"), 404, "JOB_NOT_FOUND")
    answer = await world.api.patch(f"/v1/jobs/{made['job_id']}", json={"schedule": None})
    refused(answer, 400, "INVALID_ARGUMENT", "schedule")


async def test_an_edited_schedule_counts_from_now(running: Virtual) -> None:
    made = await running.create("0 13 * * *")
    edited = await running.ask(
        "PATCH", f"/v1/jobs/{made['job_id']}", json={"schedule": {"type": "CRON", "cron": "30 12 * * *"}}
    )
    assert edited["next_run_at"] == "2026-06-01T12:30:00Z"
    await running.wait(hours=2)
    assert running.targets.times() == ["2026-06-01T12:30:00Z"]


async def test_an_edit_to_a_time_just_past_runs_at_once_as_a_new_job_would(running: Virtual) -> None:
    made = await running.create({"type": "ONCE", "run_at": "2026-06-01T13:00:00Z"})
    soon = {"schedule": {"type": "ONCE", "run_at": "2026-06-01T11:59:30Z"}}
    await running.ask("PATCH", f"/v1/jobs/{made['job_id']}", json=soon)
    await running.wait(seconds=1)
    assert running.targets.times() == ["2026-06-01T11:59:30Z"]


async def test_an_edit_of_a_one_off_that_is_running_is_refused(running: Virtual) -> None:
    """W14."""
    running.targets.script = [Takes(20_000)]
    made = await running.create({"type": "ONCE", "run_at": "2026-06-01T12:01:00Z"})
    await running.wait(seconds=65)
    later = {"schedule": {"type": "ONCE", "run_at": "2026-06-01T13:00:00Z"}}
    answer = await running.api.patch(f"/v1/jobs/{made['job_id']}", json=later)
    problem = refused(answer, 409, "RUN_IN_PROGRESS")
    assert any("run cancel" in fix for fix in problem["fix"])


async def test_fewer_runs_than_there_were_already_bring_no_further_one(running: Virtual) -> None:
    made = await running.create("* * * * *")
    await running.wait(minutes=3)
    await running.ask("PATCH", f"/v1/jobs/{made['job_id']}", json={"max_runs": 2})
    await running.wait(minutes=5)
    assert len(running.targets.calls) == 3


async def test_a_target_and_a_retry_policy_are_patched_field_by_field(world: Virtual) -> None:
    made = await world.create(DAILY, target={"url": URL, "method": "PUT", "headers": {"X-A": "1"}})
    patch = {"target": {"timeout_seconds": 7}, "retry_policy": {"max_attempts": 9}}
    edited = await world.ask("PATCH", f"/v1/jobs/{made['job_id']}", json=patch)
    assert edited["target"] == made["target"] | {"timeout_seconds": 7}
    assert edited["retry_policy"] == made["retry_policy"] | {"max_attempts": 9}
    moved = await world.ask(
        "PATCH", f"/v1/jobs/{made['job_id']}", json={"target": {"target_id": "billing", "path": "/x"}}
    )
    assert (moved["target"]["target_id"], moved["target"]["path"]) == ("billing", "/x")


async def test_if_match_lets_only_the_reader_of_the_newest_version_edit(world: Virtual) -> None:
    made = await world.create(DAILY)
    path = f"/v1/jobs/{made['job_id']}"
    for version, status in (("1", 200), ('"2"', 200), ("*", 200), ("2", 409), ("x", 409)):
        answer = await world.api.patch(path, json={"description": f"by {version}"}, headers={"If-Match": version})
        assert answer.status_code == status, version
    problem = refused(answer, 409, "VERSION_CONFLICT", "If-Match")
    assert problem["version"] == 4


async def test_of_many_edits_at_once_none_is_lost(world: Virtual) -> None:
    made = await world.create(DAILY)
    path = f"/v1/jobs/{made['job_id']}"
    patches = [{"description": "d"}, {"priority": "LOW"}, {"labels": {"a": "1"}}, {"max_runs": 3}, {"payload": 1}]
    await asyncio.gather(*(world.ask("PATCH", path, json=patch) for patch in patches))
    job = await world.ask("GET", path)
    assert job["version"] == 6
    assert (job["description"], job["priority"], job["labels"], job["max_runs"], job["payload"]) == (
        *("d", "LOW", {"a": "1"}, 3, 1),
    )


# ── pause, resume, trigger, cancel ───────────────────────────────────────────────────────────────────────────────────


async def test_a_pause_says_why_and_until_when(world: Virtual) -> None:
    made = await world.create(DAILY)
    path = f"/v1/jobs/{made['job_id']}"
    paused = await world.ask("POST", path + ":pause", json={"reason": "moving house", "until": "2026-06-03T00:00:00Z"})
    assert (paused["status"], paused["pause_reason"], paused["paused_until"], paused["version"]) == (
        *("PAUSED", "moving house", "2026-06-03T00:00:00Z", 2),
    )
    resumed = await world.ask("POST", path + ":resume")
    assert (resumed["status"], resumed["pause_reason"], resumed["paused_until"]) == ("SCHEDULED", None, None)
    assert (await world.ask("POST", path + ":resume"))["version"] == resumed["version"], "it runs already"


async def test_a_pause_that_would_be_over_is_refused(world: Virtual) -> None:
    made = await world.create(DAILY)
    answer = await world.api.post(f"/v1/jobs/{made['job_id']}:pause", json={"until": "2026-06-01T12:00:00Z"})
    refused(answer, 400, "INVALID_ARGUMENT", "until")


async def test_a_trigger_runs_now_and_leaves_the_schedule_alone(running: Virtual) -> None:
    made = await running.create(DAILY, payload={"n": 1})
    run = await running.ask("POST", f"/v1/jobs/{made['job_id']}:trigger", json={"payload": {"n": 2}})
    assert run["run_id"] == f"{made['job_id']}:2026-06-01T12:00:00Z"
    await running.wait(seconds=1)
    (call,) = running.targets.calls
    assert (call.key, call.call.body) == (run["run_id"], b'{"n":2}')
    job = await running.ask("GET", f"/v1/jobs/{made['job_id']}")
    assert (job["next_run_at"], job["run_count"], job["version"]) == (made["next_run_at"], 0, 1)
    assert job["recent_runs"][0]["status"] == "SUCCEEDED"


async def test_a_retry_of_a_triggered_run_has_its_own_payload_still(running: Virtual) -> None:
    running.targets.script = [Answered(503)]
    made = await running.create(DAILY, payload={"n": 1})
    await running.ask("POST", f"/v1/jobs/{made['job_id']}:trigger", json={"payload": {"n": 2}})
    await running.wait(minutes=1)
    assert [made.call.body for made in running.targets.calls] == [b'{"n":2}', b'{"n":2}']


async def test_triggers_within_one_millisecond_are_as_many_runs(running: Virtual) -> None:
    made = await running.create(DAILY)
    answers = await asyncio.gather(*(running.ask("POST", f"/v1/jobs/{made['job_id']}:trigger") for _ in range(5)))
    assert len({answer["run_id"] for answer in answers}) == 5
    await running.wait(seconds=1)
    assert len(running.targets.calls) == 5


async def test_a_trigger_for_a_past_time_runs_once_under_that_time(running: Virtual) -> None:
    made = await running.create(DAILY)
    path = f"/v1/jobs/{made['job_id']}:trigger"
    run = await running.ask("POST", path, json={"as_of": "2026-05-31T08:00:00Z"})
    assert run["scheduled_for"] == "2026-05-31T08:00:00Z"
    refused(await running.api.post(path, json={"as_of": "2026-05-31T08:00:00Z"}), 409, "RUN_IN_PROGRESS", "as_of")
    refused(await running.api.post(path, json={"as_of": "2026-06-01T12:00:01Z"}), 400, "INVALID_ARGUMENT", "as_of")
    await running.wait(seconds=1)
    assert running.targets.times() == ["2026-05-31T08:00:00Z"]


async def test_cancelling_is_for_good_and_can_be_repeated(world: Virtual) -> None:
    made = await world.create(DAILY)
    path = f"/v1/jobs/{made['job_id']}"
    first = await world.ask("DELETE", path)
    assert (first["status"], first["next_run_at"]) == ("CANCELLED", None)
    assert await world.ask("DELETE", path) == first
    for method, suffix in (("POST", ":pause"), ("POST", ":resume"), ("POST", ":trigger"), ("PATCH", "")):
        refused(await world.api.request(method, path + suffix, json={}), 409, "JOB_ENDED")


# ── next and runs ────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_next_lists_what_will_run(world: Virtual) -> None:
    made = await world.create("0 8 * * *", max_runs=2)
    shown = await world.ask("GET", f"/v1/jobs/{made['job_id']}/next?count=5")
    times = [occurrence["scheduled_for"] for occurrence in shown["occurrences"]]
    assert times == ["2026-06-02T08:00:00Z", "2026-06-03T08:00:00Z"]
    await world.ask("POST", f"/v1/jobs/{made['job_id']}:pause")
    assert (await world.ask("GET", f"/v1/jobs/{made['job_id']}/next"))["occurrences"] == []


async def test_runs_of_a_job_come_newest_first_with_their_attempts(running: Virtual) -> None:
    """A0: runs show status, epoch, attempt, scheduled_for and attempts."""
    running.targets.script = [Answered(500), Answered(200, "done")]
    made = await running.create("*/10 * * * *", retry_policy={"initial_backoff_seconds": 0})
    assert (await running.ask("GET", f"/v1/jobs/{made['job_id']}/runs"))["items"] == []
    await running.wait(minutes=25)
    runs = (await running.ask("GET", f"/v1/jobs/{made['job_id']}/runs"))["items"]
    assert [run["scheduled_for"] for run in runs] == ["2026-06-01T12:20:00Z", "2026-06-01T12:10:00Z"]
    oldest = runs[-1]
    assert (oldest["status"], oldest["epoch"], oldest["attempt"], oldest["result"]) == ("SUCCEEDED", 2, 2, "done")
    assert oldest["attempts"] == [
        {
            "attempt": attempt,
            "epoch": attempt,
            "started_at": "2026-06-01T12:10:00Z",
            "finished_at": "2026-06-01T12:10:00Z",
            "outcome": outcome,
            "http_status": status,
            "error": error,
            "lag_ms": 0,
        }
        for attempt, outcome, status, error in (
            (1, "FAILED", 500, "the target answered 500"),
            (2, "SUCCEEDED", 200, None),
        )
    ]
    assert await running.ask("GET", f"/v1/runs/{oldest['run_id']}") == oldest


async def test_runs_across_jobs_can_be_paged_and_narrowed(running: Virtual) -> None:
    running.targets.script = [Answered(400)]
    for name in ("a", "b"):
        await running.create("*/10 * * * *", name=name)
    await running.wait(minutes=30)
    seen: list[str] = []
    cursor = None
    while True:
        page = await running.ask("GET", "/v1/runs", params={"limit": 4} | ({"cursor": cursor} if cursor else {}))
        seen += [run["run_id"] for run in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert len(seen) == len(set(seen)) == 6
    narrow = {
        "status=FAILED": 1,
        "job=a": 3,
        "since=2026-06-01T12:20:00Z": 4,
        "until=2026-06-01T12:20:00Z": 4,
        "since=2026-06-01T12:20:00Z&until=2026-06-01T12:20:00Z": 2,
        "job=a&since=2026-06-01T12:30:00Z": 1,
    }
    for query, many in narrow.items():
        assert len((await running.ask("GET", f"/v1/runs?{query}"))["items"]) == many, query


@pytest.mark.parametrize("run_id", ["x", "job_x:2026-06-01T12:00:00Z", "job_x:2026-06-01T12:00:00+00:00", "job_x:now"])
async def test_an_unknown_run_is_not_found(world: Virtual, run_id: str) -> None:
    refused(await world.api.get(f"/v1/runs/{run_id}"), 404, "RUN_NOT_FOUND", "run_id")
    refused(await world.api.post(f"/v1/runs/{run_id}:cancel"), 404, "RUN_NOT_FOUND", "run_id")


async def test_a_run_that_has_ended_cannot_be_cancelled(running: Virtual) -> None:
    made = await running.create("*/10 * * * *")
    await running.wait(minutes=10)
    answer = await running.api.post(f"/v1/runs/{made['job_id']}:2026-06-01T12:10:00Z:cancel")
    refused(answer, 409, "RUN_FINISHED")


# ── batches ──────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_each_job_of_a_batch_is_answered_by_itself_in_order(world: Virtual) -> None:
    jobs = [
        body(name="a"),
        body("nonsense"),
        body(name="a"),
        body() | {"idempotency_key": "k"},
        body() | {"idempotency_key": "k"},
        body("0 9 * * *") | {"idempotency_key": "k"},
        7,
        body() | {"idempotency_key": 5},
        body() | {"idempotency_key": ""},
        body() | {"idempotency_key": None},
        body(payload="x" * 70_000),
    ]
    results = (await world.ask("POST", "/v1/jobs:batchCreate", json={"jobs": jobs}))["results"]
    said = [(result["status"], result.get("error", {}).get("reason")) for result in results]
    assert said == [
        (201, None),
        (400, "INVALID_CRON"),
        (409, "NAME_IN_USE"),
        (201, None),
        (200, None),
        (422, "IDEMPOTENCY_KEY_REUSED"),
        (400, "INVALID_ARGUMENT"),
        (400, "INVALID_ARGUMENT"),
        (400, "INVALID_ARGUMENT"),
        (201, None),
        (413, "PAYLOAD_TOO_LARGE"),
    ]
    assert results[3]["job"]["job_id"] == results[4]["job"]["job_id"]
    assert len((await world.ask("GET", "/v1/jobs"))["items"]) == 3


@pytest.mark.parametrize("many", [0, 501])
async def test_a_batch_has_1_to_500_jobs(world: Virtual, many: int) -> None:
    answer = await world.api.post("/v1/jobs:batchCreate", json={"jobs": [7] * many})
    refused(answer, 400, "INVALID_ARGUMENT", "jobs")
