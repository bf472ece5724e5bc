"""How many runs of lost workers may be given to others now: few, and none while it may be us who are lost (H6).

Leases that end together hardly ever mean that as many workers died: it is our own API, or the way to it, that is away.
Each run taken from a worker that is alive is a second copy of a long job. So

    no worker heard of in the last 30 s                      none: nobody could take them either
    more than 50 of them, and more than 5 % of all leases    none, until heartbeats have been well for 30 s
    more than 10, and fewer than half of the heartbeats      none, until they have been well for 30 s
        that the live leases promise
    otherwise                                                1 % of the live leases in 10 s, and 10 at least
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from schedkit.model.time import SECOND_MS, Instant

HEARD_WITHIN_MS: Final = 30 * SECOND_MS
WELL_FOR_MS: Final = 30 * SECOND_MS
HEARTBEAT_EVERY_MS: Final = 10 * SECOND_MS  # what a worker is told at most, so each live lease promises this much
WINDOW_MS: Final = 10 * SECOND_MS
SHARE_A_WINDOW: Final = 0.01
LEAST_A_WINDOW: Final = 10
MASS_SHARE: Final = 0.05
MASS_LEAST: Final = 50  # below this a share says nothing: one worker's death is a large share of few leases
PROMISE_KEPT: Final = 0.5

NOBODY_HEARD: Final = "no worker has been heard of for 30 s"
MASS_EXPIRY: Final = "too many leases ended together"
HEARTBEATS_MISSING: Final = "fewer than half of the heartbeats arrive"
RECOVERING: Final = "heartbeats are back, for less than 30 s so far"


@dataclass(frozen=True, slots=True)
class Census:
    """What one pass finds: leases that live, leases that have ended, and what was heard in the last 30 s."""

    live: int
    ended: int
    heartbeats: int
    heard: bool


@dataclass(frozen=True, slots=True)
class Pace:
    """What is remembered from pass to pass. `suspended` says why nothing is given back, or is None."""

    suspended: str | None = NOBODY_HEARD
    well_since: Instant | None = None
    draining: bool = False  # what ended together is being given back, at the capped rate
    window_began: Instant = 0
    given_back: int = 0  # in this window


def paced(pace: Pace, census: Census, now: Instant) -> tuple[Pace, int]:
    """(what to remember, how many may be given back now). What was given back is told by `spent`."""
    if (trouble := _trouble(census)) is not None:
        return replace(pace, suspended=trouble, well_since=None), 0
    well_since = min(now, pace.well_since if pace.well_since is not None else now)
    mass = census.ended > max(MASS_LEAST, MASS_SHARE * (census.live + census.ended))
    if mass and pace.suspended is None and not pace.draining:
        return replace(pace, suspended=MASS_EXPIRY, well_since=now), 0
    if pace.suspended is not None and now - well_since < WELL_FOR_MS:
        why = MASS_EXPIRY if pace.suspended == MASS_EXPIRY else RECOVERING
        return replace(pace, suspended=why, well_since=well_since), 0
    cap = max(LEAST_A_WINDOW, int(SHARE_A_WINDOW * census.live))
    if not 0 <= now - pace.window_began < WINDOW_MS:
        pace = replace(pace, window_began=now, given_back=0)
    going = replace(pace, suspended=None, well_since=well_since, draining=mass)
    return going, min(census.ended, max(0, cap - pace.given_back))


def heartbeat_every_ms(lease_ms: int) -> int:
    """What a worker is told: two heartbeats may be lost before its lease is."""
    return min(HEARTBEAT_EVERY_MS, lease_ms // 3)


def spent(pace: Pace, given_back: int) -> Pace:
    """So many were given back."""
    return replace(pace, given_back=pace.given_back + given_back)


def _trouble(census: Census) -> str | None:
    if not census.heard:
        return NOBODY_HEARD
    promised = census.live * HEARD_WITHIN_MS // HEARTBEAT_EVERY_MS
    if census.ended > LEAST_A_WINDOW and census.heartbeats < PROMISE_KEPT * promised:
        return HEARTBEATS_MISSING
    return None
