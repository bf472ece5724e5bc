"""Lists over HTTP: what they can be narrowed to, and what they refuse."""

from __future__ import annotations

from tests.worlds import virtual


async def test_runs_are_listed_by_their_registered_target() -> None:
    async with virtual("2026-06-01T11:59:59Z") as (world, _):
        await world.create("* * * * *")
        await world.wait(minutes=2)
        assert len((await world.ask("GET", "/v1/runs"))["items"]) == 2
        assert (await world.ask("GET", "/v1/runs?target=tgt_other"))["items"] == []


async def test_jobs_are_listed_by_their_task_queue() -> None:
    """No job has one yet, and a filter that is known to the contract is no mistake."""
    async with virtual() as (world, _):
        await world.create("* * * * *")
        assert (await world.ask("GET", "/v1/jobs?task_queue=ledger-rebuild"))["items"] == []


async def test_a_query_parameter_that_a_route_does_not_have_is_named() -> None:
    async with virtual() as (world, _):
        refused = (await world.api.get("/v1/jobs?statsu=FAILED")).json()
        assert (refused["status"], refused["reason"], refused["field"]) == (400, "INVALID_ARGUMENT", "statsu")
