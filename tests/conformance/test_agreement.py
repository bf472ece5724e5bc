"""Whatever is done to them, all stores give the same answers."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from schedkit.adapters.memory.store import MemoryStore
from schedkit.adapters.sqlite.store import SqliteStore
from schedkit.model.keys import Index
from schedkit.model.writes import Absent, Condition, Equals, Key, Write
from schedkit.ports import Store

# Few keys, few values: collisions are where stores differ.
KEYS = st.builds(Key, st.sampled_from(["P", "Q"]), st.sampled_from(["a", "ab", "b", "é"]))
VALUES = st.sampled_from([None, 0, 1, "x", True])
PLACES = st.sampled_from([None, "1", "2", "10"])
TIMES = st.sampled_from([None, 1, 2, 10, 2**40])
CONDITIONS = st.one_of(
    st.just(Absent()), st.builds(Equals, st.sampled_from(["n", "m", "timer_at"]), st.one_of(VALUES, TIMES))
)


@st.composite
def writes(draw: st.DrawFn) -> Write:
    conditions: list[Condition] = draw(st.lists(CONDITIONS, max_size=1))
    changes: dict[str, Any] = draw(st.dictionaries(st.sampled_from(["n", "m"]), VALUES, max_size=2))
    for index, partition, values in (("timer", "D#0", TIMES), ("listed", "LIST", PLACES), ("dead", "DEAD", PLACES)):
        if draw(st.booleans()):
            at = draw(values)
            changes |= {f"{index}_partition": partition if at is not None else None, f"{index}_at": at}
    return Write(draw(KEYS), "test", tuple(conditions), changes)


@st.composite
def questions(draw: st.DrawFn) -> dict[str, Any]:
    index = draw(st.sampled_from([None, Index.LISTED, Index.DEAD]))
    partition = {None: draw(st.sampled_from(["P", "Q"])), Index.LISTED: "LIST", Index.DEAD: "DEAD"}[index]
    return {
        "partition": partition,
        "index": index,
        "limit": draw(st.integers(1, 4)),
        "prefix": draw(st.sampled_from(["", "a", "1"])),
        "since": draw(st.sampled_from(["", "1", "2", "ab", "b"])),
        "newest_first": draw(st.booleans()),
    }


STEPS = st.lists(
    st.one_of(
        writes(),
        st.lists(writes(), min_size=1, max_size=3, unique_by=lambda write: write.key),
        questions(),
        st.tuples(st.integers(0, 11), st.integers(0, 2**41), st.integers(1, 3)),
        KEYS,
    ),
    min_size=1,
    max_size=25,
)


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_every_store_gives_the_same_answers_to_the_same_story(steps: list[Any]) -> None:
    async def in_memory() -> list[Any]:
        return await told(MemoryStore(), steps)

    async def in_sqlite() -> list[Any]:
        with tempfile.TemporaryDirectory() as folder:
            store = SqliteStore(Path(folder) / "dev.db")
            try:
                return await told(store, steps)
            finally:
                store.close()

    assert asyncio.run(in_memory()) == asyncio.run(in_sqlite())


async def told(store: Store, steps: list[Any]) -> list[Any]:
    return [await answer(store, step) for step in steps]


async def answer(store: Store, step: Any) -> Any:
    match step:
        case Write():
            return await store.apply(step)
        case Key():
            return await store.get(step)
        case [*several] if isinstance(step, list):
            return await store.apply_all(several)
        case dict():
            return await every_page(store, step)
        case (since, until, limit):
            return await every_timer(store, since, until, limit)


async def every_page(store: Store, question: dict[str, Any]) -> list[Any]:
    pages: list[Any] = []
    cursor: str | None = None
    while True:
        page = await store.page(cursor=cursor, **question)
        pages.append(page)
        cursor = page.cursor
        if cursor is None:
            return pages


async def every_timer(store: Store, since: int, until: int, limit: int) -> list[Any]:
    pages: list[Any] = []
    last = None
    while page := await store.timers("D#0", since=since, until=until, limit=limit, after=last):
        pages.append(page)
        last = page[-1]
    return pages
