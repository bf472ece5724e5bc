"""`schedkit worker`: what is sent, what is printed, and what is refused before anything is taken."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from schedkit.model.time import parse_rfc3339
from tests.cli.conftest import Cli, FakeServer
from tests.cli.samples import RUN, RUN_ID, TASK, WORKER, page, problem

NOW = parse_rfc3339("2026-09-28T12:00:04Z")


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("schedkit.cli.values.now_ms", lambda: NOW)


def test_a_list_says_what_each_worker_polls_and_holds_and_when_it_was_heard_of(cli: Cli, server: FakeServer) -> None:
    old = {**WORKER, "worker_id": "machine-8", "task_queues": ["mail"], "last_seen_at": "2026-09-28T11:58:00Z"}
    server.answer("GET /v1/workers", 200, page(WORKER, old))
    assert cli("worker", "list", "--utc").stdout == (
        "machine-7\tledger\t1\t4 s ago\t2026-09-28 11:00:00 +00:00\n"
        "machine-8\tmail\t1\t2m 4s ago\t2026-09-28 11:00:00 +00:00\n"
    )
    assert cli("worker", "list", "-q", "--queue", "mail").stdout == "machine-8\n"
    assert cli("worker", "list", "-q", "--stale").stdout == "machine-8\n"
    assert cli("worker", "list", "-q", "-n", "1").stdout == "machine-7\n"


def test_an_empty_list_says_how_to_start_one(cli: Cli, server: FakeServer) -> None:
    server.answer("GET /v1/workers", 200, page())
    assert "no worker was heard of in the last five minutes" in cli("worker", "list").stderr
    told = cli("worker", "list", "--queue", "mail", "--stale").stderr
    assert "no workers match (queue mail, stale for a minute)  try: schedkit worker exec mail -- ./program" in told


def test_a_poll_takes_one_task_and_waits_as_long_as_it_is_told(cli: Cli, server: FakeServer) -> None:
    result = cli("worker", "poll", "ledger", "--worker-id", "nightly-1", "--wait", "1s", "-o", "json")
    assert json.loads(result.stdout) == {"schema": "schedkit.task/v1", **TASK}
    assert server.last.body == {"worker_id": "nightly-1", "wait_seconds": 1.0}
    assert cli("worker", "poll", "ledger", "-q").stdout == f"{RUN_ID}\n"
    assert server.last.body["wait_seconds"] == 20.0
    assert server.last.body["worker_id"].startswith("script@")
    assert "heartbeat every 10s" in cli("worker", "poll", "ledger").stdout


@pytest.mark.parametrize("line", [["exec", "", "--", "true"], ["poll", " "], ["run", "worker:w", "--queue", ""]])
def test_a_queue_without_a_name_is_refused_before_any_call(line: list[str], cli: Cli, server: FakeServer) -> None:
    result = cli("worker", *line)
    assert (result.exit_code, server.asked) == (2, [])
    assert "the name of the queue is empty  [USAGE]" in result.stderr


def test_a_poll_that_nothing_came_for_exits_11(cli: Cli, server: FakeServer) -> None:
    server.answers["POST /v1/task-queues/ledger/tasks:poll"] = (204, None)
    result = cli("worker", "poll", "ledger", "--wait", "0s")
    assert (result.exit_code, result.stdout) == (11, "")
    assert "no task came in ledger within 0s  [NOT_IN_TIME]" in result.stderr


def test_a_poll_that_would_wait_too_long_is_refused_and_takes_nothing(cli: Cli, server: FakeServer) -> None:
    result = cli("worker", "poll", "ledger", "--wait", "1m")
    assert result.exit_code == 9
    assert "a poll waits 20s at most" in result.stderr
    assert server.asked == []


def test_a_heartbeat_carries_progress_and_exits_4_where_the_run_is_to_be_stopped(cli: Cli, server: FakeServer) -> None:
    call = f"POST /v1/runs/{RUN_ID}:heartbeat"
    result = cli("worker", "heartbeat", RUN_ID, "--epoch", "2", "--progress", '{"rows":3}', "--utc")
    assert (result.exit_code, result.stdout) == (0, "lease ends\t2026-09-28 12:01:00 +00:00\nasked\t-\n")
    assert server.last.body == {"epoch": 2, "progress": {"rows": 3}}
    server.answer(call, 200, {"lease_expires_at": "2026-09-28T12:01:00Z", "cancel_requested": True})
    result = cli("worker", "heartbeat", RUN_ID, "--epoch", "2", "-o", "json")
    assert result.exit_code == 4
    assert json.loads(result.stdout)["cancel_requested"] is True
    server.answer(call, 409, problem(409, "EPOCH_SUPERSEDED"))
    result = cli("worker", "heartbeat", RUN_ID, "--epoch", "2")
    assert result.exit_code == 4
    assert "[EPOCH_SUPERSEDED]" in result.stderr


@pytest.mark.parametrize(
    ("flags", "body"),
    [
        (["--outcome", "succeeded"], {"outcome": "SUCCEEDED"}),
        (["--outcome", "succeeded", "--result", "[1]"], {"outcome": "SUCCEEDED", "result": [1]}),
        (["--outcome", "failed", "--error", "no"], {"outcome": "FAILED", "error": "no"}),
        (["--outcome", "failed", "--no-retry"], {"outcome": "FAILED", "retryable": False}),
        (["--outcome", "cancelled"], {"outcome": "CANCELLED"}),
    ],
)
def test_a_completion_says_how_it_ended(cli: Cli, server: FakeServer, flags: list[str], body: dict[str, Any]) -> None:
    result = cli("worker", "complete", RUN_ID, "--epoch", "1", *flags)
    assert result.exit_code == 0
    assert server.last.body == {"epoch": 1} | body
    assert result.stdout.startswith(f"run id\t{RUN_ID}\n")


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--outcome", "done"], "--outcome is one of succeeded, failed, cancelled; not 'done'"),
        (["--outcome", "succeeded", "--error", "no"], "--error goes with --outcome failed"),
        (["--outcome", "cancelled", "--no-retry"], "--no-retry goes with --outcome failed"),
        (["--outcome", "failed", "--result", "1"], "--result goes with --outcome succeeded"),
        (["--outcome", "succeeded", "--result", "{"], "the result is no JSON"),
    ],
)
def test_a_completion_that_contradicts_itself_is_not_sent(
    cli: Cli, server: FakeServer, flags: list[str], said: str
) -> None:
    result = cli("worker", "complete", RUN_ID, "--epoch", "1", *flags)
    assert result.exit_code == 9
    assert said in result.stderr
    assert server.asked == []


def test_a_release_gives_the_run_back(cli: Cli, server: FakeServer) -> None:
    result = cli("worker", "release", "digest", "--epoch", "3", "--reason", "reboot", "-o", "json")
    assert json.loads(result.stdout)["status"] == "RETRY_WAIT"
    assert (server.last.path, server.last.body) == (f"/v1/runs/{RUN_ID}:release", {"epoch": 3})
    assert server.last.headers["schedkit-reason"] == "reboot"


@pytest.mark.parametrize(
    "line",
    [
        ["poll", "ledger"],
        ["heartbeat", RUN_ID, "--epoch", "1"],
        ["complete", RUN_ID, "--epoch", "1", "--outcome", "failed"],
        ["release", RUN_ID, "--epoch", "1"],
    ],
)
def test_a_dry_run_changes_nothing(cli: Cli, server: FakeServer, line: list[str]) -> None:
    result = cli("worker", *line, "--dry-run")
    assert result.exit_code == 0
    assert result.stdout.startswith("would ")
    assert server.of("POST") == []


# ── what is no worker ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("named", "source", "said"),
    [
        ("apart", None, "'apart' names no worker: write MODULE:APP"),
        ("no_such_module_1:w", None, "there is no module no_such_module_1 in "),
        (
            "lacking_2:w",
            "import no_such_module_2",
            "lacking_2 cannot be imported: ModuleNotFoundError: No module named",
        ),
        (
            "raising_3:w",
            "\nw = 1 / 0",
            "raising_3 cannot be imported: ZeroDivisionError: division by zero (raising_3.py, line 2)",
        ),
        ("broken_4:w", "def", "broken_4 cannot be imported: SyntaxError: invalid syntax (broken_4.py, line 1)"),
        ("leaving_5:w", "raise SystemExit(3)", "leaving_5 cannot be imported: SystemExit: 3"),
        ("other_6:w", "w = 7", "w in other_6 is no schedkit.worker.Worker"),
        ("idle_7:w", "from schedkit.worker import Worker\nw = Worker('q')", "worker idle_7:w has no functions"),
    ],
)
def test_what_is_no_worker_is_refused_before_anything_is_taken(
    cli: Cli, server: FakeServer, home: Path, named: str, source: str | None, said: str
) -> None:
    if source is not None:
        (home / f"{named.partition(':')[0]}.py").write_text(source)
    result = cli("worker", "run", named)
    assert result.exit_code == 9
    assert said in result.stderr
    assert "[WORKER_INVALID]" in result.stderr
    assert server.asked == []


def test_another_worker_of_the_module_is_offered(cli: Cli, home: Path) -> None:
    (home / "offering.py").write_text("from schedkit.worker import Worker\nledger = Worker('q')")
    assert "fix: schedkit worker run offering:ledger" in cli("worker", "run", "offering:w").stderr


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        (["q"], 2, "there is no program to run"),
        (["q", "--shell", "--", "ls"], 2, "--shell runs what each payload says"),
        (["q", "--", "./no-such-program"], 9, "./no-such-program is no program that can be started"),
        (["q", "--retry-exit", "0", "--", "ls"], 9, "--retry-exit takes exit codes 1 to 255, or any; not '0'"),
        (["q", "--payload", "argv", "--", "ls"], 9, "--payload is one of stdin, env, file; not 'argv'"),
        (["q", "--kill-grace", "soon", "--", "ls"], 9, "'soon' is no duration"),
    ],
)
def test_what_is_no_program_is_refused_before_anything_is_taken(
    cli: Cli, server: FakeServer, line: list[str], code: int, said: str
) -> None:
    result = cli("worker", "exec", *line)
    assert result.exit_code == code
    assert said in result.stderr
    assert server.asked == []


@pytest.mark.parametrize(
    ("status", "reason", "code"), [(401, "UNAUTHENTICATED", 5), (403, "FORBIDDEN", 5), (400, "INVALID_ARGUMENT", 9)]
)
def test_a_worker_that_is_refused_for_good_ends_with_the_code_of_the_refusal(
    cli: Cli, server: FakeServer, status: int, reason: str, code: int
) -> None:
    server.answer("POST /v1/task-queues/ledger/tasks:poll", status, problem(status, reason))
    result = cli("worker", "exec", "ledger", "--", "true")
    assert result.exit_code == code
    assert f"[{reason}]" in result.stderr


def test_a_worker_takes_nothing_in_a_read_only_context(offline: Cli, server: FakeServer) -> None:
    offline("context", "add", "prod", "--url", server.url, "--read-only")
    result = offline("worker", "exec", "ledger", "--", "true")
    assert result.exit_code == 5
    assert "[READ_ONLY_CONTEXT]" in result.stderr
    assert server.asked == []


def test_a_flag_of_the_program_is_no_flag_of_ours(cli: Cli) -> None:
    result = cli("worker", "exec", "q", "--", "./no-such-program", "-o", "json", "--debug")
    assert result.stderr.startswith("error: ./no-such-program")


def test_a_run_of_a_queue_shows_where_it_is(cli: Cli, server: FakeServer) -> None:
    waits = {
        **RUN,
        "task_queue": "ledger",
        "task_type": "rebuild",
        "status": "RETRY_WAIT",
        "attempts": [],
        "not_before": "2026-09-28T12:00:00Z",
    }
    server.answer(f"GET /v1/runs/{RUN_ID}", 200, waits)
    shown = cli("run", "show", RUN_ID, "--utc").stdout
    assert "queue\tledger (rebuild)\n" in shown
    assert "waits\tfor a worker since 2026-09-28 12:00:00 +00:00\n" in shown
    held = {**waits, "status": "RUNNING", "lease_owner": "machine-7", "progress": {"rows": 3}, "not_before": None}
    server.answer(f"GET /v1/runs/{RUN_ID}", 200, held)
    shown = cli("run", "show", RUN_ID, "--utc").stdout
    assert "worker\tmachine-7\n" in shown
    assert 'progress\t{"rows": 3}\n' in shown
    assert "waits" not in shown
    server.answer("GET /v1/runs", 200, page(waits))
    assert "waits for a worker" in cli("run", "list", "--utc").stdout
