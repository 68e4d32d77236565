"""Rows that PREV reads: those of the same partition, and no more of them than that are held."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from replay.language.bound import Attribute, DataType
from replay.situations.previous_rows import KEPT_MIN, PreviousRows

SCHEMA = pa.schema([pa.field("x", pa.int64())])


def x_before(rows: PreviousRows, events: pa.Table, partitions: list[int], first: int, n: int):
    source = rows.columns(events, np.array(partitions), first)
    data, valid = source.at(Attribute("x", DataType.INTEGER, offset=-n))
    return [value if there else None for value, there in zip(data, valid, strict=True)]


def test_rows_before_are_those_of_the_partition_across_pushes() -> None:
    rows = PreviousRows([-2], SCHEMA)
    rows.grow(2)
    assert x_before(rows, pa.table({"x": [1, 2, 3]}), [0, 1, 0], 0, 2) == [None, None, None]
    assert x_before(rows, pa.table({"x": [4, 5]}), [0, 1], 3, 2) == [1, None]
    assert x_before(rows, pa.table({"x": [6, 7]}), [1, 1], 5, 2) == [2, 5]
    rows.forget()
    assert x_before(rows, pa.table({"x": [8, 9]}), [1, 1], 9, 2) == [None, None]


def test_rows_are_held_as_long_as_they_are_the_last_of_their_partition() -> None:
    rows = PreviousRows([-1], SCHEMA)
    rows.grow(3)
    for first in range(0, 10 * KEPT_MIN, 500):
        partitions = [0, 1, 2] if first == 0 else [2] * 3
        rows.columns(pa.table({"x": [first] * 3}), np.array(partitions), first)
        assert rows.n_held <= KEPT_MIN + 3
    assert x_before(rows, pa.table({"x": [0, 0]}), [0, 2], first + 3, 1) == [0, first]
