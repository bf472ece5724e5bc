"""Asking a person: a yes is a yes, everything else is no; and who is waited for is said when it takes long."""

from __future__ import annotations

import io
import threading

import pytest

from schedkit.cli.failures import ExitCode, Refusal
from schedkit.cli.invocation import Invocation
from tests.cli.conftest import Cli, FakeServer


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("typed", "goes_on"), [("y\n", True), ("YES\n", True), ("n\n", False), ("\n", False), ("", False)]
)
def test_only_a_yes_goes_on(typed: str, goes_on: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", Terminal(typed))
    monkeypatch.setattr("sys.stderr", shown := Terminal())
    if goes_on:
        Invocation().confirm("go on?")
    else:
        with pytest.raises(Refusal) as refused:
            Invocation().confirm("go on?")
        assert refused.value.exit_code is ExitCode.NOT_CONFIRMED
    assert shown.getvalue() == "go on? [y/N] "


def test_no_input_is_never_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", Terminal("y\n"))
    with pytest.raises(Refusal, match="needs --yes"):
        Invocation(given={"no_input": True}).confirm("go on?")


def test_a_long_answer_says_who_is_asked_and_takes_the_line_away(monkeypatch: pytest.MonkeyPatch) -> None:
    said = threading.Event()

    class Watched(Terminal):
        def write(self, text: str) -> int:
            if "asking" in text:
                said.set()
            return super().write(text)

    monkeypatch.setattr("sys.stderr", shown := Watched())
    monkeypatch.setattr("schedkit.cli.invocation.ASKING_AFTER_S", 0)
    with Invocation().asking():
        assert said.wait(5)
    assert shown.getvalue() == "asking dev ...\r\x1b[K"
    with Invocation(given={"quiet": True}).asking():
        pass
    assert shown.getvalue().count("asking") == 1


def test_verbose_says_each_call(cli: Cli, server: FakeServer) -> None:
    result = cli("job", "show", "digest", "-v")
    assert f"GET {server.url}/v1/jobs/digest  200  " in result.stderr
    assert cli("job", "show", "digest").stderr == ""
