"""`schedkit job`: create, change and look at jobs. What a job is made of is in `jobspec`, its pages in `jobpages`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

import typer

from schedkit.cli import complete, jobfiles, jobimport, jobpages, jobspec, lists, repeating, values, waiting
from schedkit.cli.failures import exit_code
from schedkit.cli.frame import Change, Listing, Waiting, Watching, noun, verb
from schedkit.cli.invocation import Invocation, each
from schedkit.cli.jobspec import Spec
from schedkit.cli.output import Items, One
from schedkit.cli.runpages import run_items
from schedkit.cli.show import count
from schedkit.errors import SchedkitError
from schedkit.model.jobs import MisfirePolicy, Priority
from schedkit.model.runs import RunStatus
from schedkit.model.time import rfc3339

app = noun("Create, change and look at jobs")

Option = typer.Option
Job = Annotated[str, typer.Argument(metavar="JOB", help="Name or id.", autocompletion=complete.jobs)]
Jobs = Annotated[list[str], typer.Argument(metavar="JOB...", help="Names or ids.", autocompletion=complete.jobs)]
STATES: Final = {
    "active": "SCHEDULED",
    "paused": "PAUSED",
    "done": "COMPLETED",
    "failed": "FAILED",
    "cancelled": "CANCELLED",
    "running": "",  # not a state of the job: it has a run in progress
}


@verb(app, "list")
def list_jobs(
    me: Invocation,
    listing: Listing,
    watching: Watching,
    state: Annotated[
        str | None, Option("--state", metavar="S,S", help="active, paused, running, done, failed, cancelled.")
    ] = None,
    target: Annotated[str | None, Option("--target", metavar="T", help="Whose target has this text.")] = None,
    queue: Annotated[str | None, Option("--queue", metavar="Q", help="Whose runs wait in this task queue.")] = None,
    priority: Annotated[str | None, Option("--priority", metavar="P", help="Of this priority.")] = None,
    due_within: Annotated[str | None, Option("--due-within", metavar="10m", help="Due this soon.")] = None,
    search: Annotated[str | None, Option("--search", metavar="TEXT", help="In name, description or id.")] = None,
    managed_by: Annotated[str | None, Option("--managed-by", metavar="FILE", help="Kept by this job file.")] = None,
) -> None:
    """List jobs.

    Examples:
      schedkit job list
      schedkit job list --state paused -l team=growth -o json
    """
    states = values.choices(state or "", list(STATES), "--state")
    wanted = values.choice(priority, [word.value for word in Priority], "--priority") if priority else None

    def kept(job: Mapping[str, Any]) -> bool:
        return (
            (target is None or target in jobpages.target_text(job))
            and (wanted is None or job.get("priority") == wanted)
            and (search is None or jobpages.mentions(job, search))
        )

    def look() -> Items:
        filters: dict[str, Any] = {
            "status": [STATES[word] for word in states if STATES[word]],
            "labels": values.pairs(listing.label, "--label"),
            "due_before": rfc3339(values.now_ms() + values.duration_ms(due_within)) if due_within else None,
            "managed_by": managed_by,
            "task_queue": queue,
        }
        local = any(value is not None for value in (target, wanted, search))
        page_of = jobpages.with_a_run(me.client, listing) if "running" in states else me.client.list_jobs
        items, cursor = lists.fetch(me, listing, page_of, filters, kept if local else None)
        narrowed = lists.narrowing(
            listing,
            state=state,
            target=target,
            queue=queue,
            priority=priority,
            due_within=due_within,
            search=search,
            managed_by=managed_by,
        )
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


@verb(app, "pause")
def pause_job(
    me: Invocation,
    change: Change,
    job: Jobs,
    until: Annotated[str | None, Option("--until", metavar="TIME", help="Start again by itself then.")] = None,
) -> None:
    """Stop future runs, keep the job.

    Examples:
      schedkit job pause digest --reason "mail server is moved"
      schedkit job pause digest purge-carts --until 2h
    """
    end = rfc3339(values.instant(until, zone=me.zone, field="--until")) if until else None
    _each(me, change, job, "pause", lambda name: me.client.pause_job(name, reason=change.reason, until=end))


@verb(app, "resume")
def resume_job(
    me: Invocation,
    change: Change,
    job: Jobs,
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
    _each(me, change, job, "resume", lambda name: me.client.resume_job(name, misfire=policy))


@verb(app, "cancel")
def cancel_job(
    me: Invocation,
    change: Change,
    job: Jobs,
    running: Annotated[str, Option("--running", metavar="keep|cancel", help="A run in progress.")] = "keep",
) -> None:
    """Cancel for good. A run in progress ends as it ends, unless --running cancel.

    Examples:
      schedkit job cancel tea
      schedkit job cancel tea digest --running cancel
    """
    also = values.choice(running, ("keep", "cancel"), "--running") == "cancel"
    _each(me, change, job, "cancel", lambda name: me.client.cancel_job(name, running=also))


@verb(app, "trigger")
def trigger_job(
    me: Invocation,
    change: Change,
    waits: Waiting,
    job: Job,
    payload: Annotated[str | None, Option("--payload", metavar="JSON", help="Instead of the job's own.")] = None,
    as_of: Annotated[str | None, Option("--as-of", metavar="TIME", help="The time the run is for; now.")] = None,
    follow: Annotated[bool, Option("--follow", help="Stay until it has ended.")] = False,
) -> None:
    """Run once now, outside the schedule.

    Examples:
      schedkit job trigger digest
      schedkit job trigger digest --payload '{"day":"2026-09-27"}' --follow
    """
    sent = values.payload(payload, f"schedkit job trigger {job}") if payload is not None else None
    at = rfc3339(values.instant(as_of, zone=me.zone, field="--as-of")) if as_of else None
    if change.dry_run:
        with me.asking():
            me.show(jobpages.verb_page(me, me.client.get_job(job), "would trigger"))
        return
    me.changing(change, f"trigger {job}")
    with me.asking():
        run = me.client.trigger_job(job, payload=sent, as_of=at, idempotency_key=change.idempotency_key)
    wait = waits.wait or ("1h" if follow else None)
    if wait is None or me.for_people:
        me.show(jobpages.triggered_page(run, waits=wait is not None))
    if wait is not None:
        waiting.finish(me, run["run_id"], wait)


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


def _each(me: Invocation, change: Change, jobs: list[str], verb: str, act: Any) -> None:
    """Do one thing to each job; refusals are told one by one, and the first decides the exit code."""
    if change.dry_run:
        said, act = f"would {verb}", me.client.get_job
    else:
        said = {"pause": "paused", "resume": "resumed", "cancel": "cancelled"}[verb]
        me.changing(change, f"{verb} {count(len(jobs), 'job')}")
    with me.asking():
        done, refusal = each(me, jobs, act)
    if len(jobs) == 1 or me.for_people:
        for job in done:
            ended = verb == "cancel" and job["status"] not in ("CANCELLED", "SCHEDULED", "PAUSED")
            me.show(jobpages.verb_page(me, job, f"was {job['status']} already:" if ended else said))
    else:
        me.show(jobpages.job_items(me, done, None, ""))
    if refusal is not None:
        raise typer.Exit(exit_code(refusal))


jobfiles.add_to(app)
jobimport.add_to(app)
