"""Storms: many jobs, processes that die, a store that fails and loses answers, targets that misbehave, operators who
change their minds. Afterwards everything that was due is accounted for, and every second call has its reason.

Each storm is one seed: the same seed is the same storm, step by step.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from schedkit.model.calls import Answered, NoAnswer, NotSent, Reply
from schedkit.model.jobs import Job, JobStatus
from schedkit.model.keys import TimerKind
from schedkit.model.runs import AttemptOutcome, Run, RunStatus
from schedkit.model.time import MINUTE_MS, SECOND_MS, parse_rfc3339
from tests.worlds import HANGS, Process, Takes, Virtual

START = "2026-06-01T12:00:00Z"
STORM_MINUTES = 25
JOBS = 7
SEEDS = 6
ARROWS = ("claim", "advance", "settle", "hold", "pass by", "reclaim", "finish", "look again", "cancel", "skip")


@dataclass(slots=True)
class Storm:
    """One seed's weather over one world."""

    world: Virtual
    random: Random
    jobs: list[str] = field(default_factory=list)
    touched: set[str] = field(default_factory=set)  # jobs whose schedule an operator moved: their ledger has gaps
    kills: int = 0

    async def make_jobs(self) -> None:
        for _ in range(JOBS):
            made = await self.world.create(
                {"type": "INTERVAL", "every_seconds": self.random.choice([20, 60, 90, 300]), "anchor_at": START},
                overlap_policy=self.random.choice(["ALLOW", "SKIP", "BUFFER_ONE"]),
                misfire_policy=self.random.choice(["RUN_ONCE", "SKIP", "RUN_ALL"]),
                delivery=self.random.choice(["AT_LEAST_ONCE", "AT_LEAST_ONCE", "AT_MOST_ONCE"]),
                priority=self.random.choice(["CRITICAL", "DEFAULT"]),
                dispatch_window_seconds=self.random.choice([0, 0, 30]),
                retry_policy={"max_attempts": 3, "initial_backoff_seconds": self.random.choice([0, 5])},
                target={"url": "http://target.example/", "timeout_seconds": 20},
                **self.random.choice([{}, {"expires_after_seconds": 120}, {"max_runs": 5}]),
            )
            self.jobs.append(made["job_id"])

    def reply(self) -> Reply | Takes:
        replies: list[Reply | Takes] = [Answered(200)] * 8
        replies += [Answered(503), Answered(400), NoAnswer("reset"), NotSent("refused"), HANGS]
        replies += [Takes(self.random.randrange(20_000), reply) for reply in (Answered(200), Answered(500))]
        return self.random.choice(replies)

    async def trouble(self, process: Process) -> Process:
        """Something happens; the process that runs afterwards."""
        match self.random.choice(["kill", "down", "lose", "lose", "lose", "verb", "verb", "calm", "die"]):
            case "kill":
                process.kill()
                self.kills += 1
                await self.world.wait(ms=self.random.randrange(3 * MINUTE_MS))
                return await self.world.boot()
            case "die":
                process.line.made, process.line.dies_after = 0, self.random.randrange(60)
                await self.world.wait(ms=self.random.randrange(MINUTE_MS))
                process.kill()
                self.kills += 1
                return await self.world.boot()
            case "down":
                process.line.down = True
                await self.world.wait(ms=self.random.randrange(2 * MINUTE_MS))
                process.line.down = False
            case "lose":
                process.line.lose = self.random.sample(ARROWS, 3)
            case "verb":
                await self.verb()
        return process

    async def verb(self) -> None:
        job_id = self.random.choice(self.jobs)
        path = f"/v1/jobs/{job_id}"
        match self.random.choice(["trigger", "edit", "pause", "cancel"]):
            case "trigger":
                await self.world.api.post(path + ":trigger")
            case "edit":
                await self.world.api.patch(path, json={"description": str(self.random.random())})
            case "pause":
                self.touched.add(job_id)
                await self.world.api.post(path + ":pause")
                await self.world.wait(ms=self.random.randrange(MINUTE_MS))
                await self.world.api.post(path + ":resume")
            case "cancel" if self.random.random() < 0.2:
                self.touched.add(job_id)
                await self.world.api.delete(path)


