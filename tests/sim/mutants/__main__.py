"""The power of the checker: which mutants does it notice, by which of its checks, within how many simulations?

    python -m tests.sim.mutants [NAMES…] [--sims 12] [--workers 2] [--from-seed N] [--hours H] [--markdown]

Exit code 0: the code as it is passes every simulation, and every mutant that is not equivalent fails one of them.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from tests.sim.mutants.catalogue import MUTANTS
from tests.sim.mutants.hunt import FOUND
from tests.sim.mutants.mutant import Mutant
from tests.sim.mutants.rounds import FIRST_SEED, HOURS, ROUNDS
from tests.sim.mutants.table import Hunted, line, markdown, summary

SECONDS_FOR_ONE: Final = 120  # a simulation takes some; a mutant that makes it spin is stopped


def main(arguments: Sequence[str]) -> int:
    """Returns the exit code."""
    asked = _parser().parse_args(arguments)
    if unknown := sorted(set(asked.names) - {mutant.name for mutant in MUTANTS}):
        sys.stderr.write(f"there is no mutant {unknown[0]!r}\n")
        return 2
    chosen = [mutant for mutant in MUTANTS if mutant.name in asked.names or not asked.names]
    known = _baseline(asked)
    with ThreadPoolExecutor(asked.workers) as workers:
        all_hunted = []
        for hunted in workers.map(lambda mutant: hunt(mutant, asked, known or ()), chosen):
            all_hunted.append(hunted)
            _say(line(hunted))
    _say(summary(all_hunted, asked.sims))
    if asked.markdown:
        sys.stdout.write(markdown(all_hunted) + "\n")
    return 0 if known == [] and all(hunted.good for hunted in all_hunted) else 1


def hunt(mutant: Mutant, asked: argparse.Namespace, known: Sequence[str]) -> Hunted:
    """Simulate in another process until the checker notices this mutant."""
    sims, trouble = _simulations(mutant.name, asked, known)
    checks = tuple(f"{invariant} {check}" for invariant, check in (sims[-1]["checks"] if sims else ()))
    return Hunted(mutant, len(sims) if checks else None, checks, sum(told["cpu_s"] for told in sims), trouble)


def _baseline(asked: argparse.Namespace) -> list[str] | None:
    """What fails without a mutant, which proves nothing about one, as SEED:CHECK; None where it did not get through."""
    sims, trouble = _simulations("", asked)
    for number, told in enumerate(sims):
        if told["checks"]:
            _say(f"without a mutant, {ROUNDS[number % len(ROUNDS)]}, seed {told['seed']}: {told['text']}")
    if trouble:
        _say(f"without a mutant: {trouble}")
        return None
    known = [f"{told['seed']}:{check}" for told in sims for _, check in told["checks"]]
    if not known:
        _say(
            f"without a mutant {len(sims)} simulations find nothing, in {sum(told['cpu_s'] for told in sims):.0f} CPU s"
        )
    return known


def _simulations(name: str, asked: argparse.Namespace, known: Sequence[str] = ()) -> tuple[list[dict[str, Any]], str]:
    """(what each simulation told, why it ended before its time)."""
    command = [sys.executable, "-m", "tests.sim.mutants.hunt", *([name] if name else []), "--sims", str(asked.sims)]
    command += ["--from-seed", str(asked.from_seed), "--hours", str(asked.hours)]
    command += [part for each in known for part in ("--known", each)]
    fixed = os.environ | {"PYTHONHASHSEED": "0"}  # a mutant that uses hash() does the same each time
    try:
        done = subprocess.run(
            command, env=fixed, capture_output=True, text=True, timeout=SECONDS_FOR_ONE * asked.sims, check=False
        )
    except subprocess.TimeoutExpired as late:
        told = late.stdout.decode() if isinstance(late.stdout, bytes) else late.stdout or ""
        return [json.loads(told_of_one) for told_of_one in told.splitlines()], "took too long"
    sims = [json.loads(told_of_one) for told_of_one in done.stdout.splitlines()]
    why = done.stderr.strip().splitlines()[-1:] or ["ended without a word"]
    return sims, "" if done.returncode in (0, FOUND) and sims else why[0]


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.sim.mutants")
    parser.add_argument("names", nargs="*", help="the mutants to hunt; all of them where none is named")
    parser.add_argument("--sims", type=int, default=len(ROUNDS), help="simulations for each, at most")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--from-seed", type=int, default=FIRST_SEED)
    parser.add_argument("--hours", type=float, default=HOURS)
    parser.add_argument("--markdown", action="store_true", help="the table for a page, on standard output")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
