"""How a call is made: which exchange comes next, how long to wait before it, when to give up and what to raise.

Written once and without input or output. `Asking.steps` is a generator that says what to do; a client does it and says
how it went (`advance`), until there is an Answer:

Ask      make this exchange: goes on with the httpx response, or with what went wrong
Pause    wait this long: goes on with None
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import httpx

from schedkit.client.connection import Token, is_loopback
from schedkit.client.problems import Answer, Unreachable, answer_of, outcome_of, trouble_of

FIRST_BACKOFF_S: Final = 0.2  # doubled each time, with full jitter
MAX_BACKOFF_S: Final = 2.0
MAX_TRIES: Final = 5
RETRIED_STATUSES: Final = (502, 503, 504)


@dataclass(frozen=True, slots=True)
class Ask:
    """One exchange to make, which has `timeout_s` left."""

    method: str
    path: str
    params: tuple[tuple[str, str], ...]
    content: bytes | None
    headers: Mapping[str, str] = field(repr=False)  # the token is in it
    timeout_s: float

    def given(self) -> dict[str, Any]:
        """What `request` of an httpx client is given besides method and path."""
        rest = {"params": list(self.params), "content": self.content, "headers": self.headers}
        return {**rest, "timeout": self.timeout_s}


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait this long before the next exchange."""

    seconds: float


Steps = Generator[Ask | Pause, httpx.Response | None, Answer]
Exchange = Generator[Ask, httpx.Response | None, httpx.Response]


def advance(steps: Steps, reply: httpx.Response | BaseException | None = None) -> Ask | Pause | Answer:
    """What comes after `reply`: the next step, or the Answer. Raises what the call ends with otherwise."""
    try:
        return steps.throw(reply) if isinstance(reply, BaseException) else steps.send(reply)
    except StopIteration as done:
        answer: Answer = done.value
        return answer


def system_draw() -> float:
    """Chance in [0, 1), of the system's."""
    return secrets.randbelow(1_000) / 1_000


def new_idempotency_key() -> str:
    """A key no other request has: 128 bits of chance."""
    return secrets.token_hex(16)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """One client's way to make calls, with its clock (`monotonic`) and its chance (`draw`, uniform in [0, 1))."""

    url: str
    token: Token
    timeout_s: float
    monotonic: Callable[[], float]
    draw: Callable[[], float]
    headers: Mapping[str, str] = field(default_factory=dict)
    on_exchange: Callable[[str, str, str, float], None] | None = None

    def steps(
        self,
        method: str,
        path: str,
        *,
        params: Sequence[tuple[str, str]],
        body: Any,
        headers: Mapping[str, str] | None,
        idempotency_key: str | None,
        repeatable: bool | None,
    ) -> Steps:
        """The steps of one call, whose parameters are those of `Client.call`."""
        if repeatable is None:
            repeatable = method in ("GET", "HEAD", "DELETE", "PUT") or idempotency_key is not None
        sent = {**self.headers, **(headers or {})}
        if idempotency_key is not None:
            sent["Idempotency-Key"] = idempotency_key
        if body is not None:
            sent["Content-Type"] = "application/json"
        content = None if body is None else json.dumps(body, allow_nan=False).encode()
        deadline = self.monotonic() + self.timeout_s
        for attempt in range(MAX_TRIES):
            left_s = max(0.001, deadline - self.monotonic())
            try:
                response = yield from self._exchange(
                    Ask(method, path, tuple(params), content, self._signed(sent), left_s)
                )
            except Unreachable as trouble:
                trouble.idempotency_key = idempotency_key
                may_repeat = not is_loopback(self.url) if trouble.refused else repeatable  # refused: nothing was sent
                pause = self._pause(attempt, deadline, None) if may_repeat else None
                if pause is None:
                    raise
            else:
                retried = repeatable and response.status_code in RETRIED_STATUSES
                pause = self._pause(attempt, deadline, response.headers.get("retry-after")) if retried else None
                if pause is None:
                    return answer_of(response, idempotency_key)
            yield pause
        raise AssertionError("the last try returns or raises")

    def _exchange(self, ask: Ask) -> Exchange:
        """One exchange, told to `on_exchange` however it ends. Raises Unreachable where there is no answer."""
        started = self.monotonic()
        outcome = "?"
        try:
            response = yield ask
            assert response is not None, "an Ask goes on with a response"
            outcome = str(response.status_code)
            return response
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            outcome = outcome_of(error)
            raise trouble_of(error, self.url, self.timeout_s) from error
        finally:
            if self.on_exchange is not None:
                self.on_exchange(ask.method, ask.path, outcome, (self.monotonic() - started) * 1_000)

    def _signed(self, headers: Mapping[str, str]) -> Mapping[str, str]:
        token = self.token() if callable(self.token) else self.token
        return {**headers, **({"Authorization": f"Bearer {token}"} if token else {})}

    def _pause(self, attempt: int, deadline: float, retry_after: str | None) -> Pause | None:
        """The wait before the next try; None where there is no time or no try left for one."""
        cap_s = min(MAX_BACKOFF_S, FIRST_BACKOFF_S * 2**attempt)
        wait_s = cap_s * self.draw()
        if retry_after is not None and retry_after.isdigit():
            wait_s += int(retry_after)
        if attempt + 1 >= MAX_TRIES or self.monotonic() + wait_s >= deadline:
            return None
        return Pause(wait_s)
