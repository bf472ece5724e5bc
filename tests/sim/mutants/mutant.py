"""A mutant: a bug as a change of one line, or of a few where one defence hides that another is missing."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Edit:
    """In `module`, the one place that reads `before` reads `after`; both are part of one line."""

    module: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Mutant:
    """`expected`: the invariants that it breaks. `equivalent`: why it breaks none, whatever happens."""

    name: str
    why: str
    expected: tuple[str, ...]
    edits: tuple[Edit, ...]
    equivalent: str = ""

    @property
    def modules(self) -> tuple[str, ...]:
        return tuple(sorted({edit.module for edit in self.edits}))


class Misplaced(Exception):
    """The code has changed: an edit does not find its place, or finds more than one."""


def edited(source: str, module: str, mutant: Mutant) -> str:
    """The source of a module with the mutant's edits. Raises Misplaced."""
    for edit in mutant.edits:
        if edit.module != module:
            continue
        if "\n" in edit.before + edit.after:
            raise Misplaced(f"{mutant.name}: an edit changes one line")
        found = source.count(edit.before)
        if found != 1:
            raise Misplaced(f"{mutant.name}: {edit.before!r} stands {found} times in {module}, not once")
        source = source.replace(edit.before, edit.after)
    return source
