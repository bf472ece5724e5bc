"""W14 on histories made by hand: what an operator skips does not run, and is recorded as what it is."""

from __future__ import annotations

from tests.sim.checker.stories import Story


def test_an_occurrence_that_is_skipped_and_does_not_run_is_as_it_should_be() -> None:
    story = Story()
    job = story.job()
    story.runs(job, 60)
    assert story.skip_next(70, job) == 120
    story.runs(job, 180)
    assert story.found(190) == []


def test_what_was_skipped_does_not_run() -> None:
    story = Story()
    job = story.job()
    due_s = story.skip_next(30, job)
    story.claim(60, job, due_s)
    assert "W14 run_though_skipped" in story.found(70)


def test_what_was_skipped_runs_where_a_backfill_says_so() -> None:
    story = Story()
    story.job()
    story.skip_next(30, "job_a")
    story.backfill(62)
    story.backfilled(63, 60)
    story.claim(63.1, "job_a", 60)
    assert [found for found in story.found(64) if found.startswith("W14")] == []


def test_nothing_is_skipped_that_nobody_asked_for() -> None:
    story = Story()
    story.skip_next(30, story.job(), asked=False)
    assert story.found(40) == ["W14 skipped_unasked"]


def test_a_skip_that_was_acknowledged_is_recorded() -> None:
    story = Story()
    story.skip_next(30, story.job(), recorded=False)
    assert story.found(40) == ["W14 acknowledged_not_skipped"]
