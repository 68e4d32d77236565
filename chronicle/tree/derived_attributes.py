"""Derived attributes: their names, their values within one data file, and their summaries."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pat

from chronicle.errors import SchemaError, did_you_mean
from chronicle.tree.by_key import ByKey, parse_by_key, summarise_by_key, to_entries
from chronicle.tree.summarise import summarise, to_plain
from chronicle.tree.summary import INT_MAX, AttributeSummary, Ints, Numbers, counted
from chronicle.type_names import sql_type

_FORM = re.compile(r"delta\((.+)\)", re.DOTALL)
_SHORT_CODES = 1 << 16


@dataclass(frozen=True, slots=True)
class Delta:
    """``delta(x)``: an event's ``x`` minus that of the event before it in the stream.

    Where the stream has a key column, the event before it is the last one of the same object;
    null tells an object apart like any other value of the key column.
    """

    source: str
    """Column it is computed from."""

    @property
    def name(self) -> str:
        """The name it is declared, stored and asked for by."""
        return f"delta({self.source})"

    @property
    def open_name(self) -> str:
        """Name of the summaries that count the events whose value the file does not tell."""
        return f"open({self.name})"

    def data_type(self, schema: pa.Schema) -> pa.DataType:
        """Return the type of its values: int64 or, for a column of floats, float64."""
        at = schema.get_field_index(self.source)
        if at < 0:
            raise SchemaError(
                f"no column '{self.source}' to derive '{self.name}' from "
                f"(columns: {', '.join(schema.names)}){did_you_mean(self.source, schema.names)}"
            )
        found = schema.field(at).type
        if pat.is_floating(found):
            return pa.float64()
        if pat.is_integer(found) or pat.is_timestamp(found) or pat.is_date(found):
            return pa.int64()
        raise SchemaError(
            f"'{self.name}' cannot be derived: column '{self.source}' is {sql_type(found)}; derive "
            "from numbers, timestamps or dates"
        )


def parse_derived(text: str) -> Delta | None:
    """Return the derived attribute a text names; None if it names none."""
    found = _FORM.fullmatch(text.strip())
    return None if found is None or not found[1].strip() else Delta(found[1].strip())


Declared = Delta | ByKey
"""What a stream can declare: an attribute of events, or summaries alone."""


def canonical_names(names: Iterable[str]) -> tuple[str, ...]:
    """Return names as what they declare is stored by, each once."""
    return tuple(dict.fromkeys(parse_declared(name).name for name in names))


def parse_declared(text: str) -> Declared:
    """Return what a text declares."""
    declared = parse_derived(text) or parse_by_key(text)
    if declared is None:
        raise SchemaError(
            f"'{text}' is no derived attribute; write delta(COLUMN), or by(COLUMN) for summaries "
            "by key"
        )
    return declared


def find_derived(schema: pa.Schema, attribute: str) -> Delta | None:
    """Return the derived attribute of a name that is no column's; None if it is neither."""
    return None if attribute in schema.names else parse_derived(attribute)


def check_derived(
    schema: pa.Schema, names: Iterable[str], *, key: str | None
) -> tuple[Declared, ...]:
    """Return what some names declare, each once, if a stream can have it.

    ``key`` is the name of the key column, if the stream has one. Refuses a name that a column has,
    and what cannot be derived.
    """
    found: dict[str, Declared] = {}
    for text in names:
        declared = parse_declared(text)
        names_taken = [declared.name]
        if isinstance(declared, Delta):
            names_taken.append(declared.open_name)
        for name in names_taken:
            if name in schema.names:
                raise SchemaError(
                    f"'{declared.name}' cannot be derived: there is a column '{name}'; use that "
                    "column, or rename it"
                )
        if isinstance(declared, Delta):
            declared.data_type(schema)
        else:
            declared.check(schema, key)
        found[declared.name] = declared
    return tuple(found.values())


def attribute_field(schema: pa.Schema, attribute: str) -> pa.Field | None:
    """Return name and type of a column or a derived attribute; None if it is neither."""
    if attribute in schema.names:
        return schema.field(attribute)
    derived = parse_derived(attribute)
    return None if derived is None else pa.field(attribute, derived.data_type(schema))


def columns_for(schema: pa.Schema, attributes: Iterable[str], key: str | None) -> list[str]:
    """Return the columns to read for attributes, each once."""
    columns: dict[str, None] = {}
    for attribute in attributes:
        derived = find_derived(schema, attribute) or _find_by_key(schema, attribute)
        columns[attribute if derived is None else derived.source] = None
        if derived is not None and key is not None:
            columns[key] = None
    return list(columns)


def _find_by_key(schema: pa.Schema, attribute: str) -> ByKey | None:
    return None if attribute in schema.names else parse_by_key(attribute)


def open_key(data_type: pa.DataType) -> int | float:
    """Return what stands for an open event's value: more than any value that is known."""
    return np.inf if pat.is_floating(data_type) else int(INT_MAX)


def extend(events: pa.Table, attributes: Sequence[str], key: str | None) -> pa.Table:
    """Return the events of one data file with the columns of derived attributes. Pure.

    An event is *open* where the file does not tell its value: the event before it lies in
    another file, or the difference is no finite number of its type. It has the value of
    ``open_key`` then. Null and NaN, of the event or the one before it, give null.

    ``events`` are all of the file, in stream order. Derived attributes that are there already are
    left as they are; summaries by key are no columns.
    """
    declared = (parse_declared(name) for name in attributes if name not in events.column_names)
    missing = [derived for derived in declared if isinstance(derived, Delta)]
    if not missing:
        return events
    before = _event_before(events, key)
    for derived in missing:
        data_type = derived.data_type(events.schema)
        column = _delta(to_plain(events.column(derived.source)), before, data_type)
        events = events.append_column(derived.name, column)
    return events


