"""`schedkit run`: runs by id, by JOB@TIME, by JOB; waiting, cancelling, following."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest

from schedkit.cli.invocation import Invocation
from schedkit.model.time import parse_rfc3339
from tests.cli.conftest import Cli, FakeServer
from tests.cli.samples import JOB, JOB_ID, RUN, RUN_ID, page, problem


@pytest.mark.parametrize("text", [RUN_ID, "digest@2026-09-28T12:00:00Z", "digest@08:00", "digest@last", "digest"])
def test_a_run_is_found_however_it_is_called(
    text: str, cli: Cli, server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("schedkit.cli.values.now_ms", lambda: parse_rfc3339("2026-09-28T12:30:00Z"))
    result = cli("run", "show", text)
    assert result.exit_code == 0, result.output
    assert server.last.path == f"/v1/runs/{RUN_ID}"
    assert f"run id\t{RUN_ID}\n" in result.stdout


def test_a_job_that_never_ran_has_no_last_run(cli: Cli, server: FakeServer) -> None:
    server.answer("GET /v1/jobs/digest", 200, {**JOB, "recent_runs": []})
    result = cli("run", "show", "digest")
    assert result.exit_code == 3
    assert "digest has not run yet; it is due at 2" in result.stderr


def test_waiting_for_a_job_that_never_ran_is_waiting_for_its_next_run(cli: Cli, server: FakeServer) -> None:
    server.answer("GET /v1/jobs/digest", 200, {**JOB, "recent_runs": []})
    upcoming = f"{JOB_ID}:2099-09-28T12:00:00Z"
    server.answer(f"GET /v1/runs/{upcoming}", 200, {**RUN, "run_id": upcoming})
    for text in ("digest", "digest@next"):
        assert cli("run", "wait", text).exit_code == 0
        assert server.last.path == f"/v1/runs/{upcoming}"
    assert cli("run", "wait", "digest@last").exit_code == 3


def test_show_has_attempts_epochs_and_the_answer(cli: Cli, server: FakeServer) -> None:
    text = cli("run", "show", RUN_ID, "--response", "--utc").stdout
    assert "1  epoch 1  2026-09-28 12:00:00.003 +00:00  SUCCEEDED  200  in 4 ms  (3 ms late)" in text
    assert "answer\n  done\n" in text
    assert json.loads(cli("run", "show", RUN_ID, "--raw").stdout) == RUN
    assert set(json.loads(cli("run", "show", RUN_ID, "--attempts", "-o", "json").stdout)) == {
        "schema",
        "run_id",
        "attempts",
    }


def test_list_passes_its_filters_on(cli: Cli, server: FakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("schedkit.cli.values.now_ms", lambda: parse_rfc3339("2026-09-28T12:30:00Z"))
    cli("run", "list", "--job", "digest", "--outcome", "failed,unknown", "--since", "15m")
    assert server.last.query == {
        "limit": ["50"],
        "job": ["digest"],
        "status": ["FAILED", "UNKNOWN"],
        "since": ["2026-09-28T12:15:00Z"],
    }
    assert cli("run", "list", "--slower-than", "2s").stdout == ""
    assert cli("run", "list", "--slower-than", "3ms", "--late-than", "2ms", "-q").stdout == f"{RUN_ID}\n"
    assert cli("run", "list", "--target", "email", "-q").stdout == f"{RUN_ID}\n"
    assert cli("run", "list", "--executor", "nobody").stdout == ""


def test_waiting_for_a_run_that_has_yet_to_start(cli: Cli, server: FakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr("schedkit.cli.app.Invocation", partial(Invocation, sleep=waits.append))
    monkeypatch.setattr("schedkit.cli.values.now_ms", lambda: parse_rfc3339("2026-09-28T11:59:59Z"))
    missing = (404, problem(404, "RUN_NOT_FOUND"))
    server.answers[f"GET /v1/runs/{RUN_ID}"] = [missing, (200, {**RUN, "status": "RUNNING"}), (200, RUN)]
    assert cli("run", "wait", RUN_ID).exit_code == 0
    assert len(waits) == 2
    monkeypatch.setattr("schedkit.cli.values.now_ms", lambda: parse_rfc3339("2026-09-28T12:30:00Z"))
    server.answers[f"GET /v1/runs/{RUN_ID}"] = missing
    assert cli("run", "wait", RUN_ID).exit_code == 3, "it will not come any more"


def test_cancel_says_how_the_run_stands(cli: Cli, server: FakeServer) -> None:
    result = cli("run", "cancel", RUN_ID, "--wait=1m")
    assert result.stdout.startswith(f"asked {RUN_ID} to stop: it is SUCCEEDED\n")
    assert cli("run", "cancel", RUN_ID, "--dry-run").stdout == f"would ask {RUN_ID} to stop: it is SUCCEEDED\n"
    assert len(server.of("POST")) == 1


def test_tail_prints_each_end_once_in_order(cli: Cli, server: FakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr("schedkit.cli.app.Invocation", partial(Invocation, sleep=waits.append))

    def run(number: int, **over: Any) -> dict[str, Any]:
        at = f"2026-09-28T12:00:{number:02d}Z"
        return {**RUN, "run_id": f"{JOB_ID}:{at}", "finished_at": at, **over}

    server.answers["GET /v1/runs"] = [
        (200, page(run(2), run(1))),
        (200, page(run(4, status="RUNNING"), run(3), run(2), run(1))),
        (200, page(run(4, status="FAILED"), run(3), run(2))),
    ]
    lines = cli("run", "tail", "--limit", "4", "-n", "2", "-o", "jsonl").stdout.splitlines()
    assert [json.loads(line)["run_id"][-4:] for line in lines] == [":01Z", ":02Z", ":03Z", ":04Z"]
    assert len(waits) == 2
    text = cli("run", "tail", "--limit", "1", "--utc").stdout
    assert text == "12:00:04.000 +00:00  fail   digest        200 in 4 ms, 3 ms after its time\n"


def test_watch_in_a_pipe_prints_what_changed(cli: Cli, server: FakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = iter([None, None, KeyboardInterrupt()])

    def pause(_: float) -> None:
        if (stop := next(looks)) is not None:
            raise stop

    monkeypatch.setattr("schedkit.cli.app.Invocation", partial(Invocation, sleep=pause))
    running = {**RUN, "status": "RUNNING"}
    server.answers["GET /v1/runs"] = [(200, page(running)), (200, page(running)), (200, page(RUN))]
    result = cli("run", "list", "-w")
    assert result.exit_code == 130
    assert [json.loads(line)["status"] for line in result.stdout.splitlines()] == ["RUNNING", "SUCCEEDED"]


def test_watching_and_tailing_outlive_a_restart_of_the_server(
    cli: Cli, server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("schedkit.cli.app.Invocation", partial(Invocation, sleep=lambda _: None))
    later = {**RUN, "finished_at": "2026-09-28T13:00:00Z"}
    away = [(503, problem(503, "STORE_UNAVAILABLE"))] * 10
    server.answers["GET /v1/runs"] = [(200, page(RUN)), *away, (200, page(later))]
    result = cli("run", "tail", "--limit", "2", "--timeout", "60s")
    assert (result.exit_code, result.stdout.count("ok     digest")) == (0, 2)
    assert (result.stderr.count("lost "), result.stderr.count(" is back")) == (1, 1)


def test_watch_on_a_terminal_repaints(cli: Cli, server: FakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = iter([None, KeyboardInterrupt()])

    def pause(_: float) -> None:
        if (stop := next(looks)) is not None:
            raise stop

    monkeypatch.setattr("schedkit.cli.app.Invocation", partial(Invocation, sleep=pause))
    result = cli("status", "-w", env={"SCHEDKIT_FORCE_TTY": "100"})
    assert result.exit_code == 130
    assert result.stdout.count("healthy") == 2
    assert "\x1b[J" in result.stdout


@pytest.mark.parametrize("status", ["PAUSED", "CANCELLED", "COMPLETED", "FAILED"])
def test_waiting_ends_at_once_where_the_run_can_never_come(status: str, cli: Cli, server: FakeServer) -> None:
    upcoming = f"{JOB_ID}:2099-09-28T12:00:00Z"
    server.answer(f"GET /v1/runs/{upcoming}", 404, problem(404, "RUN_NOT_FOUND"))
    server.answer("POST /v1/jobs", 201, JOB)
    for name in ("digest", JOB_ID):
        server.answer(f"GET /v1/jobs/{name}", 200, {**JOB, "status": status})
    create = ("job", "create", "--every", "10m", "--target", "demo-echo", "--wait")
    for args in (("run", "wait", upcoming), ("run", "wait", "digest"), ("run", "wait", "digest@next"), create):
        result = cli(*args)
        assert result.exit_code == 10, result.output
        assert f"digest is {status}  [WILL_NOT_RUN]" in result.stderr
    assert ("schedkit job resume digest" in result.stderr) is (status == "PAUSED")


def test_waiting_ends_at_once_where_the_job_moved_or_is_unknown(cli: Cli, server: FakeServer) -> None:
    moved = f"{JOB_ID}:2098-09-28T12:00:00Z"
    server.answer(f"GET /v1/runs/{moved}", 404, problem(404, "RUN_NOT_FOUND"))
    result = cli("run", "wait", moved)
    assert (result.exit_code, "is due at 2099-09-28T12:00:00Z instead" in result.stderr) == (10, True)
    server.answer(f"GET /v1/jobs/{JOB_ID}", 404, problem(404, "JOB_NOT_FOUND"))
    assert cli("run", "wait", moved).exit_code == 3


def test_a_run_that_came_while_its_job_was_asked_about_is_waited_for(cli: Cli, server: FakeServer) -> None:
    upcoming = f"{JOB_ID}:2099-09-28T12:00:00Z"
    server.answers[f"GET /v1/runs/{upcoming}"] = [(404, problem(404, "RUN_NOT_FOUND")), (200, RUN)]
    server.answer(f"GET /v1/jobs/{JOB_ID}", 200, {**JOB, "status": "COMPLETED"})
    assert cli("run", "wait", upcoming).exit_code == 0


def test_a_run_that_was_cancelled_before_it_started_is_no_start(cli: Cli, server: FakeServer) -> None:
    server.answer(f"GET /v1/runs/{RUN_ID}", 200, {**RUN, "status": "CANCELLED", "attempts": [], "started_at": None})
    assert cli("run", "wait", RUN_ID, "--for", "running").exit_code == 10


@pytest.mark.parametrize(("last", "shown"), [("0", []), ("2", [3, 4]), ("9", [1, 2, 3, 4])])
def test_tail_begins_with_the_last_that_ended(
    last: str, shown: list[int], cli: Cli, server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = iter([None, KeyboardInterrupt()])

    def pause(_: float) -> None:
        if (stop := next(looks)) is not None:
            raise stop

    monkeypatch.setattr("schedkit.cli.app.Invocation", partial(Invocation, sleep=pause))

    def run(number: int) -> dict[str, Any]:
        at = f"2026-09-28T12:00:{number:02d}Z"
        return {**RUN, "run_id": f"{JOB_ID}:{at}", "finished_at": at}

    past = [run(number) for number in (4, 3, 2, 1)]
    server.answers["GET /v1/runs"] = [(200, page(*past)), (200, page(run(6), run(5), *past))]
    result = cli("run", "tail", "-n", last, "-q")
    assert result.exit_code == 130
    assert result.stdout.split() == [run(number)["run_id"] for number in (*shown, 5, 6)]


def test_a_run_that_waits_for_its_second_try_has_made_one(cli: Cli, server: FakeServer) -> None:
    waiting = {**RUN, "status": "RETRY_WAIT", "attempt": 2, "finished_at": None}
    server.answer("GET /v1/runs", 200, page(waiting))
    assert cli("run", "list").stdout.split("\t")[3] == "1"
    assert cli("run", "list", "--fields", "attempt").stdout == "2\n"


def test_a_run_that_was_asked_to_stop_says_so_beside_its_status(cli: Cli, server: FakeServer) -> None:
    for status, shown in (("RUNNING", "RUNNING, asked to stop"), ("CANCELLED", "CANCELLED")):
        server.answer(f"GET /v1/runs/{RUN_ID}", 200, {**RUN, "status": status, "cancel_requested": True})
        assert f"status\t{shown}\n" in cli("run", "show", RUN_ID).stdout


def test_an_unknown_outcome_names_the_flag_that_has_it(cli: Cli) -> None:
    for flag in ("--outcome", "--state"):
        assert cli("run", "list", flag, "bogus").stderr.startswith(f"error: {flag} is one of ")


# ── by filter ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("verb", "statuses"), [("cancel", ["RUNNING", "RETRY_WAIT"]), ("retry", ["FAILED"])])
def test_a_verb_is_done_to_what_the_filters_of_the_list_find(
    cli: Cli, server: FakeServer, verb: str, statuses: list[str]
) -> None:
    result = cli("run", verb, "--job", "digest", "--since", "2026-09-28T00:00:00Z", "--yes")
    assert result.exit_code == 0, result.output
    (listed,) = [asked for asked in server.of("GET") if asked.path == "/v1/runs"]
    assert (listed.query["status"], listed.query["job"]) == (statuses, ["digest"])
    assert server.of("POST")[-1].path == f"/v1/runs/{RUN_ID}:{verb}"
    assert f"{verb} 1 run (job digest, since 2026-09-28T00:00:00Z): {RUN_ID}" in result.stderr


def test_neither_a_run_nor_a_filter_is_wrong_usage(cli: Cli, server: FakeServer) -> None:
    for verb in ("cancel", "retry"):
        assert cli("run", verb, "--yes").exit_code == 2
        assert cli("run", verb, RUN_ID, "--all", "--yes").exit_code == 2
        assert cli("run", verb, "--all", "--yes", "--wait").exit_code == 2
        assert cli("run", verb, "--all").exit_code == 8
        assert f"would {verb} 1 run\n" in cli("run", verb, "--all", "--dry-run").stderr
    assert server.of("POST") == []
