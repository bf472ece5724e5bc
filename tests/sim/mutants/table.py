"""What came of the hunts: one row for each mutant, as text or as the table of a page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tests.sim.mutants.mutant import Mutant

MOST_CHECKS = 4  # told in a row; loud mutants fail a dozen


@dataclass(frozen=True, slots=True)
class Hunted:
    """`caught_at`: the number of the simulation, from 1 on; None where every one of them passed."""

    mutant: Mutant
    caught_at: int | None
    checks: tuple[str, ...]
    cpu_s: float
    trouble: str = ""

    @property
    def told(self) -> str:
        if self.trouble:
            return self.trouble
        if self.caught_at is not None:
            return f"caught at {self.caught_at}"
        return "equivalent" if self.mutant.equivalent else "NOT CAUGHT"

    @property
    def good(self) -> bool:
        """It was caught, or nobody could catch it; one that is said to be equivalent and is not must be looked at."""
        return not self.trouble and (self.caught_at is None) == bool(self.mutant.equivalent)

    @property
    def by(self) -> str:
        """Which checks noticed it; of an equivalent one, why none could."""
        if self.mutant.equivalent and self.caught_at is None:
            return self.mutant.equivalent
        more = len(self.checks) - MOST_CHECKS
        return ", ".join(self.checks[:MOST_CHECKS]) + (f" and {more} more" if more > 0 else "")


def line(hunted: Hunted) -> str:
    return f"{hunted.mutant.name:<30} {hunted.told:<14} {hunted.cpu_s:>6.1f} s  {hunted.by}"


def markdown(all_hunted: Iterable[Hunted]) -> str:
    """The table for a page."""
    rows = ["| Mutant | What is broken | Caught in simulation | By |", "|---|---|---|---|"]
    for hunted in all_hunted:
        at = str(hunted.caught_at) if hunted.caught_at is not None else hunted.told
        rows.append(f"| `{hunted.mutant.name}` | {hunted.mutant.why} | {at} | {hunted.by} |")
    return "\n".join(rows)


def summary(all_hunted: Sequence[Hunted], sims: int) -> str:
    """How many of those that can be caught were."""
    real = [hunted for hunted in all_hunted if not hunted.mutant.equivalent]
    caught = [hunted for hunted in real if hunted.caught_at is not None]
    at_first = sum(hunted.caught_at == 1 for hunted in caught)
    return (
        f"{len(caught)} of {len(real)} caught within {sims} simulations, {at_first} of them in the first; "
        f"{len(all_hunted) - len(real)} equivalent; {sum(hunted.cpu_s for hunted in all_hunted):.0f} CPU s"
    )
