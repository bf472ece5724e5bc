"""The ledger, the end, and what operators were told."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.sim.checker.stories import Story, interval, key_of, ms

MONTH_S: Final = 30 * 86_400
ENDS: Final[dict[str, Any]] = {"status": "CANCELLED", "next_run_at": None, "timer_at": None}


def test_an_occurrence_without_a_run_is_missing() -> None:
    story = Story()
    job = story.job()
    story.runs(job, 60)
    story.commit(100, job, "JOB", "advance", {"counted_from": ms(120), "next_run_at": ms(180), "timer_at": ms(180)})
    verdict = story.ends(170)
    missing = [found for found in verdict.violations if found.check == "missing_occurrence"]
    assert [found.key for found in missing] == [key_of(job, 120)]


def test_a_job_that_stops_being_due_misses_all_that_follows() -> None:
    story = Story()
    story.runs(story.job(), 60)
    assert story.found(200, 190) == ["I2 missing_occurrence"]


def test_what_was_due_in_a_pause_need_not_run() -> None:
    story = Story()
    job = story.job()
    story.pause(50, job)
    resumed = {"status": "SCHEDULED", "counted_from": ms(200), "next_run_at": ms(240), "timer_at": ms(240)}
    story.verb(200, job, "resume", resumed)
    story.runs(job, 240)
    assert story.found(260) == []


def test_what_a_pause_ended_too_soon_for_need_not_have_run() -> None:
    story = Story()
    job = story.job()
    story.pause(61, job)
    assert story.found(300) == []


def test_an_earlier_one_is_missing_once_a_later_one_has_run() -> None:
    story = Story(late_ms=None)
    job = story.job()
    story.claim(125, job, 120)
    story.answer(126, story.call(125, job, 120))
    story.settle(127, job, 120)
    story.pause(128, job)
    assert "I2 missing_occurrence" in story.found(140)


def test_a_run_at_a_time_that_is_none_of_its_schedules_is_found() -> None:
    story = Story()
    job = story.job()
    story.claim(31, job, 30)
    story.answer(32, story.call(31, job, 30))
    story.settle(33, job, 30)
    found = story.found(50)
    assert "I2 not_an_occurrence" in found
    assert "I2 missing_occurrence" not in found


def test_a_run_from_before_the_schedule_starts_is_found() -> None:
    story = Story(late_ms=None)
    job = story.job(counted_from=ms(60), next_run_at=ms(120))
    story.claim(61, job, 60)
    story.answer(62, story.call(61, job, 60))
    story.settle(63, job, 60)
    assert "I2 before_its_start" in story.found(70)


def test_runs_are_counted() -> None:
    story = Story()
    job = story.job()
    story.runs(job, 60)
    story.commit(70, job, "JOB", "touch", {"run_count": 0})
    assert story.found(75) == ["I30 run_count_wrong"]


def test_no_more_runs_than_there_were_to_be() -> None:
    story = Story()
    story.runs(story.job(max_runs=1), 60, 120)
    assert story.found(130) == ["W15 beyond_max_runs"]


def test_a_run_does_not_go_away_before_its_time() -> None:
    story = Story()
    job = story.job()
    story.start(60, job, 60)
    story.commit(61, job, story.sort(60), "forget", None)
    assert story.found(62) == ["I30 run_lost"]


def test_a_job_does_not_go_away_before_its_time() -> None:
    story = Story()
    job = story.job()
    story.cancel(40, job)
    story.commit(50, job, "JOB", "forget", None)
    assert story.found(55) == ["I30 job_lost"]


def test_long_after_the_storm_no_run_waits_for_a_holder_that_was_lost() -> None:
    story = Story()
    job = story.job()
    story.start(60, job, 60)
    story.cancel(70, job)
    assert story.found(150, 75) == []
    assert story.found(300, 75) == ["I13 stuck_timer", "I2 stuck_running"]


def test_long_after_the_storm_no_run_waits_for_a_retry_that_was_lost() -> None:
    story = Story()
    job = story.job()
    story.answer(61, story.start(60, job, 60), 503)
    story.settle(62, job, 60, "RETRY_WAIT")
    story.pause(70, job)
    assert story.found(300, 75) == ["I13 stuck_timer", "I2 stuck_retry"]


def test_long_after_the_storm_no_job_is_overdue() -> None:
    story = Story(late_ms=None)
    story.runs(story.job(), 60)
    assert story.found(300, 70) == ["I13 stuck_timer", "I2 missing_occurrence", "I2 overdue_job"]


def test_a_job_whose_last_run_has_ended_ends() -> None:
    story = Story()
    job = story.job(schedule={"type": "ONCE", "run_at": ms(60), "text": "then"})
    story.claim(60, job, 60)
    done = {"counted_from": ms(60), "next_run_at": None, "run_count": 1, "timer_at": ms(290), "last_run": ms(60)}
    story.commit(60, job, "JOB", "advance", done)
    story.answer(61, story.call(60, job, 60))
    story.settle(62, job, 60)
    assert story.found(300, 70) == ["I2 unfinished_job"]


def test_an_occurrence_is_not_held_for_ever() -> None:
    story = Story()
    job = story.job(overlap="BUFFER_ONE", schedule=interval() | {"end_at": ms(130)})
    call = story.start(60, job, 60)
    story.move(120, job, "hold", None, held=ms(120), timer_at=ms(290))
    story.answer(125, call)
    story.settle(126, job, 60)
    assert story.found(300, 70) == ["I2 held_for_ever"]


def test_what_was_raised_is_a_violation() -> None:
    story = Story()
    story.say(1, "n1", "bug", error="KeyError: 'x'")
    assert story.found(2) == ["BUG raised"]


# ── what operators were told ─────────────────────────────────────────────────────────────────────────────────────


def test_one_key_makes_one_job() -> None:
    story = Story()
    story.job("job_a", key="same")
    story.job("job_b", key="same")
    assert story.found(50) == ["I3 key_for_two_bodies", "I3 key_made_two_jobs"]


def test_a_twin_that_nobody_heard_of_is_found_by_what_it_looks_like() -> None:
    story = Story()
    story.job("job_a")
    story.made("job_b", name="job_a")
    assert story.found(50) == ["I3 key_made_two_jobs", "names name_of_two"]


def test_an_acknowledged_job_is_in_the_store() -> None:
    story = Story()
    call = {"call": 99, "job": None, "idempotency_key": None, "body": None}
    story.say(1, "user", "api.invoke", op="create", **call)
    story.say(2, "user", "api.ok", call=99, status=201, job="job_z", doc={})
    assert story.found(5) == ["I29 acked_job_gone"]


@pytest.mark.parametrize("op", ["cancel", "pause"])
def test_after_a_cancel_or_a_pause_nothing_new_is_called(op: str) -> None:
    story = Story()
    job = story.job()
    getattr(story, op)(50, job)
    story.claim(60, job, 60)
    story.answer(61, story.call(60, job, 60))
    story.settle(62, job, 60)
    assert f"I4 called_after_{op}" in story.found(70)


def test_what_was_claimed_before_a_cancel_may_be_called_after_it() -> None:
    story = Story()
    job = story.job()
    story.claim(60, job, 60)
    story.move(60, job, "advance", 120, last_run=ms(60), run_count=1)
    story.cancel(60.1, job)
    story.answer(61, story.call(60.2, job, 60))
    story.settle(62, job, 60)
    assert story.found(70) == []


def test_a_pause_ends_the_retries() -> None:
    story = Story()
    job = story.job()
    story.answer(61, story.start(60, job, 60), 503)
    story.settle(62, job, 60, "RETRY_WAIT")
    story.pause(63, job)
    story.claim(67, job, 60)
    story.answer(68, story.call(67.1, job, 60))
    story.settle(69, job, 60)
    assert story.found(70) == ["I4 retried_after_pause"]


def test_after_an_edit_the_old_times_are_not_called() -> None:
    story = Story()
    job = story.job()
    moved = {"schedule": interval(50), "counted_from": ms(30), "next_run_at": ms(50), "timer_at": ms(50)}
    story.verb(30, job, "edit", moved)
    story.runs(job, 50)
    story.events = [event for event in story.events if event.get("arrow") != "advance"]
    for event in story.events:
        if event["t"] > ms(40) and event.get("sort", "").startswith("RUN#"):
            event["sort"] = story.sort(60)
        if event["kind"] == "target.call":
            event |= {"key": key_of(job, 60), "scheduled_for": ms(60)}
    assert "I4 called_after_edit" in story.found(51)


def test_a_run_that_was_cancelled_is_not_called() -> None:
    story = Story(late_ms=None)
    job = story.job()
    story.start(60, job, 60)
    story.kill(61)
    call = {"call": 99, "job": job}
    story.say(70, "user", "api.invoke", op="cancel_run", idempotency_key=None, body=None, **call)
    story.commit(70, job, story.sort(60), "request cancel", {"cancel_requested": True})
    story.say(70, "user", "api.ok", status=200, doc={"run_id": key_of(job, 60)}, **call)
    story.claim(155.1, job, 60, "n2", arrow="reclaim")
    story.answer(156, story.call(155.1, job, 60, "n2"))
    story.settle(157, job, 60, "SUCCEEDED_AFTER_CANCEL", node="n2", http_status=200)
    assert "I4 called_after_cancel_run" in story.found(159)


@pytest.mark.parametrize(("kept_s", "found"), [(MONTH_S, []), (MONTH_S - 1, ["I30 forgotten_too_soon"])])
def test_what_has_ended_is_kept_for_a_month(kept_s: float, found: list[str]) -> None:
    story = Story()
    job = story.job()
    story.answer(61, story.start(60, job, 60))
    story.settle(62, job, 60, expires_at=ms(62 + kept_s))
    assert story.found(65) == found
    story = Story()
    story.verb(50, story.job(), "cancel", ENDS | {"updated_at": ms(50), "expires_at": ms(50 + kept_s)})
    assert story.found(65) == found


@pytest.mark.parametrize(("ended_s", "found"), [(100 - MONTH_S, []), (101 - MONTH_S, ["I30 forgotten_too_soon"])])
def test_nothing_is_forgotten_within_a_month(ended_s: float, found: list[str]) -> None:
    story = Story()
    job = story.job()
    story.answer(61, story.start(60, job, 60))
    story.settle(62, job, 60, finished_at=ms(ended_s), expires_at=ms(100))
    story.commit(100, job, story.sort(60), "forget", None)
    assert story.found(101) == found
    story = Story()
    job = story.job()
    story.verb(50, job, "cancel", ENDS | {"updated_at": ms(ended_s), "expires_at": ms(100)})
    story.commit(100, job, "JOB", "forget", None)
    assert story.found(101) == found


@pytest.mark.parametrize(("at_s", "found"), [(60, []), (59, ["I30 run_count_wrong"])])
def test_a_run_by_hand_at_the_time_of_an_occurrence_stands_for_it(at_s: float, found: list[str]) -> None:
    story = Story()
    job = story.job()
    story.triggered(at_s, job)
    story.claim(60, job, at_s)
    story.answer(61, story.call(60, job, at_s))
    story.settle(62, job, at_s)
    story.move(63, job, "advance", 120, last_run=ms(60), run_count=1)
    assert [check for check in story.found(64) if check.startswith("I30")] == found


def test_a_run_claimed_after_a_cancel_landed_must_not_be_called_even_before_the_user_heard_of_it() -> None:
    story = Story()
    job = story.job()
    story.cancel(59.9, job)
    heard = story.events.pop()
    story.claim(60, job, 60)
    story.answer(61, story.call(60.1, job, 60))
    story.settle(62, job, 60)
    story.events.append(heard | {"t": ms(63)})
    assert story.found(70) == ["I4 called_after_cancel"]


def test_a_cancel_that_was_acknowledged_and_not_done_is_found() -> None:
    story = Story()
    job = story.job()
    story.cancel(30, job)
    story.events = [event for event in story.events if event.get("arrow") != "cancel"]
    assert "I4 cancel_not_done" in story.found(40)
