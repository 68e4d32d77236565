"""Implied ranges: every event that satisfies a condition lies in every range it implies.

Method: hand-made cases for each kind of atom, and the law against a naive evaluator.
"""

from __future__ import annotations

import math

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexing.key_range import KeyRanges
from replay.expressions.ranges import implied_ranges
from replay.language import bind, parse_query
from replay.language.bound import Call, DataType, Expression, Literal, Symbol
from replay.patterns.symbol_ranges import symbol_ranges
from tests.oracles.intervals import evaluate, matches
from tests.unit.expressions.bound_conditions import condition_in
from tests.unit.planning.streams import (
    attribute,
    both,
    compare,
    conditions,
    is_in,
    negated,
    patterns,
    query_of,
    rows,
    seq,
    star,
)

T = DataType
DAY = 86_400_000_000


SCHEMA = pa.schema(
    {
        "t": pa.int64(),
        "a": pa.int64(),
        "b": pa.int64(),
        "x": pa.float64(),
        "s": pa.string(),
        "f": pa.bool_(),
        "d": pa.date32(),
    }
)


def like(pattern: str) -> Call:
    return Call("like", (attribute("s", T.STRING), Literal(pattern, T.STRING)), T.BOOLEAN)


def as_double(op: str, value: float) -> Call:
    cast = Call("cast", (attribute("a"),), T.DOUBLE)
    return Call(op, (cast, Literal(value, T.DOUBLE)), T.BOOLEAN)


def as_timestamp(op: str, value: int) -> Call:
    cast = Call("cast", (attribute("d", T.DATE),), T.TIMESTAMP)
    return Call(op, (cast, Literal(value, T.TIMESTAMP)), T.BOOLEAN)


NEVER = "nothing"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("TRUE", {}),
        ("a > 5", {"a": "(5, ∞)"}),
        ("a <> 5", {"a": "(-∞, 5) or (5, ∞)"}),
        ("NOT a > 5", {"a": "(-∞, 5]"}),
        ("a > -5", {"a": "(-5, ∞)"}),
        # AND intersects; OR unites what all of its branches restrict.
        ("a >= 2 AND a <= 4 AND b = 1", {"a": "[2, 4]", "b": "= 1"}),
        ("a = 1 AND b = 2 OR a = 7", {"a": "= 1 or = 7"}),
        ("a = 1 OR b = 2", {}),
        ("NOT (a = 1 OR b > 2)", {"a": "(-∞, 1) or (1, ∞)", "b": "(-∞, 2]"}),
        # A branch that cannot hold neither adds nor takes anything.
        ("a > 5 AND a < 3", {"a": NEVER}),
        ("a > 5 AND a < 3 OR a = 4", {"a": "= 4"}),
        ("a > 5 AND a < 3 OR b = 4", {"b": "= 4"}),
        ("f", {"f": "= 1"}),
        ("NOT f", {"f": "= 0"}),
        ("f = TRUE", {"f": "= 1"}),
        ("f <> TRUE", {"f": "= 0"}),
        ("a IS NULL", {}),
        ("a IN (3, 1)", {"a": "= 1 or = 3"}),
        ("a NOT IN (3)", {"a": "(-∞, 3) or (3, ∞)"}),
        ("s LIKE 'ab%'", {"s": "['ab', 'ac')"}),
        ("s LIKE 'ab'", {"s": "= 'ab'"}),
        ("s LIKE '%b'", {}),
        ("s LIKE 'a_c'", {"s": "['a', 'b')"}),
        ("s LIKE 'a!%c' ESCAPE '!'", {"s": "= 'a%c'"}),
        ("s LIKE '\ud7ff%'", {"s": f"[{chr(0xD7FF)!r}, {chr(0xE000)!r})"}),  # before surrogates
        ("s LIKE '\U0010ffff%'", {"s": f"[{chr(0x10FFFF)!r}, ∞)"}),  # the last character
        ("s NOT LIKE 'ab%'", {}),
        # Nothing is said of other rows and of functions but ABS.
        ("PREV(a) > 5", {}),
        ("A.a > 5", {}),
        ("sign(a) = 1", {}),
        ("abs(a) > 5", {"a": "(-∞, -5) or (5, ∞)"}),
        ("abs(a) <= 5", {"a": "[-5, 5]"}),
    ],
)
def test_implied_ranges(text: str, expected: dict[str, str]) -> None:
    found = implied_ranges(condition_in(SCHEMA, text))
    assert found is not None
    assert {name: str(ranges) for name, ranges in found.items()} == expected


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (Call("<", (Literal(5, T.INTEGER), attribute("a")), T.BOOLEAN), {"a": "(5, ∞)"}),
        (
            Call(
                ">", (attribute("a"), Call("neg", (Literal(5, T.INTEGER),), T.INTEGER)), T.BOOLEAN
            ),
            {"a": "(-5, ∞)"},
        ),
        (Call("=", (attribute("a"), Literal(None, T.INTEGER)), T.BOOLEAN), {"a": NEVER}),
        (
            Call(">", (attribute("x", T.DOUBLE), Literal(math.nan, T.DOUBLE)), T.BOOLEAN),
            {"x": NEVER},
        ),
        (both(compare("=", "a", 1), Literal(True, T.BOOLEAN)), {"a": "= 1"}),
    ],
    ids=["literal on the left", "constant sum", "equal null", "above NaN", "and true"],
)
def test_implied_ranges_of_what_the_binder_would_fold(
    condition: Expression, expected: dict[str, str]
) -> None:
    found = implied_ranges(condition)
    assert found is not None
    assert {name: str(ranges) for name, ranges in found.items()} == expected


