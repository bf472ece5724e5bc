"""One node of a fleet, as a process: every role over a store that it shares, and buckets and a queue of its own.

    python -m tests.chaos.node --name node-1 --starts 1 --database FILE --port 8701

Several of these on one file share the work by nothing but conditional claims: no lock of the folder, and nothing is
released for a node that died; its leases end. SIGTERM stops it in order.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import os
import signal
from pathlib import Path

import uvicorn

from schedkit.adapters import failpoints
from schedkit.adapters.http.targets import HttpTargets
from schedkit.adapters.memory.buckets import MemoryBuckets
from schedkit.adapters.memory.queue import MemoryQueue
from schedkit.adapters.sqlite.store import SqliteStore
from schedkit.adapters.system import SystemChance, SystemClock
from schedkit.api.app import make_app
from schedkit.api.ops import Vitals
from schedkit.embedded import Server, Serves, Settings, listen
from schedkit.model.jobs import Priority
from schedkit.ports import World
from schedkit.profiles import EMBEDDED_HORIZON_MS
from schedkit.roles.clockwatch import ClockWatch
from schedkit.roles.dispatcher import Dispatcher
from schedkit.roles.executor import Executor
from schedkit.roles.loader import Loader
from schedkit.roles.meter import Meter
from schedkit.roles.pool import Pool
from schedkit.roles.reaper import Reaper
from schedkit.roles.retention import Retention
from schedkit.roles.workers import Workers

SLOTS = 100
GRACE_MS = 5_000


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--name", required=True)
    options.add_argument("--starts", type=int, default=1, help="which life of this node it is")
    options.add_argument("--database", type=Path, required=True)
    options.add_argument("--port", type=int, required=True)
    chosen = options.parse_args()
    logging.basicConfig(level=logging.WARNING, format="%(created).3f  %(levelname)s  %(message)s")
    asyncio.run(live(f"{chosen.name}.{chosen.starts}", chosen.database, chosen.port))


async def live(node: str, database: Path, port: int) -> None:
    """Serve until SIGTERM."""
    asked = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, asked.set)
    clock = SystemClock(int(os.environ.get("SCHEDKIT_CLOCK_OFFSET_MS", "0")))
    store, targets = SqliteStore(database), HttpTargets(loopback_allowed=True)
    plain = World(
        clock=clock,
        chance=SystemChance(),
        store=store,
        buckets=MemoryBuckets(clock),
        queue=MemoryQueue(clock),
        targets=targets,
        node=node,
        horizon_ms=EMBEDDED_HORIZON_MS,
        loopback_allowed=True,
    )
    world = failpoints.armed(plain, os.environ.get(failpoints.VARIABLE))
    meter = Meter(clock)
    executor, reaper = Executor(world, meter.settled), Reaper(world, meter.settled)
    pools = [Pool(world, priority, executor.handle, SLOTS) for priority in Priority]
    roles: list[Serves] = [Loader(world), Dispatcher(world), ClockWatch(world), Retention(world), reaper, *pools]
    tasks = [asyncio.create_task(role.serve(), name=type(role).__name__) for role in roles]
    server = _server(world, meter, store)
    serving = asyncio.create_task(server.serve([listen(Settings(port=port))]))
    stopping = asyncio.create_task(asked.wait())
    await asyncio.wait((stopping, serving, *tasks), return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        if task.done():
            logging.critical("the %s has ended", task.get_name(), exc_info=task.exception())
        task.cancel()
    server.should_exit = True
    await asyncio.gather(*tasks, serving, return_exceptions=True)
    await asyncio.gather(*(pool.drain(GRACE_MS) for pool in pools))
    with contextlib.suppress(Exception):  # a store in trouble: the leases end by themselves
        await executor.release_all()
    await targets.close()
    store.close()


def _server(world: World, meter: Meter, store: SqliteStore) -> Server:
    vitals = Vitals("small", "shared", world.clock.now(), lambda: store.trouble, dict, meter.text)
    config = uvicorn.Config(
        make_app(world, vitals, Workers(world, meter.settled)),
        log_config=None,
        access_log=False,
        lifespan="off",
        server_header=False,
        ws="none",
    )
    config.timeout_graceful_shutdown = 1
    return Server(config)


if __name__ == "__main__":
    main()
