"""The redriver: starts what redrives and backfills ask for, at their pace (F6, W14).

    take ─► list a page of candidates, in order ─► wait for the gap ─► release a few, in one write ─┐
              ▲                     ▲                                                                │
              └── page done: pass ──┴── some time has passed: follow those that are open, turn ◄─────┘

Every write is conditional on the redrive as this process knows it, so one that was stopped, or replaced by another
holder, changes nothing any more. A release is conditional on what was known before the wait for the gap: whoever wrote
last, no release is closer to the one before it than the gap.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from typing import Final

from schedkit.engine.failure import redrive as redriving
from schedkit.engine.failure.redrive_pace import pace_of
from schedkit.errors import StoreUnavailable
from schedkit.model.jobs import Job
from schedkit.model.keys import REDRIVING, Index, parse_run_id, run_key
from schedkit.model.redrives import Redrive, Unfit, redrive_of
from schedkit.model.runs import Run, run_of
from schedkit.model.time import SECOND_MS, Instant
from schedkit.model.writes import Applied, Key, Refused, Write
from schedkit.ports import World
from schedkit.roles.candidates import PAGE, STORE_PATIENCE_MS, Fit, NotYet, candidates_of

LOOK_EVERY_MS: Final = 3 * SECOND_MS
ONE_BY_ONE_MS: Final = SECOND_MS // 2  # … at the one run for whose end the next one waits
NO_ROOM_MS: Final = 100  # until it is looked again whether a canary, or enough of what is open, has ended or begun

log = logging.getLogger(__name__)


class Redriver:
    """Takes up every redrive that nobody carries out, each in a task of its own."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._driving: dict[str, asyncio.Task[None]] = {}

    async def poll(self) -> int:
        """Take up what is to be done; returns how many redrives this process carries out."""
        cursor: str | None = None
        while True:
            page = await self._world.store.page(REDRIVING, index=Index.LISTED, limit=PAGE, cursor=cursor)
            for _, item in page.items:
                await self._take(redrive_of(item))
            cursor = page.cursor
            if cursor is None:
                return len(self._driving)

    async def serve(self) -> None:
        """Look for redrives for ever; when this is cancelled, those under way are left to the next process."""
        try:
            while True:
                try:
                    await self.poll()
                except StoreUnavailable as error:
                    log.error("looking for redrives: %s", error)
                await self._world.clock.sleep(LOOK_EVERY_MS)
        finally:
            for task in self._driving.values():
                task.cancel()

    async def _take(self, redrive: Redrive) -> None:
        world = self._world
        if redrive.redrive_id in self._driving:
            return
        write = redriving.take(redrive, world.node, world.clock.now())
        if write is not None and isinstance(outcome := await world.commit(write), Applied):
            task = asyncio.create_task(self._drive(redrive_of(outcome.item)))
            self._driving[redrive.redrive_id] = task

    async def _drive(self, redrive: Redrive) -> None:
        drive = Drive(self._world, redrive)
        try:
            await drive.to_its_end()
        except StoreUnavailable as error:
            log.error("%s: %s; it is taken up again", redrive.redrive_id, error)
        except Exception as error:
            log.exception("%s broke", redrive.redrive_id)
            await drive.broke(f"{type(error).__name__}: {error}")
        finally:
            self._driving.pop(redrive.redrive_id, None)


