"""After a restore: epochs rise above all that were given out, and what cannot be known is said (C4, C6, C7)."""

from __future__ import annotations

from dataclasses import replace

from schedkit.engine import restoring
from schedkit.engine.who import claim as claiming
from schedkit.engine.who import handing
from schedkit.engine.who.claim import Holder
from schedkit.model.calls import RetryAt
from schedkit.model.jobs import Delivery, Job, TaskTarget
from schedkit.model.keys import TimerKind
from schedkit.model.runs import RECLAIM_MARGIN_MS, Run, RunStatus, run_attributes, run_of
from schedkit.model.timers import timer_of
from tests.engine.making import NOON, SHARDS, after, claimed, job, minute

FLOOR = minute(60)
LATER = FLOOR + 1_000
SINCE = Holder("node-2", "token-2", FLOOR)
QUEUED = job(target=TaskTarget("ledger"))


def held(of: Job = QUEUED) -> Run:
    """A run that a worker held when the backup was taken."""
    waiting = run_of(handing.ready(of, NOON, NOON, misfired=False, shards=SHARDS, now=NOON).result(None))
    write = claiming.claim_retry(waiting, of, holder=Holder("w-1", "token"), shards=SHARDS, now=NOON)
    return run_of(after(write, run_attributes(waiting)))


def test_a_store_that_was_never_restored_has_no_floor() -> None:
    assert restoring.floor_of(None) == 0
    assert claimed().epoch == 1


def test_the_floor_is_the_time_of_the_last_restore() -> None:
    first = after(restoring.mark(NOON, FLOOR), None)
    assert restoring.floor_of(first) == FLOOR
    assert restoring.floor_of(after(restoring.mark(NOON, LATER), first)) == LATER


def test_every_arrow_into_running_is_above_the_floor() -> None:
    fresh = claimed(at=NOON, now=LATER, holder=SINCE)
    assert (fresh.epoch, fresh.attempts[-1].epoch) == (FLOOR + 1, FLOOR + 1)

    before = claimed()
    reclaimed = run_of(
        after(
            claiming.reclaim(before, job(), holder=SINCE, shards=SHARDS, now=LATER + 10 * RECLAIM_MARGIN_MS),
            run_attributes(before),
        )
    )
    assert reclaimed.epoch == FLOOR + 1

    failed = claiming.settle(before, RetryAt(minute(1), "no"), called_at=NOON, shards=SHARDS, now=NOON)
    waiting = run_of(after(failed, run_attributes(before)))
    again = run_of(
        after(
            claiming.claim_retry(waiting, job(), holder=SINCE, shards=SHARDS, now=LATER),
            run_attributes(waiting),
        )
    )
    assert again.epoch == FLOOR + 1

    third = claiming.reclaim(again, job(), holder=SINCE, shards=SHARDS, now=LATER + minute(10) - NOON)
    assert run_of(after(third, run_attributes(again))).epoch == FLOOR + 2, "and from there on each is one higher"


def test_two_restores_of_one_backup_give_no_epoch_twice() -> None:
    """The second one comes later, and no run is claimed once a millisecond."""
    first = claimed(now=LATER, holder=Holder("node", "token", FLOOR))
    second = claimed(now=LATER + 2, holder=Holder("node", "token", FLOOR + 1_000))
    assert first.epoch < second.epoch


def test_a_run_is_taken_back_from_its_worker_as_the_same_attempt_and_under_no_old_epoch() -> None:
    run = held()
    write = restoring.take_back(run, QUEUED, FLOOR, shards=SHARDS, now=LATER)
    item = after(write, run_attributes(run))
    back = run_of(item)
    assert (back.status, back.epoch, back.attempt, back.reclaims) == (RunStatus.RETRY_WAIT, FLOOR, 1, 0)
    assert (back.lease_owner, back.lease_expires_at, back.claim_token) == (None, None, None)
    timer = timer_of(write.key, item)
    assert timer is not None
    assert (timer.kind, timer.at) == (TimerKind.TASK, LATER)
    assert not write.holds(run_attributes(run) | {"epoch": run.epoch + 1}), "another claim came between"


def test_a_run_that_may_run_once_only_is_unknown_when_it_is_taken_back() -> None:
    """C7: whether its worker did it cannot be known."""
    once = replace(QUEUED, delivery=Delivery.AT_MOST_ONCE)
    run = held(once)
    item = after(restoring.take_back(run, once, FLOOR, shards=SHARDS, now=LATER), run_attributes(run))
    assert item["status"] == RunStatus.UNKNOWN
    assert item["dead_partition"] == "DEAD#default"


def test_at_most_once_and_due_before_the_restore_is_not_called() -> None:
    due_before = claimed(now=LATER, holder=SINCE)
    assert restoring.unsure(due_before, Delivery.AT_MOST_ONCE, FLOOR) is not None
    assert restoring.unsure(due_before, Delivery.AT_LEAST_ONCE, FLOOR) is None
    due_after = claimed(at=FLOOR + 1, now=LATER, holder=SINCE)
    assert restoring.unsure(due_after, Delivery.AT_MOST_ONCE, FLOOR) is None
    assert restoring.unsure(claimed(), Delivery.AT_MOST_ONCE, 0) is None, "a store that was never restored"
