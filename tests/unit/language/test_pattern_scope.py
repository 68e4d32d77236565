"""Rows, symbols and aggregates that expressions of MATCH_RECOGNIZE read."""

from __future__ import annotations

import pyarrow as pa
import pytest

from replay.errors import QueryError
from replay.language import bind, parse_query
from replay.language.bound import (
    CURRENT,
    MATCH_LAST,
    Aggregate,
    Anchor,
    AnchorKind,
    Attribute,
    Call,
    Classifier,
    DataType,
    Literal,
    MatchNumber,
    RowsPerMatch,
    Semantics,
    SkipMode,
    TimedOut,
)

T = DataType
SCHEMA = pa.schema(
    {
        "t": pa.int64(),
        "x": pa.int64(),
        "y": pa.float64(),
        "name": pa.string(),
        "flag": pa.bool_(),
        "took": pa.duration("us"),
        "day": pa.date32(),
    }
)
X, Y = Attribute("x", T.INTEGER), Attribute("y", T.DOUBLE)
SUBSETS = "SUBSET U = (C, A), V = (A, B)"
"""Symbols are A, B, C with the numbers 0, 1, 2, so U is (0, 2)."""


def query(inside, *, select="*", schema=SCHEMA, order_by="t", after=""):
    text = f"SELECT {select} FROM s MATCH_RECOGNIZE (ORDER BY {order_by} {inside}) {after}"
    return bind(parse_query(text), schema, text=text)


def condition(text, symbol="B"):
    inside = f"PATTERN (A B C) {SUBSETS} DEFINE {symbol} AS {text}"
    bound = query(f"MEASURES MATCH_NUMBER() AS no {inside}")
    return bound.defines["ABC".index(symbol)]


def measure(text, rows=""):
    return query(f"MEASURES {text} AS m {rows} PATTERN (A B C) {SUBSETS}").measures[0].expression


def first(*symbols, offset=0, final=False):
    return Anchor(AnchorKind.FIRST, symbols or None, offset, final)


def last(*symbols, offset=0, final=False):
    return Anchor(AnchorKind.LAST, symbols or None, offset, final)


# -- Navigation --


@pytest.mark.parametrize(
    ("text", "anchor", "offset"),
    [
        ("x", CURRENT, 0),
        ("B.x", CURRENT, 0),
        ("LAST(B.x)", CURRENT, 0),
        ("LAST(x)", CURRENT, 0),
        ("A.x", last(0), 0),
        ("LAST(A.x)", last(0), 0),
        ("LAST(A.x, 0)", last(0), 0),
        ("FIRST(x)", first(), 0),
        ("FIRST(B.x)", first(1), 0),
        ("PREV(x)", CURRENT, -1),
        ("PREV(x, 0)", CURRENT, 0),
        ("NEXT(x)", CURRENT, 1),
        ("NEXT(FIRST(B.x))", first(1), 1),
        ("FIRST(A.x, 2)", first(0, offset=2), 0),
        ("LAST(A.x, 2)", last(0, offset=2), 0),
        ("FIRST(x, 1)", first(offset=1), 0),
        ("LAST(x, 1)", last(offset=1), 0),
        ("LAST(B.x, 1)", last(1, offset=1), 0),
        ("RUNNING LAST(A.x)", last(0), 0),
        ("U.x", last(0, 2), 0),
        ("LAST(U.x)", last(0, 2), 0),
        ("FIRST(U.x)", first(0, 2), 0),
        ("V.x", CURRENT, 0),
        ("LAST(V.x)", CURRENT, 0),
        ("LAST(V.x, 1)", last(0, 1, offset=1), 0),
        ("FIRST(V.x)", first(0, 1), 0),
        ("PREV(V.x)", CURRENT, -1),
        ("PREV(U.x, 2)", last(0, 2), -2),
        ("PREV(FIRST(A.x, 1), 2)", first(0, offset=1), -2),
        ("NEXT(RUNNING LAST(U.x, 3))", last(0, 2, offset=3), 1),
        ("PREV(LAST(x, 1), 0)", last(offset=1), 0),
    ],
)
def test_row_read_in_the_condition_of_b(text, anchor, offset):
    bound = condition(f"{text} = 1")
    assert bound.args[0] == Attribute("x", T.INTEGER, anchor, offset)


