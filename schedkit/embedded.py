"""The whole system in one process: `schedkit up`, tests and the checks of the runbooks stand on it.

lock the folder ─► open the store ─► recount, release what a dead process held ─► load near timers
    ─► loader, dispatcher, four pools, redriver, clock watch ─► API
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import os
import re
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Final, Protocol

import uvicorn
from fastapi import FastAPI

from schedkit.adapters.failpoints import bare
from schedkit.adapters.http.targets import HttpTargets
from schedkit.adapters.memory.buckets import MemoryBuckets
from schedkit.adapters.memory.queue import MemoryQueue
from schedkit.adapters.observed import ObservedStore
from schedkit.adapters.pepper import pepper
from schedkit.adapters.secrets import FOLDER_VARIABLE
from schedkit.adapters.sqlite.folder import DataFolder
from schedkit.adapters.sqlite.store import SqliteStore
from schedkit.adapters.system import secret_bytes
from schedkit.api.access import Access, Auth, Keyring
from schedkit.api.app import make_app
from schedkit.api.demo import PATHS
from schedkit.api.jobs_out import JobOut
from schedkit.api.ops import Vitals
from schedkit.api.views import job_out
from schedkit.errors import Conflict, InvalidInput, NotAllowed, Reason, SchedkitError
from schedkit.model.access import ENV_PATTERN
from schedkit.model.jobs import Priority, job_of
from schedkit.model.keys import job_key
from schedkit.model.runs import Run
from schedkit.model.time import SECOND_MS
from schedkit.ports import World
from schedkit.profiles import embedded
from schedkit.roles.clockwatch import ClockWatch
from schedkit.roles.dispatcher import Dispatcher
from schedkit.roles.executor import Executor
from schedkit.roles.feed import Alerts, Feed
from schedkit.roles.loader import Loader
from schedkit.roles.meter import Meter
from schedkit.roles.pool import DEFAULT_SLOTS, Pool
from schedkit.roles.reaper import Reaper
from schedkit.roles.recovery import epoch_floor, recount_all, release_lost
from schedkit.roles.redriver import Redriver
from schedkit.roles.retention import Retention
from schedkit.roles.workers import Workers

DEFAULT_HOST: Final = "127.0.0.1"
DEFAULT_PORT: Final = 8700
GRACE_MS: Final = 5 * SECOND_MS
BOOT_BYTES: Final = 3
LAG_ALERT_MS: Final = 1_000  # the promise for a strict job: p99 within a second

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Settings:
    """How to run one embedded scheduler. `data` None keeps nothing; `slots` bounds the calls in flight of each pool."""

    data: Path | None = Path(".schedkit")
    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT
    demo: bool = True
    allowed_networks: tuple[str, ...] = ()
    secrets_folder: Path | None = None
    slots: int = DEFAULT_SLOTS
    grace_ms: int = GRACE_MS
    clock_offset_ms: int = 0
    auth: Auth = Auth.NONE
    env: str = "dev"  # the word after sk_ in the keys that are made here
    trusted_proxies: str = ""  # whose word on where a request came from is believed: addresses, comma separated

    @property
    def open_to_all(self) -> bool:
        """Nobody is asked for a key."""
        return self.auth is Auth.NONE

    @property
    def shows_demo(self) -> bool:
        """Demo jobs and the targets that they call, which answer anybody: only where anybody may call anyway."""
        return self.demo and self.open_to_all

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"


def settings_of(data: Path | None, environment: Mapping[str, str], auth: str = Auth.NONE) -> Settings:
    """The settings that the environment gives, over a data folder."""
    networks = environment.get("SCHEDKIT_ALLOWED_NETWORKS", "").split(",")
    return Settings(
        data=data,
        allowed_networks=tuple(part.strip() for part in networks if part.strip()),
        secrets_folder=Path(folder) if (folder := environment.get("SCHEDKIT_SECRETS_DIR")) else None,
        auth=Auth(auth),
        env=environment.get("SCHEDKIT_ENV", "dev"),
        trusted_proxies=environment.get("SCHEDKIT_TRUSTED_PROXIES", ""),
    )


class Serves(Protocol):
    async def serve(self) -> None: ...


@dataclass(slots=True)
class Embedded:
    """A running scheduler: its world, its API and what it knows of itself."""

    settings: Settings
    world: World
    app: FastAPI
    meter: Meter
    pools: dict[Priority, Pool]
    executor: Executor
    workers: Workers
    feed: Feed
    listeners: list[Callable[[Run], None]] = field(default_factory=list)
    stopped_in_flight: int = 0

    async def job_behind(self, run: Run) -> JobOut:
        """The job of a run as the API shows it, for those who print what happens."""
        item = await self.world.store.get(job_key(run.job_id))
        assert item is not None, "jobs are never deleted"
        return job_out(job_of(item), self.world.registered)


@contextlib.asynccontextmanager
async def running(settings: Settings, folder: DataFolder | None = None) -> AsyncIterator[Embedded]:
    """Start everything but the network server, and stop it in order: receiving, calls in flight, leases, store.

    Raises StartupRefused or Conflict (DATA_FOLDER_IN_USE) when it cannot start; then nothing was changed.
    """
    check(settings)
    owned = folder is None and settings.data is not None
    if owned and settings.data is not None:
        folder = DataFolder(settings.data)
    async with contextlib.AsyncExitStack() as stack:
        if folder is not None and owned:
            stack.callback(folder.release)
        registered = {name: settings.url + path for name, path in PATHS.items()} if settings.open_to_all else {}
        world = embedded(
            folder.database if folder is not None else None,
            registered=registered,
            allowed_networks=settings.allowed_networks,
            secrets_folder=settings.secrets_folder,
            clock_offset_ms=settings.clock_offset_ms,
        )
        store, targets = bare(world.store), bare(world.targets)
        if isinstance(store, SqliteStore):
            stack.callback(store.close)
        if isinstance(targets, HttpTargets):
            stack.push_async_callback(targets.close)
        scheduler = await _started(settings, world, stack)
        yield scheduler


async def _started(settings: Settings, world: World, stack: contextlib.AsyncExitStack) -> Embedded:
    feed = Feed(world.clock, world.chance.bytes(BOOT_BYTES).hex())
    alerts = Alerts(feed, world.clock)
    logging.getLogger("schedkit").addHandler(alerts)
    stack.callback(logging.getLogger("schedkit").removeHandler, alerts)
    observed = ObservedStore(world.store, feed.heard)
    world = replace(world, epoch_floor=await epoch_floor(world), store=observed)
    if moved := await recount_all(world):
        log.warning("the time zone data changed: the next run of %d jobs moved", moved)
    if released := await release_lost(world):
        log.warning(
            "%d runs were in progress when the process before ended: taken up again, or ended as they must",
            released,
        )
    meter = Meter(world.clock)
    listeners: list[Callable[[Run], None]] = [meter.settled]

    def settled(run: Run) -> None:
        for listener in listeners:
            listener(run)

    executor = Executor(world, settled)
    pools = {priority: Pool(world, priority, executor.handle, settings.slots) for priority in Priority}
    loader, dispatcher, watch = Loader(world), Dispatcher(world), ClockWatch(world)
    workers, reaper = Workers(world, settled), Reaper(world, settled)
    await loader.poll()
    dead: list[str] = []
    vitals = _vitals(settings, world, meter, pools, watch, reaper, dead)
    access = Access(settings.auth, keyring_of(settings))
    if access.keyring is not None and not settings.open_to_all:
        access.keyring.pepper()  # one that cannot be used stops the start, rather than the first call
    app = make_app(world, vitals, workers, access, feed)
    scheduler = Embedded(settings, world, app, meter, pools, executor, workers, feed, listeners)
    roles: list[Serves] = [loader, dispatcher, watch, reaper, Retention(world), Redriver(world), *pools.values()]
    tasks = [asyncio.create_task(role.serve(), name=type(role).__name__) for role in roles]
    for task in tasks:
        task.add_done_callback(partial(_mourn, dead))
    stack.push_async_callback(_stop, scheduler, tasks)
    return scheduler


def _mourn(dead: list[str], task: asyncio.Task[None]) -> None:
    """A role serves for ever: one that ends by itself is a bug that an operator must see."""
    if not task.cancelled():
        dead.append(f"the {task.get_name()} has ended; restart the scheduler, nothing is lost by it")
        log.critical("the %s has ended", task.get_name(), exc_info=task.exception())


async def _stop(scheduler: Embedded, tasks: list[asyncio.Task[None]]) -> None:
    """F10: stop receiving, let calls in flight end within the grace, release the leases of the rest."""
    scheduler.workers.close()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    grace_ms = scheduler.settings.grace_ms
    stopped = await asyncio.gather(*(pool.drain(grace_ms) for pool in scheduler.pools.values()))
    scheduler.stopped_in_flight = sum(stopped)
    with contextlib.suppress(SchedkitError):  # a store in trouble: the leases end by themselves
        await scheduler.executor.release_all()


def check(settings: Settings) -> None:
    """Raises InvalidInput for a setting that is none, NotAllowed for an address that others reach without a key."""
    if re.fullmatch(ENV_PATTERN, settings.env) is None:
        raise InvalidInput(
            Reason.INVALID_ARGUMENT, f"{settings.env!r} is not 1 to 16 of a-z and 0-9", field="SCHEDKIT_ENV"
        )
    if not settings.open_to_all and settings.data is None:
        raise InvalidInput(
            Reason.INVALID_ARGUMENT,
            "--auth api-key needs a data folder: keys that are forgotten open nothing",
            field="--auth",
            fix=("leave --ephemeral away",),
        )
    for network in settings.allowed_networks:
        try:
            ipaddress.ip_network(network)
        except ValueError as error:
            raise InvalidInput(
                Reason.INVALID_ARGUMENT,
                f"{network!r} is not a network: {error}",
                field="SCHEDKIT_ALLOWED_NETWORKS",
                fix=("write networks as 10.0.0.0/8,192.168.1.0/24",),
            ) from None
    if settings.secrets_folder is not None and not settings.secrets_folder.is_dir():
        raise InvalidInput(
            Reason.INVALID_ARGUMENT,
            f"{str(settings.secrets_folder)!r} is not a folder",
            field=FOLDER_VARIABLE,
            fix=("name the folder in which the files with secrets are",),
        )
    if settings.open_to_all and settings.host != "localhost" and not _loopback(settings.host):
        raise NotAllowed(
            Reason.FORBIDDEN,
            f"--host {settings.host} would let other machines in, and nobody is asked for a key",
            why="without keys the API is for this machine only",
            fix=("add --auth api-key", "or leave --host away"),
        )


def keyring_of(settings: Settings) -> Keyring:
    """What keys are made of here; the pepper is looked for when it is first needed."""
    return Keyring(cache(lambda: pepper(settings.data, os.environ)), secret_bytes, settings.env)


def listen(settings: Settings) -> socket.socket:
    """The server's socket. Raises Conflict (PORT_IN_USE)."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # The protocol is named, or asyncio leaves TCP_NODELAY off and each answer waits 40 ms for an acknowledgement.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((settings.host, settings.port))
    except (OSError, OverflowError) as error:
        listener.close()
        raise Conflict(
            Reason.PORT_IN_USE,
            f"port {settings.port} on {settings.host} cannot be had: {getattr(error, 'strerror', None) or error}",
            why="another program listens there",
            fix=(f"schedkit up --port {settings.port + 1}", f"see who has it: ss -ltnp 'sport = :{settings.port}'"),
        ) from error
    return listener


