"""`schedkit dlq`, `run retry`, `run resolve`: what is sent, asked and printed."""

from __future__ import annotations

import json
import sys
from functools import partial
from typing import Any

import pytest

from schedkit.cli.invocation import Invocation
from schedkit.model.time import MINUTE_MS, parse_rfc3339
from schedkit.roles import retention
from tests.cli.conftest import Cli, FakeServer
from tests.cli.samples import DEAD, PLAN, REDRIVE, REDRIVE_ID, RUN, RUN_ID, page, problem

NOW = parse_rfc3339("2026-09-28T23:41:00Z")
RUNNING = REDRIVE | {"state": "RUNNING", "redriven": 612, "succeeded": 611, "failed": 1, "finished_at": None}
WAITING = REDRIVE | {"state": "WAITING", "redriven": 5, "succeeded": 5, "goes_on": False, "finished_at": None}


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("schedkit.cli.values.now_ms", lambda: NOW)
    monkeypatch.setattr("schedkit.cli.app.Invocation", partial(Invocation, sleep=lambda seconds: None))


@pytest.fixture
def person(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Somebody at a terminal; what is to be typed, line by line."""
    lines: list[str] = []

    class Keyboard:
        def isatty(self) -> bool:
            return True

        def readline(self) -> str:
            return lines.pop(0) + "\n" if lines else ""

    class Desk:
        """`sys`, with a keyboard: the runner of commands puts its own standard input there."""

        stdin = Keyboard()

        def __getattr__(self, name: str) -> Any:
            return getattr(sys, name)

    monkeypatch.setattr("schedkit.cli.invocation.sys", Desk())
    return lines


def sent(server: FakeServer, path: str) -> list[Any]:
    return [asked.body for asked in server.of("POST") if asked.path == path]


def redriving(server: FakeServer, *states: dict[str, Any]) -> None:
    """The server's redrive goes through these."""
    server.answers["POST /v1/dlq:redrive"] = lambda asked: (
        (200, PLAN) if asked.body.get("dry_run") else (202, states[0])
    )
    server.answers[f"GET /v1/redrives/{REDRIVE_ID}"] = [(200, state) for state in states[1:] or states]


def test_list_passes_its_filters_on(cli: Cli, server: FakeServer) -> None:
    result = cli(
        *("dlq", "list", "--target", "reports_rollup", "--reason", "attempts-exhausted", "--job", "digest"),
        *("--failed-after", "2h", "--failed-before", "2026-09-28T23:00:00Z", "-n", "3"),
    )
    assert result.exit_code == 0, result.output
    assert server.last.query == {
        "limit": ["3"],
        "target_id": ["reports_rollup"],
        "job_id": ["digest"],
        "reason": ["ATTEMPTS_EXHAUSTED"],
        "failed_after": ["2026-09-28T21:41:00Z"],
        "failed_before": ["2026-09-28T23:00:00Z"],
    }
    assert "the target answered 504; attempt 5 of 5" in result.stdout


def test_groups_are_counted_by_the_server(cli: Cli, server: FakeServer) -> None:
    group = {"target_id": None, "error": "504", "count": 1174, "oldest": DEAD["failed_at"], "newest": DEAD["failed_at"]}
    server.answer("GET /v1/dlq", 200, {"items": [group], "counted": 1174, "complete": True})
    result = cli("dlq", "list", "--group-by", "target,error", "--utc")
    assert server.last.query == {"group_by": ["target,error"]}
    assert result.stdout.split("\t")[:3] == ["1,174", "-", "504"]
    assert cli("dlq", "list", "--group-by", "colour").exit_code == 9


@pytest.mark.parametrize("verb", ["list", "redrive", "drop"])
def test_a_url_is_no_registered_target(verb: str, cli: Cli, server: FakeServer) -> None:
    """It would match nothing, and 'no dead letters' would be a lie."""
    told = cli("dlq", verb, "--target", "https://host.example/path")
    assert (told.exit_code, server.asked) == (9, [])
    assert "the name of a registered target, not a URL" in told.stderr
    assert "--job JOB" in told.stderr


def test_an_empty_list_says_so(cli: Cli, server: FakeServer) -> None:
    server.answer("GET /v1/dlq", 200, page())
    assert "nothing has failed for good" in cli("dlq", "list").stderr
    assert "no dead letters match (job digest)" in cli("dlq", "list", "--job", "digest").stderr


def test_show_has_each_attempt(cli: Cli) -> None:
    text = cli("dlq", "show", RUN_ID, "--utc").stdout
    assert f"run id\t{RUN_ID}\n" in text
    assert "1  epoch 1  2026-09-28 12:00:00.003 +00:00" in text


# ── redrive ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_dry_run_prints_the_preview_and_changes_nothing(cli: Cli, server: FakeServer) -> None:
    result = cli("dlq", "redrive", "--target", "reports_rollup", "--dry-run", "--utc")
    assert result.stdout == (
        f"{server.url[7:]}: 1,180 dead letters for reports_rollup, oldest 2026-09-28 23:09:00 +00:00, "
        "newest 2026-09-28 23:40:00 +00:00\n"
        "  cause     the target answered 504 (1,174), connection reset (6)\n"
        "  rate      at most 50/s      done in about 24 s\n"
        "  first     5 runs, then stop and ask\n"
        "  each run  new attempt series, epoch + 1, same idempotency key as before\n"
    )
    assert [body["dry_run"] for body in sent(server, "/v1/dlq:redrive")] == [True]


def test_a_person_is_asked_before_and_after_the_canary(cli: Cli, server: FakeServer, person: list[str]) -> None:
    redriving(server, RUNNING, WAITING, RUNNING, REDRIVE)
    server.answers[f"POST /v1/redrives/{REDRIVE_ID}:continue"] = (200, RUNNING)
    person += ["y", "y"]
    result = cli("dlq", "redrive", "--target", "reports_rollup", "--reason", "target is back", "--utc")
    assert result.exit_code == 0, result.output
    assert "redrive them? [y/N] " in result.stderr
    assert "canary  5/5 ok, 4 ms median\ncontinue with 1,175 at 50/s? [y/N] " in result.stderr
    assert f"redrive {REDRIVE_ID}  {'#' * 24}  1,180/1,180  50/s  ok 1,180  failed 0  DONE" in result.stderr
    assert "redriven\t1,180 of 1,180\n" in result.stdout
    assert sent(server, "/v1/dlq:redrive")[-1] == {
        "filter": {"target_id": "reports_rollup"},
        "max_per_second": 50,
        "canary": 5,
        "include_unknown": False,
        "goes_on": False,
        "note": "target is back",
    }


def test_no_is_no_at_both_questions(cli: Cli, server: FakeServer, person: list[str]) -> None:
    redriving(server, WAITING)
    person += ["n"]
    assert cli("dlq", "redrive").exit_code == 8
    assert len(sent(server, "/v1/dlq:redrive")) == 1
    person += ["y", "n"]
    result = cli("dlq", "redrive")
    assert result.exit_code == 8
    assert f"schedkit dlq redrive-continue {REDRIVE_ID}" in result.stderr
    assert sent(server, f"/v1/redrives/{REDRIVE_ID}:continue") == []


def test_without_a_terminal_it_takes_yes_and_then_goes_on_by_itself(cli: Cli, server: FakeServer) -> None:
    redriving(server, RUNNING, REDRIVE)
    assert cli("dlq", "redrive").exit_code == 8
    result = cli(
        *("dlq", "redrive", "--yes", "--max-per-second", "10", "--canary", "1", "--limit", "7", "--run", RUN_ID),
        *("--include-unknown", "--idempotency-key", "k1", "-o", "json"),
    )
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout) == {"schema": "schedkit.redrive/v1"} | REDRIVE
    assert sent(server, "/v1/dlq:redrive")[-1] == {
        "filter": {"run_ids": [RUN_ID]},
        "max_per_second": 10,
        "canary": 1,
        "include_unknown": True,
        "limit": 7,
        "goes_on": True,
    }
    begun = next(asked for asked in server.of("POST") if not asked.body.get("dry_run"))
    assert begun.headers["idempotency-key"] == "k1"


