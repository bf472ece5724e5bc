"""`schedkit worker`: run pull workers, look at them, and be one by hand. How they run is in `working`.

RUN is a run id as it was handed out, or JOB@TIME, JOB@last, JOB: its newest run.
"""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Mapping
from typing import Annotated, Any, Final

import typer

from schedkit.cli import complete, lists, show, values, waiting
from schedkit.cli.failures import Code, ExitCode, Refusal
from schedkit.cli.frame import Change, Listing, Watching, noun, verb
from schedkit.cli.invocation import Invocation
from schedkit.cli.output import Column, Items, One, raw
from schedkit.cli.runpages import run_page
from schedkit.cli.show import DASH
from schedkit.errors import InvalidInput, Reason
from schedkit.model.time import SECOND_MS, parse_rfc3339

app = noun("Run pull workers, look at them")

Option = typer.Option
Queue = Annotated[str, typer.Argument(metavar="QUEUE", help="The task queue.")]
Run = Annotated[str, typer.Argument(metavar="RUN", help="Run id, or JOB@TIME.", autocompletion=complete.runs)]
Epoch = Annotated[int, Option("--epoch", min=1, metavar="N", help="As it was handed out with the run.")]
Drain = Annotated[str, Option("--drain-timeout", metavar="30s", help="For tasks in hand to end, once told to stop.")]

SCHEMA: Final = "schedkit.worker/v1"
TASK_SCHEMA: Final = "schedkit.task/v1"
LEASE_SCHEMA: Final = "schedkit.lease/v1"
STALE_AFTER_MS: Final = 60 * SECOND_MS  # a worker that lives polls every 20 s at least
LEAST_BEAT_S: Final = 0.1
LONGEST_POLL_MS: Final = 20 * SECOND_MS
OUTCOMES: Final = ("SUCCEEDED", "FAILED", "CANCELLED")


@verb(app, "run")
def run_worker(
    me: Invocation,
    module: Annotated[str, typer.Argument(metavar="MODULE:APP", help="worker:w is `w` in worker.py, here.")],
    queue: Annotated[str | None, Option("--queue", metavar="Q", help="Instead of the worker's own.")] = None,
    concurrency: Annotated[
        int | None, Option("--concurrency", min=1, max=1_000, metavar="N", help="Tasks at once at most.")
    ] = None,
    drain_timeout: Annotated[
        str | None, Option("--drain-timeout", metavar="30s", help="For tasks in hand to end, once told to stop.")
    ] = None,
    reload: Annotated[bool, Option("--reload", help="Start anew when a file of the module changes.")] = False,
) -> None:
    """Run decorated Python functions as a pull worker, until ctrl+c.

    Examples:
      schedkit worker run worker:w
      schedkit worker run worker:w --concurrency 4 --reload
    """
    from schedkit.cli import working

    _require_named(queue)
    me.writable()
    drain_s = None if drain_timeout is None else _seconds(drain_timeout, "--drain-timeout")
    try:
        worker = working.load(module)
    except Refusal as refusal:
        if not reload:
            raise
        return working.wait_for_a_remedy(me, refusal)
    worker.queue = queue or worker.queue
    worker.concurrency = concurrency or worker.concurrency
    worker.drain_timeout_s = worker.drain_timeout_s if drain_s is None else drain_s
    if worker.url is None or "context" in me.given:  # what the module says stands, unless this line says otherwise
        worker.url, worker.token = me.context.url, me.token
    working.functions(me, worker, reload=reload)


