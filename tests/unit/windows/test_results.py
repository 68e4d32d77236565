"""The last steps: from merged summaries to values, their errors and their types."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from replay.errors import QueryError
from replay.language.bound import Call, TimeWindows, WholeRange
from replay.windows.results import (
    answer_schema,
    summarised_attribute,
    to_tables,
)
from tests.window_cases import (
    COUNT,
    DOUBLE,
    INT,
    INTERVAL,
    SPREADS,
    K,
    N,
    S,
    X,
    agg,
    aggregation,
    summarise_panes,
)

INF, NAN = math.inf, math.nan
EVENTS = pa.schema([("t", pa.timestamp("us", "UTC")), ("x", pa.float64()), ("k", pa.int8())])


def values_of(function: str, *windows: list[Any], column: str = "x", to: Any = None) -> list[Any]:
    """Return an aggregate of the values of windows."""
    attribute = {"x": X, "i": N, "s": S}[column]
    what = aggregation(TimeWindows(1, 1), agg(function, attribute, to))
    kind = {"x": pa.float64(), "i": pa.int64(), "s": pa.string()}[column]
    flat = pa.chunked_array([pa.array([v for window in windows for v in window], kind)])
    lengths = np.array([len(window) for window in windows])
    summary = summarise_panes(flat, lengths)
    borders = np.arange(len(windows)), np.arange(len(windows)) + 1
    schema = pa.schema([("t", pa.int64()), (column, kind)])
    table = pa.concat_tables(to_tables(what, schema, borders, [], lengths, {column: summary}))
    return table.column("a0").to_pylist()


def test_equal_values_have_a_variance_of_zero() -> None:
    # 0.1 three times: their sum over three is not 0.1, and its square would be left over.
    assert values_of("var_samp", [0.1] * 3) == [0.0]


@pytest.mark.parametrize("function", ["min", "max", "sum", "avg"])
def test_negative_zero_is_zero(function: str) -> None:
    (value,) = values_of(function, [-0.0, -0.0])

    assert math.copysign(1.0, value) == 1.0


def test_sums_of_integers_are_exact_to_the_last_one() -> None:
    # Either overflows on the way, or loses digits as a DOUBLE.
    most = 2**63 - 1
    assert values_of("sum", [most, most, -most], [2**62, 1], column="i") == [most, 2**62 + 1]
    assert values_of("sum", [-(2**63)], column="i") == [-(2**63)]


def test_a_mean_of_integers_is_rounded_once_from_their_exact_sum() -> None:
    # The sum is 2**64 - 2, beyond INTEGER; half of it is 2**63 - 1, as a DOUBLE 2**63.
    most = 2**63 - 1
    assert values_of("avg", [most, most], [1, 2], column="i") == [2.0**63, 1.5]


def test_means_of_intervals_drop_fractions_towards_zero() -> None:
    means = values_of("avg", [3, 4], [-3, -4], [-4, -4], column="i", to=INTERVAL)

    assert [mean.microseconds + mean.days * 86_400_000_000 + mean.seconds * 10**6
            for mean in means] == [3, -3, -4]  # fmt: skip


def test_a_sum_of_integers_that_does_not_fit_is_told_with_its_window() -> None:
    with pytest.raises(
        QueryError, match=r"^a0 of the window \[1, 2\) would add up to 9223372036854775808, which"
    ):
        values_of("sum", [1], [2**63 - 1, 1], column="i")


@pytest.mark.parametrize("function", ["sum", "avg"])
def test_a_sum_of_doubles_that_may_overflow_is_an_error(function: str) -> None:
    with pytest.raises(QueryError, match=r"may not fit a double: it has 2 values of up to 1e\+308"):
        values_of(function, [1e308, -1e308])
    # Half of the largest double is where it begins, so that no order of additions reaches it.
    with pytest.raises(QueryError, match="may not fit a double"):
        values_of(function, [8e307, -8e307])
    assert values_of(function, [4e307, -4e307]) == [0.0]


@pytest.mark.parametrize("function", SPREADS)
def test_a_variance_that_may_overflow_is_an_error(function: str) -> None:
    with pytest.raises(QueryError, match=r"its 2 values lie up to 2e\+160 apart"):
        values_of(function, [1e160, -1e160])
    assert values_of(function, [1e160, 1e160]) == [0.0]


def test_rows_before_an_error_are_told_first() -> None:
    what = aggregation(TimeWindows(1, 1), agg("sum", N))
    summary = summarise_panes(pa.chunked_array([[1, 2, 2**63 - 1, 1]]), np.array([1, 1, 2]))
    schema = pa.schema([("t", pa.int64()), ("i", pa.int64())])
    borders = np.arange(3), np.arange(3) + 1

    tables = to_tables(what, schema, borders, [], np.array([1, 1, 2]), {"i": summary})

    assert next(tables).column("a0").to_pylist() == [1, 2]
    with pytest.raises(QueryError, match=r"\[2, 3\)"):
        next(tables)


def test_times_and_keys_keep_the_types_of_the_stream() -> None:
    keys = (K, Call("+", (K, K), INT))
    what = aggregation(TimeWindows(10, 10), COUNT, agg("max", X), keys=keys)

    assert answer_schema(what, EVENTS) == pa.schema(
        [
            ("window_start", pa.timestamp("us", "UTC")),
            ("window_end", pa.timestamp("us", "UTC")),
            ("key0", pa.int8()),
            ("key1", pa.int64()),
            ("a0", pa.int64()),
            ("a1", pa.float64()),
        ]
    )
    assert answer_schema(aggregation(WholeRange(), COUNT), EVENTS).names == ["a0"]


def test_the_attribute_behind_an_aggregate() -> None:
    wide = Call("cast", (N,), DOUBLE)
    narrow = Call("cast", (X,), INT)

    parts = [agg("sum"), agg("var_pop", wide), agg("sum", narrow), COUNT]

    assert [summarised_attribute(part) for part in parts] == ["x", "i", None, None]
