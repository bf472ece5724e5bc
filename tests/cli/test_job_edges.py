"""`schedkit job` at its edges: what is refused and how that reads, repeats, empty lists."""

from __future__ import annotations

from typing import Any

import pytest

from schedkit.model.time import parse_rfc3339
from tests.cli.conftest import Cli, FakeServer
from tests.cli.samples import JOB, JOB_ID, RUN_ID, SNAPSHOT, page, problem

NOW = parse_rfc3339("2026-09-28T21:40:31.250Z")


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("values", "jobpages"):
        monkeypatch.setattr(f"schedkit.cli.{module}.now_ms", lambda: NOW)


@pytest.mark.parametrize(
    "line",
    [
        "job create --in 99999999999d --target demo-echo",
        "job create --every 99999999999d --target demo-echo",
        "job list --due-within 99999999999d",
        "job list --due-within 36500d --timeout 99999999999d",
        "run list --since 99999999999d",
        "run wait digest --timeout 99999999999d",
    ],
)
def test_a_span_beyond_all_measure_is_invalid_input(line: str, cli: Cli) -> None:
    result = cli(*line.split())
    assert (result.exit_code, "[INVALID_ARGUMENT]" in result.stderr) == (9, True), result.output


@pytest.mark.parametrize("span", ["3661d", "36500d", "100000d"])
def test_a_pace_has_one_limit(span: str, cli: Cli, server: FakeServer) -> None:
    told = cli("job", "create", "--every", span, "--target", "demo-echo")
    assert (told.exit_code, server.asked) == (9, [])
    assert f"{span} is too long: at most 3660d" in told.stderr
    assert cli("job", "create", "--every", "3660d", "--target", "demo-echo").exit_code == 0


@pytest.mark.parametrize("name", ["", ".", "..", "hello/runs", "../runs"])
@pytest.mark.parametrize("verb", ["show", "next", "pause"])
def test_what_can_be_no_name_is_a_job_not_found(verb: str, name: str, cli: Cli, server: FakeServer) -> None:
    result = cli("job", verb, name)
    assert (result.exit_code, server.asked) == (3, [])
    assert "[JOB_NOT_FOUND]" in result.stderr


TEA = ("job", "create", "--name", "tea", "--in", "1h", "--target", "demo-echo")
TEA_AGAIN = "schedkit job create --name tea --at {} --target demo-echo --idempotency-key {}"


def test_a_create_from_now_without_an_answer_says_its_exact_repeat(cli: Cli, server: FakeServer) -> None:
    server.answers["POST /v1/jobs"] = (0, None)
    told = cli(*TEA, "--idempotency-key=mine", "--timeout", "1ms")
    again = TEA_AGAIN.format("2026-09-28T22:40:32Z", "mine").replace(" --idem", " --timeout 1ms --idem")
    assert f"exact repeat: {again}\n" in told.stderr
    server.answer("POST /v1/jobs", 201, JOB)
    sent = [cli(*line).exit_code or server.of("POST")[-1].body for line in (TEA, again.split()[1:-4])]
    assert sent[0] == sent[1]
    assert cli(*again.split()[1:], env={"SCHEDKIT_TZ": "Europe/Berlin"}).exit_code in (0, 7)
    assert server.of("POST")[-1].body == sent[0], "a zone for display changes no request"


def test_a_key_used_for_a_time_that_was_named_offers_no_other_time(cli: Cli, server: FakeServer) -> None:
    server.answer("POST /v1/jobs", 422, problem(422, "IDEMPOTENCY_KEY_REUSED", detail=f"it made job {JOB_ID}"))
    named = ("job", "create", "--at", "23:00Z", "--target", "demo-echo", "--idempotency-key", "mine")
    told = cli(*named)
    assert (told.exit_code, "exact repeat" in told.stderr) == (9, False)


def test_a_key_used_for_another_now_says_the_exact_repeat(cli: Cli, server: FakeServer) -> None:
    refusal = problem(422, "IDEMPOTENCY_KEY_REUSED", detail=f"used for another body; it made job {JOB_ID}")
    server.answer("POST /v1/jobs", 422, refusal)
    first = {**JOB, "schedule": {"type": "ONCE", "run_at": "2026-09-28T22:00:00Z"}}
    server.answer(f"GET /v1/jobs/{JOB_ID}", 200, first)
    told = cli(*TEA, "--idempotency-key", "mine")
    assert told.exit_code == 9
    assert f"count from now; exact repeat: {TEA_AGAIN.format('2026-09-28T22:00:00Z', 'mine')}\n" in told.stderr


