"""Take events from whatever holds Arrow data: tables, readers, frames of pandas and Polars."""

from __future__ import annotations

import warnings

import pyarrow as pa
import pyarrow.types as pat

from chronicle.errors import SchemaError
from chronicle.time import cut_to_us

_UNNAMED_INDEX = "__index_level_"
"""How Arrow calls a column that it makes of a pandas index without a name."""


def to_table(data: object, *, what: str) -> pa.Table:
    """Return data as an Arrow table.

    It takes a ``pyarrow.Table``, ``RecordBatch`` or ``RecordBatchReader``, and whatever offers the
    Arrow PyCapsule protocol, as frames of pandas and Polars and relations of DuckDB do. The index
    of a pandas frame becomes a column where it has a name; one that only counts rows is left out.
    ``what`` says in messages what the data is.
    """
    if isinstance(data, pa.Table):
        return _in_microseconds(data, what)
    if isinstance(data, pa.RecordBatch):
        return _in_microseconds(pa.Table.from_batches([data]), what)
    if not (hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__")):
        raise TypeError(
            f"{what} is {type(data).__name__}; give a pyarrow.Table, a frame of pandas or Polars, "
            "or anything else that offers Arrow data (pyarrow.Table.from_pylist takes a list of "
            "dictionaries)"
        )
    try:
        table = pa.table(data)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        reason = str(error).splitlines()[0]
        raise SchemaError(f"{what} cannot be taken as a table ({reason})") from error
    return _in_microseconds(_without_index(table, what).replace_schema_metadata(None), what)


def _in_microseconds(table: pa.Table, what: str) -> pa.Table:
    """Return times of nanoseconds, as pandas has them, cut to microseconds; what is lost is told.

    A warning counts the times of each column that were finer than a microsecond.
    """
    for i, field in enumerate(table.schema):
        if not pat.is_timestamp(field.type) or field.type.unit != "ns":
            continue
        column, n_cut = cut_to_us(table.column(i))
        if n_cut:
            warnings.warn(
                f"{n_cut:,} times in column '{field.name}' of {what} are finer than a microsecond; "
                "they were cut to microseconds",
                stacklevel=4,
            )
        table = table.set_column(i, field.name, column)
    return table


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
