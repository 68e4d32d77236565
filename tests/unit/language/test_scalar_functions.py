"""Expressions folded: statements computed by hand are true, others agree with the naive oracle."""

from __future__ import annotations

import math

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from replay.language import fold
from replay.language.bound import Attribute, Call, DataType, Expression, Literal
from replay.language.cursor import Cursor
from replay.language.expression_binder import ExpressionBinder
from replay.language.expression_parser import parse_expression
from replay.language.printer import to_sql
from replay.language.source import Source
from replay.language.tokens import END
from tests.oracles.scalar import evaluate
from tests.unit.expressions.random_expressions import (
    DOUBLES,
    INTEGERS,
    NAMES,
    ROWS,
    bits,
    expressions,
    folded,
    naively,
)

T = DataType

TYPES = {"i": T.INTEGER, "s": T.STRING, "ts": T.TIMESTAMP, "at": T.TIMESTAMP_UTC, "day": T.DATE}


def column_of(node, _) -> Expression:
    """Return an attribute of `TYPES`: the scope of the expressions here."""
    return Attribute(node.name.name, TYPES[node.name.name])


def bind(text: str) -> Expression:
    cursor = Cursor(text)
    node = parse_expression(cursor)
    assert cursor.token.kind == END, text
    assert parse_expression(Cursor(to_sql(node))) == node
    return ExpressionBinder(Source(text, {}), column_of).bind(node)


NUMBERS = """
    abs(-3) = 3
    abs(INTERVAL '-5' MINUTE) = 5 MINUTES
    floor(-2.5) = -3.0
    ceiling(-2.5) = -2.0
    trunc(-2.5) = -2.0
    truncate(7) = 7
    sign(-0.1) = -1.0
    sign(5) = 1
    round(-2.5) = -3.0
    round(1250, -2) = 1300
    sqrt(16) = 4.0
    cbrt(-27) = -3.0
    power(2, 10) = 1024.0
    exp(0) = 1.0
    ln(1) = 0.0
    log10(1000) = 3.0
    log2(8) = 3.0
    log(2, 8) = 3.0
    log(1, 8) IS NULL
    power(0, CAST('-inf' AS DOUBLE)) IS NULL
    ln(0) IS NULL
    sqrt(-1) IS NULL
    asin(1.5) IS NULL
    mod(-7, 3) = -1
    sin(0) = 0.0 AND cos(0) = 1.0 AND tan(0) = 0.0
    abs(degrees(pi()) - 180) < 1e-12
    radians(180) = pi()
    acos(1) = 0.0 AND asin(0) = 0.0 AND atan(0) = 0.0
    abs(atan2(1, -1) - 3 * pi() / 4) < 1e-15
    greatest(1, 3, 2) = 3
    least(1.5, 1) = 1.0
    ifnull(NULL, 3) = 3
    nvl(2, 3) = 2
    if(1 < 2, 'yes', 'no') = 'yes'
    iff(1 > 2, 'yes') IS NULL
"""

DISTANCES = """
    distance(0, 0, 0, 0) = 0.0
    abs(distance(0, 0, 0, 180) - pi() * 6371008.8) < 1e-6
    abs(distance(0, 0, 0, 1) - pi() * 6371008.8 / 180) < 1e-6
    abs(distance(90, 12, -90, -77) - pi() * 6371008.8) < 1e-6
    distance(48, 11, 52, 13) = distance(52, 13, 48, 11)
    distance(91, 0, 0, 0) IS NULL
"""

