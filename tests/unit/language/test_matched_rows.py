"""Aggregates over symbols around MATCH_RECOGNIZE: what they are bound to, and what is refused."""

from __future__ import annotations

import pyarrow as pa
import pytest

from replay.errors import BindError, NotSupportedError, UnknownNameError
from replay.language import bind, parse_query
from replay.language.bound import Aggregate, Attribute, BoundPatternQuery, DataType

SCHEMA = pa.schema([("t", pa.int64()), ("k", pa.string()), ("x", pa.float64()), ("n", pa.int64())])


def query(select: str, *, alias: str = "", rows: str = "", pattern: str = "A B* !X C") -> str:
    return (
        f"SELECT {select} FROM s MATCH_RECOGNIZE (PARTITION BY k ORDER BY t MEASURES A.x AS m "
        f"{rows} PATTERN ({pattern}) SEMANTICS SKIP TILL ANY SUBSET U = (A, B)) {alias}"
    )


def bound(sql: str) -> BoundPatternQuery:
    return bind(parse_query(sql), SCHEMA, time="t", text=sql)


def bound_item(select: str, **more: str):
    outer = bound(query(select, **more)).outer
    assert outer is not None
    return outer.items[0][1]


def test_an_aggregate_over_a_symbol_is_a_function_its_symbols_and_an_expression_of_a_row():
    x, n = Attribute("x", DataType.DOUBLE), Attribute("n", DataType.INTEGER)
    assert bound_item("AVG(B.x)") == Aggregate("avg", x, (1,), DataType.DOUBLE)
    assert bound_item("MAX(u.n)") == Aggregate("max", n, (0, 1), DataType.INTEGER)
    assert bound_item("COUNT(C.*)") == Aggregate("count", None, (3,), DataType.INTEGER)
    assert bound_item("MAX(m)") == Aggregate(
        "max", Attribute("m", DataType.DOUBLE), None, DataType.DOUBLE
    )


def test_the_answer_has_no_column_for_what_aggregates_read_of_rows():
    assert [name for name, _ in bound(query("k, SUM(B.n)  AS s", alias="GROUP BY k")).output] == [
        "k"
    ]


def test_an_alias_wins_over_a_symbol_of_its_name():
    assert bound_item("MAX(A.m)", alias="AS A") == bound_item("MAX(m)")


@pytest.mark.parametrize(
    ("sql", "error", "words"),
    [
        (query("B.x"), BindError, "'B' is a symbol, whose rows are many in many matches"),
        (query("MAX(m)", alias="WHERE B.x > 1"), BindError, "'B' is a symbol"),
        (query("COUNT(D.*)"), UnknownNameError, "no symbol in PATTERN called 'D'"),
        (
            query("COUNT(THEFTS.*)", pattern="A THEFT B !X C"),
            UnknownNameError,
            "called 'THEFTS'; did you mean 'THEFT'",
        ),
        (query("COUNT(X.*)"), BindError, "'X' stands in PATTERN only as !X"),
        (query("SUM(B.x + C.x)"), BindError, "B and C are of different symbols; a SUBSET joins"),
        (query("SUM(B.x * m)"), BindError, "m is no value of such a row; write B before each"),
        (query("SUM(B.y)"), UnknownNameError, "no attribute 'y'"),
        (query("SUM(COUNT(B.*))"), BindError, "SUM cannot hold another aggregate"),
        (query("MAX(PREV(B.x))"), BindError, "looks at each row by itself and cannot hold PREV"),
        (
            query("COUNT(b.*)", alias="AS b"),
            BindError,
            "one name in different cases; give the alias another name",
        ),
        (
            query("COUNT(B.*)", rows="ALL ROWS PER MATCH"),
            NotSupportedError,
            "with ALL ROWS PER MATCH is not supported",
        ),
        (
            query("CAST(MAX(m) AS DECIMAL(76, 0))"),
            NotSupportedError,
            "it is for COUNT and SUM of INTEGER in the query around MATCH_RECOGNIZE",
        ),
    ],
)
def test_what_is_refused_is_told_with_what_to_write(sql: str, error: type, words: str):
    with pytest.raises(error) as raised:
        bound(sql)
    assert words in str(raised.value).splitlines()[0]
