"""Reports: how a simulation reads. Lags as bars of text or as a picture, faults in words, and the line that repeats it.

Pure functions; the picture needs matplotlib (the extra `plot`), which is imported when one is asked for.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple

from schedkit.errors import InvalidInput, Reason
from schedkit.model.time import HOUR_MS, MINUTE_MS, SECOND_MS
from schedkit.sim.faults import Fault
from schedkit.sim.simulation import DEFAULT_HOURS, DEFAULT_JOBS, DEFAULT_SLOTS, Settings

# Buckets of a histogram of lags: 1, 2, 5 of each decade up to a minute, then what clocks show. In ms.
BOUNDS_MS: Final = (
    *(step * 10**decade for decade in range(4) for step in (1, 2, 5)),
    10 * SECOND_MS,
    30 * SECOND_MS,
    *(minutes * MINUTE_MS for minutes in (1, 2, 5, 15, 30)),
    HOUR_MS,
)
EDGES_MS: Final = (-math.inf, 0, *BOUNDS_MS, math.inf)
EIGHTHS: Final = " ▏▎▍▌▋▊▉"
FULL: Final = "█"
ASCII: Final = "#"
SHORTEST_BAR: Final = 8

WORDS: Final[Mapping[Fault, str]] = {
    Fault.KILL: "processes are killed",
    Fault.CRASH: "processes die right before or after a write or a call",
    Fault.STOP: "processes are stopped and go on later",
    Fault.SKEW: "clocks are off and drift",
    Fault.EARLY: "sleeps end too early",
    Fault.LOSE: "requests and replies are lost",
    Fault.DELAY: "writes land after their caller gave up",
    Fault.THROTTLE: "store and queue refuse now and then",
    Fault.OUTAGE: "store, disk, buckets or queue are away",
    Fault.CUT: "one process is cut off from one server",
    Fault.STALE: "the timer index lags behind",
    Fault.DUPLICATE: "the queue delivers twice",
    Fault.CACHE: "the buckets are lost",
    Fault.QUEUE: "the queue is purged, and loses messages",
    Fault.TARGETS: "targets fail, hang, are slow or down",
}
# What the history calls what was done to the system; `boot`, `up` and the like are how it ends.
INJECTED: Final[Mapping[str, str]] = {
    "kill": "kills",
    "crash": "crash points hit",
    "stop": "stops",
    "skew": "clocks set",
    "cut": "cuts",
    "down": "outages",
    "lose_buckets": "bucket losses",
    "purge": "purges",
    "vanished": "messages gone",
    "request_lost": "requests lost",
    "reply_lost": "replies lost",
    "delayed": "late writes",
    "throttled": "refusals",
    "duplicate": "double deliveries",
}


class Bar(NamedTuple):
    """How many lags are at least `low_ms` and below `high_ms`. Below zero: started by a clock that was ahead."""

    low_ms: float
    high_ms: float
    runs: int


def bars(lags_ms: Sequence[int]) -> list[Bar]:
    """The lags by bucket, from the first bucket that has any to the last."""
    counts = [0] * (len(EDGES_MS) - 1)
    for lag_ms in lags_ms:
        counts[bisect_right(EDGES_MS, lag_ms) - 1] += 1
    filled = [place for place, count in enumerate(counts) if count]
    if not filled:
        return []
    return [Bar(EDGES_MS[place], EDGES_MS[place + 1], counts[place]) for place in range(filled[0], filled[-1] + 1)]


def histogram(lags_ms: Sequence[int], width: int, *, plain: bool = False) -> list[str]:
    """One line for each bucket: its span, how many, and a bar. `width` is of the whole line; `plain` is ASCII."""
    found = bars(lags_ms)
    names = [_span(bar) for bar in found]
    counts = [f"{bar.runs:,}" for bar in found]
    left, right = max(map(len, names), default=0), max(map(len, counts), default=0)
    room = max(SHORTEST_BAR, width - left - right - 4)
    most = max((bar.runs for bar in found), default=1)
    return [
        f"{name:<{left}}  {count:>{right}}  {_drawn(bar.runs / most, room, plain)}".rstrip()
        for name, count, bar in zip(names, counts, found, strict=True)
    ]


def _span(bar: Bar) -> str:
    if bar.high_ms == 0:
        return "early: clock ahead"
    if bar.low_ms == 0:
        return f"under {_short(bar.high_ms)}"
    if bar.high_ms == math.inf:
        return f"over {_short(bar.low_ms)}"
    low, high = _short(bar.low_ms), _short(bar.high_ms)
    return f"{low} to {high}" if low.split()[1] != high.split()[1] else f"{low.split()[0]} to {high}"


def _short(span_ms: float) -> str:
    for unit, size in (("h", HOUR_MS), ("min", MINUTE_MS), ("s", SECOND_MS)):
        if span_ms >= size:
            return f"{span_ms / size:g} {unit}"
    return f"{span_ms:g} ms"


def _drawn(share: float, room: int, plain: bool) -> str:
    """A bar; what is not nothing shows at least as its thinnest sign."""
    if plain:
        return ASCII * (max(1, round(share * room)) if share else 0)
    eighths = max(1, round(share * room * 8)) if share else 0
    return FULL * (eighths // 8) + (EIGHTHS[eighths % 8] if eighths % 8 else "")


def share_within(lags_ms: Sequence[int], bound_ms: int) -> float:
    """Which share of them is not later than this; 1.0 of nothing."""
    return sum(lag <= bound_ms for lag in lags_ms) / len(lags_ms) if lags_ms else 1.0


def injected(faults: Mapping[str, int]) -> dict[str, int]:
    """What was done to the system, in words; what brings it back is left out."""
    by_chance = {**faults, "kill": faults.get("kill", 0) - faults.get("crash", 0)}  # a crash point kills too
    return {words: by_chance[name] for name, words in INJECTED.items() if by_chance.get(name, 0) > 0}


def repeat(settings: Settings) -> str:
    """The command line that does the same again, step by step."""
    parts = [f"schedkit sim run --seed {settings.seed}"]
    if settings.hours != DEFAULT_HOURS:
        parts.append(f"--hours {settings.hours:g}")
    if settings.jobs != DEFAULT_JOBS:
        parts.append(f"--jobs {settings.jobs}")
    if settings.slots != DEFAULT_SLOTS:
        parts.append(f"--slots {settings.slots}")
    if settings.profile is not None:
        parts.append(f"--profile {settings.profile}")
    if settings.faults is not None:
        chosen = frozenset(settings.faults)
        parts.append(f"--faults {'all' if chosen == frozenset(Fault) else ','.join(sorted(chosen)) or 'none'}")
    return " ".join(parts)


# The picture


def check_picture(path: Path) -> None:
    """Raises InvalidInput where a picture could not be made, before anything is simulated."""
    if find_spec("matplotlib") is None:
        raise InvalidInput(
            Reason.INVALID_ARGUMENT,
            "a picture needs matplotlib, which is not installed",
            field="--png",
            fix=("pip install 'schedkit[plot]'", "leave out --png: the bars are in the text too"),
        )
    if path.suffix.lower() != ".png":
        raise InvalidInput(
            Reason.INVALID_ARGUMENT,
            f"the picture is a PNG file, and {path.name!r} does not end in .png",
            field="--png",
            fix=(f"--png {path.with_suffix('.png')}",),
        )


def picture(path: Path, heading: str, panels: Mapping[str, Sequence[int]]) -> None:
    """One histogram for each panel, on the same scales. Raises InvalidInput where the file cannot be written."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    shown = {title: bars(lags_ms) for title, lags_ms in panels.items()}
    edges = sorted({bar.low_ms for found in shown.values() for bar in found})
    figure = Figure(figsize=(1.5 + 5.5 * len(panels), 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(heading)
    axes = figure.subplots(1, len(panels), sharex=True, sharey=True, squeeze=False)[0]
    for ax, (title, found) in zip(axes, shown.items(), strict=True):
        heights = {bar.low_ms: bar for bar in found}
        names = {bar.low_ms: _span(bar) for other in shown.values() for bar in other}
        counts = [heights[edge].runs if edge in heights else 0 for edge in edges]
        ax.barh(range(len(edges)), counts, color="#3b6ea5")
        ax.set_yticks(range(len(edges)), [names[edge] for edge in edges])
        ax.set_title(title)
        ax.set_xlabel("runs")
    axes[0].set_ylabel("how late")
    axes[0].invert_yaxis()  # of all of them: they share it
    try:
        figure.savefig(path, dpi=110, format="png")
    except OSError as error:
        raise InvalidInput(
            Reason.INVALID_ARGUMENT, f"{path} cannot be written: {error.strerror}", field="--png"
        ) from error
