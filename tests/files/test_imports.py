"""EventBridge and Kubernetes: what is kept, what is named, and that the file is one that apply takes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from schedkit.errors import InvalidInput
from schedkit.files import eventbridge, jobfile, kubernetes
from schedkit.files.imported import Imported, Wishes

SCHEDULE = {
    "Name": "pay",
    "GroupName": "finance",
    "ScheduleExpression": "cron(30 2 ? * MON-FRI 2026)",
    "ScheduleExpressionTimezone": "Europe/Berlin",
    "State": "DISABLED",
    "Description": "Payroll",
    "FlexibleTimeWindow": {"Mode": "FLEXIBLE", "MaximumWindowInMinutes": 15},
    "ActionAfterCompletion": "DELETE",
    "Target": {
        "Arn": "arn:aws:lambda:eu-west-1:1:function:pay",
        "RoleArn": "arn:aws:iam::1:role/x",
        "Input": '{"run": "<aws.scheduler.execution-id>"}',
        "RetryPolicy": {"MaximumRetryAttempts": 3, "MaximumEventAgeInSeconds": 60},
        "DeadLetterConfig": {"Arn": "arn:aws:sqs:eu-west-1:1:dead"},
        "EcsParameters": {},
    },
}
CRONJOB = """\
apiVersion: batch/v1
kind: CronJob
metadata: { name: backup, namespace: prod, labels: { app: db } }
spec:
  schedule: "30 1 * * *"
  timeZone: America/New_York
  concurrencyPolicy: Replace
  startingDeadlineSeconds: 200
  suspend: true
  successfulJobsHistoryLimit: 3
  jobTemplate:
    spec:
      backoffLimit: 2
      activeDeadlineSeconds: 3600
      template:
        spec:
          restartPolicy: OnFailure
          volumes: []
          containers:
            - image: "db:1"
              command: [sh, -c]
              args: [dump]
              env: [{ name: A, value: "1" }, { name: B, valueFrom: {} }]
---
kind: List
items:
  - { kind: CronJob, metadata: { name: zoned }, spec: { schedule: "CRON_TZ=UTC */5 * * * *" } }
  - { kind: CronJob, metadata: { name: hourly }, spec: { schedule: "@every 1h30m", concurrencyPolicy: Forbid } }
  - { kind: Job, metadata: { name: other } }
  - kind: CronJob
    metadata: { name: broken }
    spec: { schedule: "* * * * *", jobTemplate: { spec: { backoffLimit: x } } }
