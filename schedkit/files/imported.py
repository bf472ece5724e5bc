"""What another scheduler's entries become: job entries, and a note for everything whose meaning changes on the way.

Nothing is dropped without a word: an entry that cannot be kept here stands as a comment, with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from schedkit.files import writing
from schedkit.files.entries import Entry, document_of
from schedkit.files.jobfile import VERSION
from schedkit.files.keys import KEYS
from schedkit.files.problems import ways
from schedkit.files.writing import Written
from schedkit.model.names import may_be_name

MAX_NAME_CHARS: Final = 80  # with room for a prefix and a number
_ODD: Final = re.compile(r"[^A-Za-z0-9._]+")


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the one who imports asked for. `target` is a URL or the name of a registered target; `system` says whether a
    crontab has a user column, None where it is to be found out."""

    tz: str | None = None
    target: str | None = None
    window: str | None = None
    prefix: str = ""
    system: bool | None = None

    def place(self, queue: str) -> dict[str, str]:
        """Where the runs go: the target asked for, or a queue."""
        if self.target is None:
            return {"queue": queue}
        return {"url": self.target} if "://" in self.target else {"target": self.target}

    def spread(self) -> dict[str, str]:
        """The window asked for."""
        return {"window": self.window} if self.window is not None else {}


@dataclass(frozen=True, slots=True)
class Note:
    """One thing to know. `place` is where it stands in the source: `line 4`, or a name there."""

    place: str
    text: str
    job: str | None = None

    def __str__(self) -> str:
        return f"{self.place}: {self.text}" if self.place else self.text

    def document(self) -> dict[str, Any]:
        """The same for programs."""
        return {"place": self.place or None, "job": self.job, "note": self.text}


@dataclass(slots=True)
class Imported:
    """The jobs so far, with the notes."""

    wishes: Wishes
    source: str
    defaults: dict[str, Any] = field(default_factory=dict)
    jobs: list[Written] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    _names: set[str] = field(default_factory=set)

    def note(self, text: str, place: str = "") -> None:
        """Something that is so for all of them."""
        self.notes.append(Note(place, text))

    def add(self, place: str, said: str, name: str, entry: Mapping[str, Any], notes: Iterable[str] = ()) -> None:
        """One job. What the format refuses is left out, with the reason; `said` is the entry as it stood."""
        name, order = self._free(name), [key.name for key in KEYS]
        entry = {key: entry[key] for key in sorted(entry, key=order.index)}
        wrong: list[str] = []
        merged = {**self.defaults, **entry}
        inherited = frozenset(self.defaults) - set(entry)
        document_of(name, Entry(merged, lambda key, message, fix: wrong.append(_told(key, message, fix)), inherited))
        if wrong:
            self.leave(place, said, *wrong)
            return
        self._names.add(name)
        told = [Note(place, text, name) for text in notes]
        self.notes += told
        self.jobs.append(Written(name, entry, [f"{place}: {said}" if said else place, *(note.text for note in told)]))

    def leave(self, place: str, said: str, *why: str) -> None:
        """An entry that cannot be kept here."""
        self.notes += [Note(place, f"not imported: {text}") for text in why]
        self.jobs.append(Written("", None, [f"{place}: {said}", *(f"not imported: {text}" for text in why)]))

    def summary(self) -> str:
        """How many were imported and how many were not: what somebody reads who reads nothing else."""
        left = sum(job.entry is None for job in self.jobs)
        told = f"imported {len(self.jobs) - left} of {len(self.jobs)}"
        return f"{told}; {left} not: see `not imported` above, and in the file" if left else told

    def text(self) -> str:
        """The job file."""
        head = [f"Imported from {self.source}. Check it, then: schedkit job apply -f FILE"]
        head += [note.text for note in self.notes if not note.place]
        placed = [str(note) for note in self.notes if note.place and note.job is None and not self._stands(note)]
        return writing.text_of(self.jobs, defaults=self.defaults, head=[*head, *placed])

    def document(self) -> dict[str, Any]:
        """The job file as a document, which apply takes as well, with the notes."""
        jobs = {job.name: job.entry for job in self.jobs if job.entry is not None}
        told = [note.document() for note in self.notes]
        return {"schedkit": VERSION, "defaults": dict(self.defaults), "jobs": jobs, "notes": told}

    def _stands(self, note: Note) -> bool:
        return note.text.startswith("not imported: ")

    def _free(self, wanted: str) -> str:
        base = _ODD.sub("-", wanted).strip("-.")[:MAX_NAME_CHARS] or "job"
        base = f"{self.wishes.prefix}{base}"
        base = base if may_be_name(base) else f"x-{base}"
        number, name = 1, base
        while name in self._names:
            number += 1
            name = f"{base}-{number}"
        return name


def _told(key: str, message: str, fix: tuple[str, ...]) -> str:
    return f"{key}: {message}" + (f" ({ways(fix)})" if fix else "")