@pytest.mark.parametrize(
    ("op", "value", "expected"),
    [
        (">", 2.5, "[3, ∞)"),
        (">=", 3.0, "[3, ∞)"),
        ("<", 3.0, "(-∞, 2]"),
        ("<=", 2.5, "(-∞, 2]"),
        ("=", 2.0, "= 2"),
        ("=", 2.5, NEVER),
        ("<>", 2.5, None),
        ("<", math.inf, None),
        (">=", math.inf, NEVER),
        (">", -math.inf, None),
        ("=", -math.inf, NEVER),
        (">", 1e300, NEVER),
        (">=", 2.0**53 + 2, f"[{2**53 + 1}, ∞)"),  # widened beyond 2**53
    ],
)
def test_ranges_of_an_integer_compared_with_a_double(op, value, expected):
    found = implied_ranges(as_double(op, value))
    assert {name: str(r) for name, r in found.items()} == ({"a": expected} if expected else {})


@pytest.mark.parametrize(
    ("op", "time", "expected"),
    [
        (">", DAY, "[2, ∞)"),
        (">=", DAY + 1, "[2, ∞)"),
        ("<", DAY + 1, "(-∞, 1]"),
        ("<=", -1, "(-∞, -1]"),
        ("=", DAY + 1, NEVER),
        ("=", 2 * DAY, "= 2"),
    ],
)
def test_ranges_of_a_day_compared_with_a_time(op, time, expected):
    found = implied_ranges(as_timestamp(op, time))
    assert {name: str(r) for name, r in found.items()} == {"d": expected}


def test_false_holds_for_no_event() -> None:
    assert implied_ranges(Literal(False, T.BOOLEAN)) is None
    assert implied_ranges(both(compare("=", "a", 1), Literal(False, T.BOOLEAN))) is None


@given(conditions(), st.integers(-2, 5) | st.none(), st.integers(-2, 5) | st.none())
def test_every_event_that_satisfies_a_condition_lies_in_its_ranges(condition, a, b):
    row = {"a": a, "b": b}
    if evaluate(condition, row) is not True:
        return
    ranges = implied_ranges(condition)
    assert ranges is not None
    for name, implied in ranges.items():
        assert is_in(implied, row[name])


EDGES = [0.0, 0.5, 1.0, 2.0**53, 2.0**53 + 2, 2.0**62, 2.0**63, 1e19, math.inf]


@given(
    st.sampled_from(("=", "<>", "<", "<=", ">", ">=")),
    st.sampled_from(EDGES),
    st.sampled_from((-1, 1)),
    st.integers(-2000, 2000),
    st.booleans(),
)
def test_no_integer_is_lost_where_doubles_cannot_tell_neighbours_apart(op, edge, sign, near, truth):
    edge *= sign
    value = (0 if math.isinf(edge) else int(edge)) + near
    value = min(max(value, -(2**63)), 2**63 - 1)
    condition = as_double(op, edge) if truth else negated(as_double(op, edge))
    if evaluate(condition, {"a": value}) is True:
        implied = implied_ranges(condition)
        assert implied is not None
        assert all(is_in(r, value) for r in implied.values())


