"""Joins: names of columns, times, windows, and what ON and WHERE say of each side."""

from __future__ import annotations

import pytest

from replay.errors import BindError, QueryError
from replay.language.bound import (
    Attribute,
    Call,
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
from tests.join_cases import call, column
from tests.join_cases import join_of as join_case
from tests.unit.language.catalogs import bound_select

T = DataType
MINUTE, HOUR = 60_000_000, 3_600_000_000


def join_of(text: str) -> JoinRelation:
    relation = bound_select(text).source
    assert isinstance(relation, JoinRelation)
    return relation


def test_columns_of_both_sides_are_told_apart():
    join = join_of("SELECT * FROM ticks a JOIN ticks WITHIN 5 ON a.k = ticks.k")
    assert join.columns == (
        ("a.t", T.INTEGER),
        ("a.k", T.STRING),
        ("a.x", T.DOUBLE),
        ("ticks.t", T.INTEGER),
        ("ticks.k", T.STRING),
        ("ticks.x", T.DOUBLE),
        ("join_time", T.INTEGER),
    )
    assert join.left_names == join.right_names == ("t", "k", "x")
    assert (join.time, join.left_time, join.right_time) == ("join_time", "t", "t")


def test_column_of_one_side_keeps_its_name():
    join = join_of("SELECT * FROM ticks a JOIN (SELECT t, x AS y FROM ticks) b WITHIN 5")
    names = [name for name, _ in join.columns]
    assert names == ["a.t", "k", "x", "b.t", "y", "join_time"]


def test_selected_column_has_the_name_it_has_on_its_side():
    bound = bound_select(
        "SELECT a.x, y, join_time FROM ticks a JOIN (SELECT t, x AS y FROM ticks) b WITHIN 5"
    )
    assert bound.columns == (("x", T.DOUBLE), ("y", T.DOUBLE), ("join_time", T.INTEGER))
    assert bound.time == "join_time"


def test_column_called_like_the_time_of_pairs_is_named_by_its_side():
    side = "(SELECT t, x AS join_time FROM ticks) b"
    bound = bound_select(f"SELECT join_time, b.join_time AS own FROM ticks a JOIN {side} WITHIN 5")
    assert bound.columns == (("join_time", T.INTEGER), ("own", T.DOUBLE))
    assert isinstance(bound.source, JoinRelation)
    assert [name for name, _ in bound.source.columns][-2:] == ["b.join_time", "join_time"]


def test_star_gives_columns_the_names_of_their_sides_unless_two_clash():
    def names(select: str) -> list[str]:
        bound = bound_select(f"SELECT {select} FROM ticks a JOIN ticks b WITHIN 5")
        return [name for name, _ in bound.columns]

    assert names("b.*") == ["t", "k", "x"]
    assert names("a.*, b.x AS y") == ["t", "k", "x", "y"]
    assert names("a.*, b.*") == ["a.t", "a.k", "a.x", "b.t", "b.k", "b.x"]
    assert names("a.x, b.*") == ["x", "t", "k", "b.x"]


def test_on_is_taken_apart_into_equal_columns_and_the_rest():
    join = join_of(
        "SELECT a.x FROM s a JOIN r b WITHIN 5 MINUTES "
        "ON b.k = a.k AND (a.n = b.n AND a.x < b.x) AND a.n > 3 AND a.n = b.x AND a.n = a.x"
    )
    assert join.equal == (("k", "k"), ("n", "n"))
    less, more, cast, own = getattr(join.condition, "args", ())
    assert less == Call("<", (Attribute("a.x", T.DOUBLE), Attribute("b.x", T.DOUBLE)), T.BOOLEAN)
    assert more == Call(">", (Attribute("a.n", T.INTEGER), Literal(3, T.INTEGER)), T.BOOLEAN)
    # Columns of two types are equal after a cast, which no look-up by value does.
    widened = Call("cast", (Attribute("a.n", T.INTEGER),), T.DOUBLE)
    assert cast == Call("=", (widened, Attribute("b.x", T.DOUBLE)), T.BOOLEAN)
    assert own.args[1] == Attribute("a.x", T.DOUBLE)


def test_join_without_on_takes_every_pair_and_or_is_one_condition():
    join = join_of("SELECT a.x FROM s a JOIN r b WITHIN 5 MINUTES")
    assert (join.equal, join.condition) == ((), None)
    join = join_of("SELECT a.x FROM s a JOIN r b WITHIN 5 MINUTES ON a.k = b.k OR a.n = b.n")
    assert (join.equal, getattr(join.condition, "op", "")) == ((), "or")


@pytest.mark.parametrize(
    ("within", "left", "right"),
    [
        ("5 MINUTES", JoinWindow(5 * MINUTE), JoinWindow(5 * MINUTE)),
        ("(5 MINUTES)", JoinWindow(5 * MINUTE), JoinWindow(5 * MINUTE)),
        ("1 HOUR SLIDE 5 MINUTES", JoinWindow(HOUR, 5 * MINUTE), JoinWindow(HOUR, 5 * MINUTE)),
        ("10 ROWS", JoinWindow(10, in_rows=True), JoinWindow(10, in_rows=True)),
        ("1 ROW", JoinWindow(1, in_rows=True), JoinWindow(1, in_rows=True)),
        ("(10 ROWS SLIDE 5, 1 HOUR)", JoinWindow(10, 5, in_rows=True), JoinWindow(HOUR)),
        ("(1 HOUR, 10 ROWS SLIDE 2 ROWS)", JoinWindow(HOUR), JoinWindow(10, 2, in_rows=True)),
    ],
)
@pytest.mark.parametrize("form", ["WITHIN {} ON a.k = b.k", "ON a.k = b.k WITHIN {}"])
def test_within_gives_the_window_over_each_side(within, left, right, form):
    join = join_of(f"SELECT a.x FROM s a LEFT JOIN r b {form.format(within)}")
    assert (join.left_window, join.right_window) == (left, right)
    assert join.kind is JoinKind.LEFT
    assert join.equal == (("k", "k"),)


@pytest.mark.parametrize(
    ("order", "strict", "forward"),
    [
        ("a.ts >= b.ts", False, False),
        ("b.ts <= a.ts", False, False),
        ("a.ts > b.ts", True, False),
        ("b.ts < a.ts", True, False),
        ("a.ts <= b.ts", False, True),
        ("b.ts > a.ts", True, True),
    ],
)
@pytest.mark.parametrize("within", ["", "WITHIN 1 HOUR"])
def test_asof_join_takes_the_right_event_on_one_side_of_the_left_one(
    order, strict, forward, within
):
    bound = bound_select(
        f"SELECT a.ts AS at, b.x FROM s a ASOF LEFT JOIN r b ON a.k = b.k AND {order} {within}"
    )
    join = bound.source
    assert isinstance(join, JoinRelation)
    assert (join.kind, join.asof_strict) == (JoinKind.ASOF_LEFT, strict)
    assert join.asof_forward is forward
    assert (join.equal, join.condition) == ((("k", "k"),), None)
    assert (join.left_window, join.right_window) == (None, JoinWindow(HOUR) if within else None)
    assert "join_time" not in dict(join.columns)
    assert (join.time, bound.time) == ("a.ts", "at")


def test_using_names_equal_columns_and_of_asof_the_time_last():
    join = join_of("SELECT x FROM s a ASOF LEFT JOIN (SELECT ts, k FROM r) b USING (k, ts)")
    assert (join.equal, join.null_safe) == ((("k", "k"),), ())
    assert (join.time, join.asof_strict, join.asof_forward) == ("ts", False, False)
    assert [name for name, _ in join.columns] == ["ts", "k", "n", "x", "tags", "b.ts", "b.k"]
    join = join_of("SELECT k FROM s a JOIN r b WITHIN 1 HOUR USING (k)")
    assert join.equal == (("k", "k"),)


def test_missing_values_are_equal_where_a_join_says_so():
    on = "a.k IS NOT DISTINCT FROM b.k AND b.n = a.n"
    join = join_of(f"SELECT a.x FROM s a JOIN r b WITHIN 1 HOUR ON {on}")
    assert (join.equal, join.null_safe) == ((("k", "k"), ("n", "n")), (True, False))
    join = join_of(f"SELECT a.x FROM s a JOIN r b WITHIN 1 HOUR ON {on} AND a.k = b.k")
    assert join.null_safe == ()


@pytest.mark.parametrize(
    ("using", "said"),
    [
        ("USING (k, k, ts)", "USING names 'k' twice"),
        ("USING (nothing, ts)", "no column 'nothing'"),
        ("USING (k, ts) ON a.k = b.k", "ON or USING, not both"),
        ("USING (ts, k)", r"times of both sides last, as in USING \(k, ts\)"),
    ],
)
def test_what_using_cannot_name_is_told(using, said):
    with pytest.raises(QueryError, match=said):
        bound_select(f"SELECT a.x FROM s a ASOF JOIN r b {using}")


def test_sides_of_a_join_can_be_joined_again():
    join = join_of(
        "SELECT a.x, c.x AS z FROM s a JOIN r b WITHIN 1 HOUR ON a.k = b.k "
        "LEFT JOIN s c WITHIN 3 ROWS ON c.k = b.k AND c.x > a.x"
    )
    assert join.kind is JoinKind.LEFT
    assert isinstance(join.left, JoinRelation)
    names = ("ts", "k", "n", "x", "tags")
    qualified = tuple(f"{side}.{name}" for side in "ab" for name in names)
    assert join.left_names == qualified
    assert [name for name, _ in join.columns[:10]] == list(qualified)
    assert join.equal == (("b.k", "k"),)
    assert (join.left_time, join.right_time) == ("join_time", "ts")
    # The time of the pairs inside gives way to that of the whole.
    assert [name for name, _ in join.columns].count("join_time") == 1


def test_asof_join_after_a_join_orders_by_the_time_of_its_pairs():
    join = join_of("SELECT a.x FROM s a JOIN r b WITHIN 1 HOUR ASOF JOIN s c ON join_time >= c.ts")
    assert (join.time, join.left_time) == ("join_time", "join_time")
    assert "join_time" in join.left_names


def test_table_in_memory_is_joined_by_its_one_timestamp_or_its_order():
    assert join_of("SELECT a.x FROM memory a JOIN s b WITHIN 1 HOUR").left_time == "ts"
    ordered = "(SELECT * FROM whole_memory ORDER BY t)"
    assert join_of(f"SELECT a.x FROM {ordered} a JOIN ticks b WITHIN 5").left_time == "t"
    join = join_of("SELECT a.x FROM whole_memory a ASOF JOIN whole_memory b ON a.t >= b.t")
    assert (join.left_time, join.right_time) == ("t", "t")
    with pytest.raises(BindError, match="a table in memory does not say which column that is"):
        join_of("SELECT a.x FROM whole_memory a JOIN ticks b WITHIN 5")


def test_windows_and_matches_over_joins_go_by_the_time_of_pairs():
    text = (
        "SELECT window_end, COUNT(*) FROM TABLE(TUMBLE(TABLE (SELECT a.x, join_time FROM ticks a "
        "JOIN ticks b WITHIN 5 ON a.k = b.k), DESCRIPTOR(join_time), 60)) GROUP BY window_end"
    )
    assert bound_select(text).source.time == "join_time"


BOTH_WINDOWS = JoinWindow(5), JoinWindow(5)
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
    windows = (None, None) if is_asof else BOTH_WINDOWS
    return split_conditions(join_case(kind, equal=equal, condition=on, windows=windows), where)


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
