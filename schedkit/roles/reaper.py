"""The reaper: gives the runs of lost workers to others, a few at a time, and none while it may be us who are lost (H6).

    every 5 s   count the leases ─► what was heard of workers? ─► how many may go back now? ─► give back, or settle

It looks at the leases in the store and keeps nothing but its pace, so that a heartbeat which the API recorded before it
died counts like any other. After a start it waits until workers have been heard of for half a minute: they could not
call while we were down, and their leases may have ended for that alone.
"""

from __future__ import annotations

import logging
from typing import Final

from schedkit.engine.failure import reap as reaping
from schedkit.engine.failure.pace import HEARD_WITHIN_MS, Census, Pace, paced, spent
from schedkit.engine.failure.retry import judge_report
from schedkit.engine.who import cancel as cancelling
from schedkit.engine.who import handing
from schedkit.errors import QueueUnavailable, StoreUnavailable
from schedkit.model.calls import Dead, Unknown
from schedkit.model.jobs import Job
from schedkit.model.keys import PULSES, TimerKind
from schedkit.model.runs import AttemptOutcome, Run, RunStatus
from schedkit.model.tasks import Failed
from schedkit.model.time import MAX_INSTANT, SECOND_MS, Instant
from schedkit.model.timers import Timer
from schedkit.model.writes import Equals, Key, Write
from schedkit.ports import World
from schedkit.roles.settling import Settled, Settling

EVERY_MS: Final = 5 * SECOND_MS
PAGE: Final = 500
MOST_ENDED: Final = 10_000  # remembered in one pass; the rest comes in the next

log = logging.getLogger(__name__)


class Reaper:
    def __init__(self, world: World, settled: Settled = lambda run: None) -> None:
        """`settled` hears of every attempt that ended, with the run as it then stands."""
        self._world = world
        self._settling = Settling(world, settled)
        self._pace = Pace()
        self.ended = 0  # leases that had ended in the last pass
        self.live = 0
        self.given_back = 0  # since the start

    @property
    def suspended(self) -> str | None:
        """Why nothing is given back now."""
        return self._pace.suspended

    async def poll(self) -> int:
        """One pass; returns how many runs were taken from lost workers. Raises StoreUnavailable."""
        now = self._world.clock.now()
        ended = await self._count(now)
        if not self.live and not self.ended:
            return 0  # nobody holds anything: what is known of the pace stands until somebody does
        heard, heartbeats = await self._pulses(now)
        before = self._pace.suspended
        self._pace, allowed = paced(self._pace, Census(self.live, self.ended, heartbeats, heard), now)
        if ended and self._pace.suspended != before:
            log.warning("the reaper %s", f"waits: {self._pace.suspended}" if self._pace.suspended else "goes on")
        taken = 0
        for timer in ended[:allowed]:
            taken += await self._reap(timer.key)
        self._pace = spent(self._pace, taken)
        self.given_back += taken
        return taken

    async def serve(self) -> None:
        """Pass after pass, for ever."""
        while True:
            try:
                await self.poll()
            except (StoreUnavailable, QueueUnavailable) as error:
                log.error("reaping: %s", error)
            await self._world.clock.sleep(EVERY_MS)

    async def _count(self, now: Instant) -> list[Timer]:
        """Count all leases; those that have ended, the earliest first."""
        world = self._world
        ended: list[Timer] = []
        self.live = self.ended = 0
        for shard in range(world.shards):
            last: Timer | None = None
            while page := await world.store.timers(
                f"{TimerKind.HELD}#{shard}", until=MAX_INSTANT, limit=PAGE, after=last
            ):
                last = page[-1]
                over = [timer for timer in page if timer.at <= now]
                ended += over[: MOST_ENDED - len(ended)]
                self.ended += len(over)
                self.live += len(page) - len(over)
                await world.clock.sleep(0)  # others have their turn between two pages
        return sorted(ended, key=lambda timer: timer.order)

    async def _pulses(self, now: Instant) -> tuple[bool, int]:
        """(whether any worker was heard of, how many heartbeats were) in the last 30 s, by every API process."""
        recent = []
        cursor: str | None = None
        while True:
            page = await self._world.store.page(PULSES, limit=PAGE, cursor=cursor)
            recent += [item for _, item in page.items if item["heard_at"] >= now - HEARD_WITHIN_MS]
            cursor = page.cursor
            if cursor is None:
                return bool(recent), sum(item["heartbeats"] for item in recent)

    async def _reap(self, key: Key) -> bool:
        """Take one run from its worker, unless it is heard of after all."""
        run, job = await self._settling.run_and_job(key)
        if run is None or run.status is not RunStatus.RUNNING or run.task_queue is None:
            return False
        seen = run.lease_expires_at
        draw = self._world.chance.draw()

        def decide(run: Run, now: Instant) -> Write | None:
            if run.lease_expires_at != seen:
                return None
            write = self._decision(run, job, now, draw)
            # A heartbeat that lands before this write keeps the run where it is.
            return write and Write(
                write.key, write.arrow, (*write.conditions, Equals("lease_expires_at", seen)), write.changes
            )

        return await self._settling.end(run, job, decide) is not None

    def _decision(self, run: Run, job: Job, now: Instant, draw: float) -> Write | None:
        """What becomes of a run whose worker let its lease end."""
        match reaping.reap(run, job.delivery, now):
            case reaping.Wait():
                return None
            case Dead() | Unknown() as lost:
                return self._settling.judged(run, job, lost, now)
            case reaping.Reclaim():
                if run.cancel_requested or cancelling.unwanted(run, job) is not None:
                    begun = AttemptOutcome.LEASE_EXPIRED  # as far as anybody knows: it was in a worker's hands
                    return cancelling.cancel_claimed(run, cancelling.taken_away(run, job), now, begun)
                deadline = handing.deadline_of(run, job)
                if deadline is not None and deadline <= now:
                    late = Failed(f"not done within {(job.target.timeout_ms or 0) / SECOND_MS:g} s")
                    verdict = judge_report(
                        late, attempt=run.attempt, policy=job.retry, delivery=job.delivery, now=now, draw=draw
                    )
                    return self._settling.judged(run, job, verdict, now)
                return handing.give_back(run, lost=True, shards=self._world.shards, now=now)
