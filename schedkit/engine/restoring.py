"""After a restore: a store that shows the past must not act as if nothing had happened since.

    mark        the store remembers when it was restored, and from a backup of when
    floor       the time of the restore, in ms: every later claim is under a higher epoch
    take back   RUNNING, held by a worker → RETRY_WAIT, or UNKNOWN where its job is at most once
    unsure      claimed, at most once, and to start before the restore → UNKNOWN: it may have been called already

Why the floor is high enough: a claim and what ends it are two commits, each flushed to disk and answered over the
network, so no run is claimed a thousand times a second. Epochs count from 0, or from the restore before, so none that
was given out until now reaches the number of milliseconds that have passed until now. And two restores of one backup
have two floors.
"""

from __future__ import annotations

from dataclasses import replace

from schedkit.engine.who.claim import settle
from schedkit.engine.who.handing import give_back
from schedkit.model.calls import Unknown
from schedkit.model.jobs import Delivery, Job
from schedkit.model.keys import RESTORED_KEY
from schedkit.model.runs import Run, payload_of
from schedkit.model.time import Instant
from schedkit.model.writes import Item, Write


def mark(taken_at: Instant, now: Instant) -> Write:
    """The store was restored now, from a backup of `taken_at`."""
    return Write(RESTORED_KEY, "restore", (), {"taken_at": taken_at, "restored_at": now})


def floor_of(item: Item | None) -> int:
    """The highest epoch that nobody is given any more, as the item under RESTORED_KEY says; 0 where there is none."""
    return int(item["restored_at"]) if item is not None else 0


def take_back(run: Run, job: Job, epoch_floor: int, *, shards: int, now: Instant) -> Write:
    """Whoever holds it holds it in a world that is gone; under an epoch that is over, it can change nothing here."""
    if job.delivery is Delivery.AT_MOST_ONCE:
        lost = Unknown("a worker had it when the backup was taken; whether it was done cannot be known")
        return settle(run, lost, called_at=None, shards=shards, now=now, payload=payload_of(run, job))
    back = give_back(run, lost=False, shards=shards, now=now)
    return replace(back, arrow="take back", changes={**back.changes, "epoch": max(run.epoch, epoch_floor)})


def unsure(run: Run, delivery: Delivery, epoch_floor: int) -> Unknown | None:
    """Why a run that was just claimed must not be called: it was to start before the restore. None where it may be."""
    last = run.attempts[-1]
    if delivery is not Delivery.AT_MOST_ONCE or last.started_at - last.lag_ms > epoch_floor:
        return None
    return Unknown("it was due before the store was restored from a backup, and may have been called then")