@pytest.mark.parametrize(
    ("end", "code"),
    [
        ({"state": "STOPPED", "state_reason": "CANARY_FAILED", "failed": 1}, 10),
        ({"state": "DONE", "failed": 3}, 10),
        ({"state": "PAUSED"}, 10),
        ({"state": "DONE"}, 0),
    ],
)
def test_the_exit_code_says_how_it_ended(end: dict[str, Any], code: int, cli: Cli, server: FakeServer) -> None:
    redriving(server, RUNNING, REDRIVE | end)
    assert cli("dlq", "redrive", "--yes").exit_code == code


def test_nothing_to_do_is_said_and_not_asked(cli: Cli, server: FakeServer) -> None:
    nothing = PLAN | {"total": 0, "causes": [], "oldest": None, "newest": None, "notes": ["3 of paused jobs stay"]}
    server.answer("POST /v1/dlq:redrive", 200, nothing)
    result = cli("dlq", "redrive")
    assert result.exit_code == 0
    assert result.stdout.endswith(": 0 dead letters\n  note      3 of paused jobs stay\n")


def test_it_can_be_left_to_itself(cli: Cli, server: FakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    redriving(server, RUNNING)
    assert "state\tRUNNING\n" in cli("dlq", "redrive", "--yes", "--no-follow").stdout

    def ctrl_c(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("schedkit.cli.app.Invocation", partial(Invocation, sleep=ctrl_c))
    result = cli("dlq", "redrive", "--yes")
    assert result.exit_code == 130
    assert f"{REDRIVE_ID} goes on; look at it: schedkit dlq redrives" in result.stderr
    assert sent(server, f"/v1/redrives/{REDRIVE_ID}:stop") == []


@pytest.mark.parametrize("verb", ["pause", "resume", "continue", "stop"])
def test_a_redrive_is_moved_and_shown(verb: str, cli: Cli, server: FakeServer) -> None:
    assert cli("dlq", f"redrive-{verb}", REDRIVE_ID).exit_code == 0
    assert server.last.path == f"/v1/redrives/{REDRIVE_ID}:{verb}"
    asked = len(server.of("POST"))
    assert f"would {verb} {REDRIVE_ID}" in cli("dlq", f"redrive-{verb}", REDRIVE_ID, "--dry-run").stderr
    assert len(server.of("POST")) == asked
    server.answer(f"POST /v1/redrives/{REDRIVE_ID}:{verb}", 409, problem(409, "REDRIVE_STATE"))
    assert cli("dlq", f"redrive-{verb}", REDRIVE_ID).exit_code == 4
    assert cli("dlq", f"redrive-{verb}", "../jobs").exit_code == 3


def test_redrives_are_listed_by_state(cli: Cli, server: FakeServer) -> None:
    result = cli("dlq", "redrives", "--state", "running,waiting")
    assert server.last.query["state"] == ["RUNNING", "WAITING"]
    assert result.stdout.split("\t")[:3] == [REDRIVE_ID, "DONE", "1,180/1,180"]


# ── drop ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_giving_up_takes_the_number_typed_or_said(cli: Cli, server: FakeServer, person: list[str]) -> None:
    assert cli("dlq", "drop", "--yes", "--no-input").exit_code == 8
    assert cli("dlq", "drop", "--confirm", "3").exit_code == 8
    person += ["3"]
    assert cli("dlq", "drop").exit_code == 8
    assert all(body.get("dry_run") for body in sent(server, "/v1/dlq:drop"))
    person += ["2"]
    result = cli("dlq", "drop", "--job", "digest", "--reason", "too old")
    assert result.stdout == "gave up 2 dead letters\n"
    assert sent(server, "/v1/dlq:drop")[-1] == {
        "filter": {"job_id": "digest"},
        "archive": True,
        "note": "too old",
        "limit": 2,
    }
    forgotten = cli("dlq", "drop", "--confirm", "2", "--no-archive")
    assert retention.PASS_EVERY_MS == 10 * MINUTE_MS
    assert (forgotten.exit_code, "within 10 minutes, forgets them" in forgotten.stderr) == (0, True)
    assert "would give up 2 dead letters; they stay" in cli("dlq", "drop", "--dry-run").stdout


def test_one_dead_letter_is_one(cli: Cli, server: FakeServer) -> None:
    server.answers["POST /v1/dlq:drop"] = (
        200,
        {"total": 1, "dropped": 1, "more": False, "archive": True, "causes": []},
    )
    assert "would give up 1 dead letter;" in cli("dlq", "drop", "--dry-run").stdout
    assert cli("dlq", "drop", "--confirm", "1").stdout == "gave up 1 dead letter\n"


# ── one run ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_one_run_is_started_again(cli: Cli, server: FakeServer) -> None:
    assert cli("run", "retry", RUN_ID).stdout == f"started {RUN_ID} again: series 2 of attempts\n"
    assert server.last.body == {"include_unknown": False}
    cli("run", "retry", RUN_ID, "--include-unknown")
    assert server.last.body == {"include_unknown": True}
    assert "would start" in cli("run", "retry", RUN_ID, "--dry-run").stdout
    assert server.last.method == "GET"
    assert cli("run", "retry", RUN_ID, "--wait").exit_code == 0
    server.answer(f"POST /v1/runs/{RUN_ID}:retry", 409, problem(409, "NOT_A_DEAD_LETTER"))
    assert cli("run", "retry", RUN_ID).exit_code == 4


def test_an_unknown_run_is_settled_after_a_question(cli: Cli, server: FakeServer, person: list[str]) -> None:
    server.answer(f"GET /v1/runs/{RUN_ID}", 200, RUN | {"status": "UNKNOWN"})
    person += ["n", "y"]
    assert cli("run", "resolve", RUN_ID, "--as", "failed").exit_code == 8
    assert sent(server, f"/v1/runs/{RUN_ID}:resolve") == []
    result = cli("run", "resolve", RUN_ID, "--as", "succeeded", "--note", "seen in the ledger")
    assert result.stdout == f"recorded {RUN_ID} as SUCCEEDED\n"
    assert server.last.body == {"as": "SUCCEEDED", "note": "seen in the ledger"}
    assert "would record" in cli("run", "resolve", RUN_ID, "--as", "failed", "--dry-run").stdout
    assert cli("run", "resolve", RUN_ID, "--as", "lost").exit_code == 9
