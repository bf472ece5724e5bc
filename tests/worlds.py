"""A virtual world: the real roles and the real API over memory, a clock that a test moves, and a scripted target.

    async with Virtual("2026-06-01T12:00:00Z") as world:
        process = await world.boot()        # a scheduler starts: recovery, loader, dispatcher, pools
        job = await world.create(…)         # through the API, in process
        await world.wait(minutes=5)         # virtual time: whoever sleeps is woken in the order of time
        assert world.targets.calls …
        process.kill()                      # as kill -9 does: nothing that it runs writes or calls any more

Hours of schedule take milliseconds, and the same test takes the same steps each time.
"""

from __future__ import annotations

import asyncio
import heapq
import math
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from typing import Any, Final, Self, TypeVar

import httpx

from schedkit.adapters.memory.buckets import MemoryBuckets
from schedkit.adapters.memory.queue import MemoryQueue
from schedkit.adapters.memory.secrets import MemorySecrets
from schedkit.adapters.memory.store import MemoryStore
from schedkit.api.access import Access
from schedkit.api.app import make_app
from schedkit.api.ops import Vitals
from schedkit.errors import StoreUnavailable
from schedkit.model.calls import Answered, Call, NoAnswer, Reply
from schedkit.model.jobs import Job, Priority, job_of
from schedkit.model.keys import RUN_PREFIX, job_key, parse_run_id, run_key
from schedkit.model.runs import Run, run_of
from schedkit.model.time import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, Instant, parse_rfc3339, rfc3339
from schedkit.model.timers import Timer
from schedkit.model.writes import Item, Key, Outcome, Write
from schedkit.ports import Clock, Page, Secrets, Store, World
from schedkit.roles.dispatcher import Dispatcher
from schedkit.roles.executor import Executor
from schedkit.roles.loader import Loader
from schedkit.roles.meter import Meter
from schedkit.roles.pool import Pool
from schedkit.roles.reaper import Reaper
from schedkit.roles.recovery import epoch_floor, recount_all, release_lost
from schedkit.roles.redriver import Redriver
from schedkit.roles.retention import Retention
from schedkit.roles.settling import Settled
from schedkit.roles.workers import Workers
from tests.documented import documented_client

HORIZON_MS: Final = 60 * SECOND_MS  # as in the embedded profile
FOREVER_MS: Final = 100 * 365 * DAY_MS
SLOTS: Final = 50
Answer = TypeVar("Answer")

URL: Final = "http://target.example/work"
SLOW: Final = {"url": URL, "timeout_seconds": 300}


async def settle() -> None:
    """Let everything run that can, until all coroutines wait: for the clock, or for each other."""
    ready: Sequence[object] = asyncio.get_running_loop()._ready  # type: ignore[attr-defined]
    await asyncio.sleep(0)
    while ready:
        await asyncio.sleep(0)


class ManualClock:
    """Time stands still until a test moves it. Sleepers wait on steady time; `jump` sets the wall clock only."""

    def __init__(self, at: Instant) -> None:
        self._wall = at
        self._steady = 0
        self._order = count()
        self._sleepers: list[tuple[int, int, asyncio.Future[None]]] = []

    def now(self) -> Instant:
        return self._wall + self._steady

    async def sleep(self, duration_ms: float) -> None:
        if duration_ms <= 0:  # a turn for the others, and no time
            return await asyncio.sleep(0)
        wakes = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._steady + math.ceil(duration_ms), next(self._order), wakes))
        await wakes

    def jump(self, by_ms: int) -> None:
        """Somebody sets the wall clock; no time passes."""
        self._wall += by_ms

    async def advance(self, by_ms: int) -> None:
        """Let this much time pass, waking every sleeper at its moment and letting it finish what it does then."""
        end = self._steady + by_ms
        await settle()
        while self._sleepers and self._sleepers[0][0] <= end:
            self._steady = max(self._steady, self._sleepers[0][0])
            while self._sleepers and self._sleepers[0][0] <= self._steady:
                _, _, wakes = heapq.heappop(self._sleepers)
                if not wakes.done():
                    wakes.set_result(None)
            await settle()
        self._steady = end


