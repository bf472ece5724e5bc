"""Crontabs: every line becomes a job, or a comment with the reason; every changed meaning is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from schedkit.files import crontab, jobfile
from schedkit.files.imported import Imported, Wishes

REAL = Path(__file__).with_name("crontab").read_text(encoding="utf-8")
RUN = "/opt/app/bin/run"


def imported(text: str, **wishes: Any) -> Imported:
    """The import, whose text is read back and means what its jobs say."""
    found = crontab.read(text, Wishes(**wishes))
    back = jobfile.read(found.text(), "jobs.yaml")
    assert not back.problems, [str(problem) for problem in back.problems]
    assert [job.name for job in back.jobs] == [job.name for job in found.jobs if job.entry is not None]
    return found


def one(line: str, **wishes: Any) -> tuple[dict[str, Any], list[str]]:
    """The entry of the only job, and its notes."""
    found = imported(line, **wishes)
    (job,) = [job for job in found.jobs if job.entry is not None]
    return dict(job.entry or {}), [note.text for note in found.notes if note.job == job.name]


def left_out(line: str) -> str:
    found = imported(line)
    (job,) = found.jobs
    assert job.entry is None
    return job.comments[-1]


def test_a_real_crontab_is_read_line_by_line() -> None:
    found = imported(REAL)
    kept = {job.name: job.entry for job in found.jobs if job.entry is not None}
    assert list(kept) == [
        "poll", "rotate-logs", "backup", "report", "every-other-monday", "first-sunday", "mail", "late", "half-yearly",
        "settle", "sync", "refresh", "spread-out", "weekly", "silent", "report-2", "long",
    ]  # fmt: skip
    lines = len(
        [line for line in REAL.splitlines() if line and not line.startswith("#") and "=" not in line.split()[0]]
    )
    assert len(found.jobs) == lines
    assert {job.entry["payload"]["env"]["PATH"] for job in found.jobs if job.entry} == {"/usr/local/bin:/usr/bin:/bin"}


def test_a_command_becomes_a_run_of_the_queue_shell() -> None:
    entry, notes = one(f"*/5 9-17 * * mon-fri {RUN} --all >/dev/null 2>&1")
    assert entry == {
        "cron": "*/5 9-17 * * mon-fri",
        "payload": {"command": f"{RUN} --all >/dev/null 2>&1"},
        "expires_after": "5m",
    }
    assert notes == []
    found = imported(f"0 8 * * * {RUN}")
    assert found.defaults["queue"] == "shell"
    assert (found.defaults["misfire"], found.defaults["retry"]) == ("skip", {"max_attempts": 1})


def test_a_target_takes_the_place_of_the_queue() -> None:
    assert imported(f"0 8 * * * {RUN}", target="https://a.example/run").defaults["url"] == "https://a.example/run"
    assert imported(f"0 8 * * * {RUN}", target="billing").defaults["target"] == "billing"


@pytest.mark.parametrize(
    ("said", "command", "stdin"),
    [
        ("mail me%hello%world", "mail me", "hello\nworld\n"),
        ("mail me%", "mail me", "\n"),
        (r"date +\%F", "date +%F", None),
        (r"date +\%F%one \% two", "date +%F", "one % two\n"),
    ],
)
def test_a_percent_is_a_newline_unless_a_backslash_stands_before_it(said: str, command: str, stdin: str | None) -> None:
    entry, notes = one(f"0 8 * * * {said}")
    assert entry["payload"]["command"] == command
    assert entry["payload"].get("stdin") == stdin
    assert any("%" in note for note in notes)


@pytest.mark.parametrize(
    ("fields", "rule"),
    [
        ("0 0 1 * 1", None),
        ("0 0 */2 * 1", "and"),
        ("0 0 1-7 * */2", "and"),
        ("0 0 */1 * 1", "and"),
        ("0 0 * * 1", None),
        ("0 0 */2 * *", None),
        ("0 0 1 * *", None),
    ],
)
def test_a_day_that_begins_with_a_star_wants_the_other_day_to_match_too(fields: str, rule: str | None) -> None:
    entry, notes = one(f"{fields} {RUN}")
    assert entry.get("day_rule") == rule
    both = [note for note in notes if "star" in note or "either matches" in note]
    assert len(both) == (fields.split()[2] != "*" and fields.split()[4] != "*")


def test_environment_lines_count_for_what_stands_below_them() -> None:
    found = imported(f'A=1\n0 1 * * * {RUN}\n B = "x y" \n0 2 * * * {RUN}\n')
    first, second = found.jobs
    assert first.entry is not None
    assert second.entry is not None
    assert first.entry["payload"]["env"] == {"A": "1"}
    assert second.entry["payload"]["env"] == {"A": "1", "B": "x y"}


def test_a_zone_counts_for_what_stands_below_it() -> None:
    found = imported(f"0 1 * * * {RUN}\nCRON_TZ=Asia/Tokyo\n0 2 * * * {RUN}\nCRON_TZ=UTC\n0 3 * * * {RUN}", tz="UTC")
    assert [(job.entry or {}).get("tz") for job in found.jobs] == [None, "Asia/Tokyo", None]
    assert not any("no zone was said" in note.text for note in found.notes)
    assert any("no zone was said" in note.text for note in imported(f"0 1 * * * {RUN}\nTZ=UTC").notes)
    assert any("TZ=Asia/Tokyo" in note.text for note in imported(f"TZ=Asia/Tokyo\n0 1 * * * {RUN}").notes)
    assert '"Mars/Base" is not the name of a time zone' in left_out(f"CRON_TZ=Mars/Base\n0 1 * * * {RUN}")


@pytest.mark.parametrize(
    ("timing", "wishes", "expires"),
    [
        ("0 8 * * *", {}, "1h"),
        ("0 * * * *", {}, "1h"),
        ("@yearly", {}, "1h"),
        ("0,50 * * * *", {}, "10m"),
        ("59 23,0 * * *", {}, "1h"),
        ("0,59 0,23 * * *", {}, "1m"),
        ("*/30 9-17 * * *", {"window": "5m"}, "35m"),
        ("0 8 * * *", {"window": "2h"}, "3h"),
        ("@5", {}, "1m"),
        ("0 8 * * *", {"target": "https://a.example/"}, None),
    ],
)
def test_what_no_worker_takes_expires_before_the_next_one_is_due_and_within_the_hour(
    timing: str, wishes: dict[str, Any], expires: str | None
) -> None:
    found = imported(f"{timing} {RUN}", **wishes)
    (job,) = found.jobs
    assert {**found.defaults, **(job.entry or {})}.get("expires_after") == expires
    named = [note for note in found.notes if "expires_after" in note.text]
    assert len(named) == (expires is not None)


@pytest.mark.parametrize("odd", ["RANDOM_DELAY=soon\n0 8 * * *", "@99999999999999", "@0"])
def test_a_time_without_a_sensible_length_leaves_its_line_out_and_nothing_else(odd: str) -> None:
    found = imported(f"{odd} {RUN}\nRANDOM_DELAY=0\n0 9 * * * {RUN}")
    assert [job.entry is None for job in found.jobs] == [True, False]


@pytest.mark.parametrize("empty", ["CRON_TZ=", 'CRON_TZ=""', "CRON_TZ =  "])
def test_an_empty_zone_is_the_machines_own_again_and_said_once(empty: str) -> None:
    found = imported(f"CRON_TZ=Asia/Tokyo\n0 1 * * * {RUN}\n{empty}\n0 2 * * * {RUN}\n0 3 * * * {RUN}", tz="UTC")
    assert [(job.entry or {}).get("tz") for job in found.jobs] == ["Asia/Tokyo", None, None]
    assert all(job.entry is not None for job in found.jobs)
    (note,) = [note for note in found.notes if "CRON_TZ" in note.text]
    assert (note.place, note.text) == (
        "line 3",
        "CRON_TZ= is empty: cron goes back to the machine's own zone below it, here UTC, the tz of defaults",
    )


def test_cron_tz_counts_before_tz_and_an_empty_tz_says_no_zone() -> None:
    found = imported(f"CRON_TZ=Asia/Tokyo\nTZ=Asia/Seoul\n0 1 * * * {RUN}", tz="UTC")
    assert [(job.entry or {}).get("tz") for job in found.jobs] == ["Asia/Tokyo"]
    assert "tz" not in one(f"TZ=\n0 1 * * * {RUN}", tz="UTC")[0]


@pytest.mark.parametrize(
    ("line", "entry"),
    [
        ("@daily", {"cron": "@daily"}),
        ("@every_minute", {"cron": "* * * * *", "expires_after": "1m"}),
        ("@600", {"every": "600s", "overlap": "skip", "expires_after": "10m"}),
        ("0~30 4 * * *", {"cron": "0 4 * * *", "window": "30m", "expires_after": "90m"}),
        ("~ 4 * * *", {"cron": "0 4 * * *", "window": "59m", "expires_after": "119m"}),
        ("5 1~3 * * *", {"cron": "5 1 * * *", "window": "120m", "expires_after": "3h"}),
        ("10~ */2 * * *", {"cron": "10 */2 * * *", "window": "49m", "expires_after": "109m"}),
    ],
)
def test_specials_of_other_crons_are_kept_where_there_is_such_a_thing(line: str, entry: dict[str, Any]) -> None:
    found, _ = one(f"{line} {RUN}")
    assert found == {**entry, "payload": {"command": RUN}}


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (f"@reboot {RUN}", "@reboot names no time"),
        (f"*/10 * * * * * {RUN}", "it has six time fields"),
        (f"61 * * * * {RUN}", 'minute "61": 61 is outside 0-59'),
        (f"0 0 30 2 * {RUN}", "can never fire"),
        (f"0 5 ~ * * {RUN}", "~ in a day or a month"),
        (f"1,5~9 5 * * * {RUN}", "~ stands beside something else"),
        (f"@fortnightly {RUN}", "@fortnightly is no macro"),
        ("0 8 * * *", "a line has five time fields"),
        ("hello", "a line has five time fields"),
    ],
)
def test_what_cannot_be_kept_is_a_comment_with_the_reason(line: str, reason: str) -> None:
    assert reason in left_out(line)


def test_mail_shell_and_delay_are_named() -> None:
    told = [note.text for note in imported("MAILTO=a@example.com\nSHELL=/bin/zsh\nRANDOM_DELAY=6\n").notes]
    assert any(text.startswith("MAILTO=a@example.com: no mail is sent") for text in told)
    assert any(
        text.startswith("SHELL=/bin/zsh: it is in payload.env, and the worker runs the command by it") for text in told
    )
    assert any(text.startswith("RANDOM_DELAY=6 becomes a window") for text in told)
    assert one(f"RANDOM_DELAY=6\n0 8 * * * {RUN}")[0]["window"] == "6m"
    assert not any("MAILTO" in note.text for note in imported('MAILTO=""\n').notes)


def test_a_user_column_is_found_out_or_said() -> None:
    line = f"17 * * * * root {RUN}"
    entry, notes = one(f"# m h dom mon dow user command\n17 * * * * www-data {RUN}")
    assert entry["payload"] == {"command": RUN, "user": "www-data"}
    assert notes == ["it ran as www-data; here it runs as whoever started the worker"]
    assert one(line)[0]["payload"]["user"] == "root"
    assert one(line, system=False)[0]["payload"] == {"command": f"root {RUN}"}
    assert one(f"17 * * * * deploy {RUN}", system=True)[0]["payload"]["user"] == "deploy"
    assert "user" not in one(f"17 * * * * deploy {RUN}")[0]["payload"]


DEBIAN = """\
# /etc/crontab: system-wide crontab
# Unlike any other crontab you don't have to run the `crontab'
# command to install the new version when you edit this file
# and files in /etc/cron.d. These files also have username fields,
# that none of the other crontabs do.

