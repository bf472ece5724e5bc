"""What requests about dead letters may say, and the filter that they become."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from schedkit.api.bodies import WHOLE, Body, Text, Time
from schedkit.api.jobs_in import instant_in
from schedkit.api.lookup import find_job
from schedkit.errors import InvalidInput, NotAllowed, Reason
from schedkit.model.access import Caller
from schedkit.model.keys import parse_run_id
from schedkit.model.redrives import DEFAULT_PER_SECOND, MAX_CANARY, MAX_NAMED_RUNS, MAX_PER_SECOND, DeadFilter
from schedkit.ports import World

MOST: Final = 1_000_000_000

Most = Annotated[int, Field(strict=True, ge=1, le=MOST), WHOLE]
Flag = Annotated[bool, Field(strict=True)]


class DeadFilterBody(Body):
    """Dead letters that are all of what is given; an empty filter is all of them. `job_id` may be a name."""

    target_id: Text | None = None
    job_id: Text | None = None
    tenant_id: Text | None = None
    reason: Text | None = None
    failed_after: Time | None = None
    failed_before: Time | None = None
    run_ids: Annotated[tuple[Text, ...], Field(max_length=MAX_NAMED_RUNS)] = ()


class RedriveBody(Body):
    """Start dead letters again: oldest first, at most `max_per_second`, the first `canary` of them by themselves."""

    filter: DeadFilterBody
    max_per_second: Annotated[int, Field(strict=True, ge=1, le=MAX_PER_SECOND), WHOLE] = DEFAULT_PER_SECOND
    canary: Annotated[int, Field(strict=True, ge=0, le=MAX_CANARY), WHOLE] = 0
    goes_on: Flag = False
    include_unknown: Flag = False
    limit: Most | None = None
    note: Text | None = None
    dry_run: Flag = False


class DropBody(Body):
    """Give dead letters up. `archive` keeps them in the history as long as any run."""

    filter: DeadFilterBody
    archive: Flag = True
    limit: Most | None = None
    note: Text | None = None
    dry_run: Flag = False


class RetryBody(Body):
    include_unknown: Flag = False


class ResolveBody(Body):
    as_: Annotated[Literal["SUCCEEDED", "FAILED"], Field(alias="as")]
    note: Text | None = None


async def filter_in(
    world: World,
    caller: Caller,
    *,
    target_id: str | None,
    job: str | None,
    reason: str | None,
    failed_after: str | None,
    failed_before: str | None,
    run_ids: tuple[str, ...] = (),
) -> DeadFilter:
    """The filter, of what the caller sees. Raises NotFound (JOB_NOT_FOUND), InvalidInput."""
    for text in run_ids:
        try:
            parse_run_id(text)
        except (ValueError, OverflowError) as error:
            raise InvalidInput(
                Reason.INVALID_ARGUMENT, f"{text[:120]!r} is no run id: {error}", field="filter.run_ids"
            ) from None
    after, before = instant_in(failed_after, "failed_after"), instant_in(failed_before, "failed_before")
    if after is not None and before is not None and before < after:
        raise InvalidInput(
            Reason.INVALID_ARGUMENT,
            f"failed_before {failed_before} lies before failed_after {failed_after}, so nothing can match",
            field="failed_before",
        )
    return DeadFilter(
        target_id=target_id,
        job_id=(await find_job(world, caller, job)).job_id if job is not None else None,
        reason=reason,
        failed_after=after,
        failed_before=before,
        run_ids=run_ids,
        team_id=caller.reach,
    )


async def filter_of(world: World, caller: Caller, body: DeadFilterBody) -> DeadFilter:
    """The filter of a body. Raises NotAllowed for the dead letters of another tenant; else as `filter_in`."""
    if body.tenant_id not in (None, caller.tenant_id):
        raise NotAllowed(
            Reason.FORBIDDEN,
            f"the dead letters of tenant {body.tenant_id} are not yours",
            field="filter.tenant_id",
            fix=("leave tenant_id away",),
        )
    return await filter_in(
        world,
        caller,
        target_id=body.target_id,
        job=body.job_id,
        reason=body.reason,
        failed_after=body.failed_after,
        failed_before=body.failed_before,
        run_ids=tuple(dict.fromkeys(body.run_ids)),
    )
