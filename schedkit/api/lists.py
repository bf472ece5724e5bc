"""Lists: pages of what matches, without holding up everything else while looking for it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from schedkit.api.requests import bad_cursor
from schedkit.model.writes import Item
from schedkit.ports import Page, World

MAX_SCANNED: Final = 10_000  # items one answer looks at; then it gives what it has, and a cursor to go on from
STEP: Final = 100  # items looked at between two turns of everybody else
MAX_BYTES: Final = 1_024 * 1_024  # of payloads and results in one answer; the rest comes with the cursor

T = TypeVar("T")
PageOf = Callable[[int, str | None], Awaitable[Page]]


async def listed(
    world: World,
    page_of: PageOf,
    limit: int,
    cursor: str | None,
    pick: Callable[[Item], T | None],
    ends: Callable[[Item], bool] = lambda item: False,
) -> tuple[list[T], str | None]:
    """(what `pick` makes of up to `limit` items, the cursor of the next page or None at the end).

    `ends` says that nothing after this item can match. Raises InvalidInput for a cursor that no list gave.
    """
    found: list[T] = []
    scanned = size = 0
    while True:
        page = await _page(page_of, STEP, cursor)
        for index, (_, item) in enumerate(page.items):
            if ends(item):
                return found, None
            if (picked := pick(item)) is not None:
                found.append(picked)
                size += len(item.get("payload") or "") + len(item.get("result") or "")
            if len(found) >= limit or size >= MAX_BYTES:
                is_last = index + 1 == len(page.items)
                return found, page.cursor if is_last else (await page_of(index + 1, cursor)).cursor
        scanned += len(page.items)
        cursor = page.cursor
        if cursor is None or scanned >= MAX_SCANNED:
            return found, cursor
        await world.clock.sleep(0)


async def _page(page_of: PageOf, limit: int, cursor: str | None) -> Page:
    try:
        return await page_of(limit, cursor)
    except ValueError as error:
        raise bad_cursor(error) from None
