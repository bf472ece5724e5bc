"""`schedkit run`: look at runs, wait for them, cancel, retry and settle them, follow them.

RUN is a run id, JOB@TIME (digest@09:00), JOB@last, JOB@next, or JOB alone for its newest run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

import typer

from schedkit.cli import bulk, complete, following, lists, output, values, waiting
from schedkit.cli.failures import Code, ExitCode, Refusal, exit_code
from schedkit.cli.frame import Change, Listing, Waiting, Watching, noun, verb
from schedkit.cli.invocation import Invocation, each
from schedkit.cli.output import Items, One
from schedkit.cli.runfilter import STATUSES, RunFilter, target_of
from schedkit.cli.runpages import SCHEMA, run_items, run_line, run_page
from schedkit.cli.show import count
from schedkit.model.runs import RunStatus

app = noun("Look at runs, wait for them, cancel and retry them")

Option = typer.Option
RUN_HELP: Final = "Run id, JOB@TIME, JOB@last, JOB@next, or JOB: its newest run."
Run = Annotated[str, typer.Argument(metavar="RUN", help=RUN_HELP, autocompletion=complete.runs)]
Runs = Annotated[
    list[str] | None,
    typer.Argument(metavar="[RUN]...", help=RUN_HELP + " Or filters.", autocompletion=complete.runs),
]
All = Annotated[bool, Option("--all", help="Every run that this can be done to.")]
TAIL_PAGE: Final = 100
TAIL_FIRST: Final = 10  # as tail(1) does
TAIL_REMEMBERS: Final = 2_000

Doc = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Deed:
    """What is done to runs: its name before and after, the statuses that it can be done to, and how it reads."""

    name: str
    done: str
    statuses: list[str]
    act: Callable[[str, Doc | None], Doc]  # (its id, the run as it was agreed on)
    look: Callable[[str], Doc]  # what a dry run shows instead
    line: Callable[[Doc, bool], str]  # (the run, whether it was done)


@verb(app, "list")
def list_runs(me: Invocation, listing: Listing, watching: Watching, which: RunFilter) -> None:
    """Runs across jobs, newest first.

    Examples:
      schedkit run list --since 15m
      schedkit run list --outcome failed --job digest -o json
    """
    kept, narrowed = which.kept(me), lists.narrowing(listing, **which.said)
    empty = f"no runs match ({narrowed})" if narrowed else "no runs yet  try: schedkit job list"

    def look() -> Items:
        items, cursor = lists.fetch(me, listing, me.client.list_runs, which.query(me, []), kept)
        return run_items(me, items, cursor, empty)

    if watching.watch:
        me.watch(look, watching.interval)
    me.show(look())


@verb(app, "show")
def show_run(
    me: Invocation,
    watching: Watching,
    run: Run,
    attempts: Annotated[bool, Option("--attempts", help="Only its attempts.")] = False,
    response: Annotated[bool, Option("--response", help="The target's answer too.")] = False,
    raw: Annotated[bool, Option("--raw", help="The document as the server has it.")] = False,
) -> None:
    """Attempts, epochs, owner, the target's answer.

    Examples:
      schedkit run show digest@09:00
      schedkit run show tea --response
    """

    def look() -> One:
        with me.asking():
            found = me.client.get_run(waiting.resolve(me, run))
        if raw:
            import json

            return One(SCHEMA, found, json.dumps(found, indent=2).splitlines(), "run_id", exact=True)
        if attempts:
            found = {"run_id": found["run_id"], "attempts": found.get("attempts", [])}
        return run_page(found, me.zone, response=response)

    if watching.watch:
        me.watch(look, watching.interval)
    me.show(look())


@verb(app, "wait")
def wait_run(
    me: Invocation,
    run: Run,
    until: Annotated[str, Option("--for", metavar="finished|running", help="What to wait for.")] = "finished",
    timeout: Annotated[str, Option("--timeout", metavar="5m", help="How long.")] = "5m",
) -> None:
    """Wait for a run; exit 0 ended well, 10 failed, 11 not in time.

    Examples:
      schedkit run wait digest@09:00
      schedkit run wait tea@next --for running --timeout 1m
    """
    goal = values.choice(until, ("finished", "running"), "--for")
    waiting.finish(me, waiting.resolve(me, run, to_come=True), timeout, goal)


@verb(app, "cancel")
def cancel_run(
    me: Invocation, change: Change, waits: Waiting, which: RunFilter, run: Runs = None, everything: All = False
) -> None:
    """Ask a run to stop. A call that is out cannot be called back: it may end SUCCEEDED_AFTER_CANCEL.

    Examples:
      schedkit run cancel digest@09:00
      schedkit run cancel tea --wait
      schedkit run cancel --job digest --state retry-wait --dry-run
    """

    def line(found: Doc, done: bool) -> str:
        return f"{'asked' if done else 'would ask'} {found['run_id']} to stop: it is {found['status']}"

    def act(run_id: str, seen: Doc | None) -> Doc:
        return me.client.cancel_run(run_id, seen=seen)

    deed = Deed("cancel", "asked", ["RUNNING", "RETRY_WAIT"], act, me.client.get_run, line)
    _do(me, change, waits, which, run, everything, deed)


@verb(app, "retry")
def retry_run(
    me: Invocation,
    change: Change,
    waits: Waiting,
    which: RunFilter,
    run: Runs = None,
    everything: All = False,
    include_unknown: Annotated[
        bool, Option("--include-unknown", help="Also what may have been done already (at most once).")
    ] = False,
) -> None:
    """A new series of attempts for a dead letter: epoch + 1, the same idempotency key. Thousands of them: dlq redrive.

    Examples:
      schedkit run retry digest@09:00
      schedkit run retry tea --wait
      schedkit run retry --job digest --since 1h --dry-run
    """

    def line(found: Doc, done: bool) -> str:
        series = found["series"] + (not done)
        return f"{'started' if done else 'would start'} {found['run_id']} again: series {series} of attempts"

    def act(run_id: str, seen: Doc | None) -> Doc:
        return me.client.retry_run(run_id, include_unknown=include_unknown, seen=seen)

    dead = ["FAILED", *(["UNKNOWN"] if include_unknown else [])]
    _do(me, change, waits, which, run, everything, Deed("retry", "started", dead, act, me.client.get_dead, line))


def _do(
    me: Invocation,
    change: Change,
    waits: Waiting,
    which: RunFilter,
    runs: Sequence[str] | None,
    everything: bool,
    deed: Deed,
) -> None:
    """To the runs that are named, all told and waited for; or to those that match, after a yes."""
    if bulk.by_filter(runs or (), which.narrows, everything, f"schedkit run {deed.name}", "RUN"):
        return _to_matching(me, change, waits, which, deed)
    with me.asking():
        ids = [waiting.resolve(me, text) for text in runs or ()]
    if not change.dry_run:
        me.changing(change, f"{deed.name} {', '.join(ids)}")
    with me.asking():
        done, refusal = each(me, ids, deed.look if change.dry_run else lambda run_id: deed.act(run_id, None))
    wait = None if change.dry_run else waits.wait
    if wait is None or me.for_people:
        _show(me, deed, done, really=not change.dry_run, alone=len(ids) == 1)
    if wait is not None:
        waiting.end(me, [waiting.until(me, found["run_id"], wait) for found in done])
    if refusal is not None:
        raise typer.Exit(exit_code(refusal))


def _to_matching(me: Invocation, change: Change, waits: Waiting, which: RunFilter, deed: Deed) -> None:
    if waits.wait is not None:
        raise Refusal(Code.USAGE, ExitCode.USAGE, "--wait goes with a RUN")
    listing = Listing(everything=True)
    found, _ = lists.fetch(me, listing, me.client.list_runs, which.query(me, deed.statuses), which.kept(me))
    narrowed = lists.narrowing(listing, **which.said)
    if change.dry_run or not found:
        me.say(f"would {deed.name} {count(len(found), 'run')}" if found else "no runs match")
        return me.show(run_items(me, found, None, narrowed))
    bulk.agreed(me, change, deed.name, "run", [str(run["run_id"]) for run in found], narrowed)
    outcome = bulk.one_by_one(me, found, lambda run: str(run["run_id"]), lambda run: deed.act(run["run_id"], run))
    _show(me, deed, outcome.done, really=True, alone=False)
    bulk.summed(me, outcome, deed.done, "run")


def _show(me: Invocation, deed: Deed, done: list[Doc], *, really: bool, alone: bool) -> None:
    if alone or me.for_people:
        for found in done:
            me.show(One(SCHEMA, found, [deed.line(found, really)], "run_id", exact=True))
    else:
        me.show(run_items(me, done, None, ""))


@verb(app, "resolve")
def resolve_run(
    me: Invocation,
    change: Change,
    run: Run,
    said: Annotated[str, Option("--as", metavar="succeeded|failed", help="What had happened.")],
    note: Annotated[str | None, Option("--note", metavar="TEXT", help="How you know, kept with the run.")] = None,
) -> None:
    """Settle an UNKNOWN at-most-once run by hand: you have found out what the target did.

    Examples:
      schedkit run resolve pay@09:00 --as succeeded --note "seen in the ledger"
      schedkit run resolve pay@09:00 --as failed --dry-run
    """
    as_ = values.choice(said, ("SUCCEEDED", "FAILED"), "--as")
    with me.asking():
        run_id = waiting.resolve(me, run)
        found = me.client.get_run(run_id)
    if change.dry_run:
        line = f"would record {run_id}, which is {found['status']}, as {as_}"
        return me.show(One(SCHEMA, found, [line], "run_id", exact=True))
    me.changing(change, f"record {run_id} as {as_}")
    if not change.yes and not me.context.protected:
        me.confirm(f"{run_id} is {found['status']}. record it as {as_}?")
    with me.asking():
        found = me.client.resolve_run(run_id, as_, note=note or change.reason)
    me.show(One(SCHEMA, found, [f"recorded {run_id} as {found['status']}"], "run_id", exact=True))


@verb(app, "tail")
def tail_runs(
    me: Invocation,
    job: Annotated[str | None, Option("--job", metavar="J", help="Of this job.")] = None,
    target: Annotated[str | None, Option("--target", metavar="T", help="Whose target has this text.")] = None,
    outcome: Annotated[str | None, Option("--outcome", metavar="O,O", help="failed, succeeded, skipped …")] = None,
    last: Annotated[
        int, Option("--last", "-n", min=0, max=TAIL_PAGE, metavar="N", help="Begin with the last N that ended.")
    ] = TAIL_FIRST,
    limit: Annotated[
        int | None, Option("--limit", min=1, metavar="N", help="Stop after this many; else ctrl+c does.")
    ] = None,
    interval: Annotated[str, Option("--interval", metavar="1s", help="How often to look, without a stream.")] = "1s",
) -> None:
    """The last runs that ended, oldest first, and from then on each as it ends.

    Examples:
      schedkit run tail -n 2
      schedkit run tail --job digest --outcome failed -o jsonl
    """
    statuses = values.choices(outcome or "", STATUSES, "--outcome")
    pause_s = max(0.1, values.duration_ms(interval, "--interval") / 1_000)
    seen: dict[str, None] = {}
    left = limit
    begin = last if limit is None else min(last, limit)
    first = True

    def look() -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = me.client.list_runs(limit=TAIL_PAGE, job=job, status=statuses)["items"]
        return items

    for page in following.ended_runs(me, look, pause_s):
        wanted = [found for found in page if _matches(found, job, statuses) and _key(found) not in seen]
        ended = sorted(wanted, key=lambda found: str(found.get("finished_at")))
        seen |= {_key(found): None for found in ended}
        while len(seen) > TAIL_REMEMBERS:
            seen.pop(next(iter(seen)))
        shown = [found for found in ended if target is None or target in target_of(me, found)]
        for found in shown[len(shown) - min(begin, len(shown)) :] if first else shown:
            _print_ended(me, found)
            left = None if left is None else left - 1
            if left == 0:
                return
        first = False


def _matches(run: Mapping[str, Any], job: str | None, statuses: list[str]) -> bool:
    """It has ended, and is what was asked for: a stream says everything."""
    wanted = job in (None, run["job_id"], run.get("job_name")) and (not statuses or run["status"] in statuses)
    return wanted and RunStatus(run["status"]).final


def _key(run: Mapping[str, Any]) -> str:
    """A redriven run ends again, under the same id."""
    return f"{run['run_id']} {run.get('finished_at')}"


def _print_ended(me: Invocation, run: Mapping[str, Any]) -> None:
    if me.style.format in ("table", "wide", "name"):
        line = run_line(run, me.zone, dated=False)
        if me.style.screen.terminal and me.style.format == "table":
            line = output.fitted(line, me.style.screen.width)
        me.show(One(SCHEMA, run, [line], "run_id", exact=True))
    else:
        output.write(me.style.json(dict(run)))
