"""Midnight: ten million jobs due at 00:00, scaled down and really run by the roles of a cell.

    00:00                       00:00 + window
      |  crowd: cron 0 0 * * *, each at its place in the window          DEFAULT, `executors`
      |  background: one-offs at any time                                beside it
      |  strict: one-offs due at a second, no window                     CRITICAL, more executors

One simulated job stands for `factor` real ones, and calls in flight and runs per second of the executors shrink by the
same factor. An executor is a pace (500 runs/s, of which it keeps a second's worth in hand) and a number of slots.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, cast

from schedkit.engine.when import advance
from schedkit.engine.when.window import offset_ms
from schedkit.errors import InvalidInput, Reason
from schedkit.model.calls import Answered, Call, Reply
from schedkit.model.jobs import HttpTarget, Job, Priority
from schedkit.model.keys import new_job_id
from schedkit.model.schedules import Cron, Once, Schedule
from schedkit.model.time import MINUTE_MS, SECOND_MS, Instant, parse_rfc3339, rfc3339
from schedkit.sim.checker import check as judge
from schedkit.sim.checker.figures import percentiles
from schedkit.sim.faults import LONGEST_TIMEOUT_MS, RESTART_MS, SKEW_MS, Fault, Profile, Weather, drawn
from schedkit.sim.fleet import CELL_SHARDS, Fleet
from schedkit.sim.ground import Ground
from schedkit.sim.report import WORDS, share_within
from schedkit.sim.simulation import heard, uncollected
from schedkit.sim.storm import Storm
from schedkit.sim.targets import TargetServer

MIDNIGHT: Final = parse_rfc3339("2026-06-01T00:00:00Z")
LOST_AFTER_MS: Final = 1_000  # in the thick of it
CREATED_MS: Final = 120 * SECOND_MS  # before midnight
BOOTED_MS: Final = 91 * SECOND_MS  # before midnight: a stale index has caught up, and the loader has just looked
WATCHED_MS: Final = 15 * MINUTE_MS  # after the window, for what is late
SETTLES_MS: Final = 5 * SECOND_MS
SLO_MS: Final = 1 * SECOND_MS  # p99 of how late a first call starts after its place

USUAL_JOBS: Final = 10_000_000  # what the next two figures belong to
BACKGROUND_PER_SECOND: Final = 3_449
STRICT_PER_SECOND: Final = 5_000
RUNS_PER_SECOND: Final = 500  # of one executor task
HEADROOM: Final = 1.5
POOLS: Final = (0.2, 0.6, 0.2)  # high, default, low: tasks are bought for each; here one pool stands for all three
SIGMA: Final = math.log(2)  # two targets in three take between half and twice the middle
EXECUTORS_SIMULATED: Final = 3  # processes of the cell
MOST_SIMULATED: Final = 50_000
FEWEST_SIMULATED: Final = 10
ID_BYTES: Final = 10
NEIGHBOURS: Final = 16  # ids drawn for each one that is used
FAILING_SHARE: Final = 0.05  # calls that answer 503, where targets are at fault

Doc = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Night:
    """What is asked: so many jobs, that many of them in one, these executors, these faults."""

    jobs: int
    factor: int
    executors: int
    slots: int
    latency_ms: int
    faults: frozenset[Fault]
    seed: int

    @property
    def share(self) -> float:
        """How large this night is beside the usual one; background and strict jobs grow with it."""
        return self.jobs / USUAL_JOBS

    def needed(self, window_ms: int) -> float:
        """Runs per second in the window, strict ones apart."""
        return self.jobs * SECOND_MS / max(window_ms, SECOND_MS) + BACKGROUND_PER_SECOND * self.share

    def had(self) -> float:
        """Runs per second of the executors: by their pace, or by their slots where targets are slow."""
        mean_s = self.latency_ms * math.exp(SIGMA**2 / 2) / SECOND_MS
        return min(self.executors * RUNS_PER_SECOND, self.executors * self.slots / mean_s)

    @property
    def strict_executors(self) -> int:
        """Tasks for the strict jobs alone; they are not asked about, there are enough."""
        return math.ceil(math.ceil(STRICT_PER_SECOND * self.share / RUNS_PER_SECOND) * HEADROOM)

    def executors_needed(self, window_ms: int) -> int:
        """Whole tasks for each pool, with headroom, again in whole tasks."""
        each = (math.ceil(self.needed(window_ms) * part / RUNS_PER_SECOND) for part in POOLS)
        return sum(math.ceil(tasks * HEADROOM) for tasks in each)


def check(night: Night, windows_ms: Sequence[int]) -> None:
    """Raises InvalidInput where the scale is such that the answer would mean nothing, or never come."""
    simulated = night.jobs // night.factor
    if FEWEST_SIMULATED <= simulated <= MOST_SIMULATED:
        return
    fits = max(1, night.jobs // 2_000)
    raise InvalidInput(
        Reason.INVALID_ARGUMENT,
        f"--factor {night.factor} leaves {simulated:,} jobs to simulate; it takes {FEWEST_SIMULATED} "
        f"to {MOST_SIMULATED:,}",
        field="--factor",
        fix=(f"--factor {fits}",) if night.jobs >= FEWEST_SIMULATED else ("more jobs: --jobs-real 10000000",),
    )


def midnight(night: Night, windows_ms: Sequence[int]) -> tuple[Doc, dict[str, list[int]]]:
    """(the document, the lags of the crowd by window)."""
    started = time.process_time()
    variants, lags = [], {}
    for window_ms in windows_ms:
        variant, lags_ms = _Variant(night, window_ms).run()
        variants.append(variant)
        lags[variant["window"]] = lags_ms
    doc = {
        "schema": "schedkit.midnight/v1",
        "scenario": "midnight",
        "question": _question(night),
        "scale": f"one simulated job stands for {night.factor:,}; so do calls in flight and executors",
        "seed": night.seed,
        "jobs": night.jobs,
        "factor": night.factor,
        "executors": night.executors,
        "slots": night.slots,
        "latency_ms": night.latency_ms,
        "faults": [str(fault) for fault in sorted(night.faults)],
        "faults_in_words": [_words(fault) for fault in sorted(night.faults)] or ["none: a calm night"],
        "variants": variants,
        "answer": _answer(night, variants),
        "machine": {"cpu_seconds": round(time.process_time() - started, 1)},
    }
    return doc, lags


def _words(fault: Fault) -> str:
    return "cache     all buckets are lost at 00:00:00" if fault is Fault.CACHE else f"{fault:<10}{WORDS[fault]}"


def _question(night: Night) -> str:
    what = f"{night.jobs:,} jobs are due at 00:00"
    if night.faults == {Fault.CACHE}:
        return f"{what}: what happens to them if the cache dies?"
    return f"{what}: how late do they start" + (", with faults?" if night.faults else "?")


def _answer(night: Night, variants: Sequence[Doc]) -> str:
    first = variants[0]
    left, late = first["due"] - first["started"], 1 - first["within_slo"]["crowd"]
    if first["violations"]:
        told = [f"A promise was broken: {first['violations'][0]['text']}."]
    elif left:
        told = [
            f"{left / first['due']:.0%} had not started {WATCHED_MS // MINUTE_MS} minutes after the window.",
            f"{first['had_per_second']:,} runs/s are too few for {first['needed_per_second']:,}.",
        ]
    else:
        told = ["Every job starts: none is lost."]
        if first["slo_kept"]["crowd"]:
            told.append(f"{'All' if not late else f'{1 - late:.1%}'} of the crowd start within 1 s of their place.")
        else:
            latest_s = first["lag_ms"]["crowd"]["max"] / SECOND_MS
            told.append(
                f"{late:.0%} of the crowd start more than 1 s after their place, the last {latest_s:.0f} s after."
            )
        if Fault.CACHE in night.faults:
            told.append("The loader sees that they are gone, fills them again from the store,")
            told.append("and the executors work off what was due meanwhile.")
    for other in variants[1:]:
        needs, instead = other["executors_needed"], first["executors_needed"]
        told.append(f"A window of {other['window']} needs {needs:,} executors instead of {instead:,}.")
    return " ".join(told)


class CrowdTargets:
    """The targets of the night: all answer, after a time that is lognormal; a call leaves when its pool has a turn."""

    def __init__(self, ground: Ground, night: Night, window_ms: int) -> None:
        self._ground = ground
        self._calls = TargetServer(ground)  # numbers the calls and puts them into the history
        self._chance = ground.chance("latency")
        self._latency_ms = night.latency_ms
        self._failing = FAILING_SHARE if Fault.TARGETS in night.faults else 0.0
        self._turns = {
            "crowd": _Turns(night.executors * RUNS_PER_SECOND / night.factor),
            "strict": _Turns(night.strict_executors * RUNS_PER_SECOND / night.factor),
        }
        self._window_ms = window_ms
        self._started: set[tuple[str, str]] = set()
        self.lags_ms: dict[str, list[int]] = {"crowd": [], "background": [], "strict": []}
        self.down: set[str] = set()

    @property
    def started(self) -> int:
        """Runs whose first call has left."""
        return len(self._started)

    def called(self, node: str, own: int, call: Call) -> int:
        return self._calls.called(node, own, call)

    def request(self, number: int, call: Call, answer: asyncio.Future[Reply]) -> None:
        """It leaves when it is its turn, whatever becomes of the caller, and is answered after a while."""
        who = call.url.partition("://")[2].partition(".")[0]
        turns = self._turns["strict" if who == "strict" else "crowd"]
        self._ground.later(turns.wait_ms(self._ground.loop.time() * SECOND_MS), self._leaves, number, who, call, answer)

    def _leaves(self, number: int, who: str, call: Call, answer: asyncio.Future[Reply]) -> None:
        job, _, due = call.headers["Idempotency-Key"].partition(":")
        if (job, due) not in self._started:
            self._started.add((job, due))
            place_ms = offset_ms(job, self._window_ms) if who == "crowd" else 0
            self.lags_ms[who].append(self._ground.now() - parse_rfc3339(due) - place_ms)
        takes_ms = self._latency_ms * math.exp(SIGMA * self._chance.gauss(0, 1))
        fails = bool(self._failing) and self._chance.random() < self._failing
        if not fails:
            self._ground.history.add(who, "target.effect", call=number)
        self._ground.later(takes_ms, self._reply, number, who, 503 if fails else 200, answer)

    def _reply(self, number: int, who: str, status: int, answer: asyncio.Future[Reply]) -> None:
        self._ground.history.add(who, "target.reply", call=number, status=status)
        if not answer.done():
            answer.set_result(Answered(status))


class _Turns:
    """So many a second, and a second's worth at once, but never less than two."""

    def __init__(self, per_second: float) -> None:
        self._every_ms = SECOND_MS / per_second
        self._in_hand_ms = max(SECOND_MS - self._every_ms, self._every_ms)
        self._next_ms = 0.0

    def wait_ms(self, now_ms: float) -> float:
        self._next_ms = max(self._next_ms, now_ms) + self._every_ms
        return max(0.0, self._next_ms - self._every_ms - self._in_hand_ms - now_ms)


