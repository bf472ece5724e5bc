"""The flags of simulations: what was asked for, refused by name before anything runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from schedkit.cli import values
from schedkit.errors import InvalidInput, Reason

if TYPE_CHECKING:
    from schedkit.sim.faults import Fault
    from schedkit.sim.simulation import Settings

LONGEST_HOURS: Final = 168.0
MOST_JOBS: Final = 10_000
MOST_SLOTS: Final = 10_000
MOST_SEEDS: Final = 1_000_000
DEFAULT_SEEDS: Final = 20
PROFILES: Final = ("embedded", "small", "cell")


def settings(
    seed: int,
    hours: float | None,
    jobs: int | None,
    slots: int | None,
    profile: str | None,
    faults: str | None,
) -> Settings:
    """The settings of one simulation. Raises InvalidInput, naming the flag, before anything runs."""
    check_count("--seed", seed, 0, None)
    if hours is not None and not 0 < hours <= LONGEST_HOURS:
        raise InvalidInput(
            Reason.INVALID_ARGUMENT,
            f"--hours is more than 0 and at most {LONGEST_HOURS:g}, not {hours:g}",
            field="--hours",
            fix=("more seeds find more than more hours do: schedkit sim swarm",),
        )
    check_count("--jobs", jobs, 1, MOST_JOBS)
    check_count("--slots", slots, 1, MOST_SLOTS)
    known = values.choice(profile, PROFILES, "--profile") if profile is not None else None
    from schedkit.sim.faults import Profile
    from schedkit.sim.faults import faults_of as read_faults
    from schedkit.sim.simulation import DEFAULT_HOURS, DEFAULT_JOBS, DEFAULT_SLOTS, Settings

    chosen = read_faults(faults) if faults is not None else None
    where = Profile(known) if known is not None else None
    if chosen is not None and where is not None and faults != "all":
        _check_possible(chosen, where)
    return Settings(
        seed=seed,
        hours=DEFAULT_HOURS if hours is None else hours,
        jobs=DEFAULT_JOBS if jobs is None else jobs,
        slots=DEFAULT_SLOTS if slots is None else slots,
        profile=where,
        faults=chosen,
    )


def _check_possible(chosen: Iterable[Fault], where: Any) -> None:
    from schedkit.sim.faults import Fault, possible_in

    impossible = sorted(fault for fault in chosen if not possible_in(fault, where))
    if impossible:
        possible = ", ".join(fault for fault in Fault if possible_in(fault, where))
        raise InvalidInput(
            Reason.INVALID_ARGUMENT,
            f"{impossible[0]} cannot happen to the {where} profile",
            field="--faults",
            fix=(f"some of: {possible}", "--profile cell"),
        )


def check_count(flag: str, value: int | None, least: int, most: int | None) -> None:
    """Refuse a number out of its bounds."""
    if value is not None and (value < least or (most is not None and value > most)):
        bound = f"at least {least:,}" if most is None else f"{least:,} to {most:,}"
        raise InvalidInput(Reason.INVALID_ARGUMENT, f"{flag} is {bound}, not {value:,}", field=flag)


def bounded_ms(text: str, flag: str, least_ms: int, most_ms: int, bound: str) -> int:
    """A duration between two bounds."""
    span_ms = values.duration_ms(text, flag)
    if not least_ms <= span_ms <= most_ms:
        raise InvalidInput(Reason.INVALID_ARGUMENT, f"{flag} is {bound}, not {text}", field=flag)
    return span_ms


def window_ms(text: str, flag: str) -> int:
    """A dispatch window that can be simulated."""
    return bounded_ms(text, flag, 1_000, 3_600_000, "1s to 1h")


def check_files(png: Path | None, history: Path | None) -> None:
    """Refuse what could not be written, before minutes are spent on it."""
    if png is not None:
        from schedkit.sim.report import check_picture

        check_picture(png)
    for flag, path in (("--png", png), ("--history", history)):
        if path is not None and (path.is_dir() or not path.parent.is_dir()):
            why = "it is a folder" if path.is_dir() else f"there is no folder {path.parent}"
            raise InvalidInput(Reason.INVALID_ARGUMENT, f"{path} cannot be written: {why}", field=flag)


def write_history(write: Callable[[Path], None], path: Path) -> None:
    """Write it, or say why it cannot be."""
    try:
        write(path)
    except OSError as error:
        told = f"{path} cannot be written: {error.strerror}"
        raise InvalidInput(Reason.INVALID_ARGUMENT, told, field="--history") from error


def seeds(seeds: int | None, first: int | None, file: Path | None) -> Sequence[int]:
    """The seeds of a swarm, from a file or in a row."""
    check_count("--seeds", seeds, 1, MOST_SEEDS)
    check_count("--from", first, 0, None)
    if file is None:
        start = 1 if first is None else first
        return range(start, start + (DEFAULT_SEEDS if seeds is None else seeds))
    if seeds is not None or first is not None:
        raise InvalidInput(
            Reason.INVALID_ARGUMENT, "the seeds come from a file or from --from and --seeds", field="--seeds-file"
        )
    from schedkit.sim.swarm import read_seeds

    return read_seeds(file)
