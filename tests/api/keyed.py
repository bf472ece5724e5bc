"""A world whose API asks for keys: two tenants, three teams, and somebody of each role."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from schedkit.adapters.memory.store import MemoryStore
from schedkit.api.access import Access, Auth, Keyring
from schedkit.api.keys import make_key
from schedkit.model.access import Caller, Role
from schedkit.model.keys import dead_listing, run_key, sortable
from schedkit.model.runs import Run, RunStatus, listing, run_attributes
from schedkit.model.writes import Write
from tests.api.asking import body
from tests.worlds import SeededChance, Virtual

PAST: Final = {"from": "2026-05-30T00:00:00Z", "to": "2026-06-01T12:00:00Z"}
PEPPER: Final = b"a pepper that only the tests know"

# Who calls: (tenant, team, role). Everything that a test makes first is made by the operator.
CALLERS: Final[dict[str, tuple[str, str, Role] | None]] = {
    "none": None,
    "viewer": ("acme", "payments", Role.VIEWER),
    "operator": ("acme", "payments", Role.OPERATOR),
    "admin": ("acme", "platform", Role.ADMIN),
    "other team": ("acme", "growth", Role.OPERATOR),
    "other tenant": ("globex", "payments", Role.ADMIN),
}

Headers = dict[str, str]


class Keyed:
    """The world, the keys of its callers by their names, and what there is to ask for."""

    def __init__(self, world: Virtual, keyring: Keyring) -> None:
        self.world = world
        self.keyring = keyring
        self.secrets: dict[str, str] = {}
        self.ids: dict[str, str] = {}
        self.names: dict[str, str] = {}

    def of(self, who: str) -> Headers:
        """The headers with which somebody calls."""
        return {"Authorization": f"Bearer {self.secrets[who]}"} if who in self.secrets else {}

    async def key(self, who: str, tenant_id: str, team_id: str, role: Role) -> None:
        maker = Caller(tenant_id, team_id)
        key, text = await make_key(
            self.world.new_world(), self.keyring, maker, who.replace(" ", "-"), team_id, role, None
        )
        self.secrets[who], self.ids[who] = text, key.key_id

    async def ask(self, who: str, method: str, path: str, **options: Any) -> dict[str, Any]:
        """One request that succeeds."""
        return await self.world.ask(method, path, headers=self.of(who), **options)

    async def records(self, who: str = "admin", **query: str) -> list[dict[str, Any]]:
        """The audit log, newest first."""
        items: list[dict[str, Any]] = (await self.ask(who, "GET", "/v1/audit", params=query))["items"]
        return items

    def stored(self, *, besides: tuple[str, ...] = ("AUDIT#",)) -> dict[str, Mapping[str, Any]]:
        """Everything in the store but the partitions named, and but when a key was used last."""
        assert isinstance(self.world.store, MemoryStore)
        return {
            f"{key.partition} {key.sort}": {name: value for name, value in item.items() if name != "last_used_at"}
            for key, item in self.world.store._items.items()
            if not key.partition.startswith(besides)
        }

    def text(self) -> str:
        """Everything in the store, as text."""
        return json.dumps(self.stored(besides=("-",)))


async def dead_run(world: Virtual, job_id: str) -> str:
    """The id of a run of this job that is UNKNOWN since a second ago."""
    job, at = await world.job(job_id), world.clock.now() - 1_000
    run = Run(
        job_id, at, RunStatus.UNKNOWN, tenant_id=job.tenant_id, team_id=job.team_id, epoch=1, attempt=1,
        finished_at=at, due_at=at, created_at=at,
    )  # fmt: skip
    died = {"dead_partition": dead_listing(job.tenant_id), "dead_at": sortable(at)}
    await world.store.apply(Write(run_key(job_id, at), "made", (), run_attributes(run) | listing(run) | died))
    return run.run_id


@asynccontextmanager
async def keyed() -> AsyncIterator[Keyed]:
    """The callers; a job of the operator's with a run, a dead run, a redrive and a backfill that nobody takes up."""
    keyring = Keyring(lambda: PEPPER, SeededChance(99).bytes, "test")
    async with Virtual(access=Access(Auth.API_KEY, keyring)) as world:
        made = Keyed(world, keyring)
        for who, place in CALLERS.items():
            if place is not None:
                await made.key(who, *place)
        await made.key("spare", "acme", "payments", Role.VIEWER)
        job = await made.ask("operator", "POST", "/v1/jobs", json=body(name="digest"))
        run = await made.ask("operator", "POST", f"/v1/jobs/{job['job_id']}:trigger")
        made.names = {
            "ref": job["job_id"],
            "run_id": run["run_id"],
            "dead": await dead_run(world, job["job_id"]),
            "key_id": made.ids["spare"],
            "task_queue": "rebuilds",
        }
        redrive = await made.ask("operator", "POST", "/v1/dlq:redrive", json={"filter": {}})
        made.names["redrive_id"] = redrive["redrive_id"]
        backfill = await made.ask("operator", "POST", f"/v1/jobs/{job['job_id']}:backfill", json=PAST)
        made.names["backfill_id"] = backfill["backfill_id"]
        yield made
