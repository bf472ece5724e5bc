"""A whole job file: `schedkit: v1`, its defaults and its jobs, each as the document the API takes.

schedkit: v1
defaults: { tz: America/New_York, window: 5m, labels: { team: growth } }
jobs:
  digest: { cron: "0 8 * * *", url: "https://email.example/digests" }
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from schedkit.files import scalars, yamltext
from schedkit.files.documents import REFERENCES, Document
from schedkit.files.entries import Entry, document_of
from schedkit.files.keys import BY_NAME, PLACES, TOP
from schedkit.files.problems import Problem
from schedkit.files.yamltext import Path, Tree
from schedkit.model.names import MAX_NAME_CHARS, NAME_RULE, may_be_name

VERSION: Final = "v1"
OF_PLACES: Final = ("path", "method", "headers", "task_type", "lease", "timeout", *REFERENCES)
MERGED: Final = ("labels", "headers", "retry")  # a job adds to what `defaults` says of these
REPLACED: Final = {  # what a job says in another way than `defaults` does
    **{place: (*PLACES, *OF_PLACES) for place in PLACES},
    "strict": ("window",),
    "window": ("strict",),
    "at_most_once": ("delivery",),
    "delivery": ("at_most_once",),
}


@dataclass(frozen=True, slots=True)
class FileJob:
    """One job of a file, and the line its entry begins in."""

    name: str
    line: int
    document: Document


@dataclass(slots=True)
class JobFile:
    """What a file says. With `problems` it says nothing that could be acted on."""

    file: str
    managed_by: str | None = None
    jobs: list[FileJob] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


def read(text: str, file: str) -> JobFile:
    """The jobs of a text; `file` is what problems call it. Never raises: what is wrong is in `problems`."""
    tree = yamltext.read(text)
    found = JobFile(file)
    for mistake in tree.mistakes:
        job, key = _place(mistake.path)
        found.problems.append(Problem(file, mistake.line, mistake.message, job, key, mistake.fix))
    top = tree.value
    if top is None and found.problems:
        return found
    if not isinstance(top, Mapping):
        found.problems.append(Problem(file, 1, "a job file is a mapping", fix=("begin it with schedkit: v1",)))
        return found
    _top(found, tree, top)
    defaults = _mapping(found, tree, top, "defaults")
    for key in defaults:
        if key not in BY_NAME or BY_NAME[key].own:
            known = key in BY_NAME
            told = "it says something of one job only" if known else "there is no such key"
            _say(found, tree, ("defaults", key), told, *_near(key, [] if known else list(BY_NAME)))
    defaults = {key: value for key, value in defaults.items() if key in BY_NAME and not BY_NAME[key].own}
    for name, said in _mapping(found, tree, top, "jobs").items():
        _job(found, tree, name, said, defaults)
    found.problems = sorted(dict.fromkeys(found.problems), key=lambda problem: problem.line)
    return found


def _top(found: JobFile, tree: Tree, top: Mapping[str, Any]) -> None:
    for key in top:
        if key not in TOP:
            _say(found, tree, (key,), "there is no such key", *_near(key, list(TOP)))
    if "targets" in top:
        told = "registered targets cannot be kept by this scheduler yet"
        _say(found, tree, ("targets",), told, "take targets out, and give each job its url")
    if top.get("schedkit") != VERSION:
        told = f"schedkit is {scalars.shown(top.get('schedkit'))}" if "schedkit" in top else "schedkit is missing"
        _say(found, tree, ("schedkit",), f"{told}; this reads {VERSION}", f"write schedkit: {VERSION}")
    managed_by = top.get("managed_by")
    if managed_by is not None and (not isinstance(managed_by, str) or not 0 < len(managed_by) <= MAX_NAME_CHARS):
        _say(found, tree, ("managed_by",), f"it is a text of 1 to {MAX_NAME_CHARS} characters")
    else:
        found.managed_by = managed_by
    if "jobs" not in top:
        _say(found, tree, ("jobs",), "there are no jobs", "write jobs: {} for a file that keeps none")


def _job(found: JobFile, tree: Tree, name: str, said: Any, defaults: Mapping[str, Any]) -> None:
    path: Path = ("jobs", name)
    if not may_be_name(name):
        _say(found, tree, path, f"{scalars.shown(name)} cannot be a name: {NAME_RULE}")
        return
    if not isinstance(said, Mapping):
        if not tree.is_mistaken(path):
            _say(found, tree, path, "a job is a mapping", 'write { cron: "0 8 * * *", url: "https://..." }')
        return
    replaced = {other for key in said if said[key] is not None for other in REPLACED.get(key, ())}
    inherited = {key: value for key, value in defaults.items() if key not in replaced and key not in said}
    merged = {**inherited, **said}
    for key in MERGED:
        above, own = defaults.get(key), said.get(key)
        if key not in replaced and isinstance(above, Mapping) and isinstance(own, Mapping):
            merged[key] = {**above, **own}

    def refuse(key: str, message: str, fix: tuple[str, ...]) -> None:
        here = ("defaults", key) if key in inherited else (*path, key)
        _say(found, tree, here, message, *fix)

    broken = {key for key in merged if tree.is_mistaken((*path, key)) or tree.is_mistaken(("defaults", key))}
    entry = Entry(merged, refuse, frozenset(inherited), set(broken))
    document = document_of(name, entry)
    if document is not None:
        found.jobs.append(FileJob(name, tree.line_of(path), document))


def _mapping(found: JobFile, tree: Tree, top: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = top.get(key)
    if value is not None and not isinstance(value, Mapping):
        _say(found, tree, (key,), f"{scalars.shown(value)} is no mapping")
    return value if isinstance(value, Mapping) else {}


def _say(found: JobFile, tree: Tree, path: Path, message: str, *fix: str) -> None:
    job, key = _place(path)
    found.problems.append(Problem(found.file, tree.line_of(path), message, job, key, tuple(fix)))


def _place(path: Path) -> tuple[str | None, str | None]:
    """The job and the field that a path means."""
    words = [str(part) for part in path]
    if words[:1] == ["jobs"] and len(words) > 1:
        return words[1], ".".join(words[2:]) or None
    if words[:1] == ["defaults"]:
        return ("defaults" if len(words) > 1 else None), ".".join(words[1:]) or None
    return None, ".".join(words) or None


def _near(key: str, known: list[str]) -> list[str]:
    near = difflib.get_close_matches(key, known, n=1)
    return [f"write {near[0]}"] if near else []