"""


def sound(found: Imported) -> dict[str, Any]:
    back = jobfile.read(found.text(), "jobs.yaml")
    assert not back.problems, [str(problem) for problem in back.problems]
    again = jobfile.read(json.dumps(found.document()), "jobs.json")
    assert [job.document for job in again.jobs] == [job.document for job in back.jobs]
    return {job.name: dict(job.entry) for job in found.jobs if job.entry is not None}


def notes(found: Imported) -> str:
    return "\n".join(str(note) for note in found.notes)


def test_a_schedule_of_eventbridge_keeps_its_zone_window_and_retries() -> None:
    found = eventbridge.read(json.dumps(SCHEDULE), Wishes())
    assert sound(found)["pay"] == {
        "cron": "30 2 * * MON-FRI",
        "tz": "Europe/Berlin",
        "dst_gap": "skip",
        "start": "2026-01-01T00:00:00",
        "end": "2027-01-01T00:00:00",
        "queue": "pay",
        "payload": {"run": "<aws.scheduler.execution-id>"},
        "window": "15m",
        "retry": {"max_attempts": 4, "backoff": "10s..15m"},
        "labels": {"group": "finance"},
        "description": "Payroll",
        "paused": True,
    }
    for named in ("the year 2026", "function:pay cannot be called", "<aws.scheduler...>", "60 s", "DeadLetterConfig",
                  "ActionAfterCompletion", "Target.EcsParameters"):  # fmt: skip
        assert named in notes(found)


def test_rates_times_rules_and_lists_of_eventbridge() -> None:
    rules = {
        "Rules": [
            {"Name": "five", "ScheduleExpression": "rate(5 minutes)", "State": "ENABLED"},
            {"Name": "once", "ScheduleExpression": "at(2026-11-20T13:00:00)"},
            {"Name": "events", "EventPattern": "{}"},
            {"Name": "years", "ScheduleExpression": "cron(0 1 * * ? 2026,2028)"},
            {"Name": "odd", "ScheduleExpression": "cron(0 1 1 * MON *)"},
            {"Name": "bad", "ScheduleExpression": "sometimes"},
        ]
    }
    listed = {"Schedules": [{"Name": "listed", "Arn": "arn:aws:scheduler:x", "Target": {"Arn": "y"}}]}
    found = eventbridge.read(json.dumps(rules) + "\n" + json.dumps(listed), Wishes(target="https://a.example/"))
    jobs = sound(found)
    assert jobs["five"]["every"] == "5m"
    assert jobs["five"]["url"] == "https://a.example/"
    assert (jobs["once"]["at"], jobs["once"]["tz"]) == ("2026-11-20T13:00:00", "UTC")
    assert set(jobs) == {"five", "once"}
    for named in ("it matches events", "2026,2028 are no single year", "one of them must be ?", "sometimes is neither",
                  "get-schedule --name listed has it"):  # fmt: skip
        assert named in notes(found)


@pytest.mark.parametrize(
    ("said", "start"),
    [
        ("2027-01-01T00:00:00+01:00", "2026-12-31T23:00:00Z"),
        ("2027-01-01T00:00:00.123000-07:00", "2027-01-01T07:00:00.123Z"),
        ("2027-01-01T00:00:00Z", "2027-01-01T00:00:00Z"),
        ("2027-01-01T00:00:00", "2027-01-01T00:00:00Z"),
        (1798761600, "2027-01-01T00:00:00Z"),
        (1798761600.5, "2027-01-01T00:00:00.500Z"),
        ("1798761600.0", "2027-01-01T00:00:00Z"),
    ],
)
@pytest.mark.parametrize("expression", ["cron(0 8 * * ? *)", "rate(5 minutes)"])
def test_a_bound_is_the_instant_that_aws_prints(said: object, start: str, expression: str) -> None:
    schedule = {"Name": "a", "ScheduleExpression": expression, "ScheduleExpressionTimezone": "Europe/Berlin"}
    found = eventbridge.read(
        json.dumps({**schedule, "StartDate": said, "EndDate": "2028-01-01T00:00:00-08:00"}), Wishes()
    )
    job = sound(found)["a"]
    assert (job["start"], job["end"]) == (start, "2028-01-01T08:00:00Z")
    assert ("is read in UTC, as AWS does" in notes(found)) == (said == "2027-01-01T00:00:00")


def test_years_and_bounds_hold_together() -> None:
    schedule = {
        "Name": "a",
        "ScheduleExpression": "cron(0 8 * * ? 2027)",
        "ScheduleExpressionTimezone": "Europe/Berlin",
    }
    wide = {**schedule, "StartDate": "2026-06-01T00:00:00Z", "EndDate": "2028-06-01T00:00:00Z"}
    narrow = {**schedule, "StartDate": "2027-06-01T00:00:00Z", "EndDate": "2027-07-01T00:00:00Z"}
    bounds = [
        (job["start"], job["end"])
        for job in (sound(eventbridge.read(json.dumps(one), Wishes()))["a"] for one in (wide, narrow))
    ]
    assert bounds == [
        ("2027-01-01T00:00:00", "2028-01-01T00:00:00"),
        ("2027-06-01T00:00:00Z", "2027-07-01T00:00:00Z"),
    ]


@pytest.mark.parametrize("said", ["soon", True, 1798761600000000, {"a": 1}])
def test_a_bound_that_is_no_time_leaves_the_schedule_out(said: object) -> None:
    text = json.dumps({"Name": "a", "ScheduleExpression": "rate(5 minutes)", "StartDate": said})
    found = eventbridge.read(text, Wishes())
    assert sound(found) == {}
    assert "not imported: StartDate: " in notes(found)


def test_ways_out_are_joined_by_one_or() -> None:
    text = json.dumps({"Name": "a", "ScheduleExpression": "at(2027-07-01T00:00:00-07:00)",
                       "ScheduleExpressionTimezone": "Europe/Berlin"})  # fmt: skip
    told = notes(eventbridge.read(text, Wishes()))
    assert "; or leave the offset out" in told
    assert "or or" not in told


@pytest.mark.parametrize("text", ["", "[]", "{", "x: y"])
def test_what_aws_did_not_print_is_refused_or_empty(text: str) -> None:
    if not text:
        assert sound(eventbridge.read(text, Wishes())) == {}
        return
    with pytest.raises(InvalidInput, match="this is not what aws prints"):
        eventbridge.read(text, Wishes())


def test_cronjobs_of_kubernetes_keep_their_policies() -> None:
    found = kubernetes.read(CRONJOB, Wishes())
    jobs = sound(found)
    assert jobs["backup"] == {
        "cron": "30 1 * * *",
        "tz": "America/New_York",
        "dst_gap": "skip",
        "dst_overlap": "both",
        "queue": "kubernetes",
        "timeout": "3600s",
        "payload": {"image": "db:1", "command": ["sh", "-c"], "args": ["dump"], "env": {"A": "1"}},
        "retry": {"max_attempts": 3, "backoff": "10s..6m"},
        "overlap": "skip",
        "labels": {"namespace": "prod", "app": "db"},
        "expires_after": "200s",
        "paused": True,
    }
    assert (jobs["zoned"]["tz"], jobs["zoned"]["cron"]) == ("UTC", "*/5 * * * *")
    assert (jobs["hourly"]["every"], jobs["hourly"]["overlap"]) == ("1h30m", "skip")
    for named in ("Replace stopped the run before", "history limits", "activeDeadlineSeconds bounded all tries",
                  "secrets, config maps", "volumes of the pod", "it is no CronJob", "malformed"):  # fmt: skip
        assert named in notes(found)


def test_what_is_no_yaml_is_refused() -> None:
    with pytest.raises(InvalidInput, match="this is no YAML"):
        kubernetes.read("a: [", Wishes())
