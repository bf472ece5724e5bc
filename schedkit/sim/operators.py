"""The operators of a simulation: now and then they start dead letters again, all or one, and change their minds.

Some ask twice for the same, one right after the other: two redrives then meet over the same letters. What is true of
each is for the checker to say.
"""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any, Final

from schedkit.model.time import SECOND_MS
from schedkit.sim.ground import Ground
from schedkit.sim.users import Users

FIRST_AFTER_MS: Final = 180 * SECOND_MS  # something has to die first
EVERY_MS: Final = 60 * SECOND_MS
CAPS: Final = (1, 1, 2, 3, 5, 20, 100)
TWICE_SHARE: Final = 0.3
MIND_CHANGES: Final = ("redrive_pause", "redrive_resume", "redrive_continue", "redrive_continue", "redrive_stop")
DEEDS: Final = ("redrive", "redrive", "redrive", "redrive", "retry_run", "resolve_run", "drop", "change", "change")


class Operators:
    def __init__(self, ground: Ground, users: Users) -> None:
        self._users = users
        self._chance: Random = ground.chance("operators")
        self._begun: list[str] = []

    async def live(self) -> None:
        """Do something now and then, for ever."""
        await asyncio.sleep(FIRST_AFTER_MS / SECOND_MS)
        while True:
            await asyncio.sleep(self._chance.expovariate(SECOND_MS / EVERY_MS))
            self._users.begin(self._deed(self._chance.choice(DEEDS)))

    async def _deed(self, deed: str) -> None:
        if deed == "redrive":
            body = self._redrive()
            if self._chance.random() < TWICE_SHARE:
                self._users.begin(self._redriven(body))
            return await self._redriven(body)
        if deed == "change" and self._begun:
            verb = self._chance.choice(MIND_CHANGES)
            path = f"/v1/redrives/{self._begun[-1]}:{verb.removeprefix('redrive_')}"
            await self._users.do(verb, "POST", path)
            return
        await self._one(deed)

    def _redrive(self) -> dict[str, Any]:
        chance = self._chance
        body: dict[str, Any] = {"filter": {}, "max_per_second": chance.choice(CAPS)}
        if chance.random() < 0.4:
            body |= {"canary": chance.randrange(1, 4), "goes_on": chance.random() < 0.7}
        if chance.random() < 0.5:
            body["include_unknown"] = True
        if chance.random() < 0.1:
            body["limit"] = chance.randrange(1, 10)
        return body

    async def _redriven(self, body: dict[str, Any]) -> None:
        key = self._chance.randbytes(8).hex()
        answer = await self._users.do("redrive", "POST", "/v1/dlq:redrive", body=body, key=key)
        if answer is None:  # the same once more: it may have been begun
            answer = await self._users.do("redrive", "POST", "/v1/dlq:redrive", body=body, key=key)
        if answer:
            self._begun.append(answer["redrive_id"])

    async def _one(self, deed: str) -> None:
        """Something about one dead letter of the newest ten."""
        found = await self._users.ask("GET", "/v1/dlq", limit="10")
        if not found or not found["items"]:
            return
        letter = self._chance.choice(found["items"])
        run = letter["run_id"]
        match deed:
            case "retry_run":
                body = {"include_unknown": self._chance.random() < 0.5}
                await self._users.do(deed, "POST", f"/v1/runs/{run}:retry", letter["job_id"], body, run=run)
            case "resolve_run":
                said = {"as": self._chance.choice(["SUCCEEDED", "FAILED"])}
                await self._users.do(deed, "POST", f"/v1/runs/{run}:resolve", letter["job_id"], said, run=run)
            case "drop":
                await self._users.do(deed, "POST", "/v1/dlq:drop", body={"filter": {"run_ids": [run]}})
