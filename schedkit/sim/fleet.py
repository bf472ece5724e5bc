"""The fleet: the machines of a profile, the processes on them, and their restarts.

embedded   main                                               everything; buckets and queue die with it
small      node-1 node-2 node-3                               everything each, over one store
cell       api-1 api-2 loader dispatcher-1,2 executor-1,2,3   over one store, one set of buckets, one queue
           reaper
each       worker-1 worker-2 worker-3                         that poll the API of any of them
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

import httpx
from fastapi import FastAPI

from schedkit.adapters.memory.buckets import MemoryBuckets
from schedkit.adapters.memory.queue import MemoryQueue
from schedkit.api.app import make_app, serve
from schedkit.api.ops import Vitals
from schedkit.errors import QueueUnavailable, SchedkitError, StoreUnavailable
from schedkit.model.jobs import Priority
from schedkit.model.time import HOUR_MS, SECOND_MS
from schedkit.ports import Buckets, Queue, World
from schedkit.roles.dispatcher import Dispatcher
from schedkit.roles.executor import Executor
from schedkit.roles.loader import Loader
from schedkit.roles.meter import Meter
from schedkit.roles.pool import Pool
from schedkit.roles.reaper import Reaper
from schedkit.roles.recovery import recount_all, release_lost
from schedkit.roles.redriver import Redriver
from schedkit.roles.retention import Retention
from schedkit.roles.workers import Workers
from schedkit.sim.carriers import BucketLine, BucketServer, QueueLine, QueueServer
from schedkit.sim.faults import APART_MS, LONGEST_STOP_MS, SKEW_MS, Profile
from schedkit.sim.ground import TARGETS, Chance, Ground, SimClock, Wire
from schedkit.sim.loop import Process, State
from schedkit.sim.store import StoreLine, StoreServer
from schedkit.sim.targets import TargetLine, TargetServer
from schedkit.sim.workers import work

STORE_LEG_MS: Final = (0.5, 4.0)
BUCKET_LEG_MS: Final = (0.1, 0.6)
QUEUE_LEG_MS: Final = (1.0, 8.0)
LOCAL_LEG_MS: Final = (0.05, 0.5)  # a file on this machine
NEAR_HORIZON_MS: Final = 60 * SECOND_MS
CELL_HORIZON_MS: Final = 2 * HOUR_MS
CELL_SHARDS: Final = 4
LOOK_EVERY_MS: Final = APART_MS
BOOT_PAUSE_MS: Final = 1_000
LARGEST_DRIFT_PPM: Final = 200.0  # a bad quartz
LARGEST_OFFSET_MS: Final = SKEW_MS - 800  # the rest is left for an hour's drift at that rate
LONG_STOP_SHARE: Final = 0.3
LONG_AT_A_CALL_SHARE: Final = 0.7  # with a run in hand, what matters is a stop that outlasts its lease
LONG_STOP_MS: Final = 70 * SECOND_MS
SHORT_STOP_MS: Final = 30 * SECOND_MS

ROLES: Final = ("loader", "dispatcher", "executor", "reaper", "api")
WORKERS: Final[dict[str, tuple[str, ...]]] = {f"worker-{n}": ("worker",) for n in (1, 2, 3)}
MEMBERS: Final[dict[Profile, dict[str, tuple[str, ...]]]] = {
    Profile.EMBEDDED: {"main": ROLES, **WORKERS},
    Profile.SMALL: {**{f"node-{n}": ROLES for n in (1, 2, 3)}, **WORKERS},
    Profile.CELL: {
        **WORKERS,
        **{f"api-{n}": ("api",) for n in (1, 2)},
        "loader-1": ("loader",),
        **{f"dispatcher-{n}": ("dispatcher",) for n in (1, 2)},
        **{f"executor-{n}": ("executor",) for n in (1, 2, 3)},
        "reaper-1": ("reaper",),
    },
}


class Serves(Protocol):
    async def serve(self) -> None: ...


@dataclass(slots=True)
class Member:
    """A machine, and the process that runs on it now."""

    name: str
    roles: tuple[str, ...]
    clock: SimClock
    process: Process
    wires: dict[str, Wire] = field(default_factory=dict)
    tasks: list[asyncio.Task[None]] = field(default_factory=list)  # asyncio itself holds them weakly
    app: FastAPI | None = None
    serving: bool = False  # its API takes connections
    starts: int = 0
    restarting: bool = False

    @property
    def up(self) -> bool:
        return self.process.state is State.UP

    @property
    def dead(self) -> bool:
        return self.process.state is State.DEAD


@dataclass(frozen=True, slots=True)
class Wounds:
    """What can be done to a process at one of its own calls (`Hurts`), as long as it is the one on its machine."""

    fleet: Fleet
    member: Member
    process: Process

    def kill(self) -> None:
        self.fleet.kill(self.member, self.process)

    def stop(self) -> None:
        if self.member.process is self.process:
            self.fleet.stop(self.member, LONG_AT_A_CALL_SHARE)

    def set_clock(self) -> None:
        self.fleet.set_clock(self.member)


class Fleet:
    def __init__(self, ground: Ground, slots: int, *, workers: bool = True) -> None:
        """`slots` bounds the calls in flight of each pool of an executor. `workers`: with machines for them."""
        self._ground = ground
        self._slots = slots
        self._profile = ground.weather.profile
        self.store = StoreServer(ground)
        self.buckets = BucketServer(ground)
        self.queue = QueueServer(ground)
        self.targets = TargetServer(ground)
        self.transport: httpx.AsyncBaseTransport | None = None  # of the workers
        self.on_death: Callable[[Member], None] = lambda member: None
        self._wounds = ground.chance("wounds")
        self.members = [
            Member(name, roles, SimClock(ground, ground.chance(f"clock/{name}")), Process(name))
            for name, roles in MEMBERS[self._profile].items()
            if workers or name not in WORKERS
        ]

    def boot(self, member: Member) -> None:
        """Start a process on this machine."""
        member.starts += 1
        member.restarting = False
        member.process = process = Process(member.name)
        if member.starts > 1:
            self._ground.nemesis("boot", member.name)
        world = self._world(member, process)
        self._ground.loop.start(process, self._live(member, process, world))

    def kill(self, member: Member, process: Process | None = None) -> None:
        """kill -9; `process` where it is a certain one, which may be dead already."""
        if member.dead or (process is not None and process is not member.process):
            return
        member.serving = False
        self._ground.nemesis("kill", member.name)
        self._ground.loop.kill(member.process)
        self.on_death(member)

    def stop(self, member: Member, long_share: float = LONG_STOP_SHARE) -> None:
        """SIGSTOP, and SIGCONT after a while: within a lease, or beyond."""
        if not member.up:
            return
        chance, process = self._wounds, member.process
        duration_ms = chance.uniform(0, SHORT_STOP_MS)
        if chance.random() < long_share:
            duration_ms = chance.uniform(LONG_STOP_MS, LONGEST_STOP_MS)
        self._ground.loop.stop_process(process)
        self._ground.nemesis("stop", member.name)
        self._ground.later(duration_ms, self._go_on, member, process)

    def set_clock(self, member: Member) -> None:
        """Somebody sets its clock, to another time within the skew, and it drifts from there."""
        offset_ms = round(self._wounds.uniform(-LARGEST_OFFSET_MS, LARGEST_OFFSET_MS))
        drift_ppm = self._wounds.uniform(-LARGEST_DRIFT_PPM, LARGEST_DRIFT_PPM)
        member.clock.set(offset_ms, drift_ppm)
        self._ground.nemesis("skew", member.name, offset_ms=offset_ms, drift_ppm=drift_ppm)

    def _go_on(self, member: Member, process: Process) -> None:
        if process.state is State.STOPPED:
            self._ground.loop.continue_process(process)
            self._ground.nemesis("cont", member.name)

    def end(self) -> None:
        """Let go of every world: the web framework remembers the apps that it has seen, for ever."""
        for member in self.members:
            if member.app is not None:
                state = member.app.state
                state.world = state.vitals = state.workers = state.chains = None
                member.app = None

    def doors(self) -> list[Member]:
        """Machines whose API can be connected to; a stopped process accepts and does not answer."""
        return [member for member in self.members if member.serving]

    # ── one process ──────────────────────────────────────────────────────────────────────────────────────────────

    def _world(self, member: Member, process: Process) -> World:
        ground, name, clock = self._ground, member.name, member.clock

        def wire(server: str, leg_ms: tuple[float, float], error: Callable[[str], SchedkitError]) -> Wire:
            made = Wire(ground, process, server, leg_ms, error, Wounds(self, member, process))
            member.wires[server] = made
            return made

        cell = self._profile is Profile.CELL
        leg_ms = LOCAL_LEG_MS if self._profile is Profile.EMBEDDED else STORE_LEG_MS
        store = StoreLine(wire("store", leg_ms, StoreUnavailable), self.store, name, clock)
        buckets: Buckets = MemoryBuckets(clock)
        queue: Queue = MemoryQueue(clock)
        if cell:
            buckets = BucketLine(wire("buckets", BUCKET_LEG_MS, QueueUnavailable), self.buckets, clock)
            queue = QueueLine(wire("queue", QUEUE_LEG_MS, QueueUnavailable), self.queue, ground, name)
        outside = wire(TARGETS, STORE_LEG_MS, StoreUnavailable)
        return World(
            clock=clock,
            chance=Chance(f"{ground.seed}/{name}/{member.starts}"),
            store=store,
            buckets=buckets,
            queue=queue,
            targets=TargetLine(outside, ground, self.targets, name, None if "worker" in member.roles else clock),
            node=f"{name}.{member.starts}",
            shards=CELL_SHARDS if cell else 1,
            horizon_ms=CELL_HORIZON_MS if cell else NEAR_HORIZON_MS,
        )

    async def _live(self, member: Member, process: Process, world: World) -> None:
        """What a process does from its start: recover if it is alone, load, serve; a worker works."""
        ground = self._ground
        while "worker" not in member.roles:
            try:
                if self._profile is Profile.EMBEDDED:
                    await recount_all(world)
                    await release_lost(world)
                break
            except StoreUnavailable:
                await world.clock.sleep(BOOT_PAUSE_MS)
        if "worker" in member.roles:
            line = world.targets
            assert isinstance(line, TargetLine), "as it was made"
            assert self.transport is not None, "set before the first boot"
            return await work(ground, self.transport, world.node, line)
        meter = Meter(world.clock)
        executor = Executor(world, meter.settled)
        serving: list[Serves] = []  # no clock watch: it only says what it sees
        if "loader" in member.roles:
            serving += [Loader(world), Retention(world)]
        if "dispatcher" in member.roles:
            serving += [Dispatcher(world), Redriver(world)]
        if "executor" in member.roles:
            serving += [Pool(world, priority, executor.handle, self._slots) for priority in Priority]
        if "reaper" in member.roles:
            serving.append(Reaper(world, meter.settled))
        member.tasks = [asyncio.create_task(self._serve(member.name, role)) for role in serving]
        if "api" in member.roles:
            apart = self._profile is Profile.SMALL  # each node has a queue of its own
            workers = Workers(world, meter.settled, look_every_ms=LOOK_EVERY_MS if apart else None)
            vitals = Vitals(self._profile, "simulated", world.clock.now(), lambda: None, dict, meter.text)
            if member.app is None:
                member.app = make_app(world, vitals, workers)
            serve(member.app, world, vitals, workers)  # making one takes longer than its life
            member.serving = True

    async def _serve(self, name: str, role: Serves) -> None:
        try:
            await role.serve()
        except Exception as error:
            self._ground.bug(name, error)
            raise
