"""The rounds: the simulations that every mutant goes through, the same for all of them.

Each kind of bug shows in some weather only, so the rounds go round: loud storms first, then bounds on lateness.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from schedkit.sim.simulation import Settings

FIRST_SEED: Final = 1_000
HOURS: Final = 0.8


class Round(NamedTuple):
    """One world: a profile, faults and verbs of users with commas; an empty text leaves it to the seed."""

    profile: str = ""
    faults: str = ""
    verbs: str = ""

    def __str__(self) -> str:
        return f"{self.profile or 'any'}: {self.faults or 'drawn'}{self.verbs and f', users {self.verbs}'}"


ROUNDS: Final = (
    Round("small", "crash,stop,delay,targets"),
    Round("cell", "lose,delay,queue,targets"),
    Round("cell", "duplicate,queue,targets"),
    Round("embedded", "crash,skew,early"),
    Round("small", "stop,kill,targets"),
    Round("cell", "none", "pause"),
    Round("cell", "lose,queue,outage"),
    Round(),
    Round("cell", "stop,skew,targets"),
    Round("embedded", "targets", "trigger,look"),
    Round("embedded", "crash,outage,targets"),
    Round(),
)


def settings_of(number: int, first_seed: int = FIRST_SEED, hours: float = HOURS) -> Settings:
    """The settings of a round, counted from 0; after the last comes the first again, with another seed."""
    from schedkit.sim.faults import Profile, faults_of
    from schedkit.sim.simulation import Settings
    from schedkit.sim.users import VERBS

    world = ROUNDS[number % len(ROUNDS)]
    return Settings(
        seed=first_seed + number,
        hours=hours,
        profile=Profile(world.profile) if world.profile else None,
        faults=faults_of(world.faults) if world.faults else None,
        verbs=tuple(world.verbs.split(",")) if world.verbs else VERBS,
    )
