"""Every exit code, through the real path: an answer of a server, a flag, a signal."""

from __future__ import annotations

import json
import socket
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from schedkit.cli import failures
from schedkit.cli.failures import ExitCode
from schedkit.cli.invocation import Invocation
from schedkit.errors import Conflict, InvalidInput, Reason, StartupRefused, StoreUnavailable
from tests.cli.conftest import Cli, FakeServer, process
from tests.cli.samples import RUN_ID, SNAPSHOT, page, problem


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retries wait no time."""
    monkeypatch.setattr("schedkit.cli.app.Invocation", partial(Invocation, sleep=lambda _: None))


def refusing(server: FakeServer, status: int, reason: str, **rest: Any) -> None:
    server.answer("GET /v1/jobs/digest", status, problem(status, reason, **rest))


@pytest.mark.parametrize(
    ("status", "reason", "code"),
    [
        (400, "INVALID_ARGUMENT", 9),
        (401, "UNAUTHENTICATED", 5),
        (403, "FORBIDDEN", 5),
        (404, "JOB_NOT_FOUND", 3),
        (405, "METHOD_NOT_ALLOWED", 9),
        (409, "RUN_IN_PROGRESS", 4),
        (412, "VERSION_CONFLICT", 4),
        (413, "PAYLOAD_TOO_LARGE", 9),
        (422, "IDEMPOTENCY_KEY_REUSED", 9),
        (429, "QUOTA_EXCEEDED", 6),
        (500, "INTERNAL", 7),
        (503, "STORE_UNAVAILABLE", 7),
        (409, "A_CODE_OF_A_NEWER_SERVER", 4),
    ],
)
@pytest.mark.usefixtures("at_once")
def test_a_refusal_is_told_on_stderr_with_its_code(
    status: int, reason: str, code: int, cli: Cli, server: FakeServer
) -> None:
    refusing(server, status, reason, why="there is a rule", fix=["schedkit job list"], retry_after_seconds=60)
    result = cli("job", "show", "digest", "--timeout", "1s")
    assert result.exit_code == code
    assert result.stdout == ""
    assert result.stderr.startswith(
        f"error: it is {reason}  [{reason}]\n  why: there is a rule\n  fix: schedkit job list"
    )
    assert f"  more: schedkit explain {reason}   (http {status}, req_8f2a)" in result.stderr
    told = json.loads(cli("job", "show", "digest", "-o", "json", "--timeout", "1s").stderr)["error"]
    assert told["code"] == reason
    assert told["http_status"] == status
    assert told["exit_code"] == code
    assert told["request_id"] == "req_8f2a"
    assert told["fix"] == ["schedkit job list"]
    assert told["retry_after_s"] == 60
    assert told["retryable"] is (code in (6, 7))


def test_0_done_also_for_an_empty_list(cli: Cli, server: FakeServer) -> None:
    server.answer("GET /v1/jobs", 200, page())
    result = cli("job", "list", "--state", "paused", "-t", "tnt_4411")
    assert result.exit_code == 0
    assert result.stdout == ""
    assert result.stderr == "no jobs match (tenant tnt_4411, state paused)  try: schedkit job list --all\n"


def test_1_a_bug_says_where_its_log_is(cli: Cli, server: FakeServer, home: Path) -> None:
    server.answer("GET /v1/jobs/digest", 200, {"schedule": "no object"})
    result = cli("job", "show", "digest")
    assert result.exit_code == 1
    assert "[BUG]" in result.stderr
    assert "Traceback" not in result.stderr
    log = next(home.rglob("last-error.log"))
    assert str(log) in result.stderr
    assert "Traceback" in log.read_text()


def test_2_wrong_usage(offline: Cli) -> None:
    assert offline("job", "show").exit_code == 2


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["job", "show", "digest"], "no scheduler here yet.  start one: schedkit up   or point at one: "),
        (["status"], "schedkit context add NAME --url URL\n"),
    ],
)
def test_7_nothing_configured_and_nobody_there_says_how_to_begin(
    args: list[str], said: str, offline: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as taken:  # bound, not listening: connections are refused, and nobody else can take the port
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        monkeypatch.setattr("schedkit.cli.settings.DEFAULT_URL", url)
        result = offline(*args)
        assert result.exit_code == 7
        assert said in result.stderr
        assert "error" not in result.stderr
        told = json.loads(offline(*args, "-o", "json").stderr)["error"]
    assert told["code"] == "UNREACHABLE"
    assert told["fix"] == ["schedkit up", "schedkit context add NAME --url URL"]


@pytest.mark.usefixtures("at_once")
def test_7_a_create_that_times_out_prints_the_key_it_used(cli: Cli, server: FakeServer) -> None:
    server.answers["POST /v1/jobs"] = (0, None)
    create = ("job", "create", "--every", "10m", "--target", "demo-echo")
    result = cli(*create, "--timeout", "9s")
    assert result.exit_code == 7
    keys = {asked.headers["idempotency-key"] for asked in server.of("POST")}
    assert len(keys) == 1, "one key through all retries"
    assert len(server.of("POST")) > 1, "a keyed create is tried again"
    assert f"safe to repeat: add --idempotency-key {keys.pop()}" in result.stderr
    given = cli(*create, "--idempotency-key", "mine", "-o", "json")
    assert json.loads(given.stderr)["error"]["idempotency_key"] == "mine"


def test_7_something_else_on_the_port_is_no_scheduler(cli: Cli, server: FakeServer) -> None:
    server.answer("GET /v1/ops/snapshot", 404, "<html>nginx</html>")
    result = cli("status")
    assert result.exit_code == 7
    assert "not as a schedkit server does" in result.stderr


def test_5_a_read_only_context_changes_nothing(offline: Cli, server: FakeServer) -> None:
    offline("context", "add", "prod", "--url", server.url, "--read-only")
    assert offline("job", "list").exit_code == 0
    result = offline("job", "pause", "digest")
    assert result.exit_code == 5
    assert "[READ_ONLY_CONTEXT]" in result.stderr
    assert server.of("POST") == []


def test_8_a_protected_context_needs_a_yes(offline: Cli, server: FakeServer) -> None:
    offline("context", "add", "prod", "--url", server.url, "--protected")
    result = offline("job", "cancel", "digest")
    assert result.exit_code == 8
    assert "[NOT_CONFIRMED]" in result.stderr
    assert server.of("DELETE") == []
    assert offline("job", "cancel", "digest", "--yes").exit_code == 0


def test_9_invalid_input_is_found_before_anything_is_sent(cli: Cli, server: FakeServer) -> None:
    result = cli("job", "create", "--every", "soon", "--target", "demo-echo")
    assert result.exit_code == 9
    assert "no duration" in result.stderr
    assert server.asked == []


@pytest.mark.parametrize(
    ("snapshot", "flag", "code"),
    [
        ({}, "crit", 0),
        ({"store": {"ok": False, "detail": "disk full"}}, "crit", 10),
        ({"alerts": [{"level": "CRIT", "text": "late"}]}, "crit", 10),
        ({"alerts": [{"level": "WARN", "text": "late"}]}, "crit", 0),
        ({"alerts": [{"level": "WARN", "text": "late"}]}, "warn", 10),
    ],
)
def test_10_status_of_an_unhealthy_scheduler(
    snapshot: dict[str, Any], flag: str, code: int, cli: Cli, server: FakeServer
) -> None:
    server.answer("GET /v1/ops/snapshot", 200, {**SNAPSHOT, **snapshot})
    result = cli("status", "--fail-on", flag)
    assert result.exit_code == code
    assert ("unhealthy" if code else "healthy") in result.stdout
    assert json.loads(cli("status", "--fail-on", flag, "-o", "json").stdout)["healthy"] is (code == 0)


@pytest.mark.parametrize(
    ("status", "code"),
    [
        ("SUCCEEDED", 0),
        ("SUCCEEDED_AFTER_CANCEL", 0),
        ("FAILED", 10),
        ("SKIPPED", 10),
        ("UNKNOWN", 10),
        ("CANCELLED", 10),
    ],
)
def test_10_waiting_for_a_run_that_ends_badly(status: str, code: int, cli: Cli, server: FakeServer) -> None:
    server.answers[f"GET /v1/runs/{RUN_ID}"] = (200, {**server.answers[f"GET /v1/runs/{RUN_ID}"][1], "status": status})
    assert cli("run", "wait", RUN_ID).exit_code == code


def test_11_waited_and_not_in_time(cli: Cli, server: FakeServer) -> None:
    server.answers[f"GET /v1/runs/{RUN_ID}"] = (
        200,
        {**server.answers[f"GET /v1/runs/{RUN_ID}"][1], "status": "RUNNING"},
    )
    result = cli("run", "wait", RUN_ID, "--timeout", "50ms")
    assert result.exit_code == 11
    assert "[NOT_IN_TIME]" in result.stderr
    assert cli("run", "wait", RUN_ID, "--for", "running").exit_code == 0


def test_130_ctrl_c_leaves_without_a_trace(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("schedkit.cli.app.Invocation", partial(Invocation, sleep=interrupted))
    result = cli("run", "tail")
    assert result.exit_code == 130
    assert "Traceback" not in result.output


def test_codes_of_errors_that_no_server_tells() -> None:
    assert failures.exit_code(StartupRefused(Reason.PORT_IN_USE, "taken")) is ExitCode.CONFLICT
    assert failures.exit_code(StartupRefused(Reason.DATA_FOLDER_IN_USE, "taken")) is ExitCode.CONFLICT
    assert failures.exit_code(StartupRefused(Reason.DATABASE_TOO_NEW, "new")) is ExitCode.INVALID
    assert failures.exit_code(StoreUnavailable("full")) is ExitCode.UNREACHABLE
    assert failures.exit_code(InvalidInput(Reason.INVALID_CRON, "?")) is ExitCode.INVALID
    assert failures.exit_code(Conflict(Reason.NAME_IN_USE, "?")) is ExitCode.CONFLICT


def test_several_jobs_are_each_tried_and_the_first_refusal_decides(cli: Cli, server: FakeServer) -> None:
    server.answer("DELETE /v1/jobs/gone", 404, problem(404, "JOB_NOT_FOUND"))
    result = cli("job", "cancel", "gone", "digest")
    assert result.exit_code == 3
    assert "cancelled digest" in result.stdout
    assert "[JOB_NOT_FOUND]" in result.stderr


def test_a_bug_is_raised_with_debug(server: FakeServer) -> None:
    server.answer("GET /v1/jobs/digest", 200, {"schedule": "no object"})
    result = process("job", "show", "digest", "--debug", SCHEDKIT_URL=server.url)
    assert result.returncode == 1
    assert "Traceback" in result.stderr
