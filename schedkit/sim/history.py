"""The history: what happened, in order, one JSON object a line. Simulated and real processes write the same one.

Every event has `t` (true time in ms, UTC: the simulator's, or that of the host that runs the processes), `node` (who
did it; "world" for what nobody did) and `kind`:

    begin          seed, profile, faults [names that may happen], skew_ms (no clock is further off than this),
                   restart_ms (a process that was killed is back within this), sweep_ms, lease_margin_ms,
                   late_ms (how late the first call of an occurrence that was due before `heal` may start, by due_at =
                   scheduled_for + offset; null: no bound), recover_ms (this long after `heal` everything that was due
                   before has been called, and nothing stands open or overdue without a reason), calm_ms (what is due
                   later starts within this)
    api.invoke     call (a number), op, job (id, name or null), idempotency_key, body
                   op: create edit pause resume cancel trigger cancel_run skip_next
                       backfill backfill_pause backfill_resume backfill_stop
                       redrive retry_run resolve_run drop redrive_pause redrive_resume redrive_continue redrive_stop
    api.ok         call, status, job (its id), doc (the answer)       the caller heard that it was done
    api.fail       call, status, reason                               … that it was refused: nothing was changed
    api.info       call, why                                          … nothing: it may have been done, or be done yet
    store.commit   partition, sort, arrow, before, after, tag, batch, own
                   before, after: the item in full, null where there is none (an `after` of null was forgotten by
                   retention). `tag`: the epoch that the writer believed to hold (null: no holder's write, or unknown).
                   `batch`: writes of one decision have the same number; the release of a redrive (its item, with cap,
                   counters and what is open, stands under REDRIVE#tenant) and its runs, for example.
                   `own`: the writer's clock as it asked, or null
    store.refused  partition, sort, arrow, tag, epoch (of the item as it stands, or null)
    queue.send     partition, sort, at, priority
    queue.receive  partition, sort, at, priority
    queue.done     partition, sort, at, priority
    queue.poison   partition, sort, at, priority                      received too often, put aside
    target.call    call (a number), key (run id), job, scheduled_for (ms), token, attempt, timeout_ms, own, url
                   `own`: the caller's clock as it calls; null for a worker, whose claim was another's look at a clock
    target.effect  call                                               the target did it
    target.reply   call, status (HTTP, or null: no answer was sent)   the target's answer left it
    nemesis        fault, on (a process, a server or a target), and what belongs to it:
                   kill  boot  stop  cont  skew {offset_ms, drift_ppm}  cut {server} / joined {server}
                   lose_buckets {share, lost}  purge {lost}  vanished  duplicate  request_lost / reply_lost / delayed
                   {server, verb}  crash {server, verb, point: before | after}  down / up (a server, or a target)
    bug            error                                              something raised that should not
    heal           the storm is over: nothing is injected from here on, clocks keep what they have
    end            the history is complete up to here

An outcome that is not known (`api.info`) counts neither as done nor as refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

import orjson

from schedkit.errors import InvalidInput, Reason

Event = dict[str, Any]

DIGEST_BYTES: Final = 16


class History:
    """Appends events, and tells those who want to hear of them at once."""

    def __init__(self, now: Callable[[], int]) -> None:
        """`now` is true time in ms."""
        self.events: list[Event] = []
        self._now = now

    def add(self, node: str, kind: str, **fields: Any) -> None:
        self.events.append({"t": self._now(), "node": node, "kind": kind, **fields})

    @property
    def digest(self) -> str:
        """A hash of every event: two runs with the same digest did the same, step by step."""
        seen = blake2b(digest_size=DIGEST_BYTES)
        for event in self.events:
            seen.update(orjson.dumps(event, option=orjson.OPT_SORT_KEYS))
        return seen.hexdigest()

    def write(self, path: Path) -> None:
        with path.open("wb") as file:
            for event in self.events:
                file.write(orjson.dumps(event, option=orjson.OPT_APPEND_NEWLINE))


def read(path: Path) -> Iterator[Event]:
    """The events of a file. Raises InvalidInput, naming the line, for one that is no history."""
    try:
        with path.open("rb") as file:
            yield from events_of(file, str(path))
    except OSError as error:
        raise InvalidInput(Reason.INVALID_ARGUMENT, f"{path} cannot be read: {error.strerror}") from error


def events_of(lines: Iterable[bytes], source: str) -> Iterator[Event]:
    for number, line in enumerate(lines, 1):
        try:
            event = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise InvalidInput(Reason.INVALID_ARGUMENT, f"{source}, line {number} is not JSON: {error}") from error
        if not isinstance(event, dict) or not {"t", "node", "kind"} <= event.keys():
            raise InvalidInput(Reason.INVALID_ARGUMENT, f"{source}, line {number} has no t, node and kind")
        yield event
