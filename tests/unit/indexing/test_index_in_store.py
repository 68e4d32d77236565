"""Indexes of a real store, from events to lookups."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from chronicle import StreamSettings, create_store
from chronicle.store import Stream
from chronicle.write.commit import Change, commit_derived, commit_events, commit_files, commit_tree
from indexing import Index, KeyRange, KeyRanges, RunWriter, open_indexes
from tests.helpers import commit_table, write_table
from tests.oracles.index import matching_rows

START = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
ATTRIBUTES = ("price", "venue", "at", "is_late")


def events(n: int, *, first: int = 0) -> pa.Table:
    rows = range(first, first + n)
    return pa.table(
        {
            "at": pa.array([START + dt.timedelta(seconds=i // 3) for i in rows], _at_type()),
            "price": [None if i % 11 == 0 else float((i * 37) % 50) for i in rows],
            "venue": [None if i % 13 == 0 else f"v{(i * 7) % 9}" for i in rows],
            "is_late": [i % 5 == 0 for i in rows],
        }
    )


def _at_type() -> pa.DataType:
    return pa.timestamp("us", "UTC")


@pytest.fixture
def stream(tmp_path: Path) -> Stream:
    settings = StreamSettings(time="at", block_events=16, file_events=100)
    return create_store(tmp_path / "store").create_stream("ticks", events(3).schema, settings)


def append(stream: Stream, table: pa.Table, *, steps: int = 3) -> None:
    """Write and commit events; ``steps`` 1 stops after the events, 2 after the tree."""
    version = stream.snapshot().version
    files = write_table(stream, table, batch_events=33, derived=RunWriter(ATTRIBUTES, "at"))
    if steps == 3:
        commit_files(stream, files, read_version=version, metadata={})
        return
    commit_events(stream, Change(tuple(files)), read_version=version, metadata={})
    if steps == 2:
        commit_tree(stream, files)


def assert_answers(stream: Stream, table: pa.Table) -> None:
    indexes = open_indexes(stream.snapshot())
    micros = [int(v) for v in table["at"].cast(pa.int64()).to_pylist()]
    asked: list[tuple[str, KeyRange]] = [
        ("price", KeyRange(10, 12.5)),
        ("price", KeyRange(None, 3, high_closed=False)),
        ("venue", KeyRange("v3", "v3")),
        ("venue", KeyRange("v7", None, low_closed=False)),
        ("at", KeyRange(micros[5], micros[len(micros) // 2])),
        ("is_late", KeyRange(1, 1)),
    ]
    for attribute, r in asked:
        expected = matching_rows(table[attribute].to_pylist(), [r])
        found = indexes.index(attribute).lookup(KeyRanges.of([r]))
        assert found.seq.tolist() == expected, (attribute, r)
        assert found.t.tolist() == [micros[row] for row in expected]


@pytest.mark.parametrize("steps", [1, 2])
def test_commit_cut_short_leaves_a_tail_and_right_answers(stream: Stream, steps: int) -> None:
    append(stream, events(250))
    append(stream, events(70, first=250), steps=steps)
    assert open_indexes(stream.snapshot()).index("price").n_tail_events == 70
    assert_answers(stream, events(320))


def test_indexes_are_opened_anew_only_when_something_was_committed(stream: Stream) -> None:
    append(stream, events(50))
    first = open_indexes(stream.snapshot())
    assert open_indexes(stream.snapshot()) is first
    append(stream, events(50, first=50))
    assert open_indexes(stream.snapshot()) is not first
    assert_answers(stream, events(100))


def test_runs_committed_later_are_seen_by_the_same_snapshot(stream: Stream) -> None:
    append(stream, events(50))
    files = write_table(stream, events(50, first=50), derived=RunWriter(ATTRIBUTES, "at"))
    commit_events(stream, Change(tuple(files)), read_version=stream.snapshot().version, metadata={})
    assert open_indexes(stream.snapshot()).index("price").n_tail_events == 50
    commit_derived(stream, files)
    assert open_indexes(stream.snapshot()).index("price").n_tail_events == 0
    assert_answers(stream, events(100))


def test_damaged_index_log_makes_all_events_tail_and_is_named(stream: Stream) -> None:
    append(stream, events(50))
    for commit in (stream.path / "index" / "price" / "_delta_log").glob("*.json"):
        commit.write_text("no json", encoding="utf-8")
    indexes = open_indexes(stream.snapshot())
    [fault] = indexes.faults
    assert "'price'" in fault
    assert indexes.index("price").n_tail_events == 50
    assert_answers(stream, events(50))


def test_a_range_between_two_fences_is_expected_in_proportion(tmp_path: Path) -> None:
    price = _index_of(tmp_path / "store", [(i * 1237) % 4000 / 4 for i in range(4000)])

    def expected(low: float, high: float) -> float:
        return price.expect_count(KeyRanges.of([KeyRange(low, high)]))

    # Prices are 0, 0.25, … 999.75, each once: four of them a unit.
    assert expected(100.0, 200.0) == pytest.approx(400, rel=0.02)
    assert expected(300.0, 310.0) == pytest.approx(40, rel=0.05)
    assert expected(500.1, 500.2) == 1.0
    assert expected(2000.0, 3000.0) == 0.0


@pytest.mark.parametrize("n_prices", [4, 20, 100])
def test_a_price_that_is_repeated_is_expected_as_often_as_others(
    tmp_path: Path, n_prices: int
) -> None:
    prices = [float((i * 1237) % n_prices) for i in range(4000)]
    index = _index_of(tmp_path / "store", prices)
    ranges = [KeyRanges.of([KeyRange(p, p)]) for p in sorted(set(prices))]
    found = [index.expect_count(one) for one in ranges]
    # Each has as many entries as any other, 4,000 in all.
    assert sum(found) == pytest.approx(4000, rel=0.7)
    assert np.median(found) == pytest.approx(4000 / n_prices, rel=1.0)


def test_a_whole_number_that_never_repeats_is_expected_once(tmp_path: Path) -> None:
    index = _index_of(tmp_path / "store", [(i * 1237) % 4000 for i in range(4000)])
    assert index.expect_count(KeyRanges.of([KeyRange(1700, 1700)])) == pytest.approx(1.0, rel=0.1)


def _index_of(path: Path, prices: list[float] | list[int]) -> Index:
    at = pa.array([START + dt.timedelta(seconds=i) for i in range(len(prices))], _at_type())
    table = pa.table({"at": at, "price": prices})
    settings = StreamSettings(time="at", block_events=64, file_events=len(prices))
    stream = create_store(path).create_stream("ticks", table.schema, settings)
    commit_table(stream, table, derived=RunWriter(("price",), "at"))
    return open_indexes(stream.snapshot()).index("price")
