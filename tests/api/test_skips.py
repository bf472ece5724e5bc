"""Skip-next over HTTP: what does not run is recorded, what was claimed meanwhile is told, the rest stands (W14)."""

from __future__ import annotations

from typing import Any

import pytest

from schedkit.engine.when import advance as advancing
from schedkit.engine.when.plan import Start
from schedkit.engine.who import claim as claiming
from schedkit.engine.who.claim import Holder
from schedkit.model.calls import Answered
from schedkit.model.jobs import JobStatus
from schedkit.model.keys import RETENTION_MS, run_key
from schedkit.model.time import parse_rfc3339
from tests.api.asking import DAILY, refused
from tests.worlds import SLOW, Takes, Virtual, once


async def skip(
    world: Virtual, job_id: str, count: int | None = None, first: str | None = None, **options: Any
) -> dict[str, Any]:
    asked = {name: value for name, value in (("count", count), ("first", first)) if value is not None}
    return await world.ask("POST", f"/v1/jobs/{job_id}:skipNext", **({"json": asked} if asked else {}), **options)


async def test_the_next_run_does_not_happen_and_the_one_after_it_does(running: Virtual) -> None:
    made = await running.create("*/10 * * * *")
    answer = await skip(running, made["job_id"])
    assert (answer["skipped"], answer["next_run_at"]) == (["2026-06-01T12:10:00Z"], "2026-06-01T12:20:00Z")
    assert (answer["version"], answer["run_count"], answer["status"]) == (2, 0, "SCHEDULED")
    await running.wait(minutes=21)
    assert await running.told(made["job_id"]) == [("12:10:00", "SKIPPED_BY_HAND"), ("12:20:00", "SUCCEEDED")]
    assert running.targets.times() == ["2026-06-01T12:20:00Z"]


async def test_several_are_skipped_at_once_and_each_has_its_record(running: Virtual) -> None:
    made = await running.create("* * * * *", overlap_policy="SKIP")
    answer = await skip(running, made["job_id"], 90)
    assert (len(answer["skipped"]), answer["next_run_at"]) == (90, "2026-06-01T13:31:00Z")
    runs = await running.runs(made["job_id"])
    assert {(run.status, run.reason) for run in runs} == {("SKIPPED", "SKIPPED_BY_HAND")}
    assert len(runs) == 90


async def test_what_was_skipped_ahead_of_its_time_is_no_last_run_before_that_has_come(running: Virtual) -> None:
    made = await running.create("* * * * *")
    await running.wait(minutes=3, seconds=1)
    for _ in range(2):
        await skip(running, made["job_id"], 90)
    path = f"/v1/jobs/{made['job_id']}"
    shown = (await running.ask("GET", path))["recent_runs"]
    assert [run["scheduled_for"][11:16] for run in shown] == ["12:03", "12:02", "12:01"]
    assert len((await running.ask("GET", path + "/runs", params={"limit": "500"}))["items"]) == 183
    await running.wait(minutes=1)
    assert (await running.ask("GET", path))["recent_runs"][0]["reason"] == "SKIPPED_BY_HAND"


async def test_a_cancel_finds_what_waits_for_a_retry_behind_all_that_was_skipped_ahead(running: Virtual) -> None:
    running.targets.always = Answered(503, retry_after="600")
    made = await running.create("* * * * *")
    await running.wait(minutes=1, seconds=1)
    for _ in range(6):
        await skip(running, made["job_id"], 90)
    await running.ask("DELETE", f"/v1/jobs/{made['job_id']}")
    assert (await running.runs(made["job_id"]))[0].reason == "JOB_CANCELLED"


async def test_said_twice_it_skips_twice_but_not_under_the_version_that_was_read(world: Virtual) -> None:
    made = await world.create(DAILY)
    match = {"If-Match": str(made["version"])}
    assert (await skip(world, made["job_id"], headers=match))["skipped"] == ["2026-06-02T08:00:00Z"]
    again = await world.api.post(f"/v1/jobs/{made['job_id']}:skipNext", headers=match)
    refused(again, 409, "VERSION_CONFLICT", "If-Match")
    assert (await world.job(made["job_id"])).next_run_at == parse_rfc3339("2026-06-03T08:00:00Z")
    assert (await skip(world, made["job_id"]))["skipped"] == ["2026-06-03T08:00:00Z"]


async def test_what_is_skipped_far_ahead_keeps_its_record_until_long_after_its_time(world: Virtual) -> None:
    """C3: thirty days from when it was due, not from when somebody skipped it."""
    made = await world.create("0 8 1 * *")
    at = (await skip(world, made["job_id"], 3))["skipped"][-1]
    assert at == "2026-09-01T08:00:00Z"
    item = await world.store.get(run_key(made["job_id"], parse_rfc3339(at)))
    assert item is not None
    assert item["expires_at"] == parse_rfc3339(at) + RETENTION_MS


