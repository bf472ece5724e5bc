"""W16 on histories made by hand: what the ledger of a job goes by is true, and leaves nothing out."""

from __future__ import annotations

from typing import Any

import pytest

from tests.sim.checker.stories import Story, ms


def told(story: Story, at_s: float) -> list[str]:
    return [found for found in story.found(at_s) if found.startswith("W16")]


def known(story: Story) -> str:
    return story.job(known_since=ms(0))


def resumed(story: Story, at_s: float, job: str, **changes: Any) -> None:
    """The end of a pause: what was due in it is passed over."""
    following = ms(at_s // 60 * 60 + 60)
    went_on = {"status": "SCHEDULED", "counted_from": ms(at_s), "next_run_at": following, "timer_at": following}
    story.verb(at_s, job, "resume", went_on | changes)


def test_what_ran_was_skipped_or_passed_over_is_accounted_for() -> None:
    story = Story()
    job = known(story)
    story.runs(job, 60)
    story.skip(190, job, 120, "SKIPPED_BY_HAND")
    story.runs(job, 180)
    story.pause(200, job)
    resumed(story, 310, job, pauses=[[ms(180), ms(310)]])
    story.runs(job, 360)
    assert told(story, 370) == []


def test_an_occurrence_that_the_job_went_over_without_a_record_is_noticed() -> None:
    story = Story()
    job = known(story)
    story.runs(job, 60)
    story.move(120, job, "advance", 180)
    assert told(story, 125) == ["W16 unaccounted"]


def test_a_pause_that_is_not_remembered_leaves_a_hole() -> None:
    story = Story()
    job = known(story)
    story.runs(job, 60)
    story.pause(70, job)
    resumed(story, 200, job)
    assert told(story, 210) == ["W16 unaccounted"]


def test_pauses_with_nothing_between_them_may_be_told_as_one() -> None:
    story = Story()
    job = known(story)
    story.runs(job, 60)
    story.pause(70, job)
    resumed(story, 200, job, pauses=[[ms(60), ms(200)]])
    story.pause(210, job)
    resumed(story, 400, job, pauses=[[ms(60), ms(400)]])
    assert told(story, 410) == []


def test_a_pause_that_never_was_excuses_nothing() -> None:
    story = Story()
    job = known(story)
    story.runs(job, 60)
    story.move(120, job, "advance", 180, pauses=[[ms(60), ms(120)]])
    assert told(story, 125) == ["W16 pause_of_air"]


@pytest.mark.parametrize(("since_s", "found"), [(100, []), (130, ["W16 known_too_late"])])
def test_a_schedule_is_known_since_its_change_and_not_later(since_s: float, found: list[str]) -> None:
    story = Story()
    job = known(story)
    story.runs(job, 60)
    schedule = {"type": "INTERVAL", "every_ms": 30_000, "anchor_at": ms(0)}
    changes = {"schedule": schedule, "counted_from": ms(100), "next_run_at": ms(120), "timer_at": ms(120)}
    story.verb(100, job, "edit", changes | {"known_since": ms(since_s)})
    assert told(story, 115) == found


def test_a_job_that_remembers_nothing_of_this_is_not_judged() -> None:
    story = Story()
    job = story.job()
    story.runs(job, 60)
    story.move(120, job, "advance", 180)
    assert told(story, 125) == []
