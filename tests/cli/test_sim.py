"""`schedkit sim`: what a person and a program read of a simulation, and what is refused before one begins."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from schedkit.cli import sim as command
from schedkit.cli import simflags, simpages
from schedkit.sim import simulation
from schedkit.sim.checker import Verdict, Violation
from schedkit.sim.faults import Fault, Profile
from tests.cli.conftest import Cli

SHORT = ("--hours", "0.1", "--jobs", "10")
ALONE = (*SHORT, "--profile", "embedded")  # the quickest world
TERMINAL = {"SCHEDKIT_FORCE_TTY": "100"}
ASCII = {**TERMINAL, "PYTHONIOENCODING": "ascii"}
HISTORY = str(Path(__file__).with_name("history.jsonl"))


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """A checker that finds fault with the first run of each history."""

    def check(events: list[dict[str, Any]]) -> Verdict:
        from schedkit.sim.checker import check as real

        call = next(event for event in events if event["kind"] == "target.call")
        found = Violation("I8", "two_holders", call["t"], call["key"], "two hold it\x1b[31m at once")
        return Verdict((found,), {**real(events).figures, "violations": {"two_holders": 1}})

    monkeypatch.setattr(simulation, "check", check)


def test_a_run_tells_its_story_and_how_to_repeat_it(offline: Cli) -> None:
    result = offline("sim", "run", "--seed", "7", *SHORT, env=TERMINAL)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0] == "seed          7"
    assert lines[-2:] == ["every promise held", "repeat it: schedkit sim run --seed 7 --hours 0.1 --jobs 10"]
    labels = {line.split("  ")[0] for line in lines}
    assert {"digest", "world", "time", "fault", "injected", "jobs", "runs", "calls", "called again", "late"} <= labels
    assert "how late runs started" in lines
    assert max(map(len, lines)) <= 100


def test_a_drawn_seed_is_told_and_does_the_same_again(offline: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("secrets.randbelow", lambda below: below - 4)
    first = offline("sim", "run", *ALONE, "--faults", "kill,targets", "-o", "json")
    doc = json.loads(first.stdout)
    again = offline("sim", "run", "--seed", str(doc["seed"]), *ALONE, "--faults", "kill,targets", "-o", "json")
    same = json.loads(again.stdout)
    assert {**same, "machine": None} == {**doc, "machine": None}
    assert re.fullmatch(r"[0-9a-f]{32}", doc["digest"])


def test_json_is_one_document_even_with_a_timeline(offline: Cli) -> None:
    doc = json.loads(offline("sim", "run", "--seed", "7", *SHORT, "-o", "json").stdout)
    assert doc["schema"] == "schedkit.simulation/v1"
    assert set(doc) >= {"seed", "digest", "violations", "profile", "faults", "figures", "machine"}


def test_bars_are_ascii_where_the_terminal_is(offline: Cli) -> None:
    from schedkit.sim.report import histogram

    assert all(line.isascii() for line in histogram([1, 2, 3], 60, plain=True))
    done = subprocess.run(
        [sys.executable, "-m", "schedkit", "sim", "run", "--seed", "7", *SHORT],
        capture_output=True,
        env={**ASCII, "HOME": "/nonexistent"},
        check=True,
    )
    assert done.stdout.isascii()
    assert b"##" in done.stdout


def test_a_history_is_written_and_judged_again(offline: Cli, home: Path) -> None:
    run = json.loads(offline("sim", "run", "--seed", "7", *SHORT, "--history", "seven.jsonl", "-o", "json").stdout)
    told = offline("sim", "replay", "seven.jsonl", env=TERMINAL)
    assert told.exit_code == 0
    assert told.stdout.splitlines()[1] == f"digest        {run['digest']}"
    assert "every promise held" in told.stdout
    call = next(json.loads(line) for line in (home / "seven.jsonl").read_text().splitlines() if '"target.call"' in line)
    story = offline("sim", "replay", "seven.jsonl", "--key", call["key"])
    assert f"CALL {call['call']} token {call['token']}" in story.stdout
    timeline = offline("sim", "run", "--seed", "7", *SHORT, "--timeline", call["key"], "-o", "json")
    assert json.loads(timeline.stdout)["timeline"]
    from_stdin = offline("sim", "replay", "-", input=(home / "seven.jsonl").read_text())
    assert from_stdin.exit_code == 0


@pytest.mark.usefixtures("broken")
def test_a_broken_promise_is_one_line_with_its_story_and_exit_code_10(offline: Cli) -> None:
    result = offline("sim", "run", "--seed", "7", *SHORT, env={"SCHEDKIT_FORCE_TTY": "80"})
    assert result.exit_code == 10
    assert "1 violation: this must not happen\n  I8 two_holders: two hold it" in result.stdout
    assert "\x1b" not in result.stdout
    after = result.stdout.partition("repeat it: schedkit sim run --seed 7 --hours 0.1 --jobs 10\n\n")[2]
    assert after.startswith("what happened to job_")
    assert "CALL" in after
    assert json.loads(offline("sim", "run", "--seed", "7", *SHORT, "-o", "json").stdout)["violations"][0]["check"]


@pytest.mark.usefixtures("broken")
def test_a_swarm_names_each_failing_seed_with_the_line_that_repeats_it(offline: Cli) -> None:
    line = ("sim", "swarm", "--from", "7", "--seeds", "2", *ALONE, "--workers", "1")
    result = offline(*line, env=TERMINAL)
    assert result.exit_code == 10
    told = result.stdout.splitlines()
    assert told[0].startswith("seed 7 failed: two_holders (1)")
    assert told[0].endswith("repeat it: schedkit sim run --seed 7 --hours 0.1 --jobs 10 --profile embedded")
    assert told[-1] == "2 of 2 seeds failed"
    doc = json.loads(offline(*line, "-o", "json").stdout)
    assert [(seed["seed"], seed["violations"]) for seed in doc["seeds"]] == [(7, 1), (8, 1)]
    assert doc["totals"]["violations"] == {"two_holders": 2}


def test_a_swarm_ends_with_one_summary(offline: Cli, home: Path) -> None:
    (home / "seeds.txt").write_text("# known\n7  # a lost run\n\n9\n")
    result = offline("sim", "swarm", "--seeds-file", "seeds.txt", *ALONE, "--workers", "1", env=TERMINAL)
    assert result.exit_code == 0
    assert result.stderr == ""
    assert result.stdout.splitlines()[0] == "seeds         2"
    assert result.stdout.splitlines()[-1] == "every promise held"
    (home / "seeds.txt").write_text("# none yet\n")
    none = offline("sim", "swarm", "--seeds-file", "seeds.txt")
    assert (none.exit_code, none.stdout) == (0, "seeds.txt names no seed yet: nothing to run\n")


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["run", "--hours", "0"], "--hours is more than 0 and at most 168, not 0"),
        (["run", "--hours", "169"], "--hours is more than 0"),
        (["run", "--hours", "nan"], "--hours is more than 0"),
        (["run", "--jobs", "0"], "--jobs is 1 to 10,000, not 0"),
        (["run", "--slots", "0"], "--slots is 1 to"),
        (["run", "--seed", "-1"], "--seed is at least 0"),
        (["run", "--profile", "region"], "--profile is one of embedded, small, cell; not 'region'"),
        (["run", "--faults", "kill,flood"], "there is no fault 'flood'"),
        (["run", "--profile", "embedded", "--faults", "cache"], "cache cannot happen to the embedded profile"),
        (["run", "--history", "no/where.jsonl"], "no/where.jsonl cannot be written: there is no folder no"),
        (["run", "--png", "late.svg"], "the picture is a PNG file"),
        (["swarm", "--workers", "0"], "--workers is 1 to"),
        (["swarm", "--seeds", "0"], "--seeds is 1 to"),
        (["swarm", "--seeds-file", "none.txt"], "none.txt cannot be read"),
        (["swarm", "--seeds-file", "odd.txt"], "odd.txt, line 2 is no seed: 'seven'"),
        (["swarm", "--seeds-file", "odd.txt", "--seeds", "3"], "from a file or from --from and --seeds"),
        (["replay", "none.jsonl"], "none.jsonl cannot be read"),
        (["replay", "odd.txt"], "odd.txt, line 1 has no t, node and kind"),
        (["replay", "empty.jsonl"], "empty.jsonl has no events"),
        (["replay", "partial.jsonl"], "partial.jsonl is not complete enough to be judged"),
        (["scenario", "noon"], "NAME is one of midnight; not 'noon'"),
        (["scenario", "midnight", "--window", "2h"], "--window is 1s to 1h, not 2h"),
        (["scenario", "midnight", "--jobs-real", "900"], "--factor 5000 leaves 0 jobs to simulate"),
        (["scenario", "midnight", "--faults", "flood"], "there is no fault 'flood'"),
    ],
)
def test_what_cannot_be_is_refused_by_name_and_nothing_runs(
    args: list[str], told: str, offline: Cli, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(*_: Any) -> None:
        raise AssertionError("it ran")

    monkeypatch.setattr(simulation, "simulate", run)
    (home / "odd.txt").write_text("7\nseven\n")
    (home / "empty.jsonl").write_text("")
    (home / "partial.jsonl").write_text('{"t": 1, "node": "a", "kind": "store.commit"}\n')
    result = offline("sim", *args)
    assert result.exit_code == 9, result.output
    assert told in result.stderr
    assert result.stdout == ""


def test_a_key_that_is_not_there_is_not_found(offline: Cli) -> None:
    for key in ("job_none", "job_none:2026-06-01T12:00:00Z", "x:y"):
        result = offline("sim", "replay", HISTORY, "--key", key)
        assert result.exit_code == 3
        assert f"no run or job '{key}' in this history" in result.stderr


def test_faults_that_the_drawn_profile_cannot_have_are_named(offline: Cli) -> None:
    result = offline("sim", "run", "--seed", "7", *SHORT, "--faults", "cache,kill")
    assert "left out, since they cannot happen to the embedded profile: cache" in result.stderr


def test_a_picture_is_drawn_or_its_way_is_shown(offline: Cli, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = offline("sim", "run", "--seed", "7", *SHORT, "--png", "late.png")
    assert "picture written to late.png" in result.stderr
    assert (home / "late.png").read_bytes().startswith(b"\x89PNG")
    monkeypatch.setattr("schedkit.sim.report.find_spec", lambda name: None)
    missing = offline("sim", "run", "--seed", "7", *SHORT, "--png", "late.png")
    assert missing.exit_code == 9
    assert "pip install 'schedkit[plot]'" in missing.stderr


def test_the_scenario_answers_with_and_without_another_window(offline: Cli, home: Path) -> None:
    small = ("sim", "scenario", "midnight", "--jobs-real", "1000000", "--factor", "50000")
    result = offline(*small, "--window", "1m", "--what-if", "2m", "--png", "m.png", env=TERMINAL)
    assert result.exit_code == 0, result.output
    assert "question       1,000,000 jobs are due at 00:00: how late do they start?" in result.stdout
    assert "window 2m, instead" in result.stdout
    assert result.stdout.rstrip().endswith("executors instead of 54.")
    assert (home / "m.png").exists()
    doc = json.loads(offline(*small, "--window", "1m", "--faults", "cache", "-o", "json").stdout)
    assert doc["question"].endswith("what happens to them if the cache dies?")
    assert [variant["window"] for variant in doc["variants"]] == ["1m"]


def test_help_and_completion_load_no_simulator() -> None:
    look = (
        "import sys, atexit; sys.argv = ['schedkit', 'sim', 'run', '--help'];"
        "atexit.register(lambda: print([n for n in sys.modules if n.startswith('schedkit.sim')], file=sys.stderr));"
        "from schedkit.__main__ import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


def test_what_the_help_says_is_what_the_simulator_takes(offline: Cli) -> None:
    told = offline("sim", "run", "-h").stdout
    assert f"Virtual time, {simulation.DEFAULT_HOURS} unless said" in told
    assert f"{simulation.DEFAULT_JOBS} unless said" in told
    assert f"{simulation.DEFAULT_SLOTS} unless said" in told
    assert tuple(Profile) == simflags.PROFILES
    assert set(simpages.WORLDS) == set(Profile)
    assert f"{simflags.DEFAULT_SEEDS} unless said" in offline("sim", "swarm", "-h").stdout
    from schedkit.sim.report import WORDS

    assert set(WORDS) == set(Fault)
    assert command.SCENARIOS[0]["name"] == "midnight"
