"""Packages that import a module when one of the names it has is asked for.

Somebody who uses Chronicle should need one import, and a command no more modules than its work
takes. The rooms are imported in one direction (``ARCHITECTURE.md``), and ``chronicle`` is the
lowest: what it offers of the rooms above, by this and as types in ``chronicle/__init__.py``, is the
one exception to that direction.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from types import ModuleType
from typing import Any


def offer(package: str, names: Mapping[str, tuple[str, ...]]) -> None:
    """Let a package offer names of modules, which are imported when a name is asked for."""
    module = sys.modules[package]
    homes = {name: home for home, offered in names.items() for name in offered}
    module.__dict__["_homes"] = homes
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
