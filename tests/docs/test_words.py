"""Names that pages use for things in the code are the names those things have."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path

import pytest

from schedkit.adapters.secrets import PREFIX
from schedkit.adapters.system import SystemClock
from schedkit.cli import settings
from schedkit.cli.explain import dictionary
from schedkit.engine.failure import reap, retry
from schedkit.model import jobs, runs, schedules
from schedkit.roles.meter import Meter
from schedkit.target import Cause
from tests.docs.console import PAGES, ROOT

CODE = re.compile(r"\b[A-Z]{2,}(?:_[A-Z]{2,})+\b")
VARIABLE = re.compile(r"\bSCHEDKIT_[A-Z_]+\b")
METRIC = re.compile(r"\bschedkit_[a-z_]+\b")
OTHERS = {
    "NO_COLOR",
    "CREATE_TABLE",
    "CRON_TZ",
    "EVENT_JOB_ERROR",
    "RANDOM_DELAY",
}  # of the machine, of SQL, and of crontabs


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def codes() -> set[str]:
    """Every code, state and policy there is."""
    kinds = [kind for module in (jobs, runs, schedules) for kind in vars(module).values()]
    policies = {str(value) for kind in kinds if isinstance(kind, type) and issubclass(kind, StrEnum) for value in kind}
    reasons = {retry.REASON_PERMANENT, retry.REASON_EXHAUSTED, reap.REASON_POISON}
    return set(dictionary()) | policies | reasons | set(Cause) | OTHERS


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_code_that_a_page_names_exists(page: Path) -> None:
    if page.name in ("CONTRIBUTING.md", "state-machine.md"):  # these name constants of the code too
        return
    text = re.sub(r"env:\w+", "", VARIABLE.sub("", page.read_text(encoding="utf-8")))
    assert set(CODE.findall(text)) <= codes()


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_variable_that_a_page_names_is_read(page: Path) -> None:
    source = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "schedkit").rglob("*.py"))
    read = {f"SCHEDKIT_{key.upper()}" for key in (*settings._FROM_ENVIRONMENT, *settings._SWITCHES)}
    named = {word for word in VARIABLE.findall(page.read_text(encoding="utf-8")) if not word.startswith(PREFIX)}
    assert named <= read | set(VARIABLE.findall(source))


def test_every_metric_that_the_operating_page_names_is_served() -> None:
    served = Meter(SystemClock()).text().decode()
    named = set(METRIC.findall((ROOT / "docs" / "operating.md").read_text(encoding="utf-8"))) - {"schedkit_"}
    assert named
    assert not [metric for metric in named if metric.removesuffix("_total") not in served]
