"""H4, H5: the arrows of a run that workers do, each one conditional write."""

from __future__ import annotations

from dataclasses import replace

import pytest

from schedkit.engine.who import handing
from schedkit.engine.who.claim import Holder, claim_retry
from schedkit.model.jobs import HttpTarget, Job, RetryPolicy, TaskTarget, job_attributes, job_of
from schedkit.model.keys import run_key, shard_of
from schedkit.model.runs import RECLAIM_MARGIN_MS, Run, RunStatus, run_of
from schedkit.model.schedules import Interval
from schedkit.model.timers import timer_of
from schedkit.model.writes import Write

NOON = 1_780_000_000_000
SHARDS = 4
JOB = Job("job_a", Interval(60_000, NOON), TaskTarget("ledger", "rebuild"), NOON, NOON, retry=RetryPolicy())
SHARD = shard_of("job_a", SHARDS)


def ready(job: Job = JOB, now: int = NOON) -> Run:
    return run_of(handing.ready(job, NOON, NOON, misfired=False, shards=SHARDS, now=now).result(None))


def claimed(job: Job = JOB, now: int = NOON) -> Run:
    waiting = ready(job, now)
    write = claim_retry(waiting, job, holder=Holder("w-1", "token"), shards=SHARDS, now=now)
    return run_of(write.result({}))


def refused_after(write: Write, run: Run, **changes: object) -> bool:
    """Whether the write is refused where the run has changed since it was read."""
    item = {name: getattr(run, name) for name in ("status", "epoch", "lease_expires_at", "not_before")} | changes
    return not write.holds(item)


def test_a_run_that_is_ready_waits_in_its_queue_from_its_time_on() -> None:
    write = handing.ready(JOB, NOON, NOON, misfired=True, shards=SHARDS, now=NOON + 5)
    run = run_of(write.result(None))
    assert (run.status, run.attempt, run.epoch, run.not_before, run.misfired) == (
        RunStatus.RETRY_WAIT,
        1,
        0,
        NOON,
        True,
    )
    timer = timer_of(write.key, write.result(None))
    assert timer is not None
    assert (timer.at, timer.kind, timer.task_queue) == (NOON, "Q", "default/default/ledger")
    assert not write.holds({"status": "RUNNING"}), "an occurrence comes to be once"


def test_nothing_is_ready_before_its_time() -> None:
    with pytest.raises(AssertionError, match="never early"):
        handing.ready(JOB, NOON, NOON + 10, misfired=False, shards=SHARDS, now=NOON + 9)


def test_a_workers_lease_is_the_reapers_and_no_bucket_carries_it() -> None:
    run = claimed()
    assert (run.status, run.epoch, run.lease_expires_at) == (RunStatus.RUNNING, 1, NOON + 30_000)
    write = handing.heartbeat(run, JOB, None, shards=SHARDS, now=NOON + 10_000)
    timer = timer_of(write.key, write.result({}))
    assert timer is not None
    assert (timer.kind, timer.carried, timer.at) == ("H", False, NOON + 40_000 + RECLAIM_MARGIN_MS + 1)


def test_a_heartbeat_moves_the_lease_forward_only_and_is_fenced() -> None:
    run = claimed()
    behind = handing.heartbeat(run, JOB, '{"rows":1}', shards=SHARDS, now=NOON - 60_000)
    assert behind.changes["lease_expires_at"] == NOON + 30_000
    assert behind.changes["progress"] == '{"rows":1}'
    assert "progress" not in handing.heartbeat(run, JOB, None, shards=SHARDS, now=NOON).changes
    for change in ({"epoch": 2}, {"status": "RETRY_WAIT"}, {"lease_expires_at": NOON + 31_000}):
        assert refused_after(behind, run, **change)


def test_past_its_deadline_a_lease_is_not_renewed() -> None:
    timed = replace(JOB, target=TaskTarget("ledger", timeout_ms=45_000))
    run = claimed(timed)
    assert handing.deadline_of(run, timed) == NOON + 45_000
    write = handing.heartbeat(run, timed, None, shards=SHARDS, now=NOON + 20_000)
    assert write.changes["lease_expires_at"] == NOON + 45_000


def test_a_lost_worker_is_fenced_from_the_moment_its_run_is_given_back() -> None:
    run = claimed()
    after = NOON + 30_000 + RECLAIM_MARGIN_MS + 1
    write = handing.give_back(run, lost=True, shards=SHARDS, now=after)
    back = run_of(write.result({}))
    assert (back.status, back.epoch, back.attempt, back.reclaims) == (RunStatus.RETRY_WAIT, 1, 1, 1)
    assert back.attempts[-1].outcome == "LEASE_EXPIRED"
    assert (back.lease_owner, back.claim_token, back.not_before) == (None, None, after)
    assert refused_after(write, run, lease_expires_at=NOON + 60_000), "it was heard of after all"
    late = handing.heartbeat(run, JOB, None, shards=SHARDS, now=after)
    assert refused_after(late, back)


def test_a_live_lease_is_not_taken() -> None:
    with pytest.raises(AssertionError, match="a live lease is not touched"):
        handing.give_back(claimed(), lost=True, shards=SHARDS, now=NOON + 30_000 + RECLAIM_MARGIN_MS)


def test_what_a_worker_lets_go_of_is_no_lost_holder() -> None:
    back = run_of(handing.give_back(claimed(), lost=False, shards=SHARDS, now=NOON + 5).result({}))
    assert (back.attempts[-1].outcome, back.reclaims, back.attempt) == ("RELEASED", 0, 1)


def test_a_waiting_run_follows_its_jobs_target() -> None:
    run = ready()
    assert handing.belongs(run, JOB)
    for target, kind, line in (
        (TaskTarget("other"), "Q", "default/default/other"),
        (TaskTarget("ledger", "audit"), "Q", "default/default/ledger"),
        (HttpTarget(url="http://a.example/"), "R", None),
    ):
        edited = replace(JOB, target=target)
        assert not handing.belongs(run, edited)
        write = handing.reroute(run, edited, shards=SHARDS, now=NOON + 9)
        timer = timer_of(write.key, write.result({"priority": "HIGH"}))
        assert timer is not None
        assert (timer.kind, timer.task_queue, timer.at, timer.priority) == (kind, line, NOON + 9, "HIGH")
        assert refused_after(write, run, status="RUNNING")


def test_what_was_started_never_lapses() -> None:
    run = ready()
    lapsed = run_of(handing.lapse(run, "EXPIRED", NOON + 99).result({}))
    assert (lapsed.status, lapsed.reason, lapsed.finished_at) == (RunStatus.SKIPPED, "EXPIRED", NOON + 99)
    with pytest.raises(AssertionError, match="what was started"):
        handing.lapse(claimed(), "EXPIRED", NOON + 99)


def test_a_task_target_is_kept_as_it_was_given() -> None:
    target = TaskTarget("ledger", "rebuild", lease_ms=5_000, timeout_ms=7_000)
    assert job_of(job_attributes(replace(JOB, target=target))).target == target
    assert run_key("job_a", NOON) == handing.lapse(ready(), "EXPIRED", NOON).key
