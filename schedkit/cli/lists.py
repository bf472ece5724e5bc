"""Fetching a list: one page when the server can do all of it, page by page when a filter or an order is ours."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from schedkit.cli import rows
from schedkit.cli.failures import Code, ExitCode, Refusal
from schedkit.cli.frame import Listing
from schedkit.cli.invocation import Invocation
from schedkit.cli.output import Doc

MOST_ROWS: Final = 10_000  # a list longer than this is a job for a report, not for a screen
SERVER_PAGE: Final = 200


def fetch(
    me: Invocation,
    listing: Listing,
    page_of: Callable[..., Mapping[str, Any]],
    filters: Mapping[str, Any],
    keep: Callable[[Doc], bool] | None = None,
) -> tuple[list[Doc], str | None]:
    """(items, next cursor). A cursor is given only where the server's own page is what is shown."""
    ours = keep is not None or listing.filter is not None or listing.sort is not None
    with me.asking():
        if not (ours or listing.everything) and listing.limit <= SERVER_PAGE:
            page = page_of(limit=listing.limit, cursor=listing.cursor, **filters)
            return list(page["items"]), page.get("next_cursor")
        enough = None if listing.everything or listing.sort else listing.limit
        found: list[Doc] = []
        cursor = listing.cursor
        while True:
            page = page_of(limit=SERVER_PAGE, cursor=cursor, **filters)
            items = rows.keep(page["items"], listing.filter)
            found += [item for item in items if keep is None or keep(item)]
            cursor = page.get("next_cursor")
            if cursor is None or len(found) >= (enough or MOST_ROWS):
                break
    if cursor is not None and enough is None:
        me.say(f"stopped after {len(found):,} rows")
    found = rows.ordered(found, listing.sort)
    return (found[:MOST_ROWS] if listing.everything else found[: listing.limit]), None


def given(flags: Mapping[str, str | None]) -> dict[str, str | None]:
    """The flags of a filter as they were given. Raises Refusal (USAGE) for an empty one: it would match everything."""
    for name, value in flags.items():
        if value is not None and not value.strip(" ,"):
            flag = f"--{name.replace('_', '-')}"
            why = "an empty filter would match everything; perhaps a variable of the shell is not set"
            raise Refusal(Code.USAGE, ExitCode.USAGE, f"{flag} is empty", why=why)
    return dict(flags)


def narrowing(listing: Listing, **flags: str | None) -> str:
    """What a list was narrowed to, in words: `state paused, label team=growth`; empty where it was not."""
    said = [f"{flag.replace('_', ' ')} {value}" for flag, value in flags.items() if value]
    said += [f"label {label}" for label in listing.label or ()]
    return ", ".join([*said, f"filter {listing.filter}"] if listing.filter else said)


def more(cursor: str | None) -> str | None:
    return "there are more: -n 500, or --all" if cursor else None
