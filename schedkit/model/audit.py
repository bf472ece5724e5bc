"""The audit log: one record for each call that changes something, each holding the hash of the one before it.

A tenant's records stand in a few chains, so that calls at the same time need not wait for each other. A place in a
chain is taken once: whoever comes second takes the next one, so a chain cannot fork. A record is never changed; it is
forgotten after 400 days. It names what was changed, never what is in it: no payload, no secret.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from hashlib import sha256
from typing import Any, Final, Self

from schedkit.model.time import DAY_MS, Instant

KEPT_FOR_MS: Final = 400 * DAY_MS  # thirteen months
MAX_GIVEN_CHARS: Final = 256  # of the reason that a caller gives
RESTORE_ACTION: Final = "restore"  # the store was put back to `before`; records from then to `after` are lost


class Recorded(StrEnum):
    """How a call came out, for its record."""

    DONE = "DONE"
    UNCHANGED = "UNCHANGED"  # there was nothing to change: it was so already
    REFUSED = "REFUSED"  # a role too low; other refusals leave no record


@dataclass(frozen=True, slots=True)
class Entry:
    """What happened: who did what to what, from where.

    `before` and `after` are versions of the thing, or hashes where it has none; `resources` are the things a batch
    made; `given` is the caller's own reason.
    """

    tenant_id: str
    team_id: str
    role: str
    action: str
    resource: str
    outcome: Recorded
    request_id: str
    address: str
    key_id: str | None = None
    before: str | None = None
    after: str | None = None
    resources: tuple[str, ...] = ()
    given: str | None = None


@dataclass(frozen=True, slots=True)
class Tip:
    """The end of a chain: the next record follows it."""

    seq: int = 0
    hash: str = ""
    at: Instant = 0


@dataclass(frozen=True, slots=True)
class Record:
    """An entry at its place: the `seq`-th of its chain, after the record whose hash is `previous`. `at` in ms."""

    entry: Entry
    chain: int
    seq: int
    at: Instant
    previous: str

    @property
    def content(self) -> dict[str, Any]:
        """Everything that the hash covers, as JSON values; what there is not is left out."""
        said = {name: value for name in _ENTRY_FIELDS if (value := getattr(self.entry, name)) not in (None, ())}
        said |= {"chain": self.chain, "seq": self.seq, "at": self.at, "previous": self.previous}
        said["outcome"] = self.entry.outcome.value
        if self.entry.resources:
            said["resources"] = list(self.entry.resources)
        return said

    @property
    def hash(self) -> str:
        """SHA-256 of the content: of this record, and through `previous` of all before it."""
        return hash_of(self.content)

    @property
    def tip(self) -> Tip:
        """The end of the chain once this record stands."""
        return Tip(self.seq, self.hash, self.at)

    @classmethod
    def of(cls, attributes: Mapping[str, Any]) -> Self:
        """The record in a stored item, or in a document of the API whose `at` was read as ms."""
        said = {name: attributes[name] for name in _ENTRY_FIELDS if attributes.get(name) is not None}
        said |= {"outcome": Recorded(said["outcome"]), "resources": tuple(said.get("resources", ()))}
        place = {name: attributes[name] for name in ("chain", "seq", "at", "previous")}
        return cls(Entry(**said), **place)


def hash_of(content: Mapping[str, Any]) -> str:
    """SHA-256 of the content of a record, as one text for one meaning."""
    return sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


_ENTRY_FIELDS: Final = tuple(spec.name for spec in fields(Entry))
