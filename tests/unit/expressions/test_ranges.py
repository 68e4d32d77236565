"""Implied ranges: every event that satisfies a condition lies in every range it implies.

Method: hand-made cases for each kind of atom, and the law against a naive evaluator.
"""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexing.key_range import KeyRange, KeyRanges
from replay.expressions.ranges import implied_ranges
from replay.language.bound import Attribute, Call, DataType, Literal, Symbol
from replay.patterns.symbol_ranges import symbol_ranges
from tests.oracles.intervals import evaluate, matches
from tests.unit.planning.streams import (
    attribute,
    both,
    compare,
    conditions,
    either,
    is_in,
    last_of,
    negated,
    patterns,
    query_of,
    rows,
    seq,
    star,
)

T = DataType
DAY = 86_400_000_000


def point(value: object) -> KeyRanges:
    return KeyRanges((KeyRange(value, value),))


def at_least(value: object) -> KeyRanges:
    return KeyRanges((KeyRange(value, None),))


def above(value: object) -> KeyRanges:
    return KeyRanges((KeyRange(value, None, False),))


def at_most(value: object) -> KeyRanges:
    return KeyRanges((KeyRange(None, value),))


def below(value: object) -> KeyRanges:
    return KeyRanges((KeyRange(None, value, True, False),))


def like(pattern: str, *escape: str) -> Call:
    literals = tuple(Literal(text, T.STRING) for text in (pattern, *escape))
    return Call("like", (attribute("s", T.STRING), *literals), T.BOOLEAN)


def as_double(op: str, value: float) -> Call:
    cast = Call("cast", (attribute("a"),), T.DOUBLE)
    return Call(op, (cast, Literal(value, T.DOUBLE)), T.BOOLEAN)


def as_timestamp(op: str, value: int) -> Call:
    cast = Call("cast", (attribute("d", T.DATE),), T.TIMESTAMP)
    return Call(op, (cast, Literal(value, T.TIMESTAMP)), T.BOOLEAN)


