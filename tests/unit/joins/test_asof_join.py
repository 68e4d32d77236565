"""The ASOF join by hand: ties, missing keys, windows, what is kept."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from replay.errors import NotSupportedError
from replay.joins.stream_join import KEPT_ROWS_MIN, AsofJoin
from replay.language.bound import JoinKind, JoinWindow
from replay.language.join_conditions import split_conditions
from tests.join_cases import SCHEMA, Row, call, column, join_of, row, to_table


def asof(
    kind: JoinKind = JoinKind.ASOF,
    *,
    equal: tuple[str, ...] = (),
    strict: bool = False,
    within: JoinWindow | None = None,
    condition: Any = None,
) -> AsofJoin:
    join = join_of(kind, equal=equal, windows=(None, within), strict=strict, condition=condition)
    names = [name for name, _ in join.columns]
    return AsofJoin(join, split_conditions(join), SCHEMA, SCHEMA, names)


def pairs(operator: AsofJoin, left: list[Row], right: list[Row]) -> list[tuple[Any, Any]]:
    operator.push(0, to_table(left))
    operator.push(1, to_table(right))
    return taken(operator, ended=True)


def taken(operator: AsofJoin, *, ended: bool = False) -> list[tuple[Any, Any]]:
    found = pa.concat_tables([operator.schema.empty_table(), *operator.certain(ended, ended)])
    return [(one["l.x"], one["r.x"]) for one in found.to_pylist()]


def numbered(*times: int) -> list[Row]:
    return [row(t, x=float(i)) for i, t in enumerate(times)]


def test_the_latest_row_not_after_is_found_the_last_of_several() -> None:
    assert pairs(asof(), numbered(0, 5, 9), numbered(1, 5, 5, 6)) == [(1.0, 2.0), (2.0, 3.0)]


def test_a_strict_join_takes_no_simultaneous_row() -> None:
    assert pairs(asof(strict=True), numbered(5, 6), numbered(4, 5)) == [(0.0, 0.0), (1.0, 1.0)]


def test_left_rows_without_one_come_alone_in_their_place() -> None:
    found = pairs(asof(JoinKind.ASOF_LEFT), numbered(0, 5), numbered(3))
    assert found == [(0.0, None), (1.0, 0.0)]


def test_keys_must_agree_and_missing_ones_never_do() -> None:
    left = [row(9, k=1, x=0.0), row(9, k=None, x=1.0)]
    right = [row(1, k=1, x=0.0), row(2, k=None, x=1.0), row(3, k=2, x=2.0)]
    found = pairs(asof(JoinKind.ASOF_LEFT, equal=("k",)), left, right)
    assert found == [(0.0, 0.0), (1.0, None)]


def test_a_window_bounds_how_old_the_row_may_be() -> None:
    within = JoinWindow(4)  # (5, 9]
    assert pairs(asof(within=within), numbered(9), numbered(5)) == []
    assert pairs(asof(within=within), numbered(9), numbered(6)) == [(0.0, 0.0)]


def test_a_row_is_certain_once_the_right_is_past_it() -> None:
    operator = asof()
    operator.push(0, to_table(numbered(5)))
    operator.push(1, to_table(numbered(2, 5)))
    assert taken(operator) == []  # another right row of 5 may come
    operator.push(1, to_table([row(6, x=2.0)]))
    assert taken(operator) == [(0.0, 1.0)]


def test_only_the_latest_row_of_each_key_is_kept_while_the_left_is_silent() -> None:
    operator = asof(equal=("k",))
    operator.push(0, to_table([row(1_000_000)]))
    for first in range(0, 100_000, 1000):
        operator.push(1, to_table([row(t, k=t % 7) for t in range(first, first + 1000)]))
        assert taken(operator) == []
        assert operator.n_kept <= KEPT_ROWS_MIN + 1100


def test_with_a_window_keys_long_gone_are_forgotten() -> None:
    operator = asof(equal=("k",), within=JoinWindow(10))
    for first in range(0, 100_000, 1000):
        rows = to_table([row(t, k=t) for t in range(first, first + 1000)])
        operator.push(0, rows)
        operator.push(1, rows)
        assert len(taken(operator)) <= 1000
        assert operator.n_kept <= KEPT_ROWS_MIN + 2100
        assert len(operator._keys) <= 6 * (KEPT_ROWS_MIN + 2100)


@pytest.mark.parametrize("within", [JoinWindow(4, 2), JoinWindow(4, in_rows=True)])
def test_windows_that_slide_or_count_rows_are_not_supported(within: JoinWindow) -> None:
    with pytest.raises(NotSupportedError, match="without ROWS and SLIDE"):
        asof(within=within)


def test_further_conditions_are_not_supported() -> None:
    with pytest.raises(NotSupportedError, match="put other conditions into WHERE"):
        asof(condition=call("<", column("l.x"), column("r.x")))
