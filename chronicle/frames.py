"""Take events from whatever holds Arrow data: tables, readers, frames of pandas and Polars."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress

import pyarrow as pa
import pyarrow.types as pat

from chronicle.errors import SchemaError
from chronicle.foreign_text import first_line
from chronicle.time import cut_to_us
from chronicle.words import number_of

_UNNAMED_INDEX = "__index_level_"
"""How Arrow calls a column that it makes of a pandas index without a name."""


def to_table(data: object, *, what: str) -> pa.Table:
    """Return data as an Arrow table.

    It takes a ``pyarrow.Table``, ``RecordBatch`` or ``RecordBatchReader``, and whatever offers the
    Arrow PyCapsule protocol, as frames of pandas and Polars and relations of DuckDB do. The index
    of a pandas frame becomes a column where it has a name; one that only counts rows is left out.
    ``what`` says in messages what the data is. Each column has a name of its own.
    """
    table = _as_table(data, what)
    check_names(table.column_names, what)
    return _in_our_types(table, what)


def check_names(names: Sequence[str], what: str) -> None:
    """Refuse columns of which two have one name."""
    twice = next((name for name, n in Counter(names).items() if n > 1), None)
    if twice is not None:
        raise SchemaError(f"{what} has two columns named '{twice}'; rename one of them")


def _as_table(data: object, what: str) -> pa.Table:
    """Return data as an Arrow table, in the types that it has."""
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if not (hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__")):
        raise TypeError(
            f"{what} is {type(data).__name__}; give a pyarrow.Table, a frame of pandas or Polars, "
            "or anything else that offers Arrow data (pyarrow.Table.from_pylist takes a list of "
            "dictionaries)"
        )
    try:
        table = pa.table(data)
    except (ValueError, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        reason = first_line(str(error))
        raise SchemaError(f"{what} cannot be taken as a table ({reason})") from error
    return _without_index(table, what).replace_schema_metadata(None)


def _in_our_types(table: pa.Table, what: str) -> pa.Table:
    """Return columns in types that streams have: what Polars and pandas hold in others.

    Times of nanoseconds are cut to microseconds, and a warning counts those of each column that
    were finer; nothing else is lost.
    """
    for i, field in enumerate(table.schema):
        column = _held(table.column(i))
        if pat.is_timestamp(column.type) and column.type.unit == "ns":
            column, n_cut = cut_to_us(column)
            if n_cut:
                warnings.warn(
                    f"{number_of(n_cut, 'time')} in column '{field.name}' of {what} "
                    f"{'was' if n_cut == 1 else 'were'} finer than a microsecond, and cut to it",
                    stacklevel=4,
                )
        if column.type != field.type:
            table = table.set_column(i, field.name, column)
    return table


_HELD = {
    pa.string_view(): pa.string(),
    pa.binary_view(): pa.binary(),
    **dict.fromkeys((pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()), pa.int64()),
    pa.float16(): pa.float32(),
}
"""Types of frames, and that which holds the same values."""


def _held(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column in the type that holds it; one with a number beyond that as it is."""
    if pat.is_dictionary(column.type):
        if column.type.value_type in _HELD:
            kind = pa.dictionary(pa.int32(), _HELD[column.type.value_type])
            column = pa.chunked_array([with_plain_values(chunk) for chunk in column.chunks], kind)
        if not pat.is_string(column.type.value_type):  # categories of numbers, times, booleans
            column = column.cast(column.type.value_type)
    if column.type in _HELD:
        with suppress(pa.ArrowInvalid):
            return column.cast(_HELD[column.type])
    return column


def with_plain_values(array: pa.Array) -> pa.Array:
    """Return an array; a dictionary of Polars' with values that Arrow can cast and take."""
    if not pat.is_dictionary(array.type) or array.type.value_type not in _HELD:
        return array
    values = array.dictionary.cast(_HELD[array.type.value_type])
    return pa.DictionaryArray.from_arrays(array.indices.cast(pa.int32()), values)


def _without_index(table: pa.Table, what: str) -> pa.Table:
    """Leave out what only numbered the rows of a pandas frame."""
    unnamed = [name for name in table.column_names if name.startswith(_UNNAMED_INDEX)]
    for name in unnamed:
        if not pat.is_integer(table.schema.field(name).type):
            raise SchemaError(
                f"{what} has an index without a name; give it one (frame.index.name = 'time'), or "
                "leave it out (frame.reset_index(drop=True))"
            )
    return table.drop_columns(unnamed) if unnamed else table
