"""W14 on histories made by hand: backfills run what did not run, once, as asked, at their pace, to the last one."""

from __future__ import annotations

from typing import Any

import pytest

from tests.sim.checker.stories import START, Story, key_of, ms

ALONE = {"job_id": "job_a", "since": ms(1), "until": ms(300), "one_by_one": True, "occurrences": 0}


def skipped(*due_s: float, **settings: Any) -> Story:
    """A job of which these were skipped ahead, in order from the first minute on."""
    story = Story()
    job = story.job(**settings)
    for second, due in enumerate(due_s):
        assert story.skip_next(10 + second, job) == due
    return story


def ran(story: Story, at_s: float, due_s: float) -> None:
    story.claim(at_s, "job_a", due_s)
    story.answer(at_s + 0.1, story.call(at_s, "job_a", due_s))
    story.settle(at_s + 0.2, "job_a", due_s)


def told(story: Story, at_s: float = 130) -> list[str]:
    return [found for found in story.found(at_s) if "backfill" in found]


def of(occurrences: int, **changes: Any) -> dict[str, Any]:
    return {**ALONE, "one_by_one": False, "occurrences": occurrences, **changes}


def test_a_backfill_at_its_pace_is_as_it_should_be() -> None:
    story = skipped(60, 120)
    story.backfill(121, filter=of(2, until=ms(130)))
    for second, due_s in enumerate((60, 120)):
        story.backfilled(122 + second, due_s)
        ran(story, 122.1 + second, due_s)
    story.backfill(125, arrow="turn", state="DONE", open=[], succeeded=2)
    assert story.found(126) == []


def test_what_ran_does_not_run_again() -> None:
    story = Story()
    story.runs(story.job(), 60)
    story.backfill(70)
    story.backfilled(71, 60)
    assert "W14 backfilled_again" in told(story, 72)


def test_what_was_called_and_then_cancelled_does_not_run_again() -> None:
    story = Story()
    job = story.job()
    story.answer(61, story.start(60, job, 60), 500)
    story.settle(61, job, 60, "CANCELLED")
    story.backfill(70)
    story.backfilled(71, 60)
    assert "W14 backfilled_again" in told(story, 72)


@pytest.mark.parametrize(
    "change", [{"state": "PAUSED"}, {"filter": of(1, job_id="job_b")}, {"filter": of(1, until=ms(60))}]
)
def test_only_a_backfill_that_is_under_way_begins_what_it_is_of(change: dict[str, Any]) -> None:
    story = skipped(60)
    story.backfill(61, **change)
    story.backfilled(62, 60)
    assert told(story, 63) == ["W14 backfilled_unasked"]


def test_what_was_never_due_is_not_made_up_for() -> None:
    story = skipped(60)
    story.backfill(61)
    story.backfilled(62, 45)
    assert told(story, 63) == ["W14 backfilled_of_air"]


def test_a_backfill_that_was_acknowledged_is_there() -> None:
    story = skipped(60)
    story.say(61, "user", "api.invoke", call=99, op="backfill", job="job_a", idempotency_key="k", body={})
    story.say(61, "user", "api.ok", call=99, status=202, job="job_a", doc={"backfill_id": "bf_9"})
    assert told(story, 63) == ["W14 backfill_lost"]


def test_where_runs_may_not_overlap_one_waits_for_the_other_and_for_that_of_another_backfill() -> None:
    story = skipped(60, 120, overlap="SKIP")
    for name in ("bf_1", "bf_2"):
        story.backfill(121, name, filter=ALONE)
    story.backfilled(122, 60)
    story.commit(122, "job_a", "JOB", "know of backfill", {"last_triggered": ms(60)})
    story.claim(122.1, "job_a", 60)
    story.backfilled(125, 120, "bf_2")
    assert told(story, 126) == ["W13 overlapping_backfills"]


@pytest.mark.parametrize(("times", "found"), [((122.0, 123.0), []), ((122.0, 122.9), ["W14 backfilled_over_pace"])])
def test_no_second_has_more_than_the_cap(times: tuple[float, float], found: list[str]) -> None:
    story = skipped(60, 120)
    story.backfill(121)
    for at_s, due_s in zip(times, (60, 120), strict=True):
        story.backfilled(at_s, due_s)
    assert told(story) == found


def test_what_piled_up_may_not_be_started_at_once() -> None:
    story = skipped(60, 120, 180)
    story.backfill(181)
    for at_s, due_s in ((182, 60), (183, 120), (184, 180)):
        story.backfilled(at_s, due_s)
    for number, due_s in enumerate((60, 120, 180)):
        story.claim(185 + number / 10, "job_a", due_s)
    assert told(story, 190) == ["W14 backfills_started_over_pace"]


@pytest.mark.parametrize(
    ("occurrences", "changes", "found"),
    [
        (1, {"succeeded": 1, "open": []}, []),
        (2, {"succeeded": 1, "open": [], "skipped": {"UNDER_WAY": 1}}, []),
        (2, {"succeeded": 1, "open": []}, ["W14 backfill_miscounted"]),
        (1, {"succeeded": 2, "open": []}, ["W14 backfill_miscounted"]),
        (1, {"open": [key_of("job_a", 60)]}, ["W14 backfill_miscounted"]),
    ],
)
def test_what_it_says_of_itself_adds_up(occurrences: int, changes: dict[str, Any], found: list[str]) -> None:
    story = skipped(60)
    story.backfill(61, filter=of(occurrences, until=ms(65)))
    story.backfilled(62, 60)
    ran(story, 62.1, 60)
    story.backfill(64, arrow="turn", state="DONE", **changes)
    assert told(story, 65) == found


@pytest.mark.parametrize(
    ("left", "found"),
    [({}, ["W14 backfill_incomplete"]), ({"RAN_ALREADY": 0}, ["W14 backfill_incomplete"]), ({"JOB_PAUSED": 0}, [])],
)
def test_it_is_not_done_while_something_of_its_range_has_no_run(left: dict[str, int], found: list[str]) -> None:
    story = Story()
    story.job(known_since=START)
    story.backfill(62, filter=of(0, since=START - 1, until=START + 1), skipped=left)
    story.backfill(64, arrow="turn", state="DONE")
    assert told(story, 65) == found


def test_a_backfill_that_nobody_carries_out_is_stuck() -> None:
    story = skipped(60)
    story.backfill(62)
    found = story.found(200, heal_s=65)
    assert [one for one in found if "backfill" in one] == ["W14 backfill_stuck"]