TEXTS = """
    'a' || 'b' || 'c' = 'abc'
    ('a' || NULL) IS NULL
    concat('a', 'b') = 'ab'
    concat_ws(', ', 'a', NULL, 'b') = 'a, b'
    concat_ws(', ', NULL) = ''
    length('äöü') = 3
    upper('straße') = 'STRAẞE'
    substring('events', 2) = 'vents'
    substring('events' FROM 2 FOR 3) = 'ven'
    substring('events' FOR 2) = 'ev'
    substr('events', -1, 4) = 'ev'
    substring('events', 9) = ''
    substring('events', 1, -1) IS NULL
    left('events', 2) = 'ev' AND left('events', -2) = 'even'
    right('events', 2) = 'ts' AND right('events', -2) = 'ents' AND right('events', 0) = ''
    trim('  a b ') = 'a b'
    trim('  a\t') = 'a\t'
    trim(BOTH 'x' FROM 'xxaxx') = 'a'
    trim(LEADING FROM '  a ') = 'a '
    trim(TRAILING 'xy' FROM 'axyx') = 'a'
    trim('x' FROM 'xax') = 'a'
    ltrim('  a ') = 'a ' AND rtrim(' a  ') = ' a'
    btrim('abca', 'ac') = 'b'
    replace('aXbX', 'X', 'yy') = 'ayybyy'
    replace('ab', '', 'x') = 'ab'
    position('v' IN 'events') = 2
    strpos('events', 'x') = 0
    instr('aß€b', 'b') = 4
    starts_with('events', 'ev') AND NOT ends_with('events', 'ev')
    lpad('7', 3, '0') = '007' AND lpad('hi', 7, 'xyz') = 'xyzxyhi'
    lpad('events', 3) = 'eve' AND rpad('ab', 4) = 'ab  '
    rpad('ab', 4, '') = 'ab'
    repeat('ab', 3) = 'ababab' AND repeat('ab', -1) = ''
    repeat('ab', 1000000) IS NULL
    reverse('abc') = 'cba'
    split_part('a,b,,c', ',', 2) = 'b' AND split_part('a,b,,c', ',', 3) = ''
    split_part('a,b', ',', -1) = 'b' AND split_part('a,b', ',', 5) = ''
    split_part('a,b', ',', 0) IS NULL
    regexp_like('beat 2232', '[0-9]{4}$') AND NOT regexp_like('beat', '^[0-9]')
    'ABC' LIKE 'A%' AND NOT 'abc' LIKE 'A%'
    'ABC' ILIKE 'a_c' AND 'Ä%' ILIKE 'äX%' ESCAPE 'X' AND NOT 'b' NOT ILIKE 'B'
    NOT 'aXb' ILIKE 'aX_b' ESCAPE 'X'
"""

TRUTHS = """
    (1 = NULL) IS UNKNOWN
    (1 = 1) IS TRUE AND (1 = 2) IS FALSE
    (1 = NULL) IS NOT TRUE AND (1 = NULL) IS NOT FALSE
    (1 = 1) IS NOT UNKNOWN
    NULL IS NOT DISTINCT FROM NULL
    1 IS DISTINCT FROM NULL
    1 IS NOT DISTINCT FROM 1.0
    CAST('NaN' AS DOUBLE) IS NOT DISTINCT FROM CAST('NaN' AS DOUBLE)
    0.0 IS NOT DISTINCT FROM -0.0
    (CAST('NaN' AS DOUBLE) = CAST('NaN' AS DOUBLE)) IS UNKNOWN
"""

PARTS = """
    EXTRACT(YEAR FROM TIMESTAMP '2024-02-29 13:14:15.9') = 2024
    quarter(DATE '2024-05-01') = 2
    month(DATE '2024-05-31') = 5
    day(DATE '2024-05-31') = 31
    hour(TIMESTAMP '1969-12-31 23:59:59') = 23
    minute(TIMESTAMP '1969-12-31 23:58:59') = 58
    EXTRACT(SECOND FROM TIMESTAMP '1969-12-31 23:58:59.75') = 59
    day_of_week(DATE '1970-01-01') = 4
    EXTRACT(DOW FROM DATE '2024-03-03') = 7
    EXTRACT(DOY FROM DATE '2024-12-31') = 366
    week(DATE '2021-01-03') = 53 AND year_of_week(DATE '2021-01-03') = 2020
    week(DATE '2024-12-30') = 1 AND year_of_week(DATE '2024-12-30') = 2025
    epoch(TIMESTAMP '1970-01-02 00:00:00.5') = 86400.5
    EXTRACT(EPOCH FROM INTERVAL '1:30' HOUR TO MINUTE) = 5400.0
    date_part('dow', DATE '2024-03-04') = 1
    EXTRACT(HOUR FROM INTERVAL '-90' MINUTE) = -1
    EXTRACT(MINUTE FROM INTERVAL '-90' MINUTE) = -30
    EXTRACT(DAY FROM INTERVAL '49' HOUR) = 2 AND hour(INTERVAL '49' HOUR) = 1
"""

