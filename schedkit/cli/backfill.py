"""`schedkit job backfill`: run what did not run of a job's past, at a capped rate; and look after what was begun.

ID is a backfill's id.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from schedkit.cli import complete, lists, redriving, values
from schedkit.cli.backfillpages import PLAN_SCHEMA, backfill_items, backfill_page, plan_lines
from schedkit.cli.frame import Change, Listing, Watching, verb
from schedkit.cli.invocation import Invocation
from schedkit.cli.output import Items, One
from schedkit.model.redrives import MAX_PER_SECOND, Order, RedriveState

Option = typer.Option
Id = Annotated[str, typer.Argument(metavar="ID", help="A backfill's id; schedkit job backfills lists them.")]
STATES: Final = [state.value for state in RedriveState]
ORDERS: Final = [order.value for order in Order]


def add_to(app: typer.Typer) -> None:
    """Register these commands with the noun `job`."""
    verb(app, "backfill")(backfill_job)
    verb(app, "backfills")(list_backfills)
    verb(app, "backfill-pause")(pause_backfill)
    verb(app, "backfill-resume")(resume_backfill)
    verb(app, "backfill-stop")(stop_backfill)


def backfill_job(
    me: Invocation,
    change: Change,
    job: Annotated[str, typer.Argument(metavar="JOB", help="Name or id.", autocompletion=complete.jobs)],
    since: Annotated[str, Option("--from", metavar="T", help="What was due then or later.")],
    until: Annotated[str, Option("--to", metavar="T", help="… and before this.")] = "now",
    max_per_second: Annotated[
        int, Option("--max-per-second", min=1, max=MAX_PER_SECOND, metavar="N", help="Never more than this.")
    ] = 1,
    order: Annotated[str, Option("--order", metavar="oldest|newest", help="Which come first.")] = "oldest",
    follow: Annotated[bool, Option("--follow/--no-follow", help="Watch it to its end.")] = True,
) -> None:
    """Run the past occurrences that did not run, each once and under its own time; what ran does not run again.

    Examples:
      schedkit job backfill digest --from 7d --dry-run
      schedkit job backfill digest --from 2026-09-01T00:00:00Z --to 2026-09-08T00:00:00Z --max-per-second 5 --yes
    """
    begin, end = (values.since(text, me.zone, flag) for text, flag in ((since, "--from"), (until, "--to")))
    body: dict[str, Any] = {"from": begin, "to": end, "max_per_second": max_per_second}
    body["order"] = values.choice(order, ORDERS, "--order")
    with me.asking():
        plan = me.occurrences.backfill(job, body | {"dry_run": True})
    lines = plan_lines(me, plan)
    if change.dry_run or not plan["total"]:
        return me.show(One(PLAN_SCHEMA, plan, lines, "job_id", exact=True))
    for line in lines:
        me.say(line)
    me.changing(change, "run them")
    if not change.yes and not me.context.protected:
        me.confirm("run them?")
    body |= {"note": change.reason} if change.reason else {}
    with me.asking():
        begun = me.occurrences.backfill(job, body, idempotency_key=change.idempotency_key)
    if not follow:
        return me.show(backfill_page(begun, me.zone))
    redriving.backfill_to_its_end(me, begun)


def list_backfills(
    me: Invocation,
    listing: Listing,
    watching: Watching,
    state: Annotated[str | None, Option("--state", metavar="S,S", help="running, paused, done …")] = None,
) -> None:
    """Backfills in progress and done, newest first.

    Examples:
      schedkit job backfills
      schedkit job backfills --state running,paused -w
    """
    states = values.choices(state or "", STATES, "--state")

    def look() -> Items:
        items, cursor = lists.fetch(me, listing, me.occurrences.backfills, {"state": states})
        return backfill_items(me, items, cursor, "no backfills  try: schedkit job backfill JOB --from 7d --dry-run")

    if watching.watch:
        me.watch(look, watching.interval)
    me.show(look())


def pause_backfill(me: Invocation, change: Change, backfill: Id) -> None:
    """Hold a backfill: nothing more is started until it is resumed.

    Examples:
      schedkit job backfill-pause bf_01J9ZK8V4T6Q
      schedkit job backfill-pause bf_01J9ZK8V4T6Q --reason "target is slow"
    """
    _move(me, change, backfill, "pause")


def resume_backfill(me: Invocation, change: Change, backfill: Id) -> None:
    """Go on with a backfill that was paused.

    Examples:
      schedkit job backfill-resume bf_01J9ZK8V4T6Q
      schedkit job backfill-resume bf_01J9ZK8V4T6Q -q
    """
    _move(me, change, backfill, "resume")


def stop_backfill(me: Invocation, change: Change, backfill: Id) -> None:
    """End a backfill; what has started goes on, and another backfill takes the rest.

    Examples:
      schedkit job backfill-stop bf_01J9ZK8V4T6Q
      schedkit job backfill-stop bf_01J9ZK8V4T6Q -o json
    """
    _move(me, change, backfill, "stop")


def _move(me: Invocation, change: Change, backfill_id: str, verb: str) -> None:
    found = redriving.moved(me, change, backfill_id, verb, me.occurrences.get_backfill, me.occurrences.move_backfill)
    me.show(backfill_page(found, me.zone))
