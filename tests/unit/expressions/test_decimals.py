"""DECIMAL in expressions: exact up to 18 digits, and refused by name beyond."""

from __future__ import annotations

from decimal import Decimal
from operator import eq, ge, gt, le, lt, ne
from typing import Any

import pyarrow as pa
import pytest

import replay
from replay.errors import BindError, NotSupportedError

NINES = Decimal("9999999999999999.99")
SCHEMA = pa.schema(
    [
        ("t", pa.int64()),
        ("p", pa.decimal128(18, 2)),
        ("w", pa.decimal128(20, 2)),
        ("x", pa.float64()),
    ]
)


def table_of(*prices: Decimal | None) -> pa.Table:
    rows = [{"t": t, "p": p, "w": p, "x": None} for t, p in enumerate(prices)]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def answer(sql: str, *prices: Decimal | None, **params: Any) -> replay.Result:
    return replay.query({"s": table_of(*prices)}, sql, params=params or None)


def values(expression: str, *prices: Decimal | None) -> list[Any]:
    found = answer(f"SELECT {expression} AS v FROM s", *prices)
    return found.table.column("v").to_pylist()


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("p + 0.05", Decimal("-2.36")),
        ("p - 1", Decimal("-3.41")),
        ("p * p", Decimal("5.8081")),
        ("p * 0.001", Decimal("-0.00241")),
        ("p / 2", -1.205),
        ("p % 1", Decimal("-0.41")),
        ("-p", Decimal("2.41")),
        ("abs(p)", Decimal("2.41")),
        ("round(p, 1)", -2.4),
        ("coalesce(NULL, p, 0)", Decimal("-2.41")),
        ("CASE WHEN p < 0 THEN p ELSE 1.5 END", Decimal("-2.41")),
        ("CAST(p AS STRING)", "-2.41"),
        ("CAST(p AS INTEGER)", -2),
        ("CAST(p - 0.09 AS INTEGER)", -3),
        ("CAST(p AS DOUBLE)", -2.41),
        ("p = -2.41", True),
        ("p = -2.41000000000000001", False),
        ("p IS DISTINCT FROM -2.41", False),
        ("p < 123456789012345678", True),
        ("p > 9223372036854775807", False),
        ("p > -1e300", True),
    ],
)
def test_what_an_expression_gives(expression: str, expected: Any) -> None:
    (found,) = values(expression, Decimal("-2.41"))
    assert type(found) is type(expected)
    assert found == expected


def test_a_constant_of_more_digits_than_a_double_has_keeps_them() -> None:
    # The double next to it is 1234567890123456.8.
    price = Decimal("1234567890123456.78")
    assert values(f"p = {price}", price) == [True]
    assert values("p = -1234567890123456.78", -price) == [True]
    assert values(f"x = {price}", price) == [None]


def test_more_than_18_digits_are_a_counted_fault() -> None:
    found = answer("SELECT p + 0.01 AS u, p * 10 AS v, p + 0.001 AS w FROM s", NINES, None)
    assert found.table.to_pylist() == [{"u": None, "v": None, "w": None}] * 2
    assert found.actual.faults == 3


def test_sums_of_windows_have_38_digits() -> None:
    found = answer("SELECT SUM(p) AS s, AVG(p) AS a FROM s", NINES, NINES, Decimal("0.02"))
    assert found.table.schema.field("s").type == pa.decimal128(38, 2)
    assert found.table.column("s").to_pylist() == [Decimal("20000000000000000.00")]
    assert found.table.column("a").to_pylist() == [20000000000000000.0 / 3]


def test_no_condition_computes_with_more_than_18_digits() -> None:
    with pytest.raises(NotSupportedError, match="more than 18 digits"):
        answer("SELECT SUM(p) AS s FROM s HAVING SUM(p) > 1", *[NINES] * 10)


@pytest.mark.parametrize("condition", ["w > 1.10", "w + 1 = 2"])
def test_a_column_of_more_than_18_digits_is_refused(condition: str) -> None:
    with pytest.raises(BindError, match="at most 18 digits"):
        answer(f"SELECT * FROM s WHERE {condition}", Decimal("1.10"))
    whole = answer("SELECT w FROM s", Decimal("1.10"))
    assert whole.table.column("w").to_pylist() == [Decimal("1.10")]


def test_a_product_of_too_many_digits_behind_the_point_says_what_to_do() -> None:
    with pytest.raises(BindError, match=r"18 at most: write CAST\(… AS DOUBLE\) of one"):
        values("p * 0.00000000000000001", Decimal("1.10"))


def test_a_parameter_may_be_a_decimal() -> None:
    sql = "SELECT t FROM s WHERE p >= :least"
    prices = (Decimal("1.09"), Decimal("1.10"), Decimal("1.11"))
    assert answer(sql, *prices, least=Decimal("1.10")).table.column("t").to_pylist() == [1, 2]
    with pytest.raises(BindError, match="at most 18 digits"):
        answer(sql, *prices, least=Decimal("0.1234567890123456789"))


def test_decimals_of_different_scales_join_and_compare() -> None:
    other = pa.table({"t": [0, 1], "z": pa.array([Decimal("1.100"), Decimal("1.101")])})
    tables = {"s": table_of(Decimal("1.10"), Decimal("1.11")), "o": other}
    sql = "SELECT s.t AS a, o.t AS b FROM ts AS s JOIN os AS o WITHIN 5 ON s.p = o.z"
    sql = "WITH ts AS (SELECT * FROM s ORDER BY t), os AS (SELECT * FROM o ORDER BY t) " + sql
    assert replay.query(tables, sql).table.to_pylist() == [{"a": 0, "b": 0}]


