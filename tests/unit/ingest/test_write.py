"""One task's batches become data files and a quarantine file, without Spark."""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronicle.errors import SchemaError
from chronicle.ingest.helper_columns import HELPERS
from chronicle.ingest.late import LateRoute, read_staged
from chronicle.ingest.write import TaskOutput, WriteTask, join_outputs, write_part
from chronicle.settings import StreamSettings
from tests.unit.chronicle.stream_cases import KilledError

SCHEMA = pa.schema([("t", pa.int64()), ("x", pa.float64())])
ARRIVING = pa.schema([("c0", pa.int64()), ("c1", pa.float64()), *HELPERS])


def to_task(folder: Path, **changes: Any) -> WriteTask:
    task = WriteTask(
        stream_dir=folder,
        schema=SCHEMA,
        settings=StreamSettings(time="t", block_events=3, file_events=7),
        generation=2,
        batch_id="batch",
        derived=None,
        sources=("first.csv", "second.csv"),
        parts=None,
        reading='{"decimal_comma": true}',
    )
    return dataclasses.replace(task, **changes)


def event(t: int, x: float = 0.0) -> list[Any]:
    return [t, x, None, None, None, None, 1, 100]


def faulty(reason: str, record: str, line: int | None = None) -> list[Any]:
    return [None, None, reason, record, line, None, 1, 100]


def to_batch(rows: list[list[Any]]) -> pa.RecordBatch:
    columns = list(zip(*rows, strict=True)) if rows else [[] for _ in ARRIVING]
    arrays = [pa.array(list(c), f.type) for c, f in zip(columns, ARRIVING, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=ARRIVING)


def read_events(folder: Path, output: TaskOutput) -> list[dict[str, Any]]:
    tables = [pq.read_table(folder / "events" / file.name) for file in output.files]
    return pa.concat_tables(tables).to_pylist() if tables else []


def read_quarantine(folder: Path, output: TaskOutput) -> list[dict[str, Any]]:
    files = [folder / "quarantine" / file.name for file in output.quarantine]
    return [row for file in files for row in pq.read_table(file).to_pylist()]


@given(
    times=st.lists(st.one_of(st.none(), st.integers(0, 9)), max_size=40),
    size=st.integers(1, 9),
)
def test_every_record_is_an_event_or_in_quarantine(
    tmp_path_factory: pytest.TempPathFactory, times: list[int | None], size: int
) -> None:
    folder = tmp_path_factory.mktemp("stream")
    usable = iter(sorted(time for time in times if time is not None))
    rows = [faulty("no time", "{}") if t is None else event(next(usable)) for t in times]
    batches = [to_batch(rows[at : at + size]) for at in range(0, len(rows), size)]
    output = write_part(batches, to_task(folder), part=3)
    expected = sorted(time for time in times if time is not None)
    assert [row["t"] for row in read_events(folder, output)] == expected
    assert len(read_quarantine(folder, output)) == times.count(None)
    assert all(file.ordinal.startswith("000002-000003-") for file in output.files)


def test_records_are_put_aside_with_reason_source_and_line(tmp_path: Path) -> None:
    rows = [
        [None, None, "too many cells", "1,2,3", 7, None, 0, 0],
        event(1),
        faulty("no time", "x", 9),
        faulty("no time", "{}"),
    ]
    output = write_part([to_batch(rows)], to_task(tmp_path), part=0)
    found = [tuple(row.values()) for row in read_quarantine(tmp_path, output)]
    way = '{"decimal_comma": true}'
    assert found == [
        ("batch", "too many cells", "first.csv", "1,2,3", 7, None, way),
        ("batch", "no time", "second.csv", "x", 9, None, way),
        ("batch", "no time", "second.csv", "{}", None, None, way),
    ]
    assert output.quarantine[0].reasons == {"no time": 2, "too many cells": 1}


def test_a_second_attempt_that_dies_leaves_what_the_first_one_wrote(tmp_path: Path) -> None:
    late = LateRoute(
        stream_end=5, oldest=None, reason="", t_min=(4,), t_max=(5,), folder=tmp_path / "late"
    )
    task = to_task(tmp_path, late=late)
    rows = to_batch([event(1), event(2), faulty("no time", "{}"), event(7)])
    first = write_part([rows], task, part=0)

    def killed() -> Iterator[pa.RecordBatch]:
        yield rows.slice(0, 3)
        raise KilledError

    with pytest.raises(KilledError):
        write_part(killed(), task, part=0)

    assert len(read_quarantine(tmp_path, first)) == 1
    staged = pa.Table.from_batches(read_staged([file.path for file in first.late]))
    assert staged.column("t").to_pylist() == [1, 2]


def test_split_decides_the_ordinal_where_each_task_reads_one(tmp_path: Path) -> None:
    task = to_task(tmp_path, parts={(1, 100): 5})
    output = write_part([to_batch([]), to_batch([event(1)])], task, part=0)
    assert [file.ordinal for file in output.files] == ["000002-000005-000000"]


def test_unordered_events_are_refused_and_leave_nothing(tmp_path: Path) -> None:
    rows = [faulty("no time", "{}"), *[event(t) for t in range(10)], event(3)]
    with pytest.raises(SchemaError, match="goes back from 9 to 3"):
        write_part([to_batch([row]) for row in rows], to_task(tmp_path), part=0)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_outputs_of_tasks_travel_and_come_in_stream_order(tmp_path: Path) -> None:
    late = LateRoute(2, None, "", (1,), (2,), tmp_path / "late")
    task = to_task(tmp_path, late=late)
    rows = [*[event(t) for t in range(9)], faulty("no time", "{}")]
    parts = [write_part([to_batch(rows)], task, part=part) for part in (0, 1)]
    joined = join_outputs(pickle.loads(pickle.dumps(parts[::-1])))
    assert joined.files == parts[0].files + parts[1].files
    assert joined.quarantine == parts[1].quarantine + parts[0].quarantine
    assert joined.late == parts[1].late + parts[0].late
    assert (len(joined.late), len(joined.quarantine)) == (4, 2)
