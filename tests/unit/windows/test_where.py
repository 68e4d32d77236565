"""What WHERE says of whole blocks: a range of time, blocks that pass, blocks that do not."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest

from chronicle.time import TIME_LIMIT
from replay.engines.block_truth import ALL_PASS, MUST_READ, NONE_PASS, classify_blocks
from replay.language.bound import Expression
from replay.language.fold import conjuncts
from replay.windows.where import split_where
from tests.unit.expressions.bound_conditions import condition_in

SCHEMA = pa.schema({"t": pa.int64(), "a": pa.int64(), "x": pa.float64(), "s": pa.string()})


@dataclass(frozen=True, eq=False)
class Bounds:
    minimum: pa.Array
    maximum: pa.Array
    n_values: np.ndarray
    known: np.ndarray


COUNTS = np.array([10, 10, 10, 10])
BOUNDS = {
    # Block 2 lacks a value, of block 3 nothing is known.
    "a": Bounds(pa.array([1, 5, 5, None]), pa.array([4, 9, 9, None]),
                np.array([10, 10, 9, 10]), np.array([True, True, True, False])),
    "x": Bounds(pa.array([0.0, 1.0, 2.0, 3.0]), pa.array([0.5, 1.5, 2.5, 3.5]),
                np.full(4, 10), np.ones(4, bool)),
    "s": Bounds(pa.array(["a", "b", "c", "d"]), pa.array(["az", "bz", "cz", "dz"]),
                np.full(4, 10), np.ones(4, bool)),
    "t": Bounds(pa.array([0, 10, 20, 30]), pa.array([9, 19, 29, 39]),
                np.full(4, 10), np.ones(4, bool)),
}  # fmt: skip


def condition(text: str) -> Expression:
    found = condition_in(SCHEMA, text)
    assert found is not None
    return found


def classes(text: str) -> list[int]:
    found = classify_blocks(tuple(conjuncts(condition(text))), COUNTS, BOUNDS.__getitem__)
    assert found is not None
    return found.tolist()


N, A, M = NONE_PASS, ALL_PASS, MUST_READ


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("a >= 5", [N, A, M, M], id="a missing value passes nothing"),
        pytest.param("a > 0", [A, A, M, M], id="above all"),
        pytest.param("a BETWEEN 2 AND 8", [M, M, M, M], id="in part"),
        pytest.param("x < 1.0", [A, N, N, N], id="doubles"),
        pytest.param("x < 1", [A, N, N, N], id="a whole number beside doubles"),
        pytest.param("NOT x < 1.0", [N, A, A, A], id="negated"),
        pytest.param("x <> 1.2", [A, M, A, A], id="all but one value"),
        pytest.param("s LIKE 'b%'", [N, M, N, N], id="a prefix, of which NOT LIKE is no range"),
        pytest.param("s IN ('a', 'zz')", [M, N, N, N], id="one of"),
        pytest.param("x < 0.6 OR s >= 'd'", [A, M, M, A], id="either of two columns"),
        pytest.param("x < 0.2 OR x >= 0.2", [A, A, A, A], id="all values, told by halves"),
        pytest.param("x < 1.0 AND a > 0", [A, N, N, N], id="both"),
        pytest.param("x > a", [M, M, M, M], id="two columns compared"),
        pytest.param("1 / a > 5", [M, M, M, M], id="a row may be at fault"),
        pytest.param("x IS NOT NULL", [M, M, M, M], id="nothing is told of nulls"),
        pytest.param("x = NULL", [N, N, N, N], id="never"),
    ],
)
def test_blocks_are_told_by_least_and_greatest(text: str, expected: list[int]) -> None:
    assert classes(text) == expected


def test_without_conditions_nothing_is_said() -> None:
    assert classify_blocks((), COUNTS, BOUNDS.__getitem__) is None


@pytest.mark.parametrize(
    ("text", "start", "stop", "n_rest"),
    [
        pytest.param("t >= 5 AND t < 9", 5, 9, 0, id="half-open"),
        pytest.param("t > 5 AND t <= 9", 6, 10, 0, id="the other way"),
        pytest.param("t BETWEEN 5 AND 9", 5, 10, 0, id="between"),
        pytest.param("t = 7", 7, 8, 0, id="one moment"),
        pytest.param("NOT t < 5", 5, None, 0, id="negated"),
        pytest.param("t >= 5 AND t >= 7 AND a = 1", 7, None, 1, id="the tighter bound"),
        pytest.param("t > 9223372036854775807", TIME_LIMIT, None, 0, id="after all time"),
        pytest.param("t <= 9223372036854775807", None, TIME_LIMIT, 0, id="all time"),
        pytest.param("t < -9223372036854775807", None, -TIME_LIMIT, 0, id="before all time"),
        pytest.param("t < 5 OR t > 9", None, None, 1, id="two ranges"),
        pytest.param("t <> 5", None, None, 1, id="a hole"),
        pytest.param("t > a", None, None, 1, id="another column"),
        pytest.param("t >= 5 OR a = 1", None, None, 1, id="or else"),
        pytest.param("t + 1 > 5", None, None, 1, id="arithmetic on time"),
    ],
)
def test_ranges_of_time_are_taken_out_of_where(
    text: str, start: int | None, stop: int | None, n_rest: int
) -> None:
    found = split_where(condition(text), "t")
    assert (found.start, found.stop, len(found.rest)) == (start, stop, n_rest)
