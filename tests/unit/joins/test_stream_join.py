"""Joins as operators: when rows are certain, what is kept and refused, how far partners may be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import replay
from chronicle.errors import SchemaError
from replay.errors import NotSupportedError, QueryError
from replay.joins.spans import (
    END_OF_TIME,
    Reaches,
    blocks_within,
    spans_around,
    stretches_within,
    unite,
)
from replay.joins.stream_join import (
    KEPT_ROWS_MIN,
    AsofJoin,
    ForwardAsofJoin,
    StreamJoin,
    WindowJoin,
)
from replay.language.bound import JoinKind, JoinWindow
from replay.language.join_conditions import split_conditions
from replay.operators.packing import pack, unpack
from tests.join_cases import SCHEMA, Row, call, column, join_of, row, to_table

NARROW = JoinWindow(1)


def join(*windows: JoinWindow, kind: JoinKind = JoinKind.INNER, **more: Any) -> WindowJoin:
    left, right = windows
    made = join_of(kind, windows=(left, right), **more)
    names = [name for name, _ in made.columns]
    return WindowJoin(made, split_conditions(made), SCHEMA, SCHEMA, names)


def forward(*, within: JoinWindow | None = None, **more: Any) -> ForwardAsofJoin:
    made = join_of(JoinKind.ASOF, windows=(None, within), forward=True, **more)
    names = [name for name, _ in made.columns]
    return ForwardAsofJoin(made, split_conditions(made), SCHEMA, SCHEMA, names)


def asof(*, within: JoinWindow | None = None, **more: Any) -> AsofJoin:
    made = join_of(JoinKind.ASOF, windows=(None, within), **more)
    names = [name for name, _ in made.columns]
    return AsofJoin(made, split_conditions(made), SCHEMA, SCHEMA, names)


def taken(operator: StreamJoin, *, ended: bool = False) -> list[tuple[Any, Any]]:
    """Pairs of the x of both sides, in the order of the answer."""
    found = pa.concat_tables([operator.schema.empty_table(), *operator.certain(ended, ended)])
    return [(one["l.x"], one["r.x"]) for one in found.to_pylist()]


def numbered(*times: int) -> list[Row]:
    """Rows whose x is their place, from 0."""
    return [row(t, x=float(i)) for i, t in enumerate(times)]


def test_thesis_figure_2_5_at_the_instant_the_text_explains() -> None:
    # E1: 7 at t+1, 5 at t+3; E2: 6 at t+4. The window of E1 active at t+4 holds 7 and 5.
    at_most = call("<=", column("l.x"), column("r.x"))
    last_two = JoinWindow(2, in_rows=True)
    operator = join(last_two, last_two, condition=at_most)
    operator.push(0, to_table([row(1, x=7.0), row(3, x=5.0)]))
    operator.push(1, to_table([row(4, x=6.0)]))
    assert taken(operator, ended=True) == [(5.0, 6.0)]


def test_missing_keys_have_no_partner_and_minus_zero_is_zero() -> None:
    operator = join(NARROW, NARROW, equal=("x",))
    for side, keys in enumerate(((None, float("nan"), -0.0, 1.0), (None, float("nan"), 0.0))):
        operator.push(side, to_table([row(1, k=i, x=x) for i, x in enumerate(keys)]))
    found = pa.concat_tables(operator.certain(True, True)).to_pylist()
    assert [(one["l.k"], one["r.k"]) for one in found] == [(2, 2)]


def test_a_left_row_comes_alone_once_its_fate_is_certain() -> None:
    operator = join(JoinWindow(5), NARROW, kind=JoinKind.LEFT)
    operator.push(0, to_table(numbered(10, 11, 30)))
    operator.push(1, to_table(numbered(9, 14)))
    assert taken(operator) == []  # a right row of 14 may still come to the left rows of 10 and 11
    operator.push(1, to_table([row(16, x=2.0)]))
    # All is known until 15, when the window over the left is (10, 15]; left 10 has right 14.
    assert taken(operator) == []
    operator.push(1, to_table([row(40, x=3.0)]))
    assert taken(operator) == [(0.0, 1.0), (1.0, 1.0)]
    assert taken(operator, ended=True) == [(2.0, None)]


def test_rows_out_of_every_window_are_forgotten() -> None:
    operator = join(JoinWindow(8), JoinWindow(8), equal=("k",))
    for first in range(0, 200_000, 1000):
        times = range(first, first + 1000)
        for place in (0, 1):  # every key but a few is new
            operator.push(place, to_table([row(t, k=t) for t in times]))
            assert sum(table.num_rows for table in operator.certain(False, False)) <= 1000
            assert operator.n_kept <= 2 * KEPT_ROWS_MIN + 4000
            assert len(operator._keys) <= 10 * (KEPT_ROWS_MIN + 4000)


def test_rows_that_go_back_in_time_are_refused() -> None:
    operator = join(NARROW, NARROW)
    operator.push(1, to_table([row(5)]))
    with pytest.raises(SchemaError, match="right side of the join goes back in time"):
        operator.push(1, to_table([row(4)]))


@pytest.mark.parametrize(
    "window", [JoinWindow(0), JoinWindow(3, 4), JoinWindow(3, 0), JoinWindow((1 << 61) + 1)]
)
def test_a_window_that_cannot_be_is_refused(window: JoinWindow) -> None:
    with pytest.raises(QueryError, match="cannot be"):
        join(window, NARROW)


def test_an_asof_row_is_certain_once_the_right_is_past_it() -> None:
    operator = asof()
    operator.push(0, to_table(numbered(5)))
    operator.push(1, to_table(numbered(2, 5)))
    assert taken(operator) == []  # another right row of 5 may come
    operator.push(1, to_table([row(6, x=2.0)]))
    assert taken(operator) == [(0.0, 1.0)]
    strict = asof(strict=True)
    strict.push(0, to_table(numbered(5)))
    strict.push(1, to_table(numbered(2, 5)))
    assert taken(strict) == [(0.0, 0.0)]  # no other row of 5 counts


def test_only_the_latest_row_of_each_key_is_kept_while_the_left_is_silent() -> None:
    operator = asof(equal=("k",))
    operator.push(0, to_table([row(1_000_000)]))
    for first in range(0, 100_000, 1000):
        operator.push(1, to_table([row(t, k=t % 7) for t in range(first, first + 1000)]))
        assert taken(operator) == []
        assert operator.n_kept <= KEPT_ROWS_MIN + 1100


def test_with_a_window_keys_of_an_asof_join_long_gone_are_forgotten() -> None:
    operator = asof(equal=("k",), within=JoinWindow(10))
    for first in range(0, 100_000, 1000):
        rows = to_table([row(t, k=t) for t in range(first, first + 1000)])
        operator.push(0, rows)
        operator.push(1, rows)
        assert len(taken(operator)) <= 1000
        assert operator.n_kept <= KEPT_ROWS_MIN + 2100
        assert len(operator._keys) <= 6 * (KEPT_ROWS_MIN + 2100)


def test_a_row_that_waits_for_the_next_one_is_certain_once_that_has_come() -> None:
    operator = forward(equal=("k",), within=JoinWindow(10))
    operator.push(0, to_table([row(1, k=1, x=0.0), row(2, k=2, x=1.0), row(3, k=3, x=2.0)]))
    operator.push(1, to_table([row(2, k=2, x=1.0), row(3, k=9)]))
    assert taken(operator) == []  # rows come in the order of the left, and the first one waits
    operator.push(1, to_table([row(4, k=1, x=2.0)]))
    assert taken(operator) == [(0.0, 2.0), (1.0, 1.0)]
    operator.push(1, to_table([row(12)]))
    assert not operator.is_over(True, False)
    operator.push(1, to_table([row(13)]))  # nothing to come is less than 10 after the row of 3
    assert (taken(operator), operator.is_over(True, False)) == ([], True)


def test_rows_no_longer_needed_by_a_join_to_the_next_row_are_forgotten() -> None:
    operator = forward(equal=("k",), within=JoinWindow(10))
    for first in range(0, 60_000, 1000):
        rows = to_table([row(t, k=t) for t in range(first, first + 1000)])
        operator.push(0, rows)
        operator.push(1, rows)
        assert len(taken(operator)) == 1000
        assert operator.n_kept <= KEPT_ROWS_MIN + 4100
        assert len(operator._keys) <= 6 * (KEPT_ROWS_MIN + 4100)


@pytest.mark.parametrize("within", [JoinWindow(4, 2), JoinWindow(4, in_rows=True)])
def test_windows_of_an_asof_join_that_slide_or_count_rows_are_not_supported(
    within: JoinWindow,
) -> None:
    with pytest.raises(NotSupportedError, match="without ROWS and SLIDE"):
        asof(within=within)


def test_further_conditions_of_an_asof_join_are_not_supported() -> None:
    with pytest.raises(NotSupportedError, match="put one on both sides into WHERE"):
        asof(condition=call("<", column("l.x"), column("r.x")))


SIDE = pa.schema([("t", pa.int64()), ("n", pa.int64())])
WINDOWED = "SELECT l.t AS a, r.t AS b FROM l LEFT JOIN r WITHIN 5 ON l.n = r.n"
ASOF = "SELECT l.t AS a, r.t AS b FROM l ASOF JOIN r ON l.n = r.n AND l.t >= r.t"
NEXT = "SELECT l.t AS a, r.t AS b FROM l ASOF JOIN r ON l.n = r.n AND l.t < r.t"


def online(sql: str) -> Any:
    return replay.online(sql, {"l": SIDE, "r": SIDE}, time={"l": "t", "r": "t"})


def side_events(times: range) -> pa.Table:
    return pa.Table.from_pylist([{"t": t, "n": t % 3} for t in times], schema=SIDE)


def state_of(sql: str) -> dict[str, Any]:
    query = online(sql)
    for stream in "lr":
        query.push(side_events(range(9)), stream=stream)
    return unpack(query.snapshot())


def operator_of(node: Any) -> dict[str, Any]:
    """Return the state of the join: the one that has keys."""
    if isinstance(node, dict) and "keys" in node:
        return node
    children = node.values() if isinstance(node, dict) else node
    found = (operator_of(child) for child in children if isinstance(child, dict | list))
    return next((operator for operator in found if operator), {})


def put(*path: Any, value: Any) -> Any:
    """Return what sets a number of an array, or a whole value, somewhere in a state."""

    def change(state: dict[str, Any]) -> None:
        node: Any = state
        for name in path[:-1]:
            node = node[name]
        node[path[-1]] = value(node[path[-1]]) if callable(value) else value

    return change


def with_last(number: int) -> Any:
    def change(array: np.ndarray) -> np.ndarray:
        array = array.copy()
        array.flat[-1] = number
        return array

    return change


@pytest.mark.parametrize(
    ("sql", "change"),
    [
        pytest.param(
            WINDOWED, put("keys", "values", 0, "values", value=with_last(0)), id="key-twice"
        ),
        pytest.param(
            WINDOWED, put("keys", "values", 0, "values", value=lambda a: a.astype(float)), id="keys"
        ),
        pytest.param(
            WINDOWED, put("sides", 0, "kept", "columns", value=with_last(99)), id="no-such-key"
        ),
        pytest.param(
            WINDOWED, put("sides", 0, "kept", "columns", value=lambda a: a[:, 1:]), id="fewer-rows"
        ),
        pytest.param(
            WINDOWED,
            put("sides", 0, "kept", "table", value=lambda t: t.rename_columns(["u", "v"])),
            id="other-columns",
        ),
        pytest.param(WINDOWED, put("sides", 0, "kept", "first", value=-1), id="before-the-first"),
        pytest.param(
            WINDOWED, put("search", "state", value=with_last(10**6)), id="beyond-the-rows"
        ),
        pytest.param(WINDOWED, put("search", "state", value=lambda a: a[:-1]), id="less-known"),
        pytest.param(WINDOWED, put("windows", value=lambda a: a * 0), id="other-windows"),
        pytest.param(
            WINDOWED,
            put("fates", "has_partner", value=lambda a: np.ones(10**4, np.bool_)),
            id="partners-of-no-rows",
        ),
        pytest.param(ASOF, put("latest", value=with_last(10**6)), id="latest-beyond-the-rows"),
        pytest.param(ASOF, put("seen", value=with_last(-1)), id="seen-before-the-first"),
        pytest.param(NEXT, put("partners", value=with_last(10**6)), id="partner-beyond-the-rows"),
        pytest.param(NEXT, put("partners", value=lambda a: a[:-1]), id="fewer-partners"),
        pytest.param(NEXT, put("told", value=10**6), id="more-told-than-came"),
    ],
)
def test_numbers_that_no_join_has_are_refused(sql: str, change: Any) -> None:
    state = state_of(sql)
    change(operator_of(state))
    with pytest.raises(QueryError, match="does not hold the state"):
        online(sql).restore(pack(state))


@dataclass(frozen=True)
class Blocks:
    """Leaves of blocks of ten events, one a unit of time, but for a pause of 100 in the middle."""

    t_min = np.array([0, 10, 120, 130])
    t_max = np.array([9, 19, 129, 139])
    base = np.array([0, 10, 20, 30, 40])
    count = np.full(4, 10)
    gap_min = np.ones(4, np.int64)


BLOCKS = Blocks()


def spans(times: list[int], reaches: Reaches) -> list[list[int]]:
    at = np.array(times, np.int64)
    return spans_around(at, at, reaches, BLOCKS, BLOCKS).tolist()


@pytest.mark.parametrize(
    ("reaches", "expected"),
    [
        # (T - 4, T] back; seen until T + 2.
        (Reaches(JoinWindow(4), JoinWindow(3)), [[12, 17]]),
        # A window of 4 that moves by 4 is complete at most 3 before T, and begins 3 earlier.
        (Reaches(JoinWindow(4, 4), JoinWindow(1)), [[9, 15]]),
        # All rows of the block of 15 may not have come, 10 have: rows 5 to 9 are in block 0.
        (Reaches(JoinWindow(5, in_rows=True), JoinWindow(1)), [[0, 15]]),
        # The event is row 19 at most; five rows later is row 24, in the block that ends at 129.
        (Reaches(JoinWindow(1), JoinWindow(5, in_rows=True)), [[15, 129]]),
        # Row 49 has not come when the stream ends.
        (Reaches(JoinWindow(1), JoinWindow(30, in_rows=True)), [[15, END_OF_TIME]]),
        (Reaches(None, None), [[10, 15]]),
    ],
)
def test_span_around_one_event(reaches: Reaches, expected: list[list[int]]) -> None:
    assert spans([15], reaches) == expected


def test_the_latest_event_of_all_may_lie_a_long_pause_before() -> None:
    assert spans([100], Reaches(None, None)) == [[10, 100]]
    assert spans([-5], Reaches(None, None)) == [[-5, -5]]
    # Strictly before 10 there is block 0 alone.
    assert spans([10], Reaches(None, None, strict=True)) == [[0, 10]]
    assert spans([10], Reaches(None, None)) == [[10, 10]]
    # The block of the next event is read to its end, as that is somewhere in it.
    assert spans([15], Reaches(None, None, forward=True)) == [[15, 19]]
    assert spans([19], Reaches(None, None, strict=True, forward=True)) == [[19, 129]]
    assert spans([139], Reaches(None, None, strict=True, forward=True)) == [[139, 139]]
    assert spans([15], Reaches(JoinWindow(4), None, forward=True)) == [[15, 18]]


def test_spans_that_overlap_are_one() -> None:
    assert spans([5, 6, 15], Reaches(JoinWindow(2), JoinWindow(2))) == [[4, 7], [14, 16]]
    assert unite(np.array([0, 3]), np.array([3, 4])).tolist() == [[0, 4]]


def test_spans_at_the_ends_of_time_do_not_wrap() -> None:
    reaches = Reaches(JoinWindow(1 << 61), JoinWindow(1 << 61))
    low, high = spans([-END_OF_TIME, END_OF_TIME], reaches)
    assert low[0] < -END_OF_TIME
    assert high[1] > END_OF_TIME


def test_blocks_of_spans() -> None:
    around = np.array([[5, 12], [20, 119], [129, 130]])
    assert blocks_within(around, BLOCKS).tolist() == [[0, 2], [2, 2], [2, 4]]
    assert stretches_within(around, BLOCKS, None).tolist() == [[0, 4]]
    assert stretches_within(around, BLOCKS, np.array([[1, 3]])).tolist() == [[1, 3]]
