"""Names of jobs: what may stand wherever a job id can."""

from __future__ import annotations

from typing import Final

MAX_NAME_CHARS: Final = 128
NAME_RULE: Final = (
    f"a name has 1 to {MAX_NAME_CHARS} printable characters, no slash, backslash or colon, no"
    " blanks at its ends, and does not begin with job_ or -, so that it can stand wherever a job id can"
)


def may_be_name(text: str) -> bool:
    """Whether a job may be called this; `NAME_RULE` says it in words."""
    odd = not text.isprintable() or text != text.strip() or text in (".", "..") or any(mark in text for mark in "/:\\")
    return bool(text) and not odd and len(text) <= MAX_NAME_CHARS and not text.startswith(("job_", "-"))
