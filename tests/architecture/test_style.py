"""The rules of CONTRIBUTING.md that a program can check."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from enum import Enum
from typing import NamedTuple

from pydantic import BaseModel
from typing_extensions import is_typeddict

from tests.architecture.tree import Definition, modules

MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 70
TOO_LONG = {  # files to be split; they may not grow beyond this
    "tests/api/test_jobs.py": 500,
    "tests/conformance/test_sqlite.py": 420,
    "tests/worlds.py": 460,
}
BANNED_NAMES = frozenset({"utils", "util", "common", "helpers", "helper", "base", "manager", "service", "impl", "misc"})
UNFINISHED = re.compile(r"\b(" + "|".join(("TO" + "DO", "FIX" + "ME", "X" + "XX", "NotImplemented" + "Error")) + r")\b")
DOCUMENTED = ("schedkit/model", "schedkit/engine", "schedkit/client", "schedkit/ports.py", "schedkit/errors.py")
FOREIGN_BASES = frozenset({  # classes whose own library asks for a subclass
    "aiohttp.abc.AbstractResolver", "asyncio.base_events.BaseEventLoop", "asyncio.events.TimerHandle",
    "fastapi.routing.APIRoute", "httpx.AsyncBaseTransport", "logging.Handler",
    "typer.core.TyperCommand", "typer.core.TyperGroup", "uvicorn.server.Server",
})  # fmt: skip


def test_a_file_opens_with_what_it_is_for_and_fits() -> None:
    """Each rule is one test that names every file which breaks it."""
    assert not [module.name for module in modules() if not (module.empty or ast.get_docstring(module.tree))]
    lines = {module.name: len(module.text.splitlines()) for module in modules()}
    assert not {name: count for name, count in lines.items() if count > TOO_LONG.get(name, MAX_FILE_LINES)}


def test_functions_are_short() -> None:
    assert not {
        f"{module.name}: {name}": lines
        for module in modules()
        for name, node in module.definitions()
        if not isinstance(node, ast.ClassDef) and (lines := _lines(node)) > MAX_FUNCTION_LINES
    }


def test_nothing_is_left_for_later() -> None:
    assert not {module.name: found for module in modules() if (found := UNFINISHED.findall(module.text))}


def test_a_file_is_named_after_a_noun_of_its_own() -> None:
    assert not [module.name for module in modules() if BANNED_NAMES & {module.path.stem, *module.path.parts}]


def test_what_others_use_says_what_it_is_for() -> None:
    assert not [
        f"{module.name}: {name}"
        for module in modules(*DOCUMENTED)
        for name, node in module.definitions()
        if _public(name) and not _clear(node)
    ]


def test_nothing_inherits_but_what_has_to() -> None:
    found = []
    for module in modules("schedkit"):
        if module.path.name == "__main__.py":
            continue
        name = module.name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        classes = [thing for thing in vars(importlib.import_module(name)).values() if inspect.isclass(thing)]
        own = [thing for thing in classes if thing.__module__ == name]
        found += [f"{name}.{thing.__qualname__}" for thing in own if not _may_inherit(thing)]
    assert not found


def _may_inherit(thing: type) -> bool:
    if is_typeddict(thing):  # which are shapes of dicts: nothing is inherited but fields
        return True
    if issubclass(thing, Exception | Enum | BaseModel) or NamedTuple in getattr(thing, "__orig_bases__", ()):
        return True
    ancestors = [base for base in thing.__mro__[1:] if base is not object]
    return getattr(thing, "_is_protocol", False) or not ancestors or any(map(_asks_for_it, ancestors))


def _asks_for_it(base: type) -> bool:
    return f"{base.__module__}.{base.__qualname__}" in FOREIGN_BASES


def _lines(node: Definition) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def _public(name: str) -> bool:
    return not any(part.startswith("_") for part in name.split("."))


def _clear(node: Definition) -> bool:
    """It has a docstring, or is so short that its name and types say it all: an enum, one or two statements."""
    if ast.get_docstring(node):
        return True
    if isinstance(node, ast.ClassDef):
        return any(
            ast.unparse(base) in ("StrEnum", "IntEnum") or ast.unparse(base).endswith("Error") for base in node.bases
        )
    return len(node.body) <= 2
