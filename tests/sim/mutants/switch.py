"""Turns a mutant on, in a process of its own: its modules are compiled from changed source as they are imported.

The files stay as they are and nothing of this is part of the package, so no bug can be turned on where it is installed.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType

from tests.sim.mutants.mutant import Misplaced, Mutant, edited


class _Loader(SourceFileLoader):
    """Loads one module with the edits of a mutant, whatever code is cached of it."""

    def __init__(self, name: str, path: str, mutant: Mutant) -> None:
        super().__init__(name, path)
        self._mutant = mutant

    def get_code(self, fullname: str) -> CodeType:
        source = self.get_data(self.path).decode("utf-8")
        code: CodeType = self.source_to_code(edited(source, fullname, self._mutant).encode(), self.path)
        return code


class _Finder:
    """Finds the modules of a mutant before anybody else does."""

    def __init__(self, mutant: Mutant) -> None:
        self._mutant = mutant

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in self._mutant.modules:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.origin is None:
            raise Misplaced(f"{self._mutant.name}: there is no module {fullname}")
        spec.loader = _Loader(fullname, spec.origin, self._mutant)
        return spec


def turn_on(mutant: Mutant) -> None:
    """From here on this process has the bug. Raises Misplaced where an edit has no place or comes too late."""
    loaded = [name for name in sys.modules if name == "schedkit" or name.startswith("schedkit.")]
    if loaded:
        raise Misplaced(f"{mutant.name}: {loaded[0]} was imported before the mutant was turned on")
    sys.meta_path.insert(0, _Finder(mutant))