SHELL=/bin/sh
PATH=/usr/local/sbin:/usr/local/bin:/sbin:/bin:/usr/sbin:/usr/bin

# Example of job definition:
# .---------------- minute (0 - 59)
# |  .------------- hour (0 - 23)
# |  |  .---------- day of month (1 - 31)
# |  |  |  .------- month (1 - 12) OR jan,feb,mar,apr ...
# |  |  |  |  .---- day of week (0 - 6) (Sunday=0 or 7) OR sun,mon,tue,wed,thu,fri,sat
# |  |  |  |  |
# *  *  *  *  * user-name command to be executed
17 *\t* * *\troot\tcd / && run-parts --report /etc/cron.hourly
25 6\t* * *\troot\ttest -x /usr/sbin/anacron || { cd / && run-parts --report /etc/cron.daily; }
47 6\t* * 7\troot\ttest -x /usr/sbin/anacron || { cd / && run-parts --report /etc/cron.weekly; }
52 6\t1 * *\troot\ttest -x /usr/sbin/anacron || { cd / && run-parts --report /etc/cron.monthly; }
#
"""


@pytest.mark.parametrize("system", [None, True])
def test_the_crontab_that_debian_ships_is_read_as_debian_means_it(system: bool | None) -> None:
    found = imported(DEBIAN, system=system)
    read = [
        (job.entry["cron"], job.entry["payload"]["user"], job.entry["payload"]["command"])
        for job in found.jobs
        if job.entry is not None
    ]
    guard = "test -x /usr/sbin/anacron || { cd / && run-parts --report /etc/cron"
    assert read == [
        ("17 * * * *", "root", "cd / && run-parts --report /etc/cron.hourly"),
        ("25 6 * * *", "root", f"{guard}.daily; }}"),
        ("47 6 * * 7", "root", f"{guard}.weekly; }}"),
        ("52 6 1 * *", "root", f"{guard}.monthly; }}"),
    ]


@pytest.mark.parametrize("blanks", [" ", "\t", " \t ", "\t\t"])
def test_fields_stand_apart_by_any_run_of_blanks_and_tabs(blanks: str) -> None:
    words = ["*/9", "1", "*", "*", "*", "root", "/opt/x y\tz"]
    assert one(blanks.join(words), system=True)[0]["payload"] == {"command": "/opt/x y\tz", "user": "root"}
    assert one(blanks.join(["@weekly", "root", "/opt/x y"]), system=True)[0]["payload"] == {
        "command": "/opt/x y",
        "user": "root",
    }
    assert one(blanks.join(["@weekly", "/opt/x y"]), system=False)[0]["payload"] == {"command": "/opt/x y"}


def test_a_line_with_a_user_and_no_command_is_left_out() -> None:
    (job,) = imported("17 * * * *\troot", system=True).jobs
    assert "one macro, a user, and a command" in job.comments[-1]


def test_the_crowd_at_midnight_is_counted() -> None:
    notes = [note.text for note in imported(f"0 0 * * * {RUN}\n@daily {RUN}\n").notes if "midnight" in note.text]
    assert notes == [
        "0 0 * * * puts 1 more job on midnight; --window 30m spreads it",
        "@daily puts 1 more job on midnight (1 there); --window 30m spreads it",
    ]
    assert not [note for note in imported(f"0 0 * * * {RUN}", window="30m").notes if "midnight" in note.text]


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("cd /opt/app && ./bin/backup.sh --full", "backup"),
        ("sudo -n nice -n 10 /usr/bin/python3 /opt/x/sync.py --all", "sync"),
        ("flock -n /tmp/a.lock timeout 60 /opt/poll", "poll"),
        ("A=1 B=2 env C=3 /opt/x", "x"),
        ("test -x /usr/sbin/anacron || ( cd / && run-parts --report /etc/cron.daily )", "run-parts"),
        ('[ "$(date +\\%u)" = 7 ] && /opt/first', "first"),
        ("$HOME/bin/x", "command"),
        ("job_x", "x-job_x"),
    ],
)
def test_a_name_says_what_is_done(command: str, name: str) -> None:
    assert [job.name for job in imported(f"0 8 * * * {command}").jobs] == [name]


def test_names_have_a_prefix_and_are_unique() -> None:
    names = [job.name for job in imported(f"0 8 * * * {RUN}\n0 9 * * * {RUN}\n", prefix="web1-").jobs]
    assert names == ["web1-run", "web1-run-2"]


def test_a_backslash_at_the_end_and_a_backward_range_are_named() -> None:
    assert "cron knows no continued lines" in one(f"0 8 * * * {RUN} \\")[1][0]
    assert "goes round over the end" in one(f"0 22-2 * * * {RUN}")[1][0]


def test_nothing_that_stands_in_a_crontab_breaks_the_file() -> None:
    for odd in ("# x: [", "echo ': - {' \"a\" 'b", "echo é\x85\u2028", "printf 'a\tb'", "- x", "echo \x07", "yes"):
        imported(f"0 8 * * * {odd}\n")
