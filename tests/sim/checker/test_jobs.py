"""Jobs: ends that come too soon, versions that do not count, names of two, and what runs although it was paused."""

from __future__ import annotations

from typing import Any

import pytest

from tests.sim.checker.stories import Item, Story, interval, ms

OVER: Item = {"next_run_at": None, "timer_at": None}


def finished(status: str, run: str, *, together: bool = False) -> list[str]:
    """What is found of a job that runs once, ends in `status`, and whose run is `run` by then."""
    story = Story(late_ms=None)
    job = story.job(max_runs=1)
    story.claim(60, job, 60)
    story.move(60, job, "advance", None, last_run=ms(60), run_count=1)
    call = story.call(60, job, 60)
    ends = {"status": status, "updated_at": ms(62), **OVER}
    how: dict[str, Any] = {"batch": 1_000} if together else {}
    if together:
        story.commit(62, job, "JOB", f"finish {status}", ends, **how)
    if run == "SUCCEEDED":
        story.answer(61, call)
        was = story.of_run(job, 60)
        closed = was["attempts"][-1] | {"finished_at": ms(62), "outcome": "SUCCEEDED", "http_status": 200}
        free = {"lease_owner": None, "lease_expires_at": None, "claim_token": None, "timer_at": None}
        done = free | {"status": run, "attempts": [closed], "finished_at": ms(62)}
        story.commit(62, job, story.sort(60), f"settle {run}", done, tag=1, **how)
    elif run == "RETRY_WAIT":
        story.answer(61, call, 503)
        story.settle(62, job, 60, run)
    if not together:
        story.commit(62, job, "JOB", f"finish {status}", ends)
    return story.found(63)


@pytest.mark.parametrize("status", ["COMPLETED", "FAILED"])
def test_a_job_ends_after_its_last_run(status: str) -> None:
    assert finished(status, "SUCCEEDED") == []
    assert finished(status, "SUCCEEDED", together=True) == []
    assert finished(status, "RUNNING") == ["I8 finished_over_open_run"]
    assert finished(status, "RETRY_WAIT") == ["I8 finished_over_open_run"]


def test_an_operator_ends_a_job_when_he_likes() -> None:
    story = Story()
    job = story.job()
    call = story.start(60, job, 60)
    story.cancel(61, job)
    story.answer(62, call)
    story.settle(63, job, 60)
    assert story.found(65) == []


def test_a_job_does_not_wait_for_a_run_by_hand() -> None:
    story = Story()
    job = story.job(max_runs=1)
    story.runs(job, 60)
    story.triggered(61, job)
    story.commit(62, job, "JOB", "finish COMPLETED", {"status": "COMPLETED", **OVER})
    assert "I8 finished_over_open_run" not in story.found(62)


@pytest.mark.parametrize(
    ("arrow", "rise", "found"),
    [
        ("edit", 1, []),
        ("edit", 0, ["I8 version_not_raised"]),
        ("edit", 2, ["I8 version_not_raised"]),
        ("cancel", 0, ["I8 version_not_raised"]),
        ("pause", 0, ["I8 version_not_raised"]),
        ("look again", 0, []),
        ("look again", 1, ["I8 version_not_raised"]),
        ("change", 1, []),
        ("change", 0, []),
        ("change", 2, ["I8 version_not_raised"]),
    ],
)
def test_the_version_counts_the_verbs(arrow: str, rise: int, found: list[str]) -> None:
    story = Story()
    job = story.job()
    changes: Item = {
        "cancel": {"status": "CANCELLED", **OVER},
        "pause": {"status": "PAUSED", "timer_at": None},
    }.get(arrow, {"description": "another"})
    story.commit(50, job, "JOB", arrow, {**changes, "version": 1 + rise})
    assert story.found(55) == found


def test_two_that_live_do_not_share_a_name() -> None:
    story = Story()
    story.job("job_a", key="a", name="report")
    story.job("job_b", key="b", name="report")
    assert story.found(50) == ["names name_of_two"]


def test_a_job_does_not_take_the_name_of_another_by_an_edit() -> None:
    story = Story()
    story.job("job_a", key="a", name="report")
    story.job("job_b", key="b", name="digest")
    story.verb(40, "job_b", "edit", {"name": "report"})
    assert story.found(50) == ["names name_of_two"]


def test_a_paused_job_keeps_its_name() -> None:
    story = Story()
    story.pause(40, story.job("job_a", key="a", name="report"))
    story.job("job_b", 41, key="b", name="report", next_run_at=ms(60))
    assert story.found(50) == ["names name_of_two"]


def resumed(due_s: float, *, edited: bool = False, called: bool = True, **more: Any) -> list[str]:
    """What is found of a job that is paused from 70 to 200, and then runs what was due at `due_s`, or gives it up."""
    story = Story(late_ms=None)
    job = story.job()
    story.runs(job, 60)
    until: Item = {"paused_until": more.pop("paused_until")} if "paused_until" in more else {}
    story.verb(70, job, "pause", {"status": "PAUSED", "timer_at": until.get("paused_until"), **until})
    awake = {"status": "SCHEDULED", "paused_until": None, "next_run_at": ms(due_s), "timer_at": ms(due_s)}
    story.verb(200, job, "resume", {**awake, "counted_from": ms(due_s - 60), "updated_at": ms(200), **more})
    if edited:
        story.verb(200.1, job, "edit", {"schedule": interval() | {"end_at": ms(6_000)}})
    at_s = max(200.2, due_s)
    if called:
        story.answer(at_s + 0.1, story.start(at_s, job, due_s))
        story.settle(at_s + 0.2, job, due_s)
    else:
        story.claim(at_s, job, due_s)
        story.settle(at_s + 0.2, job, due_s, "CANCELLED", http_status=None, reason="RESCHEDULED")
    return story.found(at_s + 0.3)


def test_what_was_due_while_paused_does_not_run() -> None:
    assert resumed(240) == []
    assert resumed(180) == ["W14 missed_and_resumed"]
    assert resumed(120) == ["W14 missed_and_resumed"]


def test_a_claim_of_what_was_missed_that_is_given_up_before_its_call_runs_nothing() -> None:
    assert "W14 missed_and_resumed" not in resumed(180, called=False)


def test_who_resumes_may_ask_for_what_was_missed() -> None:
    assert resumed(180, catch_up="RUN_ONCE") == []


def test_what_was_due_after_the_end_of_a_pause_is_due_still() -> None:
    assert resumed(180, paused_until=ms(180)) == []
    assert resumed(120, paused_until=ms(180)) == ["W14 missed_and_resumed"]


def test_an_edit_may_make_due_what_was_missed() -> None:
    assert resumed(180, edited=True) == []
