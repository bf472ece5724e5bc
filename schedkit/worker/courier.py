"""The courier: everything between a worker and the scheduler. It polls, keeps leases, reports, and knows no function.

    poll ─► task ─► perform (the function, wherever it runs) ─► outcome ─► report
              └──── heartbeats, until the report has arrived ────┘
                      └► superseded, cancelled, timed out, stalled: the function is told to stop

Polls, heartbeats and reports go in batches of up to 50. An outage of the scheduler stops nothing that runs: the courier
goes on asking, and hears afterwards whether the run is still its own. What is superseded is never reported (C5).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from schedkit.client import AsyncClient, Unreachable
from schedkit.client.problems import refusal_of
from schedkit.errors import InvalidInput, QuotaExceeded, SchedkitError, TooLarge
from schedkit.worker.held import Done, Failure, Held, Outcome, Stop, Stopped

BATCH: Final = 50
POLL_WAIT_S: Final = 20.0
PATIENCE_S: Final = 40.0  # for one call with its retries: longer than the longest poll
FIRST_PAUSE_S: Final = 0.5  # after a call that failed; doubled, with full jitter
LONGEST_PAUSE_S: Final = 10.0
RELEASE_GRACE_S: Final = 1.0  # for functions to stop, before others are given what they had
TOGETHER_S: Final = 0.5  # heartbeats that are due this soon go with one that is due
OVERDUE_GRACE_S: Final = 5.0  # for a function that is told that its time is over, to stop by itself
SOON_S: Final = 1.0  # a heartbeat that got no answer is sent again after this

log = logging.getLogger(__name__)

Perform = Callable[[Held], Awaitable[Outcome]]
Told = Callable[[str, Held, Any], None]  # ("began" | "ended" | "stopped", the task, its outcome or why it was stopped)


@dataclass(frozen=True, slots=True)
class Limits:
    """How long a function may take, and may say nothing, in seconds; None is for ever.

    `stop_within_s`: how long it may take to stop when it is told to; None where nobody can make it.
    """

    timeout_s: float | None = None
    stall_after_s: float | None = None
    stop_within_s: float | None = None


@dataclass(slots=True, kw_only=True)
class Courier:
    """One worker's line to the scheduler, for one task queue, on one event loop.

    `perform` does a task and never raises. `limits_of` says what a task's function may take. `beat_every_s`: heartbeats
    at least this often. `monotonic`, `sleep` and `draw` are the clock and the chance of the loop. Raises what the
    scheduler refuses for good: a credential, a queue's name.
    """

    client: AsyncClient
    queue: str
    worker_id: str
    slots: int
    perform: Perform
    monotonic: Callable[[], float]
    sleep: Callable[[float], Awaitable[None]]
    draw: Callable[[], float]
    limits_of: Callable[[Held], Limits] = lambda held: Limits()
    told: Told = lambda what, held, detail: None
    poll_wait_s: float = POLL_WAIT_S
    beat_every_s: float | None = None
    held: dict[str, Held] = field(default_factory=dict)
    _tasks: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    _reports: list[tuple[Held, Outcome, asyncio.Future[None]]] = field(default_factory=list)
    _reported: asyncio.Event = field(default_factory=asyncio.Event)
    _began: asyncio.Event = field(default_factory=asyncio.Event)
    _freed: asyncio.Event = field(default_factory=asyncio.Event)
    _releasing: bool = False
    _draining: asyncio.Event = field(default_factory=asyncio.Event)

    async def serve(self) -> None:
        """Poll and work until `drain`; returns when nothing is in hand any more."""
        beating = asyncio.ensure_future(self._beat())
        reporting = asyncio.ensure_future(self._report())
        try:
            await self._poll()
            while self._tasks or self._releasing:
                await self._until_freed()
        finally:
            beating.cancel()
            reporting.cancel()

    def drain(self) -> None:
        """Take no more; `serve` returns when what is in hand has ended."""
        self._draining.set()
        self._freed.set()

    async def release(self) -> int:
        """Stop what is still in hand and give it back for other workers (F10); returns how many."""
        left = [held for held in self.held.values() if held.stop is not Stop.SUPERSEDED]
        self._releasing = True
        try:
            for held in left:
                held.released = True
                held.end(Stop.DRAINED)
            if tasks := [self._tasks[held.run_id] for held in left if held.run_id in self._tasks]:
                grace_s = max(self._stop_within_s(held, RELEASE_GRACE_S) for held in left)
                await asyncio.wait(tasks, timeout=grace_s)
            await self._flush([held for held in left if held.unsent])
            answers = await asyncio.gather(*(self._released(held) for held in left))
            return sum(answers)
        finally:
            self._releasing = False
            self._freed.set()

    # ── polling ──────────────────────────────────────────────────────────────────────────────────────────────────

    async def _poll(self) -> None:
        failures = 0
        path = f"/v1/task-queues/{self.queue}/tasks:poll"
        while not self._draining.is_set():
            free = self.slots - len(self._tasks)
            if free <= 0:
                await self._until_freed()
                continue
            body = {"worker_id": self.worker_id, "wait_seconds": self.poll_wait_s, "max_tasks": min(free, BATCH)}
            polling = asyncio.ensure_future(self.client.call("POST", path, body=body, repeatable=False))
            draining = asyncio.ensure_future(self._draining.wait())
            await asyncio.wait((polling, draining), return_when=asyncio.FIRST_COMPLETED)
            draining.cancel()
            if not polling.done():  # what it may have been handed meanwhile comes back when its lease has ended
                polling.cancel()
                await asyncio.gather(polling, return_exceptions=True)
                return
            try:
                answer = polling.result()
            except (Unreachable, SchedkitError) as error:
                if not passing(error):
                    raise
                failures += 1
                log.warning("asking for tasks: %s", error)
                await self._pause(failures)
                continue
            failures = 0
            for doc in answer.data["tasks"]:
                self._begin(doc)

    def _begin(self, doc: Mapping[str, Any]) -> None:
        now = self.monotonic()
        if self.beat_every_s is not None:
            doc = {**doc, "heartbeat_every_seconds": min(self.beat_every_s, float(doc["heartbeat_every_seconds"]))}
        held = Held(doc, began_at=now, beat_at=now + float(doc["heartbeat_every_seconds"]), seen_at=now)
        self.held[held.run_id] = held
        self._began.set()
        self._tasks[held.run_id] = asyncio.ensure_future(self._work(held))

    async def _work(self, held: Held) -> None:
        try:
            self.told("began", held, None)
            performing = asyncio.ensure_future(self.perform(held))
            overdue = asyncio.ensure_future(self._overdue(held))
            await asyncio.wait((performing, overdue), return_when=asyncio.FIRST_COMPLETED)
            overdue.cancel()
            outcome = _outcome_of(performing) if performing.done() else Failure("it is still running")
            if held.stop in (Stop.TIMED_OUT, Stop.STALLED):
                outcome = Failure(self._lateness(held))
            if held.stop is Stop.SUPERSEDED or held.released:
                self.told("stopped", held, held.stop)
            else:
                await self._deliver(held, outcome)
            self.held.pop(held.run_id, None)
            await asyncio.wait((performing,))  # a function that does not stop keeps its slot
        finally:
            self.held.pop(held.run_id, None)
            self._tasks.pop(held.run_id, None)
            self._freed.set()

    async def _overdue(self, held: Held) -> None:
        """Return when a function has had its time and has not stopped when it was told to."""
        while held.stop not in (Stop.TIMED_OUT, Stop.STALLED):
            held.stopped.clear()
            await held.stopped.wait()
        await self.sleep(self._stop_within_s(held, OVERDUE_GRACE_S))

    def _stop_within_s(self, held: Held, otherwise_s: float) -> float:
        stop_within_s = self.limits_of(held).stop_within_s
        return otherwise_s if stop_within_s is None else stop_within_s

    def _lateness(self, held: Held) -> str:
        limits = self.limits_of(held)
        if held.stop is Stop.STALLED:
            return f"it stalled: it said nothing for {limits.stall_after_s:g} s"
        return f"not done within {limits.timeout_s:g} s"

    async def _until_freed(self) -> None:
        self._freed.clear()
        await self._freed.wait()

    # ── reporting ────────────────────────────────────────────────────────────────────────────────────────────────

    async def _deliver(self, held: Held, outcome: Outcome) -> None:
        """Report it, as often as it takes; heartbeats go on meanwhile."""
        if isinstance(outcome, Stopped) and held.stop is not Stop.CANCELLED:
            outcome = Failure("it stopped, and nobody had asked for that")
        if isinstance(outcome, Failure) and held.unsent:
            await self._flush([held])  # the next attempt goes on from here
        failures = 0
        while held.stop is not Stop.SUPERSEDED and not held.released:
            arrived: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._reports.append((held, outcome, arrived))
            self._reported.set()
            try:
                await arrived
            except (Unreachable, SchedkitError) as error:
                if passing(error):
                    failures += 1
                    await self._pause(failures)
                    continue
                if isinstance(error, InvalidInput | TooLarge) and outcome != _bare(outcome):
                    log.error("%s: how it ended is reported without its words: %s", held.run_id, error)
                    outcome = _bare(outcome)
                    continue
                held.stop = Stop.SUPERSEDED
                self.told("stopped", held, error)
            else:
                self.told("ended", held, outcome)
            return

    async def _report(self) -> None:
        while True:
            await self._reported.wait()
            self._reported.clear()
            while batch := self._reports[:BATCH]:
                del self._reports[:BATCH]
                entries = [_completion(held, outcome) for held, outcome, _ in batch]
                await self._answered("Complete", "completions", entries, [arrived for _, _, arrived in batch])

    async def _answered(
        self, verb: str, field: str, entries: list[Any], waiting: Sequence[asyncio.Future[Any]]
    ) -> None:
        """Make a batch call and pass each entry's answer, or its error, to who waits for it."""
        try:
            answer = await self.client.call("POST", f"/v1/runs:batch{verb}", body={field: entries}, repeatable=True)
            results: Sequence[Any] = answer.data["results"]
        except (Unreachable, SchedkitError) as error:
            if len(entries) > 1 and isinstance(error, InvalidInput | TooLarge):  # the fault of one, or of their number
                for entry, future in zip(entries, waiting, strict=True):
                    await self._answered(verb, field, [entry], [future])
                return
            results = [error] * len(waiting)
        for result, future in zip(results, waiting, strict=True):
            if future.done():
                continue
            if isinstance(result, Exception):
                future.set_exception(result)
            elif result["status"] >= 400:
                future.set_exception(refusal_of(result["status"], result["error"]))
            else:
                future.set_result(result)

    # ── heartbeats ───────────────────────────────────────────────────────────────────────────────────────────────

    async def _beat(self) -> None:
        while True:
            if not self.held:
                self._began.clear()
                await self._began.wait()
            now = self.monotonic()
            for held in list(self.held.values()):
                self._watch(held, now)
            soon = now + TOGETHER_S
            due = [held for held in self.held.values() if held.beat_at <= soon and held.stop is not Stop.SUPERSEDED]
            if not any(held.beat_at <= now for held in due):
                due = []
            await self._flush(due)
            await self.sleep(min([SOON_S, *(max(0.01, held.beat_at - now) for held in self.held.values())]))

    def _watch(self, held: Held, now: float) -> None:
        limits = self.limits_of(held)
        if limits.timeout_s is not None and now - held.began_at >= limits.timeout_s:
            held.end(Stop.TIMED_OUT)
        elif limits.stall_after_s is not None and now - held.seen_at >= limits.stall_after_s:
            held.end(Stop.STALLED)

    async def _flush(self, all_due: Sequence[Held]) -> None:
        """One heartbeat for each of them."""
        for start in range(0, len(all_due), BATCH):
            due = all_due[start : start + BATCH]
            entries = []
            for held in due:
                carried = {"progress": held.progress} if held.unsent else {}
                held.unsent = False
                held.beat_at = self.monotonic() + held.every_s
                entries.append({"run_id": held.run_id, "epoch": held.epoch} | carried)
            waiting = [asyncio.get_running_loop().create_future() for _ in due]
            await self._answered("Heartbeat", "heartbeats", entries, waiting)
            for held, entry, answer in zip(due, entries, waiting, strict=True):
                self._heard(held, entry, answer)

    def _heard(self, held: Held, entry: Mapping[str, Any], answer: asyncio.Future[Any]) -> None:
        error = answer.exception()
        if error is None:
            if answer.result()["cancel_requested"]:
                held.end(Stop.CANCELLED)
        elif isinstance(error, Unreachable | SchedkitError) and passing(error):
            log.warning("keeping %s: %s", held.run_id, error)
            held.unsent = held.unsent or "progress" in entry
            held.beat_at = self.monotonic() + min(SOON_S, held.every_s)
        elif isinstance(error, InvalidInput | TooLarge) and "progress" in entry:
            log.error("%s: its progress is not sent: %s", held.run_id, error)
            held.beat_at = self.monotonic()
        else:
            held.end(Stop.SUPERSEDED)

    # ── the rest ─────────────────────────────────────────────────────────────────────────────────────────────────

    async def _released(self, held: Held) -> bool:
        try:
            await self.client.call(
                "POST", f"/v1/runs/{held.run_id}:release", body={"epoch": held.epoch}, repeatable=True
            )
        except (Unreachable, SchedkitError) as error:
            log.warning("giving back %s: %s", held.run_id, error)
            return False
        return True

    async def _pause(self, failures: int) -> None:
        await self.sleep(self.draw() * min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** min(failures, 10)))


