"""The store of a simulation: a server with the truth, a timer index that may lag behind, a line for each process."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from functools import partial
from itertools import count
from random import Random
from typing import Any, Final, TypeVar

from schedkit.adapters.memory.store import MemoryStore
from schedkit.model.keys import Index
from schedkit.model.time import SECOND_MS, Instant
from schedkit.model.timers import Timer
from schedkit.model.writes import Applied, Equals, Item, Key, Outcome, Refused, Write
from schedkit.ports import Clock, Page
from schedkit.sim.faults import Fault
from schedkit.sim.ground import Ground, Wire

T = TypeVar("T")

USUAL_LAG_MS: Final = 50.0  # an index of a replicated store: this on average,
LONG_LAG_SHARE: Final = 0.01  # and now and then
LONG_LAG_MS: Final = 20 * SECOND_MS  # up to this


class StoreServer:
    """Performs writes, and puts each into the history."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._items = MemoryStore()
        self._index = MemoryStore() if Fault.STALE in ground.weather else self._items
        self._chance: Random = ground.chance("index")
        self._indexed: dict[Key, int] = {}
        self._batches = count(1)
        self.down = False  # away for everybody
        self.full = False  # reads, and takes no write

    def get(self, key: Key) -> Item | None:
        return at_once(self._items.get(key))

    def write(self, node: str, own: Instant, writes: Sequence[Write]) -> Outcome:
        """All of them or none, by the process `node` whose clock says `own`."""
        history = self._ground.history
        before = [at_once(self._items.get(write.key)) for write in writes]
        outcome = at_once(self._items.apply_all(writes))
        match outcome:
            case Applied(items):
                batch = next(self._batches)
                for write, was, now in zip(writes, before, items, strict=True):
                    partition, sort = write.key
                    history.add(
                        node,
                        "store.commit",
                        partition=partition,
                        sort=sort,
                        arrow=write.arrow,
                        before=was,
                        after=now,
                        tag=_tag(write),
                        batch=batch,
                        own=own,
                    )
                    if self._index is not self._items:
                        self._replicate(batch, write.key, now)
            case Refused(index, current):
                partition, sort = writes[index].key
                history.add(
                    node,
                    "store.refused",
                    partition=partition,
                    sort=sort,
                    arrow=writes[index].arrow,
                    tag=_tag(writes[index]),
                    epoch=current.get("epoch") if current is not None else None,
                )
        return outcome

    def timers(
        self, partition: str, until: Instant, limit: int, since: Instant, after: Timer | None
    ) -> tuple[Timer, ...]:
        return at_once(self._index.timers(partition, until=until, limit=limit, since=since, after=after))

    def page(self, partition: str, **how: Any) -> Page:
        return at_once(self._items.page(partition, **how))

    def expire(self, now: Instant, limit: int) -> int:
        for key in self._items.expired(now, limit):
            self._ground.history.add(
                "world",
                "store.commit",
                partition=key.partition,
                sort=key.sort,
                arrow="forget",
                before=self.get(key),
                after=None,
                tag=None,
                batch=next(self._batches),
                own=None,
            )
        return at_once(self._items.expire(now, limit))

    def _replicate(self, version: int, key: Key, item: Item) -> None:
        chance = self._chance
        lag_ms = chance.expovariate(1 / USUAL_LAG_MS)
        if self._ground.storming and chance.random() < LONG_LAG_SHARE:
            lag_ms = chance.random() * LONG_LAG_MS
        names = ("timer_partition", "timer_at", "priority", "task_line")
        self._ground.later(lag_ms, self._catch_up, version, key, {name: item.get(name) for name in names})

    def _catch_up(self, version: int, key: Key, timer: dict[str, Any]) -> None:
        if version > self._indexed.get(key, 0):
            self._indexed[key] = version
            at_once(self._index.apply(Write(key, "index", (), timer)))


class StoreLine:
    """The `Store` of one process."""

    def __init__(self, wire: Wire, server: StoreServer, node: str, clock: Clock) -> None:
        self.wire = wire
        self._server = server
        self._node = node
        self._clock = clock

    async def get(self, key: Key) -> Item | None:
        server = self._server
        return await self.wire.ask("get", lambda: server.get(key), server.down)

    async def apply(self, write: Write) -> Outcome:
        return await self._write(write.arrow, (write,))

    async def apply_all(self, writes: Sequence[Write]) -> Outcome:
        return await self._write(writes[0].arrow, tuple(writes))

    async def timers(
        self, partition: str, *, until: Instant, limit: int, since: Instant = 0, after: Timer | None = None
    ) -> tuple[Timer, ...]:
        server = self._server
        return await self.wire.ask("timers", lambda: server.timers(partition, until, limit, since, after), server.down)

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
        how = {"limit": limit, "index": index, "prefix": prefix, "since": since, "cursor": cursor}
        ask = partial(self._server.page, partition, newest_first=newest_first, **how)
        return await self.wire.ask("page", ask, self._server.down)

    async def expire(self, now: Instant, limit: int) -> int:
        server = self._server
        return await self.wire.ask("expire", lambda: server.expire(now, limit), server.down or server.full)

    async def _write(self, arrow: str, writes: Sequence[Write]) -> Outcome:
        server, node, own = self._server, self._node, self._clock.now()
        return await self.wire.ask(arrow, lambda: server.write(node, own, writes), server.down or server.full)


def at_once(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that waits for nothing."""
    try:
        work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    raise AssertionError("it waited")


def _tag(write: Write) -> int | None:
    """The epoch under which its writer believes to hold the run."""
    for condition in write.conditions:
        if isinstance(condition, Equals) and condition.attribute == "epoch":
            return int(condition.value)
    return None
