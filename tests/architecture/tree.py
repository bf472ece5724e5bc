"""The source as the architecture tests see it: files, modules, definitions."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
PACKAGE: Final = ROOT / "schedkit"

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True, slots=True)
class Module:
    """A Python file of this repository."""

    path: Path
    text: str

    @property
    def tree(self) -> ast.Module:
        """Parsed anew each time: the trees of all files, kept, would slow down each garbage collection after it."""
        return ast.parse(self.text)

    @property
    def name(self) -> str:
        return str(self.path.relative_to(ROOT))

    @property
    def empty(self) -> bool:
        return not self.text.strip()

    def imports(self) -> set[str]:
        """Full names of what it imports, also inside functions and for the type checker only."""
        found = set()
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                found.add(node.module)
        return found

    def definitions(self) -> Iterator[tuple[str, Definition]]:
        """(qualified name, node) of every class, function and method."""
        yield from _inside(self.tree, "")


def _inside(node: ast.AST, prefix: str) -> Iterator[tuple[str, Definition]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Definition):
            yield prefix + child.name, child
            yield from _inside(child, f"{prefix}{child.name}.")
        else:
            yield from _inside(child, prefix)


@cache
def tracked() -> tuple[Path, ...]:
    """Every file that is, or is about to be, part of the repository; without git, all files but those of tools."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True).stdout.split("\0")
    except (OSError, subprocess.CalledProcessError):
        everything = (path.relative_to(ROOT) for path in ROOT.rglob("*"))
        listed = [str(path) for path in everything if not any(part.startswith(".") for part in path.parts[:1])]
    return tuple(sorted(path for name in listed if name and (path := ROOT / name).is_file()))


@cache
def modules(*folders: str) -> tuple[Module, ...]:
    """The Python files of the repository, or of some folders of it."""
    wanted = [path for path in tracked() if path.suffix == ".py"]
    if folders:
        places = [ROOT / folder for folder in folders]
        wanted = [path for path in wanted if any(path == place or place in path.parents for place in places)]
    assert wanted, f"no files under {folders}"
    return tuple(Module(path, path.read_text("utf-8")) for path in wanted)
