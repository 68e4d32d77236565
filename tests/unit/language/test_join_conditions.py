"""What the conditions of a join say of each side, and which sides are read from a stream itself."""

from __future__ import annotations

import pytest

from replay.language.bound import (
    Attribute,
    DataType,
    Expression,
    JoinKind,
    JoinRelation,
    JoinWindow,
    Literal,
    StreamRelation,
    SubqueryRelation,
    attributes,
)
from replay.language.join_conditions import JoinConditions, UnfoldedJoin, split_conditions, unfold
from tests.join_cases import call, column, join_of
from tests.unit.language.catalogs import bound_select

WINDOWS = JoinWindow(5), JoinWindow(5)
ONE = Literal(1, DataType.INTEGER)
HALF = Literal(0.5, DataType.DOUBLE)
LEFT_X, RIGHT_X = call(">", column("l.x"), HALF), call("<", column("r.x"), HALF)
ACROSS = call("<", column("l.x"), column("r.x"))


def own(op: str, name: str, literal: Literal) -> Expression:
    return call(op, Attribute(name, literal.type), literal)


def split(
    kind: JoinKind, on: Expression | None, where: Expression | None, *equal: str
) -> JoinConditions:
    is_asof = kind in (JoinKind.ASOF, JoinKind.ASOF_LEFT)
    windows = (None, None) if is_asof else WINDOWS
    return split_conditions(join_of(kind, equal=equal, condition=on, windows=windows), where)


X_ABOVE, X_BELOW = own(">", "x", HALF), own("<", "x", HALF)
K_IS_ONE = own("=", "k", ONE)


def test_a_join_takes_terms_of_on_and_where_alike() -> None:
    found = split(JoinKind.INNER, call("and", LEFT_X, ACROSS), call("and", RIGHT_X, ACROSS))
    assert found == JoinConditions(X_ABOVE, None, X_BELOW, ACROSS)


def test_of_a_left_join_on_decides_over_partners_and_where_over_rows() -> None:
    found = split(JoinKind.LEFT, LEFT_X, call("<", column("l.k"), ONE))
    assert found == JoinConditions(own("<", "k", ONE), X_ABOVE, None, None)


@pytest.mark.parametrize("kind", [JoinKind.LEFT, JoinKind.ASOF, JoinKind.ASOF_LEFT])
def test_where_does_not_choose_among_what_may_be_a_partner(kind: JoinKind) -> None:
    # The latest row of the right stays the latest, whatever WHERE then says of it.
    assert split(kind, None, RIGHT_X).right_partners is None


@pytest.mark.parametrize("kind", JoinKind)
def test_equality_hands_what_is_asked_of_the_left_on_to_the_right(kind: JoinKind) -> None:
    found = split(kind, None, call("=", column("l.k"), ONE), "k")
    assert (found.left_rows, found.right_partners) == (K_IS_ONE, K_IS_ONE)


def test_equality_hands_conditions_on_to_the_left_where_no_row_comes_alone() -> None:
    asked = call("=", column("r.k"), ONE)
    assert split(JoinKind.INNER, None, asked, "k").left_rows == K_IS_ONE
    assert split(JoinKind.ASOF, None, asked, "k").left_rows == K_IS_ONE
    for kind in (JoinKind.LEFT, JoinKind.ASOF_LEFT):
        assert split(kind, None, asked, "k") == JoinConditions(None, None, None, None)


def test_what_tells_minus_zero_from_zero_is_not_handed_on() -> None:
    text = call("like", call("cast", column("l.x")), Literal("-%", DataType.STRING))
    found = split(JoinKind.INNER, None, text, "x")
    assert found.left_rows is not None
    assert found.right_partners is None


SIDES = (
    "FROM (SELECT * FROM ticks WHERE x > 1) AS l "
    "{} (SELECT t, k AS b FROM ticks WHERE x > 2) AS r {}"
)


def unfolded(sql: str) -> UnfoldedJoin:
    source = bound_select(sql).source
    assert isinstance(source, JoinRelation)
    return unfold(source)


@pytest.mark.parametrize(
    ("join", "is_left_a_stream", "is_right_a_stream"),
    [
        (("JOIN", "WITHIN 5"), True, True),
        (("LEFT JOIN", "WITHIN 5 ON l.k = r.b"), True, True),
        (("ASOF JOIN", "ON l.k = r.b AND l.t >= r.t"), True, True),
        (("JOIN", "WITHIN 5 SLIDE 2"), False, False),
        (("JOIN", "WITHIN 4 ROWS"), False, False),
        (("JOIN", "WITHIN (4 ROWS, 5)"), False, True),
        (("JOIN", "WITHIN (5, 4 ROWS)"), True, False),
    ],
)
def test_a_side_is_a_stream_unless_windows_over_it_count_or_begin_with_its_own_rows(
    join: tuple[str, str], is_left_a_stream: bool, is_right_a_stream: bool
) -> None:
    found = unfolded(f"SELECT l.t AS t {SIDES.format(*join)}")
    assert isinstance(found.join.left, StreamRelation) == is_left_a_stream
    assert isinstance(found.join.right, StreamRelation) == is_right_a_stream
    assert (found.left_condition is not None) == is_left_a_stream
    assert (found.right_condition is not None) == is_right_a_stream


def test_columns_and_conditions_are_named_as_the_stream_names_them() -> None:
    found = unfolded(
        "SELECT l.t AS t FROM ticks AS l "
        "JOIN (SELECT u AS v, b AS c FROM (SELECT t AS u, k AS b, x AS y FROM ticks WHERE x > 2) "
        "WHERE y < 9) AS r WITHIN 5 ON l.k = r.c"
    )
    assert found.join.equal == (("k", "k"),)
    assert found.join.right_names == ("t", "k")
    assert found.join.right_time == "t"
    assert {part.name for part in attributes(found.right_condition)} == {"x"}
    assert found.left_condition is None


@pytest.mark.parametrize(
    "inner",
    [
        "SELECT t, k FROM ticks ORDER BY x",
        "SELECT t, k FROM ticks LIMIT 3",
        "SELECT DISTINCT t, k FROM ticks ORDER BY t",
        "SELECT t, x + 1 AS k FROM ticks",
    ],
)
def test_a_side_that_does_more_stays_a_subquery(inner: str) -> None:
    sql = f"SELECT l.t AS t FROM ticks AS l ASOF JOIN ({inner}) AS r ON l.t >= r.t"
    assert isinstance(unfolded(sql).join.right, SubqueryRelation)