@pytest.mark.parametrize("flag", ["--filter=bogus=1", "--sort=-bogus", "--fields=name,bogus"])
@pytest.mark.parametrize("line", ["job list", "run list", "job runs digest"])
def test_a_field_that_nothing_has_is_refused_with_those_there_are(line: str, flag: str, cli: Cli) -> None:
    result = cli(*line.split(), flag)
    assert (result.exit_code, result.stdout) == (9, "")
    assert "there is no field 'bogus'; known are job_id" in result.stderr or "run_id, job_id" in result.stderr


def test_an_empty_list_says_what_it_was_narrowed_to(cli: Cli, server: FakeServer) -> None:
    assert "no jobs match (filter name=x)" in cli("job", "list", "--filter", "name=x").stderr
    assert "no jobs match (search x, label a=b)" in cli("job", "list", "--search", "x", "-l", "a=b").stderr
    server.answer("GET /v1/runs", 200, page())
    assert cli("run", "list").stderr == "no runs yet  try: schedkit job list\n"
    assert cli("run", "list", "--late-than", "1s").stderr == "no runs match (late than 1s)\n"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("create --every 5m --target t --payload {", "fix: schedkit job create --name report"),
        ("update digest --payload {", f"fix: schedkit job update {JOB_ID} --payload"),
        ("trigger tea --payload {", "fix: schedkit job trigger tea --payload"),
        ("create --every 5m --target t --header Authorization=x", "fix: call a target that adds its secret"),
        ("create --at yesterday --target t", "write 2026-09-29T09:00:00Z, '2026-09-29 09:00', 09:00, 10m (from now)"),
        ("create --every 5m --target t --backoff 10m..1s", "at:  --backoff"),
        ("list --tz Mars", "at:  --tz"),
        ("list --tz=", "at:  --tz"),
        ("create --every 5m --target t --idempotency-key=", "at:  --idempotency-key"),
        ("create --target t", "--name report"),
    ],
)
def test_a_refusal_shows_a_way_out_that_fits(line: str, said: str, cli: Cli) -> None:
    result = cli("job", *line.split())
    assert result.exit_code == 9, result.output
    assert said in result.stderr


def test_an_update_of_a_job_that_is_not_there_says_only_that(cli: Cli, server: FakeServer) -> None:
    server.answer("GET /v1/jobs/nope", 404, problem(404, "JOB_NOT_FOUND"))
    for name in ("nope", "digest/runs", ""):
        result = cli("job", "update", name, "--priority", "low")
        assert (result.exit_code, "[JOB_NOT_FOUND]" in result.stderr, "schedule" in result.stderr) == (3, True, False)


def test_a_paused_job_says_why_it_has_no_next_run(cli: Cli, server: FakeServer) -> None:
    server.answer("GET /v1/jobs/digest/next", 200, {"occurrences": []})
    server.answer("GET /v1/jobs/digest", 200, {**JOB, "status": "PAUSED"})
    assert "digest is paused: nothing runs before it is resumed" in cli("job", "next", "digest").stderr
    server.answer("GET /v1/jobs/digest", 200, {**JOB, "status": "COMPLETED"})
    assert cli("job", "next", "digest").stderr == "digest is COMPLETED and has no further runs\n"


def test_a_dry_run_and_a_create_show_the_target_alike(cli: Cli, server: FakeServer) -> None:
    server.answers["POST /v1/jobs"] = lambda asked: (201, {**JOB, **asked.body})
    for target in ("demo-echo", "https://host.example/a"):
        line = ("job", "create", "--every", "5m", "--target", target)
        shown = [
            next(row for row in cli(*line, *more).stdout.splitlines() if "target " in row)
            for more in ([], ["--dry-run"])
        ]
        assert shown[0] == shown[1]


QUEUED = {"type": "TASK_QUEUE", "task_queue": "ledger", "task_type": None, "lease_seconds": 30, "timeout_seconds": None}


