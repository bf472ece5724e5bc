"""Keeping and checking the audit log: the write that appends a record, and the walk that finds what was altered."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

from schedkit.model.audit import KEPT_FOR_MS, Entry, Record, Tip, hash_of
from schedkit.model.keys import (
    BACKFILL_ID_PREFIX,
    REDRIVE_ID_PREFIX,
    RUN_PREFIX,
    audit_key,
    audit_listing,
    run_id,
    sortable,
)
from schedkit.model.time import Instant
from schedkit.model.writes import Absent, Equals, Item, Key, Write

MARK_CHARS: Final = 16  # 64 bits: enough to tell two states of one thing apart
UNMARKED: Final = frozenset({"payload", "result", "hash", "last_used_at"})  # secrets, and what no call is about


def append(tip: Tip, entry: Entry, chain: int, now: Instant) -> tuple[Write, Tip]:
    """The entry takes the next place of the chain, if nobody has taken it; and the end of the chain once it has.

    Time does not go back in a chain, whatever clocks do.
    """
    record = Record(entry, chain, tip.seq + 1, max(now, tip.at), tip.hash)
    content = record.content
    stored = content | {
        "hash": hash_of(content),
        "listed_partition": audit_listing(entry.tenant_id),
        "listed_at": sortable(record.at),
        "expires_at": record.at + KEPT_FOR_MS,
    }
    write = Write(audit_key(entry.tenant_id, chain, record.seq), "audit", (Absent(),), stored)
    return write, Tip(record.seq, stored["hash"], record.at)


def resource_of(key: Key) -> str:
    """What an item is called outside: the id of a job, a run, a redrive, a backfill or a key."""
    if key.sort.startswith((REDRIVE_ID_PREFIX, BACKFILL_ID_PREFIX)):
        return key.sort
    name = key.partition.partition("#")[2] or key.sort
    if key.sort.startswith(RUN_PREFIX):
        return run_id(name, int(key.sort.removeprefix(RUN_PREFIX)))
    return name


def knows_before(write: Write) -> bool:
    """Whether the conditions of a write say what was there before, so that nobody has to look."""
    return any(isinstance(condition, Absent) or condition.attribute == "version" for condition in write.conditions)


def marks(write: Write, current: Item | None) -> tuple[str | None, str | None]:
    """(before, after) of a write: versions, or hashes where there are none; `current` where `knows_before` is false."""
    for condition in write.conditions:
        match condition:
            case Absent():
                return None, _mark(write.result(None))
            case Equals("version", version):
                return str(version), str(write.changes.get("version", version))
    return _mark(current) if current is not None else None, _mark(write.result(current))


def _mark(item: Item) -> str:
    if "version" in item:
        return str(item["version"])
    content = {name: value for name, value in item.items() if name not in UNMARKED}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return sha256(text.encode()).hexdigest()[:MARK_CHARS]


@dataclass(slots=True)
class Check:
    """A walk over a tenant's records, newest first, that finds every one that is not as it was written.

    A chain cannot show that its newest records are gone: compare `tips` with tips that were noted earlier.
    """

    tips: dict[int, Tip] = field(default_factory=dict)
    oldest: dict[int, Record] = field(default_factory=dict)
    count: int = 0

    def see(self, record: Record, claimed: str) -> str | None:
        """What is wrong with the next record, which says that its hash is `claimed`; None where nothing is."""
        self.count += 1
        place = f"chain {record.chain}, record {record.seq}"
        later = self.oldest.get(record.chain)
        self.oldest[record.chain] = record
        if later is None:
            self.tips[record.chain] = record.tip
        elif record.seq != later.seq - 1:
            return f"chain {record.chain}: after record {record.seq} comes record {later.seq}; those between are gone"
        if record.hash != claimed:
            return f"{place} was changed: its content no longer gives its hash"
        if later is not None and later.previous != record.hash:
            return f"{place} was replaced: record {later.seq} was written after another one"
        return None
