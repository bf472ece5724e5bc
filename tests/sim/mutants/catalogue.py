"""Every mutant there is, by the question that its code answers: who, when, what if it fails; and for workers."""

from __future__ import annotations

from typing import Final

from tests.sim.mutants.backfill import BACKFILLS
from tests.sim.mutants.failure import FAILURE
from tests.sim.mutants.mutant import Mutant
from tests.sim.mutants.redrive import REDRIVES
from tests.sim.mutants.when import WHEN
from tests.sim.mutants.who import WHO
from tests.sim.mutants.work import WORK

MUTANTS: Final[tuple[Mutant, ...]] = (*WHO, *WHEN, *FAILURE, *WORK, *REDRIVES, *BACKFILLS)
