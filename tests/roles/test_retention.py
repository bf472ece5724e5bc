"""What ended long ago is forgotten, a little at a time, and nothing else is."""

from __future__ import annotations

from schedkit.model.calls import Answered
from schedkit.model.keys import job_key
from schedkit.model.time import rfc3339
from tests.worlds import Virtual


async def test_runs_are_forgotten_thirty_days_after_their_end_and_their_job_goes_on() -> None:
    async with Virtual("2026-06-01T12:00:00Z") as world:
        first = await world.boot(reaping=False)
        world.targets.script = [Answered(400)]
        job = await world.create("0 13 * * *", misfire_policy="RUN_ALL")
        await world.wait_until("2026-06-01T13:30:00Z")
        first.kill()  # weeks in which nothing happens need no process
        await world.wait_until("2026-06-30T14:00:00Z")
        await world.boot(reaping=False)
        await world.wait_until("2026-07-01T12:59:00Z")
        assert len(await world.runs(job["job_id"])) == 30
        assert (await world.ask("GET", "/v1/ops/snapshot"))["dead_letters"] == 1
        await world.wait_until("2026-07-01T13:30:00Z")
        runs = await world.runs(job["job_id"])
        assert rfc3339(runs[0].scheduled_for) == "2026-06-02T13:00:00Z"
        assert len(runs) == 30
        assert len(world.targets.calls) == 31, "one a day, forgotten or not"
        assert (await world.ask("GET", "/v1/ops/snapshot"))["dead_letters"] == 0
        assert len((await world.ask("GET", "/v1/runs"))["items"]) == 30


async def test_a_job_that_has_ended_is_forgotten_with_its_runs_and_leaves_its_name() -> None:
    async with Virtual("2026-06-01T12:00:00Z") as world:
        first = await world.boot(reaping=False)
        job = await world.create({"type": "ONCE", "run_at": "2026-06-01T13:00:00Z"}, name="report")
        await world.wait_until("2026-06-01T13:30:00Z")
        first.kill()
        await world.wait_until("2026-07-01T12:20:00Z")
        await world.boot(reaping=False)
        await world.wait_until("2026-07-01T12:30:00Z")
        assert (await world.ask("GET", "/v1/jobs/report"))["status"] == "COMPLETED"
        await world.wait_until("2026-07-01T13:30:00Z")
        assert await world.store.get(job_key(job["job_id"])) is None
        assert await world.runs(job["job_id"]) == []
        assert (await world.api.get("/v1/jobs/report")).status_code == 404
        assert (await world.create("0 8 * * *", name="report"))["job_id"] != job["job_id"]