@pytest.mark.parametrize(
    ("text", "anchor", "offset"),
    [
        ("x", MATCH_LAST, 0),
        ("A.x", last(0), 0),
        ("FIRST(x)", first(), 0),
        ("PREV(x)", MATCH_LAST, -1),
        ("NEXT(FIRST(A.x), 2)", first(0), 2),
        ("U.x", last(0, 2), 0),
        ("LAST(x, 1)", last(offset=1), 0),
        ("FINAL LAST(x)", last(final=True), 0),
        ("FINAL FIRST(A.x, 2)", first(0, offset=2, final=True), 0),
        ("RUNNING FIRST(A.x)", first(0), 0),
        ("PREV(FINAL LAST(U.x, 1), 2)", last(0, 2, offset=1, final=True), -2),
    ],
)
def test_row_read_in_measures_of_all_rows(text, anchor, offset):
    assert measure(text, "ALL ROWS PER MATCH") == Attribute("x", T.INTEGER, anchor, offset)


def test_one_row_per_match_sees_all_rows_anyway():
    assert measure("FINAL LAST(A.x)") == measure("LAST(A.x)") == measure("RUNNING LAST(A.x)")
    assert measure("FINAL SUM(A.x)") == measure("SUM(A.x)", "ONE ROW PER MATCH")


def test_navigation_to_no_row_is_null_as_a_whole():
    there = Call(
        "not", (Call("is_null", (Attribute("t", T.INTEGER, CURRENT, -1),), T.BOOLEAN),), T.BOOLEAN
    )
    previous = Attribute("x", T.INTEGER, CURRENT, -1)
    value = Call("coalesce", (previous, Literal(0, T.INTEGER)), T.INTEGER)
    expected = Call("case", (there, value, Literal(None, T.INTEGER)), T.INTEGER)
    assert condition("PREV(COALESCE(x, 0)) = 1").args[0] == expected


@pytest.mark.parametrize(
    "text", ["PREV(x + 1)", "PREV(COALESCE(x, x * 2))", "PREV(ABS(x))", "LAST(COALESCE(x, 0))"]
)
def test_navigation_that_is_null_by_itself_or_stays_is_not_guarded(text):
    assert "case" not in {part.op for part in [condition(f"{text} = 1").args[0]]}
    assert "is_null" not in repr(condition(f"{text} = 1"))


def test_navigation_inside_a_condition_of_its_own():
    assert condition("COALESCE(PREV(x), 0) = 1").args[0].op == "coalesce"


# -- CLASSIFIER and MATCH_NUMBER --


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CLASSIFIER()", Literal("B", T.STRING)),
        ("CLASSIFIER(B)", Literal("B", T.STRING)),
        ("CLASSIFIER(V)", Literal("B", T.STRING)),
        ("LAST(CLASSIFIER())", Literal("B", T.STRING)),
        ("CLASSIFIER(A)", Classifier(anchor=last(0))),
        ("CLASSIFIER(U)", Classifier(anchor=last(0, 2))),
        ("LAST(CLASSIFIER(), 1)", Classifier(anchor=last(offset=1))),
        ("FIRST(CLASSIFIER(V))", Classifier(anchor=first(0, 1))),
        ("PREV(CLASSIFIER())", Classifier(anchor=CURRENT, offset=-1)),
        ("PREV(LAST(CLASSIFIER(U), 1), 3)", Classifier(anchor=last(0, 2, offset=1), offset=-3)),
    ],
)
def test_classifier_in_the_condition_of_b(text, expected):
    assert condition(f"name = {text}").args[1] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CLASSIFIER()", Classifier()),
        ("CLASSIFIER(B)", Classifier(anchor=last(1))),
        ("FINAL LAST(CLASSIFIER())", Classifier(anchor=last(final=True))),
        ("FIRST(CLASSIFIER(U), 1)", Classifier(anchor=first(0, 2, offset=1))),
    ],
)
def test_classifier_in_measures_of_all_rows(text, expected):
    assert measure(text, "ALL ROWS PER MATCH") == expected


