"""Calling HTTP targets with aiohttp: no redirects, no proxies from the environment, and no address that is not allowed.

A host name is resolved once for each connection, every address it gives is checked, and the connection goes to one of
those addresses: a name cannot point elsewhere between the check and the call (F9).
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Sequence
from typing import Any, Final

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from schedkit.engine.addresses import check_url, refusal
from schedkit.errors import InvalidInput
from schedkit.model.calls import Answered, Call, NoAnswer, NotSent, Reply

KEEP_ALIVE_S: Final = 1.0  # shorter than servers keep theirs (2 s and more), or a call meets a connection being closed
MAX_BODY_BYTES: Final = 64 * 1_024  # read of an answer; 4 KiB of it are kept, and a longer one ends the connection


class AddressRefusedError(OSError):
    """A name resolved to an address that may not be called."""


class GuardedResolver(AbstractResolver):
    """The system's resolver, minus the addresses that may not be called."""

    def __init__(self, loopback_allowed: bool, allowed_networks: Sequence[str]) -> None:
        self._resolver = aiohttp.ThreadedResolver()
        self._loopback_allowed = loopback_allowed
        self._allowed_networks = tuple(allowed_networks)

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        found = await self._resolver.resolve(host, port, family)
        for entry in found:
            why = refusal(
                ipaddress.ip_address(entry["host"].partition("%")[0]),
                loopback_allowed=self._loopback_allowed,
                allowed_networks=self._allowed_networks,
            )
            if why is not None:
                raise AddressRefusedError(f"{host} may not be called: {why}")
        return found

    async def close(self) -> None:
        await self._resolver.close()


class HttpTargets:
    """`Targets` over one connection pool. Use it inside the event loop that made it; close it when done."""

    def __init__(self, *, loopback_allowed: bool = False, allowed_networks: Sequence[str] = ()) -> None:
        self._loopback_allowed = loopback_allowed
        self._allowed_networks = tuple(allowed_networks)
        self._pooled = self._session(keepalive_timeout=KEEP_ALIVE_S)
        self._fresh = self._session(force_close=True)

    async def close(self) -> None:
        await self._pooled.close()
        await self._fresh.close()

    def _session(self, **connections: Any) -> aiohttp.ClientSession:
        resolver = GuardedResolver(self._loopback_allowed, self._allowed_networks)
        connector = aiohttp.TCPConnector(resolver=resolver, limit=0, use_dns_cache=False, **connections)
        return aiohttp.ClientSession(connector=connector, trust_env=False, cookie_jar=aiohttp.DummyCookieJar())

    async def call(self, call: Call) -> Reply:
        try:
            check_url(
                call.url,
                loopback_allowed=self._loopback_allowed,
                allowed_networks=self._allowed_networks,
                field="target.url",
            )
        except InvalidInput as error:
            return NotSent(
                error.detail if call.url else "the job's target is not registered (any more)", permanent=True
            )
        try:
            async with (self._pooled if call.reuse else self._fresh).request(
                call.method,
                call.url,
                headers=call.headers,
                data=call.body,
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=call.timeout_ms / 1_000),
                skip_auto_headers=("Accept-Encoding", "Content-Type") if call.body is None else ("Accept-Encoding",),
            ) as response:
                body = await _some(response)
                return Answered(response.status, body, response.headers.get("Retry-After"))
        except aiohttp.ClientConnectorError as error:
            if isinstance(error.os_error, AddressRefusedError):
                return NotSent(str(error.os_error), permanent=True)
            return NotSent(
                f"{error.host} port {error.port} could not be reached: {error.os_error.strerror or error.os_error}"
            )
        except TimeoutError:
            return NoAnswer(f"no answer within {call.timeout_ms / 1_000:g} s")
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return NoAnswer(f"the connection broke before an answer came: {type(error).__name__} {error}".rstrip())


async def _some(response: aiohttp.ClientResponse) -> str:
    """The first 64 KiB of an answer as text; the connection of a longer one is not used again."""
    read = bytearray()
    while len(read) < MAX_BODY_BYTES:
        chunk = await response.content.read(MAX_BODY_BYTES - len(read))
        if not chunk:
            return read.decode(errors="replace")
        read += chunk
    if not response.content.at_eof():
        response.close()
    return read.decode(errors="replace")
