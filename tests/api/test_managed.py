"""Jobs that a file keeps: whose they are, which version its apply left, and changes that are conditional on it."""

from __future__ import annotations

from typing import Any

from tests.api.asking import body, post, refused
from tests.worlds import Virtual

KEPT: dict[str, Any] = {"managed_by": "jobs.yaml@growth/app", "applied_version": 1}


async def test_a_job_says_which_file_keeps_it_and_at_which_version_it_was_applied(world: Virtual) -> None:
    made = (await post(world, name="digest", **KEPT)).json()
    assert (made["managed_by"], made["applied_version"], made["version"]) == ("jobs.yaml@growth/app", 1, 1)
    plain = (await post(world, name="by-hand")).json()
    assert (plain["managed_by"], plain["applied_version"]) == (None, None)


async def test_the_list_can_be_narrowed_to_what_a_file_keeps(world: Virtual) -> None:
    await post(world, name="digest", **KEPT)
    await post(world, name="by-hand")
    found = (await world.api.get("/v1/jobs", params={"managed_by": "jobs.yaml@growth/app"})).json()["items"]
    assert [job["name"] for job in found] == ["digest"]
    assert (await world.api.get("/v1/jobs", params={"managed_by": "other"})).json()["items"] == []


async def test_an_apply_knows_the_version_it_leaves_so_that_it_is_no_drift_itself(world: Virtual) -> None:
    await post(world, name="digest", **KEPT)
    edit = {"priority": "HIGH", "applied_version": 2}
    job = (await world.api.patch("/v1/jobs/digest", json=edit, headers={"If-Match": "1"})).json()
    assert job["version"] == job["applied_version"] == 2
    paused = (await world.api.post("/v1/jobs/digest:pause")).json()
    assert (paused["version"], paused["applied_version"]) == (3, 2)


async def test_a_job_can_be_let_go(world: Virtual) -> None:
    await post(world, name="digest", **KEPT)
    job = (await world.api.patch("/v1/jobs/digest", json={"managed_by": None, "applied_version": None})).json()
    assert (job["managed_by"], job["applied_version"]) == (None, None)


async def test_a_name_of_a_file_has_1_to_128_characters(world: Virtual) -> None:
    for wrong in ("", "x" * 129, 7):
        refused(await world.api.post("/v1/jobs", json=body(managed_by=wrong)), 400, "INVALID_ARGUMENT", "managed_by")
    refused(await post(world, applied_version=0), 400, "INVALID_ARGUMENT", "applied_version")


async def test_pause_resume_and_cancel_of_a_stale_version_are_refused_and_change_nothing(world: Virtual) -> None:
    await post(world, name="digest")
    stale = {"If-Match": '"7"'}
    refused(await world.api.post("/v1/jobs/digest:pause", headers=stale), 409, "VERSION_CONFLICT", "If-Match")
    refused(await world.api.post("/v1/jobs/digest:resume", headers=stale), 409, "VERSION_CONFLICT", "If-Match")
    refused(await world.api.delete("/v1/jobs/digest", headers=stale), 409, "VERSION_CONFLICT", "If-Match")
    job = (await world.api.get("/v1/jobs/digest")).json()
    assert (job["status"], job["version"]) == ("SCHEDULED", 1)


async def test_a_cancel_of_the_version_as_it_stands_lands_and_a_second_one_changes_nothing(world: Virtual) -> None:
    await post(world, name="digest")
    match = {"If-Match": '"1"'}
    assert (await world.api.delete("/v1/jobs/digest", headers=match)).json()["status"] == "CANCELLED"
    assert (await world.api.delete("/v1/jobs/digest", headers=match)).status_code == 200
