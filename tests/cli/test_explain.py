"""The dictionary: an entry for every code and state and no others, and commands that still exist."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest

import schedkit
from schedkit.cli import front
from schedkit.cli.explain import KINDS, dictionary
from schedkit.cli.failures import Code, ExitCode
from schedkit.client import Trouble
from schedkit.errors import Reason
from schedkit.model.jobs import Delivery, JobStatus, MisfirePolicy, OverlapPolicy
from schedkit.model.redrives import RedriveState, StopReason, Unfit
from schedkit.model.runs import AttemptOutcome, RunStatus
from schedkit.model.schedules import GapPolicy, RepeatPolicy
from schedkit.target import Cause
from tests.cli.conftest import Cli
from tests.cli.test_frame import parse

SKIP_REASONS = {"MISFIRED", "OVERLAP", "EXPIRED", "MISSED_WHILE_PAUSED", "SKIPPED_BY_HAND"}
WORDS = """job, occurrence, run, attempt, epoch, lease, dispatch window, dispatch lag, shard, bucket, straggler,
misfire, redrive, poison message, cell, placement group, breaker, fencing token, idempotency key, dead letter,
signature"""
SOURCE = Path(schedkit.__file__).parent


def of_kind(*kinds: str) -> set[str]:
    return {word for word, entry in dictionary().items() if entry["kind"] in kinds}


def test_every_code_of_an_error_has_an_entry_and_no_entry_is_left_over() -> None:
    assert of_kind("error") == {reason.value for reason in Reason}
    assert of_kind("client") == {code.value for code in [*Code, *Trouble]}


def test_every_state_has_an_entry_and_no_entry_is_left_over() -> None:
    assert of_kind("job status", "run status") == {status.value for status in [*JobStatus, *RunStatus]}
    assert of_kind("skip reason") == SKIP_REASONS
    elsewhere = of_kind("job status", "run status", "run reason")
    assert of_kind("redrive state") == {state.value for state in RedriveState} - elsewhere
    assert of_kind("redrive reason") == {reason.value for reason in [*StopReason, *Unfit]} - elsewhere


def test_every_reason_value_and_trap_has_an_entry_and_none_is_left_over() -> None:
    """Those that are no enum stand in the source of the rooms that give them."""

    def texts(place: str, pattern: str) -> set[str]:
        return {found for path in SOURCE.glob(place) for found in re.findall(pattern, path.read_text(encoding="utf-8"))}

    named = r'REASON_\w+: Final = "(\w+)"'
    reasons = texts("engine/**/*.py", named) | texts("model/*.py", named)
    reasons |= texts("engine/who/*.py", r'reason="([A-Z_]+)"')
    assert of_kind("run reason") == {*reasons, AttemptOutcome.LEASE_EXPIRED, AttemptOutcome.RELEASED} - set(RunStatus)
    assert of_kind("cron trap") == texts("engine/when/explain.py", r'Trap\(\s*"(\w+)"')
    policies = (MisfirePolicy, OverlapPolicy, Delivery, GapPolicy, RepeatPolicy)
    assert of_kind("value") == {value for policy in policies for value in policy} | {"TASK_QUEUE"}


def test_every_cause_of_a_refused_signature_is_in_the_entry_of_signatures() -> None:
    assert {row[0] for row in dictionary()["signature"]["table"]} == set(Cause)


def test_what_is_not_built_yet_says_so() -> None:
    for word in ("breaker", "cell", "placement group"):
        assert dictionary()[word]["means"].startswith("Not built yet")


def test_a_number_is_an_exit_code_or_the_codes_of_a_status(offline: Cli) -> None:
    assert offline("explain", "10").stdout.startswith("10   (exit code)\n\nthe answer is no")
    assert offline("explain", "404", "-q").stdout.split() == [
        "JOB_NOT_FOUND",
        "RUN_NOT_FOUND",
        "TARGET_NOT_FOUND",
        "KEY_NOT_FOUND",
        "ROUTE_NOT_FOUND",
        "REDRIVE_NOT_FOUND",
        "BACKFILL_NOT_FOUND",
    ]
    assert offline("explain", "12345").exit_code == 3


def test_every_word_of_the_contract_has_an_entry() -> None:
    wanted = {word.strip() for word in WORDS.replace("\n", " ").split(",")}
    assert of_kind("word") == wanted | {
        "window",
        "canary",
        "simulation",
        "seed",
        "swarm",
        "worker",
        "task queue",
        "heartbeat",
        "reaper",
        "managed by",
        "drift",
        "backfill",
        "ledger",
    }


def test_every_exit_code_is_explained() -> None:
    told = [int(row.split()[0]) for row in dictionary()["exit-codes"]["table"]]
    assert told == [int(code) for code in ExitCode]


@pytest.mark.parametrize("word", dictionary())
def test_an_entry_says_what_it_means_why_and_what_to_do(word: str) -> None:
    entry = dictionary()[word]
    assert set(entry) <= {"kind", "means", "why", "do", "http_status", "table"}
    assert entry["kind"] in KINDS
    assert entry["means"].endswith(".")
    assert entry["why"].endswith(".")
    assert entry["do"]
    for command in entry["do"]:
        parse(command)


def hints() -> list[str]:
    """Every text in the source that is a command to run; what is filled in at run time stands as a word."""
    found = set()
    for path in SOURCE.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        composed = [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)]
        parts = {id(part) for node in composed for part in node.values}
        texts = [
            "".join(str(getattr(part, "value", "")) if _plain(part) else "1" for part in node.values)
            for node in composed
        ]
        texts += [
            node.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts
        ]
        found |= {text for text in texts if "\n" not in text}
    commands = [text for text in found if (words := text.split()) and words[0] == "schedkit" and words[1:2] != ["1"]]
    return sorted(
        re.split(r"   +| …", text)[0] for text in commands if text.split()[1:2] != ["explain"] or "1" not in text
    )


def _plain(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant)


def is_command(hint: str) -> bool:
    """`schedkit job show 1` is; `schedkit is an engine` and a hint whose verb is filled in are not."""
    words = hint.split()
    return len(words) > 1 and words[1] in front.BY_NAME and words[2:3] != ["1"]


@pytest.mark.parametrize("hint", [hint for hint in hints() if is_command(hint)])
def test_every_command_that_a_hint_names_parses(hint: str) -> None:
    parse(hint)


def test_a_word_is_found_in_any_spelling(offline: Cli) -> None:
    for spelling in ("dead letter", "dead-letter", "DEAD_LETTER"):
        assert offline("explain", spelling).stdout.startswith("dead letter   (word)")
    assert offline("explain", "job_not_found").stdout.startswith("JOB_NOT_FOUND   (error, http 404)")
    assert "130  ctrl+c" in offline("explain", "exit-codes").stdout
    missing = offline("explain", "epohc")
    assert (missing.exit_code, missing.stdout) == (3, "")
    assert "near: epoch" in missing.stderr


def test_the_list_has_every_entry(offline: Cli) -> None:
    assert len(offline("explain", "--list").stdout.splitlines()) == len(dictionary())
    doc = json.loads(offline("explain", "epoch", "-o", "json").stdout)
    assert doc["word"] == "epoch"
    assert doc["do"]