async def test_a_skipped_time_that_an_edit_meets_again_is_no_run(running: Virtual) -> None:
    """W14: it is passed by, and takes nothing from max_runs."""
    made = await running.create("0 * * * *", max_runs=2)
    await skip(running, made["job_id"], 2)
    await running.ask(
        "PATCH", f"/v1/jobs/{made['job_id']}", json={"schedule": {**made["schedule"], "cron": "0 */1 * * *"}}
    )
    await running.wait(hours=5)
    assert running.targets.times() == ["2026-06-01T15:00:00Z", "2026-06-01T16:00:00Z"]
    assert (await running.ask("GET", f"/v1/jobs/{made['job_id']}"))["status"] == "COMPLETED"


async def test_a_one_off_that_is_skipped_ends_and_says_why(running: Virtual) -> None:
    made = await running.create(once("2026-06-01T12:30:00Z"))
    answer = await skip(running, made["job_id"])
    assert (answer["status"], answer["status_reason"]) == ("CANCELLED", "SKIPPED_BY_HAND")
    await running.wait(hours=1)
    assert await running.told(made["job_id"]) == [("12:30:00", "SKIPPED_BY_HAND")]
    refused(await running.api.post(f"/v1/jobs/{made['job_id']}:skipNext"), 409, "JOB_ENDED")


async def test_a_schedule_whose_last_occurrence_is_skipped_comes_to_its_end(running: Virtual) -> None:
    schedule = {"type": "INTERVAL", "every_seconds": 60, "end_at": "2026-06-01T12:02:30Z"}
    made = await running.create(schedule)
    assert len((await skip(running, made["job_id"], 5))["skipped"]) == 2
    await running.wait(minutes=1)
    assert (await running.job(made["job_id"])).status is JobStatus.COMPLETED


async def test_a_one_off_that_runs_has_nothing_to_skip(running: Virtual) -> None:
    running.targets.always = Takes(60_000)
    made = await running.create(once("2026-06-01T12:30:00Z"), target=SLOW)
    await running.wait_until("2026-06-01T12:30:05Z")
    refused(await running.api.post(f"/v1/jobs/{made['job_id']}:skipNext"), 409, "NOTHING_TO_SKIP")


async def test_a_paused_job_has_nothing_to_skip(world: Virtual) -> None:
    made = await world.create(DAILY)
    await world.ask("POST", f"/v1/jobs/{made['job_id']}:pause")
    problem = refused(await world.api.post(f"/v1/jobs/{made['job_id']}:skipNext"), 409, "NOTHING_TO_SKIP")
    assert problem["fix"] == [f"schedkit job resume {made['job_id']}"]


@pytest.mark.parametrize("count", [0, 91, "1", 1.5])
async def test_a_count_that_is_none_is_refused(world: Virtual, count: Any) -> None:
    made = await world.create(DAILY)
    answer = await world.api.post(f"/v1/jobs/{made['job_id']}:skipNext", json={"count": count})
    refused(answer, 400, "INVALID_ARGUMENT", "count")


async def test_under_the_time_of_the_first_a_repeat_skips_nothing_twice(world: Virtual) -> None:
    made = await world.create(DAILY)
    first = "2026-06-02T10:00:00+02:00"
    assert (await skip(world, made["job_id"], first=first))["skipped"] == ["2026-06-02T08:00:00Z"]
    again = await world.api.post(f"/v1/jobs/{made['job_id']}:skipNext", json={"first": first})
    problem = refused(again, 409, "RUN_FINISHED")
    assert "2026-06-02T08:00:00Z is SKIPPED by now; nothing was skipped" in problem["detail"]
    assert len(await world.runs(made["job_id"])) == 1


@pytest.mark.parametrize("first", ["2026-06-02T07:00:00Z", "2026-06-03T08:00:00Z"], ids=["never due", "not the next"])
async def test_a_first_that_does_not_come_next_is_told_what_does(world: Virtual, first: str) -> None:
    made = await world.create(DAILY, name="digest")
    answer = await world.api.post("/v1/jobs/digest:skipNext", json={"first": first, "count": 2})
    problem = refused(answer, 409, "VERSION_CONFLICT", "first")
    assert (problem["next"], problem["fix"]) == ("2026-06-02T08:00:00Z", ["schedkit job next digest"])
    assert await world.runs(made["job_id"]) == []


async def test_the_first_may_be_the_one_that_waits_for_the_run_before_it(running: Virtual) -> None:
    running.targets.always = Takes(200_000)
    made = await running.create("* * * * *", overlap_policy="BUFFER_ONE", target=SLOW)
    await running.wait(minutes=2, seconds=30)
    job = await running.ask("GET", f"/v1/jobs/{made['job_id']}")
    assert (job["held_run_at"], job["next_run_at"]) == ("2026-06-01T12:02:00Z", "2026-06-01T12:03:00Z")
    answer = await running.api.post(f"/v1/jobs/{made['job_id']}:skipNext", json={"first": job["next_run_at"]})
    assert refused(answer, 409, "VERSION_CONFLICT", "first")["next"] == job["held_run_at"]
    assert (await skip(running, made["job_id"], first=job["held_run_at"]))["skipped"] == [job["held_run_at"]]


