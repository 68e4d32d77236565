"""The quarantine: a table of records that were put aside instead of becoming events."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from chronicle.disk import discard, flush, writing
from chronicle.folder_lock import make_table_folder
from chronicle.log.delta_log import add_columns, commit_changes, create_table, new_files

QUARANTINE_TABLE = "quarantine"
"""Delta table of a stream that holds the records put aside."""

QUARANTINE_SCHEMA = pa.schema(
    [
        pa.field("batch", pa.string()),  # of the ingest; rides in its commit to the events table
        pa.field("reason", pa.string()),
        pa.field("source", pa.string()),
        pa.field("record", pa.string()),  # as it stands in the source; Parquet rows as JSON
        pa.field("line", pa.int64()),  # of a text file; not in files of version 0.2
    ]
)

LATE_REASON = "the event is older than the end of the stream"


@dataclass(frozen=True, slots=True)
class QuarantineFile:
    """A file of records put aside, written but not yet committed."""

    name: str
    size_bytes: int
    n_rows: int
    reasons: Mapping[str, int]

    def to_json(self) -> str:
        """Return it as text."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> QuarantineFile:
        """Read it back."""
        return cls(**json.loads(text))


class QuarantineWriter:
    """Writes one quarantine file, which exists only once a record is put aside."""

    def __init__(self, folder: Path, name: str) -> None:
        self._path = folder / name
        self._writer: pq.ParquetWriter | None = None
        self._reasons: Counter[str] = Counter()

    def write(self, rows: pa.Table) -> None:
        """Append rows of the quarantine table."""
        with writing(self._path):
            if self._writer is None:
                make_table_folder(self._path.parent.parent, self._path.parent.name)
                self._writer = pq.ParquetWriter(
                    self._path, QUARANTINE_SCHEMA, compression="zstd", write_page_checksum=True
                )
            self._writer.write_table(rows)
        self._reasons.update(rows.column("reason").to_pylist())

    def close(self) -> QuarantineFile | None:
        """Complete the file; None if nothing was put aside."""
        if self._writer is None:
            return None
        with writing(self._path):
            self._writer.close()
            size_bytes = self._path.stat().st_size
        return QuarantineFile(
            self._path.name,
            size_bytes,
            self._reasons.total(),
            dict(sorted(self._reasons.items())),
        )

    def discard(self) -> None:
        """Remove what was written."""
        if self._writer is not None:
            with suppress(OSError):  # the disk may take no byte more
                self._writer.close()
            discard([self._path])


def rows_of_events(events: pa.Table, *, batch_id: str, reason: str, source: str) -> pa.Table:
    """Return rows of the quarantine table for events put aside whole, their cells as JSON."""
    records = [json.dumps(row, default=str) for row in events.to_pylist()]
    n = len(records)
    columns = [[batch_id] * n, [reason] * n, [source] * n, records, [None] * n]
    return pa.table(columns, schema=QUARANTINE_SCHEMA)


def commit_quarantine(stream_dir: Path, files: Sequence[QuarantineFile]) -> None:
    """Add files to the quarantine table, before the events they were separated from.

    Rows count only if a commit to the events table carries their batch.
    """
    if not files:
        return
    table = stream_dir / QUARANTINE_TABLE
    if not create_table(table, QUARANTINE_SCHEMA, {}):
        # One that an older version made has no column for lines.
        add_columns(table, QUARANTINE_SCHEMA, read_version=None, metadata={})
    flush([*(table / file.name for file in files), table])
    added = new_files((file.name, file.size_bytes, file.n_rows) for file in files)
    commit_changes(table, add=added, read_version=None, metadata={})
