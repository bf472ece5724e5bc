"""Recovery at the start of a process that is alone on its store: what must be done before anything is dispatched.

recount        jobs whose next occurrence was computed with other zone data are computed anew (W2)
release_lost   runs and redrives that the process before held when it died are free at once: the data folder's lock
               proves that it is gone, so nobody has to wait for its leases
epoch_floor    above which every claim has to be, where the store was restored from a backup
take_back      runs that workers held when the backup was taken: part of a restore, before anybody starts on the store
"""

from __future__ import annotations

import logging
from typing import Final

from schedkit.engine import restoring
from schedkit.engine.failure.redrive import let_go
from schedkit.engine.when.advance import recount
from schedkit.engine.when.zones import TZDATA_VERSION
from schedkit.engine.who.claim import release
from schedkit.errors import InvalidInput
from schedkit.model.jobs import DEFAULT_TENANT, job_of
from schedkit.model.keys import JOB_SORT, REDRIVING, RESTORED_KEY, TENANTS, ZONES_KEY, Index, TimerKind, jobs_listing
from schedkit.model.redrives import redrive_of
from schedkit.model.runs import RECLAIM_MARGIN_MS, Run, RunStatus, run_of
from schedkit.model.time import MAX_INSTANT, Instant
from schedkit.model.timers import Timer
from schedkit.model.writes import Applied, Key, Write
from schedkit.ports import World

PAGE: Final = 500

log = logging.getLogger(__name__)


async def recount_all(world: World) -> int:
    """Recompute every next_run_at that other zone data gave; returns how many jobs moved.

    The version that all of them were computed with is kept beside them, so that only a new one costs a walk.
    """
    item = await world.store.get(ZONES_KEY)
    if item is not None and item["version"] == TZDATA_VERSION:
        return 0
    moved = 0
    for tenant_id in await tenants(world):
        moved += await _recount(world, tenant_id)
    await world.store.apply(Write(ZONES_KEY, "recounted", (), {"version": TZDATA_VERSION}))
    return moved


async def tenants(world: World) -> list[str]:
    """Every tenant that may have jobs: the default one, and all for which there was ever a key."""
    found = [DEFAULT_TENANT]
    cursor: str | None = None
    while True:
        page = await world.store.page(TENANTS, limit=PAGE, cursor=cursor)
        found += [key.sort for key, _ in page.items if key.sort != DEFAULT_TENANT]
        cursor = page.cursor
        if cursor is None:
            return found


async def _recount(world: World, tenant_id: str) -> int:
    moved = 0
    cursor: str | None = None
    while True:
        page = await world.store.page(jobs_listing(tenant_id), index=Index.LISTED, limit=PAGE, cursor=cursor)
        for _, item in page.items:
            job = job_of(item)
            try:
                write = recount(job, world.shards, world.clock.now())
            except InvalidInput as error:
                log.error("%s keeps its next run as it was: %s", job.job_id, error)
                continue
            if write is not None and isinstance(await world.store.apply(write), Applied):
                moved += write.changes.get("next_run_at", job.next_run_at) != job.next_run_at
        cursor = page.cursor
        if cursor is None:
            return moved


async def release_lost(world: World) -> int:
    """End the leases of the process before this one; returns how many runs it held."""
    released = 0
    for shard in range(world.shards):
        last: Timer | None = None
        while page := await world.store.timers(f"{TimerKind.LEASE}#{shard}", until=MAX_INSTANT, limit=PAGE, after=last):
            last = page[-1]
            for timer in page:
                item = await world.store.get(timer.key)
                now = world.clock.now()
                if item is not None and item["status"] == RunStatus.RUNNING and _lives(run_of(item), now):
                    write = release(run_of(item), shards=world.shards, now=now)
                    released += isinstance(await world.store.apply(write), Applied)
    await _release_redrives(world)
    return released


async def _release_redrives(world: World) -> None:
    cursor: str | None = None
    while True:
        page = await world.store.page(REDRIVING, index=Index.LISTED, limit=PAGE, cursor=cursor)
        for _, item in page.items:
            if (write := let_go(redrive_of(item), world.clock.now())) is not None:
                await world.store.apply(write)
        cursor = page.cursor
        if cursor is None:
            return


async def epoch_floor(world: World) -> int:
    """The highest epoch that no claim may have; 0 in a store that was never restored."""
    return restoring.floor_of(await world.store.get(RESTORED_KEY))


async def take_back(world: World) -> int:
    """Take every run from the worker that holds it, under the floor of this world; returns how many."""
    taken = 0
    for shard in range(world.shards):
        last: Timer | None = None
        while page := await world.store.timers(f"{TimerKind.HELD}#{shard}", until=MAX_INSTANT, limit=PAGE, after=last):
            last = page[-1]
            for timer in page:
                run, job = await world.store.get(timer.key), await world.store.get(Key(timer.key.partition, JOB_SORT))
                if run is None or job is None or run["status"] != RunStatus.RUNNING:
                    continue
                write = restoring.take_back(
                    run_of(run), job_of(job), world.epoch_floor, shards=world.shards, now=world.clock.now()
                )
                taken += isinstance(await world.store.apply(write), Applied)
    return taken


def _lives(run: Run, now: Instant) -> bool:
    """Somebody would have to wait for this lease. One that was released has ended, so no page is walked in circles."""
    return run.lease_expires_at is not None and run.lease_expires_at + RECLAIM_MARGIN_MS >= now