def test_an_average_in_a_condition_over_other_rows_is_refused_by_name() -> None:
    with pytest.raises(NotSupportedError, match=r"AVG of DECIMAL\(18, 2\) in the condition of B"):
        answer(
            "SELECT * FROM s MATCH_RECOGNIZE (ORDER BY t MEASURES A.p AS a PATTERN (A B+) "
            "DEFINE B AS AVG(B.p) > A.p)",
            Decimal("1.10"),
        )


WIDEST = pa.schema(
    [
        ("t", pa.int64()),
        ("w", pa.decimal128(18, 18)),
        ("r", pa.decimal128(18, 6)),
        ("q", pa.int64()),
    ]
)
FAR_APART = (
    {"w": Decimal("0.999999999999999999"), "r": Decimal("-999999999999.999999"), "q": 2},
    {"w": Decimal("-0.5"), "r": Decimal("-0.5"), "q": -(2**63)},
    {"w": Decimal("0.5"), "r": Decimal("0.5"), "q": 2**63 - 1},
    {"w": Decimal(0), "r": None, "q": 0},
    {"w": None, "r": Decimal(7), "q": 10**17},
)


@pytest.mark.parametrize("op", ["=", "<>", "<", "<=", ">", ">="])
@pytest.mark.parametrize(("one", "other"), [("w", "q"), ("q", "w"), ("r", "q"), ("w", "r")])
def test_numbers_that_have_no_common_18_digits_compare(one: str, other: str, op: str) -> None:
    holds = {"=": eq, "<>": ne, "<": lt, "<=": le, ">": gt, ">=": ge}[op]
    rows = [{"t": t, **row} for t, row in enumerate(FAR_APART)]
    events = {"s": pa.Table.from_pylist(rows, schema=WIDEST)}
    expected = [
        None if None in (row[one], row[other]) else holds(row[one], row[other]) for row in FAR_APART
    ]
    found = replay.query(events, f"SELECT {one} {op} {other} AS v FROM s")
    assert found.table.column("v").to_pylist() == expected
    assert found.actual.faults == 0
    distinct = replay.query(events, f"SELECT {one} IS DISTINCT FROM {other} AS v FROM s").table
    assert distinct.column("v").to_pylist() == [row[one] != row[other] for row in FAR_APART]


def test_a_decimal_next_to_a_constant_beyond_its_digits_is_not_that_constant() -> None:
    # The double next to it is 1.
    nines = Decimal("0.999999999999999999")
    events = {"s": pa.Table.from_pylist([{"t": 0, "w": nines}], schema=WIDEST)}
    found = replay.query(
        events,
        "SELECT w IS DISTINCT FROM 1 AS d, nullif(w, 1) IS NULL AS n, w IN (1, 2) AS i FROM s",
    )
    assert found.table.to_pylist() == [{"d": True, "n": False, "i": False}]


@pytest.mark.parametrize(
    ("prices", "mean"),
    [
        (("0.3", "0.3", "0.4"), 1 / 3),
        (("9999999999999999.99", "9999999999999999.99"), 1e16),
        (("90071992547409.93", "90071992547409.93", "90071992547409.94"), 90071992547409.9333),
    ],
)
def test_an_average_of_a_match_is_rounded_once(prices: tuple[str, ...], mean: float) -> None:
    pattern = "MATCH_RECOGNIZE (ORDER BY t MEASURES AVG(p) AS m PATTERN (A+) DEFINE A AS TRUE)"
    found = answer(f"SELECT m FROM s {pattern}", *map(Decimal, prices))
    assert found.table.column("m").to_pylist() == [mean]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        (
            (
                "SELECT p, n FROM s MATCH_RECOGNIZE (PARTITION BY p ORDER BY t "
                "MEASURES COUNT(*) AS n PATTERN (A+))"
            ),
            [(None, 2), (0, 3), (1, 1)],
        ),
        (
            (
                "SELECT p, n FROM s MATCH_RECOGNIZE (PARTITION BY p, x ORDER BY t "
                "MEASURES COUNT(*) AS n PATTERN (A+))"
            ),
            [(None, 2), (0, 3), (1, 1)],
        ),
        (
            (
                "SELECT p, COUNT(*) AS n FROM s MATCH_RECOGNIZE (PARTITION BY p ORDER BY t "
                "PATTERN (A+) SEMANTICS SKIP TILL ANY) GROUP BY p"
            ),
            [(None, 3), (0, 7), (1, 1)],
        ),
        (
            (
                "SELECT p, A_start FROM s MATCH_SITUATIONS (PARTITION BY p ORDER BY t "
                "DEFINE A AS t > 0)"
            ),
            [(0, 1), (None, 2), (1, 4)],
        ),
    ],
)
def test_no_value_is_another_key_than_zero(sql: str, expected: list[tuple[Any, ...]]) -> None:
    prices = (None, Decimal(0), None, Decimal(0), Decimal(1), Decimal(0))
    rows = answer(sql, *prices).table.to_pylist()
    assert [tuple(row.values()) for row in rows] == expected
