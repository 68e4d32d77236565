"""The writer of level-0 runs as the event store sees it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from indexing.errors import IndexingError
from indexing.run import open_run
from indexing.writer import RunWriter

EVENTS = pa.table({"t": [1, 2, 3], "x": [5, None, 4], "s": ["b", "a", "b"], "l": [[1], [2], [3]]})


def test_one_run_per_attribute_is_reported_as_written(tmp_path: Path) -> None:
    writer = RunWriter(("x", "s"), "t")
    files = writer.write(tmp_path, "f.parquet", EVENTS, EVENTS["t"].combine_chunks(), [2, 1])
    assert [(f.table, f.name, f.n_rows) for f in files] == [
        ("index/x", "f.parquet", 2),
        ("index/s", "f.parquet", 3),
    ]
    for file in files:
        path = tmp_path / file.table / file.name
        assert path.stat().st_size == file.size_bytes
        assert open_run(path).cover[0].n_events == 3


def test_attribute_without_an_order_leaves_no_run_of_the_others(tmp_path: Path) -> None:
    with pytest.raises(IndexingError, match="cannot be indexed"):
        RunWriter(("x", "l"), "t").write(
            tmp_path, "f.parquet", EVENTS, EVENTS["t"].combine_chunks(), [3]
        )
    assert not list(tmp_path.rglob("*.parquet*"))


@pytest.mark.parametrize("name", ["a/b", "..", "_x", "a%b", "", "a\nb", "x" * 201])
def test_attribute_that_cannot_name_a_folder_is_refused(name: str) -> None:
    with pytest.raises(IndexingError, match="cannot name an index folder"):
        RunWriter((name,), "t")
