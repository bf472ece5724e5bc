"""A worker whose task may come twice, and has its effect once: schedkit worker run worker:w"""

import sqlite3
from contextlib import closing

from schedkit.target import CREATE_TABLE, remember
from schedkit.worker import Fail, Task, Worker

w = Worker("ledger")


@w.task(concurrency=4, timeout="3h")
def rebuild(task: Task, ledger: str, rows: int = 30) -> dict[str, int]:
    if ledger not in ("EU", "US"):
        raise Fail(f"there is no ledger {ledger}")  # no retry would change that
    done = int(task.previous_progress.get("rows", 0))  # an attempt goes on where the one before had come to
    while done < rows:
        task.check()  # raises when the task is to stop: write nothing more for it
        done += 10  # the work of a batch
        task.progress(rows=done)  # rides on the next heartbeat
    with closing(sqlite3.connect("ledger.db")) as db, db:  # one transaction: the effect and its key, or neither
        db.execute(CREATE_TABLE)
        db.execute("create table if not exists rebuilt (ledger text, rows integer)")
        if remember(db, task.idempotency_key, task.epoch):
            db.execute("insert into rebuilt values (?, ?)", (ledger, done))
    return {"rows": done}
