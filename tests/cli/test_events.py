"""`schedkit events`, and `run tail` on the stream: lines, JSON, what is lost, and a line that breaks."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest

from schedkit.cli.invocation import Invocation
from tests.cli.conftest import Asked, Cli, FakeServer
from tests.cli.samples import EVENT, JOB_ID, LEASE, RUN, page, problem, sse


@pytest.fixture
def stops(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Ctrl+c in the third pause."""
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr("schedkit.cli.app.Invocation", partial(Invocation, sleep=pause))
    return pauses


def streams(server: FakeServer, *answers: Any) -> None:
    server.answers["GET /v1/ops/stream"] = list(answers)


def test_what_is_remembered_is_a_list(cli: Cli, server: FakeServer) -> None:
    doc = json.loads(cli("events", "--no-follow", "-o", "json").stdout)
    assert (doc["schema"], doc["items"]) == ("schedkit.event/v1", [LEASE, EVENT])
    asked = server.last.query
    assert (asked["follow"], asked["topics"], asked["since"]) == (["false"], ["events"], ["1970-01-01T00:00:00Z"])
    cli("events", "--no-follow", "--kind", "run,ALERT", "--since", "2026-09-28T12:00:00Z")
    assert (server.last.query["kinds"], server.last.query["since"]) == (["run,alert"], ["2026-09-28T12:00:00Z"])
    assert json.loads(cli("events", "--no-follow", "--who", "machine", "-o", "jsonl").stdout) == LEASE
    assert cli("events", "--kind", "bogus").exit_code == 9


@pytest.mark.usefixtures("stops")
def test_in_a_pipe_each_event_is_a_line_of_json_and_a_line_that_broke_is_taken_up_where_it_was(
    cli: Cli, server: FakeServer
) -> None:
    streams(
        server,
        (200, sse(("hello", {}), ("event", LEASE))),
        (0, None),
        (200, sse(("hello", {}), ("gap", {"lost": 7, "why": "they came faster"}), ("event", EVENT))),
    )
    result = cli("events")
    assert result.exit_code == 130
    assert [json.loads(line) for line in result.stdout.splitlines()] == [LEASE, EVENT]
    assert "trying again" in result.stderr
    assert "7 events were lost: they came faster" in result.stderr
    assert [asked.headers.get("last-event-id") for asked in server.asked] == [None, "b-1", "b-1"]


@pytest.mark.usefixtures("stops")
def test_a_terminal_gets_lines_for_people(cli: Cli, server: FakeServer) -> None:
    alert = {
        "kind": "alert",
        "what": "WARNING",
        "at": "2026-09-28T12:00:00Z",
        "subject": "loader",
        "text": "late \x1b[0m",
    }
    streams(server, (200, sse(("hello", {}), ("event", EVENT), ("event", LEASE), ("event", alert))))
    result = cli("events", "--utc", env={"SCHEDKIT_FORCE_TTY": "200"})
    lines = result.stdout.splitlines()
    assert lines[0].startswith("12:00:00.007 +00:00  run     settle SUCCEEDED    digest  job_")
    assert lines[1].endswith("by machine-7")
    assert lines[2].endswith("late \\x1b[0m")


def test_a_server_without_a_stream_or_without_leave_is_an_error(cli: Cli, server: FakeServer) -> None:
    streams(server, (404, problem(404, "ROUTE_NOT_FOUND")))
    assert cli("events").exit_code == 3
    streams(server, (403, problem(403, "FORBIDDEN")))
    assert cli("events", "--no-follow").exit_code == 5
    assert cli("events", env={"SCHEDKIT_URL": "http://127.0.0.1:1"}).exit_code == 7


def run(number: int, **fields: Any) -> dict[str, Any]:
    at = f"2026-09-28T12:00:{number:02d}Z"
    return {**RUN, "run_id": f"{JOB_ID}:{at}", "finished_at": at, **fields}


@pytest.mark.usefixtures("stops")
def test_a_tail_takes_runs_from_the_stream_and_prints_each_once(cli: Cli, server: FakeServer) -> None:
    """It looks again when the stream has begun, after a gap, and when the stream ends."""
    looks: list[int] = []

    def listed(asked: Asked) -> Any:
        looks.append(len(looks))
        return 200, page(*[run(number) for number in range(1, len(looks) + 1)])

    server.answers["GET /v1/runs"] = listed
    streams(
        server,
        (
            200,
            sse(("hello", {}), ("run", run(20)), ("run", run(21, job_id="job_other", job_name="other")), ("gap", {})),
        ),
        (404, problem(404, "ROUTE_NOT_FOUND")),
    )
    result = cli("run", "tail", "--job", "digest", "-o", "name")
    assert result.exit_code == 130
    assert [line[-3:-1] for line in result.stdout.split()] == ["01", "02", "20", "03", "04", "05"]
    assert len([asked for asked in server.asked if asked.path == "/v1/ops/stream"]) == 2, (
        "an older server is not asked on"
    )
    assert server.asked[1].query["topics"] == ["runs"]
