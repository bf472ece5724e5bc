"""Failure: unbounded retries, wrong waits, dead letters that are missing; and limits that are not kept."""

from __future__ import annotations

from typing import Any

import pytest

from tests.sim.checker.stories import Item, Story, ms

RETRY = {"max_attempts": 3, "initial_backoff_ms": 10_000, "max_backoff_ms": 60_000}


def failed(retry: Item = RETRY, *, status: str = "FAILED", http_status: int = 503, **more: Any) -> list[str]:
    """What is found of a run that ends like this after one call."""
    story = Story()
    job = story.job(retry=retry)
    story.answer(61, story.start(60, job, 60), http_status)
    story.settle(62, job, 60, status, http_status=http_status, **more)
    return story.found(66)


def test_a_run_fails_by_a_permanent_answer_or_by_its_last_attempt() -> None:
    once = RETRY | {"max_attempts": 1}
    assert failed(http_status=400) == []
    assert failed(once, reason="ATTEMPTS_EXHAUSTED") == []
    assert failed(reason="ATTEMPTS_EXHAUSTED") == ["I7 failed_too_soon"]
    assert failed(http_status=503) == ["I7 failed_too_soon"]
    assert failed(reason="POISON") == ["I7 failed_too_soon"]
    assert failed(reason=None) == ["I7 failed_without_reason"]


def test_a_dead_letter_is_kept_for_what_failed_and_for_nothing_else() -> None:
    assert failed(http_status=400, dead_partition=None) == ["I7 no_dead_letter"]
    assert failed(status="RETRY_WAIT", dead_partition="DEAD#default") == ["I7 stray_dead_letter"]


def test_a_permanent_answer_is_not_tried_again() -> None:
    assert failed(status="RETRY_WAIT", http_status=404) == ["I7 permanent_retried"]


def test_a_wait_is_within_its_cap() -> None:
    assert failed(status="RETRY_WAIT", not_before=ms(72)) == []
    assert failed(status="RETRY_WAIT", not_before=ms(72) + 1) == ["I7 backoff_too_long"]
    assert failed(status="RETRY_WAIT", not_before=ms(60)) == ["I7 backoff_too_short"]


def test_a_wait_that_the_target_asked_for_is_kept() -> None:
    story = Story()
    job = story.job()
    story.answer(61, story.start(60, job, 60), 503, retry_after_ms=30_000)
    story.settle(62, job, 60, "RETRY_WAIT")
    assert story.found(66) == ["I7 backoff_too_short"]


def test_more_attempts_than_allowed_are_found() -> None:
    story = Story()
    job = story.job(retry=RETRY | {"max_attempts": 1})
    story.answer(60.5, story.start(60, job, 60), 503)
    story.settle(61, job, 60, "RETRY_WAIT")
    story.claim(66, job, 60)
    story.answer(66.5, story.call(66, job, 60), 503)
    story.settle(67, job, 60, "FAILED", reason="ATTEMPTS_EXHAUSTED")
    assert story.found(70) == ["I7 too_many_attempts"]


def waited(shares: list[float], retry: Item = RETRY, **answer: Any) -> list[str]:
    """What is found where each of some jobs fails once and waits for this part of its cap of 10 s."""
    story = Story()
    for number, share in enumerate(shares):
        job = story.job(f"job_{number}", key=f"key-{number}", retry=retry)
        story.answer(61, story.start(60, job, 60), 503, **answer)
        story.settle(62, job, 60, "RETRY_WAIT", not_before=ms(62 + share * 10), timer_at=ms(62 + share * 10))
    return story.found(62)


EVEN = [(number + 0.5) / 40 for number in range(40)]


def test_waits_are_spread_up_to_their_cap() -> None:
    assert waited(EVEN) == []
    assert waited([share / 2 + 0.24 for share in EVEN]) == []
    assert waited([0.0] * 40) == ["F2 jitter_missing"]
    assert waited([1.0] * 40) == ["F2 jitter_missing"]
    assert waited([0.5 + share / 2 for share in EVEN]) == ["F2 jitter_missing"]


def test_a_few_waits_say_nothing_about_their_spread() -> None:
    assert waited([0.0] * 29) == []
    assert waited([0.0] * 30) == ["F2 jitter_missing"]


def test_what_the_target_asked_for_and_what_has_no_cap_says_nothing_about_the_spread() -> None:
    assert waited([1.0] * 40, retry_after_ms=10_000) == []
    assert waited([0.0] * 40, RETRY | {"initial_backoff_ms": 0}) == []


@pytest.mark.parametrize(("allowed", "found"), [(2, []), (1, ["I15 strict_over_allowance"])])
def test_strict_jobs_of_one_second_have_an_allowance(allowed: int, found: list[str]) -> None:
    story = Story(limits={"strict_per_second": allowed})
    story.job("job_a", key="a")
    story.job("job_b", key="b")
    story.job("job_c", key="c", window_ms=30_000)
    assert story.found(50) == found


@pytest.mark.parametrize(("count", "found"), [(2, []), (1, ["I17 reclaims_over_pace"])])
def test_reclaims_keep_their_pace(count: int, found: list[str]) -> None:
    story = Story(late_ms=None, limits={"reclaims_per_window": {"count": count, "window_ms": 10_000}})
    for name in ("job_a", "job_b"):
        story.start(60, story.job(name, key=name), 60)
    story.kill(61)
    for name in ("job_a", "job_b"):
        story.claim(155.1, name, 60, "n2", arrow="reclaim")
    assert story.found(158) == found


@pytest.mark.parametrize(("limit", "found"), [(2, []), (1, ["I18 target_over_limit"])])
def test_a_target_has_as_many_calls_at_once_as_its_limit(limit: int, found: list[str]) -> None:
    story = Story(limits={"target_concurrency": {"http://ok.example/": limit}})
    calls = [(name, story.start(60, story.job(name, key=name), 60)) for name in ("job_a", "job_b", "job_c")]
    for name, call in calls:
        story.answer(61, call)
        story.settle(62, name, 60)
    assert story.found(70) == found


@pytest.mark.parametrize(("cap", "found"), [(2, []), (1, ["I19 redrives_over_pace"])])
def test_redrives_keep_their_cap(cap: int, found: list[str]) -> None:
    story = Story(limits={"redrives_per_second": cap})
    for name in ("job_a", "job_b", "job_c"):
        job = story.job(name, key=name)
        story.answer(61, story.start(60, job, 60), 400)
        story.settle(62, job, 60, "FAILED", http_status=400)
        story.redriven(63, job, 60)
    assert story.found(64) == found
