"""Calling HTTP targets with aiohttp: no redirects, no proxies from the environment, and no address that is not allowed.

A host name is resolved once for each connection, every address it gives is checked, and the connection goes to one of
those addresses: a name cannot point elsewhere between the check and the call (F9).
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from schedkit.engine.addresses import check_url, refusal
from schedkit.errors import InvalidInput
from schedkit.model.calls import Answered, Call, NoAnswer, NotSent, Reply

KEEP_ALIVE_S: Final = 1.0  # shorter than servers keep theirs (2 s and more), or a call meets a connection being closed
RESOLVER_THREADS: Final = 64
MAX_BODY_BYTES: Final = 64 * 1_024  # read of an answer; 4 KiB of it are kept, and a longer one ends the connection


class AddressRefusedError(OSError):
    """A name resolved to an address that may not be called."""


class _SentOnce:
    """Stops aiohttp from sending a request again by itself, as it does with GET, PUT and DELETE when a connection
    breaks: one attempt is one call, and whether there is another one is the scheduler's to decide (C4, C7)."""

    def __init__(self) -> None:
        self._sent = False

    async def __call__(self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> Any:
        if self._sent:
            raise aiohttp.ClientError("it is not known whether the request was received")
        self._sent = True
        return await handler(request)


class GuardedResolver(AbstractResolver):
    """The system's resolver, minus the addresses that may not be called.

    In threads of its own: a name server that does not answer holds up those who ask it, and nobody else.
    """

    def __init__(self, loopback_allowed: bool, allowed_networks: Sequence[str]) -> None:
        self._threads = ThreadPoolExecutor(RESOLVER_THREADS, thread_name_prefix="resolver")
        self._loopback_allowed = loopback_allowed
        self._allowed_networks = tuple(allowed_networks)

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        loop = asyncio.get_running_loop()
        answers = await loop.run_in_executor(
            self._threads, partial(socket.getaddrinfo, host, port, family, socket.SOCK_STREAM)
        )
        found: list[ResolveResult] = []
        for kind, _, protocol, _, address in answers:
            numeric = str(address[0])
            found.append(
                ResolveResult(
                    hostname=host, host=numeric, port=port, family=kind, proto=protocol, flags=socket.AI_NUMERICHOST
                )
            )
            why = refusal(
                ipaddress.ip_address(numeric.partition("%")[0]),
                loopback_allowed=self._loopback_allowed,
                allowed_networks=self._allowed_networks,
            )
            if why is not None:
                raise AddressRefusedError(f"{host} may not be called: {why}")
        return found

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


class HttpTargets:
    """`Targets` over one connection pool. Use it inside the event loop that made it; close it when done."""

    def __init__(self, *, loopback_allowed: bool = False, allowed_networks: Sequence[str] = ()) -> None:
        self._loopback_allowed = loopback_allowed
        self._allowed_networks = tuple(allowed_networks)
        resolver = GuardedResolver(loopback_allowed, allowed_networks)
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                resolver=resolver, limit=0, use_dns_cache=False, keepalive_timeout=KEEP_ALIVE_S
            ),
            trust_env=False,
            cookie_jar=aiohttp.DummyCookieJar(),
        )

    async def close(self) -> None:
        await self._session.close()

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
            async with self._session.request(
                call.method,
                call.url,
                headers=call.headers,
                data=call.body,
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=call.timeout_ms / 1_000),
                middlewares=(_SentOnce(),),
                skip_auto_headers=("Accept-Encoding", "Content-Type") if call.body is None else ("Accept-Encoding",),
            ) as response:
                body = await _some(response)
                return Answered(response.status, body, response.headers.get("Retry-After"))
        except aiohttp.ClientConnectorError as error:
            if isinstance(error.os_error, AddressRefusedError):
                return NotSent(str(error.os_error), permanent=True)
            errno = error.os_error.errno
            why = os.strerror(errno).lower() if errno and errno > 0 else str(error.os_error)
            return NotSent(f"{error.host} port {error.port} could not be reached: {why}")
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
