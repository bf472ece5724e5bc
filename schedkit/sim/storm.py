"""The storm: kills, stops, wrong clocks, cut wires, servers that are away, each kind in a loop of its own; it heals."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Final

from schedkit.model.time import SECOND_MS
from schedkit.sim.faults import LONGEST_OUTAGE_MS, RESTART_MS, Fault, Profile
from schedkit.sim.fleet import Fleet, Member
from schedkit.sim.ground import TARGETS, Ground
from schedkit.sim.targets import HOSTS

SHORTEST_OUTAGE_MS: Final = 1 * SECOND_MS


class Storm:
    """What happens to a fleet until `heal`."""

    def __init__(self, ground: Ground, fleet: Fleet) -> None:
        self._ground = ground
        self._fleet = fleet
        self._tasks: list[asyncio.Task[None]] = []
        self._restarts = ground.chance("restarts")

    def begin(self) -> None:
        """Start every kind of trouble that the weather has."""
        kinds: dict[Fault, Callable[[Random], Awaitable[None]]] = {
            Fault.KILL: self._kill,
            Fault.STOP: self._stop,
            Fault.SKEW: self._set_clock,
            Fault.OUTAGE: self._outage,
            Fault.CUT: self._cut,
            Fault.CACHE: self._lose_buckets,
            Fault.QUEUE: self._purge_queue,
            Fault.TARGETS: self._target_down,
        }
        if Fault.SKEW in self._ground.weather:
            for member in self._fleet.members:
                self._fleet.set_clock(member)
        for fault, trouble in kinds.items():
            if fault in self._ground.weather:
                self._tasks.append(self._ground.in_world(self._again_and_again(fault, trouble)))

    def heal(self) -> None:
        """From here on nothing is injected; what was stopped, cut or away comes back."""
        ground, fleet = self._ground, self._fleet
        for task in self._tasks:
            task.cancel()
        ground.storming = False
        fleet.store.down = fleet.store.full = fleet.buckets.down = fleet.queue.down = False
        fleet.targets.down.clear()
        for member in fleet.members:
            for wire in member.wires.values():
                wire.cut = False
            ground.loop.continue_process(member.process)
        ground.history.add("world", "heal")

    def restart(self, member: Member) -> None:
        """A supervisor starts a process that has died again, after a while."""
        if not member.restarting:
            member.restarting = True
            self._ground.later(self._restarts.uniform(200, RESTART_MS - SECOND_MS), self._fleet.boot, member)

    async def _again_and_again(self, fault: Fault, trouble: Callable[[Random], Awaitable[None]]) -> None:
        chance = self._ground.chance(f"storm/{fault}")
        while True:
            await self._wait(chance.expovariate(1 / self._ground.weather.every_ms))
            await trouble(chance)

    async def _kill(self, chance: Random) -> None:
        self._fleet.kill(chance.choice(self._fleet.members))

    async def _stop(self, chance: Random) -> None:
        self._fleet.stop(chance.choice(self._fleet.members))

    async def _set_clock(self, chance: Random) -> None:
        self._fleet.set_clock(chance.choice(self._fleet.members))

    async def _outage(self, chance: Random) -> None:
        fleet = self._fleet
        name = chance.choice(["store", "disk", "buckets", "queue"])
        if self._ground.weather.profile is not Profile.CELL and name in ("buckets", "queue"):
            name = "disk"
        server = {"store": fleet.store, "disk": fleet.store, "buckets": fleet.buckets, "queue": fleet.queue}[name]
        what = "full" if name == "disk" else "down"
        setattr(server, what, True)
        self._ground.nemesis("down", name)
        await self._wait(chance.uniform(SHORTEST_OUTAGE_MS, LONGEST_OUTAGE_MS))
        setattr(server, what, False)
        self._ground.nemesis("up", name)

    async def _cut(self, chance: Random) -> None:
        member = chance.choice(self._fleet.members)
        server = chance.choice(sorted(member.wires.keys() - {TARGETS}))
        wire = member.wires[server]
        wire.cut = True
        self._ground.nemesis("cut", member.name, server=server)
        await self._wait(chance.uniform(SHORTEST_OUTAGE_MS, LONGEST_OUTAGE_MS))
        wire.cut = False
        self._ground.nemesis("joined", member.name, server=server)

    async def _lose_buckets(self, chance: Random) -> None:
        share = chance.choice([1.0, 1.0, 0.3])
        lost = self._fleet.buckets.lose(share, chance)
        self._ground.nemesis("lose_buckets", "buckets", share=share, lost=lost)

    async def _purge_queue(self, chance: Random) -> None:
        self._ground.nemesis("purge", "queue", lost=self._fleet.queue.purge())

    async def _target_down(self, chance: Random) -> None:
        host = chance.choice([host for host in HOSTS if host != "ok"])
        self._fleet.targets.down.add(host)
        self._ground.nemesis("down", host)
        await self._wait(chance.uniform(SHORTEST_OUTAGE_MS, LONGEST_OUTAGE_MS))
        self._fleet.targets.down.discard(host)
        self._ground.nemesis("up", host)

    async def _wait(self, duration_ms: float) -> None:
        await asyncio.sleep(duration_ms / SECOND_MS)
