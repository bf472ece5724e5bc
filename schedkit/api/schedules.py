"""Schedules over HTTP: what a schedule would do, before anything is created (W5)."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends

from schedkit.api import bodies
from schedkit.api.jobs_in import instant_in, schedule_in
from schedkit.api.requests import WorldDep, body_of
from schedkit.api.views import occurrence_out
from schedkit.engine.when import occurrences
from schedkit.engine.when.window import offset_ms
from schedkit.model.schedules import Once
from schedkit.model.time import SECOND_MS

PREVIEW_STEP: Final = 20

router = APIRouter(prefix="/v1", tags=["schedules"])


@router.post("/schedules:preview", summary="The next occurrences of a schedule")
async def preview(
    world: WorldDep, body: Annotated[Any, Depends(body_of(bodies.PreviewBody))]
) -> dict[str, list[dict[str, Any]]]:
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
    shown: list[dict[str, Any]] = []
    while len(shown) < body.count and (found := occurrences.next_after(schedule, after)) is not None:
        shown.append(occurrence_out(found, found.scheduled_for + shift_ms))
        after = found.scheduled_for
        if len(shown) % PREVIEW_STEP == 0:
            await world.clock.sleep(0)  # a long preview takes turns with everything else
    if isinstance(schedule, Once) and shown:
        shown[0]["notes"] = [*notes, *(note for note in shown[0]["notes"] if note not in notes)]
    return {"occurrences": shown}
