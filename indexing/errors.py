"""Errors of the secondary indexes."""

from __future__ import annotations

from collections.abc import Iterable

from chronicle.errors import ChronicleError, UnusableFileError, did_you_mean
from chronicle.schema import SEPARATOR


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


class CorruptRunError(UnusableFileError, IndexingError):
    """A run file is missing or damaged; lookups read its events from the blocks instead."""

    _kind = "run"
