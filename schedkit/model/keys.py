"""Keys: where items stand, what they are sorted by, and every hash that must never change.

    item   partition           sort                     timer          listed under           dead under
    job    JOB#<job_id>        JOB                      D#<shard>      JOBS#<tenant>
    run    JOB#<job_id>        RUN#<scheduled_for>      L# R# Q# H#    RUNS#<tenant>          DEAD#<tenant>
    name   NAME#<tenant>       <name>
    pulse  PULSE               <node>
    key    KEY#<tenant>#<team> <Idempotency-Key>
    redrive     REDRIVE#<tenant>           <redrive_id>              REDRIVING, until it has ended
    backfill    BACKFILL#<tenant>          <backfill_id>             likewise
    its key     REDRIVEKEY#<tenant>#<team> <Idempotency-Key>
    apikey APIKEY#<key_id>     KEY                                     KEYS#<tenant>
    holder HOLDER#<tenant>     <name of API keys>
    tenant TENANTS             <tenant>
    audit  AUDIT#<tenant>#<chain>  <seq>                               AUDIT#<tenant>
    meta   META                zones, restored

An item has at most one timer (one index, one rule: its next one), one listing and one place among the dead letters.
Hashes are blake2b, so that they are the same on every machine and in every version of Python.
"""

from __future__ import annotations

from enum import StrEnum
from hashlib import blake2b
from typing import Final

from ulid import ULID

from schedkit.model.time import DAY_MS, Instant, parse_rfc3339, rfc3339
from schedkit.model.writes import Key

ZONES_KEY: Final = Key("META", "zones")  # the zone data that every next_run_at was computed with
RESTORED_KEY: Final = Key("META", "restored")  # when the store was put back from a backup, and of when that was
JOB_SORT: Final = "JOB"
RUN_PREFIX: Final = "RUN#"
PULSES: Final = "PULSE"
JOB_ID_PREFIX: Final = "job_"
REDRIVE_ID_PREFIX: Final = "rd_"
BACKFILL_ID_PREFIX: Final = "bf_"
REDRIVING: Final = "REDRIVING"  # where all redrives and backfills of all tenants are listed until they have ended
PLACEMENT_GROUPS: Final = 1_024
RETENTION_MS: Final = 30 * DAY_MS  # what has ended is kept this long in the store

SEQ_DIGITS: Final = 12
TENANTS: Final = "TENANTS"
INSTANT_DIGITS: Final = 15  # year 9999 in ms has 15 digits; fixed width, so that text sorts as numbers do


def kept_until(ended_at: Instant) -> dict[str, Instant]:
    """The attribute that lets a store forget an item that has ended."""
    return {"expires_at": ended_at + RETENTION_MS}


class TimerKind(StrEnum):
    """What the next timer of an item is for."""

    DUE = "D"
    LEASE = "L"
    RETRY = "R"
    TASK = "Q"  # it waits in a task queue for a worker
    HELD = "H"  # a worker's lease ends: the reaper's alone, never in buckets or queues (H5)


class Index(StrEnum):
    """The three ways to walk items other than by their own partition."""

    TIMER = "timer"  # timer_partition, timer_at
    LISTED = "listed"  # listed_partition, listed_at: keys that never change while an item is listed
    DEAD = "dead"  # dead_partition, dead_at: FAILED and UNKNOWN runs


def stable_hash(text: str) -> int:
    """64 bits of blake2b: the one hash for shards, windows and placement groups."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")


def shard_of(job_id: str, shards: int) -> int:
    return stable_hash(job_id) % shards


def timer_partition(kind: TimerKind, job_id: str, shards: int) -> str:
    return f"{kind}#{shard_of(job_id, shards)}"


def placement_group(tenant_id: str) -> int:
    """The unit of region ownership of a tenant; computed, never stored in keys."""
    return stable_hash(tenant_id) % PLACEMENT_GROUPS


def job_key(job_id: str) -> Key:
    return Key(f"JOB#{job_id}", JOB_SORT)


def sortable(at: Instant) -> str:
    """An instant as text that sorts as the number does; never negative, since nothing is due before 1970."""
    assert at >= 0, "instants before 1970 are refused at the door"
    return str(at).zfill(INSTANT_DIGITS)


def run_key(job_id: str, scheduled_for: Instant) -> Key:
    return Key(f"JOB#{job_id}", RUN_PREFIX + sortable(scheduled_for))


def name_key(tenant_id: str, name: str) -> Key:
    return Key(f"NAME#{tenant_id}", name)


def pulse_key(node: str) -> Key:
    """What the API of one process has heard from workers."""
    return Key(PULSES, node)


def task_queue_line(tenant_id: str, team_id: str, task_queue: str) -> str:
    """The name of a team's task queue among those of all teams and tenants."""
    return f"{tenant_id}/{team_id}/{task_queue}"