def test_match_number():
    assert condition("MATCH_NUMBER() = x").args[0] == measure("MATCH_NUMBER()") == MatchNumber()


# -- Aggregates --


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("COUNT(*)", Aggregate("count", None, None, T.INTEGER)),
        ("COUNT(A.*)", Aggregate("count", None, (0,), T.INTEGER)),
        ("COUNT(U.*)", Aggregate("count", None, (0, 2), T.INTEGER)),
        ("COUNT(1)", Aggregate("count", None, None, T.INTEGER)),
        ("COUNT(B.x)", Aggregate("count", X, (1,), T.INTEGER)),
        ("COUNT(DISTINCT x)", Aggregate("count", X, None, T.INTEGER, distinct=True)),
        ("SUM(A.x)", Aggregate("sum", X, (0,), T.INTEGER)),
        ("RUNNING SUM(V.y)", Aggregate("sum", Y, (0, 1), T.DOUBLE)),
        ("AVG(x)", Aggregate("avg", X, None, T.DOUBLE)),
        ("MIN(A.name)", Aggregate("min", Attribute("name", T.STRING), (0,), T.STRING)),
        ("MAX(day)", Aggregate("max", Attribute("day", T.DATE), None, T.DATE)),
        ("STDDEV(A.y)", Aggregate("stddev_samp", Y, (0,), T.DOUBLE)),
        ("VARIANCE(A.y)", Aggregate("var_samp", Y, (0,), T.DOUBLE)),
        ("MAX(CLASSIFIER())", Aggregate("max", Classifier(anchor=CURRENT), None, T.STRING)),
        ("MAX(CLASSIFIER(U))", Aggregate("max", Classifier(anchor=CURRENT), (0, 2), T.STRING)),
    ],
)
def test_aggregate_reads_rows_of_one_symbol(text, expected):
    assert measure(text) == expected
    assert measure(text, "ALL ROWS PER MATCH") == expected


def test_aggregate_of_the_whole_match_at_each_row_is_final():
    bound = measure("FINAL COUNT(A.*)", "ALL ROWS PER MATCH")
    assert bound == Aggregate("count", None, (0,), T.INTEGER, final=True)


def test_aggregate_in_define_looks_at_each_row_by_itself():
    bound = condition("x > SUM(B.x + B.x)")
    assert bound.args[1] == Aggregate("sum", Call("+", (X, X), T.INTEGER), (1,), T.INTEGER)
    named = condition("COUNT(CASE WHEN CLASSIFIER() = 'A' THEN x END) > 1").args[0]
    assert isinstance(named, Aggregate)
    assert "Classifier" in repr(named.argument)


def test_aggregates_of_conditions_are_written_with_others():
    flag = Attribute("flag", T.BOOLEAN)
    one, nothing = Literal(1, T.INTEGER), Literal(None, T.INTEGER)
    counted = Call("case", (flag, one, nothing), T.INTEGER)
    assert measure("COUNT_IF(A.flag)") == Aggregate("count", counted, (0,), T.INTEGER)
    every = measure("EVERY(A.flag)")
    assert (every.op, every.args[0].function, every.args[1]) == ("=", "min", one)
    assert measure("BOOL_AND(A.flag)") == every
    assert measure("BOOL_OR(A.flag)").args[0].function == "max"


def test_aggregate_beside_navigation_and_columns_of_other_symbols():
    bound = measure("SUM(A.x) + LAST(B.x) - COUNT(C.*)")
    assert bound.type is T.INTEGER


# -- Clauses --