def passing(error: Exception) -> bool:
    """Worth another try: the scheduler is away, in trouble, or asks to wait."""
    return isinstance(error, Unreachable | QuotaExceeded) or getattr(error, "status", 400) >= 500


def _outcome_of(performing: asyncio.Future[Outcome]) -> Outcome:
    """How the task was performed; what raises is a bug of whoever performs, and the run's failure."""
    error = performing.exception()
    if error is None:
        return performing.result()
    log.error("performing a task failed", exc_info=error)
    return Failure(f"the worker failed in a way that was not foreseen: {type(error).__name__}")


def _bare(outcome: Outcome) -> Outcome:
    """The same end without the words that a scheduler would not take."""
    match outcome:
        case Done():
            return Done()
        case Failure(_, retryable, retry_after_s):
            return Failure("its error could not be sent", retryable, retry_after_s)
        case Stopped():
            return outcome


def _completion(held: Held, outcome: Outcome) -> dict[str, Any]:
    name = {"run_id": held.run_id, "epoch": held.epoch}
    match outcome:
        case Done(result):
            return name | {"outcome": "SUCCEEDED", "result": result}
        case Failure(error, retryable, retry_after_s):
            said = {"error": error, "retryable": retryable, "retry_after_seconds": retry_after_s}
            return name | {"outcome": "FAILED"} | said
        case Stopped():
            return name | {"outcome": "CANCELLED"}
