"""Who: illegal arrows, live leases taken, stale writes that land."""

from __future__ import annotations

import pytest

from tests.sim.checker.stories import Story, ms


def lost(reclaimed_s: float, **header: object) -> Story:
    """A run whose holder was killed, taken over by n2."""
    story = Story(**header)
    job = story.job()
    story.start(60, job, 60)
    story.kill(61)
    story.runs(job, 120)
    story.claim(reclaimed_s, job, 60, "n2", arrow="reclaim")
    story.answer(reclaimed_s + 1, story.call(reclaimed_s, job, 60, "n2"))
    story.settle(reclaimed_s + 2, job, 60, node="n2")
    return story


def test_a_lease_that_is_alive_is_not_taken() -> None:
    assert lost(155.1).found(170) == []
    assert lost(154).found(170) == ["I9 live_lease_taken"]
    assert lost(154, skew_ms=1_000).found(170) == []


def test_an_epoch_that_is_not_raised_by_one_is_found() -> None:
    story = Story()
    job = story.job()
    story.start(60, job, 60)
    story.kill(61)
    story.claim(155.1, job, 60, "n2", arrow="reclaim", epoch=3)
    assert "I9 epoch_not_raised_by_one" in story.found(158)


def test_a_reclaim_under_the_same_epoch_is_found() -> None:
    story = Story(late_ms=None)
    job = story.job()
    story.start(60, job, 60)
    story.kill(61)
    story.claim(156, job, 60, "n2", arrow="reclaim", epoch=1)
    story.answer(157, story.call(156, job, 60, "n2"))
    found = story.found(159)
    assert "I9 epoch_not_raised_by_one" in found
    assert "I9 same_epoch_two_calls" in found


def test_a_write_of_an_epoch_that_is_over_is_found() -> None:
    story = Story(late_ms=None)
    job = story.job()
    story.start(60, job, 60)
    story.kill(61, fault="stop")
    story.claim(155.1, job, 60, "n2", arrow="reclaim")
    story.answer(156, story.call(155.2, job, 60, "n2"))
    story.settle(157, job, 60, tag=1)
    assert story.found(159) == ["I10 stale_write_landed"]


def test_a_stale_write_is_found_by_the_epoch_that_it_brings_back() -> None:
    story = Story(late_ms=None)
    job = story.job()
    story.start(60, job, 60)
    story.kill(61, fault="stop")
    story.claim(155.1, job, 60, "n2", arrow="reclaim")
    story.answer(156, story.call(155.2, job, 60, "n2"))
    story.settle(157, job, 60, tag=None, epoch=1)
    assert "I10 epoch_changed" in story.found(159)


def test_what_has_ended_does_not_change() -> None:
    story = Story()
    job = story.job()
    story.runs(job, 60)
    story.commit(65, job, story.sort(60), "settle again", {"result": "other"})
    assert story.found(70) == ["I8 illegal_run_arrow"]


def test_what_has_ended_does_not_come_back() -> None:
    story = Story()
    job = story.job()
    story.runs(job, 60)
    story.commit(65, job, story.sort(60), "again", {"status": "RETRY_WAIT", "not_before": ms(66), "timer_at": ms(66)})
    assert story.found(67) == ["I8 illegal_run_arrow"]


def test_a_cancel_that_nobody_asked_for_is_not_recorded_as_one() -> None:
    story = Story()
    job = story.job()
    story.answer(61, story.start(60, job, 60))
    story.settle(62, job, 60, "SUCCEEDED_AFTER_CANCEL", attempts=[])
    assert story.found(70) == ["I8 illegal_run_arrow"]


def test_a_job_that_was_cancelled_does_not_come_back() -> None:
    story = Story()
    job = story.job()
    story.cancel(50, job)
    awake = {"status": "SCHEDULED", "next_run_at": ms(60), "timer_at": ms(60), "version": 3}
    story.commit(51, job, "JOB", "resume", awake)
    assert story.found(55) == ["I8 illegal_job_arrow"]


def test_an_attempt_is_closed_once() -> None:
    story = Story()
    job = story.job()
    story.answer(60.5, story.start(60, job, 60), 503)
    story.settle(61, job, 60, "RETRY_WAIT")
    story.claim(66, job, 60)
    story.answer(66.5, story.call(66, job, 60))
    attempts = [dict(attempt) for attempt in story.of_run(job, 60)["attempts"]]
    attempts[0]["finished_at"] += 1
    story.settle(67, job, 60, attempts=attempts)
    assert story.found(70) == ["I8 closed_attempt_changed"]


def test_an_attempt_is_not_counted_without_a_failure() -> None:
    story = Story()
    job = story.job()
    story.start(60, job, 60)
    story.answer(61, 2)
    story.settle(62, job, 60, attempt=2)
    assert story.found(70) == ["I8 attempt_out_of_turn"]


def test_a_write_lost_under_another_is_found() -> None:
    story = Story()
    job = story.job()
    story.runs(job, 60)
    story.events[-1]["before"] = {**story.events[-1]["before"], "cancel_requested": False}
    assert story.found(70) == ["I8 broken_chain"]


@pytest.mark.parametrize(
    ("arrow", "found"), [("extend", ["I16 lease_moved_back"]), ("release", ["I9 release_of_another"])]
)
def test_a_lease_only_moves_forward(arrow: str, found: list[str]) -> None:
    story = Story()
    job = story.job()
    call = story.start(60, job, 60)
    changes = {"lease_expires_at": ms(56), "timer_at": ms(61) + 1}
    story.commit(61, job, story.sort(60), arrow, changes, tag=1)
    story.answer(62, call)
    story.settle(63, job, 60)
    assert story.found(70) == found


def test_a_lease_that_another_than_its_holder_extends_is_found() -> None:
    story = Story()
    job = story.job()
    call = story.start(60, job, 60)
    run = story.items["JOB#" + job, story.sort(60)]
    story.commit(61, job, story.sort(60), "extend", {"lease_expires_at": run["lease_expires_at"] + 5_000}, node="n2")
    story.answer(62, call)
    story.settle(63, job, 60)
    assert "I10 extended_by_another" in story.found(70)
