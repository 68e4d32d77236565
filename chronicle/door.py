"""Packages that import a module when one of the names it has is asked for.

Somebody who uses Chronicle should need one import, and a command no more modules than its work
takes. So a package's stub, ``__init__.pyi``, says which names it offers and of which modules: to
type checkers and editors, and to this. The rooms are imported in one direction
(``ARCHITECTURE.md``), and ``chronicle`` is the lowest: what it offers of the rooms above is the one
exception to that direction.

The stub is read, and what reads it imported, when the first name is asked for: every import of a
module of the package comes through here, that of the command, too, which hears no Ctrl-C before.
"""

from __future__ import annotations

import sys
from types import ModuleType


def offer(package: str) -> None:
    """Let a package offer the names of its stub; modules are imported when one is asked for."""
    sys.modules[package].__class__ = _Package


class _Package(ModuleType):
    """A package that offers names of modules not imported yet."""

    _homes: dict[str, str]
    """The module of each name."""

    def __getattr__(self, name: str) -> object:
        from importlib import import_module

        if name == "_homes":
            value: object = _read_stub(self)
        elif name == "__all__":
            value = list(self._homes)
        elif name in self._homes:
            value = getattr(import_module(self._homes[name]), name)
        elif (module := sys.modules.get(f"{self.__name__}.{name}")) is not None:
            return module
        else:
            raise AttributeError(f"module '{self.__name__}' has no attribute '{name}'")
        setattr(self, name, value)
        return value

    def __setattr__(self, name: str, value: object) -> None:
        # Python sets each module that it imports: ``replay.query`` is the function all the same.
        if not isinstance(value, ModuleType):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._homes})


def _read_stub(package: ModuleType) -> dict[str, str]:
    """Return the module of each name that a package offers."""
    import ast
    from pathlib import Path

    assert package.__file__ is not None, "a package has a file"
    stub = Path(package.__file__).with_suffix(".pyi").read_text(encoding="utf-8")
    return {
        alias.name: str(node.module)
        for node in ast.parse(stub).body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
