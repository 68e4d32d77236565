"""Packages that import a module when one of the names it has is asked for.

Somebody who uses Chronicle should need one import, and a command no more modules than its work
takes. So a package's stub, ``__init__.pyi``, says which names it offers and of which modules: to
type checkers and editors, and to this. The rooms are imported in one direction
(``ARCHITECTURE.md``), and ``chronicle`` is the lowest: what it offers of the rooms above is the one
exception to that direction.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any


def offer(package: str) -> None:
    """Let a package offer the names of its stub; modules are imported when one is asked for."""
    module = sys.modules[package]
    assert module.__file__ is not None, "a package has a file"
    stub = Path(module.__file__).with_suffix(".pyi").read_text(encoding="utf-8")
    homes = {
        alias.name: str(node.module)
        for node in ast.parse(stub).body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    module.__dict__["_homes"] = homes
    module.__dict__["__all__"] = list(homes)
    module.__class__ = _Package


class _Package(ModuleType):
    """A package that offers names of modules not imported yet."""

    _homes: Mapping[str, str]
    """The module of each name."""

    def __getattr__(self, name: str) -> Any:
        if name not in self._homes:
            raise AttributeError(f"module '{self.__name__}' has no attribute '{name}'")
        value = getattr(import_module(self._homes[name]), name)
        setattr(self, name, value)
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        # Python sets each module that it imports: ``replay.query`` is the function all the same.
        if name not in self._homes or not isinstance(value, ModuleType):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._homes})
