"""The ledger of a job over HTTP: was everything that was due accounted for? (W16)"""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter

from schedkit.api.access import CallerDep, Guarded, needs
from schedkit.api.jobs_in import instant_in
from schedkit.api.lookup import find_job
from schedkit.api.past import due_between, require_range, runs_between
from schedkit.api.past_out import LedgerOut
from schedkit.api.requests import When, WorldDep
from schedkit.engine.when import ledger
from schedkit.model.access import Role
from schedkit.model.jobs import Job
from schedkit.model.keys import RETENTION_MS
from schedkit.model.time import DAY_MS, Instant, rfc3339

MOST_NAMED: Final = 100  # of the occurrences that nothing accounts for

router = APIRouter(prefix="/v1/jobs", tags=["jobs"], route_class=Guarded)


@router.get("/{ref}/ledger", summary="What was expected in a range, and what became of each occurrence")
@needs(Role.VIEWER)
async def job_ledger(world: WorldDep, caller: CallerDep, ref: str, since: When = None, until: When = None) -> LedgerOut:
    """Of since <= time < until: by default of the day until now. Notes say what is known less well, or not at all."""
    job = await find_job(world, caller, ref)
    now = world.clock.now()
    to = instant_in(until, "until")
    to = now if to is None else to
    asked = instant_in(since, "since")
    asked = max(0, to - DAY_MS) if asked is None else asked
    require_range(asked, to)
    known = ledger.known_from(job, now)
    begin, end = max(asked, known), min(to, ledger.expected_until(job))
    kept = max(asked, now - RETENTION_MS)
    expected = await due_between(world, job, begin, end) if begin < end else []
    runs = await runs_between(world, job, kept, to) if kept < to else {}
    found = ledger.count(job, ledger.by_records(runs.values(), kept, min(known, to)) + expected, runs)
    return {
        "job_id": job.job_id,
        "name": job.name,
        "since": rfc3339(asked),
        "until": rfc3339(to),
        "known_from": rfc3339(known),
        "expected": found.expected,
        "ran": found.ran,
        "late": found.late,
        "cancelled": found.cancelled,
        "skipped": dict(sorted(found.skipped.items())),
        "missed": dict(sorted(found.missed.items())),
        "waiting": found.waiting,
        "unaccounted": len(found.unaccounted),
        "unaccounted_times": [rfc3339(at) for at in found.unaccounted[:MOST_NAMED]],
        "beside": found.beside,
        "balanced": not found.unaccounted,
        "notes": [*_known(job, asked, now), *_stopped(job, found.cancelled)],
    }


def _known(job: Job, asked: Instant, now: Instant) -> list[str]:
    notes, (made, known), begin = [], ledger.only_recorded(job), max(asked, now - RETENTION_MS)
    if made > begin:
        notes.append(f"made at {rfc3339(job.created_at)}: before that only what was backfilled is counted")
    if known > max(made, begin):
        notes.append(
            f"of what was due before {rfc3339(known)} only what has a record is counted: "
            "its schedule, and its zone data, have been as they are since then"
        )
    if asked < now - RETENTION_MS:
        notes.append(f"what was due before {rfc3339(now - RETENTION_MS)} is not counted: runs are kept for 30 days")
    return notes


def _stopped(job: Job, cancelled: int) -> list[str]:
    if not cancelled:
        return []
    again = f"schedkit job trigger {job.name or job.job_id}"
    return [f"{cancelled} of those that ran, somebody cancelled at work: a backfill leaves them; once more: {again}"]
