"""The queries of WITH that a place in a statement can name."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Named:
    """A query that WITH names."""

    name: str
    first: int
    stop: int
    """Its tokens, from the name to behind the parenthesis."""
    ours: frozenset[str] | None
    """What it reads, in lower case, if our language reads it."""
    is_recursive: bool


Scope = tuple[Named, ...]
"""The queries of WITH that a place can name, in the order they stand in."""


def find(scope: Scope, name: str) -> Named | None:
    """Return the query of a name that is nearest."""
    return next((known for known in reversed(scope) if known.name.lower() == name.lower()), None)


def goes_along(scope: Scope, known: Named) -> bool:
    """Tell whether a query of WITH can stand in the text of a cut.

    What it reads must not have the name of a later one that cannot: in the cut that one is a
    relation, which this query would read too.
    """
    if known.ours is None:
        return False
    later = scope[scope.index(known) + 1 :]
    return all(goes_along(scope, one) for one in later if one.name.lower() in known.ours)


def input_of(scope: Scope, name: str) -> Named | None:
    """Return the query of WITH that a name left over in a cut stands for.

    Where one that goes along has the name, it is left over in that one itself or before it.
    """
    known = find(scope, name)
    while known is not None and goes_along(scope, known):
        scope = scope[: scope.index(known)]
        known = find(scope, name)
    return known
