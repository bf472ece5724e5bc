"""Leases: lost without a reason, ended by those that do not hold them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.sim.checker.stories import Story, ms

LOST = "I11 lease_lost_without_reason"
RELEASED = "I9 release_of_another"


def never_called(*faults: dict[str, Any]) -> Story:
    """A run that n1 claims at 60 and does not call; its lease ends at 150, and n2 takes it over."""
    story = Story(late_ms=None)
    job = story.job()
    story.claim(60, job, 60)
    for fault in faults:
        story.say(fault.pop("at_s"), "world", "nemesis", **fault)
    story.move(61, job, "advance", 120, last_run=ms(60), run_count=1)
    story.runs(job, 120)
    story.claim(155.1, job, 60, "n2", arrow="reclaim")
    story.answer(156, story.call(155.1, job, 60, "n2"))
    story.settle(157, job, 60, node="n2")
    return story


def test_a_lease_is_not_lost_for_nothing() -> None:
    assert never_called().found(159) == [LOST]


@pytest.mark.parametrize(
    ("reason", "found"),
    [
        ({"fault": "kill", "on": "n1"}, []),
        ({"fault": "crash", "on": "n1", "point": "after", "verb": "claim"}, []),
        ({"fault": "stop", "on": "n1"}, []),
        ({"fault": "kill", "on": "n2"}, [LOST]),
        ({"fault": "down", "on": "store"}, []),
        ({"fault": "down", "on": "disk"}, []),
        ({"fault": "down", "on": "queue"}, [LOST]),
        ({"fault": "cut", "on": "n1", "server": "store"}, []),
        ({"fault": "cut", "on": "n1", "server": "queue"}, [LOST]),
        ({"fault": "cut", "on": "n2", "server": "store"}, [LOST]),
        ({"fault": "reply_lost", "on": "n1", "server": "store", "verb": "claim"}, [LOST]),
        ({"fault": "throttled", "on": "n1", "server": "store", "verb": "claim"}, [LOST]),
        ({"fault": "skew", "on": "n1", "offset_ms": 2_000, "drift_ppm": 0}, [LOST]),
        ({"fault": "skew", "on": "n1", "offset_ms": 90_000, "drift_ppm": 0}, []),
    ],
)
def test_what_loses_a_lease(reason: dict[str, Any], found: list[str]) -> None:
    assert never_called({"at_s": 70, **reason}).found(159) == found


def test_a_reason_lies_between_the_claim_and_the_end_of_the_lease() -> None:
    assert never_called({"at_s": 54.9, "fault": "kill", "on": "n1"}).found(159) == [LOST]
    assert never_called({"at_s": 55, "fault": "kill", "on": "n1"}).found(159) == []
    assert never_called({"at_s": 155, "fault": "kill", "on": "n1"}).found(159) == []
    assert never_called({"at_s": 155.05, "fault": "kill", "on": "n1"}).found(159) == [LOST]


def test_an_outage_that_was_over_before_the_claim_is_no_reason() -> None:
    down, up = {"at_s": 10, "fault": "down", "on": "store"}, {"fault": "up", "on": "store"}
    assert never_called({**down}, {"at_s": 50, **up}).found(159) == [LOST]
    assert never_called({**down}, {"at_s": 59, **up}).found(159) == []


def test_where_the_storm_is_over_nothing_is_cut() -> None:
    story = never_called({"at_s": 10, "fault": "cut", "on": "n1", "server": "store"})
    assert LOST in story.found(159, heal_s=50)


@pytest.mark.parametrize(("killed", "found"), [(True, []), (False, [LOST])])
def test_a_run_given_up_for_its_lease_has_lost_its_holder(killed: bool, found: list[str]) -> None:
    story = Story(late_ms=None)
    job = story.job(delivery="AT_MOST_ONCE")
    story.start(60, job, 60)
    if killed:
        story.kill(61)
    story.settle(155.1, job, 60, "UNKNOWN", http_status=None, node="n2", tag=1)
    assert story.found(158) == found


def test_a_holder_may_say_itself_that_it_does_not_know() -> None:
    story = Story()
    job = story.job(delivery="AT_MOST_ONCE")
    story.start(60, job, 60)
    story.settle(90, job, 60, "UNKNOWN", http_status=None)
    assert story.found(95) == []


@pytest.mark.parametrize(
    ("fault", "by", "found"),
    [
        ("kill", "n1", []),
        ("crash", "n1", []),
        ("boot", "n1", []),
        ("stop", "n1", [RELEASED]),
        ("kill", "n2", [RELEASED]),
        (None, "n1", [RELEASED]),
        (None, "n2", [RELEASED]),
    ],
)
def test_a_lease_is_ended_by_the_next_process_of_its_machine_only(fault: str | None, by: str, found: list[str]) -> None:
    story = Story()
    job = story.job()
    call = story.start(60, job, 60)
    if fault is not None:
        story.kill(61, fault=fault)
    story.commit(62, job, story.sort(60), "release", {"lease_expires_at": ms(57), "timer_at": ms(62) + 1}, node=by)
    story.answer(63, call)
    story.settle(64, job, 60)
    assert story.found(70) == found


def test_who_released_a_lease_may_not_be_known() -> None:
    story = Story()
    job = story.job()
    call = story.start(60, job, 60)
    story.commit(62, job, story.sort(60), "release", {"lease_expires_at": ms(57), "timer_at": ms(62) + 1}, own=None)
    story.answer(63, call)
    story.settle(64, job, 60)
    assert story.found(70) == []
