"""The ledger over HTTP: it adds up through outages, pauses, edits and clock changes, and says what it cannot know."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from schedkit.model.calls import Answered
from schedkit.model.jobs import schedule_attributes
from schedkit.model.keys import ZONES_KEY, run_key
from schedkit.model.schedules import Cron
from schedkit.model.time import DAY_MS, HOUR_MS, parse_rfc3339, rfc3339
from schedkit.model.writes import Write
from schedkit.roles.recovery import recount_all
from tests.api.asking import DAILY, refused
from tests.worlds import SLOW, Takes, Virtual, once, virtual


async def ledger(world: Virtual, job_id: str, **asked: str) -> dict[str, Any]:
    found = await world.ask("GET", f"/v1/jobs/{job_id}/ledger", params=asked)
    told = found["ran"] + found["late"] + sum(found["skipped"].values()) + sum(found["missed"].values())
    assert found["expected"] == told + found["waiting"] + found["unaccounted"]
    return found


async def days(world: Virtual, count: int) -> None:
    """Four hours of each pass, and the clock is set forward over the rest of it."""
    for _ in range(count):
        await world.wait(hours=4)
        world.clock.jump(20 * HOUR_MS)


async def test_an_hour_of_minutes_is_accounted_for(running: Virtual) -> None:
    running.targets.script = [Answered(400)]
    made = await running.create("* * * * *")
    await running.wait(minutes=30, seconds=30)
    await running.ask("POST", f"/v1/jobs/{made['job_id']}:skipNext", json={"count": 2})
    await running.ask("POST", f"/v1/jobs/{made['job_id']}:trigger")
    await running.wait(minutes=15)
    found = await ledger(running, made["job_id"], until="2026-06-01T13:00:00Z")
    assert (found["expected"], found["ran"], found["skipped"], found["waiting"], found["beside"]) == (
        *(59, 43, {"SKIPPED_BY_HAND": 2}, 14, 1),
    )
    assert found["balanced"]
    assert found["notes"] == ["made at 2026-06-01T12:00:00Z: before that only what was backfilled is counted"]


async def test_the_range_has_its_beginning_and_not_its_end(running: Virtual) -> None:
    made = await running.create("* * * * *")
    await running.wait(minutes=10)
    found = await ledger(running, made["job_id"], since="2026-06-01T12:02:00Z", until="2026-06-01T12:05:00Z")
    assert (found["expected"], found["ran"], found["notes"]) == (3, 3, [])


async def test_a_range_reads_no_more_runs_than_it_has_where_the_digits_of_its_ends_differ() -> None:
    """1_800_000_000_000 ms lies in it: its ends share no digit but the first zeros, and keys are made of digits."""
    async with Virtual("2027-01-15T00:00:00Z") as world:
        made = await world.create("* * * * *")
        for _ in range(6):
            await world.ask("POST", f"/v1/jobs/{made['job_id']}:skipNext", json={"count": 90})
        for since, until in (("07:30", "07:50"), ("07:50", "08:10")):
            asked = {"since": f"2027-01-15T{since}:00Z", "until": f"2027-01-15T{until}:00Z"}
            before = world.line.made
            found = await ledger(world, made["job_id"], **asked)
            assert (found["expected"], found["skipped"]) == (20, {"SKIPPED_BY_HAND": 20})
            assert world.line.made - before == 2, "the job, and one page of runs"


async def test_after_an_outage_what_was_missed_and_what_ran_late_are_told_apart() -> None:
    async with virtual() as (world, process):
        made = await world.create("*/10 * * * *")
        await world.wait(minutes=13)
        process.kill()
        await world.wait(minutes=60)
        await world.boot()
        await world.wait(minutes=1)
        found = await ledger(world, made["job_id"])
        assert (found["ran"], found["late"], found["missed"], found["waiting"]) == (1, 1, {"MISFIRED": 5}, 0)


async def test_what_a_pause_passed_over_is_missed_and_nothing_else_is(running: Virtual) -> None:
    made = await running.create("* * * * *")
    path = f"/v1/jobs/{made['job_id']}"
    await running.wait(minutes=5, seconds=30)
    for _ in range(2):
        await running.ask("POST", path + ":pause")
        await running.wait(minutes=10)
        await running.ask("POST", path + ":resume")
        await running.wait(minutes=10)
    await running.ask("POST", path + ":pause")
    await running.wait(minutes=3)
    found = await ledger(running, made["job_id"])
    assert (found["ran"], found["missed"], found["waiting"]) == (25, {"MISSED_WHILE_PAUSED": 20}, 3)


async def test_an_edited_schedule_is_asked_from_its_change_on_and_records_tell_of_the_time_before(
    running: Virtual,
) -> None:
    made = await running.create("* * * * *")
    await running.wait(minutes=10)
    await running.ask("PATCH", f"/v1/jobs/{made['job_id']}", json={"schedule": DAILY | {"cron": "*/5 * * * *"}})
    await running.wait(minutes=10, seconds=1)
    found = await ledger(running, made["job_id"])
    assert (found["expected"], found["ran"], found["known_from"]) == (12, 12, "2026-06-01T12:10:00.001Z")
    assert found["notes"][1].startswith("of what was due before 2026-06-01T12:10:00.001Z only what has a record")


async def test_other_zone_data_makes_no_past_that_never_was(running: Virtual) -> None:
    """W2, W16, W14: what ran an hour off from what is right today ran; nothing is missing, and none runs again."""
    now_says = {"type": "CRON", "cron": "30 8 * * *", "time_zone": "America/Winnipeg"}
    made = await running.create(now_says | {"cron": "30 9 * * *"})  # as zone data of an hour less would have had it
    path = f"/v1/jobs/{made['job_id']}"
    await days(running, 3)
    await running.ask("POST", path + ":skipNext")
    await days(running, 2)
    stored = await running.job(made["job_id"])
    assert isinstance(stored.schedule, Cron)
    right = replace(stored.schedule, expression=now_says["cron"])
    await running.change(stored, {"schedule": schedule_attributes(right), "zone_data": "2025b"})
    await running.store.apply(Write(ZONES_KEY, "older", (), {"version": "2025b"}))
    assert await recount_all(running.new_world()) == 1
    assert rfc3339((await running.job(made["job_id"])).next_run_at or 0) == "2026-06-06T13:30:00Z"
    await days(running, 1)
    span = {"since": "2026-06-01T12:00:01Z", "until": "2026-06-07T12:00:00Z"}
    found = await ledger(running, made["job_id"], **span)
    assert (found["ran"], found["skipped"], found["unaccounted"]) == (5, {"SKIPPED_BY_HAND": 1}, 0)
    dry = {"from": span["since"], "to": span["until"], "dry_run": True}
    plan = await running.ask("POST", path + ":backfill", json=dry)
    assert (plan["starts"], plan["left"]) == ({"SKIPPED_BY_HAND": 1}, {"RAN_ALREADY": 5})
    assert "only what has a record can run" in plan["notes"][0]


async def test_a_run_that_was_cancelled_at_work_ran_and_the_ledger_says_so(running: Virtual) -> None:
    """W16, W14: it was called, so a backfill leaves it, and both say why."""
    running.targets.always = Takes(30_000, Answered(500))
    made = await running.create("*/10 * * * *", target=SLOW)
    await running.wait(minutes=10, seconds=10)
    await running.ask("POST", f"/v1/runs/{made['job_id']}:2026-06-01T12:10:00Z:cancel")
    await running.wait(minutes=1)
    span = {"since": "2026-06-01T12:00:01Z", "until": "2026-06-01T12:11:00Z"}
    found = await ledger(running, made["job_id"], **span)
    assert (found["ran"], found["cancelled"], found["skipped"]) == (1, 1, {})
    assert found["notes"][0].startswith("1 of those that ran, somebody cancelled at work: a backfill leaves them")
    dry = {"from": span["since"], "to": span["until"], "dry_run": True}
    plan = await running.ask("POST", f"/v1/jobs/{made['job_id']}:backfill", json=dry)
    assert (plan["total"], plan["left"]) == (0, {"CANCELLED_ALREADY": 1})


async def test_runs_are_kept_for_30_days_and_the_ledger_says_so(running: Virtual) -> None:
    made = await running.create(DAILY)
    running.clock.jump(40 * DAY_MS)
    await running.wait(minutes=2)
    found = await ledger(running, made["job_id"], since="2026-06-01T12:00:00Z")
    assert found["notes"] == ["what was due before 2026-06-11T12:02:00Z is not counted: runs are kept for 30 days"]
    assert found["expected"] == 30


@pytest.mark.parametrize("verb", ["cancel", "skip"])
async def test_nothing_is_expected_of_a_job_that_has_ended(running: Virtual, verb: str) -> None:
    made = await running.create(once("2026-06-01T12:30:00Z"))
    if verb == "cancel":
        await running.ask("DELETE", f"/v1/jobs/{made['job_id']}")
    else:
        await running.ask("POST", f"/v1/jobs/{made['job_id']}:skipNext")
    await running.wait(hours=1)
    found = await ledger(running, made["job_id"])
    assert (found["expected"], found["skipped"]) == ((0, {}) if verb == "cancel" else (1, {"SKIPPED_BY_HAND": 1}))


async def test_a_night_on_which_clocks_change_adds_up() -> None:
    """W3: 02:30 does not exist on 29 March 2026 in Berlin, and runs at 03:00; SKIP leaves it out."""
    async with virtual("2026-03-28T00:00:00Z") as (world, _):
        night = {"type": "CRON", "cron": "30 2 * * *", "time_zone": "Europe/Berlin"}
        first = await world.create(night)
        left_out = await world.create(night | {"dst_gap_policy": "SKIP"})
        await days(world, 4)
        assert (await ledger(world, first["job_id"], since="2026-03-28T00:00:00Z"))["ran"] == 4
        assert (await ledger(world, left_out["job_id"], since="2026-03-28T00:00:00Z"))["ran"] == 3


async def test_a_record_that_is_lost_is_noticed(running: Virtual) -> None:
    made = await running.create("* * * * *")
    await running.wait(minutes=10)
    lost = run_key(made["job_id"], parse_rfc3339("2026-06-01T12:04:00Z"))
    await running.store.apply(Write(lost, "lost", (), {"expires_at": 1}))
    await running.store.expire(running.clock.now(), 1)
    found = await ledger(running, made["job_id"])
    assert (found["balanced"], found["unaccounted"], found["unaccounted_times"]) == (
        *(False, 1, ["2026-06-01T12:04:00Z"]),
    )


async def test_a_ledger_of_too_many_occurrences_is_refused_and_says_how_far_one_reaches(running: Virtual) -> None:
    made = await running.create({"type": "INTERVAL", "every_seconds": 1})
    path = f"/v1/jobs/{made['job_id']}/ledger"
    span = {"since": "2026-06-01T12:00:00Z", "until": "2026-06-01T15:00:00Z"}
    problem = refused(await running.api.get(path, params=span), 400, "INVALID_ARGUMENT", "until")
    assert problem["fix"] == ["end at 2026-06-01T14:46:41Z, and ask for the rest from there on"]
    found = await ledger(running, made["job_id"], since="2026-06-01T12:00:00Z", until="2026-06-01T14:46:41Z")
    assert found["expected"] == 10_000


async def test_a_ledger_of_too_many_records_is_refused_and_says_how_far_one_reaches(
    running: Virtual, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many as there are may have been run by a schedule that is another one by now."""
    monkeypatch.setattr("schedkit.api.past.MOST_RUNS", 60)
    made = await running.create({"type": "INTERVAL", "every_seconds": 1})
    path = f"/v1/jobs/{made['job_id']}"
    await running.wait(minutes=3)
    await running.ask("PATCH", path, json={"schedule": DAILY})
    problem = refused(await running.api.get(path + "/ledger"), 400, "INVALID_ARGUMENT", "until")
    assert problem["fix"] == ["end at 2026-06-01T12:01:40Z, and ask for the rest from there on"]
    found = await ledger(running, made["job_id"], since="2026-06-01T12:00:00Z", until="2026-06-01T12:01:00Z")
    assert (found["expected"], found["ran"]) == (59, 59)


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"since": "2026-06-02T00:00:00Z", "until": "2026-06-01T00:00:00Z"}, "until"),
        ({"since": "yesterday"}, "since"),
        ({"until": "1969-01-01T00:00:00Z"}, "until"),
    ],
)
async def test_a_range_that_is_none_is_refused(world: Virtual, asked: dict[str, str], field: str) -> None:
    made = await world.create(DAILY)
    refused(await world.api.get(f"/v1/jobs/{made['job_id']}/ledger", params=asked), 400, "INVALID_ARGUMENT", field)
