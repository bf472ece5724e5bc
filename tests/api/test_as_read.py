"""Verbs on runs, and triggers, that are bound to what somebody read: where it went on they change nothing."""

from __future__ import annotations

from typing import Any

import pytest

from schedkit.model.calls import Answered
from tests.api.asking import DAILY, refused
from tests.worlds import HANGS, SLOW, Virtual

WAITS = Answered(503, retry_after="60")


def match(run: dict[str, Any]) -> dict[str, str]:
    return {"If-Match": f'"{run["status"]}/{run["epoch"]}"'}


async def only_run(world: Virtual) -> dict[str, Any]:
    (run,) = (await world.ask("GET", "/v1/runs"))["items"]
    found: dict[str, Any] = run
    return found


async def test_a_trigger_of_a_job_that_was_changed_since_is_refused(world: Virtual) -> None:
    made = await world.create(DAILY)
    path, seen = f"/v1/jobs/{made['job_id']}", {"If-Match": str(made["version"])}
    await world.ask("POST", path + ":trigger", headers=seen)
    await world.ask("PATCH", path, json={"payload": {"to": "everybody"}})
    problem = refused(await world.api.post(path + ":trigger", headers=seen), 409, "VERSION_CONFLICT", "If-Match")
    assert problem["version"] == 2
    assert len(await world.runs(made["job_id"])) == 1


async def test_a_change_that_comes_just_before_a_trigger_is_a_conflict_too(world: Virtual) -> None:
    made = await world.create(DAILY)
    path = f"/v1/jobs/{made['job_id']}"
    world.line.before["trigger"] = lambda: world.ask("PATCH", path, json={"payload": {"to": "everybody"}})
    refused(await world.api.post(path + ":trigger", headers={"If-Match": "1"}), 409, "VERSION_CONFLICT", "If-Match")
    assert await world.runs(made["job_id"]) == []


async def test_a_run_that_was_claimed_again_since_it_was_read_is_not_asked_to_stop(running: Virtual) -> None:
    running.targets.script = [WAITS, HANGS]
    await running.create("0 13 * * *", target=SLOW)
    await running.wait(hours=1, seconds=5)
    seen = await only_run(running)
    assert (seen["status"], seen["epoch"]) == ("RETRY_WAIT", 1)
    await running.wait(minutes=2)
    path = f"/v1/runs/{seen['run_id']}:cancel"
    problem = refused(await running.api.post(path, headers=match(seen)), 409, "VERSION_CONFLICT", "If-Match")
    assert (problem["run_status"], problem["epoch"]) == ("RUNNING", 2)
    assert "RUNNING/2 by now, not" in problem["detail"]
    assert (await only_run(running))["cancel_requested"] is False
    assert (await running.ask("POST", path, headers={"If-Match": "RUNNING/2"}))["cancel_requested"] is True


async def test_a_dead_letter_that_somebody_else_started_again_is_not_started_twice(running: Virtual) -> None:
    """F6: its epoch is the same until it is claimed, and its status tells."""
    running.targets.script = [Answered(400), Answered(400)]
    await running.create("0 13 * * *")
    await running.wait(hours=1, seconds=5)
    seen = await only_run(running)
    path = f"/v1/runs/{seen['run_id']}:retry"
    await running.ask("POST", path, headers=match(seen))
    refused(await running.api.post(path, headers=match(seen)), 409, "VERSION_CONFLICT", "If-Match")
    await running.wait(seconds=5)
    again = await only_run(running)
    assert (again["status"], again["epoch"], again["series"]) == ("FAILED", 2, 2)
    refused(await running.api.post(path, headers=match(seen)), 409, "VERSION_CONFLICT", "If-Match")
    assert len(running.targets.calls) == 2


@pytest.mark.parametrize("if_match", [None, "*", "FAILED/1", '"FAILED/1"'])
async def test_what_matches_is_done(running: Virtual, if_match: str | None) -> None:
    running.targets.script = [Answered(400)]
    await running.create("0 13 * * *")
    await running.wait(hours=1, seconds=5)
    path = f"/v1/runs/{(await only_run(running))['run_id']}:retry"
    headers = {} if if_match is None else {"If-Match": if_match}
    assert (await running.ask("POST", path, headers=headers))["series"] == 2


@pytest.mark.parametrize("if_match", ["", "1", "RUNNING", "FAILED/2", "failed/1", "FAILED/1, FAILED/2"])
async def test_what_does_not_match_is_not_done(running: Virtual, if_match: str) -> None:
    running.targets.script = [Answered(400)]
    await running.create("0 13 * * *")
    await running.wait(hours=1, seconds=5)
    path = f"/v1/runs/{(await only_run(running))['run_id']}:retry"
    refused(await running.api.post(path, headers={"If-Match": if_match}), 409, "VERSION_CONFLICT", "If-Match")
    assert (await only_run(running))["series"] == 1
