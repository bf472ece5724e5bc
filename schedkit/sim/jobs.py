"""The jobs that a simulated user makes: every kind of schedule and policy, near the hours at which clocks change."""

from __future__ import annotations

from datetime import datetime, timedelta
from random import Random
from typing import Any, Final

from schedkit.model.time import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, Instant, parse_rfc3339, rfc3339
from schedkit.sim.oracle import read_zone
from schedkit.sim.targets import HOSTS
from schedkit.sim.workers import QUEUE

# Where a simulation may begin: on an ordinary day, shortly before clocks change, at the turn of a day, month and year.
BEGINNINGS: Final = tuple(
    (parse_rfc3339(at), zones)
    for at, zones in (
        ("2026-06-01T12:00:00Z", ("UTC", "Europe/Berlin", "Asia/Kolkata")),
        ("2026-11-01T05:20:00Z", ("America/New_York", "UTC", "America/Chicago")),
        ("2026-03-08T06:40:00Z", ("America/New_York", "UTC", "America/Denver")),
        ("2026-10-25T00:30:00Z", ("Europe/Berlin", "Europe/London", "UTC")),
        ("2027-03-28T00:40:00Z", ("Europe/Berlin", "Europe/London", "UTC")),
        ("2026-04-04T14:40:00Z", ("Australia/Lord_Howe", "Australia/Sydney", "UTC")),
        ("2026-12-31T23:40:00Z", ("UTC", "Europe/London", "Pacific/Auckland")),
        ("2028-02-28T23:40:00Z", ("UTC", "Africa/Lagos", "Atlantic/Reykjavik")),
    )
)
EVERY_SECONDS: Final = (20, 30, 45, 60, 90, 300)
CRONS: Final = ("* * * * *", "*/2 * * * *", "*/5 * * * *", "*/15 * * * *", "7-59/10 * * * *")
TASK_SHARES: Final = (0.02, 0.05, 0.25)  # jobs that are for workers: in some worlds many, in most a few
TIMEOUTS_S: Final = (2, 5, 15, 30, 60)
NAMES: Final = ("report", "digest", "sync", "backup")
REPLACED: Final = ("GET", "POST", "PUT")


class Maker:
    """Draws jobs of one user."""

    def __init__(self, chance: Random, zones: tuple[str, ...], ends: Instant, moody: bool) -> None:
        """`ends`: when the simulation does. `moody`: there are targets that fail."""
        self._chance = chance
        self._zones = zones
        self._ends = ends
        self._task_share = chance.choice(TASK_SHARES)
        self._hosts = HOSTS if moody else ("ok",)

    def job(self, now: Instant) -> dict[str, Any]:
        """The body of a create."""
        chance = self._chance
        body: dict[str, Any] = {
            "schedule": self.schedule(now),
            "target": {
                "url": f"http://{chance.choice(self._hosts)}.example/{chance.randrange(1_000)}",
                "method": chance.choice(REPLACED),
                "timeout_seconds": chance.choice(TIMEOUTS_S),
            },
            "priority": chance.choice(["CRITICAL", "HIGH", "DEFAULT", "DEFAULT", "LOW"]),
            "overlap_policy": chance.choice(["ALLOW", "ALLOW", "SKIP", "BUFFER_ONE"]),
            "misfire_policy": chance.choice(["RUN_ONCE", "RUN_ONCE", "SKIP", "RUN_ALL"]),
            "misfire_grace_seconds": chance.choice([5, 60, 60, 3_600]),
            "delivery": chance.choice(["AT_LEAST_ONCE"] * 4 + ["AT_MOST_ONCE"]),
            "dispatch_window_seconds": chance.choice([0, 0, 0, 30, 300]),
            "retry_policy": {
                "max_attempts": chance.choice([1, 2, 3, 5]),
                "initial_backoff_seconds": chance.choice([0, 1, 5]),
                "max_backoff_seconds": chance.choice([5, 20, 60]),
            },
        }
        if chance.random() < self._task_share:
            body["target"] = {
                "type": "TASK_QUEUE",
                "task_queue": QUEUE,
                "lease_seconds": chance.choice([6, 6, 30]),
            }
            body["payload"] = {"host": chance.choice(self._hosts), "n": chance.randrange(1_000)}
            if chance.random() < 0.3:  # soon enough that some do, with all workers away
                body["expires_after_seconds"] = chance.choice([4, 8, 60])
        elif chance.random() < 0.5:
            body["payload"] = {"n": chance.randrange(1_000)}
        if chance.random() < 0.1:
            body["name"] = f"{chance.choice(NAMES)}-{chance.randrange(5)}"
        if chance.random() < 0.1:
            body["max_runs"] = chance.randrange(1, 6)
        if chance.random() < 0.1:
            body.setdefault("expires_after_seconds", chance.choice([30, 120, 600]))
        if chance.random() < 0.03:
            body["paused"] = True
        return body

    def schedule(self, now: Instant) -> dict[str, Any]:
        chance = self._chance
        kind = chance.choices(["INTERVAL", "CRON", "ONCE"], [4, 4, 3])[0]
        if kind == "ONCE":
            return {"type": "ONCE", "run_at": rfc3339(now + chance.randrange(SECOND_MS, 40 * MINUTE_MS))}
        bounds: dict[str, Any] = {}
        if chance.random() < 0.1:
            bounds["start_at"] = rfc3339(now + chance.randrange(10 * MINUTE_MS))
        if chance.random() < 0.1:
            bounds["end_at"] = rfc3339(now + chance.randrange(5 * MINUTE_MS, chance.choice([40 * MINUTE_MS, DAY_MS])))
        if kind == "INTERVAL":
            if chance.random() < 0.5:
                bounds["anchor_at"] = rfc3339(now + chance.randrange(-HOUR_MS, 5 * MINUTE_MS))
            return {"type": "INTERVAL", "every_seconds": chance.choice(EVERY_SECONDS), **bounds}
        zone = chance.choice(self._zones)
        return {
            "type": "CRON",
            "cron": self._cron(now, zone),
            "time_zone": zone,
            "dst_gap_policy": chance.choice(["FIRST_VALID", "FIRST_VALID", "SHIFT_FORWARD", "SKIP"]),
            "dst_overlap_policy": chance.choice(["FIRST", "FIRST", "SECOND", "BOTH"]),
            **bounds,
        }

    def _cron(self, now: Instant, zone: str) -> str:
        """Every few minutes, or at some minutes of the hours that the wall clock is to show."""
        chance = self._chance
        if chance.random() < 0.6:
            return chance.choice(CRONS)
        located = read_zone(zone)
        first = datetime.fromtimestamp(now / SECOND_MS, located)
        hours = {(first + timedelta(hours=ahead)).hour for ahead in range(max(1, (self._ends - now) // HOUR_MS) + 2)}
        minutes = sorted(chance.sample(range(60), chance.randrange(1, 4)))
        return f"{','.join(map(str, minutes))} {','.join(map(str, sorted(hours)))} * * *"
