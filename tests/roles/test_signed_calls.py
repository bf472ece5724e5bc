"""Signed calls: each attempt signed as of its own time, and nothing sent where the secret is missing (F8)."""

from __future__ import annotations

from typing import Any

import pytest

from schedkit.adapters.memory.secrets import MemorySecrets
from schedkit.model.calls import Answered
from schedkit.target import Delivery, InvalidSignature, verify
from tests.worlds import URL, Made, Virtual, virtual

NOON = "2026-06-01T12:00:00Z"
NEW, OLD = "env:SCHEDKIT_SECRET_BILLING", "env:SCHEDKIT_SECRET_BILLING_OLD"


def auth(**more: str) -> dict[str, Any]:
    return {"url": URL, "auth": {"type": "HMAC_SHA256", "secret_ref": NEW, **more}}


def checked(made: Made, *secrets: str) -> Delivery:
    return verify(made.call.headers, made.call.body or b"", list(secrets), now=made.at // 1_000)


async def called(world: Virtual, **fields: Any) -> list[Made]:
    """The calls of a job that is due at noon, with an hour for retries."""
    await world.create("0 12 * * *", **fields)
    await world.wait_until("2026-06-01T13:00:00Z")
    return world.targets.calls


async def test_each_attempt_is_signed_anew_under_the_same_id() -> None:
    secrets = MemorySecrets({NEW: b"s"})
    async with virtual("2026-06-01T11:59:00Z", secrets=secrets) as (world, _):
        world.targets.script = [Answered(503)]
        retry = {"initial_backoff_seconds": 60}
        first, second = await called(world, target=auth(), payload={"n": 1}, retry_policy=retry)
        told = [checked(made, "s") for made in (first, second)]
        assert [(one.epoch, one.attempt) for one in told] == [(1, 1), (2, 2)]
        assert told[0].idempotency_key == told[1].idempotency_key == first.key
        assert told[1].timestamp > told[0].timestamp
        assert first.call.headers["webhook-signature"] != second.call.headers["webhook-signature"]


async def test_while_a_secret_is_rotated_either_verifies() -> None:
    secrets = MemorySecrets({NEW: b"new", OLD: b"whsec_b2xk"})
    async with virtual("2026-06-01T11:59:00Z", secrets=secrets) as (world, _):
        (made,) = await called(world, target=auth(previous_secret_ref=OLD))
        assert made.call.headers["webhook-signature"].count("v1,") == 2
        assert checked(made, "new") == checked(made, "old") == checked(made, "other", "new")
        with pytest.raises(InvalidSignature):
            checked(made, "other")


async def test_a_call_without_a_body_is_signed_too() -> None:
    async with virtual("2026-06-01T11:59:00Z", secrets=MemorySecrets({NEW: b"s"})) as (world, _):
        (made,) = await called(world, target=auth() | {"method": "GET"}, payload={"n": 1})
        assert made.call.body is None
        assert checked(made, "s")


async def test_a_target_without_auth_gets_no_signature() -> None:
    async with virtual("2026-06-01T11:59:00Z", secrets=MemorySecrets({NEW: b"s"})) as (world, _):
        (made,) = await called(world, target={"url": URL, "auth": {"type": "NONE"}})
        assert not [name for name in made.call.headers if name.startswith("webhook")]


async def test_without_its_secret_nothing_is_sent_and_the_run_is_tried_again_until_it_is_there() -> None:
    secrets = MemorySecrets()
    async with virtual("2026-06-01T11:59:00Z", secrets=secrets) as (world, _):
        job = await world.create("0 12 * * *", target=auth(), retry_policy={"initial_backoff_seconds": 600})
        await world.wait_until("2026-06-01T12:00:01Z")
        assert world.targets.calls == []
        run = await world.run(job["job_id"], NOON)
        assert run is not None
        assert run.status == "RETRY_WAIT"
        assert run.attempts[0].error == f"the call could not be signed: there is no secret {NEW}"
        secrets.values[NEW] = b"s"
        await world.wait_until("2026-06-01T12:30:00Z")
        assert checked(world.targets.calls[0], "s").attempt == 2


async def test_the_one_before_it_is_missed_as_well_and_an_unreadable_one_is_not_quoted() -> None:
    secrets = MemorySecrets({NEW: b"whsec_top secret"})
    async with virtual("2026-06-01T11:59:00Z", secrets=secrets) as (world, process):
        policy = {"max_attempts": 1}
        await called(world, target=auth(previous_secret_ref=OLD), retry_policy=policy)
        secrets.values[NEW] = b"s"
        await called(world, target=auth(previous_secret_ref=OLD), retry_policy=policy, delivery="AT_MOST_ONCE")
        await world.wait(days=1)
        assert world.targets.calls == []
        errors = [str(attempt.error) for run in process.settled for attempt in run.attempts]
        assert f"with the secret {NEW}: a secret that begins with whsec_" in errors[0]
        assert f"there is no secret {OLD};" in errors[-1]
        assert not [error for error in errors if "top" in error]
