"""Files and the API agree: what a file asks for is what the server shows, so a second apply has nothing to do."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import httpx
from hypothesis import HealthCheck, assume, given, settings

from schedkit.files.documents import spec_of
from schedkit.files.jobfile import FileJob, JobFile
from schedkit.files.plan import Action, Call, Step, plan
from tests.files.making import documents
from tests.worlds import Virtual

OWNER = "jobs.yaml@growth/app"
BEFORE_ALL = "2019-12-31T00:00:00Z"  # every time of these documents lies ahead


def known(document: dict[str, Any]) -> dict[str, Any]:
    """The same with a target that is registered there."""
    target = document["target"]
    return {**document, "name": "a", "target": {**target, "target_id": "billing"} if "target_id" in target else target}


async def call(api: httpx.AsyncClient, job_id: str, one: Call) -> httpx.Response:
    match = {"If-Match": str(one.version)} if one.version is not None else {}
    if one.verb == "create":
        return await api.post("/v1/jobs", json=dict(one.body), headers={"Idempotency-Key": one.key or ""})
    if one.verb == "update":
        return await api.patch(f"/v1/jobs/{job_id}", json=dict(one.body), headers=match)
    return await api.post(f"/v1/jobs/{job_id}:{one.verb}", headers=match)


async def applied(world: Virtual, document: dict[str, Any], have: Sequence[Any]) -> tuple[Step, list[Any]]:
    """Perform what a file with this one job asks for. Gives the step, and the server's jobs afterwards."""
    file = JobFile("jobs.yaml", OWNER, [FileJob("a", 1, document)])
    (step,) = plan([file], {job["name"]: job for job in have}, have, world.clock.now())
    for one in step.calls():
        answer = await call(world.api, step.job["job_id"] if step.job is not None else "", one)
        assume(answer.status_code != 400)  # what only the server can know, such as bounds with no time between them
        assert answer.is_success, answer.text
    return step, (await world.api.get("/v1/jobs")).json()["items"]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(documents(), documents())
def test_a_second_apply_has_nothing_to_do_whatever_the_first_one_did(
    first: dict[str, Any], second: dict[str, Any]
) -> None:
    async def story() -> None:
        async with Virtual(BEFORE_ALL) as world:
            jobs: list[Any] = []
            for document in (known(first), known(second)):
                await applied(world, document, jobs)
                jobs = (await world.api.get("/v1/jobs")).json()["items"]
                shown = spec_of(jobs[0])
                if "anchor_at" not in document["schedule"]:
                    shown["schedule"].pop("anchor_at", None)
                assert shown == document
                assert jobs[0]["version"] == jobs[0]["applied_version"]
                step, jobs = await applied(world, document, jobs)
                assert (step.action, step.calls()) == (Action.KEEP, [])

    asyncio.run(story())
