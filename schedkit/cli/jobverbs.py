"""`schedkit job pause`, `resume`, `skip-next`, `cancel`, `trigger`: of the jobs that are named, or match a filter."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

import typer

from schedkit.cli import bulk, complete, jobpages, lists, values, waiting
from schedkit.cli.failures import Code, ExitCode, Refusal, exit_code
from schedkit.cli.frame import Change, Listing, Waiting, verb
from schedkit.cli.invocation import Invocation, each
from schedkit.cli.jobfilter import JobFilter, Several, matching
from schedkit.cli.output import Items, One
from schedkit.cli.runpages import run_items
from schedkit.cli.show import count
from schedkit.model.jobs import MAX_SKIPPED, MisfirePolicy
from schedkit.model.time import rfc3339

Option = typer.Option
Doc = Mapping[str, Any]
Job = Annotated[
    str | None,
    typer.Argument(metavar="[JOB]", help="Name or id; or say which by filters.", autocompletion=complete.jobs),
]
Jobs = Annotated[
    list[str] | None,
    typer.Argument(metavar="[JOB]...", help="Names or ids; or say which by filters.", autocompletion=complete.jobs),
]
LIVING: Final = ("SCHEDULED", "PAUSED")


@dataclass(frozen=True, slots=True)
class Deed:
    """A verb: its name, what it would do and has done in words, and the statuses of jobs that it can be done to."""

    name: str
    would: str
    done: str
    statuses: Sequence[str]
    act: Callable[[str, Doc | None], Doc]  # (name or id, the job as it was agreed on)
    page: Callable[[Invocation, Doc, str], One]
    items: Callable[[Invocation, list[Doc], None, str], Items] = jobpages.job_items
    look: Callable[[str], Doc] | None = None  # what a dry run shows, where that is more than the job

    def by_filter(self, names: Sequence[str], which: JobFilter, several: Several) -> bool:
        """Whether a filter says which jobs. Raises Refusal (USAGE)."""
        narrowed = which.narrows or bool(several.label)
        return bulk.by_filter(names, narrowed, several.everything, f"schedkit job {self.name}")


def add_to(app: typer.Typer) -> None:
    """Register these commands with the noun `job`."""
    verb(app, "pause")(pause_job)
    verb(app, "resume")(resume_job)
    verb(app, "skip-next")(skip_next)
    verb(app, "cancel")(cancel_job)
    verb(app, "trigger")(trigger_job)


def pause_job(
    me: Invocation,
    change: Change,
    which: JobFilter,
    several: Several,
    job: Jobs = None,
    until: Annotated[str | None, Option("--until", metavar="TIME", help="Start again by itself then.")] = None,
) -> None:
    """Stop future runs, keep the job.

    Examples:
      schedkit job pause digest --reason "mail server is moved"
      schedkit job pause digest purge-carts --until 2h
      schedkit job pause --target billing -l team=growth --dry-run
    """
    end = rfc3339(values.instant(until, zone=me.zone, field="--until")) if until else None

    def act(name: str, seen: Doc | None) -> Doc:
        return me.client.pause_job(name, reason=change.reason, until=end, version=_version(seen))

    _do(me, change, which, several, job, Deed("pause", "pause", "paused", ("SCHEDULED",), act, jobpages.verb_page))


def resume_job(
    me: Invocation,
    change: Change,
    which: JobFilter,
    several: Several,
    job: Jobs = None,
    misfire: Annotated[
        str | None, Option("--misfire", metavar="P", help="Of what was missed: run-once, skip or run-all.")
    ] = None,
) -> None:
    """Start again, and say what happens to missed runs (nothing, unless --misfire is given).

    Examples:
      schedkit job resume digest
      schedkit job resume digest --misfire run-once
    """
    policy = values.choice(misfire, [word.value for word in MisfirePolicy], "--misfire") if misfire else None

    def act(name: str, seen: Doc | None) -> Doc:
        return me.client.resume_job(name, misfire=policy, version=_version(seen))

    _do(me, change, which, several, job, Deed("resume", "resume", "resumed", ("PAUSED",), act, jobpages.verb_page))


def skip_next(
    me: Invocation,
    change: Change,
    which: JobFilter,
    several: Several,
    job: Jobs = None,
    number: Annotated[
        int, Option("--count", min=1, max=MAX_SKIPPED, metavar="N", help="The next so many of each job.")
    ] = 1,
) -> None:
    """The next run does not happen, and is recorded as skipped; the schedule stands.

    Examples:
      schedkit job skip-next backup --reason "the disk is being changed"
      schedkit job skip-next digest purge-carts --count 3 --dry-run
    """

    def act(name: str, seen: Doc | None) -> Doc:
        found = seen if seen is not None else me.client.get_job(name)
        first = found.get("held_run_at") or found.get("next_run_at")
        return me.occurrences.skip_next(name, count=number, first=first, version=_version(found))

    def look(name: str) -> Doc:
        return me.occurrences.skip_next(name, count=number, dry_run=True)

    page = jobpages.skipped_page
    deed = Deed("skip-next", "skip", "skipped", ("SCHEDULED",), act, page, look=look)
    _do(me, change, which, several, job, deed)


def cancel_job(
    me: Invocation,
    change: Change,
    which: JobFilter,
    several: Several,
    job: Jobs = None,
    running: Annotated[str, Option("--running", metavar="keep|cancel", help="A run in progress.")] = "keep",
) -> None:
    """Cancel for good. A run in progress ends as it ends, unless --running cancel.

    Examples:
      schedkit job cancel tea
      schedkit job cancel tea digest --running cancel
    """
    also = values.choice(running, ("keep", "cancel"), "--running") == "cancel"

    def act(name: str, seen: Doc | None) -> Doc:
        return me.client.cancel_job(name, running=also, version=_version(seen))

    def page(me: Invocation, job: Doc, said: str) -> One:
        ended = said == "cancelled" and job["status"] not in ("CANCELLED", *LIVING)
        return jobpages.verb_page(me, job, f"was {job['status']} already:" if ended else said)

    _do(me, change, which, several, job, Deed("cancel", "cancel", "cancelled", LIVING, act, page))


def trigger_job(
    me: Invocation,
    change: Change,
    which: JobFilter,
    several: Several,
    waits: Waiting,
    job: Job = None,
    payload: Annotated[str | None, Option("--payload", metavar="JSON", help="Instead of the job's own.")] = None,
    as_of: Annotated[str | None, Option("--as-of", metavar="TIME", help="The time the run is for; now.")] = None,
    follow: Annotated[bool, Option("--follow", help="Stay until it has ended.")] = False,
) -> None:
    """Run once now, outside the schedule.

    Examples:
      schedkit job trigger digest
      schedkit job trigger digest --payload '{"day":"2026-09-27"}' --follow
    """
    sent = values.payload(payload, f"schedkit job trigger {job or 'digest'}") if payload is not None else None
    at = rfc3339(values.instant(as_of, zone=me.zone, field="--as-of")) if as_of else None
    wait = waits.wait or ("1h" if follow else None)

    def act(name: str, seen: Doc | None) -> Doc:
        key = change.idempotency_key if job is not None else None
        return me.client.trigger_job(name, payload=sent, as_of=at, version=_version(seen), idempotency_key=key)

    def page(me: Invocation, run: Doc, said: str) -> One:
        dry = said.startswith("would")
        return jobpages.verb_page(me, run, said) if dry else jobpages.triggered_page(run, waits=wait is not None)

    deed = Deed("trigger", "trigger", "triggered", LIVING, act, page, run_items)
    if job is None and wait is not None:
        raise Refusal(Code.USAGE, ExitCode.USAGE, "--wait and --follow go with one JOB")
    if job is None or change.dry_run:
        return _do(me, change, which, several, [job] if job is not None else [], deed)
    deed.by_filter([job], which, several)
    me.changing(change, f"trigger {job}")
    with me.asking():
        run = act(job, None)
    if wait is None or me.for_people:
        me.show(page(me, run, deed.done))
    if wait is not None:
        waiting.finish(me, run["run_id"], wait)


def _do(
    me: Invocation, change: Change, which: JobFilter, several: Several, names: Sequence[str] | None, deed: Deed
) -> None:
    if deed.by_filter(names or (), which, several):
        return _to_matching(me, change, which, several, deed)
    _to_named(me, change, names or (), deed)


def _to_named(me: Invocation, change: Change, names: Sequence[str], deed: Deed) -> None:
    """Do one thing to each job; refusals are told one by one, and the first decides the exit code."""
    if not change.dry_run:
        me.changing(change, f"{deed.name} {count(len(names), 'job')}")
    look = deed.look or me.client.get_job
    with me.asking():
        done, refusal = each(me, names, look if change.dry_run else lambda name: deed.act(name, None))
    _show(me, deed, done, f"would {deed.would}" if change.dry_run else deed.done, alone=len(names) == 1)
    if refusal is not None:
        raise typer.Exit(exit_code(refusal))


def _to_matching(me: Invocation, change: Change, which: JobFilter, several: Several, deed: Deed) -> None:
    """Say which match, ask, and do it to one after the other as it was when that was said."""
    found = matching(me, which, several, deed.statuses)
    narrowed = lists.narrowing(Listing(label=several.label), **which.said)
    if change.dry_run or not found:
        me.say(f"would {deed.name} {count(len(found), 'job')}" if found else "no jobs match")
        return me.show(jobpages.job_items(me, found, None, narrowed))
    bulk.agreed(me, change, deed.name, "job", [jobpages.called(job) for job in found], narrowed)
    outcome = bulk.one_by_one(me, found, jobpages.called, lambda job: deed.act(job["job_id"], job))
    _show(me, deed, outcome.done, deed.done, alone=False)
    bulk.summed(me, outcome, deed.done, "job")


def _version(seen: Doc | None) -> int | None:
    """The version to which a verb is bound: of the job as it was agreed on."""
    return None if seen is None else seen.get("version")


def _show(me: Invocation, deed: Deed, done: list[Doc], said: str, *, alone: bool) -> None:
    if alone or me.for_people:
        for one in done:
            me.show(deed.page(me, one, said))
    else:
        items = jobpages.job_items if said.startswith("would") else deed.items
        me.show(items(me, done, None, ""))
