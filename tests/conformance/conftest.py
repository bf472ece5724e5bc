"""Every store there is, each as a test's `store`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from schedkit.adapters.memory.store import MemoryStore
from schedkit.adapters.sqlite.store import SqliteStore
from schedkit.ports import Store
from tests.sim.calm import simulated_store


@pytest.fixture(params=["memory", "sqlite", "simulated"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    if request.param == "memory":
        yield MemoryStore()
        return
    if request.param == "simulated":
        yield simulated_store()
        return
    sqlite = SqliteStore(tmp_path / "dev.db")
    yield sqlite
    sqlite.close()
