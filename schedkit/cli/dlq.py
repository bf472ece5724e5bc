"""`schedkit dlq`: runs that failed for good: look at them, start them again, give them up.

ITEM is a run, however `schedkit run` takes it; ID is a redrive's id.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final

import typer

from schedkit.cli import complete, lists, redriving, show, values, waiting
from schedkit.cli.dlqpages import (
    DROP_SCHEMA,
    PLAN_SCHEMA,
    dead_items,
    group_items,
    plan_lines,
    redrive_items,
    redrive_page,
)
from schedkit.cli.frame import Change, Listing, Severe, Watching, noun, verb
from schedkit.cli.invocation import Invocation
from schedkit.cli.output import Items, One
from schedkit.cli.runpages import run_page
from schedkit.errors import InvalidInput, Reason
from schedkit.model.redrives import DEFAULT_PER_SECOND, MAX_CANARY, MAX_PER_SECOND, RedriveState

app = noun("Dead letters: look at them, start them again, give them up")

Option = typer.Option
Id = Annotated[str, typer.Argument(metavar="ID", help="A redrive's id; schedkit dlq redrives lists them.")]
STATES: Final = [state.value for state in RedriveState]
GROUPS: Final = ("target", "job", "reason", "error")


@dataclass(frozen=True, slots=True)
class Which:
    """Which dead letters."""

    target: Annotated[str | None, Option("--target", metavar="T", help="Of this registered target, no URL.")] = None
    reason_is: Annotated[
        str | None, Option("--because", metavar="R", help="attempts-exhausted, permanent-failure, poison, unknown.")
    ] = None
    job: Annotated[str | None, Option("--job", metavar="J", help="Of this job.", autocompletion=complete.jobs)] = None
    failed_after: Annotated[str | None, Option("--failed-after", metavar="T", help="Failed then or later.")] = None
    failed_before: Annotated[str | None, Option("--failed-before", metavar="T", help="Failed then or before.")] = None

    def fields(self, me: Invocation) -> dict[str, str]:
        """As the API names them. Raises Refusal (USAGE) for an empty one, InvalidInput for a target's URL."""
        lists.given(self.said)
        if self.target is not None and "://" in self.target:
            raise InvalidInput(
                Reason.INVALID_ARGUMENT,
                f"--target takes the name of a registered target, not a URL: {self.target}",
                why="the URL of a job is the job's own, so no dead letter would match",
                fix=("say which by --job JOB or --because REASON", "schedkit dlq list --group-by job,error"),
                field="--target",
            )
        given = {
            "target_id": self.target,
            "job_id": self.job,
            "reason": self.reason_is.upper().replace("-", "_") if self.reason_is else None,
            "failed_after": values.since(self.failed_after, me.zone, "--failed-after"),
            "failed_before": values.since(self.failed_before, me.zone, "--failed-before"),
        }
        return {name: value for name, value in given.items() if value is not None}

    @property
    def said(self) -> dict[str, str | None]:
        return {
            "target": self.target,
            "because": self.reason_is,
            "job": self.job,
            "failed_after": self.failed_after,
            "failed_before": self.failed_before,
        }


@verb(app, "list")
def list_dead(
    me: Invocation,
    listing: Listing,
    watching: Watching,
    which: Which,
    reason: Annotated[str | None, Option("--reason", metavar="R", help="The same as --because.")] = None,
    group_by: Annotated[
        str | None, Option("--group-by", metavar="G,G", help="Count by target, job, reason, error.")
    ] = None,
) -> None:
    """Runs that failed for good or whose outcome nobody knows, newest first; or counted by group.

    Examples:
      schedkit dlq list --failed-after 2h
      schedkit dlq list --group-by job,error
    """
    which = replace(which, reason_is=which.reason_is or reason)
    groups = ",".join(values.choices(group_by, GROUPS, "--group-by")) if group_by else None
    narrowed = lists.narrowing(listing, **which.said)
    empty = f"no dead letters match ({narrowed})" if narrowed else "no dead letters: nothing has failed for good"

    def look() -> Items:
        filters = which.fields(me)
        if groups is not None:
            with me.asking():
                found = me.client.list_dead(group_by=groups, **filters)
            return group_items(me, found["items"], empty, found["complete"])
        items, cursor = lists.fetch(me, listing, me.client.list_dead, filters)
        return dead_items(me, items, cursor, empty)

    if watching.watch:
        me.watch(look, watching.interval)
    me.show(look())


