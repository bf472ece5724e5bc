"""What schedkit gives to the tests of its users."""

from __future__ import annotations

import pytest

from schedkit.testing import run_twice
from schedkit.worker import Task


def test_a_function_that_heeds_its_key_is_the_same_twice() -> None:
    rows: dict[str, str] = {}

    def charge(task: Task, order: str) -> str:
        return rows.setdefault(task.idempotency_key, order)

    twice = run_twice(charge, {"order": "A-1"}, observe=lambda: dict(rows))
    assert twice.same, twice
    assert str(twice) == "the second run changed nothing"


def test_a_function_that_does_its_work_again_is_found_out() -> None:
    sent: list[str] = []

    async def mail(task: Task, to: str) -> int:
        sent.append(to)
        return len(sent)

    twice = run_twice(mail, {"to": "ana"}, observe=lambda: list(sent))
    assert not twice.same
    assert "returned second  2" in str(twice)
    assert "observed second  ['ana', 'ana']" in str(twice)


def test_the_second_run_goes_on_from_the_progress_of_the_first_under_the_next_epoch() -> None:
    seen: list[tuple[int, object]] = []

    def rebuild(task: Task) -> None:
        seen.append((task.epoch, task.previous_progress.get("rows")))
        task.progress(rows=10)

    run_twice(rebuild)
    assert seen == [(1, None), (2, 10)]


def test_a_payload_that_does_not_fit_is_refused_before_anything_runs() -> None:
    def rebuild(task: Task, ledger: str) -> None:
        raise AssertionError("not called")

    with pytest.raises(ValueError, match="its payload has no 'ledger'"):
        run_twice(rebuild, {})
