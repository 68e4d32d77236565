"""Columns as keys, ranges of keys, and ranges in the key type of an index."""

from __future__ import annotations

import datetime as dt
import math
import os
import pickle
import subprocess
import sys
from collections.abc import Iterable
from decimal import Decimal
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from indexing.errors import IndexingError
from indexing.key_range import Key, KeyRange, KeyRanges, to_bounds
from indexing.keys import KeyKind, key_kind, to_keys
from tests.oracles.index import admits, to_key
from tests.unit.indexing.index_strategies import columns


@given(columns())
def test_keys_are_the_values_without_null_and_nan(column: pa.Array) -> None:
    expected = [(i, to_key(v)) for i, v in enumerate(column.to_pylist()) if to_key(v) is not None]
    for form in (column, pa.chunked_array([column, column.slice(0, 0)])):
        keys = to_keys(form, "x")
        assert list(zip(keys.rows.tolist(), keys.values.to_pylist(), strict=True)) == expected
        assert keys.values.type == key_kind(column.type, "x").arrow_type


def test_dictionary_encoded_strings_with_several_dictionaries_are_decoded() -> None:
    column = pa.chunked_array(
        [pa.array(["b", "a", None]).dictionary_encode(), pa.array(["c", "b"]).dictionary_encode()]
    )
    keys = to_keys(column, "x")
    assert keys.values.to_pylist() == ["b", "a", "c", "b"]
    assert keys.rows.tolist() == [0, 1, 3, 4]


def test_minus_zero_and_zero_are_one_key() -> None:
    [first, second] = to_keys(pa.array([-0.0, 0.0]), "x").values.to_pylist()
    assert str(first) == str(second) == "0.0"


def test_times_are_microseconds_and_dates_days() -> None:
    moment = dt.datetime(1970, 1, 2, 0, 0, 1)
    for unit in ("s", "ms", "us"):
        assert to_keys(pa.array([moment], pa.timestamp(unit)), "x").values.to_pylist() == [
            86_401_000_000
        ]
    utc = pa.array([moment], pa.timestamp("us", "UTC"))
    assert to_keys(utc, "x").values.to_pylist() == [86_401_000_000]
    assert to_keys(pa.array([moment.date()], pa.date32()), "x").values.to_pylist() == [1]


def test_column_without_chunks_has_no_keys() -> None:
    assert len(to_keys(pa.chunked_array([], pa.string()), "x").rows) == 0


@pytest.mark.parametrize(
    "column",
    [
        pytest.param(pa.array([[1]]), id="list"),
        pytest.param(pa.array([{"a": 1}]), id="struct"),
        pytest.param(pa.array([b"a"]), id="binary"),
        pytest.param(pa.array([Decimal("1.5")]), id="decimal"),
        pytest.param(pa.array([1], pa.timestamp("ns")), id="nanoseconds"),
        pytest.param(pa.array([1], pa.uint64()), id="uint64"),
        pytest.param(pa.array([None], pa.null()), id="null"),
        pytest.param(pa.array([1], pa.duration("us")), id="duration"),
    ],
)
def test_type_without_an_order_is_refused_by_name(column: pa.Array) -> None:
    with pytest.raises(IndexingError, match="column 'x' of type"):
        to_keys(column, "x")


def test_kinds() -> None:
    assert key_kind(pa.bool_(), "x") is KeyKind.INTEGER
    assert key_kind(pa.float32(), "x") is KeyKind.DOUBLE
    assert key_kind(pa.dictionary(pa.int32(), pa.string()), "x") is KeyKind.STRING


KEYS = st.one_of(st.integers(-4, 4), st.sampled_from([-0.0, 0.5, 2.5, math.inf, -math.inf]))
PROBES: list[Key] = [*range(-6, 7), *(i + 0.25 for i in range(-6, 6)), math.inf, -math.inf]


def ranges_of(bounds: st.SearchStrategy, max_size: int = 25) -> st.SearchStrategy:
    bound = st.one_of(st.none(), bounds)
    one = st.builds(KeyRange, bound, bound, st.booleans(), st.booleans())
    return st.lists(one, max_size=max_size)


def members(ranges: Iterable[KeyRange]) -> set[Key]:
    return {key for key in PROBES if any(admits(r, key) for r in ranges)}


@given(ranges_of(KEYS, 6))
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


@given(ranges_of(KEYS, 3), ranges_of(KEYS, 3))
def test_sets_of_ranges_intersect_and_unite_as_sets_do(
    a: list[KeyRange], b: list[KeyRange]
) -> None:
    left, right = KeyRanges.of(a), KeyRanges.of(b)
    assert members(left.ranges) == members(a)
    assert members(left.intersect(right).ranges) == members(a) & members(b)
    assert members(left.union(right).ranges) == members(a) | members(b)


@given(ranges_of(KEYS, 4))
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
    ("ranges", "text"),
    [
        pytest.param([KeyRange(2, 2)], "= 2", id="point"),
        pytest.param([KeyRange(2, 5, high_closed=False)], "[2, 5)", id="half-open"),
        pytest.param([KeyRange(None, "b")], "(-∞, 'b']", id="unbounded-below"),
        pytest.param([KeyRange(1.5, None, low_closed=False)], "(1.5, ∞)", id="unbounded-above"),
        pytest.param([KeyRange(5, None), KeyRange(1, 1)], "= 1 or [5, ∞)", id="two"),
        pytest.param([], "nothing", id="none"),
    ],
)
def test_ranges_read_as_mathematics_writes_them(ranges: list[KeyRange], text: str) -> None:
    assert str(KeyRanges.of(ranges)) == text


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


PROBES_OF = {
    KeyKind.INTEGER: pa.array(INTEGER_PROBES, pa.int64()),
    KeyKind.DOUBLE: pa.array(DOUBLE_PROBES),
    KeyKind.STRING: pa.array(STRING_PROBES),
}


@given(
    st.tuples(st.sampled_from([KeyKind.INTEGER, KeyKind.DOUBLE]), ranges_of(NUMBERS))
    | st.tuples(st.just(KeyKind.STRING), ranges_of(st.sampled_from(STRING_PROBES)))
)
@example((KeyKind.INTEGER, [KeyRange(0.5, 10**400)]))
@example((KeyKind.DOUBLE, [KeyRange(EDGE + 1, None)]))
@example((KeyKind.DOUBLE, [KeyRange(None, EDGE + 1, high_closed=False)]))
@example((KeyKind.STRING, [KeyRange(w, w) for w in STRING_PROBES]))
@example((KeyKind.STRING, [KeyRange(chr(i), chr(i)) for i in range(90, 120)]))
def test_keys_of_an_index_are_admitted_as_the_ranges_say(
    case: tuple[KeyKind, list[KeyRange]],
) -> None:
    kind, ranges = case
    bounds = to_bounds(KeyRanges.of(ranges), kind)
    assert bounds.contains(PROBES_OF[kind]).tolist() == [
        any(admits(r, key) for r in ranges) for key in PROBES_OF[kind].to_pylist()
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
