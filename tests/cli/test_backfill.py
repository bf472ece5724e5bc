"""`schedkit job backfill`: what is asked, what is read before the yes, how it is watched and looked after."""

from __future__ import annotations

from typing import Any

import pytest

from schedkit.cli.backfillpages import backfill_progress
from schedkit.model.time import parse_rfc3339
from tests.cli.conftest import Cli, FakeServer
from tests.cli.samples import BACKFILL, BACKFILL_ID, BACKFILL_PLAN, JOB_ID, problem

NOW = parse_rfc3339("2026-09-28T12:00:00Z")
LINE = ("job", "backfill", "digest", "--from", "7d", "--max-per-second", "2", "--utc")


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("schedkit.cli.values.now_ms", lambda: NOW)


def test_the_plan_is_read_before_the_yes_and_nothing_is_begun_without_it(cli: Cli, server: FakeServer) -> None:
    result = cli(*LINE)
    assert (result.exit_code, "[NOT_CONFIRMED]" in result.stderr) == (8, True)
    assert result.stderr.splitlines()[0].endswith(
        "168 occurrences of digest between 2026-09-21 12:00:00 +00:00 and 2026-09-28 12:00:00 +00:00"
    )
    assert result.stderr.splitlines()[1:6] == [
        "  will run  24   MISFIRED (20), no record (4)",
        "  left out  143 ran already, and will not run again",
        "  left out  1 failed: schedkit dlq redrive starts those",
        "  rate      at most 2/s, oldest first      done in about 12 s",
        "  key       each run under its own time and key; the schedule stays where it is",
    ]
    assert [asked.body["dry_run"] for asked in server.of("POST")] == [True]


def test_with_a_yes_it_is_begun_under_a_key_and_watched_to_its_end(cli: Cli, server: FakeServer) -> None:
    running = {**BACKFILL, "state": "RUNNING", "started": 3, "finished_at": None}
    server.answers[f"GET /v1/backfills/{BACKFILL_ID}"] = [(200, running), (200, BACKFILL)]
    server.answers["POST /v1/jobs/digest:backfill"] = lambda asked: (
        (200, BACKFILL_PLAN) if asked.body.get("dry_run") else (202, running)
    )
    result = cli(*LINE, "--order", "newest", "--reason", "the outage", "--yes")
    assert result.exit_code == 0, result.output
    begun = server.of("POST")[-1]
    assert begun.body == {
        "from": "2026-09-21T12:00:00Z",
        "to": "2026-09-28T12:00:00Z",
        "max_per_second": 2,
        "order": "newest",
        "note": "the outage",
    }
    assert len(begun.headers["idempotency-key"]) == 32
    assert f"backfill {BACKFILL_ID}  ########################  24/24  2/s  ok 24  failed 0  DONE" in result.stderr
    assert "occurrences\t168\nplanned\t24 to run, oldest first\nstarted\t24\nok\t24\nfailed\t0\n" in result.stdout
    assert "left out\t143 ran already, and will not run again\nleft out\t1 failed: " in result.stdout


@pytest.mark.parametrize(
    ("left", "told"),
    [
        ({"RAN_ALREADY": 70}, "612/1,180"),
        ({"RAN_ALREADY": 143}, "612/1,180"),
        ({"RAN_ALREADY": 143, "CHANGED": 5}, "612/1,175"),
        ({"RAN_ALREADY": 700}, "612/623"),
    ],
)
def test_how_far_it_is_heeds_what_was_foreseen_to_be_left_out(left: dict[str, int], told: str) -> None:
    running = {**BACKFILL, "state": "RUNNING", "occurrences": 1_323, "total": 1_180, "started": 612, "left": left}
    assert f"  {told}  " in backfill_progress(running)


@pytest.mark.parametrize("change", [{"failed": 1}, {"state": "STOPPED"}, {"state": "FAILED"}])
def test_an_end_that_is_not_a_good_one_is_exit_10(cli: Cli, server: FakeServer, change: dict[str, Any]) -> None:
    server.answers["POST /v1/jobs/digest:backfill"] = lambda asked: (
        (200, BACKFILL_PLAN) if asked.body.get("dry_run") else (202, {**BACKFILL, **change})
    )
    assert cli(*LINE, "--yes").exit_code == 10


def test_it_need_not_be_watched(cli: Cli, server: FakeServer) -> None:
    assert cli(*LINE, "--yes", "--no-follow", "-q").stdout == f"{BACKFILL_ID}\n"
    assert server.of("GET") == []


def test_a_dry_run_and_a_plan_of_nothing_begin_nothing(cli: Cli, server: FakeServer) -> None:
    assert "will run  24" in cli(*LINE, "--dry-run").stdout
    server.answer("POST /v1/jobs/digest:backfill", 200, {**BACKFILL_PLAN, "total": 0, "starts": {}})
    assert "will run  0\n" in cli(*LINE, "--yes").stdout
    assert all(asked.body["dry_run"] for asked in server.of("POST"))


def test_a_range_that_became_another_one_is_said(cli: Cli, server: FakeServer) -> None:
    server.answer("POST /v1/jobs/digest:backfill", 200, {**BACKFILL_PLAN, "notes": ["begins at 2026-08-29T12:00:00Z"]})
    assert "\n  note      begins at 2026-08-29T12:00:00Z\n" in cli(*LINE, "--dry-run").stdout


def test_where_runs_may_not_overlap_the_plan_says_so(cli: Cli, server: FakeServer) -> None:
    server.answer("POST /v1/jobs/digest:backfill", 200, {**BACKFILL_PLAN, "one_by_one": True})
    told = cli(*LINE, "--dry-run").stdout
    assert "done in about 12 s at best\n" in told
    assert "each run  after the one before it has ended" in told


def test_a_refusal_reads_as_every_other(cli: Cli, server: FakeServer) -> None:
    server.answer("POST /v1/jobs/digest:backfill", 409, problem(409, "NOT_BACKFILLABLE"))
    result = cli(*LINE)
    assert (result.exit_code, "[NOT_BACKFILLABLE]" in result.stderr) == (4, True)


def test_backfills_are_listed_and_moved(cli: Cli, server: FakeServer) -> None:
    assert cli("job", "backfills", "--state", "running,done", "-q").stdout == f"{BACKFILL_ID}\n"
    assert server.last.query["state"] == ["RUNNING", "DONE"]
    for verb in ("pause", "resume", "stop"):
        result = cli("job", f"backfill-{verb}", BACKFILL_ID)
        assert (result.exit_code, server.last.path) == (0, f"/v1/backfills/{BACKFILL_ID}:{verb}")
        assert (
            f"would {verb} {BACKFILL_ID}, which is DONE"
            in cli("job", f"backfill-{verb}", BACKFILL_ID, "--dry-run").stderr
        )
    assert cli("job", "backfill-stop", "a/b").exit_code == 3


def test_a_job_without_a_name_is_called_by_its_id(cli: Cli, server: FakeServer) -> None:
    server.answer("POST /v1/jobs/digest:backfill", 200, {**BACKFILL_PLAN, "job_name": None})
    assert f"occurrences of {JOB_ID} between" in cli(*LINE, "--dry-run").stdout