UNITS = """
    date_trunc('second', TIMESTAMP '1969-12-31 23:59:59.5') = TIMESTAMP '1969-12-31 23:59:59'
    date_trunc('hour', TIMESTAMP '2024-05-31 13:14:15') = TIMESTAMP '2024-05-31 13:00:00'
    date_trunc('WEEK', TIMESTAMP '2024-03-03 10:00') = TIMESTAMP '2024-02-26'
    date_trunc('week', DATE '2024-03-04') = DATE '2024-03-04'
    date_trunc('month', DATE '2024-02-29') = DATE '2024-02-01'
    date_trunc('quarter', DATE '2024-06-30') = DATE '2024-04-01'
    date_trunc('years', TIMESTAMP '1969-07-20 20:17') = TIMESTAMP '1969-01-01'
    date_diff('day', TIMESTAMP '2024-01-01 12:00', TIMESTAMP '2024-01-03 11:59') = 1
    date_diff('day', DATE '2024-03-01', DATE '2024-02-28') = -2
    date_diff('month', DATE '2024-01-31', DATE '2024-02-29') = 1
    date_diff('month', DATE '2023-01-31', DATE '2023-02-27') = 0
    date_diff('month', TIMESTAMP '2024-01-15 12:00', TIMESTAMP '2024-03-15 11:59') = 1
    date_diff('year', DATE '2020-02-29', DATE '2024-02-28') = 3
    date_diff('quarter', DATE '2024-10-01', DATE '2024-01-01') = -3
    date_diff('minute', TIMESTAMP '2024-01-01', TIMESTAMP '2024-01-01 00:02:59') = 2
    date_add('month', 1, DATE '2024-01-31') = DATE '2024-02-29'
    date_add('year', -1, DATE '2024-02-29') = DATE '2023-02-28'
    date_add('quarter', 1, TIMESTAMP '2024-11-30 10:00') = TIMESTAMP '2025-02-28 10:00'
    date_add('hour', 25, TIMESTAMP '2024-01-01') = TIMESTAMP '2024-01-02 01:00'
    date_add('day', 1, DATE '2024-02-28') = DATE '2024-02-29'
    date_add('year', 1000000, DATE '2024-02-28') IS NULL
    from_unixtime(1.5) = TIMESTAMP '1970-01-01 00:00:01.5+00'
    from_unixtime(-1) = TIMESTAMP '1969-12-31 23:59:59+00'
    DATE '2024-01-01' + 90 MINUTES = TIMESTAMP '2024-01-01 01:30'
    DATE '2024-01-01' - DATE '2023-12-31' = 1
"""

DURATIONS = """
    INTERVAL '1 02:03:04.5' DAY TO SECOND = 26 HOURS + 3 MINUTES + 4.5 SECONDS
    INTERVAL '-1:30' HOUR TO MINUTE = INTERVAL '-90' MINUTE
    INTERVAL '2 5' DAY TO HOUR = 53 HOURS
    INTERVAL '3:04' MINUTE TO SECOND = 184 SECONDS
    INTERVAL '1 day 2 hours' = 26 HOURS
    INTERVAL '1' HOUR / 4 = 15 MINUTES
    3 * INTERVAL '20' MINUTE = 1 HOUR
"""

ZONES = """
    TIMESTAMP '2024-07-01 10:00+00' AT TIME ZONE 'Europe/Berlin' = TIMESTAMP '2024-07-01 12:00'
    TIMESTAMP '2024-01-01 10:00+00' AT TIME ZONE 'Europe/Berlin' = TIMESTAMP '2024-01-01 11:00'
    TIMESTAMP '2024-07-01 12:00' AT TIME ZONE 'Europe/Berlin' = TIMESTAMP '2024-07-01 10:00+00'
    TIMESTAMP '2024-10-27 02:30' AT TIME ZONE 'Europe/Berlin' = TIMESTAMP '2024-10-27 00:30+00'
    TIMESTAMP '2024-03-31 02:30' AT TIME ZONE 'Europe/Berlin' = TIMESTAMP '2024-03-31 01:30+00'
    DATE '2024-07-01' AT TIME ZONE 'America/Chicago' = TIMESTAMP '2024-07-01 05:00+00'
    (TIMESTAMP '2040-07-01 12:00' AT TIME ZONE 'Europe/Berlin') IS NULL
    hour(TIMESTAMP '2024-07-01 10:00+00' AT TIME ZONE 'Asia/Kathmandu') = 15
"""

CASTS = """
    CAST(' 12 ' AS INTEGER) = 12
    CAST('12.5' AS INTEGER) IS NULL
    CAST('9223372036854775808' AS INTEGER) IS NULL
    CAST('-9223372036854775808' AS INTEGER) = -9223372036854775808
    CAST('1e3' AS DOUBLE) = 1000.0
    CAST('1e999' AS DOUBLE) IS NULL
    CAST('-inf' AS DOUBLE) < -1e308
    CAST('T' AS BOOLEAN) AND NOT CAST('0' AS BOOLEAN)
    CAST('yes' AS BOOLEAN) IS NULL
    CAST(2 AS BOOLEAN) AND NOT CAST(0 AS BOOLEAN)
    CAST(TRUE AS DOUBLE) = 1.0
    CAST(2.5 AS INTEGER) = 3
    CAST(1.0 AS STRING) = '1' AND CAST(0.1 AS STRING) = '0.1'
    CAST(1e15 AS STRING) = '1e+15' AND CAST(123456789012345.0 AS STRING) = '123456789012345'
    CAST(0.00001 AS STRING) = '1e-05' AND CAST(-0.0001 AS STRING) = '-0.0001'
    CAST(DATE '2024-02-29' AS STRING) = '2024-02-29'
    CAST(TIMESTAMP '2024-02-29 01:02:03.450' AS STRING) = '2024-02-29 01:02:03.45'
    CAST(TIMESTAMP '2024-02-29 01:02:03+01' AS STRING) = '2024-02-29 00:02:03+00'
    CAST('2024-02-29' AS DATE) = DATE '2024-02-29'
    CAST('2024-02-29 10:00+02' AS TIMESTAMP WITH TIME ZONE) = TIMESTAMP '2024-02-29 08:00+00'
    TRY_CAST('2024-02-30' AS DATE) IS NULL
    TRY_CAST('7' AS INTEGER) = 7
    CAST(TIMESTAMP '1969-12-31 23:00' AS DATE) = DATE '1969-12-31'
    CAST(TIMESTAMP '2024-02-29 01:00+02' AS DATE) = DATE '2024-02-28'
"""

