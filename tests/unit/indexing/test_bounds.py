"""Ranges in the key type of an index: exactly the same keys."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from indexing.errors import IndexingError
from indexing.key_range import KeyRange, KeyRanges, to_bounds
from indexing.keys import KeyKind
from tests.oracles.index import admits

EDGE = 1 << 53  # from here on neighbouring integers share a double
NUMBERS = st.one_of(
    st.integers(-4, 4),
    st.integers(EDGE - 2, EDGE + 3),
    st.sampled_from([1 << 63, -(1 << 63), (1 << 63) - 1, 10**400, -(10**400)]),
    st.sampled_from([0.5, -0.0, float(EDGE), float(EDGE + 2), math.inf, -math.inf, 1e300]),
)
INTEGER_PROBES = [
    *range(-6, 7), *range(EDGE - 3, EDGE + 5), -(1 << 63), (1 << 63) - 2, (1 << 63) - 1,
]  # fmt: skip
DOUBLE_PROBES = [
    *(i / 4 for i in range(-20, 21)), *(float(EDGE + i) for i in range(-2, 5)),
    -math.inf, math.inf, 1e300, 1.7e308, 9.3e18,
]  # fmt: skip
STRING_PROBES = ["", "a", "a\x00", "ab", "b", "é", "z", "\uffff", "\U0001f600"]


def ranges_of(bounds: st.SearchStrategy) -> st.SearchStrategy:
    bound = st.one_of(st.none(), bounds)
    one = st.builds(KeyRange, bound, bound, st.booleans(), st.booleans())
    return st.lists(one, max_size=25)


@given(ranges_of(NUMBERS))
@example([KeyRange(0.5, 10**400)])
def test_integer_keys_are_admitted_as_the_ranges_say(ranges: list[KeyRange]) -> None:
    bounds = to_bounds(KeyRanges.of(ranges), KeyKind.INTEGER)
    assert bounds.contains(pa.array(INTEGER_PROBES, pa.int64())).tolist() == [
        any(admits(r, key) for r in ranges) for key in INTEGER_PROBES
    ]


@given(ranges_of(NUMBERS))
@example([KeyRange(EDGE + 1, None)])
@example([KeyRange(None, EDGE + 1, high_closed=False)])
def test_double_keys_are_admitted_as_the_ranges_say(ranges: list[KeyRange]) -> None:
    bounds = to_bounds(KeyRanges.of(ranges), KeyKind.DOUBLE)
    assert bounds.contains(pa.array(DOUBLE_PROBES)).tolist() == [
        any(admits(r, key) for r in ranges) for key in DOUBLE_PROBES
    ]


@given(ranges_of(st.sampled_from(STRING_PROBES)))
@example([KeyRange(w, w) for w in STRING_PROBES])
@example([KeyRange(chr(i), chr(i)) for i in range(90, 120)])
def test_string_keys_are_admitted_as_the_ranges_say(ranges: list[KeyRange]) -> None:
    bounds = to_bounds(KeyRanges.of(ranges), KeyKind.STRING)
    assert bounds.contains(pa.array(STRING_PROBES)).tolist() == [
        any(admits(r, key) for r in ranges) for key in STRING_PROBES
    ]


@pytest.mark.parametrize("kind", [KeyKind.INTEGER, KeyKind.DOUBLE], ids=str)
def test_nan_bound_admits_nothing(kind: KeyKind) -> None:
    assert len(to_bounds(KeyRanges((KeyRange(math.nan, None),)), kind)) == 0


@pytest.mark.parametrize(
    ("ranges", "kind"),
    [
        pytest.param(KeyRange(1, 2), KeyKind.STRING, id="number-of-strings"),
        pytest.param(KeyRange("a", None), KeyKind.INTEGER, id="string-of-integers"),
        pytest.param(KeyRange(None, "a"), KeyKind.DOUBLE, id="string-of-doubles"),
    ],
)
def test_bound_that_cannot_be_compared_is_refused(ranges: KeyRange, kind: KeyKind) -> None:
    with pytest.raises(IndexingError, match="bound"):
        to_bounds(KeyRanges((ranges,)), kind)


def test_shares_of_whole_numbers_count_both_ends() -> None:
    low, high = np.array([0, 10, 20, 30, 7]), np.array([9, 19, 29, 39, 7])
    ranges = KeyRanges.of([KeyRange(5, 24), KeyRange(36, 36)])
    shares = to_bounds(ranges, KeyKind.INTEGER).shares_between(low, high)
    assert shares.tolist() == [0.5, 1.0, 0.5, 0.1, 1.0]


def test_shares_of_doubles_are_lengths_and_one_key_is_in_or_out() -> None:
    low, high = np.array([0.0, 1.0, 2.0, 0.75, 3.0]), np.array([1.0, 2.0, 3.0, 0.75, 3.0])
    ranges = KeyRanges.of([KeyRange(0.75, 2.5)])
    shares = to_bounds(ranges, KeyKind.DOUBLE).shares_between(low, high)
    assert shares.tolist() == [0.25, 1.0, 0.5, 1.0, 0.0]


def test_shares_stay_between_none_and_all_whatever_the_extremes() -> None:
    low = np.array([-math.inf, 0.0, -1.7e308, -math.inf])
    high = np.array([0.0, math.inf, 1.7e308, math.inf])
    shares = to_bounds(KeyRanges.of([KeyRange(1.0, None)]), KeyKind.DOUBLE).shares_between(
        low, high
    )
    assert shares.tolist() == [0.0, 0.5, 0.5, 0.5]