def split_open(column: pa.Array | pa.ChunkedArray) -> tuple[pa.Array, npt.NDArray[np.bool_]]:
    """Return the values that are known, null elsewhere, and which events are open. Pure."""
    values = to_plain(column)
    numbers = values.fill_null(0).to_numpy(zero_copy_only=False)
    is_open = np.asarray(numbers == open_key(values.type))
    is_null = values.is_null().to_numpy(zero_copy_only=False)
    return pa.array(numbers, values.type, mask=is_open | is_null), is_open


def _event_before(events: pa.Table, key: str | None) -> Ints:
    """Return the row of the event before each, of the same object; -1 if the file has none."""
    n = events.num_rows
    if key is None:
        return np.arange(-1, n - 1, dtype=np.int64)
    codes = _object_codes(events.column(key))
    order = np.argsort(codes, kind="stable")
    before = np.full(n, -1, np.int64)
    same = codes[order[1:]] == codes[order[:-1]]
    before[order[1:]] = np.where(same, order[:-1], -1)
    return before


def _object_codes(column: pa.ChunkedArray) -> npt.NDArray[np.integer]:
    """Return numbers that are equal where objects are."""
    coded = to_plain(column).dictionary_encode(null_encoding="encode")
    codes: npt.NDArray[np.integer] = coded.indices.to_numpy(zero_copy_only=False)
    # NumPy sorts 16 bits by radix, several times as fast.
    return codes.astype(np.uint16) if len(coded.dictionary) <= _SHORT_CODES else codes


def _delta(column: pa.Array, before: Ints, data_type: pa.DataType) -> pa.Array:
    values = _numbers(column, data_type)
    usable = column.is_valid().to_numpy(zero_copy_only=False)
    if pat.is_floating(data_type):
        usable = usable & ~np.isnan(values)
    has_before = before >= 0
    earlier = values[before]  # of the last row where there is none, which nothing looks at
    with np.errstate(over="ignore", invalid="ignore"):
        difference = values - earlier
    told = has_before & _is_told(difference, values, earlier)
    difference[~told] = open_key(data_type)
    is_null = ~usable | (has_before & ~usable[before])
    return pa.array(difference, data_type, mask=is_null)


def _numbers(column: pa.Array, data_type: pa.DataType) -> Numbers:
    """Return values as int64 or float64; 0 for null."""
    if pat.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", column.type.tz)).view(pa.int64())
    elif pat.is_date(column.type):
        column = column.cast(pa.date32()).view(pa.int32())
    numbers: Numbers = column.fill_null(0).to_numpy(zero_copy_only=False)
    return numbers.astype(np.float64 if pat.is_floating(data_type) else np.int64)


def _is_told(difference: Numbers, values: Numbers, earlier: Numbers) -> npt.NDArray[np.bool_]:
    """Return which differences are finite numbers of their type and below ``open_key``."""
    if difference.dtype.kind == "f":
        return np.asarray(np.isfinite(difference))
    # It overflowed where the two differ in sign and the difference's is not that of the first.
    overflowed = ((values ^ earlier) & (values ^ difference)) < 0
    return np.asarray(~overflowed & (difference != INT_MAX))


def summarise_derived(
    events: pa.Table, derived: Delta, key: str | None, block_counts: Sequence[int]
) -> dict[str, AttributeSummary]:
    """Summarise a derived attribute over the blocks of one data file.

    ``events`` are all of the file, with the columns it is computed from, or its own. Under the
    attribute's name stand summaries of the values the file tells, in which open events count as
    null; under its ``open_name`` how many are open, as their number of nulls.
    """
    column = extend(events, [derived.name], key).column(derived.name)
    values, is_open = split_open(column)
    counts = np.asarray(block_counts, np.int64)
    n_before = np.concatenate(([0], np.cumsum(is_open, dtype=np.int64)))
    ends = np.cumsum(counts)
    n_open = n_before[ends] - n_before[ends - counts]
    opened = counted(counts - n_open, n_open)
    return {derived.name: summarise(values, block_counts), derived.open_name: opened}


def summarise_declared(
    events: pa.Table, declared: Declared, key: str | None, block_counts: Sequence[int]
) -> dict[str, AttributeSummary]:
    """Return by name the entries that tree files have of what a stream declares.

    ``events`` are all of the file, with the columns it is computed from at least.
    """
    if isinstance(declared, Delta):
        return summarise_derived(events, declared, key, block_counts)
    assert key is not None, "checked when they were declared"
    found = summarise_by_key(events, declared, key, block_counts)
    return to_entries(found, declared, block_counts)


def summarise_all(
    events: pa.Table, derived: Iterable[str], key: str | None, block_counts: Sequence[int]
) -> dict[str, AttributeSummary]:
    """Summarise the columns and the derived attributes of one data file.

    ``events`` are all of the file; columns of ``derived`` may be there already.
    """
    names = tuple(derived)
    found = {
        name: summarise(events.column(name), block_counts)
        for name in events.column_names
        if name not in names
    }
    for name in names:
        found |= summarise_declared(events, parse_declared(name), key, block_counts)
    return found
