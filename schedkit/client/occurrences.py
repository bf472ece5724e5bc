"""What a client asks about the occurrences of jobs: skip the next ones, count and run those of the past.

from schedkit.client.occurrences import Occurrences

with Client("http://127.0.0.1:8700") as client:
    print(Occurrences(client).skip_next("digest")["skipped"])
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from schedkit.client.asking import new_idempotency_key
from schedkit.client.paths import backfill_path, given, job_path, matching, query_of

if TYPE_CHECKING:
    from schedkit.client import Client

Doc = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Occurrences:
    """Every method raises as `Client.call` does."""

    client: Client

    def skip_next(
        self,
        job: str,
        *,
        count: int = 1,
        first: str | None = None,
        version: int | None = None,
        dry_run: bool = False,
    ) -> Doc:
        """The next ones do not run: the job, with their times as `skipped`. Never repeated by itself.

        With `version`, only if nobody changed the job since, and with `first`, only if the one of that time is still
        the next one (Conflict otherwise). `dry_run`: the job as it would go on, and nothing is changed.
        """
        path, body = f"{job_path(job)}:skipNext", {"count": count, "dry_run": dry_run} | given(first=first)
        return self._doc("POST", path, body=body, headers=matching(version), repeatable=dry_run)

    def ledger(self, job: str, *, since: str | None = None, until: str | None = None) -> Doc:
        """What was expected of since <= time < until, and what became of each: sums, by default of the last day."""
        return self._doc("GET", f"{job_path(job)}/ledger", params=query_of(since=since, until=until))

    def backfill(self, job: str, body: Mapping[str, Any], *, idempotency_key: str | None = None) -> Doc:
        """Run what did not run of from <= time < to, or with `dry_run` say what that would be.

        The key is made here unless given.
        """
        key = idempotency_key or new_idempotency_key()
        return self._doc("POST", f"{job_path(job)}:backfill", body=dict(body), idempotency_key=key)

    def backfills(self, *, limit: int | None = None, cursor: str | None = None, state: Sequence[str] = ()) -> Doc:
        """One page of backfills, newest first."""
        query = [*query_of(limit=limit, cursor=cursor), *(("state", word) for word in state)]
        return self._doc("GET", "/v1/backfills", params=query)

    def get_backfill(self, backfill_id: str) -> Doc:
        """How far a backfill has come."""
        return self._doc("GET", backfill_path(backfill_id))

    def move_backfill(self, backfill_id: str, verb: str) -> Doc:
        """`verb` is pause, resume or stop."""
        return self._doc("POST", f"{backfill_path(backfill_id)}:{verb}", repeatable=True)

    def _doc(self, method: str, path: str, **rest: Any) -> Doc:
        doc: Doc = self.client.call(method, path, **rest).data
        return doc
