"""The quarantine: records that were put aside instead of becoming events, and their return."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from chronicle.config import EVENTS_TABLE
from chronicle.disk import discard, flush, writing
from chronicle.disk_errors import reason_of
from chronicle.errors import StorageError, unread
from chronicle.foreign_text import parse_json
from chronicle.log import delta_log
from chronicle.log.delta_log import Commit, add_columns, commit_changes, create_table, new_files
from chronicle.store import Stream
from chronicle.stream_folder import make_table_folder
from chronicle.time import show_times

QUARANTINE_TABLE = "quarantine"
"""Delta table of a stream that holds the records put aside."""

QUARANTINE_SCHEMA = pa.schema(
    [
        pa.field("batch", pa.string()),  # of the ingest; rides in its commit to the events table
        pa.field("reason", pa.string()),
        pa.field("source", pa.string()),
        pa.field("record", pa.string()),  # as it stands in the source; Parquet rows as JSON
        pa.field("line", pa.int64()),  # of a text file; not in files of version 0.2
        pa.field("cells", pa.string()),  # of a CSV record, a JSON object; not in older files
        pa.field("reading", pa.string()),  # options its cells are read by; not in older files
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
        self._reasons.update(count_by_reason(rows.column("reason").to_pylist()))

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
    records = to_json(events)
    n = len(records)
    nothing: list[None] = [None] * n
    columns = [[batch_id] * n, [reason] * n, [source] * n, records, nothing, nothing, nothing]
    return pa.table(columns, schema=QUARANTINE_SCHEMA)


def to_json(rows: pa.Table | pa.RecordBatch) -> list[str]:
    """Return each row as an object of JSON; dates and times as text, however far they are. Pure."""
    names = rows.schema.names
    cells = zip(*map(_cells_of, rows.columns), strict=True)
    return [json.dumps(dict(zip(names, row, strict=True)), default=str) for row in cells]


def _cells_of(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    if pa.types.is_date(column.type) or pa.types.is_timestamp(column.type):
        return show_times(column)
    cells: list[Any] = column.to_pylist()
    return cells


def commit_quarantine(stream_dir: Path, files: Sequence[QuarantineFile]) -> None:
    """Add files to the quarantine table, before the events they were separated from.

    Rows count only if a commit to the events table carries their batch.
    """
    if not files:
        return
    table = stream_dir / QUARANTINE_TABLE
    if not create_table(table, QUARANTINE_SCHEMA, {}):
        # One that an older version made has no column for lines or cells.
        add_columns(table, QUARANTINE_SCHEMA, read_version=None, metadata={})
    flush([*(table / file.name for file in files), table])
    added = new_files((file.name, file.size_bytes, file.n_rows) for file in files)
    commit_changes(table, add=added, read_version=None, metadata={})


# ---------------------------------------------------------------------------------------------
# The records that are in quarantine now, listed and laid out to be mended


ROW, REASON, SOURCE, LINE, RECORD = (
    "quarantine_row", "quarantine_reason", "quarantine_source", "quarantine_line",
    "quarantine_record",
)  # fmt: skip

ROWS_SCHEMA = pa.schema(
    [
        pa.field(ROW, pa.string()),
        pa.field(REASON, pa.string()),
        pa.field(SOURCE, pa.string()),
        pa.field(LINE, pa.int64()),  # null where the source is no text file
        pa.field(RECORD, pa.string()),
    ]
)
"""What is shown of records in quarantine."""

CELLS = "quarantine_cells"
"""Cells of a CSV record as a JSON object, by column of the stream; null where it has none."""

READING = "quarantine_reading"
"""Options by which the cells of a record are read, as a JSON object; null for an event that was put
aside whole, and for records of older versions."""

_KEPT = ("reason", "source", "line", "record", "cells", "reading")
_QUARANTINED = pa.schema(
    [*ROWS_SCHEMA, pa.field(CELLS, pa.string()), pa.field(READING, pa.string())]
)

RETURNED_PREFIX = "chronicle.returned."
"""Delta application ids of this prefix stand for files of the quarantine, and for stretches of
`ROWS_PER_NUMBER` of their rows: their numbers say how many rows, and which, were put back."""

ROWS_PER_NUMBER = 63
"""Rows whose return one number tells, a bit for each; Delta's numbers have 63."""


def quarantined(stream: Stream) -> pa.Table:
    """Return the records that are in quarantine now, of `ROWS_SCHEMA`, their `CELLS`, `READING`.

    Records count from the commit on that names their batch, until they were put back as events. A
    row keeps its name, ``FILE:NUMBER``, for ever.
    """
    folder = stream.path / QUARANTINE_TABLE
    if not delta_log.table_exists(folder):
        return _QUARANTINED.empty_table()
    files = sorted(file.name for file in delta_log.live_files(folder))
    batches = _known_batches(stream)
    gone = returned_rows(stream, [Path(name).stem for name in files])
    parts = [_rows_of(folder / name, batches, gone[Path(name).stem]) for name in files]
    return pa.concat_tables([_QUARANTINED.empty_table(), *parts])


def named_batches(commits: Iterable[Commit]) -> set[str]:
    """Return the batches that commits to the events table name: records of others do not count."""
    found = (commit.metadata.get("quarantine_batch") for commit in commits)
    return {batch for batch in found if batch is not None}


def _known_batches(stream: Stream) -> pa.Array | None:
    """Return the batches that commits name; None where the log no longer has all commits."""
    commits = delta_log.commits(stream.path / EVENTS_TABLE)
    if commits[-1].version > 0:
        return None
    return pa.array(sorted(named_batches(commits)), pa.string())


