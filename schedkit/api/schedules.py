"""Schedules over HTTP: what a schedule would do, before anything is created (W5)."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends

from schedkit.api import bodies
from schedkit.api.access import Guarded, Kept, needs
from schedkit.api.jobs_in import instant_in, schedule_in
from schedkit.api.jobs_out import PreviewOut
from schedkit.api.requests import WorldDep, body_of
from schedkit.api.views import occurrence_out
from schedkit.engine.when import occurrences
from schedkit.engine.when.window import offset_ms
from schedkit.model.access import Role
from schedkit.model.schedules import Occurrence, Once, Schedule
from schedkit.model.time import SECOND_MS, Instant
from schedkit.ports import World

PREVIEW_STEP: Final = 20  # occurrences computed between two turns of everybody else

router = APIRouter(prefix="/v1", tags=["schedules"], route_class=Guarded)


@router.post("/schedules:preview", summary="The next occurrences of a schedule")
@needs(Role.VIEWER, Kept.NEVER)
async def preview(world: WorldDep, body: Annotated[Any, Depends(body_of(bodies.PreviewBody))]) -> PreviewOut:
    """The next `count` occurrences strictly after `after` (default: now), with a note on each DST effect."""
    now = world.clock.now()
    given = instant_in(body.after, "after")
    after = now if given is None else given
    schedule, notes = schedule_in(body.schedule, after)
    if isinstance(schedule, Once):
        if given is None:
            occurrences.refuse_past(schedule, now)
    else:
        occurrences.check(schedule, after)
    shift_ms = offset_ms(body.job_id, body.dispatch_window_seconds * SECOND_MS) if body.job_id else 0
    found = await upcoming(world, schedule, after, body.count)
    shown = [occurrence_out(occurrence, occurrence.scheduled_for + shift_ms) for occurrence in found]
    if isinstance(schedule, Once) and shown:
        shown[0]["notes"] = [*notes, *(note for note in shown[0]["notes"] if note not in notes)]
    return {"occurrences": shown}


async def upcoming(world: World, schedule: Schedule, after: Instant, count: int) -> list[Occurrence]:
    """The next `count` occurrences strictly after `after`; a long row of them takes turns with everything else."""
    found: list[Occurrence] = []
    while len(found) < count and (occurrence := occurrences.next_after(schedule, after)) is not None:
        found.append(occurrence)
        after = occurrence.scheduled_for
        if len(found) % PREVIEW_STEP == 0:
            await world.clock.sleep(0)
    return found
