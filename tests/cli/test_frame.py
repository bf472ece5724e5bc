"""The frame: every leaf has help, examples and the shared flags, wherever they stand."""

from __future__ import annotations

import contextlib
import json
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.main import get_command

from schedkit.cli import front
from schedkit.cli.app import app
from tests.cli.conftest import Cli, FakeServer, process
from tests.cli.leaves import ARGUMENTS, LEAVES, SERVERS

TESTED = [name for name in LEAVES if name not in SERVERS]


def parse(line: str) -> None:
    """Parse a command line down to its leaf and run nothing. Raises typer.TyperException where it is wrong."""
    words = shlex.split(line)
    assert words[0] == "schedkit"
    command: Any = get_command(app)
    ctx = None
    args = words[1:]
    with contextlib.suppress(typer.Exit):  # it asked for help, and got it
        while args:
            ctx = command.make_context(command.name, args, parent=ctx)
            if not hasattr(command, "list_commands"):
                return
            _, command, args = command.resolve_command(ctx, [*ctx._protected_args, *ctx.args])
        if ctx is not None:
            command.make_context(command.name, args, parent=ctx)


@pytest.fixture
def here(server: FakeServer, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A context that points at the fake server, and an editor that changes nothing."""
    path = home / "config.toml"
    path.write_text(f'current = "here"\n[context.here]\nurl = "{server.url}"\n')
    monkeypatch.setenv("SCHEDKIT_CONFIG", str(path))
    monkeypatch.setenv("EDITOR", "true")


def test_every_leaf_has_a_line_that_tests_it() -> None:
    assert sorted(ARGUMENTS) == sorted(TESTED)


@pytest.mark.parametrize("name", LEAVES)
def test_help_of_a_leaf_begins_with_two_examples_that_parse(name: str, offline: Cli) -> None:
    result = offline(*name.split(), "--help")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0] == "examples:"
    examples = [line.strip() for line in lines[1 : lines.index("")]]
    assert len(examples) >= 2
    for example in examples:
        line = example.partition(" > ")[0]
        line = line.removeprefix('EDITOR="code --wait" ')
        assert line.startswith(f"schedkit {name}")
        parse(line)
    assert "global options:" in lines
    assert any(line.startswith("usage: schedkit " + name) for line in lines)
    assert LEAVES[name].help


@pytest.mark.parametrize("name", TESTED)
@pytest.mark.usefixtures("here")
def test_output_json_means_the_same_in_all_three_places(
    name: str, offline: Cli, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = name.split()
    args = ARGUMENTS[name]
    lines = [["-o", "json", *words, *args], [words[0], "-o", "json", *words[1:], *args], [*words, *args, "-o", "json"]]
    if len(words) == 1:  # a command of its own has two places
        lines[1] = lines[2]
    config = (home / "config.toml").read_text()
    told = []
    if name != "context test":  # which compares clocks
        monkeypatch.setattr("schedkit.cli.values.now_ms", lambda: 1_790_000_000_000)
    for line in lines:
        (home / "config.toml").write_text(config)
        result = offline(*line, "-q")
        assert result.exit_code == 0, (line, result.output)
        assert result.stderr == "", line
        told.append(json.loads(result.stdout))
    for doc in told[1:]:
        assert _steady(doc) == _steady(told[0])


def _steady(doc: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in doc.items() if name not in ("answered_ms", "clock_offset_ms", "machine")}


@pytest.mark.parametrize("name", [name for name in TESTED if name not in ("api",)])
@pytest.mark.usefixtures("here")
def test_json_names_its_schema(name: str, offline: Cli) -> None:
    result = offline(*name.split(), *ARGUMENTS[name], "-o", "json")
    doc = json.loads(result.stdout.splitlines()[0] if name == "run tail" else result.stdout)
    if name != "run tail":
        assert doc["schema"].startswith("schedkit.")
        assert doc["schema"].endswith("/v1")


@pytest.mark.parametrize("name", TESTED)
@pytest.mark.parametrize("form", ["table", "wide", "jsonl", "yaml", "csv", "name"])
@pytest.mark.usefixtures("here")
def test_every_leaf_prints_every_format(name: str, form: str, offline: Cli) -> None:
    result = offline(*name.split(), *ARGUMENTS[name], "-o", form)
    assert result.exit_code == 0, result.output
    assert "\x1b" not in result.stdout
    if form == "jsonl":
        assert [json.loads(line) for line in result.stdout.splitlines()]


def test_the_inner_flag_wins(cli: Cli) -> None:
    assert cli("-o", "json", "job", "-o", "csv", "list", "-o", "name").stdout == "job_01J9ZK8V4T6Q\n"


def test_a_tz_after_utc_wins_and_the_other_way_round(cli: Cli) -> None:
    asked = ("cron", "next", "0 8 * * *", "-n", "1", "-o", "jsonl")
    assert "+09:00" in cli("--utc", *asked, "--tz", "Asia/Tokyo").stdout
    assert "+00:00" in cli("--tz", "Asia/Tokyo", *asked, "--utc").stdout


def test_a_noun_alone_shows_its_verbs(offline: Cli) -> None:
    result = offline("job")
    assert result.exit_code == 0
    assert "  create           Create a job" in result.stdout


def test_a_typo_is_answered_with_what_was_meant(offline: Cli) -> None:
    result = offline("job", "lst")
    assert result.exit_code == 2
    assert "No such command 'lst'. Did you mean 'list'?" in result.stderr
    assert "Did you mean 'status'?" in offline("statsu").stderr


def test_the_front_page_lists_every_command_and_nothing_else(offline: Cli) -> None:
    page = offline().stdout
    rows = [line for line in page.splitlines() if line[:14].strip() in {entry.heading for entry in front.COMMANDS}]
    words = [word for row in rows for word in row[14:].split()]
    assert sorted(words) == sorted(front.BY_NAME)
    assert "no scheduler" not in page
    assert process().stdout.splitlines()[:3] == page.splitlines()[:3]


def test_examples_of_the_front_page_parse() -> None:
    for example in front.EXAMPLES:
        parse(example)


def test_version_is_answered_in_both_spellings(offline: Cli) -> None:
    assert offline("--version").stdout.startswith("schedkit ")
    assert offline("-V").exit_code == 0


def test_an_unknown_format_is_wrong_usage(cli: Cli) -> None:
    result = cli("job", "list", "-o", "xml")
    assert result.exit_code == 2
    assert "-o is one of table, wide" in result.stderr


def test_a_parse_error_is_json_when_json_was_asked_for(offline: Cli) -> None:
    for line in (["-o", "json", "job", "lst"], ["job", "list", "--nope", "-ojson"], ["job", "lst", "--output=json"]):
        result = offline(*line)
        assert result.exit_code == 2
        assert json.loads(result.stderr)["error"]["code"] == "USAGE"


def test_parse_refuses_a_wrong_line() -> None:
    with pytest.raises(typer.TyperException):
        parse("schedkit job list --nope")
