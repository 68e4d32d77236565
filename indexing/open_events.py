"""Ranges on derived attributes: events whose value a data file does not tell are candidates."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from chronicle.tree.derived_attributes import find_derived, open_key
from indexing.attributes import indexed_field
from indexing.bounds import Bounds, to_bounds
from indexing.key_range import Key, KeyRange, KeyRanges
from indexing.keys import KeyKind, key_kind


@dataclass(frozen=True, slots=True)
class KeySpace:
    """The keys of one index, and which of them says that the value is not known."""

    kind: KeyKind
    open_key: Key | None
    """Greater than any value that is known; None for columns, which tell all their values."""

    @classmethod
    def of(cls, schema: pa.Schema, attribute: str) -> KeySpace:
        """Return the keys of an attribute of a stream of ``schema``.

        Raises
        ------
        IndexingError
            If there is no such attribute, or its type has no order.
        """
        data_type = indexed_field(schema, attribute).type
        is_derived = find_derived(schema, attribute) is not None
        return cls(key_kind(data_type, attribute), open_key(data_type) if is_derived else None)

    def candidates(self, ranges: KeyRanges) -> Bounds:
        """Return the keys of all events that can have a value in ``ranges``.

        Raises
        ------
        IndexingError
            If a bound cannot be compared with the keys.
        """
        bounds = to_bounds(ranges, self.kind)
        if self.open_key is None or ranges.is_empty():
            return bounds
        return to_bounds(ranges.union(_just(self.open_key)), self.kind)

    def certain(self, ranges: KeyRanges) -> Bounds:
        """Return the keys of events that have a value in ``ranges`` for certain.

        Raises
        ------
        IndexingError
            If a bound cannot be compared with the keys.
        """
        bounds = to_bounds(ranges, self.kind)
        if self.open_key is None:
            return bounds
        known = KeyRange(high=self.open_key, high_closed=False)
        return to_bounds(ranges.intersect(KeyRanges((known,))), self.kind)


def _just(key: Key) -> KeyRanges:
    return KeyRanges((KeyRange(key, key),))
