"""Legal stories: nothing is found in what the product may do."""

from __future__ import annotations

from tests.sim.checker.stories import EVERY_S, Story, key_of, ms

MONTH_S = 30 * 86_400


def full(**header: object) -> Story:
    """A plain run, a retry, a holder that was lost, a skip, a run by hand, a pause, a cancel."""
    story = Story(**header)
    job = story.job(overlap="SKIP")
    story.runs(job, 60)
    story.answer(121, story.start(120, job, 120), 503)
    story.settle(121.5, job, 120, "RETRY_WAIT")
    story.claim(127, job, 120)
    story.answer(128, story.call(127.1, job, 120))
    story.settle(128.5, job, 120)
    story.start(180, job, 180)
    story.kill(181)
    story.skip(240, job, 240, "OVERLAP")
    story.claim(275.5, job, 180, "n2", arrow="reclaim", reclaims=1)
    story.answer(277, story.call(276, job, 180, "n2"))
    story.settle(278, job, 180, node="n2")
    story.triggered(290, job)
    story.claim(290.1, job, 290)
    story.answer(291, story.call(290.2, job, 290))
    story.settle(291.5, job, 290)
    story.pause(295, job)
    story.verb(
        330,
        job,
        "resume",
        {"status": "SCHEDULED", "counted_from": ms(330), "next_run_at": ms(360), "timer_at": ms(360)},
    )
    story.runs(job, 360)
    story.cancel(400, job)
    return story


def test_a_story_with_all_that_is_allowed_has_no_violation() -> None:
    verdict = full().ends(900, 600)
    assert verdict.violations == ()
    figures = verdict.figures
    assert figures["runs"] == {"SKIPPED": 1, "SUCCEEDED": 5}
    assert figures["calls"] == 7
    assert figures["duplicates"] == {"explained": {"kill": 1}, "unexplained": 0}
    assert figures["kills"] == 1
    assert figures["sim_seconds"] == 900
    assert figures["lag"]["all"] == {"p50": 0, "p99": 0, "max": 0}


def test_a_job_with_a_window_runs_at_its_place_in_it() -> None:
    story = Story()
    story.runs(story.job(window_ms=30_000), 60, 120)
    assert story.found(150) == []


def test_a_cron_runs_by_the_wall_clock_of_its_zone() -> None:
    story = Story()
    cron = {
        "type": "CRON",
        "expression": "*/1 14 * * *",
        "time_zone": "Europe/Berlin",
        "gap": "SKIP",
        "repeat": "FIRST",
    }
    story.runs(story.job(schedule=cron), 60, 120)
    assert story.found(150) == []


def test_an_occurrence_may_be_held_until_the_run_before_it_ends() -> None:
    story = Story()
    job = story.job(overlap="BUFFER_ONE")
    call = story.start(60, job, 60)
    story.move(120, job, "hold", 180, held=ms(120))
    story.answer(145, call)
    story.settle(146, job, 60)
    story.claim(147, job, 120)
    story.commit(147, job, "JOB", "advance", {"held": None, "last_run": ms(120), "run_count": 2})
    story.answer(148, story.call(147, job, 120))
    story.settle(149, job, 120)
    assert story.found(170) == []


def test_a_job_has_as_many_runs_as_it_is_to_have() -> None:
    story = Story()
    job = story.job(max_runs=2)
    story.runs(job, 60)
    story.claim(120, job, 120)
    story.commit(
        120, job, "JOB", "advance",
        {"counted_from": ms(120), "next_run_at": None, "run_count": 2, "timer_at": ms(130), "last_run": ms(120)},
    )  # fmt: skip
    story.answer(121, story.call(120, job, 120))
    story.settle(122, job, 120)
    story.commit(122, job, "JOB", "finish COMPLETED", {"status": "COMPLETED", "timer_at": None})
    assert story.found(900, 600) == []


def test_the_latest_of_those_that_were_missed_runs() -> None:
    story = Story(late_ms=None)
    job = story.job()
    story.skip(250, job, 60, "MISFIRED")
    story.skip(250, job, 120, "MISFIRED")
    story.skip(250, job, 180, "MISFIRED")
    story.answer(251, story.start(250, job, 240))
    story.settle(252, job, 240)
    assert story.found(290) == []


def test_what_was_not_promised_before_the_storm_is_over_is_not_asked_for() -> None:
    story = Story(late_ms=None)
    story.job()
    assert story.found(130, 120) == []


def test_a_retry_waits_as_long_as_its_target_asked_for() -> None:
    story = Story()
    job = story.job()
    story.answer(61, story.start(60, job, 60), 503, retry_after_ms=30_000)
    story.settle(62, job, 60, "RETRY_WAIT", not_before=ms(92))
    assert story.found(80) == []


def test_a_run_that_ended_may_be_forgotten_after_its_time() -> None:
    story = Story()
    job = story.job()
    story.answer(61, story.start(60, job, 60))
    story.settle(62, job, 60, expires_at=ms(100), finished_at=ms(100 - MONTH_S))
    story.commit(101, job, story.sort(60), "forget", None)
    assert story.found(110) == []


def test_a_run_of_a_machine_that_died_may_be_released_by_its_next_process() -> None:
    story = Story(late_ms=None)
    job = story.job()
    story.start(60, job, 60)
    story.kill(61)
    story.kill(65, fault="boot")
    story.commit(66, job, story.sort(60), "release", {"lease_expires_at": ms(60), "timer_at": ms(65) + 1}, tag=1)
    story.claim(67, job, 60, arrow="reclaim")
    story.answer(68, story.call(67, job, 60))
    story.settle(69, job, 60)
    assert story.found(70) == []


def test_a_name_may_be_used_again_once_its_job_has_ended() -> None:
    story = Story()
    story.cancel(50, story.job("job_a", key="a", name="report"))
    story.job("job_b", 51, key="b", name="report", next_run_at=ms(60))
    story.job("job_c", 51, key="c", name="report", tenant_id="another", next_run_at=ms(60))
    assert story.found(55) == []


def test_the_key_of_a_run_is_its_id() -> None:
    assert key_of("job_a", EVERY_S) == "job_a:2026-06-01T12:01:00Z"
