"""Take some rows of a table, in one piece."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from replay.planning.ascending import count_on
from replay.planning.statistics import BoolArray, IntArray

RUN_ROWS_MIN: Final = 512
"""Rows of the table for each run taken from which on cutting it is cheaper than to look at every
row."""


def select_rows(table: pa.Table, rows: IntArray) -> pa.Table:
    """Return some rows, ascending, in one piece, with dictionaries no larger than need be."""
    mask: BoolArray = np.zeros(table.num_rows, dtype=np.bool_)
    mask[rows] = True
    return _in_one_piece(table.filter(pa.array(mask)))


def select_runs(table: pa.Table, starts: IntArray, n_rows: IntArray) -> pa.Table:
    """Return runs of rows, ascending and disjoint, as `select_rows` does."""
    if len(starts) * RUN_ROWS_MIN > table.num_rows:
        return select_rows(table, count_on(starts, n_rows))
    runs = map(table.slice, starts.tolist(), n_rows.tolist())
    return _in_one_piece(pa.concat_tables([table.slice(0, 0), *runs]))


def _in_one_piece(chosen: pa.Table) -> pa.Table:
    for place, field in enumerate(chosen.schema):
        column = chosen.column(place)
        if pa.types.is_dictionary(field.type):
            words = sum(len(chunk.dictionary) for chunk in column.chunks)
            if words > chosen.num_rows:
                column = column.cast(field.type.value_type).dictionary_encode()
                chosen = chosen.set_column(place, field.name, column)
    return chosen.unify_dictionaries().combine_chunks()
