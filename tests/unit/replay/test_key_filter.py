"""Rows told by their key, whatever Arrow holds it in, and what is left of a table."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.patterns.key_filter import KeyFilter
from replay.patterns.local import select_rows
from replay.planning.key_spans import KeySpans

WORDS = ("", "a", "b", "ä", None)
NUMBERS = (-(2**63), 2**63 - 1, 0, 1, 5, None)


def spans_of(n_keys: int, low: int, high: int) -> KeySpans:
    """Return one span for each key."""
    return KeySpans(
        np.arange(n_keys), np.arange(n_keys + 1), np.full(n_keys, low), np.full(n_keys, high), False
    )


def check(column: pa.ChunkedArray, values: pa.Array, low: int, high: int) -> None:
    table = pa.table({"k": column})
    seq = np.arange(100, 100 + len(column))
    found = KeyFilter("k", values, spans_of(len(values), low, high), "t").rows(table, seq)
    wanted = values.to_pylist()
    keys = column.cast(values.type).to_pylist() if not _is_coded(values) else column.to_pylist()
    expected = [i for i, key in enumerate(keys) if key in wanted and low <= 100 + i <= high]
    assert found.tolist() == expected


def _is_coded(values: pa.Array) -> bool:
    return pa.types.is_dictionary(values.type)


def chunked(parts: list[list], type_: pa.DataType, *, coded: bool = False) -> pa.ChunkedArray:
    arrays = [pa.array(part, type_) for part in parts]
    if not coded:
        return pa.chunked_array(arrays, type_)
    of = pa.dictionary(pa.int32(), type_)
    return pa.chunked_array([a.dictionary_encode().cast(of) for a in arrays], of)


@given(
    st.lists(st.lists(st.sampled_from(WORDS), max_size=6), max_size=3),
    st.lists(st.sampled_from(WORDS), min_size=1, unique=True),
    st.booleans(),
    st.booleans(),
)
def test_texts_are_found_with_and_without_dictionaries(parts, wanted, is_coded, is_plain):
    values = pa.array(wanted, pa.string())
    column = chunked(parts, pa.string(), coded=is_coded)
    check(column, values if is_plain else values.dictionary_encode(), 100, 108)


@given(
    st.lists(st.lists(st.sampled_from(NUMBERS), max_size=6), max_size=3),
    st.lists(st.sampled_from(NUMBERS), min_size=1, unique=True),
)
def test_integers_are_found_however_far_apart(parts, wanted):
    check(chunked(parts, pa.int64()), pa.array(wanted, pa.int64()), 101, 110)


@given(
    st.lists(st.lists(st.integers(0, 9), max_size=6), max_size=3),
    st.lists(st.integers(2, 7) | st.none(), min_size=1, unique=True),
)
def test_near_integers_are_found_by_a_table(parts, wanted):
    check(chunked(parts, pa.int16()), pa.array(wanted, pa.int64()), 0, 1000)


def test_times_are_found_by_their_microseconds():
    column = pa.chunked_array([pa.array([1, 2, None, 3], pa.timestamp("ms", "UTC"))])
    found = KeyFilter("k", pa.array([2000, None]), spans_of(2, 0, 9), "t")
    assert found.rows(pa.table({"k": column}), np.arange(4)).tolist() == [1, 2]


def test_spans_of_time_are_asked_for_the_time():
    spans = KeySpans(np.array([0]), np.array([0, 1]), np.array([5]), np.array([6]), True)
    table = pa.table({"k": [1, 1, 1], "t": pa.array([4, 6, 7], pa.timestamp("us"))})
    found = KeyFilter("k", pa.array([1]), spans, "t")
    assert found.rows(table, np.array([5, 5, 5])).tolist() == [1]


@pytest.mark.parametrize("rows", [[], [0], [1, 4, 5]], ids=str)
def test_rows_are_selected_with_no_more_words_than_they_have(rows: list[int]) -> None:
    parts = [["a", "b", None], ["c", "a", "d"]]
    table = pa.table({"s": chunked(parts, pa.string(), coded=True), "x": range(6)})
    chosen = select_rows(table, np.array(rows, dtype=np.int64))
    assert chosen.to_pylist() == table.take(pa.array(rows, pa.int64())).to_pylist()
    assert sum(len(chunk.dictionary) for chunk in chosen.column("s").chunks) <= max(len(rows), 0)
