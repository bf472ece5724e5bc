"""When: each early, late or misplaced start is found."""

from __future__ import annotations

from typing import Any

import pytest

from tests.sim.checker.stories import Story, ms, offset_of


def test_a_call_before_its_time_by_its_callers_clock_is_early() -> None:
    story = Story(skew_ms=5_000)
    story.runs(story.job(), 60)
    for event in story.events:
        if event["kind"] == "target.call":
            event["own"] -= 1
    assert story.found(70) == ["I1 early_by_own_clock"]


def test_a_call_earlier_than_any_clock_allows_is_early() -> None:
    story = Story(skew_ms=1_000)
    job = story.job()
    story.claim(58, job, 60, created_at=ms(60))
    story.move(58, job, "advance", 120, last_run=ms(60), run_count=1)
    story.answer(58.5, story.call(58, job, 60, own=ms(60)))
    story.settle(59, job, 60)
    assert story.found(70) == ["I1 early_by_true_time"]
    assert Story(skew_ms=2_000).found(1) == []


def test_a_retry_that_is_claimed_before_its_wait_is_over_is_early() -> None:
    story = Story()
    job = story.job()
    story.answer(60.5, story.start(60, job, 60), 503)
    story.settle(61, job, 60, "RETRY_WAIT")
    story.claim(65, job, 60)
    story.answer(65.5, story.call(65, job, 60))
    story.settle(66, job, 60)
    assert story.found(70) == ["I1 early_by_own_clock", "I7 retry_claimed_early"]


def test_another_place_in_the_window_is_found() -> None:
    story = Story()
    job = story.job(window_ms=30_000)
    story.claim(95, job, 60, due_at=ms(60) + offset_of(job, 30_000) + 1)
    story.move(95, job, "advance", 120, last_run=ms(60), run_count=1)
    story.answer(96, story.call(95, job, 60))
    story.settle(97, job, 60)
    assert "I14 wrong_place_in_window" in story.found(99)


def test_a_next_time_that_is_not_the_first_is_found() -> None:
    story = Story(late_ms=None)
    job = story.job()
    story.answer(61, story.start(60, job, 60))
    story.settle(62, job, 60)
    for event in story.events:
        if event.get("arrow") == "advance":
            event["after"]["next_run_at"] = event["after"]["timer_at"] = ms(180)
    assert story.found(70) == ["I5 wrong_next"]


def test_a_schedule_that_counts_from_now_is_found() -> None:
    story = Story(late_ms=None)
    job = story.job()
    story.claim(130, job, 60, misfired=True)
    story.move(130, job, "advance", 180, last_run=ms(60), run_count=1, counted_from=ms(130))
    story.answer(131, story.call(130, job, 60))
    story.settle(132, job, 60)
    assert story.found(150) == ["I5 chain_from_now", "I6 ran_an_older_one"]


@pytest.mark.parametrize(
    ("header", "late"),
    [({"late_ms": 5_000}, True), ({"late_ms": 15_000}, False), ({"late_ms": None}, False)],
)
def test_a_late_start_in_the_storm_is_found_where_a_bound_is_promised(header: dict[str, Any], late: bool) -> None:
    story = Story(**header)
    job = story.job()
    story.answer(71, story.start(70, job, 60))
    story.settle(72, job, 60)
    assert story.found(100) == (["I13 late_beyond_bound"] if late else [])


def test_a_late_start_in_calm_weather_is_found() -> None:
    story = Story(late_ms=None, recover_ms=30_000)
    job = story.job()
    story.runs(job, 60)
    story.answer(124, story.start(123, job, 120))
    story.settle(125, job, 120)
    assert story.found(150, 10) == ["I13 late_beyond_bound"]


def test_soon_after_the_storm_a_start_may_be_late() -> None:
    story = Story(late_ms=None, recover_ms=120_000)
    job = story.job()
    story.answer(116, story.start(115, job, 60))
    story.settle(117, job, 60)
    assert story.found(119, 10) == []


def test_what_was_late_because_somebody_paused_it_is_not() -> None:
    story = Story(late_ms=2_000)
    job = story.job()
    story.pause(50, job)
    resumed = {"status": "SCHEDULED", "catch_up": "RUN_ALL", "timer_at": ms(60)}
    story.verb(100, job, "resume", resumed)
    story.answer(101.5, story.start(101, job, 60))
    story.settle(102, job, 60)
    assert story.found(110) == []


def test_a_timer_that_is_not_that_of_the_next_thing_is_found() -> None:
    story = Story()
    job = story.job()
    story.runs(job, 60)
    story.events[-1]["after"]["timer_at"] = ms(90)
    assert story.found(70) == ["W8 wrong_timer"]
    other = Story()
    job = other.job()
    other.answer(61, other.start(60, job, 60))
    other.settle(62, job, 60)
    for event in other.events:
        if event.get("arrow") == "advance":
            event["after"]["timer_at"] = ms(60)
    assert other.found(70) == ["W8 wrong_timer"]


def test_a_held_occurrence_starts_as_soon_as_nothing_stands_in_its_way() -> None:
    """I13, W13: the run before it ended at 145."""
    for at_s, found in ((147, []), (160, ["I13 held_too_long"])):
        story = Story()
        job = story.job(overlap="BUFFER_ONE")
        call = story.start(60, job, 60)
        story.move(120, job, "hold", 180, held=ms(120))
        story.answer(144, call)
        story.settle(145, job, 60)
        story.claim(at_s, job, 120)
        story.commit(at_s, job, "JOB", "advance", {"held": None, "last_run": ms(120), "run_count": 2})
        story.answer(at_s + 1, story.call(at_s + 0.01, job, 120))
        story.settle(at_s + 2, job, 120)
        assert [name for name in story.found(at_s + 3) if name.startswith("I13")] == found
