"""The order in which events are matched: by time, then by further columns, then as they came."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from chronicle.time import to_int64

IntArray = npt.NDArray[np.int64]


def in_order(table: pa.Table, time: str, order_by: tuple[str, ...]) -> pa.Table:
    """Return the rows by time, then by the columns of ``order_by``, then as they come.

    NULL and NaN are alike, and come last.
    """
    keys = [to_int64(table.column(time), name=time).to_numpy()]
    keys += [_ranks(table.column(name)) for name in order_by]
    places = np.lexsort(keys[::-1])
    if np.array_equal(places, np.arange(len(places))):
        return table
    return table.unify_dictionaries().take(pa.array(places))


def _ranks(column: pa.ChunkedArray) -> IntArray:
    """Return numbers that order the values; the greatest for what is missing."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_floating(column.type):
        column = pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column)
    ranks = pc.rank(column, tiebreaker="dense")  # nulls at the end
    return np.asarray(ranks).astype(np.int64)
