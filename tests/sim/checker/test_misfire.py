"""Misfires and overlaps: a skip without its reason, a run that should have been skipped."""

from __future__ import annotations

from typing import Any

import pytest

from tests.sim.checker.stories import Story, ms

BESIDE = ["W13 overlapping_runs"]


def skipped(at_s: float, reason: str, *due_s: float, **settings: Any) -> list[str]:
    """What is found of a job whose occurrences are skipped then."""
    story = Story(late_ms=None)
    job = story.job(**settings)
    for due in due_s:
        story.skip(at_s, job, due, reason)
    return story.found(at_s + 1)


def test_within_its_grace_nothing_is_misfired() -> None:
    assert skipped(121, "MISFIRED", 60, misfire="SKIP") == []
    assert skipped(119, "MISFIRED", 60, misfire="SKIP") == ["I6 skipped_within_grace"]


def test_run_once_runs_the_latest_that_was_missed() -> None:
    assert skipped(185, "MISFIRED", 60, 120) == []
    assert skipped(185, "MISFIRED", 60, 120, 180) == ["I6 skipped_latest", "I6 skipped_within_grace"]
    assert skipped(125, "MISFIRED", 60, 120) == ["I6 skipped_latest", "I6 skipped_within_grace"]


def test_run_all_runs_a_hundred_before_it_skips() -> None:
    assert skipped(185, "MISFIRED", 60, misfire="RUN_ALL") == ["I6 skipped_before_cap"]
    assert skipped(185, "MISFIRED", 60, misfire="RUN_ALL", missed_run=100) == []


def test_nothing_expires_before_its_time() -> None:
    assert skipped(91, "EXPIRED", 60, expires_after_ms=30_000) == []
    assert skipped(90, "EXPIRED", 60, expires_after_ms=30_000) == ["I6 expired_too_soon"]
    assert skipped(91, "EXPIRED", 60) == ["I6 expired_too_soon"]


def test_an_overlap_needs_another_run() -> None:
    assert skipped(60, "OVERLAP", 60, overlap="SKIP") == ["I6 overlap_with_nothing"]
    story = Story()
    job = story.job()
    story.start(60, job, 60)
    story.skip(120, job, 120, "OVERLAP")
    assert story.found(121) == ["I6 overlap_with_nothing"]


def test_a_skip_has_a_reason() -> None:
    assert skipped(60, "", 60) == ["I6 skipped_without_reason"]


def test_under_skip_nothing_late_is_run() -> None:
    story = Story(late_ms=None)
    job = story.job(misfire="SKIP")
    story.claim(121, job, 60)
    assert story.found(122) == ["I6 run_despite_skip"]


def test_under_run_once_no_older_one_is_run() -> None:
    story = Story(late_ms=None)
    job = story.job()
    story.claim(121, job, 60, misfired=True)
    assert story.found(122) == ["I6 ran_an_older_one"]


def test_runs_that_may_not_overlap_do_not() -> None:
    story = Story()
    job = story.job(overlap="SKIP")
    story.start(60, job, 60)
    call = story.start(120, job, 120)
    story.answer(121, call)
    story.settle(122, job, 120)
    assert story.found(130) == ["W13 overlapping_runs"]


def beside_a_run(overlap: str, **settings: Any) -> list[str]:
    """What is found of a job that skips an occurrence because the run before it is open."""
    story = Story()
    job = story.job(overlap=overlap)
    call = story.start(60, job, 60)
    if settings:
        story.move(61, job, "hold", 180, **settings)
        story.skip(180, job, 180, "OVERLAP")
    else:
        story.skip(120, job, 120, "OVERLAP")
    story.answer(182, call)
    story.settle(183, job, 60)
    return story.found(185)


def test_under_buffer_one_the_first_that_overlaps_is_held() -> None:
    assert beside_a_run("SKIP") == []
    assert beside_a_run("BUFFER_ONE") == ["I6 skipped_not_held"]
    assert beside_a_run("BUFFER_ONE", held=ms(120)) == []


