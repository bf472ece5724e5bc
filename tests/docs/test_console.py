"""The reader of console blocks, so that a test that passes says something."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.console import Command, anchors, commands, links

PAGE = """\
# A page

```console
$ one \\
  --more 'a
  b'
first ...
...
last
$ two   # exit 3
```

## What it's for

[here](#a-page) and `code`

```sh
$ three
```
"""


@pytest.fixture
def page(tmp_path: Path) -> Path:
    path = tmp_path / "page.md"
    path.write_text(PAGE)
    return path


def test_commands_come_in_order_with_what_they_print_and_their_exit_code(page: Path) -> None:
    one, two = commands(page)
    assert (one.text, one.line, one.expected, one.exit_code) == (
        "one \\\n  --more 'a\n  b'",
        4,
        ["first ...", "...", "last"],
        0,
    )
    assert (two.text, two.expected, two.exit_code) == ("two   # exit 3", [], 3)


@pytest.mark.parametrize(
    ("output", "as_shown"),
    [
        ("first x\nlast\n", True),
        ("first x\nmiddle\nmore\nlast  \n\n", True),
        ("first x\n", False),
        ("other x\nlast\n", False),
        ("first x\nlast\nmore\n", False),
    ],
)
def test_three_dots_stand_for_any_text_and_nothing_else_does(page: Path, output: str, as_shown: bool) -> None:
    assert commands(page)[0].printed(output) is as_shown


def test_a_command_without_lines_may_print_anything() -> None:
    assert Command(1, "x").printed("whatever")


def test_a_dot_in_a_page_is_a_dot() -> None:
    assert not Command(1, "x", ["a.b"]).printed("axb")


def test_links_and_anchors(page: Path) -> None:
    assert list(links(page)) == ["#a-page"]
    assert anchors(page) == {"a-page", "what-its-for"}
