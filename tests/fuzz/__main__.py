"""Fuzz the API by its own OpenAPI document, with and without keys: python -m tests.fuzz --seed 7 --examples 100

Exit code 1 when something was found. The seed that is printed repeats a run.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from pathlib import Path

from schedkit.api.access import Auth
from tests.fuzz.run import fuzz


def main() -> int:
    options = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    options.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    options.add_argument("--examples", type=int, default=50, help="drawn for each operation")
    options.add_argument("--auth", choices=[auth.value for auth in Auth], action="append", help="default: each")
    options.add_argument("--only", help="a regular expression of paths")
    chosen = options.parse_args()
    worst = 0
    for auth in chosen.auth or list(Auth):
        print(f"seed {chosen.seed}, auth {auth}", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            done = fuzz(Path(folder), Auth(auth), seed=chosen.seed, examples=chosen.examples, only=chosen.only)
        worst = max(worst, done.returncode)
    return worst


if __name__ == "__main__":
    sys.exit(main())