def test_clauses_of_the_standard():
    bound = query(
        "MEASURES A.x AS m ALL ROWS PER MATCH OMIT EMPTY MATCHES AFTER MATCH SKIP TO FIRST U "
        f"PATTERN (A B C) {SUBSETS}",
        order_by="t, y, name",
    )
    assert bound.rows_per_match is RowsPerMatch.ALL_OMIT_EMPTY
    assert (bound.skip, bound.skip_to) == (SkipMode.TO_FIRST, (0, 2))
    assert bound.order_by == ("y", "name")
    assert bound.semantics is Semantics.SQL
    plain = query("MEASURES A.x AS m ALL ROWS PER MATCH AFTER MATCH SKIP TO B PATTERN (A B)")
    assert plain.rows_per_match is RowsPerMatch.ALL_SHOW_EMPTY
    assert (plain.skip, plain.skip_to) == (SkipMode.TO_LAST, (1,))


def test_extensions_in_any_order():
    tails = [
        "SEMANTICS SKIP TILL ANY WITHIN 5 WITH TIMEOUTS SUBSET U = (A, B)",
        "SUBSET U = (A, B) WITHIN 5 WITH TIMEOUTS SEMANTICS SKIP TILL ANY",
    ]
    one, other = (query(f"MEASURES U.x AS m PATTERN (A B) {tail}") for tail in tails)
    assert one == other
    assert (one.semantics, one.with_timeouts) == (Semantics.SKIP_TILL_ANY, True)


def test_columns_of_all_rows_in_the_order_of_the_standard():
    text = (
        "SELECT * FROM s MATCH_RECOGNIZE (PARTITION BY name ORDER BY t, day MEASURES A.x AS m "
        "ALL ROWS PER MATCH PATTERN (A))"
    )
    bound = bind(parse_query(text), SCHEMA, text=text)
    names = [source for source, _ in bound.output]
    assert names == ["name", "t", "day", "m", "x", "y", "flag", "took"]


def test_columns_of_all_rows_can_be_chosen():
    bound = query("MEASURES A.x AS m ALL ROWS PER MATCH PATTERN (A)", select="y AS z, m")
    assert bound.output == (("y", "z"), ("m", "m"))


def test_timeouts_add_a_last_column():
    inside = "MEASURES A.x AS m {} PATTERN (A B) SEMANTICS SKIP TILL NEXT WITHIN 5 WITH TIMEOUTS"
    one = query(inside.format(""))
    assert [name for _, name in one.output] == ["m", "timed_out"]
    assert one.measures[-1].expression == TimedOut()
    rows = query(inside.format("ALL ROWS PER MATCH"))
    assert [name for _, name in rows.output][-1] == "timed_out"
    with pytest.raises(QueryError, match="the stream has one of that name"):
        query(
            inside.format("ALL ROWS PER MATCH"),
            schema=SCHEMA.append(pa.field("timed_out", pa.bool_())),
        )


def test_names_that_are_keywords_elsewhere_stay_names():
    schema = pa.schema({"t": pa.int64(), "final": pa.int64(), "first": pa.int64()})
    bound = query(
        "MEASURES final AS running, LAST(first.final) AS last, first AS subset "
        "AFTER MATCH SKIP TO FIRST FIRST PATTERN (first permute seek) "
        "SUBSET within = (first, seek) DEFINE seek AS final > within.first",
        schema=schema,
    )
    assert bound.symbols == ("FIRST", "PERMUTE", "SEEK")
    assert [measure.name for measure in bound.measures] == ["running", "last", "subset"]
    assert bound.skip_to == (0,)


@pytest.mark.parametrize(
    ("skip", "symbol", "mode"),
    [
        ("last", "last", SkipMode.TO_LAST),
        ("first", "first", SkipMode.TO_LAST),
        ("FIRST pattern", "pattern", SkipMode.TO_FIRST),
        ('FIRST "LAST"', '"LAST"', SkipMode.TO_FIRST),
        ("LAST last", "last", SkipMode.TO_LAST),
    ],
)
def test_skip_to_symbols_with_awkward_names(skip, symbol, mode):
    bound = query(f"MEASURES x AS m AFTER MATCH SKIP TO {skip} PATTERN (A {symbol})")
    assert (bound.skip, bound.skip_to) == (mode, (1,))


def test_column_called_running_takes_an_alias():
    bound = query("MEASURES x AS running, y AS final PATTERN (A)", select="running total, final")
    assert bound.output == (("running", "total"), ("final", "final"))
