"""Settings and contexts: who wins, what is written, what is never shown."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from schedkit.cli.settings import load
from tests.cli.conftest import Cli, FakeServer
from tests.cli.samples import page


@pytest.fixture
def files(home: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """Where the three settings files are; none exists yet."""
    found = {"project": home / "schedkit.toml", "user": home / "user.toml", "system": home / "etc.toml"}
    monkeypatch.setenv("SCHEDKIT_CONFIG", str(found["user"]))
    monkeypatch.setattr("schedkit.cli.settings.SYSTEM_FILE", found["system"])
    monkeypatch.setattr("schedkit.cli.config.SYSTEM_FILE", found["system"])
    return found


def test_the_first_that_says_something_wins(files: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    assert load({}).values["output"].origin == "built in"
    for kind, value in (("system", "csv"), ("user", "yaml"), ("project", "wide")):
        files[kind].write_text(f'# a comment\n[defaults]\noutput = "{value}"\n')
        found = load({}).values["output"]
        assert (found.value, found.origin) == (value, f"{files[kind]}:3")
    monkeypatch.setenv("SCHEDKIT_OUTPUT", "jsonl")
    assert load({}).values["output"].origin == "SCHEDKIT_OUTPUT"
    assert load({"output": "json"}).values["output"].origin == "flag"


def test_a_project_file_is_found_from_below(
    files: dict[str, Path], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files["project"].write_text('[defaults]\ntz = "Asia/Tokyo"\n')
    (home / "a" / "b").mkdir(parents=True)
    monkeypatch.chdir(home / "a" / "b")
    assert load({}).zone == "Asia/Tokyo"


def test_the_environment_names_context_url_and_zone(files: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    files["user"].write_text('current = "a"\n[context.a]\nurl = "http://a"\n[context.b]\nurl = "http://b"\n')
    assert load({}).context.url == "http://a"
    monkeypatch.setenv("SCHEDKIT_CONTEXT", "b")
    assert load({}).context.url == "http://b"
    monkeypatch.setenv("SCHEDKIT_URL", "http://c")
    monkeypatch.setenv("SCHEDKIT_TENANT", "tnt_1")
    monkeypatch.setenv("SCHEDKIT_TZ", "Europe/Berlin")
    assert (load({}).context.url, load({}).context.tenant, load({}).zone) == ("http://c", "tnt_1", "Europe/Berlin")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[defaults]\noutpt = 'json'\n", "defaults.outpt is no setting"),
        ("[defaults]\nquiet = 'yes'\n", "defaults.quiet is true or false"),
        ("[context.a]\nurl = 5\n", "context.a.url is text"),
        ("[context.a]\npassword = 'x'\n", "context.a.password is no setting"),
        ("[context.a]\nauth = 'magic'\n", "auth is one of"),
        ("[defaults]\noutput = 'xml'\n", "defaults.output is one of table"),
        ("nonsense", "line 1: Expected"),
        ('\ncurrent = "dev\n', r"line 2: Illegal character '\n' (is a quote not closed?)"),
        ("current = dev\n", "line 1: Invalid value (text stands in quotes)"),
        ("[unknown]\n", "unknown is no setting"),
    ],
)
def test_a_file_no_command_would_understand_is_refused(
    text: str, said: str, files: dict[str, Path], offline: Cli
) -> None:
    files["user"].write_text(text)
    assert "no context can be read  try: schedkit config edit" in offline("context", "list").stderr
    result = offline("config", "list")
    assert result.exit_code == 9
    assert "[CONFIG_INVALID]" in result.stderr
    assert said in result.stderr
    assert offline().exit_code == 0, "the front page stays"


@pytest.mark.parametrize(
    "line",
    [
        "--help",
        "config path",
        "explain epoch",
        "explain --list -o json",
        "version",
        "completion bash",
        "cron next @daily",
        "cron explain @daily",
    ],
)
def test_what_works_offline_works_with_a_broken_file(line: str, files: dict[str, Path], offline: Cli) -> None:
    files["user"].write_text('current = "dev\n')
    result = offline(*line.split())
    assert result.exit_code == 0, result.output
    assert result.stdout
    assert result.stderr.count("\n") == (0 if line == "--help" else 1)
    if result.stderr:
        assert result.stderr.startswith(f"warning: {files['user']}: line 1: ")


def test_a_broken_file_stops_what_needs_a_context_and_can_be_edited(
    files: dict[str, Path], offline: Cli, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files["user"].write_text('current = "dev\n')
    for line in ("job list", "config list", "config get tz", "config set tz UTC", "context add a --url http://a"):
        assert offline(*line.split()).exit_code == 9
    editor = home / "editor"
    editor.write_text('#!/bin/sh\necho "current = \\"dev\\"" > "$1"\n')
    editor.chmod(0o755)
    monkeypatch.setenv("EDITOR", str(editor))
    assert offline("config", "edit").exit_code == 0
    assert offline("config", "list").exit_code == 0


def test_contexts_are_listed_although_the_current_one_is_none_of_them(files: dict[str, Path], offline: Cli) -> None:
    files["user"].write_text('current = "dve"\n[context.dev]\nurl = "http://a"\n')
    assert offline("context", "list", "-q").stdout == "dev\n"
    assert offline("job", "list").exit_code == 3


def test_contexts_are_added_used_changed_and_removed(files: dict[str, Path], offline: Cli, server: FakeServer) -> None:
    assert offline("context", "add", "one", "--url", server.url).stdout.startswith("added context one and using it")
    assert stat.S_IMODE(files["user"].stat().st_mode) == 0o600
    assert offline("context", "add", "two", "--url", "http://127.0.0.1:1", "-t", "tnt_1", "--protected").exit_code == 0
    assert offline("context", "add", "two", "--url", "http://x").exit_code == 4
    listed = {item["name"]: item for item in json.loads(offline("context", "list", "-o", "json").stdout)["items"]}
    assert (listed["one"]["current"], listed["two"]["current"]) == (True, False)
    assert (listed["two"]["tenant"], listed["two"]["protected"]) == ("tnt_1", True)
    assert offline("job", "list").exit_code == 0
    assert offline("job", "list", "-c", "two", "--timeout", "1s").exit_code == 7
    assert "now using two" in offline("context", "use", "two").stdout
    assert offline("context", "update", "two", "--no-protected").exit_code == 0
    assert "protected = false" in files["user"].read_text()
    assert offline("context", "remove", "two").exit_code == 0
    assert offline("context", "use", "two").exit_code == 3
    assert offline("job", "list", "-c", "two").exit_code == 3


def test_a_switch_that_something_nearer_overrules_says_so(
    files: dict[str, Path], offline: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    offline("context", "add", "alpha", "--url", "http://alpha")
    files["project"].write_text('current = "dev"\n[context.dev]\nurl = "http://project"\n')
    told = offline("context", "use", "alpha").stdout
    assert f"{files['project']}:1 wins here: still using dev (http://project)\n" in told
    assert "schedkit -c alpha COMMAND   or: schedkit context use alpha --project\n" in told
    assert json.loads(offline("context", "use", "alpha", "-o", "json").stdout)["current"] is False
    assert offline("context", "use", "alpha", "--project").stdout == "now using alpha (http://alpha)\n"
    monkeypatch.setenv("SCHEDKIT_URL", "http://elsewhere")
    told = offline("context", "use", "alpha").stdout
    assert "SCHEDKIT_URL wins here: still using elsewhere (http://elsewhere)" in told
    assert "or: unset SCHEDKIT_URL" in told


def test_comments_survive_an_edit(files: dict[str, Path], offline: Cli) -> None:
    files["user"].write_text('# mine\ncurrent = "a"\n\n[context.a] # first\nurl = "http://a"\n')
    offline("context", "update", "a", "--color", "red")
    assert files["user"].read_text().startswith('# mine\ncurrent = "a"\n\n[context.a] # first\n')


def test_a_secret_is_sent_and_never_shown(files: dict[str, Path], offline: Cli, server: FakeServer, home: Path) -> None:
    (home / "token").write_text("s3cret-token\n")
    offline("context", "add", "one", "--url", server.url, "--token-file", str(home / "token"))
    offline("context", "add", "two", "--url", server.url, "--token-command", "echo s3cret-command")
    assert offline("job", "list").exit_code == 0
    assert server.last.headers["authorization"] == "Bearer s3cret-token"
    assert offline("job", "list", "-c", "two").exit_code == 0
    assert server.last.headers["authorization"] == "Bearer s3cret-command"
    for form in ("table", "json", "yaml", "csv"):
        for name in ("one", "two"):
            assert "s3cret" not in offline("context", "show", name, "--origin", "-o", form).output
        assert "s3cret" not in offline("context", "list", "-o", form).output
    assert "s3cret" not in offline("job", "list", "--debug", "-v").output


def test_a_token_file_is_found_from_every_folder(
    files: dict[str, Path], offline: Cli, server: FakeServer, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "admin.key").write_text("s3cret-token\n")
    offline("context", "add", "one", "--url", server.url, "--token-file", "admin.key")
    offline("context", "add", "two", "--url", server.url)
    offline("context", "update", "two", "--token-file", "~/admin.key")
    (home / "elsewhere").mkdir()
    monkeypatch.chdir(home / "elsewhere")
    for name in ("one", "two"):
        assert offline("job", "list", "-c", name).exit_code == 0
        assert f"token file\t{home / 'admin.key'}\n" in offline("context", "show", name).stdout
    assert offline("context", "update", "two", "--token-file", "~no-such-user/admin.key").exit_code == 9


def test_a_missing_token_is_exit_5(files: dict[str, Path], offline: Cli, server: FakeServer) -> None:
    offline("context", "add", "one", "--url", server.url, "--token-file", "/no/such/file")
    result = offline("job", "list")
    assert (result.exit_code, server.asked) == (5, [])
    assert "[NO_TOKEN]" in result.stderr


def test_a_url_holds_no_password(offline: Cli) -> None:
    assert offline("context", "add", "one", "--url", "https://me:pw@host").exit_code == 9
    assert offline("context", "add", "one", "--url", "ftp://host").exit_code == 9


def test_context_test_says_how_it_is(cli: Cli, server: FakeServer) -> None:
    result = cli("context", "test")
    assert result.exit_code == 0
    assert "answers\tschedkit 0.1.0 in" in result.stdout
    server.answer("GET /readyz", 503, {"ready": False})
    assert cli("context", "test", "--timeout", "1s").exit_code == 10


def test_config_get_set_list_path(files: dict[str, Path], offline: Cli) -> None:
    assert offline("config", "set", "no-color", "yes").exit_code == 0
    assert offline("config", "set", "tz", "Europe/Berlin", "--project").exit_code == 0
    assert offline("config", "get", "tz").stdout == "Europe/Berlin\n"
    assert offline("config", "get", "no_color").stdout == "true\n"
    listed = offline("config", "list", "--origin").stdout
    assert f"tz\tEurope/Berlin\t{files['project']}:2" in listed
    assert offline("config", "set", "tz", "").exit_code == 0
    assert offline("config", "set", "tz", "Mars/Base").exit_code == 9
    assert offline("config", "set", "output", "xml").exit_code == 9
    assert offline("config", "set", "nope", "x").exit_code == 9
    kinds = {item["kind"]: item for item in json.loads(offline("config", "path", "-o", "json").stdout)["items"]}
    assert kinds["user"] == {"kind": "user", "path": str(files["user"]), "exists": True}
    assert kinds["system"]["exists"] is False


def test_config_edit_keeps_no_broken_file(
    files: dict[str, Path], offline: Cli, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files["user"].write_text('[defaults]\ntz = "UTC"\n')
    editor = home / "editor"
    editor.write_text('#!/bin/sh\necho "$TEXT" > "$1"\n')
    editor.chmod(0o755)
    monkeypatch.setenv("EDITOR", str(editor))
    monkeypatch.setenv("TEXT", "[defaults")
    assert offline("config", "edit").exit_code == 9
    assert files["user"].read_text() == '[defaults]\ntz = "UTC"\n'
    monkeypatch.setenv("TEXT", '[defaults]\ntz = "Asia/Tokyo"')
    assert offline("config", "edit").exit_code == 0
    assert offline("config", "get", "tz").stdout == "Asia/Tokyo\n"
    monkeypatch.setenv("EDITOR", "/no/such/editor")
    assert offline("config", "edit").exit_code == 3
    assert sorted(path.name for path in home.glob("user*")) == ["user.toml"]


def test_where_keys_are_asked_for_no_hint_names_a_demo_target(offline: Cli, server: FakeServer, home: Path) -> None:
    (home / "admin.key").write_text("s3cret-token\n")
    server.answer("GET /v1/jobs", 200, page())
    offline("context", "add", "open", "--url", server.url)
    offline("context", "add", "keyed", "--url", server.url, "--token-file", "admin.key")
    assert "--target demo-echo" in offline("job", "list", "-c", "open").stderr
    assert "--target https://host.example/path" in offline("job", "list", "-c", "keyed").stderr