@verb(app, "show")
def show_dead(
    me: Invocation,
    item: Annotated[str, typer.Argument(metavar="ITEM", help="Run id, JOB@TIME or JOB.", autocompletion=complete.runs)],
    response: Annotated[bool, Option("--response", help="The target's answer too.")] = False,
) -> None:
    """One dead letter with each attempt.

    Examples:
      schedkit dlq show digest@09:00
      schedkit dlq show digest --response
    """
    with me.asking():
        found = me.client.get_dead(waiting.resolve(me, item))
    me.show(run_page(found, me.zone, response=response))


@verb(app, "redrive")
def redrive_dead(
    me: Invocation,
    change: Change,
    which: Which,
    max_per_second: Annotated[
        int, Option("--max-per-second", min=1, max=MAX_PER_SECOND, metavar="N", help="Never more than this.")
    ] = DEFAULT_PER_SECOND,
    canary: Annotated[
        int, Option("--canary", min=0, max=MAX_CANARY, metavar="N", help="First so many, then ask; 0: none.")
    ] = 5,
    limit: Annotated[int | None, Option("--limit", min=1, metavar="N", help="At most so many, the oldest.")] = None,
    run: Annotated[list[str] | None, Option("--run", metavar="RUN", help="This one; may stand several times.")] = None,
    include_unknown: Annotated[
        bool, Option("--include-unknown", help="Also what may have been done already (at most once).")
    ] = False,
    follow: Annotated[bool, Option("--follow/--no-follow", help="Watch it to its end.")] = True,
) -> None:
    """Start dead letters again, oldest first, at a capped rate, and first only a few.

    Examples:
      schedkit dlq redrive --target demo-flaky --failed-after 2h
      schedkit dlq redrive --job digest --max-per-second 10 --canary 1 --yes --no-follow
    """
    fields: dict[str, Any] = which.fields(me)
    with me.asking():
        if run:
            fields["run_ids"] = [waiting.resolve(me, text) for text in run]
        body: dict[str, Any] = {"filter": fields, "max_per_second": max_per_second, "canary": canary}
        body |= {"include_unknown": include_unknown} | ({"limit": limit} if limit is not None else {})
        plan = me.client.redrive(body | {"dry_run": True})
    what = f" for {which.target}" if which.target else f" of {which.job}" if which.job else ""
    lines = plan_lines(me, plan, what, asks=not change.yes)
    if change.dry_run or not plan["total"]:
        return me.show(One(PLAN_SCHEMA, plan, lines, exact=True))
    for line in lines:
        me.say(line)
    me.changing(change, "redrive them")
    if not change.yes and not me.context.protected:
        me.confirm("redrive them?")
    body |= {"goes_on": change.yes} | ({"note": change.reason} if change.reason else {})
    with me.asking():
        begun = me.client.redrive(body, idempotency_key=change.idempotency_key)
    if not follow:
        return me.show(redrive_page(begun, me.zone))
    redriving.to_its_end(me, begun)


@verb(app, "redrives")
def list_redrives(
    me: Invocation,
    listing: Listing,
    watching: Watching,
    state: Annotated[str | None, Option("--state", metavar="S,S", help="running, waiting, paused, done …")] = None,
) -> None:
    """Redrives in progress and done, newest first.

    Examples:
      schedkit dlq redrives
      schedkit dlq redrives --state running,waiting -w
    """
    states = values.choices(state or "", STATES, "--state")

    def look() -> Items:
        items, cursor = lists.fetch(me, listing, me.client.list_redrives, {"state": states})
        return redrive_items(me, items, cursor, "no redrives  try: schedkit dlq list")

    if watching.watch:
        me.watch(look, watching.interval)
    me.show(look())


