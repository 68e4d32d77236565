"""Binding: names, anchors, types, desugaring, columns of the answer."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pyarrow as pa
import pytest

from replay.errors import BindError, UnknownNameError
from replay.language import bind, parse_query
from replay.language.bound import (
    Alternate,
    Anchor,
    AnchorKind,
    Attribute,
    Call,
    Concat,
    DataType,
    Literal,
    Repeat,
    SkipMode,
    Symbol,
    attributes,
)
from replay.language.query_printer import to_sql

T = DataType
SCHEMA = pa.schema(
    {
        "ts": pa.timestamp("us"),
        "x": pa.int64(),
        "y": pa.float64(),
        "name": pa.string(),
        "flag": pa.bool_(),
        "day": pa.date32(),
        "seen": pa.timestamp("ms", "Europe/Berlin"),
        "lasted": pa.duration("us"),
        "Mixed": pa.int16(),
        "twice": pa.int8(),
        "Twice": pa.int8(),
        "tags": pa.list_(pa.int64()),
    }
)
X = Attribute("x", T.INTEGER)
Y = Attribute("y", T.DOUBLE)
FIRST_A, LAST_A = Anchor(AnchorKind.FIRST, (0,)), Anchor(AnchorKind.LAST, (0,))


def query(inside, *, select="*", after="", order_by="ts", schema=SCHEMA, time=None, **params):
    text = f"SELECT {select} FROM s MATCH_RECOGNIZE (ORDER BY {order_by} {inside}) {after}"
    return bind(parse_query(text), schema, time=time, text=text, params=params)


def condition(text, **params):
    """Condition of B, the second of two symbols."""
    bound = query(f"MEASURES MATCH_NUMBER() AS no PATTERN (A B) DEFINE B AS {text}", **params)
    return bound.defines[1]


def measure(text, **params):
    return query(f"MEASURES {text} AS m PATTERN (A B)", **params).measures[0].expression


def compared(op, left, right):
    return Call(op, (left, right), T.BOOLEAN)


# ---------------------------------------------------------------------------------------------
# Rows that attributes are read from


def test_navigation_moves_every_attribute_inside_and_none_after():
    first, last = (
        Attribute(name, t, FIRST_A, -1) for name, t in (("x", T.INTEGER), ("y", T.DOUBLE))
    )
    bound = condition("PREV(FIRST(A.x * A.y)) > x")
    product = Call("*", (Call("cast", (first,), T.DOUBLE), last), T.DOUBLE)
    assert bound == compared(">", product, Call("cast", (X,), T.DOUBLE))


# ---------------------------------------------------------------------------------------------
# Names


def test_name_in_another_case_is_found_if_it_is_the_only_one():
    assert condition("MIXED = 1") == condition('"Mixed" = 1')
    assert condition("b.X = 1") == condition("x = 1")


def test_exact_name_wins_over_another_case():
    (found,) = attributes(condition("Twice = 1"))
    assert found.name == "Twice"


def test_ambiguous_case_is_no_name():
    with pytest.raises(UnknownNameError) as raised:
        condition("TWICE = 1")
    assert raised.value.name == "TWICE"
    assert raised.value.candidates == tuple(SCHEMA.names)


def test_symbol_in_another_case_is_the_same_symbol_unless_quoted():
    bound = query('MEASURES a.x AS m PATTERN (A a "a")')
    assert bound.symbols == ("A", "a")
    assert bound.pattern == Concat((Symbol(0), Symbol(0), Symbol(1)))


def test_attribute_of_a_type_without_use_does_no_harm_unless_it_is_named():
    assert condition("x = 1") is not None
    with pytest.raises(BindError, match="tags"):
        condition("tags IS NOT NULL")


# ---------------------------------------------------------------------------------------------
# Types


def test_integer_beside_double_is_cast():
    assert condition("x > y") == compared(">", Call("cast", (X,), T.DOUBLE), Y)
    assert condition("y > 1") == compared(">", Y, Literal(1.0, T.DOUBLE))


def test_local_time_constant_beside_an_instant_is_utc():
    seen = Attribute("seen", T.TIMESTAMP_UTC)
    assert condition("seen > TIMESTAMP '1970-01-01 00:00:01'") == compared(
        ">", seen, Literal(1_000_000, T.TIMESTAMP_UTC)
    )
    assert condition("seen > '1970-01-01 01:00:01+01:00'") == compared(
        ">", seen, Literal(1_000_000, T.TIMESTAMP_UTC)
    )
    assert condition("seen > DATE '1970-01-02'") == compared(
        ">", seen, Literal(86_400_000_000, T.TIMESTAMP_UTC)
    )


def test_text_beside_a_time_is_a_time():
    day = Attribute("day", T.DATE)
    assert condition("day = '1970-01-03'") == compared("=", day, Literal(2, T.DATE))
    ts = Attribute("ts", T.TIMESTAMP)
    low, high = Literal(0, T.TIMESTAMP), Literal(1, T.TIMESTAMP)
    assert condition("ts BETWEEN '1970-01-01' AND '1970-01-01 00:00:00.000001'") == Call(
        "and", (compared(">=", ts, low), compared("<=", ts, high)), T.BOOLEAN
    )


@pytest.mark.parametrize(
    ("text", "value", "literal"),
    [
        ("x = :p", 5, Literal(5, T.INTEGER)),
        ("y = :p", 0.5, Literal(0.5, T.DOUBLE)),
        ("y = :p", 5, Literal(5.0, T.DOUBLE)),
        ("name = :p", "it's", Literal("it's", T.STRING)),
        ("flag = :p", True, Literal(True, T.BOOLEAN)),
        ("ts = :p", datetime.fromisoformat("1970-01-01 00:00:01"), Literal(1_000_000, T.TIMESTAMP)),
        ("ts = :p", "1970-01-01 00:00:01", Literal(1_000_000, T.TIMESTAMP)),
        ("seen = :p", datetime(1970, 1, 1, 0, 1, tzinfo=UTC), Literal(60_000_000, T.TIMESTAMP_UTC)),
        ("day = :p", date(1969, 12, 31), Literal(-1, T.DATE)),
        ("lasted = :p", timedelta(milliseconds=3), Literal(3000, T.INTERVAL)),
    ],
)
def test_parameter_is_a_constant_of_its_type(text, value, literal):
    bound = condition(text, p=value)
    assert isinstance(bound, Call)
    assert bound.args[1] == literal


@pytest.mark.parametrize(
    ("value", "words"),
    [(2**63, "outside the range of INTEGER"), (object(), "has the type object"), (b"x", "bytes")],
)
def test_parameter_of_no_type_is_refused(value, words):
    with pytest.raises(BindError, match=words):
        condition("x = :p", p=value)


def test_unknown_parameter_names_the_nearest():
    with pytest.raises(UnknownNameError, match="no parameter 'wantd'; did you mean 'wanted'"):
        condition("x = :wantd", wanted=1)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ts - PREV(ts)", T.INTERVAL),
        ("ts + INTERVAL '1' HOUR", T.TIMESTAMP),
        ("30 MINUTES + seen", T.TIMESTAMP_UTC),
        ("day + 1 DAY", T.TIMESTAMP),
        ("day - DATE '2020-01-01'", T.INTEGER),
        ("lasted * 2 - lasted", T.INTERVAL),
        ("2 * lasted", T.INTERVAL),
        ("x / 2", T.INTEGER),
        ("x / 2.0", T.DOUBLE),
        ("Mixed % 7", T.INTEGER),
        ("-y", T.DOUBLE),
        ("round(y, 2)", T.DOUBLE),
        ("sqrt(x)", T.DOUBLE),
        ("length(name)", T.INTEGER),
        ("coalesce(x, y, NULL)", T.DOUBLE),
        ("CASE WHEN flag THEN day ELSE ts END", T.TIMESTAMP),
        ("CAST(y AS INTEGER)", T.INTEGER),
        ("CAST('2020-01-01' AS DATE)", T.DATE),
        ("CAST(NULL AS DOUBLE)", T.DOUBLE),
        ("NULL", T.NULL),
    ],
)
def test_type_of_an_expression(text, expected):
    assert measure(text).type is expected


# ---------------------------------------------------------------------------------------------
# Desugaring


@pytest.mark.parametrize(
    ("text", "same_as"),
    [
        ("x NOT BETWEEN 1 AND 5", "x < 1 OR x > 5"),
        ("x != 5", "x <> 5"),
        ("NOT x < 5", "x >= 5"),
        ("NOT (x < 5 AND flag)", "x >= 5 OR NOT flag"),
        ("x IN (5)", "x = 5"),
        ("x NOT IN (1, 2)", "NOT x IN (1, 2)"),
        ("x IN (1, A.x, 2)", "x = A.x OR x IN (1, 2)"),
        ("x IN (1, NULL)", "x = 1 OR NULL"),
        ("x IN (1, 2, 2.5)", "x IN (1, 2)"),
        ("x IN (9007199254740993, 2.5, 1)", "x = 9007199254740993 OR x IN (2.5, 1)"),
        ("x IN (9007199254740993, NULL, 2.5)", "x = 9007199254740993 OR NULL OR x = 2.5"),
        ("x IN (2.5, A.x, NULL)", "x = 2.5 OR x = A.x OR NULL"),
        ("5 < x", "x > 5"),
        ("x > 2 + 3", "x > 5"),
        ("x > 4.5", "x >= 5"),
        ("x < 5.5", "x <= 5"),
        ("x >= 5.0", "x >= 5"),
        ("x = -5.0", "x = -5"),
        ("day > TIMESTAMP '1970-01-03 12:00'", "day >= DATE '1970-01-04'"),
        ("x > - 5", "x > -5"),
        ("name IS NOT NULL", "NOT name IS NULL"),
        ("CASE x WHEN 1 THEN flag END", "CASE WHEN x = 1 THEN flag ELSE NULL END"),
        ("flag AND TRUE AND (flag AND x = 1)", "flag AND x = 1"),
        ("mod(x, 3) = 1", "x % 3 = 1"),
        ("ceiling(y) = 1", "CEIL(y) = 1"),
        ("flag AND 1 = 2", "FALSE"),
        ("x = NULL", "NULL"),
        ("greatest(x, 3) > 5", "CASE WHEN x >= 3 THEN x WHEN x <= 3 THEN 3 END > 5"),
    ],
)
def test_desugared_condition(text, same_as):
    assert condition(text) == condition(same_as)


def test_condition_that_is_always_true_is_none():
    assert condition("1 = 1") is None
    assert condition("1 = 2") == Literal(False, T.BOOLEAN)
    assert condition("NULL") == Literal(None, T.BOOLEAN)


# ---------------------------------------------------------------------------------------------
# The query


def test_pattern_is_flat_and_keeps_preference():
    pattern = query("MEASURES A.x AS m PATTERN ((A B) (C | (D | ())) A{1} E{2,}?)").pattern
    assert pattern == Concat(
        (
            Symbol(0),
            Symbol(1),
            Alternate((Symbol(2), Symbol(3), Concat(()))),
            Symbol(0),
            Repeat(Symbol(4), 2, None, greedy=False),
        )
    )


def test_empty_pattern():
    bound = query("MEASURES MATCH_NUMBER() AS no PATTERN (())")
    assert bound.pattern == Concat(())
    assert bound.symbols == ()


def test_defaults_and_clauses():
    bare = query("MEASURES x AS m PATTERN (A)")
    assert (bare.within, bare.skip, bare.limit) == (None, SkipMode.PAST_LAST_ROW, None)
    assert (bare.stream, bare.time, bare.time_type) == ("s", "ts", T.TIMESTAMP)
    full = query(
        "MEASURES x AS m ONE ROW PER MATCH AFTER MATCH SKIP TO NEXT ROW PATTERN (A) "
        "WITHIN INTERVAL '1.5' SECOND",
        after="AS m LIMIT :n;",
        n=3,
    )
    assert (full.within, full.skip, full.limit) == (1_500_000, SkipMode.TO_NEXT_ROW, 3)


def test_window_on_whole_numbers_is_in_their_unit():
    bound = query("MEASURES y AS m PATTERN (A) WITHIN 300", order_by='"x"')
    assert (bound.within, bound.time_type) == (300, T.INTEGER)
    with pytest.raises(
        BindError, match="WITHIN takes a plain whole number, in the unit of the time"
    ):
        query("MEASURES y AS m PATTERN (A) WITHIN 30 MINUTES", order_by="x")


def test_time_of_a_table_in_memory_is_a_number_or_a_timestamp():
    with pytest.raises(BindError, match="whole numbers, timestamps or dates, and 'name' is STRING"):
        query("MEASURES x AS m PATTERN (A)", order_by="name")


def test_columns_of_the_answer():
    inside = "MEASURES A.x AS first_x, y AS y PATTERN (A)"
    partitioned = {"order_by": "ts", "schema": SCHEMA}
    text = f"SELECT * FROM s MATCH_RECOGNIZE (PARTITION BY name, day ORDER BY ts {inside})"
    everything = bind(parse_query(text), SCHEMA, text=text)
    assert everything.partition_by == ("name", "day")
    assert [name for _, name in everything.output] == ["name", "day", "first_x", "y"]
    some = query(inside, select='Y AS "Y Y", m.first_x', after="m", **partitioned)
    assert some.output == (("y", "Y Y"), ("first_x", "first_x"))


def test_partition_alone_is_an_answer():
    text = "SELECT * FROM s MATCH_RECOGNIZE (PARTITION BY name ORDER BY ts PATTERN (A+))"
    assert bind(parse_query(text), SCHEMA, text=text).output == (("name", "name"),)


def test_tree_without_text_gives_errors_without_place():
    tree = parse_query("SELECT * FROM s MATCH_RECOGNIZE (ORDER BY tss MEASURES x AS m PATTERN (A))")
    with pytest.raises(UnknownNameError) as raised:
        bind(tree, SCHEMA)
    assert str(raised.value) == "no attribute 'tss'; did you mean 'ts'?"


def test_deeply_nested_query_is_refused_not_crashed():
    text = f"{'(' * 5000}x{')' * 5000} = 1"
    with pytest.raises(
        BindError.__base__, match="nested over 150 levels deep is not supported yet"
    ):
        condition(text)


@pytest.mark.parametrize(
    "text",
    [
        " + ".join(["x"] * 148) + " = 1",
        "NOT (" * 70 + "flag = (x > 1)" + ")" * 70,
        "(" * 145 + "x = 1" + ") = flag" * 145,
        "coalesce(" * 140 + "x" + ")" * 140 + " = 1",
        "CASE WHEN flag THEN x ELSE " * 140 + "x" + " END" * 140 + " = 1",
    ],
    ids=["sum", "not", "comparison", "function", "case"],
)
def test_nesting_up_to_the_limit_binds_and_prints(text):
    assert condition(text) is not None
    tree = parse_query(
        f"SELECT * FROM s MATCH_RECOGNIZE (ORDER BY t PATTERN (B) DEFINE B AS {text})"
    )
    assert parse_query(to_sql(tree)) == tree


def test_long_lists_of_alternatives_are_fine():
    text = " OR ".join(f"x = {i}" for i in range(3000))
    bound = condition(text)
    assert isinstance(bound, Call)
    assert len(bound.args) == 3000
