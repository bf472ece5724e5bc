"""Waiting for a run: exit 0 when it ended well, 10 when it did not, 11 when it took too long."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

import typer

from schedkit.cli import values
from schedkit.cli.failures import Code, ExitCode, Refusal
from schedkit.cli.invocation import Invocation
from schedkit.cli.output import One
from schedkit.cli.runpages import SCHEMA, run_line
from schedkit.errors import NotFound, Reason
from schedkit.model.runs import RunStatus
from schedkit.model.time import MINUTE_MS, parse_rfc3339

FIRST_LOOK_S: Final = 0.1
SLOWEST_LOOK_S: Final = 1.0
GOOD_ENDS: Final = (RunStatus.SUCCEEDED, RunStatus.SUCCEEDED_AFTER_CANCEL)
MAY_COME_MS: Final = MINUTE_MS  # a run that is this little overdue may still be claimed


def finish(me: Invocation, run_id: str, patience: str, until: str = "finished") -> None:
    """Wait, show the run, and leave with the code of its end."""
    run = _wait(me, run_id, patience, until)
    me.show(One(SCHEMA, run, [run_line(run, me.zone)], "run_id", exact=True))
    if until == "finished" and run["status"] not in GOOD_ENDS:
        raise typer.Exit(ExitCode.ANSWER_IS_NO)


def _wait(me: Invocation, run_id: str, patience: str, until: str) -> Mapping[str, Any]:
    deadline = time.monotonic() + values.duration_ms(patience, "--timeout") / 1_000
    pause_s, last = FIRST_LOOK_S, "it has not started"
    while True:
        run = _look(me, run_id)
        if run is not None:
            last = f"it is {run['status']}"
            started = until == "running" and run["status"] != RunStatus.RETRY_WAIT
            if started or RunStatus(run["status"]).final:
                return run
        if time.monotonic() + pause_s > deadline:
            raise Refusal(
                Code.NOT_IN_TIME,
                ExitCode.NOT_IN_TIME,
                f"{run_id} did not get there within {patience}: {last}",
                fix=[f"schedkit run wait {run_id} --timeout 1h", f"schedkit run show {run_id}"],
            )
        me.sleep(pause_s)
        pause_s = min(SLOWEST_LOOK_S, pause_s * 1.5)


def _look(me: Invocation, run_id: str) -> Mapping[str, Any] | None:
    """The run, or None while it is not there yet: a run exists from its first claim on."""
    try:
        return me.client.get_run(run_id)
    except NotFound as missing:
        if missing.reason == Reason.RUN_NOT_FOUND and _may_come(run_id):
            return None
        raise


def _may_come(run_id: str) -> bool:
    try:
        due = parse_rfc3339(run_id.partition(":")[2])
    except ValueError:
        return False
    return due + MAY_COME_MS >= values.now_ms()


def resolve(me: Invocation, text: str) -> str:
    """A run id from what people type: the id itself, JOB@TIME, JOB@last, or JOB alone for its newest run."""
    job, at, when = text.rpartition("@")
    if not at:
        head, colon, tail = text.partition(":")
        if colon and head and tail.endswith("Z"):
            return text
        job, when = text, "last"
    if when == "last":
        newest = me.client.job_runs(job, limit=1)["items"]
        if not newest:
            raise NotFound(
                Reason.RUN_NOT_FOUND, f"{job} has not run yet", fix=[f"schedkit job next {job}"], field="RUN"
            )
        return str(newest[0]["run_id"])
    found = me.client.get_job(job)
    zone = me.zone or found["schedule"].get("time_zone")
    from schedkit.model.time import rfc3339

    return f"{found['job_id']}:{rfc3339(values.instant(when, zone=zone, field='RUN'))}"