async def weathered(world: Virtual, seed: int) -> Storm:
    """A storm, and the calm after it in which everything can come to its end."""
    storm = Storm(world, Random(seed))
    process = await world.boot()
    await storm.make_jobs()
    end = parse_rfc3339(START) + STORM_MINUTES * MINUTE_MS
    while world.clock.now() < end:
        world.targets.script = [storm.reply() for _ in range(20)]
        await world.wait(ms=storm.random.randrange(30 * SECOND_MS))
        process = await storm.trouble(process)
    world.targets.script = []
    process.line.lose, process.line.down = [], False
    for job_id in storm.jobs:  # no new occurrences, so that the last ones can end
        await world.api.post(f"/v1/jobs/{job_id}:pause")
    await world.wait(minutes=20)
    return storm


@pytest.mark.parametrize("seed", range(SEEDS))
async def test_after_a_storm_everything_that_was_due_is_accounted_for(seed: int) -> None:
    async with Virtual("2026-06-01T11:59:50Z", seed=seed) as world:
        storm = await weathered(world, seed)
        check_calls(world)
        for job_id in storm.jobs:
            job, runs = await world.job(job_id), await world.runs(job_id)
            for run in runs:
                check_run(world, job, run)
            if job_id not in storm.touched:
                check_ledger(job, runs)
        await check_timers(world)
        lost = sum(attempt.outcome is AttemptOutcome.LEASE_EXPIRED for attempt in await every_attempt(storm))
        assert storm.kills or not lost, "no lease is lost without a reason"


def check_calls(world: Virtual) -> None:
    """C2, I12: never early, one key for a run, and each call with a higher token than the one before."""
    tokens: dict[str, int] = {}
    for made in world.targets.calls:
        assert made.at >= parse_rfc3339(made.scheduled_for)
        assert made.token > tokens.get(made.key, 0), "C4"
        tokens[made.key] = made.token


def check_run(world: Virtual, job: Job, run: Run) -> None:
    """C3, I7, I8: it has ended, by attempts that all ended, no more of them than the policy allows."""
    assert run.status.final, (run.status, run.scheduled_for)
    assert all(attempt.outcome is not None and attempt.lag_ms >= 0 for attempt in run.attempts)
    assert run.epoch == len(run.attempts)
    assert [attempt.epoch for attempt in run.attempts] == list(range(1, run.epoch + 1))
    failures = [attempt for attempt in run.attempts if attempt.outcome is AttemptOutcome.FAILED]
    assert len(failures) <= job.retry.max_attempts
    calls = [made for made in world.targets.calls if made.key.startswith(run.job_id) and made.token <= run.epoch]
    calls = [made for made in calls if parse_rfc3339(made.scheduled_for) == run.scheduled_for]
    assert len(calls) <= run.epoch
    if run.status in (RunStatus.SUCCEEDED, RunStatus.SUCCEEDED_AFTER_CANCEL):
        assert calls, "C6: nothing is reported as done that was not called"
        assert calls[-1].token == run.epoch
    if run.status is RunStatus.SKIPPED:
        assert not calls
    if job.delivery == "AT_MOST_ONCE":
        reached = [attempt for attempt in run.attempts if attempt.outcome is AttemptOutcome.UNKNOWN]
        assert len(reached) <= 1, "C7"


def check_ledger(job: Job, runs: list[Run]) -> None:
    """W16: of a job whose schedule nobody touched, every occurrence up to now has a record, and none has two."""
    assert job.next_run_at is None or job.status is JobStatus.PAUSED
    planned = [run for run in runs if not run.triggered]
    times = [run.scheduled_for for run in planned]
    schedule: Any = job.schedule
    expected = [schedule.anchor_at + n * schedule.every_ms for n in range(len(times))]
    held = [job.held] if job.held is not None else []
    assert sorted(times + held) == expected[: len(times)] + [schedule.anchor_at + len(times) * schedule.every_ms] * len(
        held
    )
    if job.max_runs is not None:
        assert job.run_count <= job.max_runs
    started = [run for run in planned if run.attempts]
    assert job.run_count == len(started)


async def check_timers(world: Virtual) -> None:
    """W8: nobody waits for a timer that has passed."""
    for kind in TimerKind:
        assert await world.store.timers(f"{kind}#0", until=world.clock.now(), limit=100) == ()


async def every_attempt(storm: Storm) -> list[Any]:
    runs = [run for job_id in storm.jobs for run in await storm.world.runs(job_id)]
    return [attempt for run in runs for attempt in run.attempts]


async def test_the_same_seed_is_the_same_storm() -> None:
    histories = []
    for _ in range(2):
        async with Virtual("2026-06-01T11:59:50Z", seed=7) as world:
            storm = await weathered(world, 7)
            histories.append(([(made.at, made.call) for made in world.targets.calls], await every_attempt(storm)))
    assert histories[0] == histories[1]
    assert len(histories[0][0]) > 100
