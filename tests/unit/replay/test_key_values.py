"""Keys, whatever Arrow holds them in: rows found by them, and numbers as equal as they are."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.engines.key_filter import KeyFilter
from replay.engines.key_numbers import count_keys, number_keys
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
    is_coded = pa.types.is_dictionary(values.type)
    keys = (column if is_coded else column.cast(values.type)).to_pylist()
    expected = [i for i, key in enumerate(keys) if key in wanted and low <= 100 + i <= high]
    assert found.tolist() == expected


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


# ---------------------------------------------------------------------------------------------
# Numbers of keys

STRINGS = st.lists(st.sampled_from(WORDS), max_size=8)
INTEGERS = st.lists(st.sampled_from(NUMBERS) | st.integers(0, 9), max_size=8)


def check_numbers(values: list[list], parts: list[pa.Array]) -> None:
    numbers = number_keys(parts)
    assert [len(part) for part in numbers] == [len(part) for part in values]
    flat = [value for part in values for value in part]
    number = dict(zip(flat, np.concatenate(numbers).tolist(), strict=True))
    assert len(set(number.values())) == len(number)
    assert [[number[value] for value in part] for part in values] == [p.tolist() for p in numbers]
    assert all(n >= 0 for n in number.values())
    assert max(number.values(), default=0) <= 4 * len(flat)


@given(st.lists(INTEGERS, min_size=1, max_size=3))
def test_integers_are_equal_where_their_numbers_are(values):
    check_numbers(values, [pa.array(part, pa.int64()) for part in values])


@given(st.lists(STRINGS, min_size=1, max_size=3), st.booleans())
def test_strings_are_equal_where_their_numbers_are(values, is_coded):
    plain = [pa.array(part, pa.string()) for part in values]
    check_numbers(values, [part.dictionary_encode() if is_coded else part for part in plain])


def test_a_word_that_stands_twice_in_a_dictionary_is_one_key():
    words = pa.array(["b", "a", "b"])
    coded = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, None], pa.int32()), words)
    assert len(set(number_keys([coded])[0].tolist())) == 3
    check_numbers([["b", "a", "b", None], [None, "b"]], [coded, pa.array([None, "b"])])


def test_no_list_has_no_numbers():
    assert number_keys([]) == []


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        pytest.param([[0, 0, 0]], 1.0, id="one-key"),
        # Of six ordered pairs in (0, 0, 1) two are equal.
        pytest.param([[0, 0, 1]], 3.0, id="two-keys"),
        pytest.param([[0, 0, 1], [1, 0, 0]], 3.0, id="each-list-by-itself"),
        pytest.param([[0, 1, 2, 3]], 12.0, id="no-two-agree"),
        pytest.param([[0], []], 1.0, id="no-pair"),
    ],
)
def test_keys_count_by_how_rarely_two_events_agree(parts, expected):
    assert count_keys([np.array(part, dtype=np.int64) for part in parts]) == expected
