"""Which jobs: the filters of `schedkit job list`, which the verbs on several jobs take too."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Any, Final

import typer

from schedkit.cli import jobpages, lists, values
from schedkit.cli.frame import Listing
from schedkit.cli.invocation import Invocation
from schedkit.errors import InvalidInput, Reason
from schedkit.model.jobs import Priority
from schedkit.model.time import rfc3339

Option = typer.Option
Doc = Mapping[str, Any]

STATES: Final = {
    "active": "SCHEDULED",
    "paused": "PAUSED",
    "done": "COMPLETED",
    "failed": "FAILED",
    "cancelled": "CANCELLED",
    "running": "",  # not a state of the job: it has a run in progress
}


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Jobs that are all of what is given; labels are flags of their own."""

    state: Annotated[
        str | None, Option("--state", metavar="S,S", help="active, paused, running, done, failed, cancelled.")
    ] = None
    target: Annotated[str | None, Option("--target", metavar="T", help="Whose target has this text.")] = None
    queue: Annotated[str | None, Option("--queue", metavar="Q", help="Whose runs wait in this task queue.")] = None
    priority: Annotated[str | None, Option("--priority", metavar="P", help="Of this priority.")] = None
    due_within: Annotated[str | None, Option("--due-within", metavar="10m", help="Due this soon.")] = None
    search: Annotated[str | None, Option("--search", metavar="TEXT", help="In name, description or id.")] = None
    managed_by: Annotated[str | None, Option("--managed-by", metavar="FILE", help="Kept by this job file.")] = None

    @property
    def narrows(self) -> bool:
        """Something of it was given."""
        return any(value is not None for value in self.said.values())

    @property
    def said(self) -> dict[str, str | None]:
        """The flags as they were given. Raises Refusal (USAGE) for an empty one."""
        return lists.given({spec.name: getattr(self, spec.name) for spec in fields(self)})

    @property
    def states(self) -> list[str]:
        """The words of --state. Raises InvalidInput."""
        words = values.choices(self.state or "", list(STATES), "--state")
        if "running" in words and len(words) > 1:
            raise InvalidInput(
                Reason.INVALID_ARGUMENT,
                f"--state {self.state}: running stands alone",
                field="--state",
                why="whether a job has a run in progress is another question than what state the job is in",
                fix=("ask for each by itself",),
            )
        return words

    def query(self, labels: Sequence[str] | None, usual: Sequence[str] = ()) -> dict[str, Any]:
        """What the server is asked for; `usual` are the statuses where no --state is given. Raises InvalidInput."""
        due = rfc3339(values.now_ms() + values.duration_ms(self.due_within)) if self.due_within else None
        return {
            "status": [STATES[word] for word in self.states if STATES[word]] or list(usual),
            "labels": values.pairs(labels, "--label"),
            "due_before": due,
            "managed_by": self.managed_by,
            "task_queue": self.queue,
        }

    def kept(self) -> Callable[[Doc], bool] | None:
        """What the server cannot tell apart; None where nothing of that was asked for. Raises InvalidInput."""
        known = [word.value for word in Priority]
        wanted = values.choice(self.priority, known, "--priority") if self.priority else None
        if (self.target, wanted, self.search) == (None, None, None):
            return None
        return lambda job: (
            (self.target is None or self.target in jobpages.target_text(job))
            and (wanted is None or job.get("priority") == wanted)
            and (self.search is None or jobpages.mentions(job, self.search))
        )


@dataclass(frozen=True, slots=True)
class Several:
    """What a verb needs to know besides: labels, and that all are meant."""

    label: Annotated[list[str] | None, Option("--label", "-l", metavar="K=V", help="With this label.")] = None
    everything: Annotated[bool, Option("--all", help="Every job that this can be done to.")] = False


def matching(me: Invocation, which: JobFilter, several: Several, statuses: Sequence[str]) -> list[Doc]:
    """Every job that matches; without a --state those of these statuses, which the verb can be done to."""
    listing = Listing(everything=True, label=several.label)
    running = "running" in which.states
    page_of = jobpages.with_a_run(me.client) if running else me.client.list_jobs
    found, _ = lists.fetch(me, listing, page_of, which.query(several.label, statuses), which.kept())
    return list({job["job_id"]: job for job in found}.values())
