"""The users of a simulation: they create jobs, change their minds, and repeat what was not answered."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import count
from random import Random
from typing import Any, Final

from schedkit.client import AsyncClient, Unreachable
from schedkit.errors import SchedkitError
from schedkit.model.time import MINUTE_MS, SECOND_MS, parse_rfc3339, rfc3339
from schedkit.sim.ground import Ground
from schedkit.sim.jobs import Maker
from schedkit.sim.network import Network

URL: Final = "http://127.0.0.1:8700"
NAME: Final = "user"
REPEATS: Final = 4  # of a create whose outcome is not known, under the same key
REPEAT_PAUSE_MS: Final = 5 * SECOND_MS
TWICE_SHARE: Final = 0.1  # creates that are sent twice at once, under one key
CREATE_WITHIN_MS: Final = 4 * MINUTE_MS  # most jobs are made in the first minutes
VERB_EVERY_MS: Final = 12 * SECOND_MS
TOUCHED_SHARE: Final = 0.6  # of the others nobody changes anything: what they run is known exactly
AIMED_SHARE: Final = 0.7  # verbs that come at the very moment at which the job is due, or its retry is
AIM_MS: Final = (-10, 30)  # from the moment: a verb takes some ms to land, and so does a claim
LONGEST_AIM_MS: Final = 2 * MINUTE_MS
REFUSED: Final = 500  # from here on a status does not say that nothing was done
VERBS: Final = (
    *("pause", "resume", "trigger", "edit", "edit", "reschedule", "create", "create"),
    *("cancel", "cancel_run", "look", "reuse", "skip_next", "backfill"),
)
SKIPPED: Final = (1, 1, 1, 2, 5, 90)
REGRETTED_SHARE: Final = 0.6  # skips of which somebody later wants to have run what was skipped after all
BACKFILLED_MS: Final = 20 * MINUTE_MS  # … of the past, at most: that of a young job has times before it was made
BACKFILLED_TWICE_SHARE: Final = 0.3
CAPS: Final = (1, 2, 5, 20)
ORDERS: Final = ("oldest", "newest")
BACKFILL_VERBS: Final = ("pause", "resume", "resume", "stop")


class Users:
    def __init__(self, ground: Ground, network: Network, maker: Maker, jobs: int, verbs: Sequence[str] = VERBS) -> None:
        self._ground = ground
        self._maker = maker
        self._jobs = jobs
        self._verbs = verbs
        self._chance: Random = ground.chance("users")
        self._calls = count(1)
        self._wishes = count(1)
        self._made: list[str] = []  # the jobs that are touched again
        self._keys: list[tuple[str, dict[str, Any]]] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._client = AsyncClient(
            URL, transport=network, monotonic=ground.loop.time, draw=ground.chance("client").random
        )

    async def live(self) -> None:
        """Create the first jobs, then do something now and then, for ever."""
        for _ in range(self._jobs):
            self.begin(self._create())
            await asyncio.sleep(self._chance.expovariate(self._jobs / CREATE_WITHIN_MS * SECOND_MS))
        while True:
            await asyncio.sleep(self._chance.expovariate(SECOND_MS / VERB_EVERY_MS))
            self.begin(self._verb(self._chance.choice(self._verbs)))

    def begin(self, work: Any) -> None:
        """Do this beside everything else."""
        self._tasks.append(asyncio.create_task(work))

    async def _create(self) -> None:
        body = self._maker.job(self._ground.now()) | {"labels": {"made": str(next(self._wishes))}}
        key = self._chance.randbytes(8).hex()
        self._keys.append((key, body))
        if self._chance.random() < TWICE_SHARE:
            self.begin(self._create_once(body, key))
        await self._create_once(body, key)

    async def _create_once(self, body: dict[str, Any], key: str) -> None:
        for _ in range(REPEATS):
            answer = await self.do("create", "POST", "/v1/jobs", body=body, key=key)
            if answer is not None:
                made, touched = answer.get("job_id"), self._chance.random() < TOUCHED_SHARE
                if made and touched and made not in self._made:
                    self._made.append(made)
                return
            await asyncio.sleep(REPEAT_PAUSE_MS / SECOND_MS)

    async def _verb(self, verb: str) -> None:
        if verb == "create" or not self._made:
            return await self._create()
        job = self._chance.choice(self._made)
        if verb not in ("look", "reuse") and self._chance.random() < AIMED_SHARE:
            await self._aim(job)
        path, chance, now = f"/v1/jobs/{job}", self._chance, self._ground.now()
        match verb:
            case "pause":
                until = {"until": rfc3339(now + chance.randrange(SECOND_MS, 5 * MINUTE_MS))}
                await self.do("pause", "POST", f"{path}:pause", job, until if chance.random() < 0.5 else {})
                if chance.random() < 0.7:
                    await asyncio.sleep(chance.uniform(1, 240))
                    await self._verb_on("resume", job)
            case "cancel":
                await self.do("cancel", "DELETE", path, job)
            case "cancel_run":
                await self._cancel_run(job)
            case "reuse":
                key, body = chance.choice(self._keys)
                await self.do("create", "POST", "/v1/jobs", body=body | {"payload": {"other": True}}, key=key)
            case "edit":
                await self.do("edit", "PATCH", path, job, {"description": str(chance.randrange(1_000))})
            case "reschedule":
                await self.do("edit", "PATCH", path, job, {"schedule": self._maker.schedule(now)})
            case "skip_next":
                await self.do("skip_next", "POST", f"{path}:skipNext", job, {"count": chance.choice(SKIPPED)})
                if chance.random() < REGRETTED_SHARE:
                    await asyncio.sleep(chance.uniform(20, 240))
                    await self._backfill(job)
            case "backfill":
                await self._backfill(job)
            case "look":
                await self._look(("/v1/jobs", path, f"{path}/runs", f"{path}/next", "/v1/runs", "/v1/ops/snapshot"))
            case _:
                await self._verb_on(verb, job)

    async def _aim(self, job: str) -> None:
        """Wait for the moment at which this job is due, or a run of it is to be tried again."""
        path, at = f"/v1/jobs/{job}", None
        if self._chance.random() < 0.5:
            waiting = await self.ask("GET", f"{path}/runs", status="RETRY_WAIT", limit="1")
            at = waiting["items"][0]["not_before"] if waiting is not None and waiting["items"] else None
        if at is None:
            doc = await self.ask("GET", path)
            at = doc["next_run_at"] if doc is not None else None
        wait_ms = parse_rfc3339(at) - self._ground.now() + self._chance.uniform(*AIM_MS) if at is not None else 0
        if 0 < wait_ms < LONGEST_AIM_MS:
            await asyncio.sleep(wait_ms / SECOND_MS)

    async def _verb_on(self, verb: str, job: str) -> None:
        misfire = {"misfire": self._chance.choice(["RUN_ONCE", "SKIP", "RUN_ALL"])}
        body = misfire if verb == "resume" and self._chance.random() < 0.3 else {}
        if verb in ("resume", "trigger"):
            await self.do(verb, "POST", f"/v1/jobs/{job}:{verb}", job, body)

    async def _cancel_run(self, job: str) -> None:
        runs = await self.ask("GET", f"/v1/jobs/{job}/runs")
        if runs is not None and runs["items"]:
            run = runs["items"][0]["run_id"]
            await self.do("cancel_run", "POST", f"/v1/runs/{run}:cancel", job, {}, run=run)

    async def _backfill(self, job: str) -> None:
        """What did not run of the last minutes, now and then asked for twice; and a change of mind now and then."""
        chance, now = self._chance, self._ground.now()
        span = {"from": rfc3339(now - chance.randrange(SECOND_MS, BACKFILLED_MS)), "to": rfc3339(now)}
        body = span | {"max_per_second": chance.choice(CAPS), "order": chance.choice(ORDERS)}
        if chance.random() < BACKFILLED_TWICE_SHARE:
            self.begin(self._backfill_once(job, body | {"order": chance.choice(ORDERS)}))
        begun = await self._backfill_once(job, body)
        if begun and chance.random() < 0.3:
            for _ in range(2):
                await asyncio.sleep(chance.uniform(1, 30))
                verb = chance.choice(BACKFILL_VERBS)
                await self.do(f"backfill_{verb}", "POST", f"/v1/backfills/{begun['backfill_id']}:{verb}", job)

    async def _backfill_once(self, job: str, body: dict[str, Any]) -> dict[str, Any] | None:
        key = self._chance.randbytes(8).hex()
        for _ in range(2):  # the same once more: it may have been begun
            begun = await self.do("backfill", "POST", f"/v1/jobs/{job}:backfill", job, body, key)
            if begun is not None:
                break
        return begun

    async def _look(self, paths: Sequence[str]) -> None:
        await self.ask("GET", self._chance.choice(paths))

    async def ask(self, method: str, path: str, **params: str) -> Any:
        """A read: nothing to remember of it, but that it must not be a bug."""
        try:
            return (await self._client.call(method, path, params=list(params.items()))).data
        except SchedkitError:
            return None

    async def do(
        self,
        op: str,
        method: str,
        path: str,
        job: str | None = None,
        body: dict[str, Any] | None = None,
        key: str | None = None,
        **details: Any,
    ) -> dict[str, Any] | None:
        """One wish, and what the user heard. None where that was nothing certain; {} where it was refused."""
        history, call = self._ground.history, next(self._calls)
        history.add(NAME, "api.invoke", call=call, op=op, job=job, idempotency_key=key, body=body, **details)
        try:
            answer = await self._client.call(method, path, body=body, idempotency_key=key)
        except Unreachable as trouble:
            history.add(NAME, "api.info", call=call, why=trouble.detail)
            return None
        except SchedkitError as refusal:
            if refusal.status >= REFUSED:
                history.add(NAME, "api.info", call=call, why=str(refusal.reason))
                return None
            history.add(NAME, "api.fail", call=call, status=refusal.status, reason=str(refusal.reason))
            return {}
        doc = answer.data
        history.add(NAME, "api.ok", call=call, status=answer.status, job=doc.get("job_id") or job, doc=doc)
        return dict(doc)
