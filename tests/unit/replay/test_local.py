"""Blocks cut into units that are read at once, and rows kept from matching for measures."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from replay.patterns.local import RowCache, cut_units, select_rows

# Ten blocks of ten events.
BASES = np.arange(0, 101, 10)


def units_of(
    stretches: list[tuple[int, int]],
    unit_events: int,
    *,
    first_events: int | None = None,
    whole: bool = False,
):
    """Return units as lists of (first block, last block, begins, ends)."""
    ranges = np.array(stretches, dtype=np.int64).reshape(-1, 2)
    units = cut_units(ranges, BASES, unit_events, first_events=first_events, whole=whole)
    return [[(p.first_block, p.last_block, p.begins, p.ends) for p in unit] for unit in units]


def test_a_stretch_that_fits_into_a_unit_is_not_cut_where_one_is_nearly_full() -> None:
    #  25 events a unit: the first holds 20 when a stretch of 20 comes, and is closed behind it
    assert units_of([(0, 2), (3, 5), (6, 7)], 25) == [
        [(0, 2, True, True), (3, 5, True, True)],
        [(6, 7, True, True)],
    ]


def test_a_stretch_longer_than_a_unit_is_cut_at_the_next_block() -> None:
    #  25 events a unit: one block fills 10 of the first, 15 are left and two blocks taken
    assert units_of([(0, 1), (2, 7)], 25) == [
        [(0, 1, True, True), (2, 4, True, False)],
        [(4, 7, False, True)],
    ]


def test_no_stretch_is_cut_where_all_of_it_is_needed_at_once() -> None:
    assert units_of([(0, 1), (2, 9)], 25, whole=True) == [[(0, 1, True, True), (2, 9, True, True)]]


def test_units_grow_from_the_first_where_few_events_may_do() -> None:
    #  10 events, then 20, then 40 which is most: the last one has the 30 that are left
    assert units_of([(0, 10)], 40, first_events=10) == [
        [(0, 1, True, False)],
        [(1, 3, False, False)],
        [(3, 7, False, False)],
        [(7, 10, False, True)],
    ]
    # A stretch no longer than the unit it begins in is not cut.
    assert units_of([(0, 1), (2, 4), (5, 9)], 40, first_events=10) == [
        [(0, 1, True, True)],
        [(2, 4, True, True)],
        [(5, 9, True, True)],
    ]


@pytest.mark.parametrize("unit_events", [1, 10, 25, 1000])
@pytest.mark.parametrize("first_events", [None, 1, 10])
def test_units_hold_every_block_once_and_in_order(
    unit_events: int, first_events: int | None
) -> None:
    stretches = np.array([(0, 3), (4, 5), (6, 10)])
    units = cut_units(stretches, BASES, unit_events, first_events=first_events)
    pieces = [piece for unit in units for piece in unit]
    blocks = [b for piece in pieces for b in range(piece.first_block, piece.last_block)]
    assert blocks == [0, 1, 2, 4, 6, 7, 8, 9]
    assert [piece.first_block for piece in pieces if piece.begins] == [0, 4, 6]
    assert [piece.last_block for piece in pieces if piece.ends] == [3, 5, 10]


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


@pytest.mark.parametrize("rows", [[], [0], [1, 4, 5]], ids=str)
def test_rows_are_selected_with_no_more_words_than_they_have(rows: list[int]) -> None:
    parts = (["a", "b", None], ["c", "a", "d"])
    words = pa.chunked_array([pa.array(part).dictionary_encode() for part in parts])
    table = pa.table({"s": words, "x": range(6)})
    chosen = select_rows(table, np.array(rows, dtype=np.int64))
    assert chosen.to_pylist() == table.take(pa.array(rows, pa.int64())).to_pylist()
    assert sum(len(chunk.dictionary) for chunk in chosen.column("s").chunks) <= max(len(rows), 0)
