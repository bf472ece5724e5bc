"""What is printed: formats, pipes and terminals, names that hurt."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest
import yaml

from schedkit.cli.output import Column, Items, One, Screen, Style, csv_cell, fitted, render
from tests.cli.conftest import Cli, FakeServer
from tests.cli.samples import JOB, RUN, page

COLUMNS = (
    Column("NAME", "name"),
    Column("URL", "url", cut=True),
    Column("N", "n", right=True),
    Column("X", "x", wide=True),
)
ROWS: list[dict[str, Any]] = [
    {"name": "digest", "url": "https://email.example/" + "x" * 90, "n": 1, "x": "far"},
    {"name": "naïve 😀", "n": 22},
]


class Stream(io.StringIO):
    """A text stream that says what it is."""

    def __init__(self, encoding: str = "utf-8", terminal: bool = False) -> None:
        super().__init__()
        self._encoding, self._terminal = encoding, terminal

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._encoding

    def isatty(self) -> bool:
        return self._terminal


def style(form: str, width: int = 0, fields: tuple[str, ...] = (), **rest: Any) -> Style:
    screen = Screen(Stream(terminal=bool(width)), no_color=True)
    if width:
        screen.__dict__["width"] = width
    return Style(form, fields, screen, **rest)


def items(rows: list[dict[str, Any]] = ROWS) -> Items:
    return Items("schedkit.thing/v1", rows, COLUMNS, "name", "none", "cursor-1")


def test_a_pipe_gets_tabs_and_every_character_of_a_long_cell() -> None:
    lines = render(items(), style("table")).splitlines()
    assert lines[0].split("\t") == ["digest", ROWS[0]["url"], "1"]
    assert lines[1].split("\t") == ["naïve 😀", "", "22"]


def test_a_terminal_drops_columns_from_the_right_and_says_so() -> None:
    text = render(items(), style("table", width=12))
    assert text.splitlines() == ["NAME", "digest", "naïve 😀", "2 columns hidden, -o wide shows them"]
    assert all(len(line) <= 120 for line in render(items(), style("table", width=120)).splitlines())


def test_a_long_last_column_is_cut_before_it_is_dropped() -> None:
    lines = render(items(), style("table", width=40)).splitlines()
    assert lines[1].endswith("...")
    assert max(len(line) for line in lines[:3]) <= 40
    assert lines[-1] == "1 column hidden, -o wide shows it"


def test_wide_shows_every_column_whole() -> None:
    lines = render(items(), style("wide", width=40)).splitlines()
    assert ROWS[0]["url"] in lines[1]
    assert lines[1].endswith("far")


def test_columns_line_up_under_wide_characters() -> None:
    lines = render(items(), style("wide", width=200)).splitlines()
    start = lines[0].index("URL")
    assert lines[1].index("https") == start
    assert fitted("😀😀😀", 5) == "😀..."


def test_json_is_one_document_with_schema_items_and_cursor() -> None:
    doc = json.loads(render(items(), style("json")))
    assert list(doc) == ["schema", "items", "next_cursor"]
    assert doc["schema"] == "schedkit.thing/v1"
    assert doc["items"] == ROWS
    assert doc["next_cursor"] == "cursor-1"
    assert yaml.safe_load(render(items(), style("yaml"))) == doc


def test_fields_choose_what_is_shown_in_every_format() -> None:
    assert json.loads(render(items(), style("json", fields=("n",))))["items"] == [{"n": 1}, {"n": 22}]
    assert render(items(), style("table", fields=("n", "name"))) == "1\tdigest\n22\tnaïve 😀"
    assert render(items(), style("csv", fields=("n",))) == "n\n1\n22"


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1", "@x", "\t=1", "\r=1"])
def test_csv_cells_that_a_spreadsheet_would_run_are_quoted(name: str) -> None:
    rows = list(csv.DictReader(io.StringIO(render(items([{"name": name}]), style("csv")))))
    assert rows[0]["name"] == f"'{name}".replace("\r", "\\r")
    assert csv_cell(-5) == "-5", "a number is a number"


def test_a_name_cannot_drive_the_terminal_or_break_a_row() -> None:
    text = render(items([{"name": "\x1b[31mred\ttab\nline\x07", "n": 1}]), style("table", width=120))
    assert "\x1b" not in text
    assert r"\x1b[31mred\ttab\nline\x07" in text.splitlines()[1]


def test_json_stays_json_where_the_encoding_is_ascii() -> None:
    screen = Screen(Stream("ascii"))
    text = render(items(), Style("json", (), screen))
    assert text.isascii()
    assert json.loads(text)["items"][1]["name"] == "naïve 😀"


def test_quiet_is_ids_only() -> None:
    assert render(items(), style("table", quiet=True)) == "digest\nnaïve 😀"
    assert json.loads(render(items(), style("json", quiet=True)))["items"] == ROWS


def test_one_thing_in_a_pipe_is_label_tab_value() -> None:
    one = One("schedkit.thing/v1", {"a": 1}, [("label", "value"), "", "free text"], "a")
    assert render(one, style("table")) == "label\tvalue\n\nfree text"
    assert render(one, style("table", width=80)) == "label  value\n\nfree text"
    assert render(one, style("csv")) == "a\n1"
    assert render(one, style("name")) == "1"


def test_colour_is_for_terminals_that_want_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    rows = [{"name": "FAILED", "n": 1}]

    def on(screen: Screen) -> str:
        return render(items(rows), Style("table", (), screen))

    assert "\x1b[31mFAILED" in on(Screen(Stream(terminal=True)))
    assert "\x1b" not in on(Screen(Stream()))
    assert "\x1b" not in on(Screen(Stream(terminal=True), no_color=True))
    monkeypatch.setenv("TERM", "dumb")
    assert "\x1b" not in on(Screen(Stream(terminal=True)))


def test_a_forced_terminal_has_the_width_it_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCHEDKIT_FORCE_TTY", "33")
    screen = Screen(Stream())
    assert (screen.terminal, screen.width, screen.color) == (True, 33, False)


def test_filter_and_sort(cli: Cli, server: FakeServer) -> None:
    jobs = [{**JOB, "name": name, "run_count": runs} for name, runs in (("b", 2), ("a", 10), ("c", 1))]
    server.answer("GET /v1/jobs", 200, page(*jobs))
    shown = ("job", "list", "--fields", "name")
    assert cli(*shown, "--sort", "run_count").stdout.split() == ["c", "b", "a"]
    assert cli(*shown, "--sort", "-name").stdout.split() == ["c", "b", "a"]
    assert cli(*shown, "--filter", "run_count>=2,name!=b").stdout.split() == ["a"]
    assert cli(*shown, "--filter", "target.url~EMAIL", "-n", "1").stdout.split() == ["b"]
    assert cli(*shown, "--filter", "??").exit_code == 9


def test_pages_are_followed_to_the_end_with_all(cli: Cli, server: FakeServer) -> None:
    server.answers["GET /v1/jobs"] = lambda asked: (
        (200, page({**JOB, "name": "second"})) if "cursor" in asked.query else (200, page(JOB, cursor="c1"))
    )
    assert cli("job", "list", "--fields", "name").stdout.split() == ["digest"]
    assert cli("job", "list", "--fields", "name", "--all").stdout.split() == ["digest", "second"]
    assert json.loads(cli("job", "list", "-o", "json").stdout)["next_cursor"] == "c1"
    assert cli("job", "list", "--fields", "name", "--cursor", "c1").stdout.split() == ["second"]
    assert cli("api", "GET", "/v1/jobs", "--paginate", "-o", "jsonl").stdout.count("\n") == 2


def test_frozen_schemas(cli: Cli) -> None:
    """The stable interface: field names as the HTTP API has them, under these schema names."""
    job = json.loads(cli("job", "show", "digest", "-o", "json").stdout)
    assert job.pop("schema") == "schedkit.job/v1"
    assert set(job) == set(JOB) | {"recent_runs"}
    runs = json.loads(cli("job", "runs", "digest", "-o", "json").stdout)
    assert (runs["schema"], runs["next_cursor"], set(runs["items"][0])) == ("schedkit.run/v1", None, set(RUN))
    due = json.loads(cli("job", "next", "digest", "-o", "json").stdout)
    assert due["schema"] == "schedkit.occurrence/v1"
    assert set(due["items"][0]) == {"number", "scheduled_for", "local", "dispatch_at", "notes"}
    assert set(json.loads(cli("cron", "next", "0 8 * * *", "-n", "1", "-o", "json").stdout)["items"][0]) == {
        "number",
        "scheduled_for",
        "local",
        "notes",
    }
