"""Laws of key ranges, held against the definition of one range."""

from __future__ import annotations

import math
import os
import pickle
import subprocess
import sys
from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexing.key_range import Key, KeyRange, KeyRanges
from tests.oracles.index import admits

KEYS = st.one_of(st.integers(-4, 4), st.sampled_from([-0.0, 0.5, 2.5, math.inf, -math.inf]))
PROBES: list[Key] = [*range(-6, 7), *(i + 0.25 for i in range(-6, 6)), math.inf, -math.inf]
RANGES = st.builds(
    KeyRange, st.one_of(st.none(), KEYS), st.one_of(st.none(), KEYS), st.booleans(), st.booleans()
)
WORDS = ["", "a", "a\x00", "ab", "b", "é", "\U0001f600"]
WORD_RANGES = st.builds(
    KeyRange,
    st.one_of(st.none(), st.sampled_from(WORDS)),
    st.one_of(st.none(), st.sampled_from(WORDS)),
    st.booleans(),
    st.booleans(),
)


def members(ranges: Iterable[KeyRange]) -> set[Key]:
    return {key for key in PROBES if any(admits(r, key) for r in ranges)}


@given(st.lists(WORD_RANGES, max_size=6))
def test_union_of_string_ranges_admits_the_strings_of_any(ranges: list[KeyRange]) -> None:
    union = KeyRanges.of(ranges).ranges
    assert [any(admits(r, w) for r in union) for w in WORDS] == [
        any(admits(r, w) for r in ranges) for w in WORDS
    ]


@given(st.lists(RANGES, max_size=6))
def test_ranges_of_a_union_ascend_and_leave_a_key_between_them(ranges: list[KeyRange]) -> None:
    union = KeyRanges.of(ranges).ranges
    assert not any(r.is_empty() for r in union)
    for left, right in pairwise(union):
        assert left.high is not None
        assert right.low is not None
        assert left.high <= right.low
        if left.high == right.low:
            assert not left.high_closed
            assert not right.low_closed


@given(st.lists(RANGES, max_size=3), st.lists(RANGES, max_size=3))
def test_sets_of_ranges_intersect_and_unite_as_sets_do(
    a: list[KeyRange], b: list[KeyRange]
) -> None:
    left, right = KeyRanges.of(a), KeyRanges.of(b)
    assert members(left.ranges) == members(a)
    assert members(left.intersect(right).ranges) == members(a) & members(b)
    assert members(left.union(right).ranges) == members(a) | members(b)


@given(st.lists(RANGES, max_size=4))
def test_everything_and_nothing_are_neutral(ranges: list[KeyRange]) -> None:
    some = KeyRanges.of(ranges)
    nothing = KeyRanges(())
    assert some.intersect(KeyRanges.everything()) == some
    assert some.union(nothing) == some
    assert some.intersect(nothing) == nothing
    assert some.union(KeyRanges.everything()).is_everything()


def test_range_bounded_by_nan_is_empty() -> None:
    assert KeyRange(math.nan, 3.0).is_empty()
    assert KeyRange(None, math.nan).is_empty()
    assert KeyRanges.of([KeyRange(math.nan, None)]).is_empty()


@pytest.mark.parametrize(
    ("r", "text"),
    [
        pytest.param(KeyRange(2, 2), "= 2", id="point"),
        pytest.param(KeyRange(2, 5, high_closed=False), "[2, 5)", id="half-open"),
        pytest.param(KeyRange(None, "b"), "(-∞, 'b']", id="unbounded-below"),
        pytest.param(KeyRange(1.5, None, low_closed=False), "(1.5, ∞)", id="unbounded-above"),
    ],
)
def test_range_reads_as_mathematics_writes_it(r: KeyRange, text: str) -> None:
    assert str(r) == text


def test_no_range_reads_as_nothing() -> None:
    assert str(KeyRanges(())) == "nothing"
    assert str(KeyRanges.of([KeyRange(5, None), KeyRange(1, 1)])) == "= 1 or [5, ∞)"


def test_ranges_of_texts_are_found_again_in_another_process() -> None:
    ranges = KeyRanges.of([KeyRange("a", "b")])
    hash(ranges)
    code = (
        "import pickle, sys\n"
        "from indexing.key_range import KeyRange, KeyRanges\n"
        "given = pickle.load(sys.stdin.buffer)\n"
        "assert given in {KeyRanges.of([KeyRange('a', 'b')])}\n"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "random"}
    subprocess.run(
        [sys.executable, "-c", code], input=pickle.dumps(ranges), check=True, env=environment
    )
