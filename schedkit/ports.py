"""The needs: one Protocol for each thing we do not control, and the World that holds them.

Everything that is not deterministic comes through here: time, chance, storage, queues, the network. Roles, API and
client are ordinary coroutines otherwise, so a simulator can run all of them.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from schedkit.errors import QueueUnavailable, StoreUnavailable
from schedkit.model.calls import Call, Reply
from schedkit.model.jobs import Priority
from schedkit.model.keys import Index
from schedkit.model.secrets import Missing, Secret
from schedkit.model.time import HOUR_MS, Instant
from schedkit.model.timers import Timer, timer_of
from schedkit.model.writes import Applied, Item, Key, Outcome, Refused, Write

BUCKET_HORIZON_MS: Final = 2 * HOUR_MS  # W9: what a loader copies ahead; writers add nearer timers directly
WRITE_RETRY_MS: Final = 100  # F11: the first wait before a write is tried again; doubled, with full jitter
WRITE_RETRY_CAP_MS: Final = 2_000
PASS_ON_TRIES: Final = 2  # the sweep does the rest: a caller must not wait long for a cache

log = logging.getLogger(__name__)


class Clock(Protocol):
    """The time of day, and waiting."""

    def now(self) -> Instant:
        """The wall time in ms, UTC, rounded down: a timer whose time equals it has come."""

    async def sleep(self, duration_ms: float) -> None:
        """Wait about this long; may wake early or late, so look at `now` again (H3)."""


class Chance(Protocol):
    """Chance: a seed in a simulation, the system's own elsewhere."""

    def draw(self) -> float:
        """Uniform in [0, 1)."""

    def bytes(self, count: int) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Page:
    """Some items in order, and where the next page starts; `cursor` is None on the last page."""

    items: tuple[tuple[Key, Item], ...]
    cursor: str | None


class Store(Protocol):
    """Items under keys, five verbs. An answer comes only after what it says is durable.

    Every verb raises StoreUnavailable when it cannot answer; then nothing was accepted.
    """

    async def get(self, key: Key) -> Item | None: ...

    async def apply(self, write: Write) -> Outcome: ...

    async def apply_all(self, writes: Sequence[Write]) -> Outcome:
        """All of them or none; for where two records must agree. No key twice."""

    async def timers(
        self, partition: str, *, until: Instant, limit: int, since: Instant = 0, after: Timer | None = None
    ) -> tuple[Timer, ...]:
        """Timers with since <= at <= until, sorted by (at, key), those after `after` only."""

    async def page(
        self,
        partition: str,
        *,
        limit: int,
        index: Index | None = None,
        prefix: str = "",
        since: str = "",
        cursor: str | None = None,
        newest_first: bool = False,
    ) -> Page:
        """Items of a partition by sort key, or of an index's partition by the index's own order.

        Those only that begin with `prefix` and do not come before `since` in that order. Raises ValueError for a cursor
        that this method did not make.
        """

    async def expire(self, now: Instant, limit: int) -> int:
        """Forget up to `limit` items whose `expires_at` has passed; returns how many. Nothing, where a TTL does it."""


class Buckets(Protocol):
    """Near timers, sorted by time: a cache of the store's timer index; losing it costs lateness only (W11).

    Every verb raises QueueUnavailable when it cannot answer; then it may have been done, or not.
    """

    async def add(self, timers: Sequence[Timer]) -> None: ...

    async def due(self, now: Instant, limit: int) -> tuple[Timer, ...]:
        """Timers whose time has come, earliest first; they stay until removed."""

    async def remove(self, timers: Sequence[Timer]) -> None: ...

    async def mark(self) -> None:
        """Put a mark among the timers: whoever finds it gone knows that they are gone too (W11)."""

    async def marked(self) -> bool:
        """Whether the mark is still there."""

    async def wait(self, now: Instant, at_most_ms: int) -> None:
        """Return when the earliest timer may have come, when an earlier one was added, or after `at_most_ms`."""


class Queue(Protocol):
    """Work that is due: calls by priority, and tasks by the queue in which they wait for a worker.

    Every verb raises QueueUnavailable when it cannot answer; then it may have been done, or not.
    """

    async def send(self, timers: Sequence[Timer]) -> None: ...

    async def receive(self, priority: Priority, limit: int) -> tuple[Timer, ...]:
        """Wait for work and take up to `limit`; what is taken is hidden until done or again."""

    async def take(self, task_line: str, limit: int, wait_ms: int) -> tuple[Timer, ...]:
        """Up to `limit` tasks of one task queue, the most urgent first; none, where none came within `wait_ms`."""

    async def done(self, timer: Timer) -> None: ...

    async def again(self, timer: Timer, delay_ms: int) -> None:
        """Give a message back, to be received once more after the delay."""