@given(
    st.sampled_from(("=", "<>", "<", "<=", ">", ">=")),
    st.integers(-2, 2),
    st.integers(-2, 2),
    st.sampled_from((-1, 0, 1)),
)
def test_no_day_is_lost_around_midnight(op, day, other, shift):
    condition = as_timestamp(op, other * DAY + shift)
    if evaluate(condition, {"d": day}) is True:
        assert all(is_in(r, day) for r in (implied_ranges(condition) or {}).values())


TEXT = st.text(alphabet="ab%_\ud7ff\ue000\U0010ffff", max_size=4)


@given(TEXT, TEXT, st.booleans())
def test_every_string_that_is_like_a_pattern_lies_in_its_range(text, pattern, truth):
    condition = like(pattern) if truth else negated(like(pattern))
    if evaluate(condition, {"s": text}) is True:
        assert all(is_in(r, text) for r in (implied_ranges(condition) or {}).values())


@pytest.mark.parametrize(
    ("defines", "expected"),
    [
        # Equality carries over to a fixpoint, order gives a bound.
        ("A AS a = 7, B AS a = A.a, C AS a = B.a", {"a": "= 7"}),
        ("A AS a >= 3 AND a < 9, C AS b > A.a", {"b": "(3, ∞)"}),
        ("A AS a >= 3 AND a < 9, C AS b >= A.a", {"b": "[3, ∞)"}),
        ("A AS a > 3 AND a < 9, C AS b >= A.a", {"b": "(3, ∞)"}),
        ("A AS a >= 3 AND a <= 9, C AS b <= A.a", {"b": "(-∞, 9]"}),
        ("A AS a >= 3 AND a < 9, C AS b <= A.a", {"b": "(-∞, 9)"}),
        # Under OR it counts in its branch only; only plain symbols pin.
        ("A AS a = 7, C AS a = A.a OR b = 1", {}),
        ("A AS a = 7, C AS a = PREV(A.a)", {}),
        ("A AS a = 7, C AS a = LAST(a, 1)", {}),
    ],
)
def test_ranges_of_a_symbol_carry_over_to_those_compared_with_it(
    defines: str, expected: dict[str, str]
) -> None:
    sql = (
        "SELECT * FROM s MATCH_RECOGNIZE (ORDER BY t MEASURES A.t AS t PATTERN (A B C) "
        f"DEFINE {defines})"
    )
    ranges = symbol_ranges(bind(parse_query(sql), SCHEMA, time="t", text=sql))[2]
    assert ranges is not None
    assert {name: str(implied) for name, implied in ranges.items()} == expected


@given(
    patterns(3),
    st.lists(conditions(3), min_size=3, max_size=3),
    rows(n_max=6),
    st.booleans(),
)
def test_mapped_events_lie_in_the_ranges_of_their_symbols(pattern, defines, stream, starred):
    # Kleene and repeated names are where carrying ranges over could go wrong.
    query = query_of(seq(star(Symbol(0)), pattern) if starred else pattern, defines)
    ranges = symbol_ranges(query)
    for word, at in matches(query, stream, length_max=4):
        for symbol, index in zip(word, at, strict=True):
            implied = ranges[symbol]
            assert implied is not None
            assert all(is_in(r, stream[index][name]) for name, r in implied.items())


@pytest.mark.parametrize("op", ["=", "<>", "<", "<=", ">", ">="])
@pytest.mark.parametrize("sign", [-1, 1])
def test_the_largest_double_is_compared_with_integers(op: str, sign: int) -> None:
    largest = sign * math.nextafter(math.inf, 0)
    holds = op in ("<>", "<", "<=") if sign > 0 else op in ("<>", ">", ">=")
    ranges = implied_ranges(as_double(op, largest))
    assert not holds or (
        ranges is not None and not ranges.get("a", KeyRanges.everything()).is_empty()
    )