def idempotency_key_key(tenant_id: str, team_id: str, idempotency_key: str) -> Key:
    """A team's own: the answer to a key that comes again must not show another team's job."""
    return Key(f"KEY#{tenant_id}#{team_id}", idempotency_key)


def api_key_key(key_id: str) -> Key:
    return Key(f"APIKEY#{key_id}", "KEY")


def holder_key(tenant_id: str, name: str) -> Key:
    """Where the live API keys of one name are known."""
    return Key(f"HOLDER#{tenant_id}", name)


def tenant_key(tenant_id: str) -> Key:
    return Key(TENANTS, tenant_id)


def audit_key(tenant_id: str, chain: int, seq: int) -> Key:
    """The place of a record in its chain; a place is taken once."""
    return Key(audit_chain(tenant_id, chain), str(seq).zfill(SEQ_DIGITS))


def audit_chain(tenant_id: str, chain: int) -> str:
    return f"AUDIT#{tenant_id}#{chain}"


def audit_listing(tenant_id: str) -> str:
    return f"AUDIT#{tenant_id}"


def keys_listing(tenant_id: str) -> str:
    return f"KEYS#{tenant_id}"


def jobs_listing(tenant_id: str) -> str:
    return f"JOBS#{tenant_id}"


def runs_listing(tenant_id: str) -> str:
    return f"RUNS#{tenant_id}"


def dead_listing(tenant_id: str) -> str:
    return f"DEAD#{tenant_id}"


def redrive_key(tenant_id: str, redrive_id: str) -> Key:
    """The place of a redrive, or of a backfill: each kind is listed by itself."""
    kind = "BACKFILL" if redrive_id.startswith(BACKFILL_ID_PREFIX) else "REDRIVE"
    return Key(f"{kind}#{tenant_id}", redrive_id)


def redrive_request_key(tenant_id: str, team_id: str, idempotency_key: str) -> Key:
    return Key(f"REDRIVEKEY#{tenant_id}#{team_id}", idempotency_key)


def run_id(job_id: str, scheduled_for: Instant) -> str:
    """`<job_id>:2026-09-28T12:00:00Z`: the run's name, and the idempotency key its target gets."""
    return f"{job_id}:{rfc3339(scheduled_for)}"


def parse_run_id(text: str) -> tuple[str, Instant]:
    """(job_id, scheduled_for) of a run id. Raises ValueError when it is not one."""
    job_id, _, when = text.partition(":")
    if not job_id or not when.endswith("Z"):
        raise ValueError("a run id is <job_id>:<scheduled_for>, such as job_01J9:2026-09-28T12:00:00Z")
    scheduled_for = parse_rfc3339(when)
    if run_id(job_id, scheduled_for) != text:
        raise ValueError("scheduled_for in a run id has whole milliseconds and is written in UTC")
    return job_id, scheduled_for


def new_job_id(now: Instant, draw: bytes) -> str:
    """`job_` + a ULID of `now` and ten bytes of chance."""
    return JOB_ID_PREFIX + _ulid(now, draw)


def new_redrive_id(now: Instant, draw: bytes) -> str:
    """`rd_` + a ULID of `now` and ten bytes of chance: sorted by id, redrives are sorted by age."""
    return REDRIVE_ID_PREFIX + _ulid(now, draw)


def new_backfill_id(now: Instant, draw: bytes) -> str:
    """`bf_` + a ULID, as the id of a redrive."""
    return BACKFILL_ID_PREFIX + _ulid(now, draw)


def _ulid(now: Instant, draw: bytes) -> str:
    return str(ULID.from_bytes(now.to_bytes(6, "big") + draw[:10]))
