"""`schedkit job`: create, change and look at jobs. What a job is made of is in `jobspec`, its pages in `jobpages`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from schedkit.cli import (
    backfill,
    complete,
    jobfiles,
    jobimport,
    jobpages,
    jobspec,
    jobverbs,
    ledger,
    lists,
    repeating,
    values,
    waiting,
)
from schedkit.cli.frame import Change, Listing, Waiting, Watching, noun, verb
from schedkit.cli.invocation import Invocation
from schedkit.cli.jobfilter import JobFilter
from schedkit.cli.jobspec import Spec
from schedkit.cli.output import Items, One
from schedkit.cli.runpages import run_items
from schedkit.errors import SchedkitError
from schedkit.model.runs import RunStatus

app = noun("Create, change and look at jobs")

Option = typer.Option
Job = Annotated[str, typer.Argument(metavar="JOB", help="Name or id.", autocompletion=complete.jobs)]


@verb(app, "list")
def list_jobs(me: Invocation, listing: Listing, watching: Watching, which: JobFilter) -> None:
    """List jobs.

    Examples:
      schedkit job list
      schedkit job list --state paused -l team=growth -o json
    """
    kept, narrowed = which.kept(), lists.narrowing(listing, **which.said)
    page_of = jobpages.with_a_run(me.client) if "running" in which.states else me.client.list_jobs

    def look() -> Items:
        items, cursor = lists.fetch(me, listing, page_of, which.query(listing.label), kept)
        return jobpages.job_items(me, items, cursor, narrowed)

    if watching.watch:
        me.watch(look, watching.interval)
    me.show(look())


@verb(app, "show")
def show_job(
    me: Invocation,
    watching: Watching,
    job: Job,
    runs: Annotated[int, Option("--runs", min=0, max=10, metavar="N", help="How many of its last runs.")] = 5,
    spec: Annotated[bool, Option("--spec", help="Only what a create would need.")] = False,
) -> None:
    """One job: schedule, next run, place in its window, last runs.

    Examples:
      schedkit job show digest
      schedkit job show digest --spec -o yaml
    """

    def look() -> One:
        with me.asking():
            found = me.client.get_job(job)
        return jobpages.spec_page(found) if spec else jobpages.job_page(me, found, runs)

    if watching.watch:
        me.watch(look, watching.interval)
    me.show(look())


@verb(app, "create")
def create_job(
    me: Invocation,
    spec: Spec,
    change: Change,
    waits: Waiting,
    paused: Annotated[bool, Option("--paused", help="Made, but not started.")] = False,
) -> None:
    """Create a job.

    Examples:
      schedkit job create --name report --cron "0 8 * * *" --tz America/New_York --target demo-echo
      schedkit job create --name tea --in 30s --target demo-echo --payload '{"say":"tea is ready"}'
      schedkit job create --name rebuild --cron @daily --queue ledger --run-timeout 3h
    """
    body = jobspec.body(spec, zone=me.zone, now=values.now_ms())
    if paused:
        body["paused"] = True
    if change.dry_run:
        with me.asking():
            due = me.client.preview(
                body["schedule"], count=1, dispatch_window_seconds=body.get("dispatch_window_seconds")
            )
        me.show(jobpages.would_create(me, body, due))
        return
    me.changing(change, f"create {spec.name or 'a job'}")
    try:
        with me.asking():
            created = me.client.create_job(body, idempotency_key=change.idempotency_key)
    except SchedkitError as error:
        repeating.tell(me, error, body["schedule"], change.idempotency_key)
        raise
    first = created.job.get("next_run_at") if waits.wait is not None else None
    if first is None or me.for_people:  # a program gets one document: the run where it waits for it
        me.show(jobpages.created_page(me, created.job, spec.target, replayed=created.replayed))
    if waits.wait is not None:
        if first is None and (never := waiting.will_not_run(created.job)) is not None:
            raise never
        waiting.finish(me, f"{created.job['job_id']}:{first}", waits.wait)


@verb(app, "update")
def update_job(me: Invocation, spec: Spec, change: Change, job: Job) -> None:
    """Change a job and show the difference; only what is given changes.

    Examples:
      schedkit job update digest --cron "0 7 * * *"
      schedkit job update digest --window 5m --max-attempts 8 --dry-run
    """
    with me.asking():
        before = me.client.get_job(job)
    said_zone = me.zone if {"tz", "utc"} & me.given.keys() else None  # a default zone changes no job
    body = jobspec.body(spec, zone=said_zone, now=values.now_ms(), before=before)
    if not body:
        me.say("nothing to change was given; see schedkit job update -h")
        me.show(jobpages.updated_page(me, before, before, "unchanged"))
        return
    if change.dry_run:
        me.show(jobpages.updated_page(me, before, jobpages.merged(before, body), "would update"))
        return
    me.changing(change, f"change {job}")
    with me.asking():
        after = me.client.update_job(job, body, version=before.get("version"))
    me.show(jobpages.updated_page(me, before, after, "updated"))


jobverbs.add_to(app)


@verb(app, "runs")
def job_runs(
    me: Invocation,
    listing: Listing,
    watching: Watching,
    job: Job,
    outcome: Annotated[str | None, Option("--outcome", metavar="O,O", help="failed, succeeded, skipped …")] = None,
    since: Annotated[str | None, Option("--since", metavar="24h", help="Due after this time.")] = None,
) -> None:
    """Runs of one job, newest first.

    Examples:
      schedkit job runs digest
      schedkit job runs digest --outcome failed --since 24h -w
    """
    statuses = values.choices(outcome or "", [status.value for status in RunStatus], "--outcome")

    def page_of(**query: Any) -> dict[str, Any]:
        return me.client.job_runs(job, **query)

    def look() -> Items:
        filters = {"status": statuses, "since": values.since(since, me.zone)}
        items, cursor = lists.fetch(me, listing, page_of, filters)
        narrowed = lists.narrowing(listing, outcome=outcome, since=since)
        empty = f"no runs of {job} match ({narrowed})" if narrowed else f"no runs of {job} yet"
        return run_items(me, items, cursor, f"{empty}  try: schedkit job next {job}")

    if watching.watch:
        me.watch(look, watching.interval)
    me.show(look())


@verb(app, "next")
def job_next(
    me: Invocation,
    job: Job,
    number: Annotated[int, Option("--count", "-n", min=1, max=1_000, metavar="N", help="How many.")] = 5,
) -> None:
    """Next runs with their place in the window and notes on clock changes.

    Examples:
      schedkit job next digest
      schedkit job next digest -n 20 -o json
    """
    from schedkit.cli.cronpages import next_items

    with me.asking():
        found = me.client.get_job(job)
        due = me.client.job_next(job, count=number)["occurrences"]
    zone = me.zone or found.get("schedule", {}).get("time_zone") or "UTC"
    windowed = bool(found.get("dispatch_window_seconds"))
    me.show(next_items(me, due, zone, values.now_ms(), windowed=windowed, empty=jobpages.nothing_next(found)))


ledger.add_to(app)
backfill.add_to(app)
jobfiles.add_to(app)
jobimport.add_to(app)
