"""The client on an event loop: the tries and errors of `Client.call`, by a clock and a chance that can be given.

asyncio is imported where it is needed: the command line loads this file, and no loop.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import httpx

from schedkit.client.asking import Ask, Asking, Pause, advance, system_draw
from schedkit.client.connection import DEFAULT_TIMEOUT_S, DEFAULT_URL, Token, opened
from schedkit.client.problems import Answer


async def system_sleep(seconds: float) -> None:
    """`asyncio.sleep`."""
    import asyncio

    await asyncio.sleep(seconds)


@dataclass(slots=True)
class AsyncClient:
    """A scheduler at `url`. One per event loop, closed after use (it is an async context manager).

    `url`, `token`, `timeout_s` and `transport` are those of `Client`. `monotonic`, `sleep` and `draw` (chance in
    [0, 1)) are the system's; on a loop whose time is not the machine's, give its `time` as `monotonic`.
    """

    url: str = DEFAULT_URL
    token: Token = None
    timeout_s: float = DEFAULT_TIMEOUT_S
    transport: httpx.AsyncBaseTransport | None = None
    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = system_sleep
    draw: Callable[[], float] = system_draw
    _http: httpx.AsyncClient | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        if self._http is not None:
            http, self._http = self._http, None
            await http.aclose()

    async def call(
        self,
        method: str,
        path: str,
        *,
        params: Sequence[tuple[str, str]] = (),
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        idempotency_key: str | None = None,
        repeatable: bool | None = None,
    ) -> Answer:
        """Any call, as `Client.call`. Raises the SchedkitError of its status, or Unreachable."""
        asking = Asking(
            url=self.url, token=self.token, timeout_s=self.timeout_s, monotonic=self.monotonic, draw=self.draw
        )
        steps = asking.steps(
            method,
            path,
            params=params,
            body=body,
            headers=headers,
            idempotency_key=idempotency_key,
            repeatable=repeatable,
        )
        step = advance(steps)
        while not isinstance(step, Answer):
            try:
                reply = await self._do(step)
            except BaseException as error:
                step = advance(steps, error)
            else:
                step = advance(steps, reply)
        return step

    async def _do(self, step: Ask | Pause) -> httpx.Response | None:
        import asyncio

        if isinstance(step, Pause):
            await self.sleep(step.seconds)
            return None
        if self._http is None:
            self._http = opened(httpx.AsyncClient, self.url, self.transport)
        try:
            async with asyncio.timeout(step.timeout_s):  # a transport of one's own keeps no time
                return await self._http.request(step.method, step.path, **step.given())
        except TimeoutError as error:
            raise httpx.ReadTimeout("no answer in time") from error
