"""The wiring: which adapters and roles make up a profile. So far there is one: everything in one process.

embedded   SQLite (or memory), timers and queue in memory, rebuilt from the store at the start
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from schedkit.adapters import failpoints
from schedkit.adapters.http.targets import HttpTargets
from schedkit.adapters.memory.buckets import MemoryBuckets
from schedkit.adapters.memory.queue import MemoryQueue
from schedkit.adapters.memory.store import MemoryStore
from schedkit.adapters.secrets import MachineSecrets
from schedkit.adapters.sqlite.store import SqliteStore
from schedkit.adapters.system import SystemChance, SystemClock
from schedkit.model.time import SECOND_MS
from schedkit.ports import World

EMBEDDED_HORIZON_MS: Final = 60 * SECOND_MS  # a near store needs no two hours ahead, and memory stays small
NODE_BYTES: Final = 3


def embedded(
    database: Path | None,
    *,
    registered: Mapping[str, str] | None = None,
    allowed_networks: tuple[str, ...] = (),
    secrets_folder: Path | None = None,
    clock_offset_ms: int = 0,
    alone: bool = True,
) -> World:
    """A world of one process, on this event loop. `database` None keeps nothing; `secrets_folder` None reads none;
    `alone`: nobody else writes to the database.

    Raises StartupRefused when the database cannot be used, ValueError for a network that is not one, InvalidInput for
    failpoints that are none.
    """
    practised = os.environ.get(failpoints.VARIABLE)
    failpoints.read(practised or "")  # before anything is opened
    clock, chance = SystemClock(clock_offset_ms), SystemChance()
    world = World(
        clock=clock,
        chance=chance,
        store=SqliteStore(database, alone=alone) if database is not None else MemoryStore(),
        buckets=MemoryBuckets(clock),
        queue=MemoryQueue(clock),
        targets=HttpTargets(loopback_allowed=True, allowed_networks=allowed_networks),
        node=f"embedded-{os.getpid()}-{chance.bytes(NODE_BYTES).hex()}",
        horizon_ms=EMBEDDED_HORIZON_MS,
        registered=registered or {},
        loopback_allowed=True,
        allowed_networks=allowed_networks,
        secrets=MachineSecrets(os.environ, secrets_folder),
    )
    return failpoints.armed(world, practised)
