"""The timeline, the verdict's bounds, and the oracle of schedules."""

from __future__ import annotations

from time import process_time

import pytest

from schedkit.model.time import DAY_MS, parse_rfc3339, rfc3339
from schedkit.sim.checker import KEPT, check, timeline
from schedkit.sim.oracle import cron_known, occurrences
from tests.sim.checker.stories import Item, Story, interval, key_of, ms


def told() -> Story:
    story = Story()
    job = story.job()
    story.start(60, job, 60)
    story.kill(61)
    story.claim(155.1, job, 60, "n2", arrow="reclaim")
    story.answer(156, story.call(155.2, job, 60, "n2"))
    story.settle(157, job, 60, node="n2")
    story.ends(159)
    return story


def test_the_timeline_of_a_run_tells_its_story_in_seconds_from_its_time() -> None:
    lines = [line.split(None, 2) for line in timeline(told().events, key_of("job_a", 60))]
    assert [(at, node, text.split("  ")[0]) for at, node, text in lines] == [
        ("-60.000", "user", "asks create"),
        ("-60.000", "n1", "job: create: (none) → SCHEDULED"),
        ("-60.000", "user", "hears ok 201"),
        ("+0.000", "n1", "run: claim: (none) → RUNNING"),
        ("+0.000", "n1", "job: advance: SCHEDULED → SCHEDULED"),
        ("+0.000", "n1", "CALL 2 token 1 attempt 1"),
        ("+1.000", "world", "*** kill n1"),
        ("+95.100", "n2", "run: reclaim: RUNNING → RUNNING"),
        ("+95.200", "n2", "CALL 3 token 2 attempt 1"),
        ("+96.000", "ok", "call 3 took effect"),
        ("+96.000", "ok", "call 3 answered 200"),
        ("+97.000", "n2", "run: settle SUCCEEDED: RUNNING → SUCCEEDED"),
        ("+99.000", "world", "*** heal"),
        ("+99.000", "world", "*** end"),
    ]


def test_the_timeline_of_a_job_has_all_its_runs() -> None:
    story = Story()
    story.runs(story.job(), 60, 120)
    story.job("job_b", key="b")
    story.ends(130)
    text = "\n".join(timeline(story.events, "job_a"))
    assert text.count("run: claim") == 2
    assert "job_b" not in text


def test_one_bug_does_not_drown_the_others() -> None:
    story = Story(late_ms=1_000)
    for number in range(KEPT + 5):
        story.job(f"job_{number}", key=str(number))
    story.say(3, "n1", "bug", error="KeyError: 'x'")
    verdict = story.ends(90)
    assert len(verdict.violations) == KEPT + 1
    assert verdict.figures["violations"] == {"missing_occurrence": KEPT + 5, "raised": 1}
    assert verdict.violations == tuple(sorted(verdict.violations, key=lambda found: found.t))


def test_a_large_history_is_checked_fast() -> None:
    story = Story()
    for number in range(100):
        story.runs(story.job(f"job_{number}", key=str(number)), *range(60, 1_260, 60))
    story.ends(1_261)
    started = process_time()
    verdict = check(story.events)
    assert verdict.violations == ()
    assert verdict.figures["runs"] == {"SUCCEEDED": 2_000}
    assert process_time() - started < 2, "it takes a tenth of that on a machine that is not busy"


def cron(expression: str, zone: str = "UTC", **more: str | int) -> Item:
    return {"type": "CRON", "expression": expression, "time_zone": zone, "gap": "FIRST_VALID", "repeat": "FIRST"} | more


