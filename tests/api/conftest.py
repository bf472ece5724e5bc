"""The API in process, over a virtual world that stands at noon on 1 June 2026 until a test moves it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.worlds import Virtual


@pytest.fixture
async def world() -> AsyncIterator[Virtual]:
    async with Virtual("2026-06-01T12:00:00Z") as made:
        yield made


@pytest.fixture
async def running(world: Virtual) -> Virtual:
    """The same, with a scheduler running in it."""
    await world.boot()
    return world
