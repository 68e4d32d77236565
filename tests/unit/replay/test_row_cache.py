"""Rows kept from matching for the measures."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from replay.patterns.local import RowCache


def table(*values: int) -> pa.Table:
    words = pa.array([str(value) for value in values]).dictionary_encode()
    return pa.table({"x": values, "s": words})


@pytest.fixture
def kept() -> RowCache:
    """Rows 3, 5 and 9, 10 and 20; those behind were read first."""
    rows = RowCache(10)
    rows.add(np.array([9, 10, 20]), table(90, 100, 200))
    rows.add(np.array([], np.int64), table())
    rows.add(np.array([3, 5]), table(30, 50))
    return rows


@pytest.mark.parametrize("seqs", [[3], [5, 9, 20], [3, 5, 9, 10, 20], []])
def test_rows_are_found_by_where_they_stand_in_the_stream(kept: RowCache, seqs: list[int]) -> None:
    found = kept.find(["s", "x"], np.array(seqs, np.int64))
    assert found is not None
    assert found.to_pydict() == {"s": [f"{10 * s}" for s in seqs], "x": [10 * s for s in seqs]}


@pytest.mark.parametrize("seqs", [[4], [3, 6], [0], [21]])
def test_where_a_row_is_missing_none_is_given(kept: RowCache, seqs: list[int]) -> None:
    assert kept.find(["x"], np.array(seqs)) is None


def test_where_a_column_is_missing_none_is_given(kept: RowCache) -> None:
    assert kept.find(["x", "y"], np.array([3])) is None


def test_too_many_rows_are_not_kept_nor_any_that_come_later(kept: RowCache) -> None:
    kept.add(np.arange(30, 36), table(*range(6)))
    kept.add(np.array([40]), table(400))
    for seq in (3, 30, 40):
        assert kept.find(["x"], np.array([seq])) is None
