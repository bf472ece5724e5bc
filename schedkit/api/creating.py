"""Creating a job: once for each Idempotency-Key, and one living job for each name."""

from __future__ import annotations

from typing import Final

from schedkit.api import bodies, strict_json
from schedkit.api.jobs_in import job_in
from schedkit.api.lookup import job_by_id
from schedkit.api.requests import MAX_KEY_CHARS
from schedkit.api.target_auth import own_secrets
from schedkit.engine.when import advance
from schedkit.errors import Conflict, InvalidInput, Reason, Unprocessable
from schedkit.model.access import Caller
from schedkit.model.jobs import Job, job_of
from schedkit.model.keys import idempotency_key_key, job_key, name_key, new_job_id
from schedkit.model.time import Instant
from schedkit.model.writes import Applied, Item, Write
from schedkit.ports import World

ID_CHANCE_BYTES: Final = 10


async def create(world: World, caller: Caller, body: bodies.JobCreate, key: str | None) -> tuple[Job, bool]:
    """(the job, whether it was there already under this Idempotency-Key).

    Raises InvalidInput, NotFound, TooLarge; Unprocessable (IDEMPOTENCY_KEY_REUSED); Conflict (NAME_IN_USE).
    """
    if key is not None and not (0 < len(key) <= MAX_KEY_CHARS and key.isprintable()):
        raise InvalidInput(
            Reason.INVALID_ARGUMENT,
            f"an Idempotency-Key has 1 to {MAX_KEY_CHARS} printable characters",
            field="Idempotency-Key",
        )
    digest = _digest(body)
    while True:  # again only where another create took the key or the name between our look and our write
        now = world.clock.now()
        used = (
            await world.store.get(idempotency_key_key(caller.tenant_id, caller.team_id, key))
            if key is not None
            else None
        )
        if used is not None and key is not None and (before := await _made_by(world, caller, used, now)) is not None:
            return _same(before, used, digest, key), True
        job = job_in(body, new_job_id(now, world.chance.bytes(ID_CHANCE_BYTES)), caller, world, now)
        own_secrets(job, caller)
        writes = [advance.create(job, world.shards)]
        if key is not None:
            writes.append(advance.take_key(job, key, digest, used))
        if job.name is not None:
            writes.append(await name_for(world, caller, job))
        outcome = await world.commit(*writes)
        if isinstance(outcome, Applied):
            return job_of(outcome.item), False


async def name_for(world: World, caller: Caller, job: Job) -> Write:
    """The write that claims the job's name. Raises Conflict (NAME_IN_USE) while another job lives under it."""
    assert job.name is not None, "only a named job takes a name"
    item = await world.store.get(name_key(job.tenant_id, job.name))
    held = await world.store.get(job_key(item["job_id"])) if item is not None else None
    holder = job_of(held) if held is not None else None
    if holder is not None and holder.name == job.name and not holder.status.ended and holder.job_id != job.job_id:
        raise _name_in_use(caller, holder)
    return advance.take_name(job, item)


def _name_in_use(caller: Caller, holder: Job) -> Conflict:
    """Another team's job is not told of, other than that it has the name: names are the tenant's."""
    if not caller.sees(holder.tenant_id, holder.team_id):
        detail, fix = f"another team of your tenant uses the name {holder.name!r}", ("choose another name",)
        return Conflict(Reason.NAME_IN_USE, detail, field="name", fix=fix)
    return Conflict(
        Reason.NAME_IN_USE,
        f"the name {holder.name!r} belongs to {holder.job_id}, which is {holder.status}",
        field="name",
        fix=(f"schedkit job update {holder.job_id} …", "choose another name"),
    )


async def _made_by(world: World, caller: Caller, used: Item, now: Instant) -> Job | None:
    """The job that this key made; None once its 24 hours are over."""
    return await job_by_id(world, caller, used["job_id"]) if now < used["expires_at"] else None


def _digest(body: bodies.JobCreate) -> str:
    """What the body means, whatever its blanks, the order of its names, or the defaults it spells out."""
    meaning = strict_json.canonical(body.model_dump(mode="json") | {"has_payload": "payload" in body.model_fields_set})
    return strict_json.digest(meaning)


def _same(before: Job, used: Item, digest: str, key: str) -> Job:
    if used["request_hash"] != digest:
        raise Unprocessable(
            Reason.IDEMPOTENCY_KEY_REUSED,
            f"the Idempotency-Key {key[:60]!r} was used for another body; it made job {before.job_id}",
            field="Idempotency-Key",
            why="one key stands for one request, so that a repeat can be told from a new wish",
            fix=("use a new key for a new job", f"schedkit job show {before.job_id}"),
        )
    return before
