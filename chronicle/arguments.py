"""Say in a sentence what an argument must be, before a call fails somewhere inside."""

from __future__ import annotations

import os
from collections.abc import Iterable

_SHOWN_MAX = 80
"""Characters of a wrong argument that a message quotes; of a longer one its type is told."""

_HOW_TO_GET = {
    "Store": "chronicle.open_store(path)",
    "Stream": "store.stream(name)",
    "Snapshot": "store.stream(name).snapshot()",
    "Path": "pathlib.Path(folder)",
}


def check_type(given: object, *kinds: type) -> None:
    """Check that an argument is a store, a stream or whatever else the call needs."""
    if not isinstance(given, kinds):
        names = [kind.__name__ for kind in kinds]
        wanted = " or ".join(f"{name} ({_HOW_TO_GET[name]})" for name in names)
        raise TypeError(f"expected {wanted}, not {_shown(given)}")


def check_name(given: object, what: str) -> None:
    """Check that an argument is the name of something, not the thing itself."""
    if not isinstance(given, str):
        raise TypeError(f"expected the {what} name as text, not {_shown(given)}")


def check_path(given: object, what: str) -> None:
    """Check that an argument is the path of something."""
    if not isinstance(given, str | os.PathLike):
        raise TypeError(
            f"expected the path of a {what} as text or pathlib.Path, not {_shown(given)}"
        )


def check_paths(given: object) -> None:
    """Check that an argument is a list of paths; a single text would be taken letter by letter."""
    if isinstance(given, str | os.PathLike):
        raise TypeError(f"expected a list of files, such as ['{given}'], not '{given}'")
    if not isinstance(given, Iterable):
        raise TypeError(f"expected a list of files, not {_shown(given)}")
    for path in given:
        check_path(path, "file")


def check_names(given: object, what: str) -> None:
    """Check that an argument is a list of names; a single text would be taken letter by letter."""
    if isinstance(given, str):
        raise TypeError(
            f"expected a list of {what} names, such as ['{given}'], not the text '{given}'"
        )
    if not isinstance(given, Iterable):
        raise TypeError(f"expected a list of {what} names, not {_shown(given)}")
    for name in given:
        check_name(name, what)


def _shown(given: object) -> str:
    text = repr(given)
    is_shown = isinstance(given, str | int | float) and len(text) <= _SHOWN_MAX
    return text if is_shown else type(given).__name__
