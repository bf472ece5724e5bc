"""EventBridge, Kubernetes and Celery beat: what is kept, what is named, and that the file is one that apply takes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from schedkit.errors import InvalidInput
from schedkit.files import celery, eventbridge, jobfile, kubernetes
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


def test_a_python_file_of_celery_is_read_and_never_run() -> None:
    found = celery.read(Path(__file__).with_name("beat.txt").read_text(encoding="utf-8"), Wishes())
    jobs = sound(found)
    assert found.defaults["tz"] == "Europe/Berlin"
    assert jobs["add-every-30-seconds"] == {
        "every": "30s",
        "task_type": "shop.tasks.add",
        "payload": {"args": [16, 16], "kwargs": {}},
    }
    assert (jobs["sync"]["queue"], jobs["sync"]["every"], jobs["sync"]["expires_after"]) == ("slow", "5m", "4m")
    assert jobs["mondays"]["cron"] == "30 7 * * 1"
    assert (jobs["first-monday"]["cron"], jobs["first-monday"]["day_rule"]) == ("0 3 1-7 * mon", "and")
    assert jobs["often"]["every"] == "2m"
    assert jobs["quarters"]["cron"] == "0,15,30,45 * * * *"
    assert not {"sunset", "from-env", "which-day"} & set(jobs)
    for named in ("solar", "os.environ['EVERY']", "depends on the version of Celery"):
        assert named in notes(found)


@pytest.mark.parametrize(
    ("schedule", "entry"),
    [
        (30, {"every": "30s"}),
        ("crontab(minute=5, hour='*/2')", {"cron": "5 */2 * * *"}),
        ("5 4 * * *", {"cron": "5 4 * * *"}),
        ({"crontab": {"minute": "0"}}, {"cron": "0 * * * *"}),
        ({"type": "crontab", "minute": 1, "day_of_week": "mon,fri"}, {"cron": "1 * * * mon,fri"}),
        ({"every": 10, "period": "minutes"}, {"every": "10m"}),
        ({"minutes": 5}, {"every": "5m"}),
    ],
)
def test_a_beat_schedule_may_be_data(schedule: Any, entry: dict[str, Any]) -> None:
    text = json.dumps({"timezone": "Asia/Tokyo", "beat_schedule": {"a": {"task": "x.y", "schedule": schedule}}})
    found = celery.read(text, Wishes())
    job = sound(found)["a"]
    assert {key: job[key] for key in entry} == entry
    assert found.defaults["tz"] == "Asia/Tokyo"


@pytest.mark.parametrize(
    "schedule",
    [
        {"type": "solar"},
        float("inf"),
        float("nan"),
        "import os",
        "open('x')",
        None,
        True,
        {"fortnights": 2},
        "1 / 0",
        [1],
    ],
)
def test_a_schedule_that_cannot_be_known_is_left_out_with_the_reason(schedule: Any) -> None:
    found = celery.read(json.dumps({"a": {"task": "x.y", "schedule": schedule}}), Wishes())
    assert sound(found) == {}
    assert "not imported" in notes(found)


BESIDE = """\
import os
app.conf.beat_schedule = {"old": {"task": "t.old", "schedule": 1.0}, "older": {"task": "t.older", "schedule": 2.0}}
SCHEDULE = {"kept": {"task": "t.kept", "schedule": 60.0}}
app.conf.beat_schedule = SCHEDULE
app.conf.beat_schedule["y2"] = {"task": "t.y2", "schedule": 5.0}
app.conf.beat_schedule.update({"y3": {"task": "t.y3", "schedule": 5.0}})
app.conf["beat_schedule"] |= more()
SCHEDULE["timezone"] = {"task": "t.y4", "schedule": 5.0}
del SCHEDULE["kept"]

@app.on_after_configure.connect
def setup_periodic_tasks(sender, **kwargs):
    sender.add_periodic_task(10.0, hello.s("world"), name="every 10")

@periodic_task(run_every=30)
def tick(): ...

if os.environ.get("X"):
    CELERY_BEAT_SCHEDULE = make(1)
