"""Server-sent events as a client reads them: one connection, frame by frame, until it ends or breaks.

with streaming(client, "/v1/ops/stream", topics="events") as heard:
    for frame in heard:
        print(frame.event, frame.data)
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import httpx

from schedkit.client.connection import opened
from schedkit.client.paths import query_of
from schedkit.client.problems import answer_of, trouble_of

if TYPE_CHECKING:
    from schedkit.client import Client

SILENCE_S: Final = 30.0  # three times as long as a server is ever silent


@dataclass(frozen=True, slots=True)
class Frame:
    """One event of a stream. `place` is what to go on from after a line that broke; None where it has none."""

    event: str
    data: Any
    place: str | None = None


@contextmanager
def streaming(client: Client, path: str, last: str | None = None, **query: Any) -> Iterator[Iterator[Frame]]:
    """The frames of a stream, after the one at `last`. Raises the SchedkitError of the answer, Unreachable."""
    token = client.token() if callable(client.token) else client.token
    headers = {**client.headers, "Accept": "text/event-stream"}
    headers |= {"Authorization": f"Bearer {token}"} if token else {}
    headers |= {"Last-Event-ID": last} if last is not None else {}
    timeout = httpx.Timeout(client.timeout_s, read=max(client.timeout_s, SILENCE_S))
    try:
        with (
            opened(httpx.Client, client.url, client.transport) as http,
            http.stream(
                "GET", path, params=httpx.QueryParams(dict(query_of(**query))), headers=headers, timeout=timeout
            ) as answer,
        ):
            if not answer.is_success:
                answer.read()
                answer_of(answer, None)  # raises what it stands for
            yield _frames(answer.iter_lines())
    except httpx.HTTPError as error:
        raise trouble_of(error, client.url, SILENCE_S) from error


def _frames(lines: Iterator[str]) -> Iterator[Frame]:
    said: dict[str, str] = {}
    for line in lines:
        if line:
            name, _, value = line.partition(":")
            said[name] = value.removeprefix(" ")
            continue
        if "data" in said:
            yield Frame(said.get("event", "message"), json.loads(said["data"]), said.get("id"))
        said = {}
