"""Files are cut into tasks that cover them, and a task sees its own records alone."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronicle.errors import SourceError
from chronicle.ingest.read_files import Piece, read_piece
from chronicle.ingest.read_options import ReadOptions
from chronicle.ingest.read_plan import ReadPlan
from chronicle.ingest.sources import SourceFormat, SourceSet
from chronicle.ingest.tasks import cut_files, plan_tasks, survey_task
from chronicle.ingest.times import TimeReading, TimeSource

SCHEMA = pa.schema([("x", pa.int64()), ("t", pa.int64())])
PLAN = ReadPlan(
    SourceFormat.PARQUET,
    ReadOptions(),
    "t",
    TimeReading(TimeSource.INTEGER, "integer", None, None),
    SCHEMA,
)


@given(
    st.lists(st.lists(st.integers(0, 50), max_size=8), min_size=1, max_size=5), st.integers(1, 6)
)
def test_pieces_cover_every_row_group_once_in_order(groups: list[list[int]], n_tasks: int) -> None:
    paths = [Path(f"{i}.parquet") for i in range(len(groups))]
    pieces = cut_files(paths, groups, n_tasks)
    covered = [(s.position, group) for s in pieces for group in range(s.first, s.stop)]
    assert covered == [(i, group) for i, rows in enumerate(groups) for group in range(len(rows))]
    size = max(1, -(-sum(map(sum, groups)) // n_tasks))
    for piece in pieces:
        assert piece.first < piece.stop
        rows = groups[piece.position][piece.first : piece.stop]
        assert sum(rows[:-1]) <= size


@given(st.lists(st.integers(1, 9 << 20), min_size=1, max_size=300))
def test_text_files_are_shared_out_whole_and_in_order(sizes: list[int]) -> None:
    files = tuple(Path(f"{i}.csv") for i in range(len(sizes)))
    tasks = plan_tasks(SourceSet(SourceFormat.CSV, files, tuple(sizes)), n_tasks=2)
    found = [[piece.position for piece in task] for task in tasks]
    assert [position for task in found for position in task] == list(range(len(sizes)))
    assert len(tasks) <= max(64, sum(sizes) // (4 << 20) + 1)


def write(path: Path, times: list[int | None]) -> Piece:
    table = pa.table({"x": range(len(times)), "t": pa.array(times, pa.int64())})
    pq.write_table(table, path, row_group_size=2)
    return Piece(0, str(path), 1, -(-len(times) // 2))


def test_survey_of_a_piece_sees_its_rows_alone(tmp_path: Path) -> None:
    piece = write(tmp_path / "a.parquet", [9, 9, 3, None, 2, 5])
    (found,), _ = survey_task((piece,), plan=PLAN, stream_end=4)
    assert (found.n_usable, found.n_bad, found.t_min, found.t_max) == (3, 1, 2, 5)
    assert (found.ordered, found.n_late, found.late) == (False, 2, [3, 2])
    assert (found.position, found.block_start) == (0, 1)


def test_a_file_that_is_damaged_is_named(tmp_path: Path) -> None:
    piece = write(tmp_path / "a.parquet", [1, 2, 3])
    data = (tmp_path / "a.parquet").read_bytes()
    footer = int.from_bytes(data[-8:-4], "little") + 8
    (tmp_path / "a.parquet").write_bytes(data[:4] + bytes(len(data) - 4 - footer) + data[-footer:])
    with pytest.raises(SourceError, match=r"a\.parquet' cannot be read"):
        list(read_piece(piece, PLAN))
