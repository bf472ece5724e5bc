"""Waiting for a run: exit 0 when it ended well, 10 when it did not or never can, 11 when it took too long.

there                  wait until it has ended
not there yet          wait while its job is SCHEDULED and it is still due
paused, ended, moved   WILL_NOT_RUN, at once
run or job unknown     the server's own 404, at once
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

import typer

from schedkit.cli import values
from schedkit.cli.failures import Code, ExitCode, Refusal
from schedkit.cli.invocation import Invocation
from schedkit.cli.output import One
from schedkit.cli.runpages import SCHEMA, run_items, run_line
from schedkit.errors import NotFound, Reason
from schedkit.model.jobs import JobStatus
from schedkit.model.runs import RunStatus
from schedkit.model.time import MINUTE_MS, parse_rfc3339, rfc3339

FIRST_LOOK_S: Final = 0.1
SLOWEST_LOOK_S: Final = 1.0
TELL_AFTER_S: Final = 1.0
GOOD_ENDS: Final = (RunStatus.SUCCEEDED, RunStatus.SUCCEEDED_AFTER_CANCEL)
MAY_COME_MS: Final = MINUTE_MS  # a run that is this little overdue may still be claimed


def finish(me: Invocation, run_id: str, patience: str, goal: str = "finished") -> None:
    """Wait, show the run, and leave with the code of its end."""
    end(me, [until(me, run_id, patience, goal)], goal)


def end(me: Invocation, runs: Sequence[Mapping[str, Any]], goal: str = "finished") -> None:
    """Show runs that were waited for, and leave with 10 where one ended badly."""
    if len(runs) == 1 or me.for_people:
        for run in runs:
            me.show(One(SCHEMA, run, [run_line(run, me.zone)], "run_id", exact=True))
    else:
        me.show(run_items(me, list(runs), None, ""))
    if not all(_good(run, goal) for run in runs):
        raise typer.Exit(ExitCode.ANSWER_IS_NO)


def _good(run: Mapping[str, Any], goal: str) -> bool:
    if goal == "running":  # it started, whatever became of it
        return not RunStatus(run["status"]).final or bool(run.get("started_at"))
    return run["status"] in GOOD_ENDS


def until(me: Invocation, run_id: str, patience: str, goal: str = "finished") -> Mapping[str, Any]:
    """The run once it has ended (or, with the goal `running`, started)."""
    began = time.monotonic()
    deadline = began + values.duration_ms(patience, "--timeout") / 1_000
    pause_s, last, told = FIRST_LOOK_S, "it has not started", not sys.stderr.isatty()
    looked = False
    while True:
        run = me.again(lambda: _look(me, run_id)) if looked else _look(me, run_id)
        looked = True
        if run is not None:
            last = f"it is {run['status']}"
            started = goal == "running" and run["status"] != RunStatus.RETRY_WAIT
            if started or RunStatus(run["status"]).final:
                return run
        if time.monotonic() + pause_s > deadline:
            raise Refusal(
                Code.NOT_IN_TIME,
                ExitCode.NOT_IN_TIME,
                f"{run_id} did not get there within {patience}: {last}",
                fix=[f"schedkit run wait {run_id} --timeout 1h", f"schedkit run show {run_id}"],
            )
        if not told and time.monotonic() - began > TELL_AFTER_S:
            told = True
            me.say(f"waiting for {run_id}: {last}   ctrl+c stops waiting, the run goes on")
        me.sleep(pause_s)
        pause_s = min(SLOWEST_LOOK_S, pause_s * 1.5)


def _look(me: Invocation, run_id: str) -> Mapping[str, Any] | None:
    """The run, or None while it is not there yet: a run exists from its first claim on."""
    try:
        return me.client.get_run(run_id)
    except NotFound as missing:
        if missing.reason != Reason.RUN_NOT_FOUND or not _may_come(run_id):
            raise
    job = me.client.get_job(run_id.partition(":")[0])
    if (never := _never(job, run_id)) is None:
        return None
    try:
        return me.client.get_run(run_id)  # it may have come and ended its job between the two questions
    except NotFound as missing:
        raise never from missing


def _may_come(run_id: str) -> bool:
    try:
        due = parse_rfc3339(run_id.partition(":")[2])
    except ValueError:
        return False
    return due + MAY_COME_MS >= values.now_ms()


def _never(job: Mapping[str, Any], run_id: str) -> Refusal | None:
    """Why a run that is not there yet never will be; None while it may come."""
    if (never := will_not_run(job)) is not None:
        return never
    due, upcoming = parse_rfc3339(run_id.partition(":")[2]), job.get("next_run_at")
    if upcoming is not None and parse_rfc3339(upcoming) > due > values.now_ms() + MAY_COME_MS:
        name = job.get("name") or job["job_id"]
        said = f"{run_id} will not run: {name} is due at {upcoming} instead"
        return Refusal(Code.WILL_NOT_RUN, ExitCode.ANSWER_IS_NO, said, fix=[f"schedkit run wait {name}@next"])
    return None


def will_not_run(job: Mapping[str, Any]) -> Refusal | None:
    """The refusal to wait for the next run of a job that has none; None where it has."""
    status, name = job.get("status"), job.get("name") or job["job_id"]
    if status == JobStatus.SCHEDULED:
        return None
    fix = f"schedkit job resume {name}" if status == JobStatus.PAUSED else f"schedkit job show {name}"
    said = f"there is nothing to wait for: {name} is {status}"
    return Refusal(Code.WILL_NOT_RUN, ExitCode.ANSWER_IS_NO, said, fix=[fix])


def resolve(me: Invocation, text: str, *, to_come: bool = False) -> str:
    """A run id from what people type: the id itself, JOB@TIME, JOB@last, JOB@next, or JOB alone for its newest run.

    The newest is the one that was due last: what was skipped ahead of its time is still to come. With `to_come`, a job
    that has not run yet stands for its next run.
    """
    job, at, when = text.rpartition("@")
    if not at:
        head, colon, tail = text.partition(":")
        if colon and head and tail.endswith("Z"):
            return text
        job, when = text, "last"
    found = me.client.get_job(job)
    if when == "last":
        if newest := found.get("recent_runs"):
            return str(newest[0]["run_id"])
        if at or not to_come:
            due = found.get("next_run_at")
            raise _no_run(job, f"has not run yet; it is due at {due}" if due else "has not run yet")
        when = "next"
    if when == "next":
        if to_come and (never := will_not_run(found)) is not None:
            raise never
        if not found.get("next_run_at"):
            raise _no_run(job, f"has no next run: it is {found.get('status')}")
        return f"{found['job_id']}:{found['next_run_at']}"
    zone = me.zone or found["schedule"].get("time_zone")
    return f"{found['job_id']}:{rfc3339(values.instant(when, zone=zone, field='RUN'))}"


def _no_run(job: str, said: str) -> NotFound:
    return NotFound(Reason.RUN_NOT_FOUND, f"{job} {said}", fix=[f"schedkit job show {job}"], field="RUN")
