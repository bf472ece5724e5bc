"""The executor: claims what is due, calls its target, and records what came of it (H1).

    due      plan ─► Start ─► claim ─► advance ─► call ─► judge ─► settle
                  └► Skip, Hold, Close, AutoResume: one write, and look again
    retry    RETRY_WAIT ─► claim ─► is the job still wanted? ─► call ─► judge ─► settle
    lease    RUNNING and its holder is lost ─► reclaim ─► call …, or UNKNOWN, or FAILED

A crash after any step leaves a state from which the next holder carries on: before the claim the job is still due;
after the claim the lease is; after the advance, the same; after the call the same key is called again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from schedkit.engine.failure import reap as reaping
from schedkit.engine.failure.retry import judge
from schedkit.engine.when import advance as advancing
from schedkit.engine.when.operate import resume
from schedkit.engine.when.plan import LOOK_AGAIN_MS, AutoResume, Close, Hold, NotDue, Skip, Start, plan
from schedkit.engine.when.window import dispatch_at
from schedkit.engine.who import cancel as cancelling
from schedkit.engine.who import claim as claiming
from schedkit.engine.who.claim import Holder
from schedkit.errors import StoreUnavailable
from schedkit.model.calls import Dead, Unknown, Verdict
from schedkit.model.jobs import Job, JobStatus, OverlapPolicy, job_of
from schedkit.model.keys import TimerKind, job_key, run_key
from schedkit.model.runs import RECLAIM_MARGIN_MS, Run, RunStatus, run_of
from schedkit.model.time import MINUTE_MS, Instant
from schedkit.model.timers import Timer
from schedkit.model.writes import Applied, Key, Refused, Write
from schedkit.ports import World
from schedkit.roles.calling import call_of

TOKEN_BYTES: Final = 12  # chance enough that no two claims ever share a token
LONGEST_WAIT_MS: Final = 1_000  # a wall clock that is set by seconds is noticed within this
STORE_PATIENCE_MS: Final = 10_000  # before a claim no lease is running; after this the message goes back

log = logging.getLogger(__name__)

Settled = Callable[[Run], None]


class Executor:
    """Handles one message at a time per call of `handle`; the pool decides how many handles run at once."""

    def __init__(self, world: World, settled: Settled = lambda run: None) -> None:
        """`settled` hears of every attempt that ended, with the run as it then stands."""
        self._world = world
        self._settled = settled
        self._holding: dict[Key, Run] = {}

    async def handle(self, timer: Timer) -> int | None:
        """Do what this timer asks for; or, by our clock, it is early (H3): in how many ms it should come again.

        Our clock may be behind the dispatcher's, or was set back. The message is put off, and not its timer put into a
        bucket: the dispatcher that sent it may be about to take the same one out. Raises StoreUnavailable.
        """
        if (early_ms := self._early_ms(timer)) is not None:
            return early_ms
        match timer.kind:
            case TimerKind.DUE:
                await self._due(timer.key)
            case TimerKind.RETRY:
                await self._retry(timer.key)
            case TimerKind.LEASE:
                await self._lease(timer.key)
        return self._early_ms(timer)  # it may have been set back between our first look and the next one

    def _early_ms(self, timer: Timer) -> int | None:
        early_ms = timer.at - self._world.clock.now()
        return min(early_ms, max(LONGEST_WAIT_MS, early_ms // 10), MINUTE_MS) if early_ms > 0 else None

    async def release_all(self) -> None:
        """End the leases of what is still held, so that another executor may start at once (F10)."""
        shards, now = self._world.shards, self._world.clock.now()
        releases = [claiming.release(run, shards=shards, now=now) for run in self._holding.values()]
        # A store in trouble leaves some of them as they are: those leases end by themselves.
        await asyncio.gather(*(self._world.commit(release) for release in releases), return_exceptions=True)

    # ── a job is due ─────────────────────────────────────────────────────────────────────────────────────────────

    async def _due(self, key: Key) -> None:
        world = self._world
        while (job := await self._job(key)) is not None:
            previous = await self._run_of(job, job.last_run)
            unended = await self._unended(job, previous)
            now = world.clock.now()
            match plan(job, unended is not None, now):
                case NotDue():
                    return await self._look_later(job, unended, now) if advancing.waits_for_run(job) else None
                case Close():
                    return await self._close(job, previous, now)
                case AutoResume():
                    await self._commit(resume(job, None, world.shards, now))
                case Hold():
                    await self._commit(advancing.hold(job, world.shards, now))
                case Skip() as skip:
                    await self._skip(job, skip, now)
                case Start() as start:
                    if await self._start(job, start, now):
                        return None

    async def _run_of(self, job: Job, scheduled_for: Instant | None) -> Run | None:
        """One of the job's earlier runs, where it matters: for the overlap rule, and at the end of the schedule."""
        if scheduled_for is None or (job.overlap is OverlapPolicy.ALLOW and not advancing.waits_for_run(job)):
            return None
        item = await self._world.store.get(run_key(job.job_id, scheduled_for))
        return run_of(item) if item is not None else None

    async def _unended(self, job: Job, previous: Run | None) -> Run | None:
        """The previous run, or the one triggered by hand, that has no final state yet (W13)."""
        for run in (previous, await self._run_of(job, job.last_triggered)):
            if run is not None and not run.status.final:
                return run
        return None

    async def _skip(self, job: Job, skip: Skip, now: Instant) -> None:
        """Record the skipped occurrences and move on, in one atomic write.

        One that a run stands for stays as it is. If that is the first of them, it was claimed by one that crashed
        before it advanced the job, and the job advances instead: this run counts, and the overlap rule knows of it.
        """
        world = self._world
        records = [claiming.skip(job, at, dispatch_at(job, at), skip.reason, now) for at in skip.occurrences]
        move = advancing.pass_by(job, skip.occurrences[-1], world.shards, now, held=skip.held, reason=skip.reason)
        while True:
            match await self._commit(move, *records):
                case Refused(index=0):
                    return
                case Refused(index=index, current=current):
                    there = run_of(current) if current is not None else None
                    if there is not None and there.scheduled_for == skip.occurrences[0] and _stands_for(there):
                        move, records = advancing.advance(job, advancing.claimed(there, job), world.shards, now), []
                    else:
                        del records[index - 1]
                case Applied():
                    return

    async def _close(self, job: Job, previous: Run | None, now: Instant) -> None:
        """The schedule is at its end: the job ends if its last run has, and waits for it otherwise."""
        if previous is None:
            await self._commit(advancing.finish(job, RunStatus.SKIPPED, job.status_reason, now))
        elif previous.status.final:
            await self._commit(advancing.finish(job, previous.status, previous.reason, now))
        else:
            await self._look_later(job, previous, now)

    async def _look_later(self, job: Job, run: Run | None, now: Instant) -> None:
        """The end of this run wakes the job; should that be lost, a timer does. A held one may wait for its place."""
        if run is not None:
            at = max(run.not_before or run.lease_expires_at or now, now + LOOK_AGAIN_MS)
        else:
            at = now + LOOK_AGAIN_MS if job.held is None else dispatch_at(job, job.held)
        await self._commit(advancing.look_again(job, self._world.shards, at))

    async def _start(self, job: Job, start: Start, now: Instant) -> bool:
        """Claim first, then advance, then call: rules 3 to 6. False where the job should be looked at again."""
        world = self._world
        holder = self._holder()
        due_at = dispatch_at(job, start.scheduled_for)
        write = claiming.claim(
            job, start.scheduled_for, due_at, misfired=start.misfired, holder=holder, shards=world.shards, now=now
        )
        run = claiming.won(await self._commit(write), holder)
        if run is None:  # it was claimed before, by one that may have crashed before it advanced the job
            return isinstance(await self._commit(advancing.advance(job, start, world.shards, now)), Applied)
        self._said(run, "claim")
        advanced = await self._advance(job, start, run)
        await (self._call(run, advanced) if advanced is not None else self._abandoned(run))
        return True

    async def _advance(self, job: Job, start: Start, run: Run) -> Job | None:
        """The job after it went on, or None where it was cancelled, paused or moved away before our claim landed."""
        world = self._world
        scheduled_for = start.scheduled_for
        while True:
            write = advancing.advance(job, start, world.shards, world.clock.now())
            outcome = await self._commit_while_held(run, write)
            if isinstance(outcome, Applied):
                return job_of(outcome.item)
            assert outcome.current is not None, "jobs are never deleted"
            fresh = job_of(outcome.current)
            still_there = fresh.held == scheduled_for if start.held else fresh.next_run_at == scheduled_for
            untouched = fresh.version == job.version  # no verb of an operator came between: only the schedule went on
            if fresh.last_run == scheduled_for or (untouched and not still_there):
                return fresh  # advanced by us, in a write whose reply was lost, or by another who saw our claim
            if fresh.status is not JobStatus.SCHEDULED or not still_there:
                return None
            job = fresh

    # ── a retry is due, a lease has ended ────────────────────────────────────────────────────────────────────────

    async def _retry(self, key: Key) -> None:
        world = self._world
        run, job = await self._run_and_job(key)
        now = world.clock.now()
        if run is None or run.status is not RunStatus.RETRY_WAIT or run.not_before is None or run.not_before > now:
            return
        if (reason := cancelling.unwanted(run, job, retried=True)) is not None:
            outcome = await self._commit(cancelling.cancel_waiting(run, reason, now))
            return await self._look(job, run_of(outcome.item)) if isinstance(outcome, Applied) else None
        holder = self._holder()
        write = claiming.claim_retry(run, job, holder=holder, shards=world.shards, now=now)
        claimed = claiming.won(await self._commit(write), holder)
        if claimed is None:
            return
        self._said(claimed, "claim")
        await self._call_if_wanted(claimed, retried=True)

    async def _lease(self, key: Key) -> None:
        world = self._world
        run, job = await self._run_and_job(key)
        if run is None or run.status is not RunStatus.RUNNING:
            return
        now = world.clock.now()
        mine = self._holding.get(key)
        if mine is not None and mine.epoch == run.epoch:  # we are calling it: it is our clock that went ahead
            await self._commit(claiming.extend(run, job, shards=world.shards, now=now))
            return
        match reaping.reap(run, job.delivery, now):
            case reaping.Wait():
                return  # its timer stands in the index for later
            case reaping.Reclaim():
                holder = self._holder()
                write = claiming.reclaim(run, job, holder=holder, shards=world.shards, now=now)
                claimed = claiming.won(await self._commit(write), holder)
                if claimed is not None:
                    self._said(claimed, "reclaim")
                    await self._call_if_wanted(claimed)
            case Dead() | Unknown() as verdict:
                await self._settle(run, job, verdict, None)

    async def _call_if_wanted(self, run: Run, *, retried: bool = False) -> None:
        """After the claim the job is read again: a cancel that was acknowledged before it stops the call (I4), and a
        pause stops a retry.

        Where the job still stands at this occurrence, the holder before us was lost between its claim and its advance,
        and the advance is ours to do.
        """
        job = await self._job_while_held(run)
        if job is None or run.cancel_requested or cancelling.unwanted(run, job, retried=retried) is not None:
            return await self._abandon(run, job)
        if not (retried or run.triggered) and run.scheduled_for in (job.held, job.next_run_at):
            left_to_us = job.status is JobStatus.SCHEDULED
            advanced = await self._advance(job, advancing.claimed(run, job), run) if left_to_us else None
            if advanced is None:
                return await self._abandoned(run)
            job = advanced
        await self._call(run, job)

    async def _abandoned(self, run: Run) -> None:
        """Its job would not go on with it: read why, and give the run up."""
        await self._abandon(run, await self._job_while_held(run))

    async def _abandon(self, run: Run, job: Job | None) -> None:
        """Claimed, but the job was taken away meanwhile: nothing is called."""
        write = cancelling.cancel_claimed(run, cancelling.taken_away(run, job), self._world.clock.now())
        outcome = await self._commit_while_held(run, write)
        if job is not None and isinstance(outcome, Applied):
            await self._look(job, run_of(outcome.item))

    # ── calling and settling ─────────────────────────────────────────────────────────────────────────────────────

    async def _call(self, run: Run, job: Job) -> None:
        key = run_key(run.job_id, run.scheduled_for)
        self._holding[key] = run
        try:
            await self._call_held(run, job)
        except Exception:
            self._let_go(key, run)
            raise
        self._let_go(key, run)  # a task that was cancelled keeps it: release_all ends its lease

    def _let_go(self, key: Key, run: Run) -> None:
        """While our settle was repeated for its lost reply, the retry that it made may have been claimed, here too."""
        if self._holding.get(key) is run:
            del self._holding[key]

    async def _call_held(self, run: Run, job: Job) -> None:
        world = self._world
        if (now := world.clock.now()) + job.target.timeout_ms > (run.lease_expires_at or now):  # it would outlive it
            outcome = await self._commit(claiming.extend(run, job, shards=world.shards, now=now))
            longer = claiming.won(outcome, Holder(world.node, run.claim_token or ""))
            if longer is None or now + job.target.timeout_ms > (longer.lease_expires_at or now):
                return self._said(run, "lease lost before the call", logging.WARNING)
            run = longer
        while (called_at := world.clock.now()) < run.due_at:  # the clock was set back after the claim (C2)
            await world.clock.sleep(min(run.due_at - called_at, LONGEST_WAIT_MS))
        reply = await world.targets.call(call_of(run, job, world.registered))
        now = world.clock.now()
        verdict = judge(
            reply, attempt=run.attempt, policy=job.retry, delivery=job.delivery, now=now, draw=world.chance.draw()
        )
        await self._settle(run, job, verdict, called_at)

    async def _settle(self, run: Run, job: Job, verdict: Verdict, called_at: Instant | None) -> None:
        """Record the end of this attempt, if the epoch is still ours; then let the job know."""
        world = self._world
        payload = run.payload if run.payload is not None else job.payload
        while True:
            now = world.clock.now()
            write = claiming.settle(run, verdict, called_at=called_at, shards=world.shards, now=now, payload=payload)
            ending = await self._ending(run, write, now)
            outcome = await self._commit_while_held(run, write, *ending)
            if isinstance(outcome, Applied):
                break
            if outcome.index > 0:
                continue  # the job changed between our look and our write: look again
            assert outcome.current is not None, "a run that was claimed is there"
            current = run_of(outcome.current)
            if current.epoch != run.epoch or current.status is not RunStatus.RUNNING:
                if current.epoch == run.epoch and current.status == write.changes["status"]:
                    return await self._heard(job, current, write.arrow)  # by us, in a write whose reply was lost
                return self._said(run, "stale write refused", logging.WARNING)
            run = current  # a cancel was requested while we called: decide again with it
        await self._heard(job, run_of(outcome.item), write.arrow)

    async def _ending(self, run: Run, settled: Write, now: Instant) -> list[Write]:
        """The end of the job, where it ends with this run: both become true together, so nobody sees one without it."""
        status = RunStatus(settled.changes["status"])
        try:
            job = await self._job(job_key(run.job_id)) if status.final else None
        except StoreUnavailable:
            return []  # the settling waits for the store; the job is looked at after it
        if job is None or job.held is not None or not advancing.waits_for_run(job) or job.last_run != run.scheduled_for:
            return []
        return [advancing.finish(job, status, settled.changes["reason"], now)]

    async def _heard(self, job: Job, settled: Run, arrow: str) -> None:
        """An attempt has been recorded: tell those who listen, and the job."""
        self._said(settled, arrow)
        self._settled(settled)
        if settled.status.final:
            await self._look(job, settled)

    async def _look(self, job: Job, ended: Run) -> None:
        """This run of the job has ended: let what it held back come up, or end the job."""
        world = self._world
        fresh = await self._job(job_key(job.job_id))
        if fresh is None or not advancing.waits_for_run(fresh):
            return
        now = world.clock.now()
        if fresh.held is not None:
            await self._commit(advancing.look_again(fresh, world.shards, now))
        else:
            is_last = fresh.last_run == ended.scheduled_for
            await self._close(fresh, ended if is_last else await self._run_of(fresh, fresh.last_run), now)

    # ── small things ─────────────────────────────────────────────────────────────────────────────────────────────

    async def _job(self, key: Key) -> Job | None:
        item = await self._world.store.get(key)
        return job_of(item) if item is not None else None

    async def _job_while_held(self, run: Run) -> Job | None:
        """A claim that is given up for one failed read costs its whole lease, so the read is tried again."""
        item = await self._world.get_by(_last_write_by(run, self._world.clock.now()), job_key(run.job_id))
        return job_of(item) if item is not None else None

    async def _run_and_job(self, key: Key) -> tuple[Run | None, Job]:
        item = await self._world.store.get(key)
        run = run_of(item) if item is not None else None
        job = await self._job(Key(key.partition, job_key("").sort))
        assert job is not None, "a run stands under its job"
        return run, job

    async def _commit(self, *writes: Write) -> Applied | Refused:
        return await self._world.commit_by(self._world.clock.now() + STORE_PATIENCE_MS, *writes)

    async def _commit_while_held(self, run: Run, *writes: Write) -> Applied | Refused:
        """Every write after a claim is tried again while the lease lives, since it is idempotent."""
        return await self._world.commit_by(_last_write_by(run, self._world.clock.now()), *writes)

    def _holder(self) -> Holder:
        return Holder(self._world.node, self._world.chance.bytes(TOKEN_BYTES).hex())

    def _said(self, run: Run, arrow: str, level: int = logging.DEBUG) -> None:
        lag_ms = run.attempts[-1].lag_ms if run.attempts else None
        log.log(
            level,
            "%s job=%s scheduled_for=%d epoch=%d attempt=%d lag_ms=%s",
            *(arrow, run.job_id, run.scheduled_for, run.epoch, run.attempt, lag_ms),
        )


def _stands_for(run: Run) -> bool:
    """It is the run of its occurrence: neither asked for by hand, nor given up before it was called."""
    return not run.triggered and run.status not in (RunStatus.CANCELLED, RunStatus.SKIPPED)


def _last_write_by(run: Run, now: Instant) -> Instant:
    """When a holder stops trying: it may be wrong about the time by as much as others wait for it."""
    return (run.lease_expires_at or now) - RECLAIM_MARGIN_MS
