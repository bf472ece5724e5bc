"""Markdown as the tests read it: fenced blocks, the commands in them with what they should print, and links.

```console                 every command is run, in the order of the file
$ schedkit job list        a command; it goes on in the next line after a backslash or in open quotes
NAME  STATUS ...           what it prints; `...` is any text, and on a line of its own any lines
$ schedkit job show x      # exit 3
```
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = tuple(
    sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")], key=lambda path: path.name)
)

_FENCE: Final = re.compile(r"^```(?P<kind>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_EXIT: Final = re.compile(r"#\s*exit\s+(\d+)\s*$")
_LINK: Final = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
_HEADING: Final = re.compile(r"^#+ (.+)$", re.MULTILINE)


@dataclass(slots=True)
class Command:
    """One command of a console block, with the lines it should print; none means that anything will do."""

    line: int
    text: str
    expected: list[str] = field(default_factory=list)

    @property
    def exit_code(self) -> int:
        said = _EXIT.search(self.text)
        return int(said[1]) if said else 0

    def printed(self, output: str) -> bool:
        """Whether the output is what the page shows."""
        return not self.expected or re.fullmatch(_pattern(self.expected), _trimmed(output)) is not None


def blocks(page: Path, *kinds: str) -> Iterator[tuple[int, str]]:
    """(line, text) of the fenced blocks of these kinds."""
    text = page.read_text(encoding="utf-8")
    for found in _FENCE.finditer(text):
        if found["kind"] in kinds:
            yield text.count("\n", 0, found.start("text")) + 1, found["text"]


def commands(page: Path) -> list[Command]:
    """Every command of every console block, in order."""
    found: list[Command] = []
    for first, text in blocks(page, "console"):
        goes_on = False
        for number, line in enumerate(text.splitlines(), first):
            if goes_on:
                found[-1].text += "\n" + line
            elif line.startswith("$ "):
                found.append(Command(number, line.removeprefix("$ ")))
            else:
                found[-1].expected.append(line)
            goes_on = (goes_on or line.startswith("$ ")) and not _complete(found[-1].text)
    return found


def links(page: Path) -> Iterator[str]:
    """What the links of a page point to, code blocks left out."""
    prose = _FENCE.sub("", page.read_text(encoding="utf-8"))
    return (found[1] for found in _LINK.finditer(prose))


def anchors(page: Path) -> set[str]:
    """The names under which headings can be linked to."""
    prose = _FENCE.sub("", page.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w\- ]", "", heading[1].lower()).replace(" ", "-") for heading in _HEADING.finditer(prose)}


def _complete(text: str) -> bool:
    """Whether a shell would run this line, and not wait for the rest of it."""
    try:
        shlex.split(text, comments=True)
    except ValueError:  # an open quote, or a backslash at the end
        return False
    return True


def _pattern(lines: list[str]) -> str:
    parts = [r"(?:.*\n)*" if line == "..." else _any(line) + "\n" for line in _trimmed("\n".join(lines)).splitlines()]
    return "".join(parts)


def _any(line: str) -> str:
    return ".*".join(re.escape(part) for part in line.split("..."))


def _trimmed(text: str) -> str:
    """Without blanks at the ends of lines and empty lines at the ends of the text."""
    lines = "\n".join(line.rstrip() for line in text.splitlines()).strip("\n")
    return lines + "\n" if lines else ""
