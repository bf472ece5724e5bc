"""Celery beat: what is read, and that what is computed or stands beside the schedule is named and never run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from schedkit.errors import InvalidInput
from schedkit.files import celery
from schedkit.files.imported import Wishes
from tests.files.test_imports import notes, sound


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
