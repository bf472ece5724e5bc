"""Pages of simulations: what one seed did, what a swarm found, a history judged again, and a scenario's answer."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, Final

from schedkit.cli import show
from schedkit.cli.output import One, Screen

Doc = Mapping[str, Any]
Line = str | tuple[str, str]

WORLDS: Final = {
    "embedded": "one process with everything, over one file",
    "small": "three processes with everything, over one store",
    "cell": "eight processes over one store, one set of buckets and one queue",
}
PHASES: Final = {"all": "all runs", "before_heal": "while faults came", "after_recovery": "after recovery"}
MOST_TOLD: Final = 20  # violations in full; -o json has them all
NARROWEST_BARS: Final = 40
WIDEST_BARS: Final = 100
IN_A_PIPE: Final = 80
HELD: Final = "every promise held"


def run_page(screen: Screen, doc: Doc, repeat: str, lags_ms: Sequence[int], story: Sequence[str]) -> One:
    """One simulation; `story` is the timeline of the key that matters, if any."""
    lines: list[Line] = [
        ("seed", str(doc["seed"])),
        ("digest", str(doc["digest"])),
        ("world", f"{doc['profile']}: {WORLDS.get(doc['profile'], '')}"),
        ("time", f"{doc['hours']:g} h of virtual time in {_took(doc)}"),
        *_faults(doc["faults"]),
        *_figures(doc["figures"]),
        *_bars(screen, lags_ms),
        "",
        *_verdict(screen, doc["violations"], doc["figures"]),
        f"repeat it: {repeat}",
    ]
    return One(str(doc["schema"]), doc, lines + _story(story), "digest")


def _took(doc: Doc) -> str:
    machine = doc["machine"]
    return f"{machine['cpu_seconds']:.1f} s of one core, {machine['simulated_per_cpu_second']:,} times as fast"


def _faults(names: Sequence[str]) -> list[Line]:
    from schedkit.sim.faults import Fault
    from schedkit.sim.report import WORDS

    return [("fault", f"{name:<10}{WORDS[Fault(name)]}") for name in names] or [("fault", "none: a calm world")]


def _figures(figures: Doc) -> list[Line]:
    """What happened, as far as it was counted."""
    from schedkit.sim.report import injected

    runs, twice = figures.get("runs", {}), figures.get("duplicates", {})
    why = counts(twice.get("explained", {}))
    done = injected(figures.get("faults", {}))
    lines: list[Line] = [
        ("injected", counts(done) or "nothing"),
        ("jobs", f"{figures.get('jobs', 0):,}"),
        ("runs", f"{sum(runs.values()):,}" + (f": {counts(runs)}" if runs else "")),
        ("calls", f"{figures.get('calls', 0):,}, {figures.get('effects', 0):,} took effect"),
        ("called again", _again(sum(twice.get("explained", {}).values()), twice.get("unexplained", 0), why)),
        ("stale writes", _stale(figures.get("refused_stale", 0))),
    ]
    for phase, words in PHASES.items():
        if lag := (figures.get("lag") or {}).get(phase):
            lines.append(("late", f"p50 {_ms(lag['p50'])}   p99 {_ms(lag['p99'])}   max {_ms(lag['max'])}   {words}"))
    return lines


def _again(explained: int, unexplained: int, why: str = "") -> str:
    """Second calls of one attempt: each has its reason, or should not be."""
    if not explained and not unexplained:
        return "none"
    text = f"{explained:,} with a reason" + (f": {why}" if why else "")
    return text + (f"; {unexplained:,} WITHOUT a reason" if unexplained else "")


def _stale(refused: int) -> str:
    return f"{refused:,} refused: their writers had lost the run to another" if refused else "none came"


def _ms(span_ms: float) -> str:
    """A lag; below zero where a clock was ahead of the true time."""
    return f"{'-' if span_ms < 0 else ''}{show.span(span_ms)}".rjust(8)


def counts(found: Mapping[str, int]) -> str:
    """`12 kills, 3 stops`."""
    return ", ".join(f"{number:,} {name}" for name, number in found.items())


def _bars(screen: Screen, lags_ms: Sequence[int]) -> list[Line]:
    from schedkit.sim.report import histogram

    if not lags_ms:
        return []
    width = min(WIDEST_BARS, max(NARROWEST_BARS, screen.width)) if screen.terminal else IN_A_PIPE
    drawn = histogram(lags_ms, width - 2, plain=not screen.unicode)
    return ["", "how late runs started", *(f"  {line}" for line in drawn)]


def _verdict(screen: Screen, violations: Sequence[Doc], figures: Doc) -> list[Line]:
    """One line if all is well; else one for each promise that was broken."""
    if not violations:
        return [screen.paint(HELD, "green")]
    found = sum((figures.get("violations") or {}).values()) or len(violations)
    lines: list[Line] = [screen.paint(f"{show.count(found, 'violation')}: this must not happen", "red")]
    for violation in violations[:MOST_TOLD]:
        lines += _told(screen, violation)
    if found > MOST_TOLD:
        lines.append(f"  and {found - MOST_TOLD:,} more; -o json shows them")
    return lines


def _told(screen: Screen, violation: Doc) -> list[Line]:
    text = f"{violation['invariant']} {violation['check']}: {violation['text']}  ({violation['key']})"
    text = show.line(f"  {text}")
    if not screen.terminal:
        return [text]
    return list(textwrap.wrap(text, screen.width, subsequent_indent="      ", break_on_hyphens=False))


def _story(lines: Sequence[str]) -> list[Line]:
    return ["", *(show.line(line) for line in lines)] if lines else []


# Swarms


def failing_seed(doc: Doc) -> str:
    """`seed 12   I8 one_live_epoch (3)   schedkit sim run --seed 12`"""
    found = doc["figures"].get("violations") or {violation["check"]: 1 for violation in doc["violations"]}
    checks = ", ".join(f"{name} ({number})" for name, number in found.items())
    first = doc["violations"][0]
    why = f": {first['text']}" if doc["digest"] is None else ""
    return show.line(f"seed {doc['seed']} failed: {checks}{why}   repeat it: {doc['repeat']}")


def swarm_page(screen: Screen, doc: Doc, asked: int) -> One:
    """The summary of a swarm; failing seeds have been told before."""
    totals = doc["totals"]
    speed = doc["machine"]["simulated_per_cpu_second"]
    lines: list[Line] = [
        ("seeds", f"{totals['seeds']:,}" + (f" of {asked:,}" if asked != totals["seeds"] else "")),
        (
            "simulated",
            f"{totals['simulated_hours']:,.1f} h" + (f", {speed:,} s each second of a core" if speed else ""),
        ),
        ("runs", f"{totals['runs']:,}"),
        ("calls", f"{totals['calls']:,}"),
        ("called again", _again(totals["duplicates_explained"], totals["duplicates_unexplained"])),
        ("stale writes", _stale(totals["stale_writes_refused"])),
        ("injected", counts(totals["faults_injected"]) or "nothing"),
        ("crash points", _points(totals["crash_points"])),
    ]
    if totals["failed"]:
        lines.append(("violations", ", ".join(f"{name} {n:,}" for name, n in totals["violations"].items())))
        lines += ["", screen.paint(f"{totals['failed']:,} of {show.count(totals['seeds'], 'seed')} failed", "red")]
    else:
        lines += ["", screen.paint(HELD, "green")]
    return One(str(doc["schema"]), doc, lines, "totals.failed")


def _points(points: Mapping[str, int]) -> str:
    """At how many places processes died, and how often at the one where it happened least."""
    return f"{len(points):,} places, each hit at least {min(points.values()):,} times" if points else "none"


# Histories judged again


def replay_page(screen: Screen, doc: Doc, lags_ms: Sequence[int], story: Sequence[str]) -> One:
    """The verdict on a history from a file."""
    header = doc["header"]
    lines: list[Line] = [
        ("history", f"{doc['source']}, {show.count(doc['events'], 'event')}"),
        ("digest", doc["digest"]),
    ]
    if header.get("seed") is not None:
        lines.append(("seed", str(header["seed"])))
    if header.get("profile"):
        lines.append(("world", f"{header['profile']}: {WORLDS.get(header['profile'], '')}".rstrip(": ")))
    names = header.get("faults") or []
    lines.append(("faults", ", ".join(map(str, names)) or "none"))
    lines += [*_figures(doc["figures"]), *_bars(screen, lags_ms), ""]
    lines += _verdict(screen, doc["violations"], doc["figures"])
    return One(str(doc["schema"]), doc, lines + _story(story), "digest")


# Scenarios


def midnight_page(screen: Screen, doc: Doc, lags_ms: Mapping[str, Sequence[int]]) -> One:
    """What happened at midnight, window by window."""
    lines: list[Line] = [
        ("question", doc["question"]),
        ("scale", doc["scale"]),
        ("seed", str(doc["seed"])),
        *((("fault", words)) for words in doc["faults_in_words"]),
    ]
    for place, variant in enumerate(doc["variants"]):
        lines += ["", *_variant(screen, variant, lags_ms[variant["window"]], first=place == 0)]
    lines += ["", *textwrap.wrap(doc["answer"], screen.width if screen.terminal else 1_000)]
    return One(str(doc["schema"]), doc, lines, "answer")


def _variant(screen: Screen, variant: Doc, lags_ms: Sequence[int], *, first: bool) -> list[Line]:
    needed, had = variant["needed_per_second"], variant["had_per_second"]
    enough = "enough" if had >= needed else "too few"
    lines: list[Line] = [
        screen.paint(f"window {variant['window']}" + ("" if first else ", instead"), "bold"),
        ("  needed", f"{needed:,.0f} runs/s"),
        ("  had", f"{had:,.0f} runs/s: {enough}"),
        (
            "  executors",
            f"{variant['executors_needed']:,} needed, {variant['executors']:,} there; "
            f"{variant['strict_executors']:,} more for strict jobs",
        ),
        ("  started", f"{variant['started']:,} of {variant['due']:,}" + _ended(variant)),
    ]
    for who in ("crowd", "strict"):
        lag = variant["lag_ms"][who]
        if lag is None:
            continue
        kept = "kept" if variant["slo_kept"][who] else "MISSED"
        share = f"{variant['within_slo'][who]:.1%} within 1 s"
        text = f"p50 {_ms(lag['p50'])}   p99 {_ms(lag['p99'])}   max {_ms(lag['max'])}   {share}"
        lines.append((f"  {who} late", f"{text}   p99 within 1 s: {kept}"))
    return [*lines, *_bars(screen, lags_ms)]


def _ended(variant: Doc) -> str:
    if variant["violations"]:
        return f"; {show.count(len(variant['violations']), 'promise')} broken"
    return ", none twice" if not variant["called_again"] else f", {variant['called_again']:,} called again"
