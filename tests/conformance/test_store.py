"""What every store promises, whatever it is made of."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from schedkit.model.jobs import Priority
from schedkit.model.keys import Index, TimerKind
from schedkit.model.time import MAX_INSTANT
from schedkit.model.timers import Timer
from schedkit.model.writes import Absent, Applied, Equals, Key, Refused, Write
from schedkit.ports import Store
from tests.conformance.items import A, B, C, create, dead, due, if_is, listed, put, timer

# ── get and apply ────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_what_was_never_written_is_not_there(store: Store) -> None:
    assert await store.get(A) is None


async def test_a_write_answers_with_the_item_as_it_stands_and_a_read_gives_the_same(store: Store) -> None:
    outcome = await store.apply(create(A, n=1, text="é😀", flag=False, nested={"a": [1, None, {"b": 2.5}]}))
    assert isinstance(outcome, Applied)
    assert outcome.item == {"n": 1, "text": "é😀", "flag": False, "nested": {"a": [1, None, {"b": 2.5}]}}
    assert await store.get(A) == outcome.item


async def test_a_write_changes_only_what_it_names(store: Store) -> None:
    await store.apply(create(A, kept=1, changed=1))
    outcome = await store.apply(put(A, changed=2, new=3))
    assert isinstance(outcome, Applied)
    assert outcome.item == await store.get(A) == {"kept": 1, "changed": 2, "new": 3}


async def test_a_change_to_none_takes_the_attribute_away(store: Store) -> None:
    await store.apply(create(A, kept=1, gone=1))
    await store.apply(put(A, gone=None))
    assert await store.get(A) == {"kept": 1}
    assert isinstance(await store.apply(put(A, if_is("gone", None), kept=2)), Applied)


async def test_absent_holds_once(store: Store) -> None:
    assert isinstance(await store.apply(create(A, n=1)), Applied)
    assert await store.apply(create(A, n=2)) == Refused(0, {"n": 1})
    assert await store.get(A) == {"n": 1}


async def test_a_refused_write_says_how_the_item_stands_and_changes_nothing(store: Store) -> None:
    await store.apply(create(A, epoch=4, status="RUNNING"))
    outcome = await store.apply(put(A, if_is("status", "RUNNING"), if_is("epoch", 3), status="SUCCEEDED"))
    assert outcome == Refused(0, {"epoch": 4, "status": "RUNNING"})
    assert await store.get(A) == {"epoch": 4, "status": "RUNNING"}


async def test_equals_does_not_hold_for_an_item_that_is_not_there(store: Store) -> None:
    assert await store.apply(put(A, if_is("n", None), n=1)) == Refused(0, None)
    assert await store.get(A) is None


@pytest.mark.parametrize("value", [True, False, 0, 1, "1", "", -1, 2**53 + 1, 1.5, [1, 2], {"a": None}])
async def test_a_value_equals_itself_after_it_was_stored(store: Store, value: Any) -> None:
    await store.apply(create(A, value=value))
    assert isinstance(await store.apply(put(A, if_is("value", value), seen=1)), Applied)
    assert isinstance(await store.apply(put(A, if_is("value", "other"), seen=2)), Refused)


async def test_keys_are_exact(store: Store) -> None:
    odd = [Key("P", ""), Key("P", "a"), Key("P", "A"), Key("P", "a "), Key("p", "a"), Key("P", "é"), Key("P", "a'%_")]
    for number, key in enumerate(odd):
        await store.apply(create(key, n=number))
    assert [await store.get(key) for key in odd] == [{"n": number} for number in range(len(odd))]


# ── apply_all ────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_all_writes_land_together_and_answer_in_their_order(store: Store) -> None:
    outcome = await store.apply_all([create(B, n=2), create(A, n=1)])
    assert outcome == Applied(({"n": 2}, {"n": 1}))
    assert [await store.get(A), await store.get(B)] == [{"n": 1}, {"n": 2}]


async def test_one_refusal_refuses_all_and_names_the_first_that_failed(store: Store) -> None:
    await store.apply(create(B, n=1, **due(5)))
    outcome = await store.apply_all([create(A, n=1, **due(1)), create(B, n=2), put(C, if_is("n", 1), n=2)])
    assert outcome == Refused(1, {"n": 1, **due(5)})
    assert await store.get(A) is None
    assert await store.timers("D#0", until=9, limit=9) == (timer(5, B),)


async def test_an_index_entry_moves_in_the_same_write(store: Store) -> None:
    await store.apply_all([create(A, **due(1)), create(B, **due(2))])
    await store.apply_all([put(A, **due(7, "L#0")), put(B, **due(None))])
    assert await store.timers("D#0", until=9, limit=9) == ()
    assert await store.timers("L#0", until=9, limit=9) == (timer(7, A, TimerKind.LEASE),)


# ── timers ───────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_timers_come_in_the_order_of_time_with_kind_and_priority(store: Store) -> None:
    await store.apply(create(C, priority="CRITICAL", **due(1_000, "R#3")))
    await store.apply(create(A, **due(999, "R#3")))
    found = await store.timers("R#3", until=1_000, limit=9)
    assert found == (
        Timer(999, A, TimerKind.RETRY, Priority.DEFAULT),
        Timer(1_000, C, TimerKind.RETRY, Priority.CRITICAL),
    )


async def test_the_timer_of_a_task_names_its_queue(store: Store) -> None:
    await store.apply(create(A, task_line="t/ledger", **due(5, "Q#0")))
    await store.apply(create(B, task_line="t/ledger", **due(6, "R#0")))
    assert await store.timers("Q#0", until=9, limit=9) == (timer(5, A, TimerKind.TASK, task_queue="t/ledger"),)
    assert await store.timers("R#0", until=9, limit=9) == (timer(6, B, TimerKind.RETRY),)


async def test_both_ends_of_a_range_of_timers_belong_to_it(store: Store) -> None:
    for at in (9, 10, 15, 20, 21):
        await store.apply(create(Key("P", str(at)), **due(at)))
    found = await store.timers("D#0", since=10, until=20, limit=9)
    assert [entry.at for entry in found] == [10, 15, 20]


async def test_times_past_2038_sort_as_numbers(store: Store) -> None:
    for at in (MAX_INSTANT, 999, 2_840_140_800_000, 1_000):
        await store.apply(create(Key("P", str(at)), **due(at)))
    found = await store.timers("D#0", until=MAX_INSTANT, limit=9)
    assert [entry.at for entry in found] == [999, 1_000, 2_840_140_800_000, MAX_INSTANT]


async def test_timers_at_one_instant_are_paged_without_a_loss_or_a_repeat(store: Store) -> None:
    keys = [Key(f"P{n % 3}", f"s{n:02}") for n in range(20)]
    for key in keys:
        await store.apply(create(key, **due(500)))
    seen: list[Key] = []
    last: Timer | None = None
    while page := await store.timers("D#0", until=500, limit=3, after=last):
        assert len(page) <= 3
        seen += [entry.key for entry in page]
        last = page[-1]
    assert seen == sorted(keys)


async def test_after_and_since_hold_together(store: Store) -> None:
    await store.apply_all([create(A, **due(5)), create(B, **due(7)), create(C, **due(9))])
    assert await store.timers("D#0", since=8, until=9, limit=9, after=timer(5, A)) == (timer(9, C),)
    assert await store.timers("D#0", since=0, until=9, limit=9, after=timer(7, B)) == (timer(9, C),)


async def test_timers_after_one_that_has_moved_go_on_from_where_it_stood(store: Store) -> None:
    await store.apply_all([create(A, **due(5)), create(B, **due(5)), create(C, **due(6))])
    first = await store.timers("D#0", until=9, limit=1)
    await store.apply(put(A, **due(50)))
    assert await store.timers("D#0", until=9, limit=9, after=first[0]) == (timer(5, B), timer(6, C))


async def test_partitions_of_timers_do_not_mix(store: Store) -> None:
    await store.apply_all([create(A, **due(5, "D#1")), create(B, **due(5, "D#10")), create(C, **due(5, "L#1"))])
    assert await store.timers("D#1", until=9, limit=9) == (timer(5, A),)


# ── pages ────────────────────────────────────────────────────────────────────────────────────────────────────────────


async def paged(store: Store, partition: str, limit: int, **how: Any) -> list[str]:
    """The sort keys of every item, read page by page."""
    seen: list[str] = []
    cursor: str | None = None
    while True:
        page = await store.page(partition, limit=limit, cursor=cursor, **how)
        assert len(page.items) <= limit
        seen += [key.sort for key, _ in page.items]
        cursor = page.cursor
        if cursor is None:
            return seen


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 100])
@pytest.mark.parametrize("newest_first", [False, True])
async def test_pages_of_a_partition_give_every_item_once_in_order(store: Store, limit: int, newest_first: bool) -> None:
    sorts = sorted(f"RUN#{n:03}" for n in range(7))
    for sort in reversed(sorts):
        await store.apply(create(Key("P", sort), n=1))
    await store.apply(create(Key("P0", "RUN#000"), n=1))
    assert await paged(store, "P", limit, newest_first=newest_first) == sorts[:: -1 if newest_first else 1]


@pytest.mark.parametrize("newest_first", [False, True])
async def test_a_prefix_bounds_a_partition_on_both_sides(store: Store, newest_first: bool) -> None:
    for sort in ("JOB", "RUM", "RUN", "RUN#1", "RUN#2", "RUN#\U0010fffe", "RUO", "é"):
        await store.apply(create(Key("P", sort), n=1))
    wanted = ["RUN#1", "RUN#2", "RUN#\U0010fffe"]
    assert await paged(store, "P", 2, prefix="RUN#", newest_first=newest_first) == (
        wanted[::-1] if newest_first else wanted
    )


@pytest.mark.parametrize("newest_first", [False, True])
async def test_a_page_begins_where_it_is_told_to_and_goes_no_further_than_its_prefix(
    store: Store, newest_first: bool
) -> None:
    for sort in ("JOB", "RUN#1", "RUN#2", "RUN#3", "RUO"):
        await store.apply(create(Key("P", sort), **listed(sort)))
    since = {"RUN#2": ["RUN#2", "RUN#3"], "RUN#11": ["RUN#2", "RUN#3"], "A": ["RUN#1", "RUN#2", "RUN#3"], "RUP": []}
    for index, partition in ((None, "P"), (Index.LISTED, "LIST")):
        for begin, wanted in since.items():
            asked = {"index": index, "prefix": "RUN#", "since": begin, "newest_first": newest_first}
            assert await paged(store, partition, 1, **asked) == (wanted[::-1] if newest_first else wanted)
        assert await paged(store, partition, 9, index=index, since="RUN#3") == ["RUN#3", "RUO"]


@pytest.mark.parametrize("newest_first", [False, True])
async def test_an_index_is_paged_by_its_own_order_and_equal_places_by_key(store: Store, newest_first: bool) -> None:
    places = {"a": "2", "b": "1", "c": "2", "d": "1", "e": "3"}
    for sort, place in places.items():
        await store.apply(create(Key("P", sort), **listed(place)))
    await store.apply(create(Key("P", "elsewhere"), **listed("1", "LISTEN")))
    wanted = ["b", "d", "a", "c", "e"]
    for limit in (1, 2, 9):
        found = await paged(store, "LIST", limit, index=Index.LISTED, newest_first=newest_first)
        assert found == (wanted[::-1] if newest_first else wanted)


async def test_dead_letters_are_a_list_of_their_own_and_leave_it(store: Store) -> None:
    await store.apply_all([create(A, **listed("1"), **dead("7")), create(B, **listed("2"), **dead("5"))])
    assert await paged(store, "DEAD", 9, index=Index.DEAD) == ["b", "a"]
    await store.apply(put(B, **dead(None)))
    assert await paged(store, "DEAD", 9, index=Index.DEAD) == ["a"]
    assert await paged(store, "LIST", 9, index=Index.LISTED) == ["a", "b"]


async def test_a_page_holds_the_items_themselves_and_ends_with_none(store: Store) -> None:
    await store.apply_all([create(A, n=1), create(B, n=2)])
    page = await store.page("P", limit=2)
    assert (page.items, page.cursor) == (((A, {"n": 1}), (B, {"n": 2})), None)
    assert (await store.page("nowhere", limit=2)).items == ()


async def test_a_cursor_goes_on_after_an_item_that_has_moved_on(store: Store) -> None:
    await store.apply_all([create(Key("P", sort), **listed(sort)) for sort in "abcd"])
    first = await store.page("LIST", index=Index.LISTED, limit=2)
    await store.apply(put(Key("P", "b"), **listed("z")))
    rest = await store.page("LIST", index=Index.LISTED, limit=9, cursor=first.cursor)
    assert [key.sort for key, _ in rest.items] == ["c", "d", "b"]


@pytest.mark.parametrize(
    "cursor", ["", "x", "!!!!", "bnVsbA", "W10", "WzEsMiwzXQ", "WyJhIiwiYiJd", "eyJhIjoxfQ", "é", "WyJhIiwiYiIsImMi"]
)
async def test_a_cursor_that_no_page_gave_is_refused(store: Store, cursor: str) -> None:
    await store.apply(create(A, n=1))
    with pytest.raises(ValueError, match="not a cursor"):
        await store.page("P", limit=1, cursor=cursor)


# ── items that end by themselves ─────────────────────────────────────────────────────────────────────────────────────


async def test_only_what_has_expired_is_forgotten_with_all_its_index_entries(store: Store) -> None:
    await store.apply_all(
        [
            create(A, expires_at=9, **due(5), **listed("1"), **dead("1")),
            create(B, expires_at=10, **due(5), **listed("2"), **dead("2")),
            create(C, **due(5), **listed("3"), **dead("3")),
        ]
    )
    assert await store.expire(10, 99) == 1
    assert [await store.get(A), (await store.get(B) or {}).get("expires_at")] == [None, 10]
    assert await store.timers("D#0", until=9, limit=9) == (timer(5, B), timer(5, C))
    assert await paged(store, "LIST", 9, index=Index.LISTED) == ["b", "c"]
    assert await paged(store, "DEAD", 9, index=Index.DEAD) == ["b", "c"]
    assert await paged(store, "P", 9) == ["b"]
    assert await store.expire(10, 99) == 0
    assert isinstance(await store.apply(create(A, n=1)), Applied), "its key is free again"


async def test_expiry_goes_in_steps_of_the_limit(store: Store) -> None:
    await store.apply_all([create(Key("P", str(n)), expires_at=n) for n in range(5)])
    assert [await store.expire(100, 2) for _ in range(4)] == [2, 2, 1, 0]


# ── many at once ─────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_of_many_claims_of_one_item_exactly_one_wins(store: Store) -> None:
    """C4: each transition happens once; every loser is told who won."""
    outcomes = await asyncio.gather(*(store.apply(create(A, owner=n)) for n in range(100)))
    winners = [outcome.item["owner"] for outcome in outcomes if isinstance(outcome, Applied)]
    assert len(winners) == 1
    losers = [outcome for outcome in outcomes if isinstance(outcome, Refused)]
    assert all(loser == Refused(0, {"owner": winners[0]}) for loser in losers)


async def test_a_count_raised_by_many_under_a_condition_loses_no_step(store: Store) -> None:
    await store.apply(create(A, n=0))

    async def raise_once() -> None:
        current: Any = await store.get(A)
        while True:
            outcome = await store.apply(put(A, if_is("n", current["n"]), n=current["n"] + 1))
            if isinstance(outcome, Applied):
                return
            current = outcome.current

    await asyncio.gather(*(raise_once() for _ in range(30)))
    assert await store.get(A) == {"n": 30}


async def test_two_items_that_change_together_are_never_seen_apart(store: Store) -> None:
    await store.apply_all([create(A, n=0), create(B, n=0)])

    async def both(n: int) -> None:
        await store.apply_all([put(A, n=n), put(B, n=n)])

    async def look() -> None:
        page = await store.page("P", limit=2)
        seen = {item["n"] for _, item in page.items}
        assert len(seen) == 1

    await asyncio.gather(*(coroutine for n in range(50) for coroutine in (both(n), look())))


async def test_writes_of_one_caller_land_in_the_order_they_were_made(store: Store) -> None:
    await store.apply(create(A, n=0))
    outcomes = await asyncio.gather(*(store.apply(put(A, if_is("n", n), n=n + 1)) for n in range(50)))
    assert all(isinstance(outcome, Applied) for outcome in outcomes)


async def test_a_caller_that_goes_away_leaves_the_others_unharmed(store: Store) -> None:
    task = asyncio.create_task(store.apply(create(A, n=1)))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert isinstance(await store.apply(create(B, n=1)), Applied)
    assert await store.get(B) == {"n": 1}


async def test_a_transaction_names_no_key_twice(store: Store) -> None:
    with pytest.raises(AssertionError):
        await store.apply_all([put(A, n=1), put(A, n=2)])
    assert await store.get(A) is None


def test_conditions_know_nothing_of_stores() -> None:
    assert Absent().holds(None)
    assert not Absent().holds({})
    assert if_is("x", None).holds({})
    assert not if_is("x", None).holds(None)


async def test_writes_to_one_large_item_at_once_see_each_other(store: Store) -> None:
    """C4: in one commit group too, and whatever the size of the item."""
    text = "x" * 20_000
    outcomes = await asyncio.gather(*(store.apply(create(A, n=n, text=text)) for n in range(5)))
    assert sum(isinstance(outcome, Applied) for outcome in outcomes) == 1
    raised = await asyncio.gather(
        *(store.apply(Write(A, "raise", (Equals("text", text),), {"seen": n})) for n in range(3))
    )
    assert all(isinstance(outcome, Applied) for outcome in raised)
    item = await store.get(A)
    assert item is not None
    assert (item["text"], item["seen"]) == (text, 2)
