"""`schedkit key` and `schedkit audit`: a key's text is printed once, and an altered log is exit 10."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Cli, FakeServer
from tests.cli.samples import API_KEY, KEY_ID, SECRET, page, problem, records


def test_a_key_goes_to_stdout_alone_and_what_is_said_about_it_to_stderr(cli: Cli, server: FakeServer) -> None:
    made = cli("key", "create", "deploy", "--role", "operator", "--team", "payments", "--expires", "90d")
    assert (made.exit_code, made.stdout) == (0, SECRET + "\n")
    assert "it is not shown again" in made.stderr
    assert server.last.body == {
        "name": "deploy",
        "role": "operator",
        "team_id": "payments",
        "expires_in_seconds": 7_776_000,
    }
    assert json.loads(cli("key", "rotate", KEY_ID, "-o", "json").stdout)["secret"] == SECRET


def test_a_key_goes_to_a_new_file_of_its_owner(cli: Cli, server: FakeServer, home: Path) -> None:
    made = cli("key", "create", "deploy", "--out", "deploy.key")
    assert made.exit_code == 0
    assert SECRET not in made.output
    assert f"use   schedkit context add NAME --url {server.url} --token-file deploy.key\n" in made.stdout
    file = home / "deploy.key"
    assert (file.read_text(), file.stat().st_mode & 0o777) == (SECRET + "\n", 0o600)


def test_a_new_key_replaces_nobodys_token_by_what_is_said_about_it(cli: Cli, offline: Cli, server: FakeServer) -> None:
    """An admin who follows the line is not locked out; one without a context finds none to update."""
    first = cli("key", "bootstrap", "--out", "first.key")
    assert f"use   schedkit context add NAME --url {server.url} --token-file first.key\n" in first.stdout
    lost = offline("-c", "nowhere", "key", "bootstrap", "--data", "other", "--out", "my key")
    assert "use   schedkit context add NAME --url URL --token-file 'my key'\n" in lost.stdout
    rotated = cli("key", "rotate", KEY_ID, "--out", "next.key")
    assert "use   schedkit context update NAME --token-file next.key\n" in rotated.stdout


def test_a_key_that_was_refused_leaves_no_file(cli: Cli, server: FakeServer, home: Path) -> None:
    server.answer("POST /v1/keys", 409, problem(409, "KEYS_AT_LIMIT"))
    assert cli("key", "create", "deploy", "--out", "deploy.key").exit_code == 4
    assert not (home / "deploy.key").exists()


def test_a_making_without_an_answer_is_not_repeated(cli: Cli, server: FakeServer) -> None:
    server.answer("POST /v1/keys", 503, problem(503, "STORE_UNAVAILABLE"))
    assert cli("key", "create", "deploy").exit_code == 7
    assert len(server.of("POST")) == 1, "a second key whose text nobody has would open doors too"


@pytest.mark.parametrize("line", [["create", "deploy"], ["rotate", KEY_ID], ["revoke", KEY_ID]])
def test_a_dry_run_changes_nothing(cli: Cli, server: FakeServer, line: list[str]) -> None:
    done = cli("key", *line, "--dry-run")
    assert (done.exit_code, "would" in done.stdout) == (0, True)
    assert not server.of("POST") + server.of("DELETE")


def test_revoking_several_tells_each_and_the_first_refusal_decides(cli: Cli, server: FakeServer) -> None:
    server.answer("DELETE /v1/keys/gone", 404, problem(404, "KEY_NOT_FOUND"))
    done = cli("key", "revoke", "gone", KEY_ID, "--reason", "the laptop is gone")
    assert done.exit_code == 3
    assert "revoked" in done.stdout or KEY_ID in done.stdout
    assert server.last.headers["schedkit-reason"] == "the laptop is gone"


def test_a_list_of_keys_shows_no_secret(cli: Cli, server: FakeServer) -> None:
    server.answer("GET /v1/keys", 200, page({**API_KEY, "state": "REVOKED"}))
    assert cli("key", "list", "--live", "-o", "json").exit_code == 0
    assert server.last.query == {"live": ["true"], "limit": ["50"]}
    assert "REVOKED" in cli("key", "list").stdout


def test_the_first_key_needs_no_server_and_only_two_have_one_name(offline: Cli, home: Path) -> None:
    for number in (1, 2):
        assert offline("key", "bootstrap", "-t", "acme", "--out", f"{number}.key").exit_code == 0
    third = offline("key", "bootstrap", "-t", "acme")
    assert (third.exit_code, "KEYS_AT_LIMIT" in third.stderr) == (4, True)
    assert (home / "1.key").read_text() != (home / "2.key").read_text()
    assert offline("key", "bootstrap", "-t", "Acme Ltd").exit_code == 9


def test_the_audit_log_is_asked_for_what_was_named(cli: Cli, server: FakeServer) -> None:
    assert cli("audit", "list", "--action", "pause_job", "--outcome", "refused", "--key", "k").exit_code == 0
    assert server.last.query == {
        "action": ["pause_job"],
        "outcome": ["REFUSED"],
        "key_id": ["k"],
        "limit": ["50"],
    }


def test_a_whole_log_is_verified_and_an_altered_one_is_exit_10(cli: Cli, server: FakeServer) -> None:
    whole = cli("audit", "verify", "-o", "json")
    ends = json.loads(whole.stdout)["ends"]
    assert whole.exit_code == 0
    assert cli("audit", "verify", "--expect", ends[0][:20]).exit_code == 0
    assert cli("audit", "verify", "--expect", "0:9:0123456789").exit_code == 10
    assert cli("audit", "verify", "--expect", "the end").exit_code == 9
    altered = records()
    altered[1]["resource"] = "job_other"
    server.answer("GET /v1/audit", 200, page(*altered))
    found = cli("audit", "verify")
    assert (found.exit_code, "chain 0, record 1 was changed" in found.stdout) == (10, True)
    server.answer("GET /v1/audit", 200, page({"hash": "x"}))
    assert "cannot be read" in cli("audit", "verify").stdout
