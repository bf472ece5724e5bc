"""`schedkit job ledger`: the sums, and an exit code that says whether they add up."""

from __future__ import annotations

import pytest

from schedkit.model.time import parse_rfc3339
from tests.cli.conftest import Cli, FakeServer
from tests.cli.samples import LEDGER

NOW = parse_rfc3339("2026-09-28T12:00:00Z")


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("schedkit.cli.values.now_ms", lambda: NOW)


def test_the_ledger_is_a_sum_by_reason(cli: Cli, server: FakeServer) -> None:
    result = cli("job", "ledger", "digest", "--utc")
    assert (result.exit_code, server.last.query) == (
        *(0, {"since": ["2026-09-27T12:00:00Z"], "until": ["2026-09-28T12:00:00Z"]}),
    )
    assert result.stdout.splitlines()[3:] == [
        *("expected\t24", "ran\t20", "late\t1", "skipped\t2   OVERLAP 2", "missed\t1   MISFIRED 1", "waiting\t0"),
    ]


def test_the_range_is_said_as_times_are(cli: Cli, server: FakeServer) -> None:
    cli("job", "ledger", "digest", "--from", "7d", "--to", "2026-09-28 00:00", "--tz", "Europe/Berlin")
    assert server.last.query == {"since": ["2026-09-21T12:00:00Z"], "until": ["2026-09-27T22:00:00Z"]}


def test_what_was_cancelled_at_work_is_said(cli: Cli, server: FakeServer) -> None:
    server.answer("GET /v1/jobs/digest/ledger", 200, {**LEDGER, "cancelled": 2})
    assert "cancelled\t2 of those that ran\n" in cli("job", "ledger", "digest").stdout


def test_what_does_not_add_up_is_named_and_the_answer_is_no(cli: Cli, server: FakeServer) -> None:
    times = [f"2026-09-28T0{n}:00:00Z" for n in range(7)]
    lost = {**LEDGER, "balanced": False, "unaccounted": 7, "unaccounted_times": times, "notes": ["not counted"]}
    server.answer("GET /v1/jobs/digest/ledger", 200, lost)
    result = cli("job", "ledger", "digest", "--utc")
    assert result.exit_code == 10
    assert "unaccounted\t7: 2026-09-28 00:00:00 +00:00, " in result.stdout
    assert "04:00:00 +00:00, …\n" in result.stdout
    assert result.stdout.endswith("note\tnot counted\n")
