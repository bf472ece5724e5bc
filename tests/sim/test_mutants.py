"""The mutants are what they say: one line each, in the code of today, off unless turned on, and loud enough."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.architecture.tree import ROOT, modules
from tests.sim.mutants.catalogue import MUTANTS
from tests.sim.mutants.hunt import FOUND
from tests.sim.mutants.mutant import Edit, Misplaced, Mutant, edited
from tests.sim.mutants.rounds import ROUNDS, settings_of
from tests.sim.mutants.switch import turn_on
from tests.sim.mutants.table import Hunted, line, markdown, summary

LOUD = next(mutant for mutant in MUTANTS if mutant.name == "epoch_same")
QUIET = next(mutant for mutant in MUTANTS if mutant.equivalent)


def source_of(module: str) -> str:
    spec = find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).read_text("utf-8")


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_changes_one_line_for_each_of_its_edits_and_compiles(mutant: Mutant) -> None:
    changed = 0
    for module in mutant.modules:
        before = source_of(module)
        after = edited(before, module, mutant)
        compile(after, module, "exec")
        lines = list(zip(before.splitlines(), after.splitlines(), strict=True))
        changed += sum(was != becomes for was, becomes in lines)
    assert changed == len(mutant.edits)


def test_names_are_unique_and_there_are_enough_that_can_be_caught() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
    assert sum(not mutant.equivalent for mutant in MUTANTS) >= 36


def test_every_mutant_says_what_it_breaks_or_why_it_breaks_nothing() -> None:
    assert all(mutant.why and (mutant.expected or mutant.equivalent) for mutant in MUTANTS)


@pytest.mark.parametrize("before", ["no such line", "run", "two\nlines"])
def test_an_edit_that_has_not_exactly_one_place_is_refused(before: str) -> None:
    mutant = Mutant("lost", "", (), (Edit("schedkit.engine.who.claim", before, "x"),))
    with pytest.raises(Misplaced, match="lost"):
        edited(source_of("schedkit.engine.who.claim"), "schedkit.engine.who.claim", mutant)


def test_a_mutant_is_not_turned_on_where_the_code_is_running_already() -> None:
    found = list(sys.meta_path)
    with pytest.raises(Misplaced, match="was imported before"):
        turn_on(LOUD)
    assert sys.meta_path == found


def test_the_package_has_no_mutants_and_no_way_to_them() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    assert project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"] == ["schedkit"]
    for module in modules("schedkit"):
        assert "tests" not in {name.partition(".")[0] for name in module.imports()}, module.name


def test_the_rounds_have_every_profile_and_a_world_without_faults() -> None:
    settings = [settings_of(number) for number in range(len(ROUNDS))]
    assert len({given.seed for given in settings}) == len(ROUNDS)
    assert {str(given.profile) for given in settings} == {"small", "cell", "embedded", "None"}
    assert any(given.faults == frozenset() for given in settings)


def hunted(*arguments: str) -> tuple[int, list[tuple[str, str]]]:
    command = [sys.executable, "-m", "tests.sim.mutants.hunt", *arguments, "--sims", "1", "--hours", "0.1"]
    done = subprocess.run(command, cwd=ROOT, env=os.environ, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout, done.stderr
    return done.returncode, [tuple(check) for check in json.loads(done.stdout)["checks"]]


def test_a_loud_mutant_is_caught_in_a_short_simulation_and_the_code_as_it_is_passes_it() -> None:
    code, checks = hunted(LOUD.name)
    assert code == FOUND
    assert any(invariant in LOUD.expected for invariant, _ in checks)
    assert hunted() == (0, [])


def test_the_table_tells_what_was_caught_and_what_was_not() -> None:
    caught = Hunted(LOUD, 2, ("I9 a", "I9 b", "I9 c", "I9 d", "I9 e"), 3.0)
    spared, missed = Hunted(QUIET, None, (), 9.0), Hunted(LOUD, None, (), 9.0)
    assert [each.good for each in (caught, spared, missed)] == [True, True, False]
    assert Hunted(QUIET, 1, ("I9 a",), 1.0).good is False
    assert "caught at 2" in line(caught)
    assert "and 1 more" in line(caught)
    assert "NOT CAUGHT" in line(missed)
    assert markdown([caught, spared]).count("\n") == 3
    assert summary([caught, spared, missed], 12).startswith("1 of 2 caught within 12 simulations, 0 of them")
