"""Job files: what each key becomes, and each mistake with its line, its job, its field and the way out."""

from __future__ import annotations

from typing import Any

import pytest

from schedkit.files import jobfile
from schedkit.files.keys import KEYS
from schedkit.files.schema import schema

WHOLE = """\
schedkit: v1
defaults: { tz: America/New_York, window: 5m, labels: { team: growth }, url: "https://a.example/" }
jobs:
  digest:
    cron: "0 8 * * *"
    target: email_digests
    path: /digests
    payload: { kind: daily_digest }
    retry: { max_attempts: 7, backoff: 10s..15m }
    labels: { tier: gold }
    misfire: run-once
  settle-cards: { every: 5m, tz: UTC, target: settlement, priority: CRITICAL, strict: true }
  reminder-88213: { at: "2026-09-28T09:00", tz: Europe/Berlin }
  nightly: { cron: "@daily", queue: shell, task_type: backup, lease: 30s, timeout: 3h, payload: { command: "true" } }
"""


def sound(text: str) -> dict[str, dict[str, Any]]:
    found = jobfile.read(text, "jobs.yaml")
    assert not found.problems, [str(problem) for problem in found.problems]
    return {job.name: job.document for job in found.jobs}


def entry(said: str) -> dict[str, Any]:
    return sound(f"schedkit: v1\njobs:\n  a: {{ {said} }}\n")["a"]


def told(text: str) -> list[str]:
    return [str(problem) for problem in jobfile.read(text, "jobs.yaml").problems]


def refused(said: str) -> str:
    (only,) = told(f"schedkit: v1\njobs:\n  a: {{ {said} }}\n")
    return only.removeprefix("jobs.yaml:3: a: ")


def test_a_file_means_what_it_says() -> None:
    jobs = sound(WHOLE)
    digest, cards, reminder, nightly = jobs.values()
    assert digest["target"]["target_id"] == "email_digests"
    assert "url" not in digest["target"]
    assert digest["labels"] == {"team": "growth", "tier": "gold"}
    retry = {"max_attempts": 7, "initial_backoff_seconds": 10, "max_backoff_seconds": 900}
    assert digest["retry_policy"] == retry
    assert digest["dispatch_window_seconds"] == 300
    assert cards["schedule"] == {"type": "INTERVAL", "every_seconds": 300}
    assert (cards["dispatch_window_seconds"], cards["priority"]) == (0, "CRITICAL")
    assert reminder["schedule"]["time_zone"] == "Europe/Berlin"
    assert reminder["target"]["url"] == "https://a.example/"
    assert nightly["target"] == {
        "type": "TASK_QUEUE",
        "task_queue": "shell",
        "task_type": "backup",
        "lease_seconds": 30,
        "timeout_seconds": 10_800,
    }


def test_words_may_be_written_in_any_case_and_as_the_api_has_them() -> None:
    for said in ("skip", "SKIP", "Skip"):
        assert entry(f"every: 5m, queue: q, overlap: {said}")["overlap_policy"] == "SKIP"
    for said in ("queue", "BUFFER_ONE", "buffer-one"):
        assert entry(f"every: 5m, queue: q, overlap: {said}")["overlap_policy"] == "BUFFER_ONE"


def test_other_dialects_are_kept_in_the_unix_form() -> None:
    document = entry('cron: "0 30 8 ? * MON-FRI", dialect: quartz, queue: q')
    assert document["schedule"]["cron"] == "30 8 * * MON-FRI"


def test_times_without_an_offset_are_read_on_the_clock_of_the_zone() -> None:
    document = entry('cron: "0 8 * * *", tz: Europe/Berlin, start: "2026-07-01T00:00", queue: q')
    assert document["schedule"]["start_at"] == "2026-06-30T22:00:00Z"
    offset = entry('at: "2026-09-28T09:00:00+02:00", queue: q')
    assert offset["schedule"] == {"type": "ONCE", "run_at": "2026-09-28T09:00:00+02:00"}


def test_a_default_zone_does_not_contradict_a_time_that_says_its_offset() -> None:
    text = 'schedkit: v1\ndefaults: { tz: Asia/Tokyo }\njobs: { a: { at: "2026-09-28T09:00:00+02:00", queue: q } }'
    assert "time_zone" not in sound(text)["a"]["schedule"]


