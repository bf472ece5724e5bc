"""Worked cases: what other schedulers got wrong, with the right answer and the reason; one JSON object a line."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Case:
    id: str
    kind: str
    input: dict[str, Any]
    expected: Any
    why: str

    def __str__(self) -> str:
        return self.id


def load() -> tuple[Case, ...]:
    """Every case, in the file's order."""
    lines = Path(__file__).with_name("cases.jsonl").read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines if line]
    return tuple(Case(r["id"], r["kind"], r["input"], r["expected"], r["why"]) for r in records)


def of_kinds(*kinds: str) -> tuple[Case, ...]:
    """The cases of the named kinds; a kind without cases is a typing error in the test."""
    found = tuple(case for case in load() if case.kind in kinds)
    assert set(kinds) == {case.kind for case in found}, kinds
    return found
