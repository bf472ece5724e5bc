"""The executor: claims what is due, calls its target, and records what came of it (H1).

    due      plan ─► Start ─► claim ─► advance ─► call ─► judge ─► settle
                  └► Skip, Hold, Close, AutoResume: one write, and look again
              └► and for a task queue: advance and ready in one write; a worker claims it (workers.py)
    retry    RETRY_WAIT ─► claim ─► is the job still wanted? ─► call ─► judge ─► settle
    lease    RUNNING and its holder is lost ─► reclaim ─► call …, or UNKNOWN, or FAILED

A crash after any step leaves a state from which the next holder carries on: before the claim the job is still due;
after the claim the lease is; after the advance, the same; after the call the same key is called again.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from schedkit.engine import restoring
from schedkit.engine.failure import reap as reaping
from schedkit.engine.failure.retry import judge
from schedkit.engine.when import advance as advancing
from schedkit.engine.when.operate import resume
from schedkit.engine.when.plan import AutoResume, Close, Hold, NotDue, Skip, Start, plan
from schedkit.engine.when.window import dispatch_at
from schedkit.engine.who import cancel as cancelling
from schedkit.engine.who import claim as claiming
from schedkit.engine.who import handing
from schedkit.engine.who.claim import Holder
from schedkit.model.calls import Dead, Unknown
from schedkit.model.jobs import HttpTarget, Job, JobStatus, TaskTarget, job_of
from schedkit.model.keys import TimerKind, run_key
from schedkit.model.runs import Run, RunStatus, run_of
from schedkit.model.time import MINUTE_MS, Instant
from schedkit.model.timers import Timer
from schedkit.model.writes import Applied, Key, Outcome, Refused, Write
from schedkit.ports import World
from schedkit.roles.calling import make_call
from schedkit.roles.settling import Settled, Settling, said

TOKEN_BYTES: Final = 12  # chance enough that no two claims ever share a token
LONGEST_WAIT_MS: Final = 1_000  # a wall clock that is set by seconds is noticed within this

log = logging.getLogger(__name__)


class Executor:
    """Handles one message at a time per call of `handle`; the pool decides how many handles run at once."""

    def __init__(self, world: World, settled: Settled = lambda run: None) -> None:
        """`settled` hears of every attempt that ended, with the run as it then stands."""
        self._world = world
        self._settling = Settling(world, settled)
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
        while (item := await world.store.get(key)) is not None:
            job = job_of(item)
            previous = await self._settling.run_at(job, job.last_run)
            unended = await self._unended(job, previous)
            now = world.clock.now()
            match plan(job, unended is not None, now):
                case NotDue():
                    # A message that is older than the job's timer sets no other one, or every double would live on.
                    if advancing.waits_for_run(job) and (item.get("timer_at") or 0) <= now:
                        await self._settling.look_later(job, unended, now)
                    return None
                case Close():
                    return await self._settling.close(job, previous, now)
                case AutoResume():
                    await self._settling.commit(resume(job, None, world.shards, now))
                case Hold():
                    await self._settling.commit(advancing.hold(job, world.shards, now))
                case Skip() as skip:
                    await self._skip(job, skip, now)
                case Start() as start:
                    start_it = self._hand_over if isinstance(job.target, TaskTarget) else self._start
                    if await start_it(job, start, now):
                        return None

    async def _unended(self, job: Job, previous: Run | None) -> Run | None:
        """The previous run, or the one triggered by hand, that has no final state yet (W13)."""
        for run in (previous, await self._settling.run_at(job, job.last_triggered)):
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
            match await self._settling.commit(move, *records):
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

    async def _start(self, job: Job, start: Start, now: Instant) -> bool:
        """Claim first, then advance, then call: rules 3 to 6. False where the job should be looked at again."""
        world = self._world
        holder = self._holder()
        due_at = dispatch_at(job, start.scheduled_for)
        write = claiming.claim(
            job, start.scheduled_for, due_at, misfired=start.misfired, holder=holder, shards=world.shards, now=now
        )
        outcome = await self._settling.commit(write)
        run = claiming.won(outcome, holder)
        if run is None:  # it was claimed before, by one that may have crashed before it advanced the job
            return isinstance(await self._settling.commit(self._after(job, start, outcome, now)), Applied)
        said(run, "claim")
        advanced = await self._advance(job, start, run)
        await (self._call(run, advanced) if advanced is not None else self._abandoned(run))
        return True

    async def _hand_over(self, job: Job, start: Start, now: Instant) -> bool:
        """The run waits in its task queue, and the job goes on: both in one write. False: look at the job again."""
        shards = self._world.shards
        due_at = dispatch_at(job, start.scheduled_for)
        move = advancing.advance(job, start, shards, now)
        made = handing.ready(job, start.scheduled_for, due_at, misfired=start.misfired, shards=shards, now=now)
        match await self._settling.commit(move, made):
            case Applied(items=(_, item)):
                said(run_of(item), "ready")
                return True
            case Refused(index=0):
                return False
            case refused:  # its run is there: it was claimed when the job still had a URL, by one that crashed after it
                return isinstance(await self._settling.commit(self._after(job, start, refused, now)), Applied)

    def _after(self, job: Job, start: Start, refused: Outcome, now: Instant) -> Write:
        """The job goes on after an occurrence that has a record: of a run, or of one that an operator skipped."""
        assert isinstance(refused, Refused), "what is there is why"
        there = run_of(refused.current) if refused.current is not None else None
        if there is None or there.status is not RunStatus.SKIPPED:
            return advancing.advance(job, start, self._world.shards, now)
        reason = there.reason or RunStatus.SKIPPED
        return advancing.pass_by(job, start.scheduled_for, self._world.shards, now, reason=reason, held=start.held)

    async def _advance(self, job: Job, start: Start, run: Run) -> Job | None:
        """The job after it went on, or None where it was cancelled, paused or moved away before our claim landed."""
        world = self._world
        scheduled_for = start.scheduled_for
        while True:
            write = advancing.advance(job, start, world.shards, world.clock.now())
            outcome = await self._settling.commit_while_held(run, write)
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
        run, job = await self._settling.run_and_job(key)
        now = world.clock.now()
        if run is None or run.status is not RunStatus.RETRY_WAIT or run.not_before is None or run.not_before > now:
            return
        if (reason := cancelling.unwanted(run, job, retried=True)) is not None:
            outcome = await self._settling.commit(cancelling.cancel_waiting(run, reason, now))
            return await self._settling.look(job, run_of(outcome.item)) if isinstance(outcome, Applied) else None
        if not handing.belongs(run, job):
            await self._settling.commit(handing.reroute(run, job, shards=world.shards, now=now))
            return
        holder = self._holder()
        write = claiming.claim_retry(run, job, holder=holder, shards=world.shards, now=now)
        claimed = claiming.won(await self._settling.commit(write), holder)
        if claimed is None:
            return
        said(claimed, "claim")
        await self._call_if_wanted(claimed, retried=True)

    async def _lease(self, key: Key) -> None:
        world = self._world
        run, job = await self._settling.run_and_job(key)
        if run is None or run.status is not RunStatus.RUNNING:
            return
        now = world.clock.now()
        mine = self._holding.get(key)
        if mine is not None and mine.epoch == run.epoch:  # we are calling it: it is our clock that went ahead
            await self._settling.commit(claiming.extend(run, job, shards=world.shards, now=now))
            return
        match reaping.reap(run, job.delivery, now):
            case reaping.Wait():
                return  # its timer stands in the index for later
            case reaping.Reclaim():
                holder = self._holder()
                write = claiming.reclaim(run, job, holder=holder, shards=world.shards, now=now)
                claimed = claiming.won(await self._settling.commit(write), holder)
                if claimed is not None:
                    said(claimed, "reclaim")
                    await self._call_if_wanted(claimed)
            case Dead() | Unknown() as verdict:
                await self._settling.settle(run, job, verdict, None)

    async def _call_if_wanted(self, run: Run, *, retried: bool = False) -> None:
        """After the claim the job is read again: a cancel that was acknowledged before it stops the call (I4), and a
        pause stops a retry.

        Where the job still stands at this occurrence, the holder before us was lost between its claim and its advance,
        and the advance is ours to do.
        """
        job = await self._settling.job_while_held(run)
        if job is None or run.cancel_requested or cancelling.unwanted(run, job, retried=retried) is not None:
            return await self._settling.abandon(run, job)
        if not (retried or run.triggered) and run.scheduled_for in (job.held, job.next_run_at):
            left_to_us = job.status is JobStatus.SCHEDULED
            advanced = await self._advance(job, advancing.claimed(run, job), run) if left_to_us else None
            if advanced is None:
                return await self._abandoned(run)
            job = advanced
        await self._call(run, job)

    async def _abandoned(self, run: Run) -> None:
        """Its job would not go on with it: read why, and give the run up."""
        await self._settling.abandon(run, await self._settling.job_while_held(run))

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
        if not isinstance(job.target, HttpTarget):  # edited since the claim: a worker's now
            let_go = handing.give_back(run, lost=False, shards=world.shards, now=world.clock.now())
            await self._settling.commit_while_held(run, let_go)
            return
        if (lost := restoring.unsure(run, job.delivery, world.epoch_floor)) is not None:
            await self._settling.settle(run, job, lost, None)
            return
        timeout_ms = job.target.timeout_ms
        if (now := world.clock.now()) + timeout_ms > (run.lease_expires_at or now):  # it would outlive it
            outcome = await self._settling.commit(claiming.extend(run, job, shards=world.shards, now=now))
            longer = claiming.won(outcome, Holder(world.node, run.claim_token or ""))
            if longer is None or now + timeout_ms > (longer.lease_expires_at or now):
                return said(run, "lease lost before the call", logging.WARNING)
            run = longer
        while (called_at := world.clock.now()) < run.due_at:  # the clock was set back after the claim (C2)
            await world.clock.sleep(min(run.due_at - called_at, LONGEST_WAIT_MS))
        reply = await make_call(run, job, world)
        now = world.clock.now()
        verdict = judge(
            reply, attempt=run.attempt, policy=job.retry, delivery=job.delivery, now=now, draw=world.chance.draw()
        )
        await self._settling.settle(run, job, verdict, called_at)

    # ── small things ─────────────────────────────────────────────────────────────────────────────────────────────

    def _holder(self) -> Holder:
        world = self._world
        return Holder(world.node, world.chance.bytes(TOKEN_BYTES).hex(), world.epoch_floor)


def _stands_for(run: Run) -> bool:
    """It is the run of its occurrence: neither asked for by hand, nor given up before it was called."""
    return not run.triggered and run.status not in (RunStatus.CANCELLED, RunStatus.SKIPPED)