async def test_a_first_that_is_no_time_is_refused(world: Virtual) -> None:
    made = await world.create(DAILY)
    answer = await world.api.post(f"/v1/jobs/{made['job_id']}:skipNext", json={"first": "tomorrow"})
    refused(answer, 400, "INVALID_ARGUMENT", "first")


# ── races ────────────────────────────────────────────────────────────────────────────────────────────────────────────


async def claims(world: Virtual, job_id: str, *, advances: bool) -> None:
    """Somebody claims the job's next occurrence."""
    job = await world.job(job_id)
    assert job.next_run_at is not None
    at = job.next_run_at
    held = Holder("node-9", "token-9")
    await world.store.apply(claiming.claim(job, at, at, misfired=False, holder=held, shards=1, now=at))
    if advances:
        await world.store.apply(advancing.advance(job, Start(at), 1, at))


@pytest.mark.parametrize("advances", [True, False], ids=["claimed and gone on", "claimed"])
async def test_an_occurrence_that_is_claimed_meanwhile_is_not_skipped_and_neither_is_the_next(
    world: Virtual, advances: bool
) -> None:
    made = await world.create("* * * * *")
    await world.wait(minutes=1)
    before = (await world.job(made["job_id"])).version
    world.line.before["skip next"] = lambda: claims(world, made["job_id"], advances=advances)
    answer = await world.api.post(f"/v1/jobs/{made['job_id']}:skipNext", json={"count": 3})
    problem = refused(answer, 409, "RUN_IN_PROGRESS")
    assert "2026-06-01T12:01:00Z" in problem["detail"]
    assert (await world.job(made["job_id"])).version == before
    assert [run.status for run in await world.runs(made["job_id"])] == ["RUNNING"]


async def test_a_verb_that_comes_between_is_seen_and_the_skip_is_decided_anew(world: Virtual) -> None:
    made = await world.create(DAILY)
    path = f"/v1/jobs/{made['job_id']}"
    world.line.before["skip next"] = lambda: world.ask("PATCH", path, json={"schedule": DAILY | {"cron": "0 9 * * *"}})
    assert (await skip(world, made["job_id"]))["skipped"] == ["2026-06-02T09:00:00Z"]


async def test_a_verb_that_comes_between_is_a_conflict_under_the_version_that_was_read(world: Virtual) -> None:
    made = await world.create(DAILY)
    path = f"/v1/jobs/{made['job_id']}"
    world.line.before["skip next"] = lambda: world.ask("PATCH", path, json={"priority": "LOW"})
    answer = await world.api.post(path + ":skipNext", headers={"If-Match": "1"})
    refused(answer, 409, "VERSION_CONFLICT", "If-Match")
    assert await world.runs(made["job_id"]) == []


@pytest.mark.parametrize(("takes_ms", "reason"), [(0, "RUN_FINISHED"), (30_000, "RUN_IN_PROGRESS")])
async def test_an_occurrence_that_passed_since_the_job_was_read_is_not_made_up_for_by_the_next(
    running: Virtual, takes_ms: int, reason: str
) -> None:
    """W14: the schedule goes on without a new version, so the version does not tell."""
    running.targets.always = Takes(takes_ms)
    made = await running.create("*/10 * * * *")
    await running.wait(minutes=10, seconds=1)
    first, match = {"first": made["next_run_at"]}, {"If-Match": str(made["version"])}
    answer = await running.api.post(f"/v1/jobs/{made['job_id']}:skipNext", json=first, headers=match)
    assert "2026-06-01T12:10:00Z" in refused(answer, 409, reason)["detail"]
    assert (await running.job(made["job_id"])).next_run_at == parse_rfc3339("2026-06-01T12:20:00Z")


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
async def test_a_process_that_dies_at_the_skip_has_skipped_wholly_or_not_at_all(before: bool) -> None:
    """One atomic write: the job has gone on, and each record stands, or neither."""
    async with Virtual() as world:
        made = await world.create(DAILY)
        steps = world.line.made + 1  # it reads the job, then it writes
        world.line.dies_before, world.line.dies_after = (steps, None) if before else (None, steps)
        world.start(world.api.post(f"/v1/jobs/{made['job_id']}:skipNext", json={"count": 3}))
        await world.wait(seconds=1)
        job, runs = await world.job(made["job_id"]), await world.runs(made["job_id"])
        assert (len(runs), job.version) == ((0, 1) if before else (3, 2))
        expected = "2026-06-02T08:00:00Z" if before else "2026-06-05T08:00:00Z"
        assert job.next_run_at == parse_rfc3339(expected)


async def test_the_audit_log_has_each_skip(world: Virtual) -> None:
    made = await world.create(DAILY)
    await skip(world, made["job_id"], 2, headers={"Schedkit-Reason": "holiday"})
    record = (await world.ask("GET", "/v1/audit"))["items"][0]
    assert (record["action"], record["resource"], record["before"], record["after"], record["given"]) == (
        *("skip_next", made["job_id"], "1", "2", "holiday"),
    )