@verb(app, "exec")
def exec_worker(
    me: Invocation,
    queue: Queue,
    cmd: Annotated[
        list[str] | None, typer.Argument(metavar="-- CMD...", help="The program, with its arguments.")
    ] = None,
    shell: Annotated[
        bool, Option("--shell", help="Run each payload's own `command` with sh. It executes data!")
    ] = False,
    concurrency: Annotated[int, Option("--concurrency", min=1, max=1_000, metavar="N", help="Programs at once.")] = 1,
    payload: Annotated[
        str, Option("--payload", metavar="stdin|env|file", help="How the program gets its payload.")
    ] = "stdin",
    retry_exit: Annotated[
        str, Option("--retry-exit", metavar="N,N|any", help="Exit codes after which to try again.")
    ] = "75",
    timeout: Annotated[str | None, Option("--timeout", metavar="3h", help="How long one may take.")] = None,
    kill_grace: Annotated[str, Option("--kill-grace", metavar="15s", help="Between SIGTERM and SIGKILL.")] = "15s",
    drain_timeout: Drain = "30s",
    heartbeat: Annotated[
        str | None, Option("--heartbeat", metavar="10s", help="At least this often: how soon a cancel is noticed.")
    ] = None,
) -> None:
    """Run any program as a pull worker: exit 0 is done, 75 is try again, anything else is failed.

    Examples:
      schedkit worker exec ledger-rebuild -- ./rebuild.sh
      schedkit worker exec shell --shell --concurrency 4
    """
    from functools import partial

    from schedkit.cli import working
    from schedkit.worker.program import Payload, Program

    _require_named(queue)
    me.writable()
    command = _command(queue, cmd, shell)
    program = partial(
        Program,
        command=command,
        payload=Payload(values.choice(payload, [word.value for word in Payload], "--payload")),
        retry_exits=_exits(retry_exit),
        kill_grace_s=_seconds(kill_grace, "--kill-grace"),
        timeout_s=None if timeout is None else _seconds(timeout, "--timeout"),
    )
    working.programs(
        me,
        queue,
        program,
        doing=" ".join(command) if command else "the payload's own command",
        concurrency=concurrency,
        drain_timeout_s=_seconds(drain_timeout, "--drain-timeout"),
        beat_every_s=None if heartbeat is None else max(LEAST_BEAT_S, _seconds(heartbeat, "--heartbeat")),
    )


def _require_named(queue: str | None) -> None:
    """Raises Refusal (USAGE) for a queue without a name."""
    if queue is not None and not queue.strip():
        why = "no job waits there; perhaps a variable of the shell is not set"
        raise Refusal(Code.USAGE, ExitCode.USAGE, "the name of the queue is empty", why=why)


def _command(queue: str, cmd: list[str] | None, shell: bool) -> list[str] | None:
    if shell and cmd:
        raise Refusal(
            Code.USAGE, ExitCode.USAGE, "--shell runs what each payload says: give --shell or -- CMD, not both"
        )
    if shell:
        return None
    if not cmd:
        fix = [f"schedkit worker exec {queue} -- ./program", f"schedkit worker exec {queue} --shell"]
        raise Refusal(Code.USAGE, ExitCode.USAGE, "there is no program to run", fix=fix)
    if shutil.which(cmd[0]) is None:
        raise Refusal(
            Code.WORKER_INVALID, ExitCode.INVALID, f"{cmd[0]} is no program that can be started from {os.getcwd()}"
        )
    return cmd


def _exits(text: str) -> frozenset[int] | None:
    if text.strip() == "any":
        return None
    codes = [part.strip() for part in text.split(",") if part.strip()]
    if bad := [code for code in codes if not (code.isascii() and code.isdigit() and 1 <= int(code) <= 255)]:
        raise InvalidInput(
            Reason.INVALID_ARGUMENT,
            f"--retry-exit takes exit codes 1 to 255, or any; not {bad[0]!r}",
            field="--retry-exit",
        )
    return frozenset(map(int, codes))


def _seconds(text: str, flag: str) -> float:
    return values.duration_ms(text, flag) / SECOND_MS