@pytest.mark.parametrize(
    ("schedule", "since", "until", "expected"),
    [
        (cron("30 2 * * *", "Europe/Berlin"), "2026-03-28T12:00:00Z", "2026-03-30T12:00:00Z",
         ["2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"]),
        (cron("30 2 * * *", "Europe/Berlin", gap="SHIFT_FORWARD"), "2026-03-28T12:00:00Z", "2026-03-29T12:00:00Z",
         ["2026-03-29T01:30:00Z"]),
        (cron("30 2 * * *", "Europe/Berlin", gap="SKIP"), "2026-03-28T12:00:00Z", "2026-03-29T12:00:00Z", []),
        (cron("30 2 * * *", "Europe/Berlin"), "2026-10-24T12:00:00Z", "2026-10-25T12:00:00Z", ["2026-10-25T00:30:00Z"]),
        (cron("30 2 * * *", "Europe/Berlin", repeat="SECOND"), "2026-10-24T12:00:00Z", "2026-10-25T12:00:00Z",
         ["2026-10-25T01:30:00Z"]),
        (cron("30 2 * * *", "Europe/Berlin", repeat="BOTH"), "2026-10-24T12:00:00Z", "2026-10-25T12:00:00Z",
         ["2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"]),
        (cron("30 * * * *", "Europe/Berlin"), "2026-10-25T00:00:00Z", "2026-10-25T02:00:00Z",
         ["2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"]),
        (cron("0 * * * *"), "2026-06-01T23:00:00Z", "2026-06-02T01:00:00Z",
         ["2026-06-02T00:00:00Z", "2026-06-02T01:00:00Z"]),
        (cron("0,30 9-10 * * *", end_at=parse_rfc3339("2026-06-01T10:30:00Z")), "2026-06-01T09:00:00Z",
         "2026-06-02T00:00:00Z", ["2026-06-01T09:30:00Z", "2026-06-01T10:00:00Z"]),
        (cron("@daily", start_at=parse_rfc3339("2026-06-02T00:00:00Z")), "2026-05-30T00:00:00Z",
         "2026-06-02T00:00:00Z", ["2026-06-02T00:00:00Z"]),
        ({"type": "ONCE", "run_at": parse_rfc3339("2026-06-01T09:00:00Z")}, "2026-06-01T08:00:00Z",
         "2026-06-01T09:00:00Z", ["2026-06-01T09:00:00Z"]),
        ({"type": "ONCE", "run_at": parse_rfc3339("2026-06-01T09:00:00Z")}, "2026-06-01T09:00:00Z",
         "2026-06-01T10:00:00Z", []),
        (interval(1_800), "2026-06-01T11:00:00Z", "2026-06-01T12:30:00Z",
         ["2026-06-01T12:00:00Z", "2026-06-01T12:30:00Z"]),
        (interval(1_800), "2026-06-01T12:00:00Z", "2026-06-01T13:10:00Z",
         ["2026-06-01T12:30:00Z", "2026-06-01T13:00:00Z"]),
    ],
)  # fmt: skip
def test_the_oracle_says_when_a_stored_schedule_is_due(
    schedule: Item, since: str, until: str, expected: list[str]
) -> None:
    assert [rfc3339(at) for at in occurrences(schedule, parse_rfc3339(since), parse_rfc3339(until))] == expected


@pytest.mark.parametrize(
    ("expression", "minutes", "hours"),
    [
        ("*/20 * * * *", [0, 20, 40], list(range(24))),
        ("7-59/20 22-2 * * *", [7, 27, 47], [0, 1, 2, 22, 23]),
        ("50/5 5-5 ? * *", [50, 55], [5]),
        ("1,2-3 0 * * ?", [1, 2, 3], [0]),
    ],
)
def test_the_oracle_reads_minutes_and_hours(expression: str, minutes: list[int], hours: list[int]) -> None:
    known = cron_known(expression)
    assert (sorted(known.minutes), sorted(known.hours), known.free) == (minutes, hours, len(hours) == 24)


@pytest.mark.parametrize("expression", ["0 0 1 * *", "0 0 * * MON", "0 0 * *", "x * * * *"])
def test_the_oracle_refuses_what_it_does_not_speak(expression: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - int() has its own words
        occurrences(cron(expression), ms(0), ms(0) + DAY_MS)


def test_a_job_whose_cron_the_oracle_does_not_speak_is_not_judged_by_it() -> None:
    story = Story(late_ms=None)
    job = story.job(schedule=cron("0 0 * * MON"))
    story.runs(job, 60)
    verdict = story.ends(70)
    assert verdict.violations == ()
    assert verdict.figures["unjudged_jobs"] == 1