class Drive:
    """One redrive in the hands of one process, under one epoch."""

    def __init__(self, world: World, redrive: Redrive) -> None:
        self._world = world
        self._redrive = redrive
        self._epoch = redrive.epoch
        self._pace = pace_of(redrive.max_per_second)
        self._listed: deque[Run] = deque()  # the part of the page that is still to be released
        self._next_page: str | None = None
        self._in_page = False
        self._skipped: Counter[str] = Counter()
        self._candidates = candidates_of(redrive, world)
        self._follow_every_ms = ONE_BY_ONE_MS if redriving.one_by_one(redrive) else LOOK_EVERY_MS
        self._unstarted = list(redrive.open[-self._pace.unstarted :])
        self._followed_at: Instant | None = None

    async def to_its_end(self) -> None:
        """Until it has ended, waits for a person, or is another's. Raises StoreUnavailable."""
        while self._mine:
            await self._follow()
            if (write := redriving.turn(self._redrive, self._world.clock.now())) is not None:
                await self._commit(write)
            elif redriving.room(self._redrive) == 0:
                await self._world.clock.sleep(NO_ROOM_MS)
            elif not await self._listed_some():
                await self._page_done()
            else:
                await self._release()

    async def broke(self, error: str) -> None:
        """Make known that it cannot go on, if that can be written at all."""
        try:
            await self._world.commit(redriving.broke(self._redrive, error, self._world.clock.now()))
        except StoreUnavailable as trouble:
            log.error("%s: %s", self._redrive.redrive_id, trouble)

    @property
    def _mine(self) -> bool:
        return self._redrive.epoch == self._epoch and self._redrive.state.driven

    # ── what was released ────────────────────────────────────────────────────────────────────────────────────────

    async def _follow(self) -> None:
        """Every few seconds, count those that have ended, and keep the lease."""
        now = self._world.clock.now()
        if self._followed_at is not None and 0 <= now - self._followed_at < self._follow_every_ms:
            return
        self._followed_at = now
        runs = {run_id: await self._run(run_id) for run_id in self._redrive.open}
        if (write := redriving.follow(self._redrive, runs, self._world.clock.now())) is not None:
            await self._commit(write)

    async def _all_but_a_few_started(self) -> bool:
        """Those that wait to be started leave room for one batch more."""
        if len(self._unstarted) + self._pace.batch > self._pace.unstarted:
            found = [(run_id, await self._run(run_id)) for run_id in self._unstarted]
            ours = self._redrive.redrive_id
            self._unstarted = [run_id for run_id, run in found if not redriving.started(run, ours)]
        return len(self._unstarted) + self._pace.batch <= self._pace.unstarted

    async def _run(self, run_id: str) -> Run | None:
        item = await self._world.get_by(self._patience, run_key(*parse_run_id(run_id)))
        return run_of(item) if item is not None else None

    # ── what is to be released ───────────────────────────────────────────────────────────────────────────────────

    async def _listed_some(self) -> bool:
        """Candidates are at hand; False where the page has no more of them."""
        if not self._in_page:
            batch = await self._candidates.page(self._redrive)
            self._listed = deque(batch.runs)
            self._next_page = batch.cursor
            self._in_page = True
            if batch.left:
                self._skipped[Unfit.CHANGED.value] += batch.left
        return bool(self._listed)

    async def _page_done(self) -> None:
        write = redriving.passed(self._redrive, self._next_page, self._skipped, self._world.clock.now())
        await self._commit(write)
        if self._redrive.walked or self._redrive.cursor == self._next_page:
            self._in_page = False
            self._skipped.clear()

    async def _release(self) -> None:
        """The next few: wait for the gap, then release them if the redrive is still as it was before the wait."""
        world, redrive = self._world, self._redrive
        jobs: dict[str, Job] = {}
        runs = await self._fit(min(redriving.room(redrive), self._pace.batch), jobs)
        if not runs:
            return
        await world.clock.sleep(self._pace.gap_ms)
        if not await self._all_but_a_few_started():
            self._listed.extendleft(reversed(runs))
            return await world.clock.sleep(NO_ROOM_MS)
        now = world.clock.now()
        writes = redriving.release(redrive, runs, jobs, world.shards, now)
        changed = await self._commit(*writes)
        released = set(self._redrive.open)
        for run in reversed(runs):
            if run.run_id in released:
                self._unstarted.append(run.run_id)
            elif run_key(run.job_id, run.scheduled_for) == changed:
                self._skipped[Unfit.CHANGED.value] += 1
            else:
                self._listed.appendleft(run)

    async def _fit(self, count: int, jobs: dict[str, Job]) -> list[Run]:
        """Up to `count` of those at hand that may be started, and their jobs; what may not be is passed over."""
        runs: list[Run] = []
        while self._listed and len(runs) < count:
            run = self._listed.popleft()
            match await self._candidates.fit(run):
                case Fit(run, job):
                    jobs[run.job_id] = job
                    runs.append(run)
                case Unfit() as why:
                    self._skipped[why.value] += 1
                case None:
                    pass
                case NotYet():
                    self._listed.appendleft(run)
                    await self._world.clock.sleep(NO_ROOM_MS)
                    break
        return runs

    # ── writing ──────────────────────────────────────────────────────────────────────────────────────────────────

    async def _commit(self, *writes: Write) -> Key | None:
        """Write, and know the redrive as it stands then. Returns the key of another item that refused, if one did."""
        match await self._world.commit_by(self._patience, *writes):
            case Applied(items):
                self._redrive = redrive_of(items[0])
            case Refused(index=0, current=current):
                assert current is not None, "a redrive is kept while it is listed"
                self._redrive = redrive_of(current)
            case Refused(index=index):
                return writes[index].key
        return None

    @property
    def _patience(self) -> Instant:
        return self._world.clock.now() + STORE_PATIENCE_MS