FLAG = attribute("f", T.BOOLEAN)


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        pytest.param(None, {}, id="no-condition"),
        pytest.param(compare(">", "a", 5), {"a": above(5)}, id="greater"),
        pytest.param(
            Call("<", (Literal(5, T.INTEGER), attribute("a")), T.BOOLEAN),
            {"a": above(5)},
            id="literal-on-the-left",
        ),
        pytest.param(
            compare("<>", "a", 5),
            {"a": KeyRanges((KeyRange(None, 5, True, False), KeyRange(5, None, False)))},
            id="not-equal-gives-two-ranges",
        ),
        pytest.param(negated(compare(">", "a", 5)), {"a": at_most(5)}, id="not-greater"),
        pytest.param(
            both(compare(">=", "a", 2), compare("<=", "a", 4), compare("=", "b", 1)),
            {"a": KeyRanges((KeyRange(2, 4),)), "b": point(1)},
            id="and-intersects",
        ),
        pytest.param(
            either(both(compare("=", "a", 1), compare("=", "b", 2)), compare("=", "a", 7)),
            {"a": KeyRanges((KeyRange(1, 1), KeyRange(7, 7)))},
            id="or-keeps-what-all-branches-restrict",
        ),
        pytest.param(either(compare("=", "a", 1), compare("=", "b", 2)), {}, id="or-of-different"),
        pytest.param(
            negated(either(compare("=", "a", 1), compare(">", "b", 2))),
            {
                "a": KeyRanges((KeyRange(None, 1, True, False), KeyRange(1, None, False))),
                "b": at_most(2),
            },
            id="not-or-is-and",
        ),
        pytest.param(
            both(compare(">", "a", 5), compare("<", "a", 3)),
            {"a": KeyRanges(())},
            id="contradiction-is-empty",
        ),
        pytest.param(
            either(both(compare(">", "a", 5), compare("<", "a", 3)), compare("=", "a", 4)),
            {"a": point(4)},
            id="impossible-branch-adds-nothing",
        ),
        pytest.param(
            either(both(compare(">", "a", 5), compare("<", "a", 3)), compare("=", "b", 4)),
            {"b": point(4)},
            id="impossible-branch-takes-nothing",
        ),
        pytest.param(
            Call("=", (attribute("a"), Literal(None, T.INTEGER)), T.BOOLEAN),
            {"a": KeyRanges(())},
            id="equal-null-never-holds",
        ),
        pytest.param(
            Call(">", (attribute("x", T.DOUBLE), Literal(math.nan, T.DOUBLE)), T.BOOLEAN),
            {"x": KeyRanges(())},
            id="above-nan-never-holds",
        ),
        pytest.param(Literal(False, T.BOOLEAN), None, id="false"),
        pytest.param(both(compare("=", "a", 1), Literal(False, T.BOOLEAN)), None, id="and-false"),
        pytest.param(
            both(compare("=", "a", 1), Literal(True, T.BOOLEAN)), {"a": point(1)}, id="and-true"
        ),
        pytest.param(FLAG, {"f": point(1)}, id="boolean"),
        pytest.param(negated(FLAG), {"f": point(0)}, id="not-boolean"),
        pytest.param(
            Call("=", (FLAG, Literal(True, T.BOOLEAN)), T.BOOLEAN), {"f": point(1)}, id="is-true"
        ),
        pytest.param(
            Call("<>", (FLAG, Literal(True, T.BOOLEAN)), T.BOOLEAN),
            {"f": point(0)},
            id="boolean-differs",
        ),
        pytest.param(Call("is_null", (attribute("a"),), T.BOOLEAN), {}, id="is-null-gives-none"),
        pytest.param(
            Call("in", (attribute("a"), Literal(3, T.INTEGER), Literal(1, T.INTEGER)), T.BOOLEAN),
            {"a": KeyRanges((KeyRange(1, 1), KeyRange(3, 3)))},
            id="in",
        ),
        pytest.param(
            negated(Call("in", (attribute("a"), Literal(3, T.INTEGER)), T.BOOLEAN)),
            {"a": KeyRanges((KeyRange(None, 3, True, False), KeyRange(3, None, False)))},
            id="not-in",
        ),
        pytest.param(
            like("ab%"), {"s": KeyRanges((KeyRange("ab", "ac", True, False),))}, id="like-prefix"
        ),
        pytest.param(like("ab"), {"s": point("ab")}, id="like-without-wildcard"),
        pytest.param(like("%b"), {}, id="like-without-prefix"),
        pytest.param(
            like("a_c"), {"s": KeyRanges((KeyRange("a", "b", True, False),))}, id="like-underscore"
        ),
        pytest.param(like("a!%c", "!"), {"s": point("a%c")}, id="like-escaped"),
        pytest.param(
            like("\ud7ff%"),
            {"s": KeyRanges((KeyRange("\ud7ff", "\ue000", True, False),))},
            id="like-prefix-before-surrogates",
        ),
        pytest.param(like("\U0010ffff%"), {"s": at_least("\U0010ffff")}, id="like-last-character"),
        pytest.param(negated(like("ab%")), {}, id="not-like-prefix"),
        pytest.param(as_double(">", 2.5), {"a": at_least(3)}, id="integer-above-a-half"),
        pytest.param(as_double(">=", 3.0), {"a": at_least(3)}, id="integer-at-least"),
        pytest.param(as_double("<", 3.0), {"a": at_most(2)}, id="integer-below"),
        pytest.param(as_double("<=", 2.5), {"a": at_most(2)}, id="integer-at-most-a-half"),
        pytest.param(as_double("=", 2.0), {"a": point(2)}, id="integer-equals-double"),
        pytest.param(as_double("=", 2.5), {"a": KeyRanges(())}, id="integer-never-a-half"),
        pytest.param(as_double("<>", 2.5), {}, id="integer-always-differs-from-a-half"),
        pytest.param(as_double("<", math.inf), {}, id="integer-below-infinity"),
        pytest.param(as_double(">=", math.inf), {"a": KeyRanges(())}, id="integer-infinite"),
        pytest.param(as_double(">", -math.inf), {}, id="integer-above-minus-infinity"),
        pytest.param(as_double("=", -math.inf), {"a": KeyRanges(())}, id="integer-minus-infinite"),
        pytest.param(as_double(">", 1e300), {"a": KeyRanges(())}, id="integer-above-all"),
        pytest.param(
            as_double(">=", 2.0**53 + 2), {"a": at_least(2**53 + 1)}, id="widened-beyond-2**53"
        ),
        pytest.param(as_timestamp(">", DAY), {"d": at_least(2)}, id="day-after-midnight"),
        pytest.param(as_timestamp(">=", DAY + 1), {"d": at_least(2)}, id="day-from-past-midnight"),
        pytest.param(as_timestamp("<", DAY + 1), {"d": at_most(1)}, id="day-before"),
        pytest.param(as_timestamp("<=", -1), {"d": at_most(-1)}, id="day-before-the-epoch"),
        pytest.param(as_timestamp("=", DAY + 1), {"d": KeyRanges(())}, id="no-day-at-one-past"),
        pytest.param(as_timestamp("=", 2 * DAY), {"d": point(2)}, id="day-at-midnight"),
        pytest.param(
            Call(
                ">", (attribute("a"), Call("neg", (Literal(5, T.INTEGER),), T.INTEGER)), T.BOOLEAN
            ),
            {"a": above(-5)},
            id="negative-constant-is-folded",
        ),
        pytest.param(
            Call(">", (Attribute("a", T.INTEGER, offset=-1), Literal(5, T.INTEGER)), T.BOOLEAN),
            {},
            id="previous-row-gives-none",
        ),
        pytest.param(
            Call(">", (last_of(0, "a"), Literal(5, T.INTEGER)), T.BOOLEAN),
            {},
            id="other-symbol-gives-none",
        ),
        pytest.param(
            Call(
                "=", (Call("sign", (attribute("a"),), T.INTEGER), Literal(1, T.INTEGER)), T.BOOLEAN
            ),
            {},
            id="function-gives-none",
        ),
        pytest.param(
            Call(
                ">", (Call("abs", (attribute("a"),), T.INTEGER), Literal(5, T.INTEGER)), T.BOOLEAN
            ),
            {"a": KeyRanges((KeyRange(None, -5, True, False), KeyRange(5, None, False)))},
            id="magnitude-above-gives-two-ranges",
        ),
        pytest.param(
            Call(
                "<=", (Call("abs", (attribute("a"),), T.INTEGER), Literal(5, T.INTEGER)), T.BOOLEAN
            ),
            {"a": KeyRanges((KeyRange(-5, 5),))},
            id="magnitude-at-most-gives-one",
        ),
    ],
)
def test_implied_ranges(condition, expected):
    assert implied_ranges(condition) == expected


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


