"""`schedkit job`: what is sent, and what is printed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from schedkit.model.time import parse_rfc3339
from tests.cli.conftest import Cli, FakeServer
from tests.cli.samples import JOB, JOB_ID, page, problem

NOW = parse_rfc3339("2026-09-28T21:40:31.250Z")


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("values", "jobpages"):
        monkeypatch.setattr(f"schedkit.cli.{module}.now_ms", lambda: NOW)


def sent(server: FakeServer, method: str = "POST") -> Any:
    return server.of(method)[-1].body


def test_create_prints_what_runs_when_and_under_which_key(cli: Cli, server: FakeServer) -> None:
    tea = {
        **JOB,
        "name": "tea",
        "schedule": {"type": "ONCE", "run_at": "2026-09-28T21:41:02Z"},
        "target": {"target_id": "demo-echo", "url": "http://127.0.0.1:8700/_demo/echo", "method": "POST"},
        "next_run_at": "2026-09-28T21:41:02Z",
    }
    server.answer("POST /v1/jobs", 201, tea)
    result = cli(
        *("job", "create", "--name", "tea", "--in", "30s", "--target", "demo-echo"),
        *("--payload", '{"say":"tea is ready"}', "--tz", "Europe/Berlin"),
    )
    assert result.exit_code == 0
    assert result.stdout == (
        f"created job tea ({JOB_ID}) in {server.url[7:]}\n"
        "  runs      once, Mon 2026-09-28 23:41:02 +02:00, in 30 s\n"
        "  target    demo-echo  POST http://127.0.0.1:8700/_demo/echo\n"
        f"  key       {JOB_ID}:2026-09-28T21:41:02Z   the target gets it as Idempotency-Key, the same on each retry\n"
        "next:  schedkit job runs tea -w      schedkit job cancel tea\n"
    )
    assert server.last.body == {
        "name": "tea",
        "schedule": {"type": "ONCE", "run_at": "2026-09-28T21:41:02Z"},
        "target": {"target_id": "demo-echo"},
        "payload": {"say": "tea is ready"},
    }
    assert len(server.last.headers["idempotency-key"]) == 32
    assert cli("job", "create", "--in", "30s", "--target", "demo-echo", "-q").stdout == f"{JOB_ID}\n"


def test_create_sends_every_flag(cli: Cli, server: FakeServer) -> None:
    flags = {
        "--name": "digest",
        "--cron": "0 0 12 ? * MON-FRI",
        "--dialect": "quartz",
        "--tz": "America/New_York",
        "--dst": "both,skip",
        "--start": "2026-10-01 00:00",
        "--end": "2027-10-01T00:00:00Z",
        "--target": "https://email.example/v1/",
        "--path": "/digests",
        "--method": "put",
        "--header": "X-Team=growth",
        "--run-timeout": "1m",
        "--priority": "high",
        "--window": "5m",
        "--max-attempts": "8",
        "--backoff": "5s..15m",
        "--misfire": "run-all",
        "--misfire-grace": "1h",
        "--overlap": "queue",
        "--region-policy": "home-async",
        "-l": "team=growth",
    }
    line = [word for pair in flags.items() for word in pair]
    result = cli("job", "create", *line, "--at-most-once", "--paused", "--reason", "new: größer")
    assert result.exit_code == 0, result.output
    assert sent(server) == {
        "name": "digest",
        "schedule": {
            "type": "CRON",
            "cron": "0 12 * * MON-FRI",
            "time_zone": "America/New_York",
            "start_at": "2026-10-01T04:00:00Z",
            "end_at": "2027-10-01T00:00:00Z",
            "dst_overlap_policy": "BOTH",
            "dst_gap_policy": "SKIP",
        },
        "target": {
            "url": "https://email.example/v1/digests",
            "method": "PUT",
            "timeout_seconds": 60,
            "headers": {"X-Team": "growth"},
        },
        "priority": "HIGH",
        "dispatch_window_seconds": 300,
        "retry_policy": {"max_attempts": 8, "initial_backoff_seconds": 5, "max_backoff_seconds": 900},
        "misfire_policy": "RUN_ALL",
        "misfire_grace_seconds": 3_600,
        "overlap_policy": "BUFFER_ONE",
        "delivery": "AT_MOST_ONCE",
        "region_policy": "HOME_ASYNC",
        "labels": {"team": "growth"},
        "paused": True,
    }
    assert server.last.headers["schedkit-reason"] == "new: gr%C3%B6%C3%9Fer"


@pytest.mark.parametrize(
    "line",
    [
        [],
        ["--cron", "0 8 * * *"],
        ["--target", "demo-echo"],
        ["--cron", "0 8 * * *", "--every", "5m", "--target", "t"],
        ["--every", "500ms", "--target", "t"],
        ["--every", "5m", "--target", "t", "--window", "1m", "--strict"],
        ["--every", "5m", "--target", "t", "--priority", "urgent"],
        ["--every", "5m", "--target", "t", "--dst", "first,both"],
        ["--every", "5m", "--target", "t", "-l", "nolabel"],
        ["--every", "5m", "--target", "t", "--payload", "{"],
        ["--cron", "H 8 * * *", "--dialect", "quartz", "--target", "t"],
    ],
)
def test_create_refuses_what_makes_no_job_before_asking(line: list[str], cli: Cli, server: FakeServer) -> None:
    assert cli("job", "create", *line).exit_code == 9
    assert server.asked == []


def test_create_dry_run_asks_for_a_preview_only(cli: Cli, server: FakeServer) -> None:
    result = cli("job", "create", "--cron", "0 8 * * *", "--target", "demo-echo", "--dry-run", "--tz", "UTC")
    assert f"would create job (no name) in {server.url[7:]}\n" in result.stdout
    assert "first Mon 2099-09-28 12:00:00 +00:00" in result.stdout
    assert [asked.path for asked in server.asked] == ["/v1/schedules:preview"]


def test_a_replayed_create_says_so(cli: Cli, server: FakeServer) -> None:
    server.answer("POST /v1/jobs", 200, JOB, {"Idempotent-Replayed": "true"})
    line = ("job", "create", "--every", "5m", "--target", "t", "--idempotency-key", "k1")
    assert cli(*line).stdout.startswith(f"already created job digest ({JOB_ID})")
    assert server.last.headers["idempotency-key"] == "k1"


def test_create_waits_for_the_first_run(cli: Cli, server: FakeServer) -> None:
    at = "2026-09-28T12:00:00Z"
    server.answer("POST /v1/jobs", 201, {**JOB, "next_run_at": at})
    result = cli("job", "create", "--every", "5m", "--target", "t", "--wait")
    assert result.exit_code == 0
    assert "ok     digest        200 in 4 ms, 3 ms after its time" in result.stdout
    line = ("job", "create", "--every", "5m", "--target", "t", "--wait", "-o", "json")
    assert json.loads(cli(*line).stdout)["schema"] == "schedkit.run/v1", "a program gets one document"


def test_notes_of_a_clock_change_are_said(cli: Cli, server: FakeServer) -> None:
    server.answer("POST /v1/jobs", 201, {**JOB, "notes": ["02:30 does not exist this day"], "adjusted": True})
    assert "  note      02:30 does not exist this day\n" in cli("job", "create", "--in", "5m", "--target", "t").stdout


def test_update_sends_only_what_is_given_completed_by_what_stands(cli: Cli, server: FakeServer) -> None:
    result = cli("job", "update", "digest", "--cron", "0 7 * * *", "--max-attempts", "8", "--run-timeout", "1m")
    assert result.exit_code == 0, result.output
    assert sent(server, "PATCH") == {
        "schedule": {**JOB["schedule"], "cron": "0 7 * * *"},
        "target": {**JOB["target"], "timeout_seconds": 60},
        "retry_policy": {**JOB["retry_policy"], "max_attempts": 8},
    }
    assert server.of("PATCH")[0].headers["if-match"] == '"7"'
    assert result.stdout == (
        "updated digest\n"
        "  ~ schedule.cron               0 8 * * * -> 0 7 * * *\n"
        "  ~ target.timeout_seconds      30 -> 60\n"
        "  ~ retry_policy.max_attempts   5 -> 8\n"
    )


def test_update_to_another_kind_of_schedule_is_one_line(cli: Cli, server: FakeServer) -> None:
    result = cli("job", "update", "digest", "--every", "10m")
    assert result.stdout == 'updated digest\n  ~ schedule   cron "0 8 * * *" America/New_York -> every 10m\n'


def test_update_of_the_zone_alone_keeps_the_cron(cli: Cli, server: FakeServer) -> None:
    assert cli("job", "update", "digest", "--tz", "Asia/Tokyo").exit_code == 0
    assert sent(server, "PATCH") == {"schedule": {**JOB["schedule"], "time_zone": "Asia/Tokyo"}}
    assert cli("job", "update", "digest", "--window", "5m", env={"SCHEDKIT_TZ": "Asia/Tokyo"}).exit_code == 0
    assert sent(server, "PATCH") == {"dispatch_window_seconds": 300}, "a default zone changes no job"


def test_update_dry_run_shows_the_difference_and_changes_nothing(cli: Cli, server: FakeServer) -> None:
    result = cli("job", "update", "digest", "--window", "5m", "--dry-run")
    assert result.stdout == "would update digest\n  ~ dispatch_window_seconds   0 -> 300\n"
    assert server.of("PATCH") == []


def test_update_with_nothing_given_says_so(cli: Cli, server: FakeServer) -> None:
    result = cli("job", "update", "digest")
    assert (result.exit_code, server.of("PATCH")) == (0, [])
    assert "nothing to change was given" in result.stderr


def test_pause_resume_cancel_trigger(cli: Cli, server: FakeServer) -> None:
    assert cli("job", "pause", "digest", "--until", "2h", "--reason", "moved").stdout.startswith("paused digest")
    assert sent(server) == {"reason": "moved", "until": "2026-09-28T23:40:31.250Z"}
    assert cli("job", "resume", "digest", "--misfire", "run-once").stdout.startswith(
        "resumed digest, next run Mon 2099"
    )
    assert sent(server) == {"misfire": "RUN_ONCE"}
    assert cli("job", "cancel", "digest", "--running", "cancel").stdout == "cancelled digest\n"
    assert server.last.query == {"running": ["cancel"]}
    result = cli("job", "trigger", "digest", "--payload", '{"a":1}', "--as-of", "now", "--follow")
    assert sent(server) == {"payload": {"a": 1}, "as_of": "2026-09-28T21:40:31.250Z"}
    assert result.stdout.startswith("triggered digest: run job_01J9ZK8V4T6Q:2026-09-28T12:00:00Z\n")
    assert "ok     digest" in result.stdout


def test_dry_runs_of_verbs_change_nothing(cli: Cli, server: FakeServer) -> None:
    for verb in ("pause", "resume", "cancel", "trigger"):
        assert cli("job", verb, "digest", "--dry-run").stdout.startswith(f"would {verb} digest")
    assert {asked.method for asked in server.asked} == {"GET"}


def test_several_jobs_print_one_document(cli: Cli, server: FakeServer) -> None:
    doc = json.loads(cli("job", "pause", "digest", JOB_ID, "-o", "json").stdout)
    assert [job["status"] for job in doc["items"]] == ["PAUSED", "PAUSED"]


def test_list_passes_its_filters_on(cli: Cli, server: FakeServer) -> None:
    cli("job", "list", "--state", "active,paused", "-l", "team=growth", "--due-within", "10m", "-n", "7")
    assert server.last.query == {
        "limit": ["7"],
        "status": ["SCHEDULED", "PAUSED"],
        "label": ["team=growth"],
        "due_before": ["2026-09-28T21:50:31.250Z"],
    }
    assert cli("job", "list", "--target", "nowhere").stdout == ""
    assert cli("job", "list", "--search", "IGEST", "--priority", "default", "-q").stdout == f"{JOB_ID}\n"
    assert cli("job", "list", "--state", "running", "-q").stdout == f"{JOB_ID}\n"
    assert server.of("GET")[-2].query["status"] == ["RUNNING"]


def test_an_empty_list_says_what_to_do(cli: Cli, server: FakeServer) -> None:
    server.answer("GET /v1/jobs", 200, page())
    result = cli("job", "list")
    assert result.stderr.startswith("no jobs yet  try: schedkit job create")
    assert json.loads(cli("job", "list", "-o", "json").stdout)["items"] == []


def test_show_has_schedule_next_run_and_last_runs(cli: Cli, server: FakeServer) -> None:
    found = {
        **JOB,
        "dispatch_window_seconds": 300,
        "recent_runs": [{"run_id": "r", "status": "FAILED", "http_status": 500}],
    }
    found["recent_runs"][0] |= {"scheduled_for": "2026-09-28T12:00:00Z", "attempt": 5, "error": "server error"}
    server.answer("GET /v1/jobs/digest", 200, found)
    text = cli("job", "show", "digest").stdout
    assert 'schedule\tcron "0 8 * * *" America/New_York\n' in text
    assert "next run\tMon 2099-09-28 08:00:00 -04:00, in " in text
    assert "window\t5m, its place +" in text
    assert "fail   digest        try 5, 500 server error" in text
    spec = json.loads(cli("job", "show", "digest", "--spec", "-o", "json").stdout)
    assert "job_id" not in spec
    assert spec["schedule"] == JOB["schedule"]


def test_next_has_the_place_and_the_note(cli: Cli, server: FakeServer) -> None:
    server.answer("GET /v1/jobs/digest", 200, {**JOB, "dispatch_window_seconds": 300})
    row = cli("job", "next", "digest", "-n", "1").stdout.rstrip("\n").split("\t")
    assert row[:3] == ["1", "Mon 2099-09-28 08:00 EDT", "2099-09-28 12:00Z"]
    assert row[4] == "+2m41s"
    assert row[5].startswith("! 01:30 happens twice")
    assert server.last.query == {"count": ["1"]}


def test_a_name_is_one_segment_of_a_path(cli: Cli, server: FakeServer) -> None:
    for name in ("-dash", "a:pause?ü", "%2e%2e"):
        server.answer(f"GET /v1/jobs/{name}", 200, JOB)
        assert cli("job", "show", "--", name).exit_code == 0


def test_a_conflict_of_versions_is_exit_4(cli: Cli, server: FakeServer) -> None:
    server.answer("PATCH /v1/jobs/digest", 409, problem(409, "VERSION_CONFLICT"))
    assert cli("job", "update", "digest", "--window", "5m").exit_code == 4
