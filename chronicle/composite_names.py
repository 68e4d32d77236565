"""Names of several columns taken together, such as ``district+beat``."""

from __future__ import annotations

from collections.abc import Collection

SEPARATOR = "+"


def composite_parts(columns: Collection[str], name: str) -> tuple[str, ...] | None:
    """Return what a name joins, in its order; None if it is a column's or joins nothing. Pure.

    A column of that very name comes first; the parts returned may be no columns.
    """
    if SEPARATOR not in name or name in columns:
        return None
    return tuple(name.split(SEPARATOR))