class SeededChance:
    def __init__(self, seed: int = 1) -> None:
        self._random = random.Random(seed)

    def draw(self) -> float:
        return self._random.random()

    def bytes(self, count: int) -> bytes:
        return self._random.randbytes(count)


OK: Final = Answered(200)


@dataclass(frozen=True, slots=True)
class Takes:
    """A reply that comes after a while."""

    duration_ms: int
    reply: Reply = OK


HANGS: Final = Takes(FOREVER_MS)


@dataclass(frozen=True, slots=True)
class Made:
    """A call that reached the target."""

    at: Instant
    call: Call

    @property
    def key(self) -> str:
        return self.call.headers["Idempotency-Key"]

    @property
    def scheduled_for(self) -> str:
        return rfc3339(parse_run_id(self.key)[1])

    @property
    def token(self) -> int:
        return int(self.call.headers["X-Fencing-Token"])

    @property
    def attempt(self) -> int:
        return int(self.call.headers["X-Attempt"])


class ScriptedTargets:
    """Remembers every call, and answers the next ones as told: `script` in order, then `always`."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self.calls: list[Made] = []
        self.script: list[Reply | Takes] = []
        self.always: Reply | Takes = OK

    async def call(self, call: Call) -> Reply:
        self.calls.append(Made(self._clock.now(), call))
        reply = self.script.pop(0) if self.script else self.always
        if not isinstance(reply, Takes):
            return reply
        await self._clock.sleep(min(reply.duration_ms, call.timeout_ms))
        return reply.reply if reply.duration_ms <= call.timeout_ms else NoAnswer("no answer within the timeout")

    def times(self) -> list[str]:
        """What was called, by the time it was scheduled for, in the order of the calls."""
        return [made.scheduled_for for made in self.calls]


class Line:
    """A process's line to the store, with what can go wrong on it. A dead line never answers: its process is gone."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.down = False  # every verb fails, nothing is done
        self.before: dict[str, Callable[[], Awaitable[Any]]] = {}  # done once, just before the next write of an arrow
        self.lose: list[str] = []  # the next write of each of these arrows is done, but its answer is lost
        self.after_loss: Callable[[], Awaitable[Any]] | None = None  # done when an answer was lost
        self.dies_before: int | None = None  # the process is killed before its n-th call from now, counted from 0
        self.dies_after: int | None = None  # … or after it, before it hears the answer
        self.dead = False
        self.made = 0

    async def get(self, key: Key) -> Item | None:
        return await self._through(partial(self._store.get, key))

    async def apply(self, write: Write) -> Outcome:
        return await self._through(partial(self._store.apply, write), (write,))

    async def apply_all(self, writes: Sequence[Write]) -> Outcome:
        return await self._through(partial(self._store.apply_all, writes), writes)

    async def timers(
        self, partition: str, *, until: Instant, limit: int, since: Instant = 0, after: Timer | None = None
    ) -> tuple[Timer, ...]:
        ask = partial(self._store.timers, partition, until=until, limit=limit, since=since, after=after)
        return await self._through(ask)

    async def page(self, partition: str, **how: Any) -> Page:
        return await self._through(partial(self._store.page, partition, **how))

    async def expire(self, now: Instant, limit: int) -> int:
        return await self._through(partial(self._store.expire, now, limit))

    async def _through(self, verb: Callable[[], Awaitable[Answer]], writes: Sequence[Write] = ()) -> Answer:
        nth, self.made = self.made, self.made + 1
        if self.dead or nth == self.dies_before:
            await self._die()
        if self.down:
            raise StoreUnavailable("the store is away")
        for arrow in [arrow for arrow in self.before if any(write.arrow.startswith(arrow) for write in writes)]:
            await self.before.pop(arrow)()
        answer = await verb()
        if nth == self.dies_after:
            await self._die()
        for lost in [arrow for write in writes for arrow in self.lose if write.arrow.startswith(arrow)]:
            self.lose.remove(lost)
            if self.after_loss is not None:
                await self.after_loss()
            raise StoreUnavailable("the answer was lost on its way")
        return answer

    async def _die(self) -> None:
        self.dead = True
        await asyncio.get_running_loop().create_future()