def _rows_of(path: Path, batches: pa.Array | None, gone: Iterable[int]) -> pa.Table:
    try:
        table = pq.ParquetFile(path).read()
    except (OSError, pa.ArrowException) as error:
        raise unread(path, error) or StorageError(
            f"quarantine file '{path}' cannot be read ({reason_of(error)}); restore it from a copy"
        ) from error
    names = pa.array([to_row_name(path.stem, number) for number in range(len(table))], pa.string())
    rows = [
        names,
        *(
            table.column(name) if name in table.column_names else pa.nulls(len(table), kind)
            for name, kind in zip(_KEPT, _QUARANTINED.types[1:], strict=True)
        ),
    ]
    is_there = np.ones(len(table), np.bool_)
    is_there[list(gone)] = False
    if batches is not None:
        is_there &= pc.is_in(table.column("batch"), batches).to_numpy()
    return pa.table(rows, schema=_QUARANTINED).filter(pa.array(is_there))


def to_row_name(file: str, number: int) -> str:
    """Return what a row of the quarantine is called."""
    return f"{file}:{number}"


def count_reasons(rows: pa.Table) -> dict[str, int]:
    """Return how many rows there are for each reason, the most frequent one first. Pure."""
    return count_by_reason(rows.column(REASON).to_pylist())


def count_by_reason(reasons: Iterable[str]) -> dict[str, int]:
    """Count reasons, the most frequent one first; characters that they point at do not count. Pure.

    Examples
    --------
    >>> count_by_reason(["no value (character 4)", "no value (character 17)", "no time"])
    {'no value': 2, 'no time': 1}
    """
    return dict(Counter(_CHARACTER.sub("", reason) for reason in reasons).most_common())


_CHARACTER = re.compile(r" \(character [0-9,]+\)$")


def to_mend(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return rows of the quarantine with a cell of text for each of the stream's columns. Pure.

    Cells hold what stands in the record. Where it has too few or too many, they go by position, and
    a ``?`` before the time keeps the row from being put back until somebody took it away. They are
    empty where a line cannot be parted into cells, to be filled from the line, and so is a column
    of bytes, which a record shows but does not hold.
    """
    texts = pc.coalesce(rows.column(CELLS), rows.column(RECORD)).to_pylist()
    records = [cells_of_text(text) for text in texts]
    rows = rows.select(ROWS_SCHEMA.names)
    for field in schema:
        is_held = not pa.types.is_binary(field.type)
        cells = [_cell_text(record.get(field.name)) if is_held else None for record in records]
        rows = rows.append_column(field.name, pa.array(cells, pa.string()))
    return rows


def cells_of_text(record: str) -> Mapping[str, Any]:
    """Return the cells that a record of JSON has by column; none of other text. Pure."""
    try:
        cells = parse_json(record)
    except ValueError:
        return {}
    return cells if isinstance(cells, dict) else {}


def _cell_text(value: Any) -> str | None:
    if value is None:
        return None
    text = value if isinstance(value, str) else json.dumps(value)
    return text.encode("utf-8", "replace").decode()  # half a surrogate pair is no text


# ---------------------------------------------------------------------------------------------
# Which rows were put back


@dataclass(frozen=True, slots=True)
class Return:
    """Rows that one commit puts back."""

    files: Mapping[str, int]
    """Of the quarantine, without their ending: how many of their rows were back before."""

    transactions: Mapping[str, int]
    """What the commit carries."""


def returned_rows(stream: Stream, files: Sequence[str]) -> dict[str, frozenset[int]]:
    """Return the numbers of the rows of each file that were put back."""
    counts = count_returned(stream, files)
    folder = stream.path / QUARANTINE_TABLE
    found = {}
    for file in files:
        n_rows = 0
        if counts[file]:
            n_rows = pq.read_metadata(folder / f"{file}.parquet").num_rows
        ids = [_id_of(file, place) for place in range(-(-n_rows // ROWS_PER_NUMBER))]
        numbers = delta_log.transaction_versions(stream.path / EVENTS_TABLE, ids) if ids else {}
        found[file] = frozenset(
            place * ROWS_PER_NUMBER + bit
            for place, name in enumerate(ids)
            for bit in _bits(numbers.get(name, 0))
        )
    return found


def count_returned(stream: Stream, files: Sequence[str]) -> dict[str, int]:
    """Return how many rows of each file were put back, by the newest commit."""
    ids = [RETURNED_PREFIX + file for file in files]
    numbers = delta_log.transaction_versions(stream.path / EVENTS_TABLE, ids)
    return {file: numbers.get(RETURNED_PREFIX + file, 0) for file in files}


def to_return(before: Mapping[str, frozenset[int]], rows: Iterable[tuple[str, int]]) -> Return:
    """Return what a commit carries that puts rows back. Pure.

    ``before`` has, by file, the rows that are back already; ``rows`` file and number of each
    further one.
    """
    after = {file: set(numbers) for file, numbers in before.items()}
    for file, number in rows:
        after[file].add(number)
    transactions = {}
    for file, numbers in after.items():
        transactions[RETURNED_PREFIX + file] = len(numbers)
        for place in {number // ROWS_PER_NUMBER for number in numbers - before[file]}:
            first = place * ROWS_PER_NUMBER
            bits = (number - first for number in numbers if number // ROWS_PER_NUMBER == place)
            transactions[_id_of(file, place)] = sum(1 << bit for bit in bits)
    return Return({file: len(numbers) for file, numbers in before.items()}, transactions)


def _id_of(file: str, place: int) -> str:
    return f"{RETURNED_PREFIX}{file}.{place}"


def _bits(number: int) -> list[int]:
    return [bit for bit in range(ROWS_PER_NUMBER) if number >> bit & 1]
