"""`schedkit api`: any call, with the context's address, token and retries."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Cli, FakeServer
from tests.cli.samples import page


def test_fields_are_the_query_of_a_read_and_the_body_of_a_change(cli: Cli, server: FakeServer) -> None:
    assert cli("api", "get", "jobs?limit=5", "-F", "status=PAUSED").exit_code == 0
    assert (server.last.path, server.last.query) == ("/v1/jobs", {"limit": ["5"], "status": ["PAUSED"]})
    cli("api", "PATCH", "/v1/jobs/digest", "-F", "priority=HIGH", "-F", "max_runs=5", "--header", "X-Kind=test")
    assert server.last.body == {"priority": "HIGH", "max_runs": 5}
    assert server.last.headers["x-kind"] == "test"


def test_the_body_comes_from_a_file_or_stdin(cli: Cli, server: FakeServer, home: Path) -> None:
    (home / "body.json").write_text('{"reason": "moved"}')
    assert cli("api", "POST", "/v1/jobs/digest:pause", "--input", "body.json").exit_code == 0
    assert server.last.body == {"reason": "moved"}
    assert cli("api", "POST", "/v1/jobs/digest:pause", "--input", "-", input='{"a": 1}').exit_code == 0
    assert server.last.body == {"a": 1}
    assert cli("api", "POST", "/v1/jobs/digest:pause", "--input", "-", input="{").exit_code == 9
    assert cli("api", "POST", "/v1/jobs/digest:pause", "--input", "none.json").exit_code == 9


def test_the_answer_is_printed_as_it_is(cli: Cli, server: FakeServer) -> None:
    assert json.loads(cli("api", "GET", "/v1/jobs").stdout) == server.answers["GET /v1/jobs"][1]
    assert cli("api", "GET", "/v1/jobs", "--raw").stdout.count("\n") == 1
    server.answer("GET /metrics", 200, "# HELP\nx 1\n")
    assert cli("api", "GET", "/metrics").stdout == "# HELP\nx 1\n"
    server.answer("GET /v1/jobs", 200, page())
    assert cli("api", "GET", "/v1/jobs", "-o", "jsonl").stdout in ("", "\n")


def test_wrong_calls_are_refused(cli: Cli, server: FakeServer) -> None:
    assert cli("api", "FETCH", "/v1/jobs").exit_code == 9
    assert cli("api", "GET", "http://elsewhere/v1/jobs").exit_code == 9
    assert cli("api", "GET", "/v1/jobs", "--header", "Authorization: Bearer x").exit_code == 9
    assert server.asked == []
    assert cli("api", "GET", "/v1/nothing").exit_code == 3
