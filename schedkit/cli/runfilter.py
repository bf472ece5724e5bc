"""Which runs: the filters of `schedkit run list`, which cancel and retry take too."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Annotated, Any, Final

import typer

from schedkit.cli import lists, values
from schedkit.cli.invocation import Invocation
from schedkit.cli.runpages import took_ms
from schedkit.model.runs import RunStatus

Option = typer.Option
Doc = Mapping[str, Any]

STATUSES: Final = [status.value for status in RunStatus]


@dataclass(frozen=True, slots=True)
class RunFilter:
    """Runs that are all of what is given."""

    job: Annotated[str | None, Option("--job", metavar="J", help="Of this job.")] = None
    target: Annotated[str | None, Option("--target", metavar="T", help="Whose target has this text.")] = None
    state: Annotated[str | None, Option("--state", metavar="S,S", help="running, retry-wait, failed …")] = None
    outcome: Annotated[str | None, Option("--outcome", metavar="O,O", help="The same, for ended ones.")] = None
    since: Annotated[str | None, Option("--since", metavar="15m", help="Due after this time.")] = None
    slower_than: Annotated[str | None, Option("--slower-than", metavar="2s", help="Took longer.")] = None
    late_than: Annotated[str | None, Option("--late-than", metavar="1s", help="Started later than this.")] = None
    executor: Annotated[str | None, Option("--executor", metavar="E", help="Held by this one.")] = None

    @property
    def said(self) -> dict[str, str | None]:
        """The flags as they were given. Raises Refusal (USAGE) for an empty one."""
        return lists.given({spec.name: getattr(self, spec.name) for spec in fields(self)})

    @property
    def narrows(self) -> bool:
        """Something of it was given."""
        return any(value is not None for value in self.said.values())

    def query(self, me: Invocation, usual: list[str]) -> dict[str, Any]:
        """What the server is asked for; `usual` are the statuses where none is given. Raises InvalidInput."""
        statuses = values.choices(self.state or "", STATUSES, "--state")
        statuses += values.choices(self.outcome or "", STATUSES, "--outcome")
        return {"status": statuses or usual, "job": self.job, "since": values.since(self.since, me.zone)}

    def kept(self, me: Invocation) -> Callable[[Doc], bool] | None:
        """What the server cannot tell apart; None where nothing of that was asked for. Raises InvalidInput."""
        slow_ms = values.duration_ms(self.slower_than, "--slower-than") if self.slower_than else None
        late_ms = values.duration_ms(self.late_than, "--late-than") if self.late_than else None
        if all(value is None for value in (slow_ms, late_ms, self.executor, self.target)):
            return None
        return lambda run: (
            (slow_ms is None or (took_ms(run) or 0) > slow_ms)
            and (late_ms is None or (run.get("lag_ms") or 0) > late_ms)
            and (self.executor is None or run.get("lease_owner") == self.executor)
            and (self.target is None or self.target in target_of(me, run))
        )


def target_of(me: Invocation, run: Doc) -> str:
    """The target of a run's job; each job is asked for once."""
    known: dict[str, str] = me.remembered
    if run["job_id"] not in known:
        spec = me.client.get_job(run["job_id"]).get("target") or {}
        known[run["job_id"]] = f"{spec.get('url', '')} {spec.get('target_id', '')}"
    return known[run["job_id"]]
