"""What can go wrong in a simulation, and which of it does: a seed draws its profile, its faults and their rates.

Each seed enables some kinds of fault only (a swarm): with all of them on at once, the louder ones hide the others.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import Final

from schedkit.errors import InvalidInput, Reason
from schedkit.model.time import MINUTE_MS, SECOND_MS

SKEW_MS: Final = 2_000  # no clock of a simulation is further off than this, so two differ by less than the 5 s margin
RESTART_MS: Final = 20 * SECOND_MS  # a process that was killed is back within this
LONGEST_TIMEOUT_MS: Final = 60 * SECOND_MS
LONGEST_OUTAGE_MS: Final = 90 * SECOND_MS
LONGEST_STOP_MS: Final = 150 * SECOND_MS  # outlasts the lease of a call with a timeout below 90 s
APART_MS: Final = (
    3 * SECOND_MS
)  # where each node has a queue of its own, a worker's poll looks at the others' this often
LEASE_AND_MARGIN_MS: Final = 65 * SECOND_MS  # beyond the timeout of the call
SWEEP_MS: Final = 185 * SECOND_MS  # a timer that was lost is found within this: age 1 min, a pass, a stale index
LOST_AGAIN_MS: Final = 570 * SECOND_MS  # … also where what was found is lost three times more: age 8 min, a pass


class Profile(StrEnum):
    """Which processes there are, and what they share."""

    EMBEDDED = "embedded"  # one process with everything; a restart takes over from its predecessor
    SMALL = "small"  # three processes with everything over one store
    CELL = "cell"  # loader, dispatchers, executors and API apart; store, buckets and queue are servers


class Fault(StrEnum):
    KILL = "kill"  # kill -9 at random moments
    CRASH = "crash"  # kill -9 right before or right after a call of a port took effect
    STOP = "stop"  # SIGSTOP at random moments and at calls of a port, for less or more than a lease
    SKEW = "skew"  # clocks that are off, drift, and are set at random moments and at calls of a port
    EARLY = "early"  # timers of the event loop that fire up to a millisecond early
    LOSE = "lose"  # requests or replies lost on the way to store, buckets, queue, API
    DELAY = "delay"  # writes that land after their caller gave up
    THROTTLE = "throttle"  # the store and the queue refuse for a moment
    OUTAGE = "outage"  # a server away for everybody: a full disk, a region's bad minute
    CUT = "cut"  # one process cut off from one server
    STALE = "stale"  # the timer index lags behind: 50 ms, and now and then 20 s
    DUPLICATE = "duplicate"  # the queue delivers twice, and out of order
    CACHE = "cache"  # the buckets are lost: all of them, or some
    QUEUE = "queue"  # the queue is purged, or loses what it has taken in
    TARGETS = "targets"  # targets that fail, hang, are slow or down


ALONE: Final = (  # what can happen to a scheduler that is one process with a file
    Fault.KILL,
    Fault.CRASH,
    Fault.STOP,
    Fault.SKEW,
    Fault.EARLY,
    Fault.OUTAGE,
    Fault.TARGETS,
)
NOT_SHARED: Final = (Fault.DUPLICATE, Fault.CACHE, Fault.QUEUE)  # they die with their process where each has its own


@dataclass(frozen=True, slots=True)
class Weather:
    """The faults of one run and how often they come. Times in ms; probabilities for each message."""

    profile: Profile
    faults: frozenset[Fault]
    mode: str
    every_ms: int = 60 * SECOND_MS  # mean time between two kills, stops, cuts, outages …
    crash: float = 0.0
    stop: float = 0.0
    skew: float = 0.0
    lose: float = 0.0
    delay: float = 0.0
    throttle: float = 0.0
    duplicate: float = 0.0
    vanish: float = 0.0

    def __contains__(self, fault: Fault) -> bool:
        return fault in self.faults

    @property
    def names(self) -> list[str]:
        return sorted(fault.value for fault in self.faults)

    @property
    def late_ms(self) -> int | None:
        """How late a first call may start before the storm is over; None where faults may follow each other."""
        bounds = {
            Fault.EARLY: 2 * SECOND_MS,
            Fault.TARGETS: 2 * SECOND_MS,
            Fault.DUPLICATE: 2 * SECOND_MS,
            Fault.SKEW: 2 * SKEW_MS + 2 * SECOND_MS,
            Fault.CACHE: SWEEP_MS,
            Fault.QUEUE: LOST_AGAIN_MS,
            Fault.LOSE: SWEEP_MS,
            Fault.DELAY: SWEEP_MS,
            Fault.THROTTLE: SWEEP_MS,
            Fault.STALE: SWEEP_MS,
        }
        if not self.faults <= bounds.keys():
            return None
        return self._apart_ms + max([bounds[fault] for fault in self.faults], default=2 * SECOND_MS)

    @property
    def recover_ms(self) -> int:
        """How long after the storm everything that was due before has been called."""
        if not self.faults:
            return MINUTE_MS
        return LONGEST_TIMEOUT_MS + LEASE_AND_MARGIN_MS + SWEEP_MS + RESTART_MS + 2 * SKEW_MS

    @property
    def calm_ms(self) -> int:
        """How late a first call may start once the storm and its traces are over."""
        return 2 * SECOND_MS + self._apart_ms + (2 * SKEW_MS if Fault.SKEW in self.faults else 0)

    @property
    def _apart_ms(self) -> int:
        return APART_MS if self.profile is Profile.SMALL else 0


def drawn(seed: int, profile: Profile | None = None, faults: Iterable[Fault] | None = None) -> Weather:
    """The weather of a seed; what is given is not drawn."""
    chance = Random(f"{seed}/weather")
    which = chance.choices([Profile.CELL, Profile.SMALL, Profile.EMBEDDED], [5, 3, 2])[0]
    profile = profile or which
    possible = [fault for fault in Fault if possible_in(fault, profile)]
    mode = chance.choices(["swarm", "crash", "single", "all", "calm"], [8, 4, 3, 2, 1])[0]
    some = [fault for fault in possible if chance.random() < 0.5]
    one = chance.choice(possible)
    if faults is not None:
        mode, chosen = "chosen", [fault for fault in faults if fault in possible]
    elif mode == "crash":
        chosen = [Fault.CRASH, *(fault for fault in some if chance.random() < 0.4)]
    else:
        chosen = {"swarm": some, "single": [one], "all": possible, "calm": []}[mode]
    on = frozenset(chosen)
    rare = chance.uniform(0.2, 1.0)
    return Weather(
        profile=profile,
        faults=on,
        mode=mode,
        every_ms=round(chance.uniform(30, 120) * SECOND_MS),
        crash=0.002 * rare if Fault.CRASH in on else 0.0,
        stop=0.001 * rare if Fault.STOP in on else 0.0,
        skew=0.002 * rare if Fault.SKEW in on else 0.0,
        lose=0.02 * rare if Fault.LOSE in on else 0.0,
        delay=0.02 * rare if Fault.DELAY in on else 0.0,
        throttle=0.03 * rare if Fault.THROTTLE in on else 0.0,
        duplicate=0.02 * rare if Fault.DUPLICATE in on else 0.0,
        vanish=0.03 + 0.02 * rare if Fault.QUEUE in on else 0.0,
    )


def possible_in(fault: Fault, profile: Profile) -> bool:
    """Whether a fault can happen at all where this is what runs."""
    if profile is Profile.EMBEDDED:
        return fault in ALONE
    return profile is Profile.CELL or fault not in NOT_SHARED


def faults_of(text: str) -> frozenset[Fault]:
    """`all`, `none`, or names with commas. Raises InvalidInput for a name that is none."""
    if text in ("all", "none"):
        return frozenset(Fault) if text == "all" else frozenset()
    names = [name.strip() for name in text.split(",")]
    unknown = [name for name in names if name not in list(Fault)]
    if unknown:
        raise InvalidInput(
            Reason.INVALID_ARGUMENT,
            f"there is no fault {unknown[0]!r}",
            field="--faults",
            fix=(f"all, none, or some of: {', '.join(Fault)}",),
        )
    return frozenset(Fault(name) for name in names)