class Server(uvicorn.Server):
    """uvicorn, with its hands off the process's signals: whoever runs it decides when it stops."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def server_of(scheduler: Embedded) -> Server:
    trusted = scheduler.settings.trusted_proxies
    config = uvicorn.Config(
        scheduler.app, log_config=None, access_log=False, lifespan="off", server_header=False, ws="none", backlog=2_048,
        proxy_headers=bool(trusted), forwarded_allow_ips=trusted,
    )  # fmt: skip
    config.timeout_graceful_shutdown = scheduler.settings.grace_ms // SECOND_MS
    return Server(config)


def _vitals(
    settings: Settings,
    world: World,
    meter: Meter,
    pools: dict[Priority, Pool],
    watch: ClockWatch,
    reaper: Reaper,
    dead: list[str],
) -> Vitals:
    def not_ready() -> str | None:
        if dead:
            return dead[0]
        store = bare(world.store)
        return store.trouble if isinstance(store, SqliteStore) else None

    def live() -> dict[str, Any]:
        queue = world.queue
        assert isinstance(queue, MemoryQueue)
        lag = meter.lag()
        alerts = []
        if (lag["p99_ms"] or 0) > LAG_ALERT_MS:
            alerts.append({"level": "WARN", "text": f"dispatch lag p99 is {lag['p99_ms']} ms over the last 5 min"})
        if watch.last_jump_ms:
            alerts.append({"level": "WARN", "text": f"the clock was set by {watch.last_jump_ms / SECOND_MS:+.1f} s"})
        if reaper.suspended is not None and reaper.ended:
            late = f"{reaper.ended} workers' leases have ended and are not given to others: {reaper.suspended}"
            alerts.append({"level": "WARN", "text": late})
        return {
            "lag": lag,
            "reaper": {
                "live": reaper.live,
                "expired": reaper.ended,
                "reclaimed": reaper.given_back,
                "suspended": reaper.suspended if reaper.live + reaper.ended else None,
            },
            "queues": {
                priority.value: {"ready": queue.ready(priority), "running": pool.running, "slots": pool.slots}
                for priority, pool in pools.items()
            },
            "runs_per_minute": meter.per_minute(),
            "alerts": alerts,
        }

    def metrics() -> bytes:
        queue, buckets = world.queue, world.buckets
        assert isinstance(queue, MemoryQueue)
        assert isinstance(buckets, MemoryBuckets)
        for priority, pool in pools.items():
            meter.set_gauge("queue_ready", queue.ready(priority), priority)
            meter.set_gauge("in_flight", pool.running, priority)
        meter.set_gauge("near_timers", len(buckets))
        meter.set_gauge("store_ok", float(not_ready() is None))
        return meter.text()

    data = str((settings.data / "dev.db").resolve()) if settings.data is not None else "memory only"
    return Vitals("embedded", data, world.clock.now(), not_ready, live, metrics)


def _loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
