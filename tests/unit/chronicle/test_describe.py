"""What is told of a stream: sizes, aggregates of a range, and histograms over time."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from chronicle import Snapshot, StreamSettings, create_store
from chronicle.describe import (
    LevelDescription,
    describe_stream,
    histogram,
    numeric_columns,
    range_stats,
    shown_value,
)
from tests.unit.chronicle.stream_cases import make_stream


def test_description_counts_files_blocks_levels_and_bytes(tmp_path: Path):
    table = pa.table({"t": [*range(30), 40], "s": ["a"] * 31})
    stream = make_stream(
        tmp_path, [table], schema=table.schema, block_events=4, file_events=16, fan_out=2
    )
    found = describe_stream(stream.snapshot())
    assert (found.name, found.n_events, found.n_files, found.n_blocks) == ("ticks", 31, 2, 8)
    assert (found.t_min, found.t_max, found.gap_min, found.time_type) == (0, 40, 1, "integer")
    assert found.columns == (("t", "int64"), ("s", "string"))
    # Two files of four blocks each: 8, 4, 2 and one entry above the files.
    assert found.levels == (
        LevelDescription(0, 8, 1.0),
        LevelDescription(1, 4, 2.0),
        LevelDescription(2, 2, 4.0),
        LevelDescription(3, 1, 8.0),
    )
    sizes = {
        folder: sum(path.stat().st_size for path in (stream.path / folder).glob("*.parquet"))
        for folder in ("events", "tree")
    }
    assert (found.event_bytes, found.tree_bytes) == (sizes["events"], sizes["tree"])
    assert found.n_files_without_tree == 0


def test_files_without_tree_entries_are_counted(tmp_path: Path):
    table = pa.table({"t": range(32)})
    stream = make_stream(tmp_path, [table], schema=table.schema, file_events=16)
    for file in (stream.path / "tree").glob("*.parquet"):
        file.unlink()
    assert describe_stream(stream.snapshot()).n_files_without_tree == 2


def test_empty_stream_is_described(tmp_path: Path):
    found = describe_stream(make_stream(tmp_path, []).snapshot())
    assert (found.n_events, found.t_min, found.levels) == (0, None, (LevelDescription(0, 0, 0.0),))


def test_bytes_are_told_per_event(tmp_path: Path):
    table = pa.table({"t": range(32)})
    found = describe_stream(make_stream(tmp_path, [table], schema=table.schema).snapshot())
    assert found.to_dict()["bytes_per_event"] == {
        "events": round(found.event_bytes / 32, 3),
        "tree": round(found.tree_bytes / 32, 3),
    }
    assert found.sizes(1000) == "0.001 MB, 31.25 bytes per event"
    lines = dict(found.lines())
    assert lines["data files"] == f"2, {found.sizes(found.event_bytes)}"
    assert lines["columns"] == "t BIGINT"
    assert lines["tree"].startswith(found.sizes(found.tree_bytes))
    empty = describe_stream(make_stream(tmp_path / "empty", []).snapshot())
    assert empty.to_dict()["bytes_per_event"] == {"events": 0.0, "tree": 0.0}


N_EVENTS = 800


@pytest.fixture
def snapshot(tmp_path: Path) -> Snapshot:
    """Event i at time 10 i has x = i but for every fourth, which is null; the last is NaN."""
    x = [None if i % 4 == 3 else float(i) for i in range(N_EVENTS)]
    x[-2] = math.nan
    table = pa.table(
        {
            "t": pa.array(np.arange(N_EVENTS) * 10),
            "x": pa.array(x, pa.float64()),
            "s": pa.array([f"{i:03d}" for i in range(N_EVENTS)]),
        }
    )
    settings = StreamSettings("t", block_events=4, file_events=200, fan_out=4)
    stream = create_store(tmp_path / "store").create_stream("s", table.schema, settings)
    stream.append(table)
    return stream.snapshot()


def test_stats_of_a_range_are_those_of_its_events(snapshot: Snapshot) -> None:
    whole, (x, s) = range_stats(snapshot, 15, 95, ["x", "s"])
    # Events 2 to 9, of which 3 and 7 lack x: 2 + 4 + 5 + 6 + 8 + 9 = 34.
    assert (whole.n_events, whole.t_min, whole.t_max) == (8, 20, 90)
    assert whole.n_blocks_read <= 2
    told = x.to_dict()
    variance = 226 / 6 - (34 / 6) ** 2
    assert told.pop("stddev_pop") == pytest.approx(math.sqrt(variance))
    assert told == {
        "values": 6, "nulls": 2, "nans": 0, "min": 2.0, "max": 9.0, "sum": 34.0,
        "mean": pytest.approx(34 / 6),
    }  # fmt: skip
    assert (s.to_dict()["min"], s.to_dict()["max"], s.to_dict()["sum"]) == ("002", "009", None)


def test_stats_of_all_events_read_no_block(snapshot: Snapshot) -> None:
    whole, (x,) = range_stats(snapshot, None, None, ["x"])
    assert (whole.n_events, whole.n_blocks_read) == (N_EVENTS, 0)
    assert (x.to_dict()["nulls"], x.to_dict()["nans"]) == (200, 1)


def test_bars_are_of_equal_time_and_hold_all_events(snapshot: Snapshot) -> None:
    found = histogram(snapshot, None, None, n_bars=5)
    assert found is not None
    assert np.diff(found.edges).tolist() == pytest.approx([1598] * 5, abs=1)
    assert found.n_events.sum() == pytest.approx(N_EVENTS)
    assert found.n_events.tolist() == pytest.approx([160] * 5, abs=2)
    # Four files of 50 blocks: level 1 has 13 entries of each, which is enough for five bars.
    assert (found.level, found.n_entries) == (1, 52)


def test_means_follow_the_attribute(snapshot: Snapshot) -> None:
    found = histogram(snapshot, 0, 4000, n_bars=4, attribute="x")
    assert found is not None
    assert found.mean is not None
    # A hundred events each, from 0, 100, 200 and 300 on.
    assert found.mean.tolist() == pytest.approx([49, 149, 249, 349], abs=3)


def test_a_range_without_time_has_no_bars(snapshot: Snapshot) -> None:
    assert histogram(snapshot, 9000, 9100, n_bars=4) is None
    assert histogram(snapshot, None, -5, n_bars=4) is None


def test_there_are_no_more_bars_than_times(snapshot: Snapshot) -> None:
    found = histogram(snapshot, 0, 3, n_bars=10)
    assert found is not None
    assert found.edges.tolist() == [0, 1, 2, 3]


def test_numbers_are_told_from_texts(snapshot: Snapshot) -> None:
    assert numeric_columns(snapshot) == ["t", "x"]


@pytest.mark.parametrize(
    ("value", "data_type", "shown"),
    [
        (1, pa.bool_(), True),
        (1, pa.date32(), "1970-01-02"),
        (1_500_000, pa.timestamp("us"), "1970-01-01T00:00:01.500000"),
        (math.inf, pa.float64(), "inf"),
        (2.5, pa.float64(), 2.5),
        (None, pa.float64(), None),
    ],
)
def test_extremes_are_shown_as_the_values_they_stand_for(
    value: object, data_type: pa.DataType, shown: object
) -> None:
    assert shown_value(value, data_type) == shown
