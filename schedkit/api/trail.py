"""The audit trail of a request: its record is written together with the first thing that it changes.

    Store.apply(write)  ─►  apply_all(write, record)        one decision: both are there, or neither

So a crash leaves no change without its record. Two kinds of call are recorded by themselves, just before they are
answered: one that found nothing to change, and a batch, whose record names what it made; a crash before that leaves a
batch's jobs without a record.

A tenant has CHAINS chains. A call takes the first one that no other call of this process is writing to, so a quiet
scheduler has one chain and a busy one waits for nobody. Processes that take the same place race for it by a conditional
write, and the second one takes the next place.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Final

from schedkit.engine.audit import append, knows_before, marks, resource_of
from schedkit.errors import StoreUnavailable
from schedkit.model.audit import Entry, Record, Recorded, Tip
from schedkit.model.keys import audit_chain
from schedkit.model.writes import Applied, Outcome, Refused, Write
from schedkit.ports import Clock, Store

CHAINS: Final = 64  # as many commits may be under way at once for a tenant: past what one process gets done
RECORDED_BY_NAME: Final = 500  # what a batch made; a batch has no more jobs than this

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Chain:
    """One chain as this process knows it; `tip` None where it has to be read."""

    number: int
    tip: Tip | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class Chains:
    """The chains of every tenant that this process has written for."""

    def __init__(self) -> None:
        self._chains: dict[str, list[Chain]] = {}
        self._turn = count()

    async def append(self, store: Store, clock: Clock, entry: Entry, writes: Sequence[Write] = ()) -> Outcome:
        """Perform the writes together with the record of them; the outcome is that of the writes.

        Raises StoreUnavailable.
        """
        chain = self._free(entry.tenant_id)
        async with chain.lock:
            while True:
                tip = chain.tip or await _tip(store, entry.tenant_id, chain.number)
                record, end = append(tip, entry, chain.number, clock.now())
                chain.tip = None  # not known while a write is under way: its answer may be lost
                outcome = await store.apply_all((*writes, record))
                match outcome:
                    case Applied(items):
                        chain.tip = end
                        return Applied(items[:-1])
                    case Refused(index) if index < len(writes):
                        chain.tip = tip
                        return outcome

    def _free(self, tenant_id: str) -> Chain:
        chains = self._chains.setdefault(tenant_id, [])
        for chain in chains:
            if not chain.lock.locked():
                return chain
        if len(chains) < CHAINS:
            chains.append(Chain(len(chains)))
            return chains[-1]
        return chains[next(self._turn) % CHAINS]


async def _tip(store: Store, tenant_id: str, number: int) -> Tip:
    page = await store.page(audit_chain(tenant_id, number), limit=1, newest_first=True)
    return Record.of(page.items[0][1]).tip if page.items else Tip()


class Trail:
    """The `Store` of one request, which puts the request's record beside its first change."""

    def __init__(self, store: Store, clock: Clock, chains: Chains, entry: Entry, *, afterwards: bool) -> None:
        """`entry` says who asks what, as far as it is known now; `afterwards` leaves the record to `end`."""
        self._store = store
        self.get = store.get
        self.timers = store.timers
        self.page = store.page
        self.expire = store.expire
        self._clock = clock
        self._chains = chains
        self._entry = entry
        self._afterwards = afterwards
        self._written = False
        self._made: list[str] = []

    async def apply(self, write: Write) -> Outcome:
        return await self.apply_all((write,))

    async def apply_all(self, writes: Sequence[Write]) -> Outcome:
        if self._written or self._afterwards:
            outcome = await self._store.apply_all(writes)
            if isinstance(outcome, Applied) and len(self._made) < RECORDED_BY_NAME:
                self._made.append(resource_of(writes[0].key))
            return outcome
        first = writes[0]
        current = None if knows_before(first) else await self._store.get(first.key)
        before, after = marks(first, current)
        entry = replace(self._entry, resource=resource_of(first.key), before=before, after=after)
        outcome = await self._chains.append(self._store, self._clock, entry, writes)
        self._written = isinstance(outcome, Applied)
        return outcome

    async def end(self) -> None:
        """The request is about to be answered well: record it, if it is not. Raises StoreUnavailable.

        A batch has its answers already: its record is tried, and its loss is logged.
        """
        if self._written:
            return
        outcome = Recorded.DONE if self._made else Recorded.UNCHANGED
        entry = replace(self._entry, outcome=outcome, resources=tuple(self._made))
        try:
            await self._chains.append(self._store, self._clock, entry)
        except StoreUnavailable as error:
            if not self._afterwards:
                raise
            log.error("no audit record of %s %s: %s", entry.action, entry.request_id, error)

    async def broke_off(self) -> None:
        """The request fails halfway: record what it did until then, if no record names it."""
        if self._made:
            await self.end()
