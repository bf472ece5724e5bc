"""What a target receives: the call with its key, its fencing token and the job's payload (F8)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from schedkit import __version__
from schedkit.engine.signing import signed_headers, signing_key
from schedkit.model.calls import Call, NotSent, Reply
from schedkit.model.jobs import HmacAuth, HttpTarget, Job
from schedkit.model.keys import run_id, stable_hash
from schedkit.model.runs import Run, payload_of
from schedkit.model.secrets import Missing, Secret
from schedkit.ports import Secrets, World

BODYLESS: Final = frozenset({"GET", "HEAD"})


async def make_call(run: Run, job: Job, world: World) -> Reply:
    """Call the target of this attempt, signed as of now where it has a secret; without the secret nothing is sent."""
    call = call_of(run, job, world.registered)
    auth = job.target.auth if isinstance(job.target, HttpTarget) else None
    if auth is not None:
        keys = await _signing_keys(auth, world.secrets)
        if isinstance(keys, NotSent):
            return keys
        signed = signed_headers(keys, call.headers["Idempotency-Key"], call.body or b"", world.clock.now())
        call = replace(call, headers={**call.headers, **signed})
    return await world.targets.call(call)


async def _signing_keys(auth: HmacAuth, secrets: Secrets) -> list[bytes] | NotSent:
    """One for each live secret. A secret that is missing may be there at the next attempt, so it is worth a retry."""
    keys = []
    for ref in auth.refs:
        match await secrets.read(ref):
            case Missing(why):
                return NotSent(f"the call could not be signed: {why}")
            case Secret(value):
                try:
                    keys.append(signing_key(value))
                except ValueError as error:
                    return NotSent(f"the call could not be signed with the secret {ref}: {error}")
    return keys


def call_of(run: Run, job: Job, registered: Mapping[str, str]) -> Call:
    """The call of this attempt. A target that is not registered (any more) gives a URL that is refused when called."""
    target = job.target
    assert isinstance(target, HttpTarget), "a worker's run is never called"
    key = run_id(run.job_id, run.scheduled_for)
    payload = payload_of(run, job)
    body = payload.encode() if payload is not None and target.method not in BODYLESS else None
    given = {name.lower() for name in target.headers}
    usual = {"User-Agent": f"schedkit/{__version__}", "Content-Type": "application/json" if body is not None else None}
    headers = {
        **{name: value for name, value in usual.items() if value is not None and name.lower() not in given},
        **target.headers,
        "Idempotency-Key": key,
        "X-Fencing-Token": str(run.epoch),
        "X-Attempt": str(run.attempt),
        "traceparent": traceparent(key, run.epoch),
    }
    return Call(
        url=target.url_under(registered) or "",
        method=target.method,
        headers=headers,
        body=body,
        timeout_ms=target.timeout_ms,
    )


def traceparent(key: str, epoch: int) -> str:
    """W3C trace context: one trace for all tries of a run, one span for each."""
    trace = f"{stable_hash(key):016x}{stable_hash(key + '/trace'):016x}"
    return f"00-{trace}-{stable_hash(f'{key}/{epoch}') or 1:016x}-01"
