"""A store in memory: nothing survives the process. For tests, `--ephemeral` and the simulator."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Sequence

from schedkit.adapters.cursor import read_cursor, write_cursor
from schedkit.model.keys import Index
from schedkit.model.time import Instant
from schedkit.model.timers import Timer, timer_of
from schedkit.model.writes import Applied, Item, Key, Outcome, Refused, Write
from schedkit.ports import Page


class MemoryStore:
    """Items in a dict, each index a sorted list; every verb is atomic because none of them waits."""

    def __init__(self) -> None:
        self._items: dict[Key, Item] = {}
        self._timers: defaultdict[str, list[tuple[Instant, Key]]] = defaultdict(list)
        self._places: defaultdict[tuple[Index | None, str], list[tuple[str, Key]]] = defaultdict(list)

    async def get(self, key: Key) -> Item | None:
        return self._items.get(key)

    async def apply(self, write: Write) -> Outcome:
        return self._apply((write,))

    async def apply_all(self, writes: Sequence[Write]) -> Outcome:
        return self._apply(writes)

    async def timers(
        self, partition: str, *, until: Instant, limit: int, since: Instant = 0, after: Timer | None = None
    ) -> tuple[Timer, ...]:
        entries = self._timers[partition]
        start = bisect_right(entries, after.order) if after else 0
        start = max(start, bisect_left(entries, (since,)))
        found = []
        for at, key in entries[start : start + limit]:
            if at > until:
                break
            timer = timer_of(key, self._items[key])
            assert timer is not None, "an indexed item has a timer"
            found.append(timer)
        return tuple(found)

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
        places = self._places[index, partition]
        low = bisect_left(places, (max(prefix, since),))
        high = bisect_left(places, (prefix + "\U0010ffff",)) if prefix else len(places)
        if cursor is not None:
            last = read_cursor(cursor)
            if newest_first:
                high = min(high, bisect_left(places, last))
            else:
                low = max(low, bisect_right(places, last))
        chosen = places[max(low, high - limit) : high][::-1] if newest_first else places[low : min(high, low + limit)]
        more = high - low > limit
        items = tuple((key, self._items[key]) for _, key in chosen)
        return Page(items, write_cursor(*chosen[-1]) if more else None)

    async def expire(self, now: Instant, limit: int) -> int:
        expired = self.expired(now, limit)
        for key in expired:
            self._unindex(key, self._items.pop(key))
        return len(expired)

    def expired(self, now: Instant, limit: int) -> list[Key]:
        """What the next `expire` forgets."""
        return [key for key, item in self._items.items() if item.get("expires_at", now) < now][:limit]

    def _apply(self, writes: Sequence[Write]) -> Outcome:
        assert len({write.key for write in writes}) == len(writes), "no key twice in one decision"
        for index, write in enumerate(writes):
            current = self._items.get(write.key)
            if not write.holds(current):
                return Refused(index, current)
        return Applied(tuple(self._put(write) for write in writes))

    def _put(self, write: Write) -> Item:
        before = self._items.get(write.key)
        after = write.result(before)
        if before is not None:
            self._unindex(write.key, before)
        self._items[write.key] = after
        insort(self._places[None, write.key.partition], (write.key.sort, write.key))
        for index, listing, place in _places(after):
            insort(self._places[index, listing], (place, write.key))
        partition = after.get("timer_partition")
        if partition is not None:
            insort(self._timers[partition], (after["timer_at"], write.key))
        return after

    def _unindex(self, key: Key, item: Item) -> None:
        _discard(self._places[None, key.partition], (key.sort, key))
        for index, listing, place in _places(item):
            _discard(self._places[index, listing], (place, key))
        partition = item.get("timer_partition")
        if partition is not None:
            entries = self._timers[partition]
            del entries[bisect_left(entries, (item["timer_at"], key))]


def _places(item: Item) -> list[tuple[Index, str, str]]:
    return [
        (index, item[f"{index}_partition"], item[f"{index}_at"])
        for index in (Index.LISTED, Index.DEAD)
        if item.get(f"{index}_partition") is not None
    ]


def _discard(places: list[tuple[str, Key]], place: tuple[str, Key]) -> None:
    del places[bisect_left(places, place)]
