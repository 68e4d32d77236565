"""What an index can be on: a column, a derived attribute, or several columns; and its keys.

The value of a derived attribute may not be known from a data file alone: such events are candidates
of every range.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

import pyarrow as pa

from chronicle.errors import did_you_mean
from chronicle.schema import SEPARATOR, composite_parts
from chronicle.tree.derived_attributes import (
    attribute_field,
    columns_for,
    extend,
    find_derived,
    open_key,
    parse_derived,
)
from indexing.composite import Composite, parse_composite, to_composite_column
from indexing.config import COMPOSITE_PARTS_MAX
from indexing.errors import IndexingError
from indexing.key_range import Bounds, Key, KeyRange, KeyRanges, to_bounds
from indexing.keys import KeyKind, Keys, key_kind, to_keys


def names_attribute(columns: Collection[str], derived: Collection[str], name: str) -> bool:
    """Return whether a stream of these columns and derived attributes can have an index so called.

    Pure; of several columns together their types play no role.
    """
    return name in columns or name in derived or parse_composite(columns, name) is not None


def find_composite(schema: pa.Schema, attribute: str) -> Composite | None:
    """Return the columns a name joins; None if it is the name of one attribute.

    Raises `IndexingError` if it joins what cannot be indexed together.
    """
    parts = composite_parts(schema.names, attribute)
    if parts is None:
        return None
    if parse_derived(attribute) is not None and parse_derived(parts[0]) is None:
        return None  # of a column that has the sign in its name
    for i, part in enumerate(parts):
        if part in parts[:i]:
            raise IndexingError(f"'{attribute}' names column '{part}' twice; name it once")
        if part in schema.names:
            key_kind(schema.field(part).type, part)
        elif parse_derived(part) is not None:
            raise IndexingError(
                f"'{attribute}' cannot be indexed: '{part}' is derived, and only columns can be "
                "indexed together; index it alone"
            )
        elif (whole := _column_with(schema.names, attribute, part)) is not None:
            raise IndexingError(
                f"'{attribute}' cannot be indexed: column '{whole}' has the sign '{SEPARATOR}' in "
                "its name, so it can be indexed alone only"
            )
        else:
            raise IndexingError(
                f"no column '{part}' to index in '{attribute}' (columns: "
                f"{', '.join(schema.names)}){did_you_mean(part, schema.names)}"
            )
    if len(parts) > COMPOSITE_PARTS_MAX:
        raise IndexingError(
            f"'{attribute}' names {len(parts)} columns; at most {COMPOSITE_PARTS_MAX} can be "
            "indexed together"
        )
    return Composite(parts)


def _column_with(columns: Collection[str], attribute: str, part: str) -> str | None:
    """Return a column that was taken apart at the signs in its name, of which one part is this."""
    torn = (name for name in columns if name in attribute and part in name.split(SEPARATOR))
    return next(torn, None)


def indexed_field(schema: pa.Schema, attribute: str) -> pa.Field:
    """Return name and type of an attribute to index; several columns together are a string.

    Raises `IndexingError` or `SchemaError` where nothing of that name can be indexed.
    """
    if find_composite(schema, attribute) is not None:
        return pa.field(attribute, KeyKind.STRING.arrow_type)
    field = attribute_field(schema, attribute)
    if field is None:
        raise IndexingError(
            f"no column '{attribute}' to index (columns: {', '.join(schema.names)})"
            f"{did_you_mean(attribute, schema.names)}"
        )
    return field


def columns_to_index(schema: pa.Schema, attributes: Iterable[str], key: str | None) -> list[str]:
    """Return the columns that the keys of attributes are made from, each once.

    ``key`` is the name of the key column, if the stream has one.
    """
    columns: dict[str, None] = {}
    for attribute in attributes:
        composite = parse_composite(schema.names, attribute)
        parts = (attribute,) if composite is None else composite.parts
        columns |= dict.fromkeys(columns_for(schema, parts, key))
    return list(columns)


def is_told_by_neighbours(schema: pa.Schema, attribute: str) -> bool:
    """Return whether an event's value depends on events before it, so that files are read whole."""
    return find_derived(schema, attribute) is not None


def with_derived(events: pa.Table, attributes: Iterable[str], key: str | None) -> pa.Table:
    """Return all events of one data file, in stream order, with what is derived among attributes.

    Pure. Attributes that are there already stay as they are.
    """
    derived = [name for name in attributes if is_told_by_neighbours(events.schema, name)]
    return extend(events, derived, key)


def keys_of(events: pa.Table, attribute: str) -> Keys:
    """Return the usable keys of an attribute, in the order of events. Pure.

    ``events`` has the columns of ``columns_to_index``, and what is derived.
    """
    composite = parse_composite(events.column_names, attribute)
    column = (
        events.column(attribute) if composite is None else to_composite_column(events, composite)
    )
    return to_keys(column, attribute)


@dataclass(frozen=True, slots=True)
class KeySpace:
    """The keys of one index, and which of them says that the value is not known."""

    kind: KeyKind
    open_key: Key | None
    """Greater than any value that is known; None for columns, which tell all their values."""

    @classmethod
    def of(cls, schema: pa.Schema, attribute: str) -> KeySpace:
        """Return the keys of an attribute of a stream of ``schema``."""
        data_type = indexed_field(schema, attribute).type
        is_derived = find_derived(schema, attribute) is not None
        return cls(key_kind(data_type, attribute), open_key(data_type) if is_derived else None)

    def candidates(self, ranges: KeyRanges) -> Bounds:
        """Return the keys of all events that can have a value in ``ranges``."""
        bounds = to_bounds(ranges, self.kind)
        if self.open_key is None or ranges.is_empty():
            return bounds
        unknown = KeyRanges((KeyRange(self.open_key, self.open_key),))
        return to_bounds(ranges.union(unknown), self.kind)

    def certain(self, ranges: KeyRanges) -> Bounds:
        """Return the keys of events that have a value in ``ranges`` for certain."""
        bounds = to_bounds(ranges, self.kind)
        if self.open_key is None:
            return bounds
        known = KeyRange(high=self.open_key, high_closed=False)
        return to_bounds(ranges.intersect(KeyRanges((known,))), self.kind)
