"""The machine's own clock and chance: the one place where they are read."""

from __future__ import annotations

import asyncio
import random
import secrets
import time

from schedkit.model.time import Instant


def secret_bytes(count: int) -> bytes:
    """Bytes that nobody can foresee: what keys and peppers are made of."""
    return secrets.token_bytes(count)


class SystemClock:
    """Wall time from the operating system, shifted by `offset_ms` (to practise with a wrong clock)."""

    def __init__(self, offset_ms: int = 0) -> None:
        self._offset_ms = offset_ms

    def now(self) -> Instant:
        return time.time_ns() // 1_000_000 + self._offset_ms

    async def sleep(self, duration_ms: float) -> None:
        await asyncio.sleep(max(0.0, duration_ms) / 1_000)


class SystemChance:
    """Chance seeded by the operating system, so that no two processes share a sequence.

    It spreads retries and makes ids and tokens that differ; none of them is a secret. A system call for each would
    cost more than the claim it is for.
    """

    def __init__(self) -> None:
        self._random = random.Random()  # noqa: S311 - seeded from os.urandom; not for secrets

    def draw(self) -> float:
        return self._random.random()

    def bytes(self, count: int) -> bytes:
        return self._random.randbytes(count)
