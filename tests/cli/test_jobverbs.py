"""`schedkit job` verbs that an operator gives to several jobs, against a real scheduler in process."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator

import pytest

from tests.cli.conftest import Cli
from tests.cli.living import Living, living
from tests.worlds import HANGS, URL

DAILY = {"type": "CRON", "cron": "0 8 * * *", "time_zone": "UTC"}


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Iterator[Living]:
    monkeypatch.setenv("SCHEDKIT_URL", "http://127.0.0.1:8700")
    with living(monkeypatch) as found:
        monkeypatch.setattr("schedkit.cli.jobpages.now_ms", found.world.clock.now)
        yield found


def make(here: Living, *names: str, **fields: object) -> None:
    for name in names:
        here.api("POST", "/v1/jobs", json={"name": name, "schedule": DAILY, "target": {"url": URL}} | fields)


# ── skip-next ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_skip_next_says_what_is_skipped_and_what_comes_then(here: Living, offline: Cli) -> None:
    make(here, "digest")
    result = offline("job", "skip-next", "digest", "--utc")
    assert result.stdout.startswith("skipped digest Tue 2026-06-02 08:00:00 +00:00; next run Wed 2026-06-03 08:00:00")
    many = offline("job", "skip-next", "digest", "--count", "30", "--utc").stdout
    assert many.startswith("skipped digest Wed 2026-06-03 08:00:00 +00:00, …, Thu 2026-07-02 08:00:00 +00:00 (30 runs)")


def test_a_dry_run_of_skip_next_says_the_same_and_changes_nothing(here: Living, offline: Cli) -> None:
    make(here, "digest", "tea")
    told = offline("job", "skip-next", "digest", "tea", "--count", "2", "--dry-run", "--utc").stdout
    assert told.count("Tue 2026-06-02 08:00:00 +00:00, Wed 2026-06-03 08:00:00 +00:00; next run Thu 2026-06-04") == 2
    assert (here.api("GET", "/v1/jobs/digest")["version"], here.api("GET", "/v1/runs")["items"]) == (1, [])
    done = offline("job", "skip-next", "digest", "tea", "--count", "2", "--utc").stdout
    assert done == told.replace("would skip", "skipped")


def test_a_dry_run_of_skip_next_skips_as_many_of_a_job_that_may_run_but_once_more(here: Living, offline: Cli) -> None:
    """A skip is no run, so `max_runs` stops none."""
    make(here, "digest", max_runs=1)
    told = offline("job", "skip-next", "digest", "--count", "3", "--dry-run", "--utc").stdout
    assert "Thu 2026-06-04 08:00:00 +00:00; next run Fri 2026-06-05" in told
    done = offline("job", "skip-next", "digest", "--count", "3", "--utc").stdout
    assert done == told.replace("would skip", "skipped")


def test_skip_next_goes_by_the_version_that_it_read(here: Living, offline: Cli) -> None:
    make(here, "digest")
    here.before["POST"] = lambda: here.api("PATCH", "/v1/jobs/digest", json={"priority": "LOW"})
    result = offline("job", "skip-next", "digest")
    assert (result.exit_code, "[VERSION_CONFLICT]" in result.stderr) == (4, True)


@pytest.mark.parametrize("which", [["digest"], ["--search", "digest", "--yes"]], ids=["named", "by filter"])
def test_skip_next_skips_the_occurrence_that_was_next_when_it_looked_or_none(
    here: Living, offline: Cli, which: list[str]
) -> None:
    """W14: it passes before the skip is asked for, which gives the job no new version."""
    make(here, "digest", schedule={"type": "CRON", "cron": "*/10 * * * *", "time_zone": "UTC"})
    here.do(here.world.boot())
    here.before["POST"] = lambda: here.pass_time(minutes=11)
    result = offline("job", "skip-next", *which)
    assert (result.exit_code, "[RUN_FINISHED]" in result.stderr) == (4, True), result.output
    assert here.api("GET", "/v1/jobs/digest")["next_run_at"] == "2026-06-01T12:20:00Z"
    assert [run["status"] for run in here.api("GET", "/v1/runs")["items"]] == ["SUCCEEDED"]


def test_skip_next_begins_with_the_run_that_waits_for_the_one_before_it(here: Living, offline: Cli) -> None:
    here.world.targets.script = [HANGS]
    every_minute = {"type": "CRON", "cron": "* * * * *", "time_zone": "UTC"}
    target = {"url": URL, "timeout_seconds": 300}
    make(here, "digest", schedule=every_minute, overlap_policy="BUFFER_ONE", target=target)
    here.do(here.world.boot())
    here.pass_time(minutes=2)
    told = offline("job", "skip-next", "digest", "--dry-run", "--utc").stdout
    assert told.startswith("would skip digest Mon 2026-06-01 12:02:00 +00:00; next run Mon 2026-06-01 12:03:00")
    assert offline("job", "skip-next", "digest", "--utc").stdout == told.replace("would skip", "skipped")


def test_an_answer_that_is_lost_is_not_asked_for_again(here: Living, offline: Cli) -> None:
    """It may have been done, and a second one would skip another run."""
    make(here, "digest")
    here.lose = "POST"
    assert offline("job", "skip-next", "digest").exit_code == 7
    assert len([path for _, path in here.changes if path.endswith(":skipNext")]) == 1
    assert here.api("GET", "/v1/jobs/digest")["next_run_at"] == "2026-06-03T08:00:00Z"


def test_a_one_off_that_is_skipped_is_said_to_have_ended(here: Living, offline: Cli) -> None:
    make(here, "tea", schedule={"type": "ONCE", "run_at": "2026-06-01T13:00:00Z"})
    result = offline("job", "skip-next", "tea", "--utc")
    assert result.stdout == ("skipped tea Mon 2026-06-01 13:00:00 +00:00; nothing else of it is due: it is CANCELLED\n")
    assert offline("job", "skip-next", "tea").exit_code == 4


def test_one_refusal_does_not_keep_the_others_from_being_skipped(here: Living, offline: Cli) -> None:
    make(here, "digest", "tea")
    here.api("POST", "/v1/jobs/digest:pause")
    result = offline("job", "skip-next", "digest", "tea", "-o", "json")
    assert (result.exit_code, "NOTHING_TO_SKIP" in result.stderr) == (4, True)
    assert [job["name"] for job in json.loads(result.stdout)["items"]] == ["tea"]


# ── by filter ────────────────────────────────────────────────────────────────────────────────────────────────────────


def statuses(here: Living) -> dict[str, str]:
    return {job["name"]: job["status"] for job in here.api("GET", "/v1/jobs")["items"]}


def three(here: Living) -> None:
    make(here, "digest", "purge", labels={"team": "growth"})
    make(here, "pay", target={"target_id": "billing", "path": "/x"}, priority="HIGH")


@pytest.mark.parametrize(
    ("flags", "paused"),
    [
        (["-l", "team=growth"], {"digest", "purge"}),
        (["--target", "billing"], {"pay"}),
        (["--priority", "high"], {"pay"}),
        (["--search", "URG"], {"purge"}),
        (["-l", "team=growth", "--search", "dig"], {"digest"}),
        (["--state", "active"], {"digest", "purge", "pay"}),
        (["--all"], {"digest", "purge", "pay"}),
        (["--managed-by", "jobs.yaml"], set()),
    ],
)
def test_a_verb_is_done_to_what_the_filters_of_the_list_find(
    here: Living, offline: Cli, flags: list[str], paused: set[str]
) -> None:
    three(here)
    result = offline("job", "pause", *flags, "--yes")
    assert result.exit_code == 0, result.output
    assert {name for name, status in statuses(here).items() if status == "PAUSED"} == paused
    assert (f"paused {len(paused)} of {len(paused)} job" in result.stderr) == bool(paused)


def test_neither_a_name_nor_a_filter_is_wrong_usage_and_not_everything(here: Living, offline: Cli) -> None:
    three(here)
    for verb in ("pause", "resume", "skip-next", "cancel", "trigger"):
        result = offline("job", verb, "--yes")
        assert (result.exit_code, "needs a JOB, or a filter" in result.stderr) == (2, True), verb
        both = offline("job", verb, "digest", "--all", "--yes")
        assert (both.exit_code, "not several of them" in both.stderr) == (2, True), verb
    assert set(statuses(here).values()) == {"SCHEDULED"}


def test_without_a_terminal_and_without_yes_nothing_is_done(here: Living, offline: Cli) -> None:
    three(here)
    result = offline("job", "cancel", "--all")
    assert (result.exit_code, "[NOT_CONFIRMED]" in result.stderr) == (8, True)
    assert "cancel 3 jobs: digest, purge, pay\n" in result.stderr
    assert set(statuses(here).values()) == {"SCHEDULED"}


def test_a_dry_run_lists_what_matches(here: Living, offline: Cli) -> None:
    three(here)
    result = offline("job", "pause", "-l", "team=growth", "--dry-run", "-q")
    assert len(result.stdout.splitlines()) == 2
    assert "would pause 2 jobs" in offline("job", "pause", "-l", "team=growth", "--dry-run").stderr
    assert set(statuses(here).values()) == {"SCHEDULED"}


def test_without_a_state_only_jobs_are_meant_to_which_it_can_be_done(here: Living, offline: Cli) -> None:
    three(here)
    here.api("DELETE", "/v1/jobs/digest")
    here.api("POST", "/v1/jobs/purge:pause")
    assert "resumed 1 of 1 job" in offline("job", "resume", "--all", "--yes").stderr
    assert "skipped 2 of 2 jobs" in offline("job", "skip-next", "--all", "--yes").stderr
    assert "triggered 2 of 2 jobs" in offline("job", "trigger", "--all", "--yes").stderr
    assert "cancelled 2 of 2 jobs" in offline("job", "cancel", "--all", "--yes").stderr
    assert set(statuses(here).values()) == {"CANCELLED"}


def test_a_refusal_is_told_and_the_others_go_on_and_the_worst_decides(here: Living, offline: Cli) -> None:
    """purge is changed by somebody else after the question, so it is not what was agreed on."""
    three(here)
    here.before["POST"] = lambda: here.api("PATCH", "/v1/jobs/purge", json={"priority": "LOW"})
    result = offline("job", "pause", "--all", "--yes", "-o", "json")
    assert result.exit_code == 4
    assert {job["name"] for job in json.loads(result.stdout)["items"]} == {"digest", "pay"}
    refusal = json.loads(result.stderr.splitlines()[1])["error"]
    assert (refusal["code"], refusal["message"].startswith("purge: ")) == ("VERSION_CONFLICT", True)
    assert "paused 2 of 3 jobs, 1 changed meanwhile" in result.stderr
    assert statuses(here) == {"digest": "PAUSED", "pay": "PAUSED", "purge": "SCHEDULED"}


def test_a_trigger_by_filter_leaves_a_job_alone_that_was_changed_meanwhile(here: Living, offline: Cli) -> None:
    """It would call something else than was agreed on."""
    three(here)
    here.before["POST"] = lambda: here.api("PATCH", "/v1/jobs/purge", json={"target": {"url": URL + "/other"}})
    result = offline("job", "trigger", "-l", "team=growth", "--yes", "-o", "json")
    assert (result.exit_code, "triggered 1 of 2 jobs, 1 changed meanwhile" in result.stderr) == (4, True), result.output
    assert [run["job_name"] for run in here.api("GET", "/v1/runs")["items"]] == ["digest"]


def test_a_server_that_goes_away_in_the_middle_ends_it_and_the_rest_is_counted(here: Living, offline: Cli) -> None:
    three(here)
    here.cut_after = 1
    result = offline("job", "skip-next", "--all", "--yes", "--timeout", "1s")
    assert (result.exit_code, "skipped 1 of 3 jobs, 1 refused, 1 not touched" in result.stderr) == (7, True)


def test_ctrl_c_stops_after_the_one_in_flight(here: Living, offline: Cli) -> None:
    three(here)
    here.before["POST"] = lambda: signal.raise_signal(signal.SIGINT)
    result = offline("job", "pause", "--all", "--yes")
    assert result.exit_code == 130
    assert "stopping after the one in flight (0 of 3)" in result.stderr
    assert "paused 1 of 3 jobs, 2 not touched" in result.stderr
    assert sorted(statuses(here).values()) == ["PAUSED", "SCHEDULED", "SCHEDULED"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_second_ctrl_c_drops_it(here: Living, offline: Cli) -> None:
    three(here)

    def twice() -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    here.before["POST"] = twice
    assert offline("job", "pause", "--all", "--yes").exit_code == 130
    assert set(statuses(here).values()) == {"SCHEDULED"}


def test_a_trigger_of_many_is_not_waited_for(here: Living, offline: Cli) -> None:
    three(here)
    assert offline("job", "trigger", "--all", "--yes", "--wait").exit_code == 2
    runs = json.loads(offline("job", "trigger", "-l", "team=growth", "--yes", "-o", "json").stdout)["items"]
    assert {run["job_name"] for run in runs} == {"digest", "purge"}


@pytest.mark.parametrize("flag", ["--target", "--search", "--state", "--priority", "--due-within", "--managed-by"])
def test_an_empty_filter_is_refused_and_touches_nothing(flag: str, here: Living, offline: Cli) -> None:
    """A variable of the shell that is not set would otherwise be everything."""
    make(here, "digest")
    for empty in ("", " ", ","):
        result = offline("job", "cancel", flag, empty, "--yes")
        assert (result.exit_code, f"{flag} is empty" in result.stderr) == (2, True), result.output
    assert [change for change in here.changes if "digest" in change[1]] == []
    assert here.api("GET", "/v1/jobs/digest")["status"] == "SCHEDULED"


def test_jobs_that_run_are_narrowed_by_the_other_filters_too(here: Living, offline: Cli) -> None:
    here.world.targets.script = [HANGS, HANGS]
    for name, team in (("growing", "growth"), ("paying", "pay")):
        soon = {"type": "ONCE", "run_at": "2026-06-01T12:00:01Z"}
        body = {"name": name, "schedule": soon, "target": {"url": URL}, "labels": {"team": team}}
        here.api("POST", "/v1/jobs", json=body)
    here.do(here.world.boot())
    here.do(here.world.wait(seconds=2))
    told = offline("job", "cancel", "--state", "running", "-l", "team=growth", "--dry-run", "-o", "name")
    assert told.stdout.split() == [here.api("GET", "/v1/jobs/growing")["job_id"]], told.output
    mixed = offline("job", "cancel", "--state", "running,paused", "--yes")
    assert (mixed.exit_code, "running stands alone" in mixed.stderr) == (9, True)
