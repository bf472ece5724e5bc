"""Whatever stands in a file: it is read, or refused in words. Nothing breaks."""

from __future__ import annotations

import contextlib
import json
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from schedkit.errors import InvalidInput
from schedkit.files import celery, crontab, eventbridge, jobfile, kubernetes
from schedkit.files.imported import Imported, Wishes
from schedkit.files.keys import KEYS, TOP
from tests.files.making import json_values

SAID = st.sampled_from(
    ["0 8 * * *", "5m", "2026-09-28T09:00", "q", "https://a.example/", "a..b", "", "@daily", "1s..2s"]
)
VALUES = json_values | SAID
ENTRIES = st.dictionaries(st.sampled_from([key.name for key in KEYS]) | st.text(max_size=5), VALUES, max_size=6)
YAMLISH = st.text("ab:-?,[]{}#&*!|>'\"%@`\n \t0128.\x00\ufeff~", max_size=60)
CRONISH = st.text("0123456789*/,-~@%\\ \tabcdefmonrw=_#\"'\n", max_size=60)
AWS = st.sampled_from(
    [
        "Name",
        "ScheduleExpression",
        "Target",
        "FlexibleTimeWindow",
        "StartDate",
        "State",
        "Input",
        "Arn",
        "RetryPolicy",
        "MaximumRetryAttempts",
        "Schedules",
        "Rules",
        "Mode",
    ]
)
K8S = st.sampled_from(
    [
        "kind",
        "metadata",
        "spec",
        "schedule",
        "timeZone",
        "jobTemplate",
        "template",
        "containers",
        "env",
        "name",
        "labels",
        "items",
        "suspend",
        "backoffLimit",
    ]
)
BEAT = st.sampled_from(
    [
        "beat_schedule",
        "task",
        "schedule",
        "args",
        "kwargs",
        "options",
        "crontab",
        "minute",
        "every",
        "expires",
        "timezone",
    ]
)
SPECIAL = st.sampled_from(
    ["CronJob", "List", "cron(0 8 * * ? *)", "rate(5 minutes)", "at(x)", "@every 5m", "x.y", "FLEXIBLE"]
)


def nested(keys: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    """Objects in each other, with the keys that a reader looks for and values that may be anything."""
    inner = json_values | SPECIAL | SAID
    return st.recursive(
        inner, lambda deeper: st.dictionaries(keys, deeper, max_size=5) | st.lists(deeper, max_size=3), max_leaves=20
    )


def sound(found: Imported) -> None:
    back = jobfile.read(found.text(), "x")
    assert not back.problems, [str(problem) for problem in back.problems]


@settings(max_examples=80, deadline=None)
@given(st.dictionaries(st.sampled_from(list(TOP)) | st.text(max_size=4), VALUES | st.dictionaries(st.text(), ENTRIES)))
def test_every_file_is_read_or_refused_in_words(top: dict[str, Any]) -> None:
    for problem in jobfile.read(json.dumps(top), "x").problems:
        assert str(problem).startswith("x:")


@settings(max_examples=80, deadline=None)
@given(ENTRIES, ENTRIES)
def test_every_entry_is_read_or_refused_in_words(defaults: dict[str, Any], entry: dict[str, Any]) -> None:
    found = jobfile.read(json.dumps({"schedkit": "v1", "defaults": defaults, "jobs": {"a": entry}}), "x")
    assert bool(found.problems) or [job.name for job in found.jobs] == ["a"]


@settings(max_examples=80, deadline=None)
@given(YAMLISH | st.text(max_size=40))
def test_every_text_is_read_or_refused_in_words(text: str) -> None:
    assert jobfile.read(text, "x").problems
    jobfile.read(f"schedkit: v1\njobs:\n  a: {text}", "x")


@settings(max_examples=80, deadline=None)
@given(CRONISH | st.text(max_size=60))
def test_every_crontab_becomes_a_file_that_is_sound(text: str) -> None:
    sound(crontab.read(text, Wishes()))
    sound(crontab.read(f"0 8 * * * {text}", Wishes(system=True)))


@settings(max_examples=60, deadline=None)
@given(nested(AWS))
@example({"Schedules": None})
def test_every_answer_of_aws_becomes_a_file_that_is_sound_or_is_refused(document: Any) -> None:
    with contextlib.suppress(InvalidInput):
        sound(eventbridge.read(json.dumps(document), Wishes()))


@settings(max_examples=60, deadline=None)
@given(nested(K8S))
def test_every_manifest_becomes_a_file_that_is_sound(document: Any) -> None:
    kind = {"kind": "CronJob", **document} if isinstance(document, dict) else document
    sound(kubernetes.read(json.dumps(kind, ensure_ascii=True), Wishes()))


@settings(max_examples=60, deadline=None)
@given(nested(BEAT), st.text(max_size=40))
def test_every_beat_schedule_becomes_a_file_that_is_sound_or_is_refused(document: Any, text: str) -> None:
    for said in (json.dumps(document), json.dumps({"a": {"task": "t", "schedule": document}}), text):
        with contextlib.suppress(InvalidInput):
            sound(celery.read(said, Wishes()))
