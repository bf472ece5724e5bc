"""`schedkit run cancel` and `retry` of what a filter finds, against a real scheduler in process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from schedkit.model.calls import Answered
from tests.cli.conftest import Cli
from tests.cli.living import Living, living
from tests.worlds import HANGS, SLOW


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Iterator[Living]:
    monkeypatch.setenv("SCHEDKIT_URL", "http://127.0.0.1:8700")
    with living(monkeypatch) as found:
        yield found


def two_runs(here: Living, *replies: Any) -> list[str]:
    """The ids of a run of `digest` and one of `tea`, which were due at the same time and had these replies."""
    here.world.targets.script = list(replies)
    body = {"schedule": {"type": "ONCE", "run_at": "2026-06-01T12:00:30Z"}, "target": SLOW}
    made = [here.api("POST", "/v1/jobs", json={"name": name, **body}) for name in ("digest", "tea")]
    here.do(here.world.boot())
    here.pass_time(minutes=1)
    return [f"{job['job_id']}:2026-06-01T12:00:30Z" for job in made]


def statuses(here: Living, ids: list[str]) -> list[tuple[str, bool]]:
    runs = [here.api("GET", f"/v1/runs/{run_id}") for run_id in ids]
    return [(run["status"], run["cancel_requested"]) for run in runs]


def test_a_run_that_went_on_after_the_question_is_told_and_the_others_are_cancelled(here: Living, offline: Cli) -> None:
    """One waits for its retry when it is shown; it is called again before the cancel comes to it."""
    ids = two_runs(here, HANGS, Answered(503, retry_after="60"), HANGS)
    before = statuses(here, ids)
    assert sorted(status for status, _ in before) == ["RETRY_WAIT", "RUNNING"]
    here.before["POST"] = lambda: here.pass_time(minutes=2)
    result = offline("run", "cancel", "--all", "--yes", "-o", "json")
    assert (result.exit_code, "asked 1 of 2 runs, 1 changed meanwhile" in result.stderr) == (4, True), result.output
    assert [run["cancel_requested"] for run in json.loads(result.stdout)["items"]] == [True]
    assert "VERSION_CONFLICT" in result.stderr
    asked = [status == "RUNNING" for status, _ in before]
    assert statuses(here, ids) == [("RUNNING", stop) for stop in asked]


def test_a_dead_letter_that_somebody_else_retried_after_the_question_is_left_to_them(
    here: Living, offline: Cli
) -> None:
    ids = two_runs(here, Answered(400), Answered(400), Answered(400))
    here.before["POST"] = lambda: here.api("POST", f"/v1/runs/{ids[0]}:retry")
    result = offline("run", "retry", "--all", "--yes")
    assert (result.exit_code, "started 1 of 2 runs, 1 changed meanwhile" in result.stderr) == (4, True), result.output
    here.pass_time(minutes=1)
    assert [here.api("GET", f"/v1/runs/{run_id}")["series"] for run_id in ids] == [2, 2]