@verb(app, "redrive-pause")
def pause_redrive(me: Invocation, change: Change, redrive: Id) -> None:
    """Hold a redrive: nothing more is started until it is resumed.

    Examples:
      schedkit dlq redrive-pause rd_01J9ZK8V4T6Q
      schedkit dlq redrive-pause rd_01J9ZK8V4T6Q --reason "target is slow"
    """
    _move(me, change, redrive, "pause")


@verb(app, "redrive-resume")
def resume_redrive(me: Invocation, change: Change, redrive: Id) -> None:
    """Go on with a redrive that was paused.

    Examples:
      schedkit dlq redrive-resume rd_01J9ZK8V4T6Q
      schedkit dlq redrive-resume rd_01J9ZK8V4T6Q -q
    """
    _move(me, change, redrive, "resume")


@verb(app, "redrive-continue")
def continue_redrive(me: Invocation, change: Change, redrive: Id) -> None:
    """Yes to the rest, after the first few went well.

    Examples:
      schedkit dlq redrive-continue rd_01J9ZK8V4T6Q
      schedkit dlq redrive-continue rd_01J9ZK8V4T6Q -o json
    """
    _move(me, change, redrive, "continue")


@verb(app, "redrive-stop")
def stop_redrive(me: Invocation, change: Change, redrive: Id) -> None:
    """End a redrive; the rest stays among the dead letters.

    Examples:
      schedkit dlq redrive-stop rd_01J9ZK8V4T6Q
      schedkit dlq redrive-stop rd_01J9ZK8V4T6Q --reason "target is down again"
    """
    _move(me, change, redrive, "stop")


def _move(me: Invocation, change: Change, redrive_id: str, verb: str) -> None:
    found = redriving.moved(me, change, redrive_id, verb, me.client.get_redrive, me.client.move_redrive)
    me.show(redrive_page(found, me.zone))


@verb(app, "drop")
def drop_dead(
    me: Invocation,
    change: Change,
    severe: Severe,
    which: Which,
    limit: Annotated[int | None, Option("--limit", min=1, metavar="N", help="At most so many, the oldest.")] = None,
    run: Annotated[list[str] | None, Option("--run", metavar="RUN", help="This one; may stand several times.")] = None,
    archive: Annotated[bool, Option("--archive/--no-archive", help="Keep them in the history for 30 days.")] = True,
) -> None:
    """Give dead letters up: they are not listed any more and cannot be started again.

    Examples:
      schedkit dlq drop --job digest --dry-run
      schedkit dlq drop --failed-before 2026-09-01T00:00:00Z --confirm 12
    """
    fields: dict[str, Any] = which.fields(me)
    with me.asking():
        if run:
            fields["run_ids"] = [waiting.resolve(me, text) for text in run]
        body: dict[str, Any] = {"filter": fields, "archive": archive}
        plan = me.client.drop_dead(body | ({"limit": limit} if limit is not None else {}) | {"dry_run": True})
    total = plan["total"]
    kept = "they stay in the history for 30 days" if archive else "the next clean-up, within 10 minutes, forgets them"
    letters = show.count(total, "dead letter")
    line = f"would give up {letters}; {kept}"
    if change.dry_run or not total:
        return me.show(One(DROP_SCHEMA, plan, [line if total else "no dead letters match"], exact=True))
    me.say(f"{me.context.name}: this gives up {letters}; {kept}, and they cannot be started again")
    me.changing(change, f"drop {letters}")
    me.confirm_typed("this cannot be undone.", str(total), severe.confirm)
    body |= {"note": change.reason} if change.reason else {}
    with me.asking():
        done = _drop_all(me, body, total)
    me.show(One(DROP_SCHEMA, done, [f"gave up {show.count(done['dropped'], 'dead letter')}"], exact=True))


def _drop_all(me: Invocation, body: Mapping[str, Any], total: int) -> dict[str, Any]:
    """As many as were agreed on, in as many requests as it takes."""
    dropped = 0
    while True:
        done = me.client.drop_dead(dict(body) | {"limit": total - dropped})
        dropped += done["dropped"]
        if not done["more"] or not done["dropped"] or dropped >= total:
            return {**done, "dropped": dropped}
