"""What an apply would do, for every pair of what a file says and what a server has."""

from __future__ import annotations

from typing import Any

import pytest

from schedkit.files import jobfile
from schedkit.files.plan import Action, Call, Step, create, plan
from schedkit.model.time import parse_rfc3339

NOW = parse_rfc3339("2026-06-01T12:00:00Z")
OURS = "jobs.yaml@growth/app"
DIGEST = 'digest: { cron: "0 8 * * *", url: "https://email.example/digests", labels: { team: growth } }'


def file(*jobs: str, owner: str = OURS) -> jobfile.JobFile:
    lines = "\n".join(f"  {job}" for job in jobs)
    found = jobfile.read(
        f"schedkit: v1\nmanaged_by: {owner}\njobs:\n{lines}\n" if jobs else "schedkit: v1\njobs: {}", "x"
    )
    assert not found.problems, [str(problem) for problem in found.problems]
    found.managed_by = owner
    return found


def job(said: str = DIGEST, **over: Any) -> dict[str, Any]:
    """The server's job as an apply of this entry left it."""
    document = dict(file(said).jobs[0].document)
    status = "PAUSED" if document.pop("paused") else "SCHEDULED"
    shown = {"job_id": "job_1", "status": status, "version": 3, "applied_version": 3, "managed_by": OURS}
    return {**document, **shown, **over}


def steps(said: str | None = DIGEST, have: dict[str, Any] | None = None, **how: Any) -> list[Step]:
    found = {have["name"]: have} if have is not None else {}
    files = [file(said)] if said is not None else [file()]
    return plan(files, found, found.values(), NOW, **how)


def one(said: str | None = DIGEST, have: dict[str, Any] | None = None, **how: Any) -> Step:
    (step,) = steps(said, have, **how)
    return step


def test_what_is_not_there_is_made_once_however_often_it_is_asked_for() -> None:
    step = one()
    (call,) = step.calls()
    assert (step.action, call.verb, call.body["managed_by"], call.body["applied_version"]) == ("add", "create", OURS, 1)
    assert "payload" not in call.body
    assert call == one().calls()[0]
    assert call.key != one(DIGEST.replace("0 8", "0 9")).calls()[0].key
    assert call.key != create(step, after="job_7").key


def test_what_is_as_the_file_says_is_kept() -> None:
    step = one(have=job())
    assert (step.action, step.calls(), step.differences()) == (Action.KEEP, [], {})


def test_a_change_sends_what_differs_under_the_version_that_was_read() -> None:
    step = one(DIGEST.replace("0 8", "0 7"), job())
    (call,) = step.calls()
    assert call.version == 3
    assert set(call.body) == {"schedule", "managed_by", "applied_version"}
    assert call.body["applied_version"] == 4
    assert step.differences() == {"cron": ("0 8 * * *", "0 7 * * *")}
    assert not step.to_look_at


def test_a_hand_that_changed_a_job_since_is_noticed() -> None:
    step = one(have=job(version=4, priority="HIGH"))
    assert (step.action, step.by_hand) == (Action.CHANGE, True)
    assert step.differences() == {"priority": ("high", None)}


def test_a_hand_that_left_everything_as_the_file_says_is_nothing_to_tell() -> None:
    assert one(have=job(version=9)).action is Action.KEEP


def test_a_job_paused_by_hand_is_resumed_last() -> None:
    step = one(DIGEST.replace("0 8", "0 7"), job(status="PAUSED", version=4))
    update, resume = step.calls()
    assert step.by_hand
    assert (update.verb, update.version, update.body["applied_version"]) == ("update", 4, 6)
    assert resume == Call("resume", version=5)


def test_a_job_that_is_to_pause_pauses_first() -> None:
    pause, update = one(DIGEST.replace("url", "paused: true, url"), job()).calls()
    assert (pause, update.version, update.body["applied_version"]) == (Call("pause", version=3), 4, 5)


@pytest.mark.parametrize("owner", [None, "other.yaml@growth/app"])
def test_a_job_of_somebody_else_is_left_alone_unless_it_is_taken_over(owner: str | None) -> None:
    step = one(have=job(managed_by=owner))
    assert (step.action, step.calls(), step.to_look_at) == (Action.TAKEN, [], True)
    taken = one(have=job(managed_by=owner), take_over=True)
    (call,) = taken.calls()
    assert call.body == {"managed_by": OURS, "applied_version": 4}


def test_a_job_moves_from_one_of_the_files_to_another() -> None:
    files = [file(DIGEST), file(owner="old.yaml@growth/app")]
    have = job(managed_by="old.yaml@growth/app")
    (step,) = plan(files, {"digest": have}, [have], NOW, prune=True)
    assert (step.action, step.calls()[0].body["managed_by"]) == (Action.CHANGE, OURS)


def test_a_prune_removes_what_is_ours_and_in_no_file() -> None:
    step = one(None, job(), prune=True)
    assert (step.action, step.calls()) == (Action.REMOVE, [Call("cancel", version=3)])
    assert steps(None, job()) == []
    assert steps(None, job(managed_by=None), prune=True) == []
    assert steps(None, job(status="CANCELLED"), prune=True) == []


def test_a_selection_bounds_what_is_looked_at_and_what_is_pruned() -> None:
    def others(labels: Any) -> bool:
        return bool(labels.get("team") == "ops")

    assert steps(DIGEST, job(), selects=others) == []
    assert steps(None, job(), selects=others, prune=True) == []


def test_a_name_whose_job_was_cancelled_is_used_again_under_another_key() -> None:
    step = one(have=job(status="CANCELLED"))
    assert step.action is Action.ADD
    assert step.calls()[0].key != one().calls()[0].key


def test_a_job_that_is_done_stays_done_until_its_entry_changes() -> None:
    once = 'tea: { at: "2026-06-01T13:00:00Z", url: "https://email.example/tea" }'
    done = job(once, status="COMPLETED")
    assert one(once, done).action is Action.OVER
    assert one(once.replace("13:00", "14:00"), done).action is Action.ADD


def test_a_time_that_has_passed_is_said_and_not_asked_for() -> None:
    step = one('tea: { at: "2026-06-01T09:00:00Z", url: "https://email.example/tea" }')
    assert step.action is Action.OVER
    assert "has passed" in step.note
    ended = one('old: { every: 5m, end: "2026-01-01T00:00:00Z", url: "https://email.example/x" }')
    assert ended.action is Action.OVER


def test_an_interval_keeps_the_anchor_it_was_given_when_it_was_made() -> None:
    said = 'sweep: { every: 5m, url: "https://email.example/x" }'
    have = job(said)
    have["schedule"] = {**have["schedule"], "anchor_at": "2026-05-01T00:00:00Z"}
    assert one(said, have).action is Action.KEEP
    moved = one(said.replace("5m", '5m, anchor: "2026-05-01T00:01:00Z"'), have)
    assert moved.differences() == {"anchor": ("2026-05-01T00:00:00Z", "2026-05-01T00:01:00Z")}
