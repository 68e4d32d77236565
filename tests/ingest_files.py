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