"""


def test_what_says_when_tasks_run_beside_the_schedule_that_is_read_is_named_with_its_line() -> None:
    found = celery.read(BESIDE, Wishes())
    assert set(sound(found)) == {"kept"}
    assert found.defaults["tz"] == "UTC"
    told = [(note.place, note.text) for note in found.notes if note.place]
    assert [
        (place, text.removeprefix("not imported: ").split(" ")[0]) for place, text in told if "not imp" in text
    ] == [
        ("line 2", "old:"),
        ("line 2", "older:"),
        ("line 5", "app.conf.beat_schedule['y2']"),
        ("line 6", "app.conf.beat_schedule.update"),
        ("line 7", "app.conf['beat_schedule']"),
        ("line 8", "SCHEDULE['timezone']"),
        ("line 9", "SCHEDULE['kept']"),
        ("line 13", "add_periodic_task"),
        ("line 15", "periodic_task"),
        ("line 19", "this"),
    ]
    for named in ("of line 4 replaces it", "hello.s('world')", "make(1)"):
        assert named in notes(found)
    assert found.text().count("not imported: ") == 10


def test_a_schedule_under_two_names_is_replaced_by_nothing() -> None:
    text = (
        'CELERYBEAT_SCHEDULE = beat_schedule = {"a": {"task": "x.y", "schedule": 5}}\nc.beat_schedule = beat_schedule'
    )
    assert "not imported" not in notes(celery.read(text, Wishes()))


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ('{"task": os.environ["T"], "schedule": 5}', "its task is computed, and the file is not run: os.environ['T']"),
        ('{"task": None, "schedule": 5}', "its task is no name: None"),
        ('{"task": "t", "schedule": 5, "options": {"expires": 1e400}}', "inf s is no such interval"),
        ('{"task": name(1), "schedule": 5}', "its task is computed, and the file is not run: name(1)"),
        ('{"task": "t", "schedule": every()}', "every() is no schedule known here"),
        ('{"task": "t", "schedule": crontab(minute=pick(2))}', "a field of its crontab is computed"),
        ('{"task": "t", "schedule": crontab(minute=[1, pick(2)])}', "the file is not run: pick(2)"),
        ('{"task": "t", "schedule": timedelta(minutes=pick())}', "timedelta(minutes=pick())"),
        ('{"task": "t", "schedule": 5, "args": [now()]}', "an argument is computed, and the file is not run: now()"),
        ('{"task": "t", "schedule": 5, "kwargs": {"a": os.environ}}', "an argument is computed"),
        (
            '{"task": "t", "schedule": crontab(**CONF)}',
            "its schedule is computed, and the file is not run: crontab(**CONF)",
        ),
        (
            '{"task": "t", "schedule": crontab(*CONF)}',
            "its schedule is computed, and the file is not run: crontab(*CONF)",
        ),
        ("entry_of(x=1)", "it is computed, and the file is not run: entry_of(x=1)"),
        ("SOMEWHERE", "it is computed, and the file is not run: SOMEWHERE"),
    ],
)
def test_what_is_computed_is_said_in_its_source_text_and_left_out(entry: str, told: str) -> None:
    found = celery.read(f'beat_schedule = {{"a": {entry}, "b": {{"task": "t.b", "schedule": 9}}}}', Wishes())
    assert set(sound(found)) == {"b"}
    assert told in notes(found)
    for internal in ("Called", "Computed", "name='", "kwargs="):
        assert internal not in notes(found) + found.text().replace("kwargs: {}", "")


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ('"options": {"queue": os.environ["Q"]}', "options.queue is left out, as it is computed: os.environ['Q']"),
        ('"options": chosen()', "options is left out, as it is computed: chosen()"),
        ('"enabled": DEBUG', "enabled is computed, so it is paused until you resume it: DEBUG"),
    ],
)
def test_a_job_with_something_computed_says_what_stands_in_its_place(more: str, told: str) -> None:
    found = celery.read(f'beat_schedule = {{"a": {{"task": "t.a", "schedule": 9, {more}}}}}', Wishes())
    assert ("paused" in sound(found)["a"]) == ("enabled" in more)
    assert told in notes(found)


def test_what_a_crontab_says_beside_its_fields_is_named() -> None:
    found = celery.read(
        'beat_schedule = {"a": {"task": "t", "schedule": crontab(minute=1, nowfun=utc_now())}}', Wishes()
    )
    assert sound(found)["a"]["cron"] == "1 * * * *"
    assert "nowfun of a crontab has no meaning here" in notes(found)


def test_a_computed_zone_and_a_computed_name_are_named() -> None:
    text = 'timezone = os.environ["TZ"]\nbeat_schedule = {make("x"): {"task": "t.a", "schedule": 9}}'
    found = celery.read(text, Wishes())
    assert len(sound(found)) == 1
    assert found.defaults["tz"] == "UTC"
    assert "UTC stands in its place; --tz ZONE says it: os.environ['TZ']" in notes(found)
    assert "its name is computed" in notes(found)
    assert "the timezone" not in notes(celery.read(text, Wishes(tz="Asia/Tokyo")))


def test_a_file_that_only_calls_is_refused_with_the_lines_that_say_when() -> None:
    with pytest.raises(InvalidInput, match=r"line 2: .*add_periodic_task\(10.0, a.s\(\)\)"):
        celery.read("x = 1\nsender.add_periodic_task(10.0, a.s())", Wishes())


@pytest.mark.parametrize("text", ["", "def f(:", "x = 1", "beat_schedule = make()"])
def test_a_file_without_a_beat_schedule_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        celery.read(text, Wishes())
