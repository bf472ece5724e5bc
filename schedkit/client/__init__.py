"""The HTTP client: what the command line, dashboards, tests and your own programs use to talk to a scheduler.

    from schedkit.client import Client

    with Client("http://127.0.0.1:8700") as client:
        tea = {"schedule": {"type": "INTERVAL", "every_seconds": 900}, "target": {"url": "https://tea.internal/brew"}}
        print(client.create_job(tea).job["next_run_at"])

A refusal is raised as the error of its status (`schedkit.errors`): NotFound, Conflict, InvalidInput and so on, with the
server's reason, why and fix. No answer is `Unreachable`. Calls that may be repeated safely are: reads, cancels, edits
under a version, and creates, which carry an Idempotency-Key made once and kept through every retry.

`AsyncClient` makes any call from an event loop, with the same tries and the same errors:
`async with AsyncClient(url) as client: await client.call("GET", "/v1/jobs")`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import quote

import httpx

from schedkit.client.asking import Ask, Asking, Pause, advance, new_idempotency_key, system_draw
from schedkit.client.asynchronous import AsyncClient
from schedkit.client.connection import DEFAULT_TIMEOUT_S, DEFAULT_URL, Token, opened
from schedkit.client.paths import as_seen, given, job_path, key_path, matching, query_of, redrive_path, run_path
from schedkit.client.problems import Answer, Created, Trouble, Unreachable
from schedkit.errors import SchedkitError

__all__ = ["Answer", "AsyncClient", "Client", "Created", "Trouble", "Unreachable", "new_idempotency_key"]

PAGE_SIZE: Final = 200

Doc = dict[str, Any]  # a JSON object, its fields named as in the HTTP API


@dataclass(slots=True)
class Client:
    """A scheduler at `url`. One per thread, closed after use (it is a context manager).

    `token` is sent as a bearer token and asked for anew for every call where it is a function. `timeout_s` bounds one
    call with all its retries. `transport` replaces the network, for tests. `headers` go with every call.
    `on_exchange` hears (method, url, status or error, milliseconds) of every exchange.
    """

    url: str = DEFAULT_URL
    token: Token = None
    timeout_s: float = DEFAULT_TIMEOUT_S
    transport: httpx.BaseTransport | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    on_exchange: Callable[[str, str, str, float], None] | None = None
    sleep: Callable[[float], None] = time.sleep
    _http: httpx.Client | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        if self._http is not None:
            self._http.close()
            self._http = None

    def create_job(self, body: Mapping[str, Any], *, idempotency_key: str | None = None) -> Created:
        """Create a job. The key is made here unless given, and is the same in every retry."""
        key = idempotency_key or new_idempotency_key()
        answer = self.call("POST", "/v1/jobs", body=body, idempotency_key=key)
        replayed = answer.headers.get("idempotent-replayed", "").lower() == "true"
        return Created(answer.data, replayed, key)

    def list_jobs(
        self,
        *,
        limit: int | None = None,
        cursor: str | None = None,
        status: Sequence[str] = (),
        labels: Mapping[str, str] | None = None,
        name_prefix: str | None = None,
        due_before: str | None = None,
        managed_by: str | None = None,
        task_queue: str | None = None,
    ) -> Doc:
        """One page of jobs: `items` and `next_cursor`."""
        query = query_of(limit=limit, cursor=cursor, name_prefix=name_prefix, due_before=due_before)
        query += query_of(managed_by=managed_by, task_queue=task_queue)
        query += [("status", word) for word in status]
        query += [("label", f"{key}={value}") for key, value in (labels or {}).items()]
        return self._doc("GET", "/v1/jobs", params=query)

    def get_job(self, job: str) -> Doc:
        """One job by id or name, with its ten newest runs as `recent_runs`."""
        return self._doc("GET", job_path(job))

    def update_job(self, job: str, changes: Mapping[str, Any], *, version: int | None = None) -> Doc:
        """Change the given fields; with `version`, only if nobody changed the job since (Conflict otherwise)."""
        return self._doc("PATCH", job_path(job), body=changes, headers=matching(version), repeatable=version is None)

    def cancel_job(self, job: str, *, running: bool = False, version: int | None = None) -> Doc:
        """End a job for good; with `running`, ask its run in progress to stop as well."""
        params = [("running", "cancel")] if running else []
        return self._doc("DELETE", job_path(job), params=params, headers=matching(version))

    def pause_job(
        self, job: str, *, reason: str | None = None, until: str | None = None, version: int | None = None
    ) -> Doc:
        """Stop future runs and keep the job; `version` as in `update_job`."""
        return self._doc(
            "POST", f"{job_path(job)}:pause", body=given(reason=reason, until=until), headers=matching(version)
        )

    def resume_job(self, job: str, *, misfire: str | None = None, version: int | None = None) -> Doc:
        """Start again; `misfire` says what happens to what was missed (nothing, where it is not given)."""
        return self._doc("POST", f"{job_path(job)}:resume", body=given(misfire=misfire), headers=matching(version))

    def trigger_job(
        self,
        job: str,
        *,
        payload: Any = None,
        as_of: str | None = None,
        version: int | None = None,
        idempotency_key: str | None = None,
    ) -> Doc:
        """Run once now, outside the schedule; `version` as in `update_job`. Returns the run."""
        path, body, headers = f"{job_path(job)}:trigger", given(payload=payload, as_of=as_of), matching(version)
        return self._doc("POST", path, body=body, headers=headers, idempotency_key=idempotency_key, repeatable=False)

    def job_runs(
        self,
        job: str,
        *,
        limit: int | None = None,
        cursor: str | None = None,
        status: Sequence[str] = (),
        since: str | None = None,
        until: str | None = None,
    ) -> Doc:
        """One page of a job's runs, newest first."""
        query = query_of(limit=limit, cursor=cursor, since=since, until=until)
        return self._doc("GET", f"{job_path(job)}/runs", params=[*query, *(("status", word) for word in status)])

    def job_next(self, job: str, *, count: int = 5) -> Doc:
        """The next occurrences of a job, with local times, its place in the window, and notes on clock changes."""
        return self._doc("GET", f"{job_path(job)}/next", params=query_of(count=count))

    # Runs

    def list_runs(
        self,
        *,
        limit: int | None = None,
        cursor: str | None = None,
        status: Sequence[str] = (),
        job: str | None = None,
        since: str | None = None,
        until: str | None = None,
    ) -> Doc:
        """One page of runs across jobs, newest first."""
        query = query_of(limit=limit, cursor=cursor, job=job, since=since, until=until)
        return self._doc("GET", "/v1/runs", params=[*query, *(("status", word) for word in status)])

    def get_run(self, run_id: str) -> Doc:
        """One run with its attempts."""
        return self._doc("GET", run_path(run_id))

    def cancel_run(self, run_id: str, *, seen: Mapping[str, Any] | None = None) -> Doc:
        """Ask a run to stop; a call that is out may still succeed. With `seen`, only if it is as you read it there."""
        return self._doc("POST", f"{run_path(run_id)}:cancel", headers=as_seen(seen))

    def retry_run(self, run_id: str, *, include_unknown: bool = False, seen: Mapping[str, Any] | None = None) -> Doc:
        """A new series of attempts for a dead run, next epoch, same idempotency key; `seen` as in `cancel_run`."""
        body = {"include_unknown": include_unknown}
        return self._doc("POST", f"{run_path(run_id)}:retry", body=body, headers=as_seen(seen))

    def resolve_run(self, run_id: str, said: str, *, note: str | None = None) -> Doc:
        """Say what became of an UNKNOWN run: `said` is SUCCEEDED or FAILED."""
        return self._doc("POST", f"{run_path(run_id)}:resolve", body={"as": said} | given(note=note))

    # Dead letters

    def list_dead(self, *, status: Sequence[str] = (), **filters: Any) -> Doc:
        """One page of dead letters, newest first; with `group_by` counts. Filters as in GET /v1/dlq."""
        return self._doc("GET", "/v1/dlq", params=[*query_of(**filters), *(("status", word) for word in status)])

    def get_dead(self, run_id: str) -> Doc:
        """One dead letter with its attempts."""
        return self._doc("GET", run_path(run_id).replace("/v1/runs/", "/v1/dlq/"))

    def redrive(self, body: Mapping[str, Any], *, idempotency_key: str | None = None) -> Doc:
        """Start dead letters again, or with `dry_run` say what that would do. The key is made here unless given."""
        key = idempotency_key or new_idempotency_key()
        return self._doc("POST", "/v1/dlq:redrive", body=dict(body), idempotency_key=key)

    def drop_dead(self, body: Mapping[str, Any]) -> Doc:
        """Give dead letters up."""
        return self._doc("POST", "/v1/dlq:drop", body=dict(body), repeatable=True)

    def list_redrives(self, *, limit: int | None = None, cursor: str | None = None, state: Sequence[str] = ()) -> Doc:
        """One page of redrives, newest first."""
        query = query_of(limit=limit, cursor=cursor)
        return self._doc("GET", "/v1/redrives", params=[*query, *(("state", word) for word in state)])

    def get_redrive(self, redrive_id: str) -> Doc:
        """How far a redrive has come."""
        return self._doc("GET", redrive_path(redrive_id))

    def move_redrive(self, redrive_id: str, verb: str) -> Doc:
        """`verb` is pause, resume, continue or stop."""
        return self._doc("POST", f"{redrive_path(redrive_id)}:{verb}", repeatable=True)

    # Keys and the audit log

    def whoami(self) -> Doc:
        """Who this client is to the server: tenant, team, role, key."""
        return self._doc("GET", "/v1/whoami")

    def create_key(
        self, name: str, role: str, *, team_id: str | None = None, expires_in_seconds: float | None = None
    ) -> Doc:
        """Make a key. Its text is in this answer as `secret`, and in no other; so a lost answer is a lost key."""
        body = {"name": name, "role": role} | given(team_id=team_id, expires_in_seconds=expires_in_seconds)
        return self._doc("POST", "/v1/keys", body=body, repeatable=False)

    def list_keys(self, *, live: bool | None = None, **filters: Any) -> Doc:
        """One page of keys, newest first. Filters as in GET /v1/keys."""
        only = None if live is None else str(live).lower()
        return self._doc("GET", "/v1/keys", params=query_of(**filters, live=only))

    def get_key(self, key_id: str) -> Doc:
        """One key, without its text."""
        return self._doc("GET", key_path(key_id))

    def rotate_key(
        self, key_id: str, *, grace_seconds: float | None = None, expires_in_seconds: float | None = None
    ) -> Doc:
        """Make a key's successor: its text is `secret`. The old one is good for `grace_seconds` more."""
        body = given(grace_seconds=grace_seconds, expires_in_seconds=expires_in_seconds)
        return self._doc("POST", f"{key_path(key_id)}:rotate", body=body, repeatable=False)

    def revoke_key(self, key_id: str) -> Doc:
        """The key opens nothing from now on."""
        return self._doc("DELETE", key_path(key_id))

    def list_audit(self, **filters: Any) -> Doc:
        """One page of the audit log, newest first. Filters as in GET /v1/audit."""
        return self._doc("GET", "/v1/audit", params=query_of(**filters))

    # Workers

    def list_workers(self) -> Doc:
        """The workers heard of in the last five minutes, as `items`."""
        return self._doc("GET", "/v1/workers")

    def poll_task(self, task_queue: str, worker_id: str, *, wait_seconds: float = 0) -> Doc | None:
        """One task of a queue, claimed by this worker; None where none came within the wait. Never repeated."""
        path = f"/v1/task-queues/{quote(task_queue, safe='')}/tasks:poll"
        body = {"worker_id": worker_id, "wait_seconds": wait_seconds}
        answer = self.call("POST", path, body=body, repeatable=False, timeout_s=self.timeout_s + wait_seconds)
        return answer.data  # type: ignore[no-any-return]

    def heartbeat_run(self, run_id: str, epoch: int, *, progress: Any = None) -> Doc:
        """Keep the lease of a run: its new end, and `cancel_requested`. Raises Conflict where it is another's."""
        body = {"epoch": epoch} | given(progress=progress)
        return self._doc("POST", f"{run_path(run_id)}:heartbeat", body=body, repeatable=True)

    def complete_run(
        self,
        run_id: str,
        epoch: int,
        outcome: str,
        *,
        result: Any = None,
        error: str | None = None,
        retryable: bool = True,
    ) -> Doc:
        """Say how a run ended: SUCCEEDED, FAILED or CANCELLED. Raises Conflict where it is another's by now."""
        body = {"epoch": epoch, "outcome": outcome} | given(result=result, error=error)
        body |= {} if retryable else {"retryable": False}
        return self._doc("POST", f"{run_path(run_id)}:complete", body=body, repeatable=True)

    def release_run(self, run_id: str, epoch: int) -> Doc:
        """Give a run back for another worker, as the same attempt. Raises Conflict where it is another's by now."""
        return self._doc("POST", f"{run_path(run_id)}:release", body={"epoch": epoch}, repeatable=True)

    # Everything else

    def preview(
        self,
        schedule: Mapping[str, Any],
        *,
        after: str | None = None,
        count: int | None = None,
        job_id: str | None = None,
        dispatch_window_seconds: int | None = None,
    ) -> Doc:
        """When a schedule would be due, without creating anything."""
        body = {"schedule": dict(schedule)} | given(
            after=after, count=count, job_id=job_id, dispatch_window_seconds=dispatch_window_seconds
        )
        return self._doc("POST", "/v1/schedules:preview", body=body, repeatable=True)

    def snapshot(self) -> Doc:
        """How the scheduler is: store, jobs, lag, queues, runs a minute, dead letters, alerts."""
        return self._doc("GET", "/v1/ops/snapshot")

    def version(self) -> Doc:
        """The version of the server and of its time zone data."""
        return self._doc("GET", "/v1/version")

    def healthy(self) -> Doc:
        """The server's own word that it lives."""
        return self._doc("GET", "/healthz")

    def ready(self) -> bool:
        """Whether jobs can be created and run now. Never raises: no answer is no."""
        try:
            return self.call("GET", "/readyz", repeatable=False).status == httpx.codes.OK
        except SchedkitError:
            return False

    def pages(self, fetch: Callable[..., Doc], *, limit: int | None = None, **filters: Any) -> Iterator[Doc]:
        """Every item of a list, page by page: `client.pages(client.list_jobs, status=["PAUSED"])`."""
        left, cursor = limit, None
        while left is None or left > 0:
            size = PAGE_SIZE if left is None else min(left, PAGE_SIZE)
            page = fetch(limit=size, cursor=cursor, **filters)
            yield from page["items"]
            left = None if left is None else left - len(page["items"])
            if (cursor := page.get("next_cursor")) is None:
                return

    def call(
        self,
        method: str,
        path: str,
        *,
        params: Sequence[tuple[str, str]] = (),
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        idempotency_key: str | None = None,
        repeatable: bool | None = None,
        timeout_s: float | None = None,
    ) -> Answer:
        """Any call. Raises the SchedkitError of its status, or Unreachable.

        `repeatable` says that doing it twice is the same as once; reads, DELETE and keyed creates are without saying.
        `timeout_s` bounds this call instead of the client's own.
        """
        asking = Asking(
            url=self.url,
            token=self.token,
            timeout_s=self.timeout_s if timeout_s is None else timeout_s,
            monotonic=time.monotonic,
            draw=system_draw,
            headers=self.headers,
            on_exchange=self.on_exchange,
        )
        steps = asking.steps(
            method,
            path,
            params=params,
            body=body,
            headers=headers,
            idempotency_key=idempotency_key,
            repeatable=repeatable,
        )
        step = advance(steps)
        while not isinstance(step, Answer):
            try:
                reply = self._do(step)
            except BaseException as error:
                step = advance(steps, error)
            else:
                step = advance(steps, reply)
        return step

    def _doc(self, method: str, path: str, **rest: Any) -> Doc:
        data = self.call(method, path, **rest).data
        if not isinstance(data, dict):
            raise Unreachable(f"{self.url} answered something that is no schedkit document", url=self.url)
        return data

    def _do(self, step: Ask | Pause) -> httpx.Response | None:
        if isinstance(step, Pause):
            self.sleep(step.seconds)
            return None
        if self._http is None:
            self._http = opened(httpx.Client, self.url, self.transport)
        return self._http.request(step.method, step.path, **step.given())
