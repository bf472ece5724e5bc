"""Cursors: where the next page starts, as opaque text that a client may keep and send back."""

from __future__ import annotations

import base64
import json

from schedkit.model.writes import Key


def write_cursor(place: str, key: Key) -> str:
    """Text for (sort value, key) of the last item of a page."""
    return base64.urlsafe_b64encode(json.dumps([place, *key]).encode()).decode().rstrip("=")


def read_cursor(cursor: str) -> tuple[str, Key]:
    """What `write_cursor` wrote. Raises ValueError on anything else."""
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        place, partition, sort = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
    except (ValueError, TypeError) as error:
        raise ValueError("this is not a cursor that a list gave") from error
    if not all(isinstance(part, str) for part in (place, partition, sort)):
        raise ValueError("this is not a cursor that a list gave")
    return place, Key(partition, sort)