class _Variant:
    """The night with one window."""

    def __init__(self, night: Night, window_ms: int) -> None:
        self._night = night
        self._window_ms = window_ms
        self._ground = ground = Ground(night.seed, _weather(night), MIDNIGHT - CREATED_MS)
        slots = math.ceil(night.executors * night.slots / night.factor / EXECUTORS_SIMULATED)
        self._fleet = Fleet(ground, slots, workers=False)
        self._targets = CrowdTargets(ground, night, window_ms)
        self._fleet.targets = cast("TargetServer", self._targets)  # it does what a member's line asks of one
        self._storm = Storm(ground, self._fleet)
        self._fleet.on_death = self._storm.restart
        self._due = 0

    def run(self) -> tuple[Doc, list[int]]:
        """(the document of this window, the lags of the crowd)."""
        ground = self._ground
        with heard(ground), uncollected():
            ground.loop.run_until_complete(ground.in_world(self._story()))
            for error in ground.loop.bugs:
                ground.bug("world", error)
            self._fleet.end()
            ground.loop.bury()
        return self._document(), self._targets.lags_ms["crowd"]

    async def _story(self) -> None:
        ground, fleet = self._ground, self._fleet
        ground.history.add("world", "begin", **self._header())
        for job in self._jobs():
            fleet.store.write("user", ground.now(), (advance.create(job, CELL_SHARDS),))
            self._due += 1
        await self._until(MIDNIGHT - BOOTED_MS)
        for member in fleet.members:
            fleet.boot(member)
        await self._until(MIDNIGHT)
        self._storm.begin()
        if Fault.CACHE in self._night.faults:
            await self._until(MIDNIGHT + LOST_AFTER_MS)
            lost = fleet.buckets.lose(1.0, ground.chance("cache"))
            ground.nemesis("lose_buckets", "buckets", share=1.0, lost=lost)
        await self._until(MIDNIGHT + self._window_ms)
        self._storm.heal()
        while self._targets.started < self._due and ground.now() < MIDNIGHT + self._window_ms + WATCHED_MS:
            await asyncio.sleep(1)
        await asyncio.sleep(SETTLES_MS / SECOND_MS)
        ground.history.add("world", "end")

    async def _until(self, at: Instant) -> None:
        await asyncio.sleep(max(0, at - self._ground.now()) / SECOND_MS)

    def _jobs(self) -> Iterator[Job]:
        """All that are due from midnight to the end of the window."""
        night, window_ms = self._night, self._window_ms
        for job_id in self._ids(night.jobs // night.factor):
            yield self._job("crowd", Cron("0 0 * * *"), MIDNIGHT, Priority.DEFAULT, job_id)
        for who, per_second, priority in (
            ("background", BACKGROUND_PER_SECOND, Priority.DEFAULT),
            ("strict", STRICT_PER_SECOND, Priority.CRITICAL),
        ):
            every_ms = night.factor * SECOND_MS / (per_second * night.share)
            for number, job_id in enumerate(self._ids(math.ceil(window_ms / every_ms))):
                at = MIDNIGHT + math.floor(number * every_ms)
                yield self._job(who, Once(at, rfc3339(at)), at, priority, job_id)

    def _ids(self, count: int) -> list[str]:
        """Ids whose places in the window are as even as those of many more: each stands for its neighbours too."""
        bits = self._ground.chance(f"ids/{count}").randbytes
        drawn_ids = [new_job_id(self._ground.now(), bits(ID_BYTES)) for _ in range(count * NEIGHBOURS)]
        drawn_ids.sort(key=lambda job_id: offset_ms(job_id, self._window_ms))
        return drawn_ids[NEIGHBOURS // 2 :: NEIGHBOURS]

    def _job(self, who: str, schedule: Schedule, at: Instant, priority: Priority, job_id: str) -> Job:
        now = self._ground.now()
        return Job(
            job_id=job_id,
            schedule=schedule,
            target=HttpTarget(url=f"http://{who}.example/"),
            created_at=now,
            updated_at=now,
            priority=priority,
            window_ms=self._window_ms if who == "crowd" else 0,
            counted_from=now,
            next_run_at=at,
        )

    def _header(self) -> Doc:
        weather = self._ground.weather
        return {
            "seed": self._night.seed,
            "profile": weather.profile.value,
            "mode": "midnight",
            "faults": sorted(self._night.faults),
            "skew_ms": SKEW_MS if Fault.SKEW in weather else 0,
            "restart_ms": RESTART_MS,
            "timeout_ms": LONGEST_TIMEOUT_MS,
            "late_ms": None,  # how late they start is the question here, not a promise
            "recover_ms": None,
            "calm_ms": None,
        }

    def _document(self) -> Doc:
        night, lags = self._night, self._targets.lags_ms
        verdict = judge(self._ground.history.events)
        twice = verdict.figures["duplicates"]
        measured: Mapping[str, list[int]] = {"crowd": lags["crowd"], "strict": lags["strict"]}
        lag_ms = {who: percentiles(found) for who, found in measured.items()}
        return {
            "window": _short(self._window_ms),
            "window_ms": self._window_ms,
            "needed_per_second": round(night.needed(self._window_ms)),
            "had_per_second": round(night.had()),
            "executors_needed": night.executors_needed(self._window_ms),
            "executors": night.executors,
            "strict_executors": night.strict_executors,
            "due": self._due,
            "started": self._targets.started,
            "lag_ms": lag_ms,
            "within_slo": {who: round(share_within(found, SLO_MS), 4) for who, found in measured.items()},
            "slo_kept": {who: lag is not None and lag["p99"] <= SLO_MS for who, lag in lag_ms.items()},
            "called_again": sum(twice["explained"].values()) + twice["unexplained"],
            "violations": [asdict(violation) for violation in verdict.violations],
            "digest": self._ground.history.digest,
        }


def _weather(night: Night) -> Weather:
    """The faults that a storm can do by itself; the cache is lost at midnight sharp, and targets fail on their own."""
    weather = drawn(night.seed, Profile.CELL, night.faults - {Fault.CACHE, Fault.TARGETS})
    return replace(weather, mode="midnight")


def _short(span_ms: int) -> str:
    for unit, size in (("h", 60 * MINUTE_MS), ("m", MINUTE_MS), ("s", SECOND_MS)):
        if span_ms % size == 0:
            return f"{span_ms // size}{unit}"
    return f"{span_ms}ms"