@verb(app, "list")
def list_workers(
    me: Invocation,
    listing: Listing,
    watching: Watching,
    queue: Annotated[str | None, Option("--queue", metavar="Q", help="That poll this task queue.")] = None,
    stale: Annotated[bool, Option("--stale", help="Not heard of for a minute.")] = False,
) -> None:
    """Workers heard of in the last five minutes.

    Examples:
      schedkit worker list
      schedkit worker list --queue ledger-rebuild --stale -o json
    """

    def page_of(*, limit: int, cursor: str | None) -> Mapping[str, Any]:
        return me.client.list_workers()  # the server has them on one page

    def kept(worker: Mapping[str, Any]) -> bool:
        silent_ms = values.now_ms() - parse_rfc3339(worker["last_seen_at"])
        return (queue is None or queue in worker["task_queues"]) and (not stale or silent_ms > STALE_AFTER_MS)

    def look() -> Items:
        items, _ = lists.fetch(me, listing, page_of, {}, kept)
        narrowed = lists.narrowing(listing, queue=queue, stale="for a minute" if stale else None)
        empty = f"no workers match ({narrowed})" if narrowed else "no worker was heard of in the last five minutes"
        return _worker_items(me, items, f"{empty}  try: schedkit worker exec {queue or 'QUEUE'} -- ./program")

    if watching.watch:
        me.watch(look, watching.interval)
    me.show(look())


def _worker_items(me: Invocation, items: list[Mapping[str, Any]], empty: str) -> Items:
    now = values.now_ms()
    columns = (
        Column("WORKER", "worker_id"),
        Column("QUEUES", "task_queues", lambda worker: ", ".join(worker.get("task_queues") or ()) or DASH),
        Column("HOLDS", "held", right=True),
        Column("HEARD", "last_seen_at", lambda worker: show.away(parse_rfc3339(worker["last_seen_at"]), now)),
        Column("SINCE", "first_seen_at", lambda worker: show.stamp(worker.get("first_seen_at"), me.zone)),
    )
    return Items(SCHEMA, items, columns, "worker_id", empty)


@verb(app, "poll")
def poll_queue(
    me: Invocation,
    change: Change,
    queue: Queue,
    worker_id: Annotated[
        str | None, Option("--worker-id", metavar="ID", help="Who asks; script@HOST unless said.")
    ] = None,
    wait: Annotated[str, Option("--wait", metavar="20s", help="How long, 20s at most.")] = "20s",
) -> None:
    """Take one task, for scripts; exit 11 where none came.

    Examples:
      schedkit worker poll ledger-rebuild -o json
      schedkit worker poll ledger-rebuild --worker-id nightly-1 --wait 0s
    """
    _require_named(queue)
    wait_ms = values.duration_ms(wait, "--wait")
    if wait_ms > LONGEST_POLL_MS:
        raise InvalidInput(Reason.INVALID_ARGUMENT, f"a poll waits 20s at most, not {wait}: ask again", field="--wait")
    who = worker_id or f"script@{socket.gethostname()}"
    if change.dry_run:
        me.show(One(TASK_SCHEMA, {"task_queue": queue, "worker_id": who}, [f"would take one task of {queue} as {who}"]))
        return
    me.changing(change, f"take a task of {queue}")
    with me.asking():
        task = me.client.poll_task(queue, who, wait_seconds=wait_ms / SECOND_MS)
    if task is None:
        raise Refusal(
            Code.NOT_IN_TIME,
            ExitCode.NOT_IN_TIME,
            f"no task came in {queue} within {wait}",
            fix=[f"schedkit worker poll {queue}", f"schedkit job list --queue {queue}"],
        )
    me.show(_task_page(me, task))


def _task_page(me: Invocation, task: Mapping[str, Any]) -> One:
    beat = show.seconds(task.get("heartbeat_every_seconds"))
    lines = [
        ("run id", raw(task.get("run_id"))),
        ("job", raw(task.get("job_name") or task.get("job_id"))),
        ("type", raw(task.get("task_type")) or DASH),
        ("epoch", raw(task.get("epoch"))),
        ("attempt", raw(task.get("attempt"))),
        ("scheduled", show.stamp(task.get("scheduled_for"), me.zone)),
        ("lease ends", f"{show.stamp(task.get('lease_expires_at'), me.zone)}, heartbeat every {beat}"),
        ("deadline", show.stamp(task.get("deadline"), me.zone)),
        ("payload", raw(task.get("payload")) or DASH),
        ("progress", raw(task.get("previous_progress")) or DASH),
        ("key", raw(task.get("idempotency_key"))),
    ]
    return One(TASK_SCHEMA, task, lines, "run_id")