class Targets(Protocol):
    """The network to the targets of jobs."""

    async def call(self, call: Call) -> Reply:
        """Call once, follow no redirect, never raise for what the network or the target does."""


class Secrets(Protocol):
    """Secrets by reference. Which of them jobs may name is the deployment's to say; no value is kept."""

    def refusal(self, ref: str) -> str | None:
        """Why no job may name this reference, or None where it may. Whether there is such a secret is not told."""

    async def read(self, ref: str) -> Secret | Missing:
        """The secret as it is now; `Missing` where there is none or where `refusal` says that it may not be read."""


class NoSecrets:
    """`Secrets` of a world in which nothing is signed."""

    def refusal(self, ref: str) -> str | None:
        """No reference may be named."""
        return "this scheduler has no secrets"

    async def read(self, ref: str) -> Secret | Missing:
        """There is none."""
        return Missing(f"the secret {ref} may not be read: {self.refusal(ref)}")


@dataclass(frozen=True, slots=True)
class World:
    """All ports of one process, and the few facts every role needs."""

    clock: Clock
    chance: Chance
    store: Store
    buckets: Buckets
    queue: Queue
    targets: Targets
    node: str  # who holds a lease
    shards: int = 1
    horizon_ms: int = BUCKET_HORIZON_MS  # how far ahead timers are kept in buckets
    epoch_floor: int = 0  # every claim is under a higher epoch: the time at which the store was last restored, or 0
    registered: Mapping[str, str] = field(default_factory=dict)  # target_id -> base URL
    loopback_allowed: bool = False
    allowed_networks: tuple[str, ...] = ()
    secrets: Secrets = field(default_factory=NoSecrets)

    async def commit(self, *writes: Write) -> Outcome:
        """Perform a decision and pass its timers on: overdue ones to the queue, near ones to their bucket (W9, W9a)."""
        store = self.store
        outcome = await (store.apply(writes[0]) if len(writes) == 1 else store.apply_all(writes))
        if isinstance(outcome, Applied):
            await self._pass_on((write.key, item) for write, item in zip(writes, outcome.items, strict=True))
        return outcome

    async def commit_by(self, deadline: Instant, *writes: Write) -> Outcome:
        """Like commit, tried again with full jitter while the store is in trouble and the deadline is ahead (F11)."""
        cap_ms = WRITE_RETRY_MS
        in_doubt = False
        while True:
            try:
                outcome = await self.commit(*writes)
            except StoreUnavailable:
                if not await self._backed_off(cap_ms, deadline):
                    raise
                cap_ms, in_doubt = min(WRITE_RETRY_CAP_MS, 2 * cap_ms), True
            else:
                if in_doubt and isinstance(outcome, Refused) and outcome.current is not None:
                    # It may be our own write, landed before its reply was lost: its timer has not been passed on yet.
                    await self._pass_on([(writes[outcome.index].key, outcome.current)])
                return outcome

    async def get_by(self, deadline: Instant, key: Key) -> Item | None:
        """Like the store's get, tried again with full jitter while it is in trouble and the deadline is ahead (F11)."""
        cap_ms = WRITE_RETRY_MS
        while True:
            try:
                return await self.store.get(key)
            except StoreUnavailable:
                if not await self._backed_off(cap_ms, deadline):
                    raise
                cap_ms = min(WRITE_RETRY_CAP_MS, 2 * cap_ms)

    async def _backed_off(self, cap_ms: int, deadline: Instant) -> bool:
        """Wait before the next try; False where there is no time for one."""
        if self.clock.now() + cap_ms >= deadline:
            return False
        await self.clock.sleep(self.chance.draw() * cap_ms)
        return True

    async def _pass_on(self, items: Iterable[tuple[Key, Item]]) -> None:
        now = self.clock.now()
        near = now + self.horizon_ms
        timers = [timer for key, item in items if (timer := timer_of(key, item)) and timer.at <= near and timer.carried]
        if overdue := [timer for timer in timers if timer.at <= now]:
            await self._try(self.queue.send, overdue)
        if ahead := [timer for timer in timers if timer.at > now]:
            await self._try(self.buckets.add, ahead)

    async def _try(self, verb: Callable[[Sequence[Timer]], Awaitable[None]], timers: Sequence[Timer]) -> None:
        """The write has landed, so a cache in trouble is no reason to fail: what is not passed on is swept up (W11)."""
        for left in reversed(range(PASS_ON_TRIES)):
            try:
                return await verb(timers)
            except QueueUnavailable as error:
                if not left:
                    log.warning("%d timers were not passed on and will be swept up: %s", len(timers), error)
                else:
                    await self.clock.sleep(self.chance.draw() * WRITE_RETRY_MS)
