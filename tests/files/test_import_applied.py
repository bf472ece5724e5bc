"""What an import writes, applied to a scheduler: once is enough, and runs do not pile up while no worker is there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from schedkit.files import crontab, jobfile
from schedkit.files.imported import Wishes
from schedkit.files.jobfile import FileJob, JobFile
from schedkit.files.plan import Action, plan
from tests.files.test_agreement import OWNER, call
from tests.worlds import Virtual, virtual

REAL = Path(__file__).with_name("crontab").read_text(encoding="utf-8")


def jobs_of(text: str, **wishes: Any) -> list[FileJob]:
    """The jobs of the file that is printed for a crontab."""
    back = jobfile.read(crontab.read(text, Wishes(**wishes)).text(), "jobs.yaml")
    assert not back.problems, [str(problem) for problem in back.problems]
    return back.jobs


async def jobs_there(world: Virtual) -> list[Any]:
    items: list[Any] = (await world.api.get("/v1/jobs", params={"limit": 100})).json()["items"]
    return items


async def test_a_second_apply_of_an_imported_crontab_has_nothing_to_do() -> None:
    async with Virtual("2026-06-01T12:00:00Z") as world:
        for wishes in ({}, {"window": "30m"}, {"prefix": "b-", "target": "https://a.example/run"}):
            file = JobFile("jobs.yaml", OWNER, jobs_of(REAL, **wishes))
            for wanted in (True, False):
                have = await jobs_there(world)
                steps = plan([file], {job["name"]: job for job in have}, have, world.clock.now())
                here = [step for step in steps if step.name in {job.name for job in file.jobs}]
                assert any(step.action is not Action.KEEP for step in here) is wanted
                for step in here:
                    for one in step.calls():
                        answer = await call(world.api, step.job["job_id"] if step.job is not None else "", one)
                        assert answer.is_success, answer.text


async def test_a_worker_that_comes_back_finds_the_newest_run_of_a_crontabs_line_and_no_pile() -> None:
    async with virtual("2026-06-01T12:00:00Z") as (world, _):
        for job in jobs_of("*/10 * * * * /opt/poll\n30 12 * * * /opt/late\n"):
            await world.ask("POST", "/v1/jobs", json=job.document)
        await world.wait(hours=2, minutes=5)
        body = {"worker_id": "w-1", "max_tasks": 50}
        tasks = (await world.ask("POST", "/v1/task-queues/shell/tasks:poll", json=body))["tasks"]
        assert [(task["job_name"], task["scheduled_for"][11:16]) for task in tasks] == [("poll", "14:00")]
        told = {job["name"]: await world.told(job["job_id"]) for job in await jobs_there(world)}
        assert told["late"] == [("12:30:00", "EXPIRED")]
        assert {said for _, said in told["poll"][:-1]} == {"EXPIRED"}
