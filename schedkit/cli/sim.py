"""`schedkit sim`: what would happen, offline. The real scheduler on virtual time, with faults, from one seed."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from schedkit.cli import output, show, simflags, simpages, values
from schedkit.cli.failures import ExitCode
from schedkit.cli.frame import noun, verb
from schedkit.cli.invocation import Invocation
from schedkit.cli.output import Column, Items
from schedkit.errors import InvalidInput, NotFound, Reason

if TYPE_CHECKING:
    from schedkit.sim.checker import Verdict
    from schedkit.sim.history import Event

app = noun("Simulate the scheduler with faults (works offline)")

Option = typer.Option
LONG_HOURS: Final = 8.0  # from here on it takes long enough to be told so
SEEDS_BELOW: Final = 1_000_000_000  # drawn ones are short enough to be read out
MOST_LINES: Final = 60  # of a story nobody asked for

Hours = Annotated[float | None, Option("--hours", metavar="H", help="Virtual time, 0.8 unless said.")]
Jobs = Annotated[int | None, Option("--jobs", metavar="N", help="Jobs that users make at first, 45 unless said.")]
Slots = Annotated[int | None, Option("--slots", metavar="N", help="Calls in flight of each pool, 50 unless said.")]
Profile = Annotated[
    str | None, Option("--profile", metavar="P", help="embedded, small or cell; else the seed decides.")
]
Faults = Annotated[
    str | None, Option("--faults", metavar="F,F", help="all, none, or kill,stop,…; else the seed decides.")
]
Png = Annotated[Path | None, Option("--png", metavar="FILE", help="Draw how late runs started into a picture.")]


@verb(app, "run")
def run(
    me: Invocation,
    seed: Annotated[int | None, Option("--seed", metavar="N", help="Same seed, same story; else one is drawn.")] = None,
    hours: Hours = None,
    jobs: Jobs = None,
    slots: Slots = None,
    profile: Profile = None,
    faults: Faults = None,
    history: Annotated[Path | None, Option("--history", metavar="FILE", help="Write every event to a file.")] = None,
    timeline: Annotated[str | None, Option("--timeline", metavar="KEY", help="Tell the story of a run or job.")] = None,
    png: Png = None,
) -> None:
    """One simulation; exit 10 when a promise was broken.

    Examples:
      schedkit sim run
      schedkit sim run --seed 7 --hours 2 --faults kill,stop,lose
      schedkit sim run --seed 7 --history seed7.jsonl -o json
    """
    drawn = secrets.randbelow(SEEDS_BELOW) if seed is None else seed
    settings = simflags.settings(drawn, hours, jobs, slots, profile, faults)
    simflags.check_files(png, history)
    from schedkit.sim import report
    from schedkit.sim.simulation import simulate

    if settings.hours >= LONG_HOURS:
        me.say(f"simulating {settings.hours:g} hours takes a while; ctrl+c stops")
    result = simulate(settings)
    if left_out := sorted(set(settings.faults or ()) - result.weather.faults) if faults != "all" else []:
        where = result.weather.profile
        me.say(f"left out, since they cannot happen to the {where} profile: {', '.join(left_out)}")
    events = result.history.events
    if history is not None:
        simflags.write_history(result.history.write, history)
    story = _story(events, timeline, result.verdict, "--timeline")
    doc = result.document
    lags_ms = doc["figures"].get("lags_ms", [])
    if png is not None:
        report.picture(png, f"seed {settings.seed}: how late runs started", {f"{len(lags_ms):,} runs": lags_ms})
    if timeline is not None:
        doc["timeline"] = story
    me.show(simpages.run_page(me.style.screen, doc, report.repeat(settings), lags_ms, story))
    for what, path in (("events", history), ("picture", png)):
        if path is not None:
            me.say(f"{what} written to {path}")
    _leave(doc["violations"])


@verb(app, "swarm")
def swarm(
    me: Invocation,
    seeds: Annotated[int | None, Option("--seeds", metavar="N", help="How many, 20 unless said.")] = None,
    first: Annotated[int | None, Option("--from", metavar="N", help="The first seed, 1 unless said.")] = None,
    seeds_file: Annotated[
        Path | None, Option("--seeds-file", metavar="FILE", help="The seeds of a file, one a line.")
    ] = None,
    hours: Hours = None,
    jobs: Jobs = None,
    slots: Slots = None,
    profile: Profile = None,
    faults: Faults = None,
    workers: Annotated[int | None, Option("--workers", metavar="N", help="Processes; one a core unless said.")] = None,
) -> None:
    """Many seeds, side by side; exit 10 when one failed.

    Examples:
      schedkit sim swarm
      schedkit sim swarm --from 1 --seeds 200 --workers 2
      schedkit sim swarm --seeds-file tests/sim/seeds.txt
    """
    simflags.check_count("--workers", workers, 1, 1_000)
    settings = simflags.settings(1, hours, jobs, slots, profile, faults)
    chosen = simflags.seeds(seeds, first, seeds_file)
    if not chosen and me.for_people:
        return output.write(f"{seeds_file} names no seed yet: nothing to run")
    from schedkit.sim.swarm import Totals
    from schedkit.sim.swarm import swarm as run_swarm

    totals, told = Totals(), []
    for doc in _progress(me, run_swarm(settings, chosen, workers or os.cpu_count() or 1), len(chosen)):
        totals.add(doc)
        told.append({"seed": doc["seed"], "digest": doc["digest"], "violations": len(doc["violations"])})
        if doc["violations"]:
            told[-1] |= {"found": doc["violations"], "repeat": doc["repeat"]}
            if me.for_people:
                output.write(simpages.failing_seed(doc))
    whole = {"schema": "schedkit.swarm/v1", "seeds": told, "totals": totals.document, "machine": totals.machine}
    me.show(simpages.swarm_page(me.style.screen, whole, len(chosen)))
    _leave(totals.failed)


@verb(app, "replay")
def replay(
    me: Invocation,
    history: Annotated[str, typer.Argument(metavar="HISTORY", help="A file of events, or - for stdin.")],
    key: Annotated[str | None, Option("--key", metavar="KEY", help="Tell the story of this run or job.")] = None,
) -> None:
    """Judge a history again, from a simulation or from real processes; exit 10 when a promise was broken.

    Examples:
      schedkit sim replay seed7.jsonl
      schedkit sim replay seed7.jsonl --key job_01J9ZK8V4T6Q:2026-09-28T12:00:00Z
    """
    from dataclasses import asdict

    from schedkit.sim.checker import check
    from schedkit.sim.history import History, events_of, read

    events = list(events_of(sys.stdin.buffer, "stdin") if history == "-" else read(Path(history)))
    if not events:
        raise InvalidInput(
            Reason.INVALID_ARGUMENT, f"{history} has no events", fix=["schedkit sim run --history whole.jsonl"]
        )
    again = History(lambda: 0)
    again.events = events
    verdict = _judged(check, events, history)
    story = _story(events, key, verdict, "--key")
    figures = dict(verdict.figures)
    doc: dict[str, Any] = {
        "schema": "schedkit.verdict/v1",
        "source": history,
        "events": len(events),
        "digest": again.digest,
        "header": events[0] if events[0]["kind"] == "begin" else {},
        "violations": [asdict(violation) for violation in verdict.violations],
        "figures": figures,
    }
    if key is not None:
        doc["timeline"] = story
    me.show(simpages.replay_page(me.style.screen, doc, figures.get("lags_ms", []), story))
    _leave(doc["violations"])


@verb(app, "scenario")
def scenario(
    me: Invocation,
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Which one; without it they are listed.")] = None,
    jobs_real: Annotated[int, Option("--jobs-real", metavar="N", help="Jobs due at 00:00.")] = 10_000_000,
    factor: Annotated[int, Option("--factor", metavar="N", help="One simulated job stands for this many.")] = 5_000,
    window: Annotated[str, Option("--window", metavar="5m", help="The dispatch window they share.")] = "5m",
    what_if: Annotated[str | None, Option("--what-if", metavar="30m", help="Another window beside it.")] = None,
    executors: Annotated[int, Option("--executors", metavar="N", help="Executor tasks, 500 runs/s each.")] = 114,
    slots: Annotated[int, Option("--slots", metavar="N", help="Calls in flight of one executor.")] = 500,
    latency: Annotated[str, Option("--latency", metavar="100ms", help="What a target takes, in the middle.")] = "100ms",
    faults: Annotated[str, Option("--faults", metavar="F,F", help="none, cache (lost at 00:00), kill, …")] = "none",
    seed: Annotated[int, Option("--seed", metavar="N", help="Same seed, same night.")] = 1,
    png: Png = None,
) -> None:
    """What-if: a night that everybody fears, scaled down and really run.

    Examples:
      schedkit sim scenario
      schedkit sim scenario midnight --what-if 30m
      schedkit sim scenario midnight --faults cache --png midnight.png
    """
    if name is None:
        return me.show(_scenarios())
    values.choice(name, [doc["name"] for doc in SCENARIOS], "NAME")
    simflags.check_count("--jobs-real", jobs_real, 1, 1_000_000_000)
    simflags.check_count("--factor", factor, 1, 1_000_000)
    simflags.check_count("--executors", executors, 1, 100_000)
    simflags.check_count("--slots", slots, 1, 100_000)
    simflags.check_count("--seed", seed, 0, None)
    simflags.check_files(png, None)
    windows_ms = [
        simflags.window_ms(text, flag) for text, flag in ((window, "--window"), (what_if, "--what-if")) if text
    ]
    latency_ms = simflags.bounded_ms(latency, "--latency", 1, 60_000, "1ms to 60s")
    from schedkit.sim import midnight, report
    from schedkit.sim.faults import faults_of

    night = midnight.Night(jobs_real, factor, executors, slots, latency_ms, faults_of(faults), seed)
    midnight.check(night, windows_ms)
    doc, lags_ms = midnight.midnight(night, windows_ms)
    if png is not None:
        report.picture(png, doc["question"], {f"window {text}": lags for text, lags in lags_ms.items()})
    me.show(simpages.midnight_page(me.style.screen, doc, lags_ms))
    if png is not None:
        me.say(f"picture written to {png}")
    _leave([broken for variant in doc["variants"] for broken in variant["violations"]])


SCENARIOS: Final = (
    {
        "name": "midnight",
        "about": "10 million jobs due at 00:00: how late they start, what they need, what another window would do",
        "try": "schedkit sim scenario midnight --what-if 30m",
    },
)


def _scenarios() -> Items:
    columns = (Column("NAME", "name"), Column("ABOUT", "about", cut=True), Column("TRY", "try", wide=True))
    return Items("schedkit.scenario/v1", SCENARIOS, columns, "name", "")


# What came of it


def _judged(check: Callable[[Iterable[Event]], Verdict], events: Sequence[Event], source: str) -> Verdict:
    try:
        return check(events)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InvalidInput(
            Reason.INVALID_ARGUMENT,
            f"{source} is not complete enough to be judged: {type(error).__name__}: {error}",
            fix=["schedkit sim run --history whole.jsonl"],
        ) from error


def _story(events: Sequence[Event], asked: str | None, verdict: Verdict, flag: str) -> list[str]:
    """The timeline of the key asked for, or of the first broken one up to where it broke. Raises NotFound."""
    from schedkit.sim.checker import timeline

    if asked is not None:
        if not _known(events, asked):
            raise NotFound(
                Reason.JOB_NOT_FOUND,
                f"no run or job {asked!r} in this history",
                fix=["a key is a job id, or a run id: JOB:2026-09-28T12:00:00Z"],
            )
        return timeline(events, asked)
    broken = next((found for found in verdict.violations if _known(events, found.key)), None)
    if broken is None:
        return []
    lines = timeline(events, broken.key)
    before = timeline([event for event in events if event["t"] <= broken.t], broken.key) or lines
    shown = before[-MOST_LINES:]
    head = f"what happened to {broken.key}"
    return [head if len(shown) == len(lines) else f"{head}, up to there; all of it: {flag} {broken.key}", *shown]


def _known(events: Sequence[Event], key: str) -> bool:
    from schedkit.model.keys import parse_run_id, run_key

    job, colon, _ = key.partition(":")
    if not colon:
        partition = f"JOB#{job}"
        return any(event.get("partition") == partition or event.get("job") == job for event in events)
    try:
        at = run_key(*parse_run_id(key))
    except ValueError:
        return False
    return any(event.get("partition") == at.partition and event.get("sort") == at.sort for event in events)


def _progress(me: Invocation, docs: Iterator[dict[str, Any]], count: int) -> Iterator[dict[str, Any]]:
    """A line that counts the seeds, on a terminal only; it is wiped before anything else is written."""
    live = sys.stderr.isatty() and not me.quiet
    shown = ""

    def say(text: str) -> None:
        nonlocal shown
        if live:
            sys.stderr.write(("\r\x1b[K" if shown else "") + text)
            sys.stderr.flush()
            shown = text

    failed = 0
    try:
        say(f"0 of {show.count(count, 'seed')} ...")
        for done, doc in enumerate(docs, 1):
            failed += bool(doc["violations"])
            say("")
            yield doc
            say(f"{done:,} of {show.count(count, 'seed')}, {failed:,} failed ...")
    finally:
        say("")


def _leave(broken: Any) -> None:
    """Exit 10 where a promise was broken."""
    if broken:
        raise typer.Exit(ExitCode.ANSWER_IS_NO)