def by_hand(
    started_s: float,
    *,
    overlap: str = "SKIP",
    ended_s: float | None = None,
    stop_s: float | None = None,
    delayed_s: float | None = None,
    **claim: Any,
) -> list[str]:
    """What is found of a job that starts a run of its schedule beside one that was asked for by hand at 50."""
    story = Story(late_ms=None)
    job = story.job(overlap=overlap)
    story.triggered(50, job)
    story.commit(50, job, "JOB", "trigger", {"last_triggered": ms(50)})
    story.claim(50.1, job, 50, "n2")
    call = story.call(50.1, job, 50, "n2")
    if stop_s is not None:
        story.kill(stop_s, fault="stop")
        story.kill(started_s - 0.1, fault="cont")
    if delayed_s is not None:
        story.kill(delayed_s, fault="delayed")
    if ended_s is not None:
        story.answer(ended_s, call)
        story.settle(ended_s, job, 50, node="n2")
    own = claim.pop("own", ms(started_s))
    number = story.start(started_s, job, 60, **claim)
    claimed = next(event for event in story.events if event.get("sort") == story.sort(60))
    claimed["own"] = own
    story.answer(started_s + 0.1, number)
    story.settle(started_s + 0.2, job, 60)
    if ended_s is None:
        story.answer(started_s + 1, call)
        story.settle(started_s + 2, job, 50, node="n2")
    return story.found(started_s + 5)


def test_none_is_claimed_beside_a_run_by_hand() -> None:
    assert by_hand(60) == BESIDE
    assert by_hand(60, overlap="BUFFER_ONE") == BESIDE
    assert by_hand(60, overlap="ALLOW") == []
    assert by_hand(60, ended_s=59) == []


def test_a_run_by_hand_that_the_claimer_could_not_see_yet_is_none_of_its_business() -> None:
    assert by_hand(60, stop_s=55) == BESIDE
    assert by_hand(60, stop_s=50.05) == []
    assert by_hand(60, own=None) == BESIDE
    assert by_hand(60, stop_s=52, own=None) == []


def test_a_read_that_was_delayed_may_be_older() -> None:
    assert by_hand(60, created_at=ms(52)) == BESIDE
    assert by_hand(60, delayed_s=51.9, created_at=ms(52)) == []
    assert by_hand(60, delayed_s=51.9) == BESIDE


@pytest.mark.parametrize(("stop_s", "found"), [(70, []), (90, ["I6 overlap_with_nothing"])])
def test_a_process_may_be_stopped_between_what_it_reads_and_what_it_writes(stop_s: float, found: list[str]) -> None:
    story = Story(late_ms=None)
    job = story.job(overlap="SKIP")
    call = story.start(60, job, 60)
    story.answer(63, call)
    story.settle(64, job, 60)
    story.kill(stop_s, fault="stop")
    story.kill(150, fault="cont")
    story.skip(150.1, job, 120, "OVERLAP")
    assert story.found(155) == found


def test_what_has_expired_is_not_started() -> None:
    for at_s, found in ((90, []), (90.001, ["I6 started_after_expiry"])):
        story = Story(late_ms=None)
        job = story.job(expires_after_ms=30_000)
        story.answer(at_s + 1, story.start(at_s, job, 60))
        story.settle(at_s + 2, job, 60)
        assert story.found(at_s + 3) == found


def test_a_task_is_not_started_either_however_soon_it_was_ready() -> None:
    """W15: it may wait for a worker for long; its first claim is what starts it."""
    for at_s, found in ((90, []), (90.001, ["I6 started_after_expiry"])):
        story = Story(late_ms=None)
        job = story.job(expires_after_ms=30_000)
        story.ready(60, job, 60)
        story.claim(at_s, job, 60)
        story.answer(at_s + 1, story.call(at_s, job, 60))
        story.settle(at_s + 2, job, 60)
        assert story.found(at_s + 3) == found
