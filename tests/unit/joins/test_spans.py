"""Spans around events, by hand: how far partners may be, in time and in rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from replay.joins.spans import (
    END_OF_TIME,
    Reaches,
    blocks_within,
    spans_around,
    stretches_within,
    unite,
)
from replay.language.bound import JoinWindow


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
