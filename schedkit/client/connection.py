"""Where a client connects, as whom, and with what httpx client: the same for the sync and the async one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import httpx

from schedkit import __version__
from schedkit.errors import InvalidInput, Reason

DEFAULT_URL: Final = "http://127.0.0.1:8700"
DEFAULT_TIMEOUT_S: Final = 10.0
LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")

Token = str | Callable[[], str] | None  # a function is asked anew for every exchange

HttpT = TypeVar("HttpT", httpx.Client, httpx.AsyncClient)


def opened(kind: Callable[..., HttpT], url: str, transport: Any) -> HttpT:
    """An httpx client of this kind for `url`. Raises InvalidInput where that is no URL."""
    try:
        here = is_loopback(url)
        return kind(
            base_url=url,
            verify=not here,  # plain http: reading certificates would take longer than the call
            trust_env=not here,  # a proxy cannot reach what is on this machine
            transport=transport,
            headers={"User-Agent": f"schedkit/{__version__}", "Accept": "application/json"},
        )
    except (httpx.InvalidURL, ValueError) as error:
        raise InvalidInput(Reason.INVALID_ARGUMENT, f"{url} is no URL: {error}") from error


def is_loopback(url: str) -> bool:
    """It is plain http to this machine."""
    parsed = httpx.URL(url)
    return parsed.scheme == "http" and parsed.host in LOOPBACK
