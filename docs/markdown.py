"""Text as Markdown takes it for text."""

from __future__ import annotations

import re


def cell(text: str) -> str:
    """Text that a table's cell can hold."""
    return " ".join(text.split()).replace("|", "\\|")


def plain(text: str) -> str:
    """Text in which nothing is taken for markup."""
    return re.sub(r"([<*`])", r"\\\1", text)
