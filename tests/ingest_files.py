"""Files to ingest in tests, and what a stream holds afterwards."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from chronicle.ingest import IngestOptions
from chronicle.log.delta_log import live_files
from chronicle.store import Store

Row = dict[str, Any]

TIES = pa.schema([("t", pa.int64()), ("n", pa.int64()), ("pad", pa.string())])


def write_rows(path: Path, rows: Sequence[Row], schema: pa.Schema) -> Path:
    """Write rows in the format the path's ending names."""
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(list(rows), schema), path, row_group_size=100)
    elif path.suffix == ".csv":
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(schema.names)
            writer.writerows([_cell(row[name]) for name in schema.names] for row in rows)
    else:
        lines = (json.dumps(row, default=_cell) for row in rows)
        path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return path


def _cell(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else value


def read_rows(store: Store, name: str = "s", columns: Sequence[str] | None = None) -> list[Row]:
    snapshot = store.stream(name).snapshot()
    table = snapshot.read_blocks(
        np.arange(snapshot.n_blocks), list(columns or snapshot.schema.names)
    )
    return table.to_pylist()


def options(**given: Any) -> IngestOptions:
    return IngestOptions(**{"time": "t", "block_events": 64, "file_events": 1000, **given})


def rows_of(times: Sequence[int], first: int = 0) -> list[Row]:
    """Return a row of `TIES` for each time; ``n`` counts them from ``first`` on."""
    return [{"t": t, "n": first + i, "pad": "x" * (t % 7)} for i, t in enumerate(times)]


def put(folder: Path, name: str, times: Sequence[int], first: int = 0) -> Path:
    """Write rows of these times to a file."""
    return write_rows(folder / name, rows_of(times, first), TIES)


def by_time(rows: list[Row]) -> list[Row]:
    """Return rows as a stream has them: in order of time, those of one time as they arrived."""
    return sorted(rows, key=lambda row: row["t"])


def quarantine_of(store: Store, name: str = "s") -> list[Row]:
    """Return the rows of a stream's quarantine in order of their records."""
    table = store.path / name / "quarantine"
    files = [table / file.name for file in live_files(table)]
    rows: list[Row] = pa.concat_tables([pq.read_table(file) for file in files]).to_pylist()
    return sorted(rows, key=lambda row: row["record"])


def assert_complete(store: Store, index: str) -> None:
    """Hold a stream to have tree entries and runs of an index for each of its files."""
    files = store.stream("s").snapshot().files
    assert all(file.has_tree for file in files)
    runs = {file.name for file in live_files(store.path / "s" / "index" / index)}
    assert runs == {file.name for file in files}
