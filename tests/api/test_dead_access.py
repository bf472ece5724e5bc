"""Whose dead letters: a team's own, an admin's the whole tenant's; and so it is with redrives (A3, F6)."""

from __future__ import annotations

from typing import Any, Final

import pytest

from schedkit.model.access import Role
from tests.api.asking import body, refused
from tests.api.keyed import Keyed, dead_run, keyed

ALL: Final[dict[str, Any]] = {"filter": {}, "include_unknown": True}


async def of_growth(there: Keyed) -> str:
    """The id of a dead run of the other team of the tenant."""
    job = await there.ask("other team", "POST", "/v1/jobs", json=body(name="ads"))
    return await dead_run(there.world, job["job_id"])


async def dead(there: Keyed, who: str) -> set[str]:
    return {item["run_id"] for item in (await there.ask(who, "GET", "/v1/dlq"))["items"]}


async def test_dead_letters_are_listed_and_counted_for_those_who_may_see_them() -> None:
    async with keyed() as there:
        ours, theirs = there.names["dead"], await of_growth(there)
        seen = {"viewer": {ours}, "other team": {theirs}, "admin": {ours, theirs}, "other tenant": set()}
        for who, runs in seen.items():
            assert await dead(there, who) == runs, who
            counts = await there.ask(who, "GET", "/v1/dlq", params={"group_by": "error"})
            assert counts["counted"] == len(runs), who
            if who != "viewer":
                plan = await there.ask(who, "POST", "/v1/dlq:redrive", json=ALL | {"dry_run": True})
                assert plan["total"] == len(runs), who


async def test_a_redrive_starts_those_of_its_team_only_whoever_carries_it_out() -> None:
    async with keyed() as there:
        theirs = await of_growth(there)
        await there.ask("operator", "POST", "/v1/dlq:redrive", json=ALL)
        named = {"filter": {"run_ids": [theirs]}, "include_unknown": True}
        begun = await there.ask("operator", "POST", "/v1/dlq:redrive", json=named)
        assert (begun["team_id"], begun["total"]) == ("payments", 0)
        await there.world.boot(redriving=True)
        await there.world.wait(seconds=10)
        assert await dead(there, "admin") == {theirs}
        assert (await there.ask("admin", "GET", f"/v1/redrives/{begun['redrive_id']}"))["redriven"] == 0


async def test_an_admin_s_redrive_starts_those_of_every_team_of_its_tenant() -> None:
    async with keyed() as there:
        await of_growth(there)
        await there.ask("other tenant", "POST", "/v1/jobs", json=body(name="digest"))
        elsewhere = await dead_run(there.world, (await there.ask("other tenant", "GET", "/v1/jobs/digest"))["job_id"])
        await there.ask("admin", "POST", "/v1/dlq:redrive", json=ALL)
        await there.world.boot(redriving=True)
        await there.world.wait(seconds=10)
        assert await dead(there, "admin") == set()
        assert await dead(there, "other tenant") == {elsewhere}


async def test_dropping_gives_up_those_of_the_team_only() -> None:
    async with keyed() as there:
        theirs = await of_growth(there)
        assert (await there.ask("operator", "POST", "/v1/dlq:drop", json={"filter": {}}))["dropped"] == 1
        assert await dead(there, "admin") == {theirs}
        record = (await there.records())[0]
        assert (record["action"], record["resources"]) == ("drop_dead", [there.names["dead"]])


async def test_a_drop_that_breaks_off_halfway_is_recorded_as_far_as_it_came() -> None:
    async with keyed() as there:
        await of_growth(there)
        line = there.world.line

        async def first() -> None:
            line.before["drop"] = second

        async def second() -> None:
            line.lose = ["drop"]

        line.before["drop"] = first
        asked = await there.world.api.post("/v1/dlq:drop", json={"filter": {}}, headers=there.of("admin"))
        refused(asked, 503, "STORE_UNAVAILABLE")
        record = (await there.records())[0]
        assert (record["action"], record["outcome"], len(record["resources"])) == ("drop_dead", "DONE", 1)


@pytest.mark.parametrize("verb", ["pause", "resume", "continue", "stop"])
async def test_an_admin_s_redrive_of_every_team_is_not_there_for_an_operator_of_the_same_team(verb: str) -> None:
    async with keyed() as there:
        await there.key("colleague", "acme", "platform", Role.OPERATOR)
        begun = await there.ask("admin", "POST", "/v1/dlq:redrive", json=ALL)
        path = f"/v1/redrives/{begun['redrive_id']}"
        assert begun["team_id"] is None
        assert (await there.ask("colleague", "GET", "/v1/redrives"))["items"] == []
        asked = await there.world.api.post(f"{path}:{verb}", headers=there.of("colleague"))
        refused(asked, 404, "REDRIVE_NOT_FOUND")
        assert (await there.ask("admin", "GET", path))["state"] == "PLANNED"


async def test_an_idempotency_key_of_a_redrive_is_its_team_s_and_means_what_its_caller_may() -> None:
    async with keyed() as there:
        await there.key("colleague", "acme", "platform", Role.OPERATOR)

        async def ask(who: str) -> Any:
            headers = there.of(who) | {"Idempotency-Key": "k"}
            return await there.world.api.post("/v1/dlq:redrive", json=ALL, headers=headers)

        begun = {who: (await ask(who)).json()["redrive_id"] for who in ("operator", "other team", "admin")}
        assert len(set(begun.values())) == 3
        again = await ask("operator")
        assert (again.json()["redrive_id"], again.headers["idempotent-replayed"]) == (begun["operator"], "true")
        asked = await ask("colleague")
        refused(asked, 422, "IDEMPOTENCY_KEY_REUSED", "Idempotency-Key")
        assert begun["admin"] not in asked.text


async def test_the_record_of_a_redrive_names_it() -> None:
    async with keyed() as there:
        begun = await there.ask("operator", "POST", "/v1/dlq:redrive", json=ALL)
        record = (await there.records())[0]
        assert (record["action"], record["resource"], record["outcome"]) == (
            "redrive_dead",
            begun["redrive_id"],
            "DONE",
        )
        await there.ask("operator", "POST", "/v1/dlq:redrive", json=ALL | {"dry_run": True})
        assert (await there.records())[0]["outcome"] == "UNCHANGED"
