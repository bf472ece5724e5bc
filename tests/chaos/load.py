"""The users: recurring jobs first, one-off jobs all the time, a cancel now and then; each wish until it is answered."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import count
from typing import Any

import httpx

from schedkit.model.time import rfc3339
from schedkit.sim.history import History
from tests.chaos.moods import PATHS, TIMEOUT_HEADER

USERS = 10
ANSWER_WITHIN_S = 4.0
REPEAT_AFTER_S = 0.5
INTERVALS = 10
CRONS = 3
ONCE_EVERY_S = (0.15, 0.5)
ONCE_AHEAD_MS = (500, 15_000)
CANCEL_EVERY = 20  # one-off jobs between two cancels
REFUSED = 500  # from here on a status does not say that nothing was done


class Load:
    """Asks the doors it is given, until told to stop; `acked` has every job whose create was acknowledged."""

    def __init__(self, history: History, seed: str, doors: Callable[[], Sequence[str]], target: str) -> None:
        self.acked: dict[str, dict[str, Any]] = {}
        self.cancelled: set[str] = set()
        self.unavailable = 0
        self.surprises: list[str] = []
        self._history = history
        self._chance = random.Random(f"{seed}/load")
        self._doors = doors
        self._target = target
        self._calls = count(1)
        self._keys = count(1)
        self._seed = seed
        self._given_up = threading.Event()
        self._users = ThreadPoolExecutor(USERS, thread_name_prefix="user")
        self._wishes: list[Future[None]] = []

    def recurring(self, ends_at_ms: int) -> None:
        """The jobs that repeat; each ends by itself."""
        for number in range(INTERVALS):
            every = {"type": "INTERVAL", "every_seconds": 2 + number % 9}
            self._wish(self._create, self._job(every | {"end_at": rfc3339(ends_at_ms)}, f"interval-{number}"))
        for number in range(CRONS):
            zone = ("UTC", "Europe/Berlin", "Asia/Kolkata")[number % 3]
            cron = {"type": "CRON", "cron": "* * * * *", "time_zone": zone, "end_at": rfc3339(ends_at_ms)}
            self._wish(self._create, self._job(cron, f"cron-{number}"))

    def one_offs(self, stop: threading.Event) -> None:
        """Create jobs that run once, and cancel one now and then, until `stop`."""
        for number in count(1):
            if stop.wait(self._chance.uniform(*ONCE_EVERY_S)) or self._given_up.is_set():
                return
            run_at = int(time.time() * 1_000) + self._chance.randrange(*ONCE_AHEAD_MS)
            self._wish(self._create, self._job({"type": "ONCE", "run_at": rfc3339(run_at)}))
            if number % CANCEL_EVERY == 0 and self.acked:
                self._wish(self._cancel, self._chance.choice(sorted(self.acked)))

    def finish(self, patience_s: float) -> bool:
        """Wait until every wish has its answer; False where some never had one."""
        deadline = time.monotonic() + patience_s
        for wish in self._wishes:
            try:
                wish.result(max(0.0, deadline - time.monotonic()))
            except TimeoutError:
                self._given_up.set()
        self._users.shutdown(wait=True)
        return not self._given_up.is_set()

    def quit(self) -> None:
        """Ask for nothing any more."""
        self._given_up.set()
        self._users.shutdown(wait=True, cancel_futures=True)

    def _wish(self, work: Callable[..., None], *given: Any) -> None:
        with contextlib.suppress(RuntimeError):  # the users have gone home
            self._wishes.append(self._users.submit(work, *given))

    def _job(self, schedule: dict[str, Any], name: str | None = None) -> dict[str, Any]:
        chance = self._chance
        timeout_s = chance.choice((1, 1, 2, 3))
        return {
            "schedule": schedule,
            "target": {
                "url": self._target + chance.choice(("/ok", *PATHS)),
                "timeout_seconds": timeout_s,
                "headers": {TIMEOUT_HEADER: str(timeout_s * 1_000)},
            },
            "retry_policy": {
                "max_attempts": chance.choice((1, 3, 5)), "initial_backoff_seconds": 1, "max_backoff_seconds": 4,
            },
            "delivery": "AT_MOST_ONCE" if chance.random() < 0.15 else "AT_LEAST_ONCE",
            "overlap_policy": chance.choice(("ALLOW", "ALLOW", "SKIP", "BUFFER_ONE")),
            "misfire_policy": chance.choice(("RUN_ONCE", "RUN_ONCE", "RUN_ALL")),
            "priority": chance.choice(("CRITICAL", "HIGH", "DEFAULT", "LOW")),
            **({"name": name} if name is not None else {}),
        }  # fmt: skip

    def _create(self, body: dict[str, Any]) -> None:
        key = f"{self._seed}-{next(self._keys)}"
        answer = self._until_answered("create", "POST", "/v1/jobs", body=body, key=key)
        if answer is not None and answer[0] in (200, 201):
            self.acked[answer[1]["job_id"]] = answer[1]

    def _cancel(self, job: str) -> None:
        self.cancelled.add(job)  # from the first try on: it may have been done
        self._until_answered("cancel", "DELETE", f"/v1/jobs/{job}", job=job)

    def _until_answered(
        self, op: str, method: str, path: str, *, job: str | None = None, body: Any = None, key: str | None = None
    ) -> tuple[int, dict[str, Any]] | None:
        """The first definite answer; an outcome that is not known is asked for again under the same key."""
        while not self._given_up.is_set():
            answer = self._ask(op, method, path, job, body, key)
            if answer is not None:
                return answer
            self._given_up.wait(REPEAT_AFTER_S)
        return None

    def _ask(
        self, op: str, method: str, path: str, job: str | None, body: Any, key: str | None
    ) -> tuple[int, dict[str, Any]] | None:
        call = next(self._calls)
        self._history.add("user", "api.invoke", call=call, op=op, job=job, idempotency_key=key, body=body)
        headers = {"Idempotency-Key": key} if key is not None else {}
        try:
            door = random.choice(list(self._doors()))
            answer = httpx.request(
                method, door + path, json=body, headers=headers, timeout=ANSWER_WITHIN_S, trust_env=False
            )
            doc = answer.json()
        except (httpx.HTTPError, ValueError) as error:
            self._history.add("user", "api.info", call=call, why=f"{type(error).__name__} {error}")
            return None
        if answer.status_code >= REFUSED:
            self.unavailable += doc.get("reason") == "STORE_UNAVAILABLE"
            if doc.get("reason") != "STORE_UNAVAILABLE":
                self.surprises.append(f"{op} {path}: {answer.status_code} {doc}")
            self._history.add("user", "api.info", call=call, why=str(doc.get("reason")))
            return None
        if answer.status_code >= 400:
            self._history.add("user", "api.fail", call=call, status=answer.status_code, reason=doc.get("reason"))
        else:
            said = {"status": answer.status_code, "job": doc.get("job_id", job), "doc": doc}
            self._history.add("user", "api.ok", call=call, **said)
        return answer.status_code, doc