@dataclass(slots=True)
class Process:
    """One scheduler process: its roles over its own buckets and queue, and its line to the common store."""

    world: World
    line: Line
    executor: Executor
    loader: Loader
    dispatcher: Dispatcher
    reaper: Reaper
    pools: dict[Priority, Pool]
    meter: Meter
    settled: list[Run] = field(default_factory=list)
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    def kill(self) -> None:
        """kill -9: it writes nothing and starts nothing from now on."""
        self.line.dead = True
        for task in self.tasks:
            task.cancel()

    async def stop_receiving(self) -> None:
        """SIGTERM, first half: the roles end, and what is in flight goes on."""
        for task in self.tasks:
            task.cancel()
        await settle()

    async def dispatch(self) -> None:
        """The dispatcher's loop, but woken by timers alone: no tick each second of virtual time."""
        while True:
            if not await self.dispatcher.poll():
                await self.world.buckets.wait(self.world.clock.now(), HORIZON_MS)


class Virtual:
    """Clock, store and target of a world, the processes that run in it, and a client of its API."""

    def __init__(
        self,
        at: str = "2026-06-01T12:00:00Z",
        *,
        seed: int = 1,
        store: Store | None = None,
        secrets: Secrets | None = None,
        access: Access | None = None,
    ) -> None:
        self.access, self.clock = access, ManualClock(parse_rfc3339(at))
        self.store: Store = store or MemoryStore()
        self.chance = SeededChance(seed)
        self.targets = ScriptedTargets(self.clock)
        self.secrets: Secrets = secrets or MemorySecrets()
        self.line = Line(self.store)  # the API's
        self.not_ready: str | None = None
        self._names = count(1)
        self._watched: list[asyncio.Task[Any]] = []
        self._door = self.new_world(self.line)
        self._clients = [self.client_of(self._door)]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for client in self._clients:
            await client.aclose()
        left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    # ── processes ────────────────────────────────────────────────────────────────────────────────────────────────

    def new_world(self, line: Line | None = None, *, clock: Clock | None = None) -> World:
        """The ports of one more process: its own buckets and queue, the common rest."""
        return World(
            clock=clock or self.clock,
            chance=self.chance,
            store=line or Line(self.store),
            buckets=MemoryBuckets(self.clock),
            queue=MemoryQueue(self.clock),
            targets=self.targets,
            node=f"node-{next(self._names)}",
            horizon_ms=HORIZON_MS,
            registered={"billing": "https://billing.example/base/"},
            secrets=self.secrets,
        )

    async def boot(
        self,
        *,
        alone: bool = True,
        serving: bool = True,
        reaping: bool = True,
        redriving: bool = False,
        slots: int = SLOTS,
    ) -> Process:
        """Start a scheduler and its API. `alone`: with recovery, as embedded does; `serving`: its roles run.

        `reaping`, `redriving`: it looks for leases and redrives every few seconds: long, where days go by.
        """
        line = Line(self.store)
        world = self.new_world(line)
        if alone:
            world = replace(world, epoch_floor=await epoch_floor(world))
            await recount_all(world)
            await release_lost(world)
        meter = Meter(self.clock)
        settled: list[Run] = []

        def hear(run: Run) -> None:
            meter.settled(run)
            settled.append(run)

        executor = Executor(world, hear)
        pools = {priority: Pool(world, priority, executor.handle, slots) for priority in Priority}
        reaper = Reaper(world, hear)
        process = Process(world, line, executor, Loader(world), Dispatcher(world), reaper, pools, meter, settled)
        if serving:
            await process.loader.poll()
            serves = (process.loader.serve, process.dispatch, *((process.reaper.serve,) if reaping else ()))
            redrives = (Redriver(world).serve,) if redriving else ()
            roles = (*serves, *redrives, Retention(world).serve, *(pool.serve for pool in pools.values()))
            process.tasks += [asyncio.create_task(serve()) for serve in roles]
        self._clients.append(self.client_of(world, meter, hear))
        await settle()
        return process

    def start(self, work: Awaitable[Any]) -> asyncio.Task[Any]:
        """Run something beside the test; it is stopped when the world ends."""
        task = asyncio.ensure_future(work)
        self._watched.append(task)
        return task

    async def wait(
        self, *, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0, ms: int = 0
    ) -> None:
        """Let virtual time pass."""
        await self.clock.advance(
            ms + round(days * DAY_MS + hours * HOUR_MS + minutes * MINUTE_MS + seconds * SECOND_MS)
        )

    async def wait_until(self, at: str) -> None:
        await self.clock.advance(parse_rfc3339(at) - self.clock.now())

    # ── the API ──────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def api(self) -> httpx.AsyncClient:
        """A client of the scheduler that was started last."""
        return self._clients[-1]

    def client_of(
        self, world: World, meter: Meter | None = None, settled: Settled = lambda run: None
    ) -> httpx.AsyncClient:
        meter = meter or Meter(self.clock)
        vitals = Vitals("virtual", "memory only", self.clock.now(), lambda: self.not_ready, dict, meter.text)
        app = make_app(world, vitals, Workers(world, settled), self.access)
        return documented_client(app)

    async def create(self, schedule: str | dict[str, Any], **fields: Any) -> dict[str, Any]:
        """Create a job over HTTP; a schedule given as text is a cron in UTC."""
        body = {"schedule": schedule_of(schedule), "target": {"url": URL}} | fields
        return await self.ask("POST", "/v1/jobs", json=body)

    async def ask(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        """One request that succeeds."""
        answer = await self.api.request(method, path, **options)
        assert answer.is_success, answer.text
        document: dict[str, Any] = answer.json()
        return document

    # ── looking into the store ───────────────────────────────────────────────────────────────────────────────────

    async def job(self, job_id: str) -> Job:
        item = await self.store.get(job_key(job_id))
        assert item is not None, job_id
        return job_of(item)

    async def change(self, job: Job, changes: dict[str, Any]) -> None:
        """Something else than this program wrote to the job's item."""
        await self.store.apply(Write(job_key(job.job_id), "changed by hand", (), changes))

    async def run(self, job_id: str, scheduled_for: str) -> Run | None:
        item = await self.store.get(run_key(job_id, parse_rfc3339(scheduled_for)))
        return run_of(item) if item is not None else None

    async def runs(self, job_id: str) -> list[Run]:
        """Every run of a job, oldest first."""
        page = await self.store.page(job_key(job_id).partition, prefix=RUN_PREFIX, limit=100_000)
        return [run_of(item) for _, item in page.items]

    async def told(self, job_id: str) -> list[tuple[str, str]]:
        """(time, status or reason of a skip) of every run of a job, oldest first: how most tests read a story."""
        return [
            (rfc3339(run.scheduled_for)[11:19], run.reason or run.status if not run.attempts else run.status)
            for run in await self.runs(job_id)
        ]


@asynccontextmanager
async def virtual(at: str = "2026-06-01T12:00:00Z", **options: Any) -> AsyncIterator[tuple[Virtual, Process]]:
    """A world with one scheduler running in it."""
    async with Virtual(at, **options) as world:
        yield world, await world.boot()


def schedule_of(schedule: str | dict[str, Any]) -> dict[str, Any]:
    return {"type": "CRON", "cron": schedule, "time_zone": "UTC"} if isinstance(schedule, str) else schedule


def once(run_at: str) -> dict[str, Any]:
    return {"type": "ONCE", "run_at": run_at}