def test_what_a_job_says_replaces_what_defaults_say_of_the_same_thing() -> None:
    text = """\
schedkit: v1
defaults: { url: "https://a.example/", method: GET, headers: { x: a }, window: 1m, delivery: at-most-once }
jobs:
  pulled: { every: 5m, queue: q, strict: true, delivery: at-least-once }
  called: { every: 5m, headers: { y: b } }
"""
    pulled, called = sound(text).values()
    bare = {"task_type": None, "lease_seconds": 30, "timeout_seconds": None}
    assert pulled["target"] == {"type": "TASK_QUEUE", "task_queue": "q", **bare}
    assert (pulled["dispatch_window_seconds"], pulled["delivery"]) == (0, "AT_LEAST_ONCE")
    assert called["target"]["headers"] == {"x": "a", "y": "b"}
    assert called["delivery"] == "AT_MOST_ONCE"


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ("queue: q", "cron: a job has one schedule, and this has none"),
        ('cron: "0 8 * * *", every: 5m, queue: q', "cron: a job has one schedule, and this has cron and every"),
        ("every: 5m", "url: a job has one place to go to, and this has none"),
        ("every: 5m, queue: q, target: t", "target: a job has one place to go to, and this has target and queue"),
        ("every: 5m, queue: q, wndow: 5m", "wndow: there is no such key  fix: write window"),
        ('cron: "0 8 * *", queue: q', "cron: the expression has 4 fields"),
        ('cron: "0 0 30 2 *", queue: q', 'cron: "0 0 30 2 *" can never fire'),
        ('cron: "0 0 12 * * ? 2027", queue: q', "cron: the expression has 7 fields; a Unix cron has five"),
        ('cron: "0 8 * * *", tz: Europe/Berln, queue: q', 'tz: "Europe/Berln" is not the name of a time zone'),
        ("every: 300, queue: q", "every: 300 has no unit; a duration is 500ms, 30s, 5m, 1h or 3d  fix: write 300s"),
        ("every: 500ms, queue: q", "every: 500ms is outside 1s to 3660d"),
        ("every: 5 minutes, queue: q", "every: '5 minutes' is no duration"),
        ("every: 5m, queue: q, dst_gap: skip", "dst_gap: it goes with cron  fix: take dst_gap out"),
        ('at: "tomorrow", queue: q', 'at: "tomorrow" is not a time'),
        ('at: "2026-03-29T02:30", tz: Europe/Berlin, dst_gap: skip, queue: q', "at: 2026-03-29T02:30 does not exist"),
        ('at: "2026-09-28T09:00Z", end: "2027-01-01T00:00Z", queue: q', "end: it goes with cron or every"),
        ("every: 5m, queue: q, paused: 1", "paused: 1 is neither true nor false"),
        ("every: 5m, queue: q, misfire: never", 'misfire: "never" is none of run-once, skip, run-all'),
        ("every: 5m, queue: q, labels: { a: 1 }", 'labels: a is 1, which is no text  fix: write a: "1"'),
        ("every: 5m, queue: q, labels: [a]", 'labels: ["a"] are no pairs'),
        ("every: 5m, queue: q, window: 25h", "window: 25h is not within 0s to 1d"),
        ("every: 5m, queue: q, window: 10m, expires_after: 5m", "expires_after: it has to be longer than the window"),
        ("every: 5m, queue: q, window: 10m, strict: true", "strict: it contradicts window: 10m"),
        ("every: 5m, queue: q, max_runs: 0", "max_runs: 0 is no whole number from 1"),
        ("every: 5m, queue: q, retry: { backoff: 10m..10s }", "retry: the first wait 10m is longer than the longest"),
        ("every: 5m, queue: q, retry: 5", "retry: 5 is no retry policy"),
        ("every: 5m, queue: a b", 'queue: "a b" is no such name'),
        ("every: 5m, queue: q, lease: 1s", "lease: 1s is outside 5s to 1h"),
        ("every: 5m, queue: q, path: /x", "path: it goes with target"),
        ("every: 5m, target: t, path: x", 'path: "x" is no path'),
        ('every: 5m, target: "https://a.example/"', "target: https://a.example/ is no registered target"),
        ('every: 5m, url: "ftp://a.example/"', "url: ftp://a.example/ may not be called"),
        ('every: 5m, url: "https://a.example/", headers: { Cookie: x }', "headers: Cookie is a secret"),
        ('every: 5m, url: "https://a.example/", timeout: 10m', "timeout: 10m is outside 1s to 5m"),
        ("every: 5m, queue: q, secret_ref: env:SCHEDKIT_SECRET_A", "secret_ref: it goes with url"),
        ('every: 5m, url: "https://a.example/", secret_ref: whsec_hush', "secret_ref: it is no reference of a secret"),
        (
            'every: 5m, url: "https://a.example/", previous_secret_ref: env:A',
            "previous_secret_ref: it goes with secret",
        ),
        ("every: 5m, queue: q, description: 5", 'description: 5 is no text  fix: write "5"'),
    ],
)
def test_a_mistake_says_where_what_and_how_to_put_it_right(said: str, problem: str) -> None:
    assert refused(said).startswith(problem)


def test_all_mistakes_of_a_file_are_told_at_once_in_the_order_of_its_lines() -> None:
    text = """\
schedkit: v2
defaults: { tz: Mars/Base, cron: "* * * * *", colour: red }
targets: { a: b }
job: {}
jobs:
  one: { cron: "99 * * * *", queue: q, paused: yes }
  two: { cron: "0 8 * * *", queue: q }
  a/b: { every: 5m, queue: q }
  one: { every: 5m, queue: q }
  three:
"""
    lines = [f"{problem.line} {problem.job} {problem.field}" for problem in jobfile.read(text, "x").problems]
    assert lines == [
        "1 None schedkit",
        "2 defaults cron",
        "2 defaults colour",
        "2 defaults tz",
        "3 None targets",
        "4 None job",
        "6 one paused",
        "6 one cron",
        "8 a/b None",
        "9 one None",
        "10 three None",
    ]


@pytest.mark.parametrize("text", ["", "[]", "hello", "null"])
def test_what_is_no_job_file_is_told_how_to_begin(text: str) -> None:
    assert "begin it with schedkit: v1" in told(text)[0]


def test_a_file_without_jobs_says_so_on_purpose() -> None:
    assert told("schedkit: v1\n") == [
        "jobs.yaml:1: jobs: there are no jobs  fix: write jobs: {} for a file that keeps none"
    ]
    assert sound("schedkit: v1\njobs: {}\n") == {}


def test_the_same_file_may_be_json() -> None:
    assert sound('{"schedkit": "v1", "jobs": {"a": {"every": "5m", "queue": "q"}}}')["a"]["name"] == "a"


def test_the_schema_knows_every_key_and_no_other() -> None:
    properties = schema()["properties"]
    assert list(properties["jobs"]["additionalProperties"]["properties"]) == [key.name for key in KEYS]
    assert "cron" not in properties["defaults"]["properties"]
