"""I19 on histories made by hand: pace, once, new series, as asked, counted, carried out."""

from __future__ import annotations

from typing import Any

import pytest

from tests.sim.checker.stories import Story, ms

JOBS = ("job_a", "job_b", "job_c")


def died(story: Story, job: str, at_s: float = 61, status: str = "FAILED") -> None:
    """Its run of the first minute ends as a dead letter."""
    story.answer(at_s, story.start(60, job, 60), 400)
    story.settle(at_s + 1, job, 60, status, http_status=400)


def dead_jobs(story: Story) -> None:
    for name in JOBS:
        died(story, story.job(name, key=name))


def ended(story: Story, at_s: float, job: str, status: str = "SUCCEEDED") -> None:
    story.claim(at_s, job, 60)
    story.answer(at_s + 0.1, story.call(at_s, job, 60), 200 if status == "SUCCEEDED" else 400)
    story.settle(at_s + 0.2, job, 60, status, **({} if status == "SUCCEEDED" else {"http_status": 400}))


def told(story: Story, at_s: float = 80) -> list[str]:
    return [found for found in story.found(at_s) if found.startswith("I19")]


def test_a_redrive_at_its_pace_is_as_it_should_be() -> None:
    story = Story()
    dead_jobs(story)
    story.redrive(63)
    for second, name in enumerate(JOBS):
        story.redriven(64 + second, name, 60, "rd_1")
        ended(story, 64.1 + second, name)
    story.redrive(68, arrow="follow", state="DONE", open=[], succeeded=3)
    assert story.found(70) == []


@pytest.mark.parametrize(("gap_s", "found"), [(1.0, []), (0.9, ["I19 redriven_over_pace"])])
def test_no_second_has_more_releases_than_the_cap(gap_s: float, found: list[str]) -> None:
    story = Story()
    dead_jobs(story)
    story.redrive(63)
    for number, name in enumerate(JOBS):
        story.redriven(64 + gap_s * number, name, 60, "rd_1")
    assert told(story, 70) == found


@pytest.mark.parametrize(
    ("starts", "found"), [((67.0, 67.1, 68.1), []), ((67.0, 67.1, 67.2), ["I19 started_over_pace"])]
)
def test_what_piled_up_may_not_be_started_at_once(starts: tuple[float, ...], found: list[str]) -> None:
    story = Story()
    dead_jobs(story)
    story.redrive(63)
    for number, name in enumerate(JOBS):
        story.redriven(64 + number, name, 60, "rd_1")
    for at_s, name in zip(starts, JOBS, strict=True):
        ended(story, at_s, name)
    assert told(story, 70) == found


@pytest.mark.parametrize(("second", "found"), [("rd_2", []), ("rd_1", ["I19 redriven_twice"])])
def test_what_dies_again_is_another_redrives(second: str, found: list[str]) -> None:
    story = Story()
    died(story, story.job())
    story.redrive(63, "rd_1")
    story.redrive(63, "rd_2")
    story.redriven(64, "job_a", 60, "rd_1")
    ended(story, 64.1, "job_a", "FAILED")
    story.redriven(67, "job_a", 60, second)
    assert told(story, 70) == found


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"epoch": 0}, ["I19 not_a_new_series"]),
        ({"attempt": 1}, ["I19 not_a_new_series"]),
        ({"series": 1}, ["I19 not_a_new_series"]),
        ({"finished_at": ms(62)}, ["I19 not_a_new_series"]),
        ({"expires_at": ms(90)}, ["I19 not_a_new_series"]),
        ({"cancel_requested": True}, ["I19 not_a_new_series"]),
    ],
)
def test_a_redrive_begins_a_new_series_under_the_epoch_as_it_was(change: dict[str, Any], found: list[str]) -> None:
    story = Story()
    died(story, story.job())
    story.redriven(64, "job_a", 60, **change)
    assert told(story, 65) == found


def test_only_dead_letters_are_redriven() -> None:
    story = Story()
    story.runs(story.job(), 60)
    story.redriven(64, "job_a", 60)
    assert "I19 not_a_dead_letter" in told(story, 65)


@pytest.mark.parametrize("state", ["PAUSED", "STOPPED", "WAITING", "DONE"])
def test_nothing_is_released_in_a_state_that_does_not_release(state: str) -> None:
    story = Story()
    died(story, story.job())
    story.redrive(63, state=state)
    story.redriven(64, "job_a", 60, "rd_1")
    assert "I19 redriven_unasked" in told(story, 65)


@pytest.mark.parametrize(("included", "found"), [(True, []), (False, ["I19 redriven_unasked"])])
def test_what_is_unknown_is_released_only_where_that_was_asked_for(included: bool, found: list[str]) -> None:
    story = Story()
    died(story, story.job(delivery="AT_MOST_ONCE"), status="UNKNOWN")
    story.redrive(63, include_unknown=included)
    story.redriven(64, "job_a", 60, "rd_1")
    assert told(story, 65) == found


@pytest.mark.parametrize(("canary", "found"), [(2, []), (1, ["I19 beyond_canary"])])
def test_nothing_is_released_beyond_the_canary_before_it_has_ended(canary: int, found: list[str]) -> None:
    story = Story()
    dead_jobs(story)
    story.redrive(63, state="CANARY", canary=canary)
    for number, name in enumerate(JOBS[:2]):
        story.redriven(64 + number, name, 60, "rd_1")
    assert told(story, 70) == found


@pytest.mark.parametrize(("counted", "found"), [(1, []), (2, ["I19 redrive_miscounted"])])
def test_the_counters_of_a_redrive_are_true(counted: int, found: list[str]) -> None:
    story = Story()
    died(story, story.job())
    story.redrive(63)
    story.redriven(64, "job_a", 60, "rd_1")
    ended(story, 64.1, "job_a")
    story.redrive(66, arrow="follow", state="DONE", open=[], succeeded=counted)
    assert told(story, 70) == found


@pytest.mark.parametrize(("state", "found"), [("RUNNING", ["I19 redrive_stuck"]), ("PAUSED", []), ("WAITING", [])])
def test_a_redrive_that_has_something_to_do_is_carried_out(state: str, found: list[str]) -> None:
    story = Story()
    story.redrive(10, state=state)
    story.say(20, "world", "heal")
    story.say(130, "world", "end")
    assert sorted({f"{one.invariant} {one.check}" for one in story.ends(130, 20).violations}) == found