STATEMENTS = [
    line.strip()
    for block in (NUMBERS, DISTANCES, TEXTS, TRUTHS, PARTS, UNITS, DURATIONS, ZONES, CASTS)
    for line in block.split("\n")
    if line.strip()
]


@pytest.mark.parametrize("statement", STATEMENTS)
def test_statement_is_true(statement) -> None:
    assert bind(statement) == Literal(True, T.BOOLEAN)


@pytest.mark.parametrize(
    ("text", "op", "result"),
    [
        ("hour(ts)", "time_part", T.INTEGER),
        ("at AT TIME ZONE 'Europe/Berlin'", "local_time", T.TIMESTAMP),
        ("ts AT TIME ZONE 'Europe/Berlin'", "instant", T.TIMESTAMP_UTC),
        ("date_trunc('day', at)", "time_floor", T.TIMESTAMP_UTC),
        ("date_trunc('month', day)", "cast", T.DATE),
        ("date_diff('month', ts, day)", "months_between", T.INTEGER),
        ("CAST(s AS TIMESTAMP)", "cast", T.TIMESTAMP),
        ("if(i = 1, s, NULL)", "case", T.STRING),
        ("s || s", "concat", T.STRING),
        ("s ILIKE 'a%'", "like", T.BOOLEAN),
        ("(i = 1) IS TRUE", "coalesce", T.BOOLEAN),
        ("i IS DISTINCT FROM 1", "is_distinct", T.BOOLEAN),
        ("i IS DISTINCT FROM NULL", "not", T.BOOLEAN),
    ],
)
def test_functions_of_attributes_are_bound_to_operators(text, op, result) -> None:
    bound = bind(text)
    assert isinstance(bound, Call)
    assert (bound.op, bound.type) == (op, result)


def test_pi_is_the_double_nearest_to_it() -> None:
    assert bind("pi()") == Literal(math.pi, T.DOUBLE)


def test_words_of_functions_stay_names_of_columns() -> None:
    for name in ("extract", "trim", "position", "left", "if", "both", "at", "unknown"):
        node = parse_expression(Cursor(name))
        assert to_sql(node) == name


def test_columns_named_like_a_side_of_trim_can_be_trimmed() -> None:
    assert to_sql(parse_expression(Cursor("trim(both)"))) == "trim(both)"
    assert to_sql(parse_expression(Cursor("trim(leading, 'x')"))) == "trim(leading, 'x')"


T = DataType
WHOLE = Attribute("INTEGER_0", T.INTEGER)


@settings(deadline=None, max_examples=200)
@given(
    data=st.data(),
    row=ROWS,
    of=st.sampled_from(list(NAMES)),
    known=st.sampled_from([[], ["_0"], ["_0", "_1"]]),
)
def test_folded_expression_has_the_value_of_the_original(data, row, of, known):
    expression = data.draw(expressions(of))
    constants = {name: row[name] for name in row if name[-2:] in known}
    simple = folded(expression, constants)
    assert simple.type is expression.type
    assert isinstance(simple, Literal) or len(constants) < len(row)
    assert bits(naively(simple, row)) == bits(naively(expression, row))


@given(
    st.sampled_from(sorted(fold.NEGATED)),
    DOUBLES,
    st.sampled_from([2**53 - 1, 2**53, 2**53 + 1, -(2**53) - 1, 0, 1, 2]) | INTEGERS,
)
@example("<", 2.0**53 - 1, 2**53)
@example("=", 2.5, 2)
def test_comparison_through_a_cast_keeps_its_value(op, constant, value):
    cast = Call("cast", (WHOLE,), T.DOUBLE)
    literal = Literal(constant, T.DOUBLE)
    expected = evaluate(Call(op, (cast, literal), T.BOOLEAN), lambda _: value)
    assert evaluate(fold.comparison(op, cast, literal), lambda _: value) is expected
