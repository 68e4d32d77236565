"""Errors of the secondary indexes."""

from __future__ import annotations

from collections.abc import Iterable

from chronicle.composite_names import SEPARATOR
from chronicle.errors import ChronicleError, did_you_mean


class IndexingError(ChronicleError):
    """An attribute cannot be indexed, or a key range does not fit the index asked."""


class UnknownIndexError(IndexingError, LookupError):
    """The stream has no index on that attribute.

    Attributes
    ----------
    name, candidates
        What was asked for, and which indexes there are.
    """

    def __init__(self, name: str, *, candidates: Iterable[str]) -> None:
        self.name = name
        self.candidates = tuple(sorted(candidates))
        known = ", ".join(self.candidates) or "none"
        # The same columns in another order are another index.
        parts = sorted(name.split(SEPARATOR))
        alike = [one for one in self.candidates if sorted(one.split(SEPARATOR)) == parts]
        hint = f"; did you mean '{alike[0]}'?" if alike else did_you_mean(name, self.candidates)
        super().__init__(f"no index on '{name}' (indexes: {known}){hint}")


class CorruptRunError(IndexingError):
    """A run file is missing or damaged; lookups read its events from the blocks instead.

    Attributes
    ----------
    path, reason
        Which file, and what is wrong with it.
    denied
        Whether it is only that it may not be read.
    """

    def __init__(self, path: str, reason: str, *, denied: bool = False) -> None:
        self.path = path
        self.reason = reason
        self.denied = denied
        super().__init__(
            f"run '{path}' may not be read ({reason}); answers stay right without it, check the "
            "permissions of the file and its folders"
            if denied
            else f"run '{path}' cannot be used ({reason}); answers stay right without it, "
            "'chronicle repair' writes it anew"
        )
