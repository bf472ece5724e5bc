"""Figures of pull workers: no-op tasks through `schedkit worker run` processes and a real `schedkit up` on SQLite.

    python -m benchmarks.workers [--tasks 20000] [--workers 2] [--slots 20] [--json]

All jobs are due at one instant. First their runs are made, which wait for workers; then the workers start, and it takes
from the first function's line to the last one's. Machines differ: each rate also stands as a ratio to what the machine
does of durable commits and of JSON round trips in the same run. Each run has to be done once, and recorded once.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import httpx

from benchmarks.embedded import add, durable_commit_ms, loops_per_second, memory_mib
from schedkit.model.time import rfc3339
from tests.e2e.processes import environment, until, up

LEAD_S: Final = 5.0
LOOK_EVERY_S: Final = 0.5
ASK_EVERY_S: Final = 3.0  # a snapshot counts jobs, which takes its share of what is measured
SLOWEST_ADDS_PER_SECOND: Final = 500  # so long before they are due the jobs are made
PATIENCE_S: Final = 600.0
MODULE: Final = """
import os, time
from schedkit.worker import Task, Worker

w = Worker("bench")
done = os.open(f"done-{os.getpid()}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

@w.task
def nothing(task: Task) -> None:
    os.write(done, f"{time.time()} {task.run_id}\\n".encode())
"""

pause = threading.Event()  # never set: its wait is a pause


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--tasks", type=int, default=20_000, help="how many")
    options.add_argument("--workers", type=int, default=2, help="processes")
    options.add_argument("--slots", type=int, default=20, help="tasks at once in each of them")
    options.add_argument("--json", action="store_true", help="print one JSON document")
    chosen = options.parse_args()
    figures = measure(chosen.tasks, chosen.workers, chosen.slots)
    if chosen.json:
        json.dump(figures, sys.stdout, indent=2)
        return
    for name, value in figures.items():
        print(f"{name:<44} {value}")


def measure(tasks: int, processes: int, slots: int) -> dict[str, Any]:
    """Every figure, in the order it was taken."""
    figures: dict[str, Any] = {"load average before": round(os.getloadavg()[0], 2)}
    commit_ms, loops = durable_commit_ms(), loops_per_second()
    with tempfile.TemporaryDirectory() as name, up(Path(name), "--no-demo") as scheduler:
        folder = Path(name)
        (folder / "worker.py").write_text(MODULE)
        due_at = time.time() + LEAD_S + tasks / SLOWEST_ADDS_PER_SECOND
        with scheduler.client() as client:
            add(client, [job(due_at) for _ in range(tasks)])
            assert time.time() < due_at, "adding took longer than was planned for"
            pause.wait(max(0.0, due_at - time.time()))
            until(lambda: idle(client) or pause.wait(ASK_EVERY_S) or None, "run of each job", PATIENCE_S)
            made_s = time.time() - due_at
            assert runs(client)["RETRY_WAIT in 0"] == tasks, "all of them wait"
            with working(folder, scheduler.url, processes, slots):
                until(
                    lambda: len(done(folder)) >= tasks or pause.wait(LOOK_EVERY_S) or None, f"{tasks} tasks", PATIENCE_S
                )
            lines = done(folder)
            took_s = max(lines)[0] - min(lines)[0]
            recorded, ids = runs(client), [run_id for _, run_id in lines]
        figures |= {
            "yardstick: one durable commit, ms": round(commit_ms, 3),
            "yardstick: JSON round trips/s": round(loops),
            "tasks": tasks,
            "lost": tasks - len(set(ids)),
            "done twice": len(ids) - len(set(ids)),
            "recorded": ", ".join(f"{count} {what}" for what, count in sorted(recorded.items())),
            "made to wait/s": round(tasks / made_s),
            "runs/s": round(tasks / took_s),
            "runs per durable commit": round(tasks / took_s * commit_ms / 1_000, 3),
            "runs per JSON round trip": round(tasks / took_s / loops, 4),
            "memory of the scheduler afterwards, MiB": memory_mib(scheduler),
        }
    return figures


def job(due_at: float) -> dict[str, Any]:
    run_at = rfc3339(int(due_at * 1_000))
    return {"schedule": {"type": "ONCE", "run_at": run_at}, "target": {"type": "TASK_QUEUE", "task_queue": "bench"}}


def idle(client: httpx.Client) -> bool:
    """Whether nothing is due: looked at twice, since what is due passes through a queue."""

    def waits() -> int:
        queues = client.get("/v1/ops/snapshot", timeout=60).json()["queues"]
        return sum(queue["ready"] + queue["running"] for queue in queues.values())

    return not waits() and not pause.wait(LOOK_EVERY_S) and not waits()


def done(folder: Path) -> list[tuple[float, str]]:
    """(when, run) of each time that a function did one."""
    lines = [line.split() for path in folder.glob("done-*") for line in path.read_text().splitlines()]
    return [(float(at), run_id) for at, run_id in lines]


def runs(client: httpx.Client) -> Counter[str]:
    """How many runs stand how, after how many attempts."""
    found: Counter[str] = Counter()
    cursor: str | None = None
    while True:
        query = {"limit": "500"} | ({"cursor": cursor} if cursor else {})
        page = client.get("/v1/runs", params=query, timeout=60).json()
        found.update(f"{run['status']} in {len(run['attempts'])}" for run in page["items"])
        cursor = page["next_cursor"]
        if cursor is None:
            return found


@contextmanager
def working(folder: Path, url: str, processes: int, slots: int) -> Iterator[None]:
    """So many `schedkit worker run`, ended in order afterwards."""
    env = environment(folder) | {"SCHEDKIT_URL": url}
    command = [sys.executable, "-m", "schedkit", "worker", "run", "worker:w", "--concurrency", str(slots), "-q"]
    workers = [subprocess.Popen(command, cwd=folder, env=env) for _ in range(processes)]
    try:
        yield
    finally:
        for worker in workers:
            worker.terminate()
        for worker in workers:
            worker.wait()


if __name__ == "__main__":
    main()
