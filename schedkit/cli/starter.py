"""What `schedkit init` writes: a project that runs as it stands, beside `schedkit up`."""

from __future__ import annotations

import json
from typing import Final

from schedkit.cli.settings import BUILT_IN_CONTEXT, Context

HERE: Final = """\
# Settings of this project: every schedkit command below this folder reads them (schedkit config list --origin).
current = {name}
"""
PLACE: Final = """
[context.{key}]
url = {url}     # where the scheduler listens
"""
HEAD: Final = """\
# The jobs of this project. A change of this file is a change of the scheduler:
#   schedkit job validate      what is wrong in it
#   schedkit job diff          what an apply would change
#   schedkit job apply         make it so
schedkit: v1
defaults:
  tz: UTC                      # the zone of the clock that crons are read on
  labels: { project: starter }
jobs:
"""
CALLED: Final = """\
  greeting:                    # calls a URL, here the echo of the dev server
    every: 1m
    target: demo-echo
    payload: { say: hello }

  morning-report:
    cron: "30 7 * * mon-fri"
    target: demo-echo
    window: 5m                 # it may start anywhere in these five minutes
    retry: { max_attempts: 5, backoff: 10s..10m }
    misfire: run-once          # after an outage, one run makes up for all that were missed
"""
PULLED: Final = """\
  rebuild:                     # waits in a queue until worker.py takes it: schedkit worker run worker:w
    every: 5m
    queue: starter
    payload: { ledger: main, rows: 3 }
    overlap: skip              # while one is still going, the next does not start
    timeout: 10m
"""
WORKER: Final = '''\
"""A worker: it takes runs from the queue `starter` and does them.

    schedkit worker run worker:w
"""

from schedkit.worker import Fail, Retry, Task, Worker

w = Worker("starter", concurrency=4)


@w.task()
def rebuild(task: Task, ledger: str, rows: int = 0) -> dict[str, int]:
    """One run. The keys of the payload are the arguments; what is returned is kept as the result."""
    if rows < 0:
        raise Fail("a ledger has no negative rows")  # no further try would help
    done = task.previous_progress.get("rows", 0)  # a second try starts where the first one reported
    for row in range(done, rows):
        task.check()  # raises when the run was cancelled, or is another worker's by now: stop, write nothing more
        if not write(ledger, row, key=task.idempotency_key):
            raise Retry(after="10s")
        task.progress(rows=row + 1)  # rides on the next heartbeat
    return {"rows": rows}


def write(ledger: str, row: int, key: str) -> bool:
    """Your own work. The key is the same in every try of a run, so that what was done is not done twice."""
    print(f"{ledger}: row {row} ({key})")
    return True
'''
PROJECTS: Final = {
    "jobs": {"jobs.yaml": HEAD + CALLED},
    "worker": {"jobs.yaml": HEAD + PULLED, "worker.py": WORKER},
    "full": {"jobs.yaml": f"{HEAD}{CALLED}\n{PULLED}", "worker.py": WORKER},
}


def settings(context: Context, *, known: bool) -> str:
    """The project's schedkit.toml: it talks to whom commands talk now.

    `known`: the context stands in a settings file. One with a token or a guard then stays there alone, since a table
    here would win over it, without them.
    """
    name = context.name if known else BUILT_IN_CONTEXT
    here = HERE.format(name=json.dumps(name))
    if known and context != Context(name, url=context.url, color=context.color, origin=context.origin):
        return here
    key = name if name.isascii() and name.isidentifier() else json.dumps(name)
    return here + PLACE.format(key=key, url=json.dumps(context.url))
