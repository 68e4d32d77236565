"""Sides of a join that only filter and rename a stream are read from the stream itself."""

from __future__ import annotations

import pytest

from replay.language.bound import JoinRelation, StreamRelation, SubqueryRelation, attributes
from replay.language.join_conditions import UnfoldedJoin, unfold
from tests.unit.language.catalogs import bound_select

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
