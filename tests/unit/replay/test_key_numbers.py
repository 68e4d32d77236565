"""Numbers of keys: equal exactly where the keys are, whatever Arrow holds them in."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.engines.key_numbers import count_keys, number_keys

STRINGS = st.lists(st.sampled_from(("", "a", "b", "ä", None)), max_size=8)
INTEGERS = st.lists(
    st.sampled_from((-(2**63), 2**63 - 1, 0, 1, 5, None)) | st.integers(0, 9), max_size=8
)


def check(values: list[list], parts: list[pa.Array]) -> None:
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
    check(values, [pa.array(part, pa.int64()) for part in values])


@given(st.lists(STRINGS, min_size=1, max_size=3), st.booleans())
def test_strings_are_equal_where_their_numbers_are(values, is_coded):
    plain = [pa.array(part, pa.string()) for part in values]
    check(values, [part.dictionary_encode() if is_coded else part for part in plain])


def test_a_word_that_stands_twice_in_a_dictionary_is_one_key():
    words = pa.array(["b", "a", "b"])
    coded = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, None], pa.int32()), words)
    assert len(set(number_keys([coded])[0].tolist())) == 3
    check([["b", "a", "b", None], [None, "b"]], [coded, pa.array([None, "b"])])


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
