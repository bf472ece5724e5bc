"""The hunt for one mutant, in a process of its own: turn it on, simulate until the checker notices, tell what it said.

    python -m tests.sim.mutants.hunt NAME [--sims N] [--from-seed N] [--hours H] [--known SEED:CHECK …] [--on]

One line of JSON for each simulation. Without a name nothing is turned on, and the hunt goes on whatever it finds. What
is known to fail without a mutant is not counted.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Sequence
from typing import Final

from tests.sim.mutants.catalogue import MUTANTS
from tests.sim.mutants.rounds import FIRST_SEED, HOURS, ROUNDS, settings_of
from tests.sim.mutants.switch import turn_on

FOUND: Final = 3  # an exit code that no exception has


def main(arguments: Sequence[str]) -> int:
    """Returns FOUND where something was."""
    asked = _parser().parse_args(arguments)
    by_name = {mutant.name: mutant for mutant in MUTANTS}
    if asked.name:
        turn_on(by_name[asked.name])
    from schedkit.sim.simulation import simulate

    random.seed(0)  # a mutant that draws by chance of its own draws the same each time
    found = False
    for number in range(asked.sims):
        started = time.process_time()
        settings = settings_of(number, asked.from_seed, asked.hours)
        every = simulate(settings).verdict.violations
        violations = [violation for violation in every if f"{settings.seed}:{violation.check}" not in asked.known]
        checks = sorted({(violation.invariant, violation.check) for violation in violations})
        told = {"seed": settings.seed, "checks": checks, "cpu_s": round(time.process_time() - started, 2)}
        sys.stdout.write(json.dumps(told | {"text": violations[0].text if violations else ""}) + "\n")
        sys.stdout.flush()
        found = found or bool(checks)
        if found and asked.name and not asked.on:
            break
    return FOUND if found else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.sim.mutants.hunt")
    parser.add_argument("name", nargs="?", default="", help="a mutant; none: the code as it is")
    parser.add_argument("--sims", type=int, default=len(ROUNDS))
    parser.add_argument("--from-seed", type=int, default=FIRST_SEED)
    parser.add_argument("--hours", type=float, default=HOURS)
    parser.add_argument("--known", action="append", default=[], metavar="SEED:CHECK")
    parser.add_argument("--on", action="store_true", help="go on after the first violation")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
