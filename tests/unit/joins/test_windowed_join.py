"""The windowed join by hand: borders of windows, ties, missing values, order, what is kept."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from chronicle.errors import SchemaError
from replay.errors import QueryError
from replay.joins.stream_join import KEPT_ROWS_MIN, WindowJoin
from replay.language.bound import Expression, JoinKind, JoinWindow
from replay.language.join_conditions import split_conditions
from tests.join_cases import SCHEMA, Row, call, column, join_of, row, to_table

NARROW = JoinWindow(1)


def join(
    windows: tuple[JoinWindow, JoinWindow],
    *,
    kind: JoinKind = JoinKind.INNER,
    equal: tuple[str, ...] = (),
    condition: Expression | None = None,
) -> WindowJoin:
    made = join_of(kind, equal=equal, condition=condition, windows=windows)
    names = [name for name, _ in made.columns]
    return WindowJoin(made, split_conditions(made), SCHEMA, SCHEMA, names)


def pairs(operator: WindowJoin, left: list[Row], right: list[Row]) -> list[tuple[Any, Any]]:
    """Pairs of the x of both sides, in the order of the answer."""
    operator.push(0, to_table(left))
    operator.push(1, to_table(right))
    return taken(operator, ended=True)


def taken(operator: WindowJoin, *, ended: bool = False) -> list[tuple[Any, Any]]:
    found = pa.concat_tables([operator.schema.empty_table(), *operator.certain(ended, ended)])
    return [(one["l.x"], one["r.x"]) for one in found.to_pylist()]


def numbered(*times: int) -> list[Row]:
    """Rows whose x is their place, from 0."""
    return [row(t, x=float(i)) for i, t in enumerate(times)]


def test_thesis_figure_2_5_at_the_instant_the_text_explains() -> None:
    # E1: 7 at t+1, 5 at t+3; E2: 6 at t+4. The window of E1 active at t+4 holds 7 and 5.
    at_most = call("<=", column("l.x"), column("r.x"))
    windows = JoinWindow(2, in_rows=True), JoinWindow(2, in_rows=True)
    found = pairs(join(windows, condition=at_most), [row(1, x=7.0), row(3, x=5.0)], [row(4, x=6.0)])
    assert found == [(5.0, 6.0)]


def test_a_time_window_of_size_10_reaches_back_9_units() -> None:
    # The window over the right active at 20 is (10, 20], so the right event at 10 is out of it.
    left, right = numbered(20), numbered(10, 11, 20, 21)
    assert pairs(join((NARROW, JoinWindow(10))), left, right) == [(0.0, 1.0), (0.0, 2.0)]


def test_each_side_has_its_own_window() -> None:
    # Right 21 and 22 see the left of 20 in (19, 21] and (20, 22]; it sees no earlier right.
    left, right = numbered(20), numbered(17, 21, 22)
    assert pairs(join((JoinWindow(2), JoinWindow(3))), left, right) == [(0.0, 1.0)]


def test_simultaneous_events_are_one_pair() -> None:
    assert pairs(join((NARROW, NARROW)), numbered(5), numbered(5)) == [(0.0, 0.0)]


def test_of_windows_that_slide_only_a_complete_one_is_seen() -> None:
    # Windows over the right: [0, 10), [10, 20). At 18 the first is the latest that is complete,
    # at 19, the last instant of the second, that one is.
    left, right = numbered(18, 19), numbered(0, 9, 10, 18)
    windows = NARROW, JoinWindow(10, 10)
    # The left of 18 and the right of 18 are simultaneous: the right sees the left's window.
    assert pairs(join(windows), left, right) == [
        (0.0, 0.0),
        (0.0, 1.0),
        (0.0, 3.0),
        (1.0, 2.0),
        (1.0, 3.0),
    ]


def test_a_count_window_is_seen_only_when_full() -> None:
    left, right = numbered(2, 4), numbered(1, 3)
    windows = NARROW, JoinWindow(2, in_rows=True)
    # At 2 one right row has come, at 4 two; no left row is of 1 or 3.
    assert pairs(join(windows), left, right) == [(1.0, 0.0), (1.0, 1.0)]


def test_rows_of_one_instant_have_all_come_for_a_count_window() -> None:
    windows = JoinWindow(1, in_rows=True), JoinWindow(1, in_rows=True)
    # Both lefts see the last right of instant 4; both rights see the last left of it.
    assert pairs(join(windows), numbered(4, 4), numbered(4, 4)) == [
        (0.0, 1.0),
        (1.0, 0.0),
        (1.0, 1.0),
    ]


def test_missing_keys_have_no_partner_and_minus_zero_is_zero() -> None:
    keys = [None, float("nan"), -0.0, 1.0]
    left = [row(1, k=i, x=x) for i, x in enumerate(keys)]
    right = [row(1, k=i, x=x) for i, x in enumerate([None, float("nan"), 0.0])]
    operator = join((NARROW, NARROW), equal=("x",))
    operator.push(0, to_table(left))
    operator.push(1, to_table(right))
    found = pa.concat_tables(operator.certain(True, True)).to_pylist()
    assert [(one["l.k"], one["r.k"]) for one in found] == [(2, 2)]


def test_order_is_by_time_then_earlier_lefts_by_right_then_lefts_of_that_time() -> None:
    # At 3: rights 0, 1 come to lefts 0, 1 of before, and to left 2 of that instant.
    windows = JoinWindow(5), JoinWindow(5)
    assert pairs(join(windows), numbered(1, 2, 3), numbered(3, 3)) == [
        (0.0, 0.0),
        (1.0, 0.0),
        (0.0, 1.0),
        (1.0, 1.0),
        (2.0, 0.0),
        (2.0, 1.0),
    ]


def test_a_left_row_comes_alone_once_its_fate_is_certain() -> None:
    operator = join((JoinWindow(5), NARROW), kind=JoinKind.LEFT)
    operator.push(0, to_table(numbered(10, 11, 30)))
    operator.push(1, to_table(numbered(9, 14)))
    assert taken(operator) == []  # a right row of 14 may still come to the left rows of 10 and 11
    operator.push(1, to_table([row(16, x=2.0)]))
    # All is known until 15, when the window over the left is (10, 15]; left 10 has right 14.
    assert taken(operator) == []
    operator.push(1, to_table([row(40, x=3.0)]))
    assert taken(operator) == [(0.0, 1.0), (1.0, 1.0)]
    assert taken(operator, ended=True) == [(2.0, None)]


def test_a_left_row_alone_stands_at_its_own_time() -> None:
    operator = join((JoinWindow(5), NARROW), kind=JoinKind.LEFT, equal=("k",))
    left = [row(1, k=1, x=0.0), row(2, k=2, x=1.0), row(3, k=None, x=2.0)]
    found = pairs(operator, left, [row(4, k=1, x=0.0)])
    assert found == [(1.0, None), (2.0, None), (0.0, 0.0)]


def test_rows_out_of_every_window_are_forgotten() -> None:
    operator = join((JoinWindow(8), JoinWindow(8)), equal=("k",))
    for first in range(0, 200_000, 1000):
        times = range(first, first + 1000)
        for place in (0, 1):  # every key but a few is new
            operator.push(place, to_table([row(t, k=t) for t in times]))
            assert sum(table.num_rows for table in operator.certain(False, False)) <= 1000
            assert operator.n_kept <= 2 * KEPT_ROWS_MIN + 4000
            assert len(operator._keys) <= 10 * (KEPT_ROWS_MIN + 4000)


def test_rows_that_go_back_in_time_are_refused() -> None:
    operator = join((NARROW, NARROW))
    operator.push(1, to_table([row(5)]))
    with pytest.raises(SchemaError, match="right side of the join goes back in time"):
        operator.push(1, to_table([row(4)]))


@pytest.mark.parametrize(
    "window", [JoinWindow(0), JoinWindow(3, 4), JoinWindow(3, 0), JoinWindow((1 << 61) + 1)]
)
def test_a_window_that_cannot_be_is_refused(window: JoinWindow) -> None:
    with pytest.raises(QueryError, match="cannot be"):
        join((window, NARROW))
