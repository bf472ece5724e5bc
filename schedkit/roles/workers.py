"""The workers' door: hands runs out, keeps their leases, and records how they end (H4).

    poll        take from the queue ─► claim ─► is the job still wanted? ─► the task
    heartbeat   its epoch is the run's ─► the lease ends later; is it to stop?
    complete    its epoch is the run's ─► settled as an executor settles a call
    release     its epoch is the run's ─► back to the queue at once

A stale epoch is refused with EPOCH_SUPERSEDED and changes nothing (C5): another worker has the run, or it has ended.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

from schedkit.engine import restoring
from schedkit.engine.failure.pace import HEARD_WITHIN_MS
from schedkit.engine.failure.retry import judge_report
from schedkit.engine.when.plan import EXPIRED, expired
from schedkit.engine.who import cancel as cancelling
from schedkit.engine.who import claim as claiming
from schedkit.engine.who import handing
from schedkit.engine.who.claim import Holder
from schedkit.errors import Conflict, Reason, StoreUnavailable
from schedkit.model.access import Caller
from schedkit.model.jobs import Job
from schedkit.model.keys import TimerKind, pulse_key, run_id, run_key, task_queue_line
from schedkit.model.runs import REASON_CANCEL_REQUESTED, Run, RunStatus, run_of
from schedkit.model.tasks import Ask, Ending, Failed, Stopped, Succeeded, Task, WorkerSeen
from schedkit.model.time import HOUR_MS, SECOND_MS, Instant
from schedkit.model.timers import Timer
from schedkit.model.writes import Applied, Write
from schedkit.ports import World
from schedkit.roles.settling import Settled, Settling, said

TOKEN_BYTES: Final = 12
STORE_PAUSE_MS: Final = 1_000
PULSE_EVERY_MS: Final = 5 * SECOND_MS
LOOKED_AT: Final = 200  # timers in one look at the store
FORGOTTEN_AFTER_MS: Final = 300 * SECOND_MS  # a worker that is not heard of for this long is no longer listed
MOST_LISTED: Final = 10_000

log = logging.getLogger(__name__)

Gone = Callable[[], Awaitable[bool]]  # whether who asked has hung up


class Workers:
    """What the API does for workers."""

    def __init__(self, world: World, settled: Settled = lambda run: None, *, look_every_ms: int | None = None) -> None:
        """`settled` hears of every attempt that ended, with the run as it then stands.

        `look_every_ms`: where each process has a queue of its own, how often a poll looks in the store for tasks that
        others put into theirs; None where the queue has them all.
        """
        self._world = world
        self._look_every_ms = look_every_ms
        self._settling = Settling(world, settled)
        self._seen: dict[tuple[str, str, str], WorkerSeen] = {}
        self._heartbeats: deque[tuple[Instant, int]] = deque()
        self._pulsed_at: Instant = 0
        self._closed = asyncio.Event()

    def close(self) -> None:
        """Answer whoever waits, and hand out nothing more (F10)."""
        self._closed.set()

    def seen(self, caller: Caller) -> list[WorkerSeen]:
        """The workers that were heard of in the last minutes, of those that the caller sees, by name."""
        self._forget(self._world.clock.now())
        theirs = (seen for seen in self._seen.values() if caller.sees(seen.tenant_id, seen.team_id))
        return sorted(theirs, key=lambda seen: (seen.worker_id, seen.team_id))

    async def poll(self, caller: Caller, ask: Ask, gone: Gone) -> list[Task]:
        """Up to `limit` tasks of the caller's team, each claimed by this worker; none where none came in time.

        Raises StoreUnavailable.
        """
        clock, queue = self._world.clock, self._world.queue
        tenant_id, team_id = caller.tenant_id, caller.team_id
        await self._heard(tenant_id, team_id, ask.worker_id, queue=ask.task_queue)
        line, until = task_queue_line(tenant_id, team_id, ask.task_queue), clock.now() + ask.wait_ms
        while not self._closed.is_set():
            wait_ms = min(ask.wait_ms, max(0, until - clock.now()))
            if self._look_every_ms is not None:
                wait_ms = min(wait_ms, self._look_every_ms)
            timers = await self._taken(line, ask.limit, wait_ms)
            if not timers and self._look_every_ms is not None:
                timers = await self._others(line, ask.limit)
            if timers and (self._closed.is_set() or await gone()):
                await asyncio.gather(*(queue.again(timer, 0) for timer in timers))
                break
            tasks = await self._claimed(ask, timers)
            if (seen := self._seen.get((tenant_id, team_id, ask.worker_id))) is not None:
                seen.held.update((task.run.job_id, task.run.scheduled_for) for task in tasks)
            if tasks or clock.now() >= until:
                return tasks
        return []

    async def heartbeat(self, run: Run, epoch: int, progress: str | None) -> Run:
        """The run with its lease renewed. Raises Conflict (EPOCH_SUPERSEDED)."""
        world = self._world
        await self._heard(run.tenant_id, run.team_id, run.lease_owner if run.epoch == epoch else None, heartbeats=1)
        job = await self._job(run)
        while True:
            _check(run, epoch)
            write = handing.heartbeat(run, job, progress, shards=world.shards, now=world.clock.now())
            outcome = await self._settling.commit_while_held(run, write)
            if isinstance(outcome, Applied):
                return run_of(outcome.item)
            assert outcome.current is not None, "a run that was claimed is there"
            run = run_of(outcome.current)

    async def complete(self, run: Run, epoch: int, ending: Ending) -> Run:
        """The run as it ended, or waits to be tried again. Saying it twice is saying it once.

        Raises Conflict: EPOCH_SUPERSEDED; CANCEL_NOT_REQUESTED for a stop that nobody had asked for.
        """
        await self._heard(run.tenant_id, run.team_id, run.lease_owner if run.epoch == epoch else None)
        if _said_before(run, epoch, ending):
            return run
        _check(run, epoch)
        self._let_go(run)
        job = await self._job(run)
        ended = await self._settling.end(run, job, self._decide(job, ending))
        if ended is None:
            current = await self._world.store.get(run_key(run.job_id, run.scheduled_for))
            assert current is not None, "a run that was claimed is there"
            if _said_before(run_of(current), epoch, ending):
                return run_of(current)
            raise _superseded(run_of(current), epoch)
        return ended

    async def release(self, run: Run, epoch: int) -> Run:
        """The run, back in its queue for another worker. Raises Conflict (EPOCH_SUPERSEDED)."""
        world = self._world
        if run.epoch == epoch and run.status is RunStatus.RETRY_WAIT and not run.reclaims:
            return run  # said before
        while True:
            _check(run, epoch)
            self._let_go(run)
            write = handing.give_back(run, lost=False, shards=world.shards, now=world.clock.now())
            outcome = await self._settling.commit_while_held(run, write)
            assert isinstance(outcome, Applied) or outcome.current is not None, "a run that was claimed is there"
            after = run_of(outcome.item if isinstance(outcome, Applied) else outcome.current or {})
            if isinstance(outcome, Applied):
                said(after, write.arrow)
                return after
            run = after

    # ── claiming ─────────────────────────────────────────────────────────────────────────────────────────────────

    async def _taken(self, line: str, limit: int, wait_ms: int) -> tuple[Timer, ...]:
        """What the queue has, or nothing once this door is closed."""
        take = asyncio.ensure_future(self._world.queue.take(line, limit, wait_ms))
        closed = asyncio.ensure_future(self._closed.wait())
        try:
            await asyncio.wait((take, closed), return_when=asyncio.FIRST_COMPLETED)
            return take.result() if take.done() else ()
        finally:
            take.cancel()
            closed.cancel()

    async def _others(self, line: str, limit: int) -> tuple[Timer, ...]:
        """Tasks of this line that stand in the store, whoever has them in its queue."""
        world = self._world
        found: list[Timer] = []
        for shard in range(world.shards):
            last: Timer | None = None
            while len(found) < limit and (
                page := await world.store.timers(
                    f"{TimerKind.TASK}#{shard}", until=world.clock.now(), limit=LOOKED_AT, after=last
                )
            ):
                last = page[-1]
                found += [timer for timer in page if timer.task_queue == line]
        return tuple(found[:limit])

    async def _claimed(self, ask: Ask, timers: tuple[Timer, ...]) -> list[Task]:
        """Those of them that are this worker's now. Raises StoreUnavailable where the store kept all of them."""
        answers = await asyncio.gather(*(self._claim(ask, timer) for timer in timers), return_exceptions=True)
        tasks = [answer for answer in answers if isinstance(answer, Task)]
        failed = [answer for answer in answers if isinstance(answer, BaseException)]
        for answer, timer in zip(answers, timers, strict=True):
            if isinstance(answer, BaseException):
                log.error("handing out %s: %s", timer.key, answer)
                await self._world.queue.again(timer, STORE_PAUSE_MS)
        if failed and not tasks:
            raise failed[0]
        return tasks

    async def _claim(self, ask: Ask, timer: Timer) -> Task | None:
        world, end = self._world, self._settling
        run, job = await end.run_and_job(timer.key)
        now = world.clock.now()
        if run is not None and run.status is RunStatus.RETRY_WAIT and (run.not_before or 0) > now:
            await world.queue.again(timer, (run.not_before or now) - now)
            return None
        claimed = await self._claim_waiting(ask, run, job, now) if run is not None else None
        await world.queue.done(timer)
        if claimed is None:
            return None
        said(claimed, "claim")
        fresh = await end.job_while_held(claimed)
        if fresh is None or claimed.cancel_requested or cancelling.unwanted(claimed, fresh, retried=True) is not None:
            await end.abandon(claimed, fresh)
            return None
        if (lost := restoring.unsure(claimed, fresh.delivery, world.epoch_floor)) is not None:
            await end.settle(claimed, fresh, lost, None)
            return None
        return Task(claimed, fresh, handing.deadline_of(claimed, fresh))

    async def _claim_waiting(self, ask: Ask, run: Run, job: Job, now: Instant) -> Run | None:
        """The run, if it is this worker's now; one that should not run, or not from this queue, goes where it must."""
        shards, end = self._world.shards, self._settling
        if run.status is not RunStatus.RETRY_WAIT or run.not_before is None:
            return None
        reason = cancelling.unwanted(run, job, retried=True)
        asked_for = run.triggered or run.backfilled  # somebody wants it, however late
        lapsed = not (run.attempts or asked_for) and expired(job, run.scheduled_for, now)
        if reason is not None or lapsed:
            write = cancelling.cancel_waiting(run, reason, now) if reason else handing.lapse(run, EXPIRED, now)
            outcome = await end.commit(write)
            if isinstance(outcome, Applied):
                await end.look(job, run_of(outcome.item))
            return None
        if not handing.belongs(run, job):
            await end.commit(handing.reroute(run, job, shards=shards, now=now))
            return None
        token = self._world.chance.bytes(TOKEN_BYTES).hex()
        holder = Holder(ask.worker_id, token, self._world.epoch_floor)
        return claiming.won(
            await end.commit(claiming.claim_retry(run, job, holder=holder, shards=shards, now=now)), holder
        )

    # ── ending ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _decide(self, job: Job, ending: Ending) -> Callable[[Run, Instant], Write]:
        draw = self._world.chance.draw()

        def decide(run: Run, now: Instant) -> Write:
            if isinstance(ending, Stopped):
                if not run.cancel_requested:
                    raise Conflict(
                        Reason.CANCEL_NOT_REQUESTED,
                        f"nobody asked for {run_id(run.job_id, run.scheduled_for)} to be stopped",
                        why="a run ends CANCELLED only where its cancellation was asked for",
                        fix=("complete it as FAILED, or release it for another worker",),
                    )
                return cancelling.cancel_claimed(run, REASON_CANCEL_REQUESTED, now)
            verdict = judge_report(
                ending, attempt=run.attempt, policy=job.retry, delivery=job.delivery, now=now, draw=draw
            )
            return self._settling.judged(run, job, verdict, now)

        return decide

    async def _job(self, run: Run) -> Job:
        job = await self._settling.job_while_held(run)
        assert job is not None, "a run stands under its job"
        return job

    # ── who is alive ─────────────────────────────────────────────────────────────────────────────────────────────

    async def _heard(
        self, tenant_id: str, team_id: str, worker_id: str | None, *, queue: str = "", heartbeats: int = 0
    ) -> None:
        """A worker called: it is listed, and the reaper comes to hear of it within some seconds (H6)."""
        now = self._world.clock.now()
        if worker_id is not None:
            name = tenant_id, team_id, worker_id
            seen = self._seen.pop(name, None) or WorkerSeen(worker_id, tenant_id, team_id, now, now)
            self._seen[name] = seen  # the last heard of stands last
            seen.last_at = now
            seen.queues |= {queue} - {""}
        if heartbeats:
            self._heartbeats.append((now, heartbeats))
        if abs(now - self._pulsed_at) >= PULSE_EVERY_MS:
            self._pulsed_at = now
            self._forget(now)
            await self._pulse(now)

    def _let_go(self, run: Run) -> None:
        if (seen := self._seen.get((run.tenant_id, run.team_id, run.lease_owner or ""))) is not None:
            seen.held.discard((run.job_id, run.scheduled_for))

    async def _pulse(self, now: Instant) -> None:
        while self._heartbeats and not now - HEARD_WITHIN_MS <= self._heartbeats[0][0] <= now:
            self._heartbeats.popleft()
        count = sum(count for _, count in self._heartbeats)
        changes = {"heard_at": now, "heartbeats": count, "expires_at": now + HOUR_MS}
        try:
            await self._world.store.apply(Write(pulse_key(self._world.node), "pulse", (), changes))
        except StoreUnavailable as error:
            log.error("saying that workers were heard of: %s", error)

    def _forget(self, now: Instant) -> None:
        while self._seen:
            key, first = next(iter(self._seen.items()))
            if abs(now - first.last_at) < FORGOTTEN_AFTER_MS and len(self._seen) <= MOST_LISTED:
                return
            del self._seen[key]


