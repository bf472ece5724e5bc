"""The demo jobs of the dev server: five jobs that show something within ten seconds, made once for each data folder."""

from __future__ import annotations

from typing import Any, Final

from schedkit.api import bodies
from schedkit.api.creating import create
from schedkit.api.demo import PATHS
from schedkit.model.access import Caller
from schedkit.model.jobs import DEFAULT_TENANT
from schedkit.model.keys import name_key
from schedkit.ports import World

__all__ = ["JOBS", "PATHS", "seed"]

JOBS: Final[tuple[dict[str, Any], ...]] = (
    {
        "name": "hello",
        "description": "calls a target that answers at once",
        "schedule": {"type": "INTERVAL", "every_seconds": 5},
        "target": {"target_id": "demo-echo"},
        "payload": {"say": "hello"},
    },
    {
        "name": "flaky",
        "description": "its target fails the first time: the second try has the same key and a higher token",
        "schedule": {"type": "INTERVAL", "every_seconds": 12},
        "target": {"target_id": "demo-flaky"},
        "retry_policy": {"initial_backoff_seconds": 6},
    },
    {
        "name": "slow",
        "description": "its target takes two seconds; a run that would overlap is skipped",
        "schedule": {"type": "CRON", "cron": "* * * * *"},
        "target": {"target_id": "demo-slow", "timeout_seconds": 10},
        "overlap_policy": "SKIP",
        "priority": "LOW",
    },
    {
        "name": "digest",
        "description": "every morning at eight in New York, summer and winter",
        "schedule": {"type": "CRON", "cron": "0 8 * * *", "time_zone": "America/New_York"},
        "target": {"target_id": "demo-echo"},
        "payload": {"kind": "daily_digest"},
    },
    {
        "name": "night-audit",
        "description": "at a time that happens twice in November and once on every other night",
        "schedule": {"type": "CRON", "cron": "30 1 * * *", "time_zone": "America/New_York"},
        "target": {"target_id": "demo-echo"},
        "dispatch_window_seconds": 300,
    },
)


async def seed(world: World) -> int:
    """Make the demo jobs that this store has never had; returns how many. One that was cancelled does not come back."""
    made = 0
    for spec in JOBS:
        if await world.store.get(name_key(DEFAULT_TENANT, spec["name"])) is None:
            await create(world, Caller(), bodies.read(bodies.JobCreate, spec), None)
            made += 1
    return made
