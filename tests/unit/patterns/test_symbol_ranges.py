"""Rows of other symbols that are the row before: where ``A.x`` gives a range of ``delta(x)``."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexing.key_range import KeyRange, KeyRanges
from replay.language.bound import (
    Alternate,
    Anchor,
    AnchorKind,
    Attribute,
    DataType,
    Exclusion,
    Literal,
    Negation,
    Repeat,
    Semantics,
    Symbol,
)
from replay.patterns.symbol_ranges import symbol_ranges, usable_deltas
from tests.oracles.intervals import matches
from tests.unit.planning.streams import (
    SmallStatistics,
    compare,
    conditions,
    is_in,
    last_of,
    patterns,
    query_of,
    rows,
    seq,
    star,
)

T = DataType
A, B, C = (Symbol(index) for index in range(3))
X = Attribute("x", T.DOUBLE)
ABOVE_A = compare(">", X, last_of(0, "x", T.DOUBLE))
RISE = {"delta(x)": KeyRanges((KeyRange(0.0, None, False),))}
ROWS = [{"t": i, "k": 0, "x": float(x)} for i, x in enumerate([3, -7, 2])]

STATISTICS = SmallStatistics(ROWS, 2, derived=("delta(x)",))
BY_OBJECT = SmallStatistics(ROWS, 2, derived=("delta(x)",), key="k")


def ranges_of_b(pattern, condition=ABOVE_A, *, statistics=STATISTICS, **keywords) -> object:
    query = query_of(pattern, [None, condition, None], **keywords)
    found = symbol_ranges(query, deltas=usable_deltas(query, statistics))
    return found[1]


@pytest.mark.parametrize(
    "pattern",
    [
        pytest.param(seq(A, B), id="directly-before"),
        pytest.param(seq(C, A, B, C), id="inside"),
        pytest.param(seq(A, C, A, B), id="the-later-of-two"),
        pytest.param(seq(Repeat(A, 1, None), B), id="last-of-several"),
        pytest.param(seq(Exclusion(A), B), id="left-out-of-the-answer"),
    ],
)
def test_a_symbol_that_stands_directly_before_is_the_event_before(pattern):
    assert ranges_of_b(pattern) == RISE


@pytest.mark.parametrize(
    "pattern",
    [
        pytest.param(seq(A, C, B), id="another-between"),
        pytest.param(seq(A, star(C), B), id="others-between"),
        pytest.param(seq(star(A), B), id="none-perhaps"),
        pytest.param(seq(Exclusion(star(A)), B), id="none-perhaps-left-out"),
        pytest.param(seq(A, Repeat(B, 1, 2)), id="several-after-it"),
        pytest.param(seq(A, B, B), id="twice-after-it"),
        pytest.param(seq(A, B, C, B), id="and-after-another"),
        pytest.param(seq(B, A), id="behind"),
        pytest.param(Alternate((seq(A, B), seq(C, B))), id="in-a-branch"),
        pytest.param(seq(A, Negation(2), B), id="negation-between"),
        pytest.param(B, id="alone"),
    ],
)
def test_a_symbol_that_need_not_be_the_event_before_gives_no_range(pattern):
    assert ranges_of_b(pattern) == {}


def test_neighbours_in_the_match_are_neighbours_in_the_stream_unless_rows_are_skipped():
    assert ranges_of_b(seq(A, B), semantics=Semantics.CONTIGUOUS) == RISE
    assert ranges_of_b(seq(A, B), semantics=Semantics.SKIP_TILL_NEXT) == {}


def test_neighbours_in_a_partition_are_those_whose_difference_is_told_by_object():
    assert ranges_of_b(seq(A, B), partition_by=("k",), statistics=BY_OBJECT) == RISE
    assert ranges_of_b(seq(A, B), partition_by=("k",)) == {}
    assert ranges_of_b(seq(A, B), statistics=BY_OBJECT) == {}


@pytest.mark.parametrize(
    "other",
    [
        Attribute("x", T.DOUBLE, Anchor(AnchorKind.FIRST, (0,))),
        Attribute("x", T.DOUBLE, Anchor(AnchorKind.LAST, (0,), offset=1)),
        Attribute("x", T.DOUBLE, Anchor(AnchorKind.LAST, (0, 2))),
        Attribute("x", T.DOUBLE, Anchor(AnchorKind.LAST, (0,)), offset=-1),
        last_of(2, "x", T.DOUBLE),
    ],
)
def test_only_the_last_row_of_the_symbol_before_is_the_event_before(other):
    assert ranges_of_b(seq(Repeat(A, 1, None), B), compare(">", X, other)) == {}


def test_the_range_of_a_symbol_before_is_still_carried_over():
    query = query_of(
        seq(A, B),
        [compare("=", X, Literal(5.0, T.DOUBLE)), compare("=", X, last_of(0, "x", T.DOUBLE))],
    )
    found = symbol_ranges(query, deltas=usable_deltas(query, STATISTICS))
    assert found[1]["x"] == KeyRanges.of([KeyRange(5.0, 5.0)])
    assert is_in(found[1]["delta(x)"], 0.0)


@given(
    patterns(3),
    st.lists(st.none() | conditions(3), min_size=3, max_size=3),
    rows(),
    st.sampled_from((Semantics.SQL, Semantics.CONTIGUOUS)),
    st.sampled_from(((), ("k",))),
)
def test_every_row_of_a_match_lies_in_the_ranges_of_its_symbol(
    pattern, defines, stream, semantics, partition
):
    query = query_of(pattern, defines, semantics=semantics, partition_by=partition)
    found = symbol_ranges(query, deltas={"a": 5, "b": 5})
    for word, at in matches(query, stream, length_max=4):
        for symbol, i in zip(word, at, strict=True):
            ranges = found[symbol]
            assert ranges is not None
            for name, allowed in ranges.items():
                column = name.removeprefix("delta(").removesuffix(")")
                value = stream[i][column]
                if name != column:
                    of_object = [
                        row for row in stream[:i] if not partition or row["k"] == stream[i]["k"]
                    ]
                    before = of_object[-1][column] if of_object else None
                    assert value is not None
                    assert before is not None
                    value -= before
                assert is_in(allowed, value)