def test_equality_with_a_pinned_symbol_carries_its_range_over_to_a_fixpoint():
    # C.a = B.a, B.a = A.a, A.a = 7
    query = query_of(
        seq(Symbol(0), Symbol(1), Symbol(2)),
        [
            compare("=", "a", 7),
            compare("=", "a", last_of(0, "a")),
            compare("=", "a", last_of(1, "a")),
        ],
    )
    assert symbol_ranges(query) == ({"a": point(7)},) * 3


def test_order_against_a_pinned_symbol_gives_a_bound():
    query = query_of(
        seq(Symbol(0), Symbol(1)),
        [
            both(compare(">=", "a", 3), compare("<", "a", 9)),
            compare(">", "b", last_of(0, "a")),
        ],
    )
    assert symbol_ranges(query)[1] == {"b": above(3)}


def test_pinned_atom_under_or_counts_in_its_branch_only():
    query = query_of(
        seq(Symbol(0), Symbol(1)),
        [
            compare("=", "a", 7),
            either(compare("=", "a", last_of(0, "a")), compare("=", "b", 1)),
        ],
    )
    assert symbol_ranges(query)[1] == {}


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(Attribute("a", T.INTEGER, last_of(0, "a").anchor, -1), id="under-prev"),
        pytest.param(last_of(None, "a"), id="of-any-symbol"),
    ],
)
def test_only_plain_symbols_pin(other):
    query = query_of(seq(Symbol(0), Symbol(1)), [compare("=", "a", 7), compare("=", "a", other)])
    assert symbol_ranges(query)[1] == {}


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
