"""Sums that are rounded once, and numbers of any size in an outer query: laws and borders."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import replay
from replay.errors import QueryError
from replay.expressions.scalars import Faults
from replay.language import bind, parse_query
from replay.language.bound import Aggregate, Outer
from replay.operators.exact_sums import sums_of_doubles, sums_of_integers
from replay.operators.outer import GroupRows, answer_groups, apply_outer
from replay.patterns.trends.algebra import aggregates_of

SCHEMA = pa.schema(
    [
        ("t", pa.int64()),
        ("k", pa.string()),
        ("x", pa.float64()),
        ("d", pa.decimal128(18, 2)),
    ]
)


def bound(select: str, more: str = "") -> Outer:
    sql = (
        f"SELECT {select} FROM s MATCH_RECOGNIZE (PARTITION BY k ORDER BY t MEASURES A.t AS n, "
        f"A.x AS x, A.d AS d PATTERN (A) SEMANTICS SKIP TILL ANY) {more}"
    )
    outer = bind(parse_query(sql), SCHEMA, time="t", text=sql).outer
    assert outer is not None
    return outer


def ask(numbers: dict[str, int], select: str, more: str = "") -> pa.Table:
    """Return the answer over groups by k of which each has one number, of any aggregate."""
    outer = bound(select, f"GROUP BY k {more}")
    (key,) = outer.group_by or ()
    keys = pa.array(list(numbers))
    known: dict[Aggregate, list[int | None]] = {
        part: list(numbers.values()) for part in aggregates_of(outer)
    }
    groups = GroupRows(pa.table({"k": keys}), {key: keys}, known, (key,))  # type: ignore[dict-item]
    return answer_groups(groups, outer, Faults())


finite = st.floats(allow_nan=False, allow_infinity=False)


@given(st.lists(st.lists(finite, max_size=6), max_size=4))
def test_sums_of_doubles_are_those_of_fractions(ranges):
    ends = np.cumsum([len(one) for one in ranges], dtype=np.int64)
    begins = ends - np.array([len(one) for one in ranges], np.int64)
    values = np.array([value for one in ranges for value in one], np.float64)
    for one, found in zip(ranges, sums_of_doubles(values, begins, ends), strict=True):
        exact = sum(map(Fraction, one), Fraction())
        assert found.rounded(7) == float(exact / 7)
        if abs(exact) < Fraction(1.7e308):
            assert found.rounded() == float(exact)


def test_sums_of_integers_are_exact_beyond_64_bits():
    values = np.array([2**63 - 1] * 3 + [-(2**63)] * 2, np.int64)
    found = sums_of_integers(values, np.array([0, 3, 5]), np.array([3, 5, 5]))
    assert found == [3 * (2**63 - 1), -(2**64), 0]


@pytest.mark.parametrize(
    ("values", "total"),
    [
        ([0.1, 0.2, 0.3], 0.6),
        ([1e308, 1e308, -1e308], 1e308),  # plain doubles pass through inf
        ([1e300, 1.0, -1e300], 1.0),
        ([5e-324, 5e-324], 1e-323),
        ([-0.0, -0.0], 0.0),
        ([math.inf, 1.0], math.inf),
        ([math.inf, -math.inf], math.nan),
        ([math.nan, math.inf], math.nan),
    ],
)
def test_the_outer_query_adds_doubles_exactly(values: list[float], total: float):
    table = pa.table({"n": range(len(values)), "x": values})
    (found,) = apply_outer(table, bound("SUM(x) AS s"), Faults()).column("s").to_pylist()
    assert repr(found) == repr(total)


def test_a_sum_beyond_doubles_is_an_error_and_its_mean_is_none():
    table = pa.table({"n": [1, 2], "x": [1.7e308, 1.7e308]})
    with pytest.raises(QueryError, match="beyond the range of a DOUBLE"):
        apply_outer(table, bound("SUM(x)"), Faults())
    assert apply_outer(table, bound("AVG(x) AS m"), Faults()).to_pylist() == [{"m": 1.7e308}]


@pytest.mark.parametrize(
    ("number", "is_integer"),
    [(2**63 - 1, True), (2**63, False), (-(2**63), True), (2**64, False), (10**76 - 1, False)],
)
def test_numbers_are_integers_while_all_of_a_column_fit(number: int, is_integer: bool):
    table = ask({"a": 1, "b": number}, "SUM(n) AS s")
    assert (table.schema.field("s").type == pa.int64()) is is_integer
    assert table.column("s").to_pylist() == [1, number] if is_integer else [Decimal(1), number]


def test_a_number_of_77_digits_names_its_group_and_the_ways_on():
    with pytest.raises(QueryError, match=r"'s' is a number of 77 digits in the group of k 'b'"):
        ask({"a": 1, "b": 10**76}, "SUM(n) AS s")
    assert ask({"a": 1, "b": 10**76}, "SUM(n) AS s", "HAVING SUM(n) < 1e75").num_rows == 1


@pytest.mark.parametrize(
    ("size", "unit", "group"),
    [
        ("1 HOUR", pa.timestamp("us", "UTC"), "1970-01-01T00:00:00Z"),
        ("1 HOUR", pa.timestamp("us"), "1970-01-01T00:00:00"),
        ("300", pa.int64(), "0"),
    ],
)
def test_the_group_of_such_a_number_is_named_as_answers_show_it(
    size: str, unit: pa.DataType, group: str
):
    table = pa.table({"t": pa.array(range(300), unit), "k": pa.nulls(300, pa.string())})
    sql = (
        f"SELECT k, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(t), {size})) "
        "MATCH_RECOGNIZE (PARTITION BY window_start, k PATTERN (A+) SEMANTICS SKIP TILL ANY) "
        "GROUP BY window_start, k"
    )
    with pytest.raises(QueryError, match=f"in the group of window_start {group}, k NULL, more"):
        replay.query({"s": table}, sql)


def test_what_can_be_told_of_a_number_of_any_size_is_exact():
    numbers = {"a": 2**300 - 1, "b": 7, "c": 2**300, "d": 2**64}
    select = "k, CAST(COUNT(*) AS VARCHAR) AS digits, LOG2(COUNT(*)) AS log"
    by_size = ask(numbers, select, "ORDER BY COUNT(*) DESC LIMIT 2").to_pylist()
    assert by_size == [
        {"k": "c", "digits": str(2**300), "log": 300.0},
        {"k": "a", "digits": str(2**300 - 1), "log": 300.0},
    ]
    large = ask(numbers, "k", "HAVING COUNT(*) > 18446744073709551616.0")  # 2**64, and not d
    assert large.column("k").to_pylist() == ["a", "c"]
    wide = ask({"b": 7}, "CAST(COUNT(*) AS DECIMAL(76, 0)) AS n")
    assert wide.schema.field("n").type == pa.decimal256(76, 0)
    logs = ask({"a": 10**80}, "LOG10(COUNT(*)) AS ten, LN(COUNT(*)) AS e").to_pylist()
    assert logs == [{"ten": 80.0, "e": math.log(10**80)}]


@pytest.mark.parametrize(
    ("having", "kept"),
    [
        (f"COUNT(*) > {2**64}", ["c"]),
        (f"COUNT(*) BETWEEN {2**64} AND {2**65}", ["b", "c"]),
        (f"SUM(n) IN (5, {2**64 + 1})", ["a", "c"]),
        (f"-{2**70} < SUM(n)", ["a", "b", "c"]),
        ("CAST(COUNT(*) AS DECIMAL(76, 0)) = 5", ["a"]),
        ("COUNT(*) < 1.8446744073709551616e19", ["a"]),  # 2**64
        ("COUNT(*) >= 5.5", ["b", "c"]),
    ],
)
def test_constants_beside_such_a_number_have_any_size_too(having: str, kept: list[str]):
    numbers = {"a": 5, "b": 2**64, "c": 2**64 + 1}
    assert ask(numbers, "k", f"HAVING {having}").column("k").to_pylist() == kept


@pytest.mark.parametrize(
    ("having", "words"),
    [
        (f"MAX(n) > {2**64}", "cannot compare"),
        (f"{2**64} < {2**65}", "outside the range of INTEGER"),
        (f"COUNT(*) + {2**64} > 5", "outside the range of INTEGER"),
        (f"COUNT(*) > {10**76}", "at most 76 digits"),
    ],
)
def test_other_constants_have_64_bits(having: str, words: str):
    with pytest.raises(QueryError, match=words):
        bound("k", f"GROUP BY k HAVING {having}")


def test_digits_of_a_number_are_all_there_however_many():
    table = ask({"a": 10**5000 + 7}, "CAST(COUNT(*) AS VARCHAR) AS n")
    assert table.column("n").to_pylist() == ["1" + "0" * 4999 + "7"]


IN_CENTS = {"a": 10**18 - 1, "b": 10**18, "c": -(10**75), "d": 5}
"""Sums of a DECIMAL of 18 digits, two of which are behind the point."""


def test_sums_of_decimals_are_exact_beyond_their_digits():
    few = ask({"a": IN_CENTS["a"], "d": 5}, "k, SUM(d) AS s")
    assert few.schema.field("s").type == pa.decimal128(18, 2)
    assert few.column("s").to_pylist() == [Decimal("9999999999999999.99"), Decimal("0.05")]
    many = ask(IN_CENTS, "SUM(d) AS s", "ORDER BY s")
    assert many.schema.field("s").type == pa.decimal256(76, 2)
    expected = [Decimal("-1e73"), Decimal("0.05"), Decimal("9999999999999999.99"), Decimal("1e16")]
    assert many.column("s").to_pylist() == expected
    told = ask(IN_CENTS, "CAST(SUM(d) AS VARCHAR) AS v, LOG10(SUM(d)) AS l, SUM(d) IS NULL AS n")
    assert told.slice(1, 1).to_pylist() == [{"v": "10000000000000000.00", "l": 16.0, "n": False}]
    assert ask({"d": 5}, "SUM(d) * 2 AS s").column("s").to_pylist() == [Decimal("0.10")]


@pytest.mark.parametrize(
    ("having", "kept"),
    [
        ("SUM(d) > 9999999999999999.99", ["b"]),
        ("SUM(d) >= 9999999999999999.99", ["a", "b"]),
        ("SUM(d) < 0.051", ["c", "d"]),
        ("SUM(d) IN (0.05, 10000000000000000)", ["b", "d"]),
        ("SUM(d) = 1e16", ["b"]),
    ],
)
def test_sums_of_decimals_beyond_their_digits_are_compared_as_they_are(having, kept):
    assert ask(IN_CENTS, "k", f"HAVING {having}").column("k").to_pylist() == kept


def test_a_logarithm_of_a_sum_of_decimals_is_told_of_any_size():
    (log,) = ask({"a": 10**402}, "LOG10(SUM(d)) AS l").column("l").to_pylist()
    assert log == 400.0


def test_other_computations_with_a_sum_beyond_its_digits_are_refused_by_name():
    words = r"'x' computes with a number of 19 digits .* which DECIMAL\(18, 2\) cannot hold"
    with pytest.raises(QueryError, match=words):
        ask({"b": 10**18}, "SUM(d) + 1 AS x")
    with pytest.raises(QueryError, match="'x' is a number of 77 digits"):
        ask({"b": 10**76}, "SUM(d) AS x")


def test_distinct_numbers_beyond_64_bits_are_told_apart():
    numbers = {"a": 2**70, "b": 2**70 + 1, "c": 2**70}
    table = ask(numbers, "DISTINCT COUNT(*) AS n", "ORDER BY n DESC")
    assert table.column("n").to_pylist() == [2**70 + 1, 2**70]


@pytest.mark.parametrize("select", ["COUNT(*) + 1", "COUNT(*) / 2.0", "COALESCE(COUNT(*), 0)"])
def test_other_computations_with_such_a_number_are_refused_by_name(select: str):
    assert ask({"a": 3}, select).num_rows == 1
    words = r"'x' computes with a number of 20 digits in the group"
    for also in ("", "COUNT(*) AS n, "):  # which by itself is told of any size
        assert ask({"a": 3}, f"{also}{select} AS x").num_rows == 1
        with pytest.raises(QueryError, match=words):
            ask({"a": 2**64}, f"{also}{select} AS x")
