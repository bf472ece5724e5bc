"""`schedkit job` at its edges: what is refused and how that reads, repeats, empty lists."""

from __future__ import annotations

import pytest

from schedkit.model.time import parse_rfc3339
from tests.cli.conftest import JOB, JOB_ID, Cli, FakeServer, page, problem

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
