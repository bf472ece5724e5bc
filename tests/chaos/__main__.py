"""Chaos runs with real processes.

    python -m tests.chaos --runs 3 --seconds 120 [--seed N] [--out DIR]

One line a run; exit code 1 where anything was wrong, with the history that shows it. A run takes its seconds, and then
as long as it takes until everything that was due has ended: leases of killed processes are over after a good minute.
"""

from __future__ import annotations

import argparse
import os
import secrets
import signal
import sys
import tempfile
from collections import Counter
from pathlib import Path

import orjson

from tests.chaos.harness import run

SHOWN = 20


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--runs", type=int, default=3)
    options.add_argument("--seconds", type=float, default=120.0, help="of load and faults, for each run")
    options.add_argument("--seed", type=int, help="of the first run; each next one adds one")
    options.add_argument("--out", type=Path, help="where histories and logs go")
    chosen = options.parse_args()
    first = chosen.seed if chosen.seed is not None else secrets.randbelow(1_000_000)
    out = chosen.out or Path(tempfile.mkdtemp(prefix="chaos-"))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # by way of every `finally`: no process is left behind
    failed = 0
    for seed in range(first, first + chosen.runs):
        folder = out / f"seed-{seed}"
        folder.mkdir(parents=True)
        failed += _one(seed, chosen.seconds, folder)
    return 1 if failed else 0


def _one(seed: int, seconds: float, folder: Path) -> bool:
    """Run, print its line, and say what was wrong."""
    results = run(seed, seconds, folder)
    total: Counter[str] = Counter()
    for _, judgement, _ in results:
        total.update(judgement.figures)
    wrong = sum(len(judgement.wrong) for _, judgement, _ in results)
    print(
        f"seed {seed}  jobs {total['jobs']}  runs {total['runs']}  calls {total['calls']}  duplicates"
        f" {total['explained']} explained {total['unexplained']} unexplained  stale writes refused {total['stale']}"
        f"  kills {total['kills']}  stops {total['stops']}  full disks {total['full_disks']}"
        f" (503: {total['unavailable']})  lost {total['lost']}  early {total['early']}  wrong {wrong}"
        f"  load {os.getloadavg()[0]:.1f}",
        flush=True,
    )
    report = {system.kind: vars(judgement) for system, judgement, _ in results}
    (folder / "report.json").write_bytes(orjson.dumps(report, option=orjson.OPT_INDENT_2, default=str))
    for _, judgement, path in results:
        if judgement.wrong:
            print(f"  {path}", *judgement.wrong[:SHOWN], sep="\n    ", flush=True)
            if (left := len(judgement.wrong) - SHOWN) > 0:
                print(f"    and {left} more", flush=True)
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