@verb(app, "heartbeat")
def heartbeat_run(
    me: Invocation,
    change: Change,
    run: Run,
    epoch: Epoch,
    progress: Annotated[
        str | None, Option("--progress", metavar="JSON", help="How far it has come: JSON, @FILE, or - for stdin.")
    ] = None,
) -> None:
    """Keep the lease; exit 4 means stop now: it was cancelled, or another worker has it.

    Examples:
      schedkit worker heartbeat digest@09:00 --epoch 1
      schedkit worker heartbeat digest --epoch 2 --progress '{"rows":4200}'
    """
    said = _json(progress, "--progress", f"schedkit worker heartbeat {run} --epoch {epoch}")
    if (run_id := _claimed(me, change, run, "would keep")) is None:
        return
    with me.asking():
        lease = me.client.heartbeat_run(run_id, epoch, progress=said)
    asked = bool(lease["cancel_requested"])
    lines = [("lease ends", show.stamp(lease["lease_expires_at"], me.zone)), ("asked", "to stop" if asked else DASH)]
    me.show(One(LEASE_SCHEMA, {"run_id": run_id, "epoch": epoch, **lease}, lines, "run_id"))
    if asked:
        raise typer.Exit(ExitCode.CONFLICT)


@verb(app, "complete")
def complete_run(
    me: Invocation,
    change: Change,
    run: Run,
    epoch: Epoch,
    outcome: Annotated[str, Option("--outcome", metavar="O", help="succeeded, failed or cancelled.")],
    result: Annotated[
        str | None,
        Option("--result", metavar="JSON", help="Of a success: JSON, @FILE, or - for stdin. 4 KiB are kept."),
    ] = None,
    error: Annotated[str | None, Option("--error", metavar="TEXT", help="Of a failure: what went wrong.")] = None,
    no_retry: Annotated[bool, Option("--no-retry", help="Of a failure: it can never succeed.")] = False,
) -> None:
    """Report the end of a run; exit 4 where it is another worker's by now.

    Examples:
      schedkit worker complete digest@09:00 --epoch 1 --outcome succeeded --result '{"rows":10}'
      schedkit worker complete digest --epoch 2 --outcome failed --error "no such ledger" --no-retry
    """
    word = values.choice(outcome, OUTCOMES, "--outcome")
    for flag, given, belongs in (
        ("--result", result, "SUCCEEDED"),
        ("--error", error, "FAILED"),
        ("--no-retry", no_retry or None, "FAILED"),
    ):
        if given is not None and word != belongs:
            raise InvalidInput(Reason.INVALID_ARGUMENT, f"{flag} goes with --outcome {belongs.lower()}", field=flag)
    value = _json(result, "--result", f"schedkit worker complete {run} --epoch {epoch} --outcome succeeded")
    if (run_id := _claimed(me, change, run, f"would report {word} of")) is None:
        return
    with me.asking():
        ended = me.client.complete_run(run_id, epoch, word, result=value, error=error, retryable=not no_retry)
    me.show(run_page(ended, me.zone, response=False))


@verb(app, "release")
def release_run(me: Invocation, change: Change, run: Run, epoch: Epoch) -> None:
    """Give a run back for another worker, at once and as the same attempt.

    Examples:
      schedkit worker release digest@09:00 --epoch 1
      schedkit worker release digest --epoch 2 --reason "machine is rebooted"
    """
    if (run_id := _claimed(me, change, run, "would give back")) is None:
        return
    with me.asking():
        back = me.client.release_run(run_id, epoch)
    me.show(run_page(back, me.zone, response=False))


def _claimed(me: Invocation, change: Change, run: str, would: str) -> str | None:
    """The id of the run; None where it was only to be said what would happen."""
    with me.asking():
        run_id = waiting.resolve(me, run)
    if change.dry_run:
        with me.asking():
            found = me.client.get_run(run_id)
        said = f"{would} {run_id}, which is {found['status']} under epoch {found['epoch']}"
        me.show(One("schedkit.run/v1", found, [said], "run_id", exact=True))
        return None
    me.changing(change, f"{would.removeprefix('would ')} {run_id}")
    return run_id


def _json(text: str | None, flag: str, line: str) -> Any:
    return None if text is None else values.payload(text, line, flag)
