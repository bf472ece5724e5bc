"""Calls: duplicates need a reason, tokens a claim, successes a call."""

from __future__ import annotations

from typing import Any

import pytest

from tests.sim.checker.stories import Story, ms


def taken_over(fault: str | None, on: str = "n1", *, released_by: str | None = None, **header: Any) -> Story:
    """A run that is called by n1 and then by n2."""
    story = Story(late_ms=None, **header)
    job = story.job()
    story.start(60, job, 60)
    if fault is not None:
        story.kill(61, on, fault)
    if released_by is not None:
        changes = {"lease_expires_at": ms(70) - 5_001, "timer_at": ms(70)}
        story.commit(70, job, story.sort(60), "release", changes, tag=1, node=released_by)
    at = 155.1 if released_by is None else 71
    story.claim(at, job, 60, "n2", arrow="reclaim")
    story.answer(at + 1, story.call(at, job, 60, "n2"))
    story.settle(at + 2, job, 60, node="n2")
    return story


@pytest.mark.parametrize(
    ("fault", "on", "released_by", "why"),
    [
        ("kill", "n1", None, "kill"),
        ("crash", "n1", None, "crash"),
        ("stop", "n1", None, "stop"),
        ("down", "store", None, "lease"),
        ("boot", "n1", "n1", "release"),
    ],
)
def test_a_second_call_has_its_reason(fault: str | None, on: str, released_by: str | None, why: str) -> None:
    verdict = taken_over(fault, on, released_by=released_by).ends(159)
    assert verdict.violations == ()
    assert verdict.figures["duplicates"] == {"explained": {why: 1}, "unexplained": 0}


def test_without_a_fault_no_second_call_has_a_reason() -> None:
    assert taken_over(None, faults=[]).found(159) == ["I11 lease_lost_without_reason", "I11 unexplained_duplicate"]


def test_a_second_call_beside_a_holder_that_lives_is_found() -> None:
    lost = ["I11 lease_lost_without_reason", "I11 unexplained_duplicate", "I9 release_of_another"]
    assert taken_over(None, released_by="n2").found(159) == lost
    assert taken_over("boot", "n2", released_by="n2").found(159) == lost


def test_one_claim_calls_once() -> None:
    story = Story()
    job = story.job()
    story.start(60, job, 60)
    story.answer(61, story.call(60.5, job, 60))
    story.settle(62, job, 60)
    assert story.found(70) == ["I11 unexplained_duplicate", "I9 same_epoch_two_calls"]


def called(**wrong: Any) -> Story:
    story = Story()
    job = story.job()
    story.claim(60, job, 60)
    story.move(60, job, "advance", 120, last_run=ms(60), run_count=1)
    node = wrong.pop("node", "n1")
    story.answer(60.5, story.call(60, job, 60, node, **wrong))
    story.settle(61, job, 60)
    return story


def test_another_key_than_the_runs_id_is_found() -> None:
    assert called(key="job_a:2026-06-01T12:01:01Z").found(70) == ["I12 wrong_key"]


def test_a_token_that_nobody_claimed_is_found() -> None:
    assert called(token=2).found(70) == ["C6 reported_without_call", "I12 call_without_claim"]


def test_a_token_that_another_process_claimed_is_found() -> None:
    assert called(node="n2").found(70) == ["I12 token_of_another"]


def test_nothing_is_reported_as_done_that_was_not_called() -> None:
    story = Story()
    job = story.job()
    story.claim(60, job, 60)
    story.move(60, job, "advance", 120, last_run=ms(60), run_count=1)
    story.settle(61, job, 60)
    assert story.found(70) == ["C6 reported_without_call"]


def test_at_most_once_means_that_a_target_that_was_reached_is_left_alone() -> None:
    story = Story(late_ms=None)
    job = story.job(delivery="AT_MOST_ONCE")
    story.say(60.1, "ok", "target.effect", call=story.start(60, job, 60))
    story.kill(61)
    story.claim(155.1, job, 60, "n2", arrow="reclaim")
    story.answer(156, story.call(155.1, job, 60, "n2"))
    story.settle(157, job, 60, node="n2")
    assert story.found(159) == ["C7 at_most_once_called_again"]


def test_only_a_run_that_may_not_be_called_again_ends_unknown() -> None:
    for delivery, found in (("AT_MOST_ONCE", []), ("AT_LEAST_ONCE", ["C7 unknown_without_at_most_once"])):
        story = Story()
        job = story.job(delivery=delivery)
        story.start(60, job, 60)
        story.settle(91, job, 60, "UNKNOWN", http_status=None)
        assert story.found(100) == found
