"""`schedkit target verify-signature`, and the flags that say with which secret a job's calls are signed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Cli, FakeServer
from tests.cli.leaves import ARGUMENTS, SIGNED
from tests.cli.samples import JOB

VERIFY = ["target", "verify-signature"]
LINE = [*VERIFY, *ARGUMENTS["target verify-signature"]]
REF, OLD = "env:SCHEDKIT_SECRET_BILLING", "file:/run/secrets/billing"


def test_a_valid_signature_tells_what_it_covers_and_what_it_does_not(offline: Cli) -> None:
    result = offline(*LINE, "--utc", env={"SCHEDKIT_FORCE_TTY": "120"})
    assert result.exit_code == 0, result.output
    assert [line.split(None, 1) for line in result.stdout.splitlines()] == [
        ["signature", "valid"],
        ["key", "job_1:2026-09-28T12:00:00Z"],
        ["signed", "2026-09-28 12:00:00 +00:00, 5 s ago"],
        ["token", "2, not signed"],
        ["attempt", "1, not signed"],
    ]
    assert json.loads(offline(*LINE, "-o", "json").stdout) == {
        "schema": "schedkit.signature/v1",
        "valid": True,
        "reason": None,
        "detail": None,
        "idempotency_key": "job_1:2026-09-28T12:00:00Z",
        "signed_at": "2026-09-28T12:00:00Z",
        "epoch": 2,
        "attempt": 1,
    }


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (["--at", "2026-09-28T12:05:01Z"], "TIMESTAMP_TOO_OLD"),
        (["--at", "2026-09-28T11:54:59Z"], "TIMESTAMP_AHEAD"),
        (["--tolerance", "4s"], "TIMESTAMP_TOO_OLD"),
        (["--body", __file__], "SIGNATURE_WRONG"),
        (["--header", "webhook-id=2"], "HEADER_TWICE"),
    ],
)
def test_one_that_is_not_valid_says_why_and_exits_10(change: list[str], reason: str, offline: Cli) -> None:
    result = offline(*LINE, *change, "-o", "json")
    assert result.exit_code == 10
    told = json.loads(result.stdout)
    assert (told["valid"], told["reason"]) == (False, reason)
    assert reason in offline(*LINE, *change).stdout


def test_headers_are_flags_too_and_the_body_may_come_in_on_stdin(offline: Cli) -> None:
    pairs = [line.partition(": ") for line in (SIGNED / "headers").read_text().splitlines()[1:]]
    flags = [part for name, _, value in pairs for part in ("--header", f"{name}: {value}")]
    secret = ["--secret-file", str(SIGNED / "secret")]
    body = (SIGNED / "body.json").read_text()
    result = offline(*VERIFY, *secret, *flags, "--body", "-", "--at", "2026-09-28T12:00:00Z", input=body)
    assert result.exit_code == 0, result.output


def test_the_old_secret_counts_while_it_is_replaced(offline: Cli, home: Path) -> None:
    (home / "new").write_text("another")
    assert offline(*LINE, "--secret-file", str(home / "new")).exit_code == 0


@pytest.mark.parametrize("content", [None, "", "whsec_?"])
def test_a_file_without_a_secret_is_wrong_input(content: str | None, offline: Cli, home: Path) -> None:
    if content is not None:
        (home / "bad").write_text(content)
    result = offline(*LINE, "--secret-file", str(home / "bad"))
    assert result.exit_code == 9
    assert "--secret-file" in result.stderr
    assert "whsec_?" not in result.stderr


def test_create_names_the_secrets_and_shows_their_references(cli: Cli, server: FakeServer) -> None:
    signed = {"type": "HMAC_SHA256", "secret_ref": REF, "previous_secret_ref": OLD}
    server.answer("POST /v1/jobs", 201, JOB | {"target": JOB["target"] | {"auth": signed}})
    line = ["job", "create", "--name", "digest", "--every", "10m", "--target", "https://a.example/x"]
    result = cli(*line, "--hmac-secret-ref", REF, "--hmac-previous-ref", OLD)
    assert result.exit_code == 0, result.output
    assert server.last.body["target"] == {"url": "https://a.example/x", "auth": signed}
    assert f"  signed    HMAC_SHA256 with {REF}, and with {OLD} before it\n" in result.stdout
    assert f"signed    HMAC_SHA256 with {REF}\n" in cli(*line, "--hmac-secret-ref", REF, "--dry-run").stdout


@pytest.fixture
def signed_job(server: FakeServer) -> dict[str, Any]:
    job = JOB | {"target": JOB["target"] | {"auth": {"type": "HMAC_SHA256", "secret_ref": REF}}}
    server.answer("GET /v1/jobs/digest", 200, job)
    return job


@pytest.mark.parametrize(
    ("flags", "auth"),
    [
        (["--hmac-secret-ref", OLD, "--hmac-previous-ref", REF], ("HMAC_SHA256", OLD, REF)),
        (["--hmac-secret-ref", OLD], ("HMAC_SHA256", OLD, None)),
        (["--hmac-secret-ref", "none"], ("NONE", None, None)),
        (["--run-timeout", "5s"], ("HMAC_SHA256", REF, None)),
        (["--target", "https://b.example/"], ("HMAC_SHA256", REF, None)),
        (["--target", "demo-echo"], (None, None, None)),
    ],
)
@pytest.mark.usefixtures("signed_job")
def test_update_replaces_the_secret_and_keeps_it_where_nothing_is_said(
    flags: list[str], auth: tuple[str | None, ...], cli: Cli, server: FakeServer
) -> None:
    result = cli("job", "update", "digest", *flags)
    assert result.exit_code == 0, result.output
    sent = server.of("PATCH")[-1].body["target"].get("auth", {})
    assert (sent.get("type"), sent.get("secret_ref"), sent.get("previous_secret_ref")) == auth


@pytest.mark.usefixtures("signed_job")
def test_the_page_of_a_job_shows_the_reference(cli: Cli) -> None:
    assert f"HMAC_SHA256 with {REF}\n" in cli("job", "show", "digest").stdout


@pytest.mark.parametrize("flags", [[], ["--hmac-secret-ref", "none"]])
def test_the_one_before_needs_the_one_after(flags: list[str], cli: Cli) -> None:
    result = cli("job", "update", "digest", "--hmac-previous-ref", OLD, *flags)
    assert result.exit_code == 9
    assert "--hmac-secret-ref" in result.stderr
