"""Job files against a real scheduler: apply, apply again, a hand in between, a crash in the middle, prune, export."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import Result

from tests.cli.conftest import Cli
from tests.cli.living import Living, living

THREE = """\
schedkit: v1
defaults: { tz: America/New_York, labels: { team: growth } }
jobs:
  digest: { cron: "0 8 * * *", url: "https://email.example/digests", payload: { kind: daily } }
  settle-cards: { every: 5m, target: billing, path: /settle, priority: critical, strict: true }
  purge-carts: { cron: "0 3 * * *", url: "https://shop.example/purge", labels: { team: shop } }
"""

Write = Callable[[str], None]


@pytest.fixture
def alive(monkeypatch: pytest.MonkeyPatch) -> Iterator[Living]:
    with living(monkeypatch) as here:
        yield here


@pytest.fixture
def write(home: Path) -> Write:
    """Write jobs.yaml in a clone of growth/app."""
    (home / ".git").mkdir()
    (home / ".git" / "config").write_text('[core]\n[remote "origin"]\n\turl = git@git.example:growth/app.git\n')

    def to(text: str) -> None:
        (home / "jobs.yaml").write_text(text)

    to(THREE)
    return to


def ok(result: Result) -> str:
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.usefixtures("write")
def test_apply_makes_the_jobs_and_a_second_one_has_nothing_to_do(alive: Living, offline: Cli) -> None:
    told = ok(offline("job", "apply", "-y"))
    assert "+ settle-cards   every 5m, CRITICAL strict" in told
    assert "0 to change, 3 to add, 0 to remove, 0 to look at" in told
    job = alive.api("GET", "/v1/jobs/digest")
    assert (job["managed_by"], job["applied_version"], job["version"]) == ("jobs.yaml@growth/app", 1, 1)
    made = len(alive.changes)
    assert ok(offline("job", "apply", "-y")) == "nothing to do: 3 jobs as the files say\n"
    assert ok(offline("job", "diff", "--prune")) == "nothing to do: 3 jobs as the files say\n"
    assert len(alive.changes) == made


def test_a_change_of_the_file_shows_what_moves_and_exits_10(alive: Living, offline: Cli, write: Write) -> None:
    ok(offline("job", "apply", "-y"))
    write(THREE.replace("0 8", "0 7").replace("priority: critical, strict: true", "window: 5m"))
    told = offline("job", "diff")
    assert told.exit_code == 10
    assert told.stdout.splitlines() == [
        '~ digest         cron   "0 8 * * *" -> "0 7 * * *"',
        "                 next   Tue 2026-06-02 08:00 EDT -> Tue 2026-06-02 07:00 EDT      UTC 12:00 -> 11:00",
        "~ settle-cards   priority   critical -> default",
        "                 window     0s -> 5m",
        "2 to change, 0 to add, 0 to remove, 0 to look at",
    ]
    ok(offline("job", "apply", "-y"))
    assert offline("job", "diff").exit_code == 0
    assert alive.api("GET", "/v1/jobs/digest")["next_run_at"] == "2026-06-02T11:00:00Z"


@pytest.mark.usefixtures("write")
def test_a_job_paused_by_hand_is_shown_and_resumed(alive: Living, offline: Cli) -> None:
    ok(offline("job", "apply", "-y"))
    alive.api("POST", "/v1/jobs/purge-carts:pause")
    told = offline("job", "diff")
    assert told.exit_code == 10
    line = "! purge-carts   was changed by hand on Mon 2026-06-01 (paused): apply would resume it"
    assert told.stdout.splitlines()[0] == line
    assert told.stdout.splitlines()[-1] == "1 to change, 0 to add, 0 to remove, 1 to look at"
    ok(offline("job", "apply", "-y"))
    job = alive.api("GET", "/v1/jobs/purge-carts")
    assert (job["status"], job["applied_version"]) == ("SCHEDULED", job["version"])
    assert offline("job", "diff").exit_code == 0


@pytest.mark.usefixtures("write")
@pytest.mark.parametrize("landed", [0, 1, 2])
def test_an_apply_that_was_cut_off_is_completed_by_the_next(alive: Living, offline: Cli, landed: int) -> None:
    alive.cut_after = landed
    cut = offline("job", "apply", "-y")
    assert cut.exit_code == 7
    assert f"after {landed} of 3; the same command goes on from here" in cut.stderr
    alive.cut_after = None
    assert f"{3 - landed} to add" in ok(offline("job", "apply", "-y"))
    assert ok(offline("job", "apply", "-y")).startswith("nothing to do")
    assert len(alive.api("GET", "/v1/jobs")["items"]) == 3


def test_whoever_changes_a_job_between_look_and_apply_is_noticed_by_name(
    alive: Living, offline: Cli, write: Write
) -> None:
    ok(offline("job", "apply", "-y"))
    write(THREE.replace("0 8", "0 7").replace("0 3", "0 4"))
    alive.before["PATCH"] = lambda: alive.api("PATCH", "/v1/jobs/digest", json={"priority": "LOW"})
    told = offline("job", "apply", "-y")
    assert told.exit_code == 4
    assert "digest is at version 2, not" in told.stderr
    assert "applied 1 of 2: 1 changed" in told.stderr
    assert alive.api("GET", "/v1/jobs/digest")["schedule"]["cron"] == "0 8 * * *"
    assert alive.api("GET", "/v1/jobs/purge-carts")["schedule"]["cron"] == "0 4 * * *"


def test_a_job_made_otherwise_is_not_touched_without_take_over(alive: Living, offline: Cli, write: Write) -> None:
    schedule = {"type": "CRON", "cron": "0 6 * * *", "time_zone": "UTC"}
    hand = {"name": "digest", "schedule": schedule, "target": {"url": "https://email.example/mine"}}
    alive.api("POST", "/v1/jobs", json=hand)
    told = offline("job", "apply", "-y")
    assert told.exit_code == 4
    assert "digest: was made otherwise: --take-over lets jobs.yaml@growth/app keep it" in told.stderr
    assert "schedkit job apply -f jobs.yaml --take-over\n" in told.stderr
    Path("t 2.yaml").write_text(Path("jobs.yaml").read_text())
    named = offline("job", "apply", "-f", "t 2.yaml", "-y").stderr
    assert "schedkit job apply -f 't 2.yaml' --take-over\n" in named
    assert "schedkit job diff -f 't 2.yaml'\n" in named
    assert [job["name"] for job in alive.api("GET", "/v1/jobs")["items"]] == ["digest"]
    assert offline("job", "diff").exit_code == 10
    ok(offline("job", "apply", "-y", "--take-over"))
    assert alive.api("GET", "/v1/jobs/digest")["schedule"]["cron"] == "0 8 * * *"
    assert offline("job", "diff").exit_code == 0


def test_prune_cancels_only_what_this_file_made(alive: Living, offline: Cli, write: Write) -> None:
    ok(offline("job", "apply", "-y"))
    hand = {"name": "mine", "schedule": {"type": "INTERVAL", "every_seconds": 60}, "target": {"target_id": "billing"}}
    alive.api("POST", "/v1/jobs", json=hand)
    write("schedkit: v1\njobs: {}\n")
    assert ok(offline("job", "diff")).startswith("nothing to do")
    refused = offline("job", "apply", "--prune", "--prune-limit", "2", "-y")
    assert refused.exit_code == 8
    assert "--prune --confirm 3" in refused.stderr
    assert (
        ok(offline("job", "apply", "--prune", "--prune-limit", "2", "--confirm", "3", "-y")).count("be cancelled") == 3
    )
    living_jobs = alive.api("GET", "/v1/jobs", params={"status": ["SCHEDULED"]})["items"]
    assert [job["name"] for job in living_jobs] == ["mine"]
    write(THREE)
    assert "3 to add" in ok(offline("job", "apply", "-y"))
    assert ok(offline("job", "apply", "-y")).startswith("nothing to do")


@pytest.mark.usefixtures("alive")
def test_a_selection_bounds_apply_and_prune(offline: Cli, write: Write) -> None:
    assert "1 to add" in ok(offline("job", "apply", "-y", "-l", "team=shop"))
    write("schedkit: v1\njobs: {}\n")
    assert ok(offline("job", "apply", "-y", "--prune", "-l", "team=growth")).startswith("nothing to do")
    assert "1 to remove" in ok(offline("job", "apply", "-y", "--prune", "-l", "team=shop"))


@pytest.mark.usefixtures("write")
def test_a_dry_run_and_a_refusal_change_nothing(alive: Living, offline: Cli) -> None:
    assert "3 to add" in ok(offline("job", "apply", "--dry-run"))
    assert offline("job", "apply").exit_code == 8
    assert alive.changes == []


@pytest.mark.usefixtures("write")
def test_a_name_that_was_freed_is_used_again(alive: Living, offline: Cli) -> None:
    ok(offline("job", "apply", "-y"))
    alive.api("DELETE", "/v1/jobs/digest")
    assert "1 to add" in ok(offline("job", "apply", "-y"))
    alive.api("PATCH", "/v1/jobs/digest", json={"name": "digest-old"})
    assert "1 to add" in ok(offline("job", "apply", "-y"))
    names = [job["name"] for job in alive.api("GET", "/v1/jobs", params={"status": ["SCHEDULED"]})["items"]]
    assert sorted(names) == ["digest", "digest-old", "purge-carts", "settle-cards"]


def test_a_job_that_ran_once_stays_done(alive: Living, offline: Cli, write: Write) -> None:
    write('schedkit: v1\njobs: { tea: { at: "2026-06-01T12:00:30Z", url: "https://tea.example/" } }\n')
    ok(offline("job", "apply", "-y"))
    alive.do(alive.world.boot())
    alive.pass_time(minutes=2)
    assert alive.api("GET", "/v1/jobs/tea")["status"] == "COMPLETED"
    assert "nothing to do: 0 jobs as the files say, 1 over" in ok(offline("job", "apply", "-y"))


@pytest.mark.usefixtures("write")
def test_an_export_is_a_file_that_changes_nothing(alive: Living, offline: Cli, home: Path) -> None:
    ok(offline("job", "apply", "-y"))
    secret = {"url": "https://a.example/", "headers": {"Authorization": "Bearer hush"}}
    alive.api("POST", "/v1/jobs", json={"schedule": {"type": "INTERVAL", "every_seconds": 60}, "target": secret})
    alive.api(
        "POST", "/v1/jobs", json={"name": "s", "schedule": {"type": "INTERVAL", "every_seconds": 60}, "target": secret}
    )
    told = offline("job", "export")
    assert "hush" not in told.output
    assert "left out s: its header Authorization may be a secret" in told.stderr
    for form in ("yaml", "json"):
        (home / "jobs.yaml").write_text(offline("job", "export", "-o", form, "-q").stdout)
        assert ok(offline("job", "diff", "--prune")).startswith("nothing to do: 3 jobs")
    (home / "jobs.yaml").write_text(told.stdout)
    assert ok(offline("job", "diff")).startswith("nothing to do: 3 jobs")
    assert "wrote 1 file to out" in ok(offline("job", "export", "-l", "team=shop", "--split", "out"))
    assert "purge-carts" in (home / "out" / "purge-carts.yaml").read_text()
    assert ok(offline("job", "export", "digest", "-q", "--fields", "jobs", "-o", "json"))


@pytest.mark.usefixtures("write")
def test_json_of_an_apply_says_what_became_of_each(alive: Living, offline: Cli) -> None:
    doc = json.loads(ok(offline("job", "apply", "-y", "-o", "json")))
    assert doc["schema"] == "schedkit.job-plan/v1"
    assert [(step["action"], step["name"], step["result"]) for step in doc["steps"]] == [
        ("add", "digest", "added"),
        ("add", "settle-cards", "added"),
        ("add", "purge-carts", "added"),
    ]
    alive.api("PATCH", "/v1/jobs/digest", json={"priority": "HIGH"})
    doc = json.loads(offline("job", "diff", "-o", "json").stdout)
    assert doc["steps"][0]["by_hand"] is True
    assert doc["steps"][0]["changes"] == {"priority": {"from": "high", "to": None}}
    assert doc["counts"]["keep"] == 2


def test_a_broken_file_is_told_whole_and_changes_nothing(alive: Living, offline: Cli, write: Write) -> None:
    write('schedkit: v1\njobs:\n  a: { cron: "61 * * * *", url: "https://a.example" }\n  b: { every: 5, queue: q }\n')
    checked = offline("job", "validate")
    assert checked.exit_code == 9
    assert checked.stdout.splitlines()[0].startswith('jobs.yaml:3: a: cron: minute "61"')
    assert checked.stdout.splitlines()[1].startswith("jobs.yaml:4: b: every: 5 has no unit")
    told = offline("job", "apply", "-y", "-o", "json")
    assert told.exit_code == 9
    assert json.loads(told.stderr)["error"]["code"] == "INVALID_FILE"
    assert alive.asked == []


def test_one_name_in_two_files_is_refused(offline: Cli, home: Path) -> None:
    (home / "more").mkdir()
    for name in ("a.yaml", "b.yaml"):
        (home / "more" / name).write_text("schedkit: v1\njobs: { x: { every: 5m, queue: q } }\n")
    (home / "more" / "other.yaml").write_text("services: {}\n")
    told = offline("job", "validate", "-f", "more")
    assert told.exit_code == 9
    assert "more/b.yaml:2: x: stands in more/a.yaml as well" in told.stdout


def test_files_that_are_not_there_say_how_to_begin(offline: Cli) -> None:
    told = offline("job", "validate")
    assert told.exit_code == 9
    assert "schedkit init" in told.stderr
    assert offline("job", "validate", "-f", "-", input="schedkit: v1\njobs: {}\n").exit_code == 0
    assert (
        "--prune needs a file" in offline("job", "diff", "-f", "-", "--prune", input="schedkit: v1\njobs: {}\n").stderr
    )


def test_the_schema_is_json(offline: Cli) -> None:
    doc = json.loads(ok(offline("job", "validate", "--schema")))
    assert doc["properties"]["schedkit"]["const"] == "v1"
    assert "cron" in doc["properties"]["jobs"]["additionalProperties"]["properties"]


def test_a_crontab_moves_over_and_a_hand_that_changes_one_job_is_seen(alive: Living, offline: Cli, home: Path) -> None:
    source = Path(__file__).parents[1] / "files" / "crontab"
    moved = offline("job", "import", "--from", "crontab", str(source), "--tz", "Europe/Berlin", "--window", "5m")
    assert moved.exit_code == 0
    assert "line 13: not imported: @reboot names no time" in moved.stderr
    (home / "jobs.yaml").write_text(moved.stdout)
    assert "jobs.yaml: 17 jobs, no mistakes" in ok(offline("job", "validate"))
    assert "17 to add" in ok(offline("job", "apply", "-y"))
    assert ok(offline("job", "apply", "-y")) == "nothing to do: 17 jobs as the files say\n"
    job = alive.api("GET", "/v1/jobs/every-other-monday")
    assert job["target"]["task_queue"] == "shell"
    assert (job["schedule"]["day_rule"], job["schedule"]["time_zone"]) == ("AND", "Europe/Berlin")
    alive.api("PATCH", "/v1/jobs/backup", json={"dispatch_window_seconds": 3_600})
    told = offline("job", "diff")
    assert told.exit_code == 10
    assert told.stdout.splitlines()[:2] == [
        "! backup   was changed by hand on Mon 2026-06-01: apply would set it back",
        "           window   1h -> 5m",
    ]


def test_an_import_in_json_has_its_notes_and_is_a_file_too(offline: Cli, home: Path) -> None:
    (home / "tab").write_text("MAILTO=a@example.com\n@reboot x\n0 0 * * * y\n")
    told = offline("job", "import", "--from", "crontab", "tab", "-o", "json", "-q")
    doc = json.loads(told.stdout)
    assert told.stderr == ""
    assert {key: doc["notes"][-3][key] for key in ("place", "job")} == {"place": "line 2", "job": None}
    (home / "jobs.json").write_text(told.stdout)
    assert "jobs.json: 1 job, no mistakes" in ok(offline("job", "validate", "-f", "jobs.json"))
    assert offline("job", "import", "--from", "temporal", "tab").exit_code == 9
    assert offline("job", "import", "--from", "crontab", "nowhere").exit_code == 9


@pytest.mark.usefixtures("write")
def test_the_list_shows_what_a_file_keeps(alive: Living, offline: Cli) -> None:
    ok(offline("job", "apply", "-y"))
    alive.api("PATCH", "/v1/jobs/digest", json={"managed_by": None})
    told = ok(offline("job", "list", "--managed-by", "jobs.yaml@growth/app", "-o", "jsonl"))
    assert {json.loads(line)["name"] for line in told.splitlines()} == {"settle-cards", "purge-carts"}
    assert "managed by" in ok(offline("job", "show", "purge-carts"))


@pytest.mark.usefixtures("write", "alive")
def test_an_apply_takes_no_key_of_somebody_elses(offline: Cli) -> None:
    assert offline("job", "apply", "--idempotency-key", "k", "-y").exit_code == 9


def test_an_answer_that_was_lost_makes_nothing_twice(alive: Living, offline: Cli, write: Write) -> None:
    alive.lose = "POST"
    ok(offline("job", "apply", "-y"))
    assert len(alive.api("GET", "/v1/jobs")["items"]) == 3
    write(THREE.replace("0 8", "0 7"))
    alive.lose = "PATCH"
    assert offline("job", "apply", "-y").exit_code == 7
    job = alive.api("GET", "/v1/jobs/digest")
    assert (job["schedule"]["cron"], job["version"], job["applied_version"]) == ("0 7 * * *", 2, 2)
    assert ok(offline("job", "apply", "-y")).startswith("nothing to do")
