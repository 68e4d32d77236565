"""Aggregates of spans of rows: what counts, what a sum is exactly, and which fault is counted."""

from __future__ import annotations

import math
import statistics
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.errors import NotSupportedError
from replay.expressions.columns import Values, to_arrow
from replay.expressions.scalars import Faults
from replay.language.bound import CURRENT, Aggregate, Attribute, DataType
from replay.operators.row_aggregates import Spans, aggregate
from tests.oracles import row_aggregates
from tests.unit.patterns.bound_queries import BOOL, DOUBLE, INT, STRING

NAN = math.nan
DTYPES = {INT: np.int64, DOUBLE: np.float64, BOOL: np.bool_, DataType.INTERVAL: np.int64}
FUNCTIONS = [
    "count",
    "sum",
    "avg",
    "min",
    "max",
    "var_pop",
    "var_samp",
    "stddev_pop",
    "stddev_samp",
]


def of(function: str, argument: DataType, *, distinct: bool = False) -> Aggregate:
    kept = function in ("min", "max", "sum") or argument is DataType.INTERVAL
    result = INT if function == "count" else argument if kept else DOUBLE
    return Aggregate(function, Attribute("x", argument, CURRENT), None, result, distinct)


def to_values(values: list[Any], of_type: DataType) -> Values:
    if of_type is STRING:
        return Values(pa.array(values, pa.string()), None)
    known = np.array([value is not None for value in values], np.bool_)
    data = np.array([0 if value is None else value for value in values], DTYPES[of_type])
    return Values(data, None if known.all() else known)


def running(what: Aggregate, *segments: list[Any], faults: Faults | None = None) -> list[list[Any]]:
    """Return the aggregate at every row of every segment, of the rows up to it."""
    assert what.argument is not None
    lengths = [len(segment) for segment in segments]
    number = np.repeat(np.arange(len(segments)), lengths)
    ends = np.arange(1, sum(lengths) + 1)
    begins = np.repeat(np.cumsum(lengths) - lengths, lengths).astype(np.int64)
    values = to_values(sum(segments, []), what.argument.type)  # noqa: RUF017 - a few values
    found = aggregate(what, values, Spans(number, begins, ends), faults or Faults())
    flat = iter(to_arrow(found, what.type).to_pylist())
    return [[next(flat) for _ in segment] for segment in segments]


def test_a_sum_of_integers_is_exact_beyond_64_bits_and_null_only_where_it_does_not_fit() -> None:
    top = 2**63 - 1
    faults = Faults()
    values = [top, 1, -2, top, -top, -top, -1, -1, -1]
    found = running(of("sum", INT), values, [5, None], faults=faults)
    expected = [top, None, top - 1, None, top - 1, -1, -2, -3, -4]
    assert found == [expected, [5, 5]]
    assert faults.count == 2  # 2**63 and 2**64 - 3


def test_variance_of_a_textbook_sample() -> None:
    values = [2, 4, 4, 4, 5, 5, 7, 9]  # mean 5, squares 32
    assert running(of("var_pop", INT), values)[0][-1] == 4.0
    assert running(of("stddev_pop", INT), values)[0][-1] == 2.0
    assert running(of("var_samp", INT), values)[0][-1] == 32 / 7
    assert running(of("stddev_samp", INT), values)[0][-1] == math.sqrt(32 / 7)


def test_a_sample_of_one_value_has_no_variance_a_population_has_none_to_speak_of() -> None:
    assert running(of("var_samp", DOUBLE), [None, 3.0, 5.0]) == [[None, None, 2.0]]
    assert running(of("stddev_pop", DOUBLE), [None, 3.0]) == [[None, 0.0]]


def test_a_large_mean_costs_the_variance_nothing() -> None:
    values = [1e9 + value for value in (4.0, 7.0, 13.0, 16.0)]
    assert running(of("var_samp", DOUBLE), values)[0][-1] == 30.0


def test_the_average_of_intervals_is_an_interval_whose_fraction_is_dropped() -> None:
    found = running(of("avg", DataType.INTERVAL), [-1, -2, 8])
    assert [delta.total_seconds() * 1e6 for delta in found[0]] == [-1.0, -1.0, 1.0]


def test_no_row_at_all_counts_zero_and_everything_else_is_null() -> None:
    none = np.zeros(2, np.int64)
    spans = Spans(np.empty(0, np.int64), none, none)
    for function in FUNCTIONS:
        values = to_values([], DOUBLE)
        found = aggregate(of(function, DOUBLE), values, spans, Faults())
        expected = 0 if function == "count" else None
        assert to_arrow(found, of(function, DOUBLE).type).to_pylist() == [expected] * 2
    found = aggregate(of("max", STRING), to_values([], STRING), spans, Faults())
    assert to_arrow(found, STRING).to_pylist() == [None, None]


def test_an_unknown_aggregate_is_named() -> None:
    with pytest.raises(NotSupportedError, match="'median' is not supported yet"):
        running(of("median", DOUBLE), [1.0])


LARGE = st.sampled_from([2**63 - 1, -(2**63), 2**62, -(2**62), 2**32, -(2**32), 2**31, -1, 0, 1])
VALUES = {
    INT: st.one_of(st.none(), LARGE, st.integers(-(2**63), 2**63 - 1), st.integers(-3, 3)),
    DOUBLE: st.one_of(
        st.none(), st.sampled_from([NAN, 0.0, -0.0, 1.0, math.inf]), st.floats(-1e6, 1e6)
    ),
    STRING: st.one_of(st.none(), st.text(max_size=3)),
    BOOL: st.one_of(st.none(), st.booleans()),
}


@given(
    st.sampled_from(list(VALUES)).flatmap(
        lambda kind: st.tuples(
            st.just(kind), st.lists(st.lists(VALUES[kind], max_size=6), min_size=1, max_size=4)
        )
    ),
    st.booleans(),
)
def test_running_aggregates_are_the_naive_ones_of_every_prefix(
    case: tuple[DataType, list[list[Any]]], distinct: bool
) -> None:
    kind, segments = case
    exact = ["count", "min", "max", *(["sum", "avg"] if kind in (INT, DOUBLE) else [])]
    for function in exact:
        what = of(function, kind, distinct=distinct)
        expected = [
            [row_aggregates.aggregate(what, s[: k + 1]) for k in range(len(s))] for s in segments
        ]
        assert repr(running(what, *segments)) == repr(expected)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=12))
def test_variance_is_welfords_to_the_bit_and_the_exact_one_nearly(values: list[float]) -> None:
    segments = [values, [None, *reversed(values)], values[:1]]
    found = running(of("var_pop", DOUBLE), *segments)
    assert found == [_variances(values), [None, *_variances(values[::-1])], [0.0]]
    assert found[0][-1] == pytest.approx(statistics.pvariance(values), rel=1e-9, abs=1e-9)


def _variances(values: list[float]) -> list[float]:
    steps = accumulate(values, _welford, initial=(0, 0.0, 0.0))
    return [m2 / n for n, _, m2 in list(steps)[1:]]


def _welford(state: tuple[int, float, float], value: float) -> tuple[int, float, float]:
    n, mean, m2 = state
    off = value - mean
    moved = mean + off / (n + 1)
    return n + 1, moved, m2 + off * (value - moved)
