"""A description counts what is stored."""

from pathlib import Path

import pyarrow as pa

from chronicle.describe import LevelDescription, describe_stream
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
    assert lines["tree"].startswith(found.sizes(found.tree_bytes))
    empty = describe_stream(make_stream(tmp_path / "empty", []).snapshot())
    assert empty.to_dict()["bytes_per_event"] == {"events": 0.0, "tree": 0.0}
