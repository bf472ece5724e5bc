"""`job import` says at the end how much of the source it kept."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Cli

TAB = "0 8 * * * /opt/a\n@reboot /opt/b\n61 * * * * /opt/c\n"


def test_the_last_line_says_how_many_were_imported_and_how_many_were_not(offline: Cli, home: Path) -> None:
    (home / "tab").write_text(TAB)
    told = offline("job", "import", "--from", "crontab", "tab")
    assert told.exit_code == 0, told.output
    assert told.stderr.splitlines()[-1] == "imported 1 of 3; 2 not: see `not imported` above, and in the file"
    assert "imported 1 of 3" not in told.stdout
    (home / "tab").write_text("0 8 * * * /opt/a\n0 9 * * * /opt/b\n")
    assert offline("job", "import", "--from", "crontab", "tab").stderr.splitlines()[-1] == "imported 2 of 2"


def test_a_quiet_import_says_nothing_and_one_in_json_prints_a_document_alone(offline: Cli, home: Path) -> None:
    (home / "tab").write_text(TAB)
    assert offline("job", "import", "--from", "crontab", "tab", "-q").stderr == ""
    told = offline("job", "import", "--from", "crontab", "tab", "-o", "json")
    assert list(json.loads(told.stdout)["jobs"]) == ["a"]
    assert "imported 1 of 3" in told.stderr
