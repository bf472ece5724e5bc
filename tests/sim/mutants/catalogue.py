"""Every mutant there is, by the question that its code answers: who, when, what if it fails."""

from __future__ import annotations

from typing import Final

from tests.sim.mutants.failure import FAILURE
from tests.sim.mutants.mutant import Mutant
from tests.sim.mutants.when import WHEN
from tests.sim.mutants.who import WHO

MUTANTS: Final[tuple[Mutant, ...]] = (*WHO, *WHEN, *FAILURE)