def _check(run: Run, epoch: int) -> None:
    if run.epoch != epoch or run.status is not RunStatus.RUNNING:
        raise _superseded(run, epoch)


def _superseded(run: Run, epoch: int) -> Conflict:
    key = run_id(run.job_id, run.scheduled_for)
    return Conflict(
        Reason.EPOCH_SUPERSEDED,
        f"epoch {epoch} of {key} is over: it is {run.status}, under epoch {run.epoch}",
        field="epoch",
        why="its lease had ended, or it was settled; another worker may have it, so nothing was changed",
        fix=("stop this task and write nothing more for it", f"schedkit run show {key}"),
        extra={"epoch": run.epoch, "run_status": run.status.value},
    )


def _said_before(run: Run, epoch: int, ending: Ending) -> bool:
    """This ending was recorded, and the answer was lost on its way."""
    if run.epoch != epoch or run.status is RunStatus.RUNNING or not run.attempts:
        return False
    match ending:
        case Succeeded():
            return run.status in (RunStatus.SUCCEEDED, RunStatus.SUCCEEDED_AFTER_CANCEL)
        case Failed(error):
            return run.attempts[-1].epoch == epoch and (run.attempts[-1].error or "").startswith(error)
        case Stopped():
            return run.status is RunStatus.CANCELLED