@pytest.mark.parametrize(
    ("flags", "target"),
    [
        (["--queue", "ledger"], {"type": "TASK_QUEUE", "task_queue": "ledger"}),
        (
            ["--queue", "ledger", "--task-type", "CHARGE", "--lease", "1m", "--run-timeout", "3h"],
            {
                "type": "TASK_QUEUE",
                "task_queue": "ledger",
                "task_type": "CHARGE",
                "lease_seconds": 60,
                "timeout_seconds": 10_800,
            },
        ),
    ],
)
def test_a_job_may_wait_for_a_worker(cli: Cli, server: FakeServer, flags: list[str], target: dict[str, Any]) -> None:
    server.answer("POST /v1/jobs", 201, {**JOB, "name": "rebuild", "target": QUEUED | target})
    result = cli("job", "create", "--name", "rebuild", "--every", "10m", *flags)
    assert result.exit_code == 0, result.stderr
    assert server.last.body["target"] == target
    assert "the worker gets it with the task, the same on each retry" in result.stdout
    assert "schedkit worker list --queue ledger" in result.stdout
    assert "  target    queue ledger" in result.stdout


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--queue", "q", "--target", "demo-echo"], "give one of --target and --queue"),
        (["--queue", "q", "--method", "PUT"], "give one of --method and --queue"),
        (["--lease", "30s"], "say which --queue"),
        (["--queue", "q", "--lease", "soon"], "'soon' is no duration"),
        ([], "or --queue NAME, for workers"),
    ],
)
def test_half_a_queue_or_both_kinds_of_target_are_refused(
    cli: Cli, server: FakeServer, flags: list[str], said: str
) -> None:
    result = cli("job", "create", "--name", "rebuild", "--every", "10m", *flags)
    assert result.exit_code == 9
    assert said in result.stderr
    assert server.asked == []


@pytest.mark.parametrize(
    ("before", "flags", "target"),
    [
        (QUEUED, ["--task-type", "CHARGE"], QUEUED | {"task_type": "CHARGE"}),
        (QUEUED, ["--run-timeout", "3h"], QUEUED | {"timeout_seconds": 10_800}),
        (QUEUED, ["--queue", "other"], QUEUED | {"task_queue": "other"}),
        (QUEUED | {"timeout_seconds": 10_800}, ["--target", "demo-echo"], {"target_id": "demo-echo"}),
        (JOB["target"], ["--queue", "ledger"], {"type": "TASK_QUEUE", "task_queue": "ledger"}),
    ],
)
def test_an_update_completes_a_target_of_its_kind_and_replaces_one_of_the_other(
    cli: Cli, server: FakeServer, before: dict[str, Any], flags: list[str], target: dict[str, Any]
) -> None:
    server.answer("GET /v1/jobs/digest", 200, {**JOB, "target": before})
    assert cli("job", "update", "digest", *flags).exit_code == 0
    assert server.of("PATCH")[-1].body == {"target": target}


def test_an_update_of_a_call_that_is_none_says_so(cli: Cli, server: FakeServer) -> None:
    server.answer("GET /v1/jobs/digest", 200, {**JOB, "target": QUEUED})
    result = cli("job", "update", "digest", "--method", "PUT")
    assert result.exit_code == 9
    assert "--method is for a job that is called, and this one waits in ledger" in result.stderr
    assert server.of("PATCH") == []


def test_a_job_of_a_queue_shows_its_lease_and_its_waiting_run(cli: Cli, server: FakeServer) -> None:
    waiting = {"run_id": RUN_ID, "scheduled_for": "2026-09-28T12:00:00Z", "status": "RETRY_WAIT", "attempt": 1}
    job = {**JOB, "target": QUEUED | {"timeout_seconds": 10_800}, "recent_runs": [waiting]}
    server.answer("GET /v1/jobs/digest", 200, job)
    shown = cli("job", "show", "digest").stdout
    assert "target\tqueue ledger\n" in shown
    assert "lease\t30s from each heartbeat, 3h in all\n" in shown
    assert "waits  digest        waits for a worker\n" in shown


def test_a_list_is_narrowed_to_a_queue_by_the_server(cli: Cli, server: FakeServer) -> None:
    server.answer("GET /v1/jobs", 200, page())
    assert "no jobs match (queue ledger)" in cli("job", "list", "--queue", "ledger").stderr
    assert server.last.query["task_queue"] == ["ledger"]


def test_the_status_says_what_workers_hold_and_why_the_reaper_waits(cli: Cli, server: FakeServer) -> None:
    assert "reaper" not in cli("status").stdout
    reaper = {"live": 12, "expired": 2, "reclaimed": 1, "suspended": None}
    server.answer("GET /v1/ops/snapshot", 200, {**SNAPSHOT, "reaper": reaper})
    assert "reaper\t12 runs with workers, 2 of lost ones, 1 given to others\n" in cli("status").stdout
    waits = {**reaper, "suspended": "no worker has been heard of for 30 s"}
    server.answer("GET /v1/ops/snapshot", 200, {**SNAPSHOT, "reaper": waits})
    assert "; it waits: no worker has been heard of for 30 s\n" in cli("status", "--section", "safety").stdout
