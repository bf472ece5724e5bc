"""Settling: the end of an attempt is recorded, and its job comes to hear of it. Executors and workers end runs alike.

settle ─► a final state ─► does the job end with it? then both in one write
                        └► does the job hold an occurrence back for it? then it is looked at
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from schedkit.engine.when import advance as advancing
from schedkit.engine.when.plan import LOOK_AGAIN_MS
from schedkit.engine.when.window import dispatch_at
from schedkit.engine.who import cancel as cancelling
from schedkit.engine.who import claim as claiming
from schedkit.errors import StoreUnavailable
from schedkit.model.calls import Verdict
from schedkit.model.jobs import Job, OverlapPolicy, job_of
from schedkit.model.keys import job_key, run_key
from schedkit.model.runs import RECLAIM_MARGIN_MS, Run, RunStatus, payload_of, run_of
from schedkit.model.time import Instant
from schedkit.model.writes import Applied, Key, Refused, Write
from schedkit.ports import World

STORE_PATIENCE_MS: Final = 10_000  # before a claim no lease is running; after this the message goes back

log = logging.getLogger(__name__)

Settled = Callable[[Run], None]
Decide = Callable[[Run, Instant], Write | None]  # what ends the attempt of the run as it stands; None: nothing does


class Settling:
    """What those who hold runs share: the writes they make while they hold one, and after it."""

    def __init__(self, world: World, settled: Settled = lambda run: None) -> None:
        """`settled` hears of every attempt that ended, with the run as it then stands."""
        self._world = world
        self._settled = settled

    async def settle(self, run: Run, job: Job, verdict: Verdict, called_at: Instant | None) -> Run | None:
        """Record this verdict, if the epoch is still the holder's."""
        return await self.end(run, job, lambda run, now: self.judged(run, job, verdict, now, called_at))

    def judged(self, run: Run, job: Job, verdict: Verdict, now: Instant, called_at: Instant | None = None) -> Write:
        """The write that ends this attempt with this verdict."""
        payload, shards = payload_of(run, job), self._world.shards
        return claiming.settle(run, verdict, called_at=called_at, shards=shards, now=now, payload=payload)

    async def end(self, run: Run, job: Job, decide: Decide) -> Run | None:
        """End this attempt, if the epoch is still the holder's; then let the job know.

        None where it was not ended: for a stale holder, or by decision.
        """
        world = self._world
        while True:
            now = world.clock.now()
            write = decide(run, now)
            if write is None:
                return None
            ending = await self._ending(run, write, now)
            outcome = await self.commit_while_held(run, write, *ending)
            if isinstance(outcome, Applied):
                return await self._heard(job, run_of(outcome.item), write.arrow)
            if outcome.index > 0:
                continue  # the job changed between our look and our write: look again
            assert outcome.current is not None, "a run that was claimed is there"
            current = run_of(outcome.current)
            if current.epoch != run.epoch or current.status is not RunStatus.RUNNING:
                if current.epoch == run.epoch and current.status == write.changes["status"]:
                    return await self._heard(job, current, write.arrow)  # by us, in a write whose reply was lost
                said(run, "stale write refused", logging.WARNING)
                return None
            run = current  # a cancel was requested, or the lease extended, meanwhile: decide again with it

    async def abandon(self, run: Run, job: Job | None) -> None:
        """Claimed, but the job was taken away meanwhile: nothing is called."""
        write = cancelling.cancel_claimed(run, cancelling.taken_away(run, job), self._world.clock.now())
        outcome = await self.commit_while_held(run, write)
        if job is not None and isinstance(outcome, Applied):
            await self.look(job, run_of(outcome.item))

    async def look(self, job: Job, ended: Run) -> None:
        """This run of the job has ended: let what it held back come up, or end the job."""
        world = self._world
        fresh = await self.job(job_key(job.job_id))
        if fresh is None or not advancing.waits_for_run(fresh):
            return
        now = world.clock.now()
        if fresh.held is not None:
            await self.commit(advancing.look_again(fresh, world.shards, now))
        else:
            is_last = fresh.last_run == ended.scheduled_for
            await self.close(fresh, ended if is_last else await self.run_at(fresh, fresh.last_run), now)

    async def close(self, job: Job, previous: Run | None, now: Instant) -> None:
        """The schedule is at its end: the job ends if its last run has, and waits for it otherwise."""
        if previous is None:
            await self.commit(advancing.finish(job, RunStatus.SKIPPED, job.status_reason, now))
        elif previous.status.final:
            await self.commit(advancing.finish(job, previous.status, previous.reason, now))
        else:
            await self.look_later(job, previous, now)

    async def look_later(self, job: Job, run: Run | None, now: Instant) -> None:
        """The end of this run wakes the job; should that be lost, a timer does. A held one may wait for its place."""
        if run is not None:
            at = max(run.not_before or run.lease_expires_at or now, now + LOOK_AGAIN_MS)
        else:
            at = now + LOOK_AGAIN_MS if job.held is None else dispatch_at(job, job.held)
        await self.commit(advancing.look_again(job, self._world.shards, at))

    async def job(self, key: Key) -> Job | None:
        item = await self._world.store.get(key)
        return job_of(item) if item is not None else None

    async def job_while_held(self, run: Run) -> Job | None:
        """A claim that is given up for one failed read costs its whole lease, so the read is tried again."""
        item = await self._world.get_by(_last_write_by(run, self._world.clock.now()), job_key(run.job_id))
        return job_of(item) if item is not None else None

    async def run_and_job(self, key: Key) -> tuple[Run | None, Job]:
        item = await self._world.store.get(key)
        run = run_of(item) if item is not None else None
        job = await self.job(Key(key.partition, job_key("").sort))
        assert job is not None, "a run stands under its job"
        return run, job

    async def run_at(self, job: Job, scheduled_for: Instant | None) -> Run | None:
        """One of the job's earlier runs, where it matters: for the overlap rule, and at the end of the schedule."""
        if scheduled_for is None or (job.overlap is OverlapPolicy.ALLOW and not advancing.waits_for_run(job)):
            return None
        item = await self._world.store.get(run_key(job.job_id, scheduled_for))
        return run_of(item) if item is not None else None

    async def commit(self, *writes: Write) -> Applied | Refused:
        return await self._world.commit_by(self._world.clock.now() + STORE_PATIENCE_MS, *writes)

    async def commit_while_held(self, run: Run, *writes: Write) -> Applied | Refused:
        """Every write after a claim is tried again while the lease lives, since it is idempotent."""
        return await self._world.commit_by(_last_write_by(run, self._world.clock.now()), *writes)

    async def _ending(self, run: Run, settled: Write, now: Instant) -> list[Write]:
        """The end of the job, where it ends with this run: both become true together, so nobody sees one without it."""
        status = RunStatus(settled.changes["status"])
        try:
            job = await self.job(job_key(run.job_id)) if status.final else None
        except StoreUnavailable:
            return []  # the settling waits for the store; the job is looked at after it
        if job is None or job.held is not None or not advancing.waits_for_run(job) or job.last_run != run.scheduled_for:
            return []
        return [advancing.finish(job, status, settled.changes["reason"], now)]

    async def _heard(self, job: Job, settled: Run, arrow: str) -> Run:
        """An attempt has been recorded: tell those who listen, and the job."""
        said(settled, arrow)
        self._settled(settled)
        if settled.status.final:
            await self.look(job, settled)
        return settled


def said(run: Run, arrow: str, level: int = logging.DEBUG) -> None:
    """One line for each arrow of a run."""
    lag_ms = run.attempts[-1].lag_ms if run.attempts else None
    log.log(
        level,
        "%s job=%s scheduled_for=%d epoch=%d attempt=%d lag_ms=%s",
        *(arrow, run.job_id, run.scheduled_for, run.epoch, run.attempt, lag_ms),
    )


def _last_write_by(run: Run, now: Instant) -> Instant:
    """When a holder stops trying: it may be wrong about the time by as much as others wait for it."""
    return (run.lease_expires_at or now) - RECLAIM_MARGIN_MS
