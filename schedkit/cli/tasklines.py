"""What a worker prints: a line for each task that ended, and what its programs say. Printed by a thread of its own.

04:39:53.468 +00:00  ok     digest        in 1.2 s
04:39:58.396 +00:00  retry  rebuild       exit 75: the ledger is locked, after 0.3 s
digest | 10,000 rows                                   a program's line, under the name of its job
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
import time
from collections.abc import Sequence
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final

from schedkit.cli import show
from schedkit.cli.invocation import Invocation
from schedkit.cli.values import now_ms
from schedkit.model.time import SECOND_MS

if TYPE_CHECKING:
    from schedkit.worker.held import Held

MOST_WAITING: Final = 1_000  # lines that are not printed yet, before programs wait for the reader
LOOK_EVERY_S: Final = 0.05
LAST_LINES_S: Final = 1.0


class TaskLines:
    """Hears of tasks from the courier's thread, which must not wait for a terminal that was stopped (ctrl+s)."""

    def __init__(self, me: Invocation) -> None:
        self._me = me
        self._json = me.style.format in ("json", "jsonl")
        self._waiting: SimpleQueue[tuple[str, bool] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._print, name="schedkit-lines", daemon=True)
        self._thread.start()

    def told(self, what: str, held: Held, detail: Any) -> None:
        """A task began, ended, or was stopped."""
        if self._me.quiet or (what == "began" and not self._me.settings.get("verbose")):
            return
        event = _event(what, held, detail)
        if self._json:
            self._waiting.put((self._me.style.json(event), False))
        else:
            clock = show.clock(now_ms(), self._me.zone)
            line = f"{clock}  {event['word']:<5}  {name_of(held):<12}  {_said(event)}"
            self._waiting.put((show.line(line), False))

    async def output(self, held: Held, lines: Sequence[str], error: bool) -> None:
        """What a program said. It goes to stderr where stdout is for JSON."""
        for line in lines:
            self._waiting.put((show.line(f"{name_of(held)} | {line}"), error or self._json))
        while self._waiting.qsize() > MOST_WAITING and self._thread.is_alive():
            await asyncio.sleep(LOOK_EVERY_S)

    def close(self) -> None:
        """Print what is left, unless nobody reads it."""
        self._waiting.put(None)
        self._thread.join(LAST_LINES_S)

    def _print(self) -> None:
        while (entry := self._waiting.get()) is not None:
            text, error = entry
            with contextlib.suppress(OSError, ValueError):  # the reader has gone; the work goes on
                print(text, file=sys.stderr if error else sys.stdout, flush=True)


def name_of(held: Held) -> str:
    """What people call it: its job's name, or its job's id."""
    return str(held.doc["job_name"] or held.doc["job_id"])


def _event(what: str, held: Held, detail: Any) -> dict[str, Any]:
    """What happened to a task, as a document."""
    from schedkit.worker.held import Done, Failure, Stop, Stopped

    word, outcome, error = "begin", None, None
    if what == "stopped":
        drained = detail is Stop.DRAINED
        word, outcome = ("back", "RELEASED") if drained else ("lost", "SUPERSEDED")
        error = str(detail) if isinstance(detail, Exception) else None
    match detail:
        case Done():
            word, outcome = "ok", "SUCCEEDED"
        case Failure(said, retryable):
            word, outcome, error = "retry" if retryable else "fail", "FAILED", said
        case Stopped():
            word, outcome = "stop", "CANCELLED"
    names = ("run_id", "job_id", "job_name", "task_type", "attempt", "epoch")
    took_ms = round((time.monotonic() - held.began_at) * SECOND_MS)
    facts = {"outcome": outcome, "error": error, "took_ms": None if what == "began" else took_ms}
    return {"event": what, "word": word, **{name: held.doc.get(name) for name in names}, **facts}


def _said(event: dict[str, Any]) -> str:
    if event["event"] == "began":
        return f"try {event['attempt']}, epoch {event['epoch']}"
    took = show.span(event["took_ms"])
    match event["outcome"]:
        case "SUCCEEDED":
            return f"in {took}"
        case "FAILED":
            return f"{event['error']}, after {took}"
        case "CANCELLED":
            return f"cancelled, after {took}"
        case "RELEASED":
            return f"given back for another worker, after {took}"
        case _:
            return f"it is another worker's, or has ended: what it did is not recorded, after {took}"
