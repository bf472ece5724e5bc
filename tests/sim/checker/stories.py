"""Stories: small histories made by hand, as the product would write them, for the checker to judge.

    story = Story()
    job = story.job()                      # every minute, from minute 1 on
    story.runs(job, 60)                    # claimed, advanced, called, answered, settled
    assert story.found() == []

Times are seconds from START; whatever is to be wrong is said by the caller.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from itertools import count
from typing import Any

from schedkit.model.time import SECOND_MS, parse_rfc3339, rfc3339
from schedkit.sim.checker import Verdict, check

START = parse_rfc3339("2026-06-01T12:00:00Z")
EVERY_S = 60
LEASE_S = 90
MARGIN_MS = 5_000
Item = dict[str, Any]


def ms(seconds: float) -> int:
    """The instant this many seconds after START."""
    return START + round(seconds * SECOND_MS)


def key_of(job_id: str, at_s: float) -> str:
    return f"{job_id}:{rfc3339(ms(at_s))}"


def offset_of(job_id: str, window_ms: int) -> int:
    return int.from_bytes(blake2b(job_id.encode(), digest_size=8).digest(), "big") % window_ms if window_ms else 0


def interval(every_s: int = EVERY_S) -> Item:
    return {"type": "INTERVAL", "every_ms": every_s * SECOND_MS, "anchor_at": START}


class Story:
    """A history in the making, and the store as it stands."""

    def __init__(self, **header: Any) -> None:
        self.events: list[Item] = []
        self.items: dict[tuple[str, str], Item] = {}
        self._batches, self._calls = count(1), count(1)
        usual = {"seed": 1, "faults": ["kill"], "skew_ms": 0, "late_ms": 10_000, "recover_ms": 60_000, "calm_ms": 2_000}
        self.say(0, "world", "begin", **{**usual, **header})

    def say(self, at_s: float, node: str, kind: str, **fields: Any) -> Item:
        """One event."""
        event = {"t": ms(at_s), "node": node, "kind": kind, **fields}
        self.events.append(event)
        return event

    def commit(self, at_s: float, job: str, sort: str, arrow: str, changes: Item | None, **how: Any) -> Item:
        """One write, alone in its decision unless `batch` is given; None as changes forgets the item."""
        where = ("JOB#" + job, sort) if sort.startswith(("JOB", "RUN#")) else (job, sort)
        before = self.items.get(where)
        merged = None if changes is None else {**(before or {}), **changes}
        after = None if merged is None else {name: value for name, value in merged.items() if value is not None}
        if after is None:
            self.items.pop(where, None)
        else:
            self.items[where] = after
        node = how.pop("node", "n1")
        event = {"partition": where[0], "sort": sort, "arrow": arrow, "before": before, "after": after}
        usual = {"tag": None, "batch": next(self._batches), "own": ms(at_s)}
        return self.say(at_s, node, "store.commit", **event, **{**usual, **how})

    # ── jobs ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def job(self, job_id: str = "job_a", at_s: float = 0, *, key: str | None = "key-1", **settings: Any) -> str:
        """A job that somebody created and was told of; due every minute unless `settings` says otherwise."""
        call = next(self._calls)
        self.say(
            at_s, "user", "api.invoke", call=call, op="create", job=None, idempotency_key=key, body={"name": job_id}
        )
        self.made(job_id, at_s, key=key, **settings)
        self.say(at_s, "user", "api.ok", call=call, status=201, job=job_id, doc={"job_id": job_id})
        return job_id

    def made(self, job_id: str, at_s: float = 0, *, key: str | None = None, **settings: Any) -> None:
        """The writes of a create."""
        item: Item = {
            "job_id": job_id, "name": job_id, "status": "SCHEDULED", "schedule": interval(), "window_ms": 0,
            "retry": {"max_attempts": 3, "initial_backoff_ms": 10_000, "max_backoff_ms": 60_000}, "version": 1,
            "target": {"timeout_ms": 30_000}, "misfire": "RUN_ONCE", "misfire_grace_ms": 60_000, "overlap": "ALLOW",
            "delivery": "AT_LEAST_ONCE", "created_at": ms(at_s), "counted_from": ms(at_s), "run_count": 0,
            "next_run_at": ms(at_s + EVERY_S), **settings,
        }  # fmt: skip
        if item["status"] == "SCHEDULED" and item["next_run_at"] is not None:
            item["timer_at"] = item["next_run_at"] + offset_of(job_id, item["window_ms"])
        batch = next(self._batches)
        self.commit(at_s, job_id, "JOB", "create", item, batch=batch)
        if key is not None:
            self.commit(at_s, "KEY#default", key, "take key", {"job_id": job_id}, batch=batch)

    def of_job(self, job: str) -> Item:
        return self.items["JOB#" + job, "JOB"]

    def verb(self, at_s: float, job: str, op: str, changes: Item, **fields: Any) -> None:
        """An operator changes a job and is told so."""
        call = next(self._calls)
        self.say(at_s, "user", "api.invoke", call=call, op=op, job=job, idempotency_key=None, body=None)
        version = self.of_job(job)["version"] + 1
        self.commit(at_s, job, "JOB", op, {**changes, "version": version})
        self.say(at_s, "user", "api.ok", call=call, status=200, job=job, doc={"job_id": job, **fields})

    def cancel(self, at_s: float, job: str) -> None:
        self.verb(at_s, job, "cancel", {"status": "CANCELLED", "next_run_at": None, "held": None, "timer_at": None})

    def pause(self, at_s: float, job: str) -> None:
        self.verb(at_s, job, "pause", {"status": "PAUSED", "timer_at": None})

    def move(self, at_s: float, job: str, arrow: str, following_s: float | None, **changes: Any) -> None:
        """The job goes on from the occurrence that was due."""
        was = self.of_job(job)
        following = None if following_s is None else ms(following_s)
        timer = ms(at_s + 10) if following is None else following + offset_of(job, was["window_ms"])
        moved = {"counted_from": was["next_run_at"], "next_run_at": following, "timer_at": timer}
        self.commit(at_s, job, "JOB", arrow, {**moved, **changes})

    # ── runs ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def of_run(self, job: str, due_s: float) -> Item:
        return self.items["JOB#" + job, self.sort(due_s)]

    def sort(self, due_s: float) -> str:
        return f"RUN#{ms(due_s):015d}"

    def claim(
        self, at_s: float, job: str, due_s: float, node: str = "n1", *, arrow: str = "claim", **more: Any
    ) -> None:
        """Into RUNNING under the next epoch: a first claim, a retry's, a reclaim."""
        was = self.items.get(("JOB#" + job, self.sort(due_s))) or {}
        epoch, lease_end = was.get("epoch", 0) + 1, ms(at_s + LEASE_S)
        attempts = list(was.get("attempts", ()))
        if arrow == "reclaim":
            lost = {"finished_at": ms(at_s), "outcome": "LEASE_EXPIRED"}
            attempts[-1] = {**attempts[-1], **lost}
        attempt = {"attempt": max(1, was.get("attempt", 1)), "epoch": epoch, "started_at": ms(at_s), "lag_ms": 0}
        first = {
            "job_id": job, "scheduled_for": ms(due_s), "due_at": ms(due_s) + offset_of(job, self._window(job)),
            "attempt": 1, "created_at": ms(at_s), "misfired": False, "triggered": False,
        }  # fmt: skip
        running = {
            "status": "RUNNING", "epoch": epoch, "claim_token": f"{node}/{epoch}/{at_s}", "lease_owner": node,
            "lease_expires_at": lease_end, "timer_at": lease_end + MARGIN_MS + 1, "attempts": [*attempts, attempt],
            "not_before": None, **({"attempt": 1} if was.get("attempt") == 0 else {}),
        }  # fmt: skip
        self.commit(at_s, job, self.sort(due_s), arrow, {**({} if was else first), **running, **more}, node=node)

    def call(self, at_s: float, job: str, due_s: float, node: str = "n1", **more: Any) -> int:
        """A call of the run as it stands; returns its number."""
        run, number = self.of_run(job, due_s), next(self._calls)
        usual = {"token": run["epoch"], "attempt": run["attempt"], "own": ms(at_s), "timeout_ms": 30_000}
        usual |= {"key": key_of(job, due_s), "job": job, "scheduled_for": ms(due_s), "url": "http://ok.example/"}
        self.say(at_s, node, "target.call", call=number, **{**usual, **more})
        return number

    def answer(self, at_s: float, call: int, status: int | None = 200, **more: Any) -> None:
        """The target answers; with 200 it also did it."""
        if status == 200:
            self.say(at_s, "ok", "target.effect", call=call)
        self.say(at_s, "ok", "target.reply", call=call, status=status, **more)

    def settle(self, at_s: float, job: str, due_s: float, status: str = "SUCCEEDED", **more: Any) -> None:
        """The end of a holder's turn."""
        was = self.of_run(job, due_s)
        outcome = {"SUCCEEDED": "SUCCEEDED", "UNKNOWN": "UNKNOWN", "CANCELLED": "CANCELLED"}.get(status, "FAILED")
        http = more.pop("http_status", 200 if outcome == "SUCCEEDED" else 503)
        closed = {**was["attempts"][-1], "finished_at": ms(at_s), "outcome": outcome, "http_status": http}
        ended: Item = {
            "status": status, "lease_owner": None, "lease_expires_at": None, "claim_token": None, "timer_at": None,
            "attempts": [*was["attempts"][:-1], closed], "finished_at": ms(at_s),
        }  # fmt: skip
        if status in ("FAILED", "UNKNOWN"):
            ended |= {"dead_partition": "DEAD#default", "reason": "PERMANENT_FAILURE"}
        if status == "RETRY_WAIT":
            ended |= {"attempt": was["attempt"] + 1, "not_before": ms(at_s + 5), "finished_at": None}
            ended["timer_at"] = more.get("not_before", ended["not_before"])
        node, tag = more.pop("node", "n1"), more.pop("tag", was["epoch"])
        arrow = f"settle {status}"
        self.commit(at_s, job, self.sort(due_s), arrow, {**ended, **more}, node=node, tag=tag)

    def skip(self, at_s: float, job: str, due_s: float, reason: str, **more: Any) -> None:
        """An occurrence that will not run; the job goes on after it."""
        batch = next(self._batches)
        item = {
            "job_id": job, "scheduled_for": ms(due_s), "due_at": ms(due_s), "status": "SKIPPED", "reason": reason,
            "created_at": ms(at_s), "epoch": 0, "attempt": 0, "attempts": [], "triggered": False, **more,
        }  # fmt: skip
        was = self.of_job(job)
        following = ms(due_s + EVERY_S)
        moved = {"counted_from": was["next_run_at"], "next_run_at": following, "timer_at": following}
        self.commit(at_s, job, "JOB", "pass by", moved, batch=batch)
        self.commit(at_s, job, self.sort(due_s), "skip", item, batch=batch)

    def skip_next(self, at_s: float, job: str, *, asked: bool = True, recorded: bool = True) -> float:
        """An operator has the next occurrence skipped and is told so; returns when it is due, in seconds."""
        was, call, batch = self.of_job(job), next(self._calls), next(self._batches)
        due_s: float = (was["next_run_at"] - START) / SECOND_MS
        if asked:
            self.say(at_s, "user", "api.invoke", call=call, op="skip_next", job=job, idempotency_key=None, body={})
        following = ms(due_s + EVERY_S)
        moved = {"counted_from": ms(due_s), "next_run_at": following, "timer_at": following}
        self.commit(at_s, job, "JOB", "skip next", moved | {"version": was["version"] + 1}, batch=batch)
        item = {
            "job_id": job, "scheduled_for": ms(due_s), "due_at": ms(due_s), "status": "SKIPPED", "epoch": 0,
            "reason": "SKIPPED_BY_HAND", "created_at": ms(at_s), "attempt": 0, "attempts": [], "triggered": False,
        }  # fmt: skip
        if recorded:
            self.commit(at_s, job, self.sort(due_s), "skip", item, batch=batch)
        if asked:
            doc = {"job_id": job, "skipped": [rfc3339(ms(due_s))]}
            self.say(at_s, "user", "api.ok", call=call, status=200, job=job, doc=doc)
        return due_s

    def start(self, at_s: float, job: str, due_s: float, node: str = "n1", **more: Any) -> int:
        """Claim, advance, call."""
        self.claim(at_s, job, due_s, node, **more)
        count = self.of_job(job)["run_count"] + 1
        self.move(at_s, job, "advance", due_s + EVERY_S, last_run=ms(due_s), run_count=count)
        return self.call(at_s, job, due_s, node)

    def runs(self, job: str, *due_s: float) -> None:
        """Occurrences that run as they should."""
        for due in due_s:
            at_s = due + offset_of(job, self._window(job)) / SECOND_MS
            self.answer(at_s + 0.1, self.start(at_s, job, due))
            self.settle(at_s + 0.2, job, due)

    def redriven(self, at_s: float, job: str, due_s: float, redrive_id: str | None = None, **more: Any) -> None:
        """A dead letter starts again: alone, or released by a redrive, in one decision with it."""
        was, batch = self.of_run(job, due_s), next(self._batches)
        begun = {
            "status": "RETRY_WAIT", "attempt": 0, "series": was.get("series", 1) + 1, "not_before": ms(at_s),
            "timer_at": ms(at_s), "redrive_id": redrive_id, "dead_partition": None, "reason": None,
            "finished_at": None,
        }  # fmt: skip
        if redrive_id is not None:
            item = self.items["REDRIVE#default", redrive_id]
            count, open_ = item["redriven"] + 1, [*item["open"], key_of(job, due_s)]
            self.redrive(at_s, redrive_id, "release", batch=batch, redriven=count, open=open_)
        self.commit(at_s, job, self.sort(due_s), "redrive", {**begun, **more}, batch=batch, tag=was["epoch"])

    def redrive(self, at_s: float, redrive_id: str = "rd_1", arrow: str = "plan redrive", **changes: Any) -> None:
        """A write of a redrive itself; the first one begins it."""
        how = {"batch": changes.pop("batch")} if "batch" in changes else {}
        first: Item = {"state": "RUNNING", "max_per_second": 1, "redriven": 0, "open": [], "canary": 0}
        known = ("REDRIVE#default", redrive_id) in self.items
        self.commit(at_s, "REDRIVE#default", redrive_id, arrow, {**({} if known else first), **changes}, **how)

    def backfill(self, at_s: float, backfill_id: str = "bf_1", arrow: str = "plan redrive", **changes: Any) -> None:
        """A write of a backfill itself; the first one begins it, of job_a from START to minute 5."""
        how = {"batch": changes.pop("batch")} if "batch" in changes else {}
        past = {"job_id": "job_a", "since": START, "until": ms(300), "one_by_one": False, "occurrences": 0}
        first: Item = {"state": "RUNNING", "max_per_second": 1, "redriven": 0, "open": [], "filter": past}
        known = ("BACKFILL#default", backfill_id) in self.items
        self.commit(at_s, "BACKFILL#default", backfill_id, arrow, {**({} if known else first), **changes}, **how)

    def backfilled(self, at_s: float, due_s: float, backfill_id: str = "bf_1", job: str = "job_a") -> None:
        """An occurrence begins to run after all, in one decision with its backfill."""
        was, batch = self.items.get(("JOB#" + job, self.sort(due_s)), {}), next(self._batches)
        item = self.items["BACKFILL#default", backfill_id]
        count, open_ = item["redriven"] + 1, [*item["open"], key_of(job, due_s)]
        self.backfill(at_s, backfill_id, "release", batch=batch, redriven=count, open=open_)
        begun = {
            "job_id": job, "scheduled_for": ms(due_s), "due_at": ms(due_s), "status": "RETRY_WAIT", "attempt": 0,
            "epoch": was.get("epoch", 0), "attempts": was.get("attempts", []), "created_at": ms(at_s),
            "not_before": ms(at_s), "timer_at": ms(at_s), "redrive_id": backfill_id, "backfilled": True,
            "triggered": False, "reason": None, "finished_at": None,
        }  # fmt: skip
        self.commit(at_s, job, self.sort(due_s), "backfill", begun, batch=batch)

    def triggered(self, at_s: float, job: str) -> None:
        """A run asked for by hand, waiting to be claimed."""
        self._waits(at_s, job, at_s, "trigger", triggered=True)

    def ready(self, at_s: float, job: str, due_s: float) -> None:
        """A run that waits for a worker; the job goes on."""
        self._waits(at_s, job, due_s, "ready", triggered=False, task_queue="tasks")
        count = self.of_job(job)["run_count"] + 1
        self.move(at_s, job, "advance", due_s + EVERY_S, last_run=ms(due_s), run_count=count)

    def _waits(self, at_s: float, job: str, due_s: float, arrow: str, **more: Any) -> None:
        item = {
            "job_id": job, "scheduled_for": ms(due_s), "due_at": ms(due_s), "status": "RETRY_WAIT", "epoch": 0,
            "attempt": 1, "attempts": [], "created_at": ms(at_s), "not_before": ms(at_s), "timer_at": ms(at_s),
        }  # fmt: skip
        self.commit(at_s, job, self.sort(due_s), arrow, item | more)

    def kill(self, at_s: float, node: str = "n1", fault: str = "kill") -> None:
        self.say(at_s, "world", "nemesis", fault=fault, on=node)

    # ── the end ──────────────────────────────────────────────────────────────────────────────────────────────────

    def ends(self, at_s: float, heal_s: float | None = None) -> Verdict:
        """Heal, at the end unless said otherwise, and end; the events in the order of time."""
        self.say(at_s if heal_s is None else heal_s, "world", "heal")
        self.say(at_s, "world", "end")
        self.events.sort(key=lambda event: event["t"])
        return check(self.events)

    def found(self, at_s: float, heal_s: float | None = None) -> list[str]:
        """The checks that found something, each once."""
        return sorted({f"{found.invariant} {found.check}" for found in self.ends(at_s, heal_s).violations})

    def _window(self, job: str) -> int:
        return int(self.of_job(job)["window_ms"])


Telling = Callable[[Story], None]
