"""Sources of events: those asked for are fetched; those of one time come in any order asked for."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.engines import source as source_module
from replay.engines.source import IntArray, OnceRead, TableSource, fetch_events
from replay.patterns.ordered import OrderedSource

SCHEMA = pa.schema([("t", pa.int64()), ("a", pa.int32()), ("x", pa.float64()), ("s", pa.string())])
ROW = st.fixed_dictionaries(
    {
        "t": st.integers(0, 3),
        "a": st.none() | st.integers(-1, 1),
        "x": st.sampled_from((None, math.nan, -math.inf, -0.0, 0.0, 1.5)),
        "s": st.sampled_from((None, "", "a", "ab", "ß")),
    }
)


class Blocks:
    """Rows in blocks of given sizes, with the times of each."""

    def __init__(self, rows: list[dict[str, Any]], block: int) -> None:
        self.rows = [{**row, "n": n} for n, row in enumerate(sorted(rows, key=lambda r: r["t"]))]
        self.n_events = len(rows)
        self.bases = np.minimum(np.arange(-(-len(rows) // block) + 1) * block, len(rows))
        self.n_blocks = len(self.bases) - 1
        times = np.array([row["t"] for row in self.rows], np.int64)
        self.t_min = times[self.bases[:-1]]
        self.t_max = times[self.bases[1:] - 1]
        self.asked: list[list[int]] = []

    def read_blocks(self, blocks: IntArray, columns: list[str]) -> pa.Table:
        self.asked.append(blocks.tolist())
        rows = [r for b in blocks for r in self.rows[self.bases[b] : self.bases[b + 1]]]
        table = pa.Table.from_pylist(rows, schema=SCHEMA.append(pa.field("n", pa.int64())))
        strings = table.column("s").dictionary_encode()
        return table.set_column(3, "s", strings).select(columns)


def sorted_rows(rows: list[dict[str, Any]], order_by: tuple[str, ...]) -> list[int]:
    """Return the rows' numbers in order: what is missing last, bytes of strings compared."""

    def key(row: dict[str, Any]) -> list[Any]:
        keys: list[Any] = [row["t"]]
        for name in order_by:
            value = row[name]
            missing = value is None or value != value
            keys.append((missing, 0 if missing else value))
        return keys

    return [row["n"] for row in sorted(rows, key=key)]


ORDERS = st.lists(st.sampled_from(("a", "x", "s")), min_size=1, max_size=3, unique=True)


@given(data=st.data(), rows=st.lists(ROW, min_size=1, max_size=30), block=st.integers(1, 7))
def test_any_blocks_read_are_those_of_the_whole_stream_sorted(
    data: st.DataObject, rows: list[dict[str, Any]], block: int
) -> None:
    blocks = Blocks(rows, block)
    order_by = tuple(data.draw(ORDERS))
    source = OrderedSource(blocks, (blocks.t_min, blocks.t_max), time="t", order_by=order_by)
    expected = sorted_rows(blocks.rows, order_by)
    for _ in range(3):
        chosen = sorted(data.draw(st.sets(st.integers(0, blocks.n_blocks - 1))))
        wanted = [n for b in chosen for n in expected[blocks.bases[b] : blocks.bases[b + 1]]]
        table = source.read_blocks(np.array(chosen, np.int64), ["s", "n"])
        assert table.column_names == ["s", "n"]
        assert table.column("n").to_pylist() == wanted
        assert table.column("s").to_pylist() == [blocks.rows[n]["s"] for n in wanted]
    seqs = sorted(data.draw(st.sets(st.integers(0, len(rows) - 1), min_size=1)))
    found = fetch_events(source, ["n"], np.array(seqs, np.int64))
    assert found.column("n").to_pylist() == [expected[seq] for seq in seqs]


@given(rows=st.lists(ROW, min_size=1, max_size=30), order=ORDERS)
def test_table_in_memory_comes_in_the_same_order(
    rows: list[dict[str, Any]], order: list[str]
) -> None:
    numbered = [{**row, "n": n} for n, row in enumerate(rows)]
    table = pa.Table.from_pylist(numbered, schema=SCHEMA.append(pa.field("n", pa.int64())))
    source = TableSource(table, table.column_names, time="t", name="x", order_by=tuple(order))
    found = source.read_blocks(np.arange(source.n_blocks), ["n"]).column("n").to_pylist()
    assert found == sorted_rows(numbered, tuple(order))
    assert source.n_blocks == -(-len(rows) // source_module.TABLE_BLOCK_EVENTS)


def test_blocks_without_ties_at_their_borders_are_read_alone() -> None:
    rows = [{"t": n // 2, "a": -n, "x": 0.0, "s": ""} for n in range(40)]
    blocks = Blocks(rows, 4)
    source = OrderedSource(blocks, (blocks.t_min, blocks.t_max), time="t", order_by=("a",))
    found = source.read_blocks(np.array([2, 3, 7]), ["n"]).column("n").to_pylist()
    # Each pair has one time and falls in a, so its two rows change places.
    assert found == [9, 8, 11, 10, 13, 12, 15, 14, 29, 28, 31, 30]
    assert blocks.asked == [[2, 3], [7]]


def test_long_run_of_one_time_is_read_once_for_the_blocks_in_it() -> None:
    rows = [{"t": 0, "a": -n, "x": 0.0, "s": ""} for n in range(40)]
    blocks = Blocks(rows, 4)
    source = OrderedSource(blocks, (blocks.t_min, blocks.t_max), time="t", order_by=("a",))
    for block in range(10):
        found = source.read_blocks(np.array([block]), ["n"]).column("n").to_pylist()
        assert found == [39 - 4 * block - i for i in range(4)]
    assert blocks.asked == [list(range(10))]


def table_of(n_rows: int) -> pa.Table:
    return pa.table({"t": list(range(n_rows)), "s": [f"s{i % 7}" for i in range(n_rows)]})


@given(data=st.data(), n_rows=st.integers(1, 60), slice_rows=st.integers(1, 9))
def test_fetched_events_are_those_asked_for(
    data: st.DataObject, n_rows: int, slice_rows: int
) -> None:
    seqs = sorted(data.draw(st.sets(st.integers(0, n_rows - 1))))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source_module, "TABLE_BLOCK_EVENTS", slice_rows)
        patch.setattr(source_module, "FETCH_BLOCKS", 2)
        plain = TableSource(table_of(n_rows), ["s", "t"], time="t", name="x")
        for source in (plain, OnceRead(plain, ["s", "t"])):
            for columns in (["t"], ["s", "t"]):
                found = fetch_events(source, columns, np.array(seqs, dtype=np.int64))
                assert found.column("t").to_pylist() == seqs
                assert found.column_names == columns
        assert found.column("s").to_pylist() == [f"s{i % 7}" for i in seqs]
