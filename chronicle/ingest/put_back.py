"""Put mended records of the quarantine back in as events, each once."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.types as pat

from chronicle.append_report import AppendReport
from chronicle.derived import DerivedWriter
from chronicle.errors import SchemaError, SourceError
from chronicle.ingest.local import FileEvents, find_files, read_files
from chronicle.ingest.read_options import ReadOptions
from chronicle.ingest.sources import SourceFormat
from chronicle.ingest.typed_files import common_schema, read_schemas, read_typed, rows_of_groups
from chronicle.maintenance.compaction import tidied
from chronicle.store import Stream
from chronicle.words import because, number_of
from chronicle.write.append import append
from chronicle.write.quarantine import (
    RECORD,
    ROW,
    ROWS_SCHEMA,
    count_by_reason,
    count_returned,
    quarantined,
    returned_rows,
    to_return,
)


@dataclass(frozen=True, slots=True)
class PutBackReport:
    """What putting rows back did."""

    stream: str
    appended: AppendReport
    n_left: int
    """Rows still in quarantine."""

    def __str__(self) -> str:
        return (
            f"stream '{self.stream}': {self.appended}\n"
            f"{number_of(self.appended.n_events, 'row')} left the quarantine, {self.n_left:,} "
            f"{'is' if self.n_left == 1 else 'are'} in it"
        )


def put_back(stream: Stream, path: Path, *, derived: DerivedWriter | None = None) -> PutBackReport:
    """Append the mended rows of a file, and take them out of the quarantine in the same commit.

    All rows of the file are put back, or none. The commit of the events carries which rows they
    are: whatever is killed when, a row is an event or in quarantine, and never both. The file is
    CSV, JSON, Parquet or Arrow, with the stream's columns and those of `ROWS_SCHEMA`, as
    ``chronicle quarantine STREAM --out`` writes them; rows of other files stay as they are. A row
    that is not in quarantine, stands twice, or is no event yet is refused.
    """
    read = _read(path, pa.schema([*stream.schema, *ROWS_SCHEMA]), stream.settings.time)
    if read.put_aside.num_rows:
        reasons = count_by_reason(read.put_aside.column("reason").to_pylist())
        told = ", ".join(because(reasons))
        raise SourceError(
            f"{read.put_aside.num_rows:,} rows of '{path}' are no events yet ({told}); nothing was "
            f"put back: correct the columns {', '.join(stream.schema.names)} ({RECORD} is not "
            "read), take a ? away before times of rows that are right, or take the rows out of the "
            "file"
        )
    if read.events.num_rows == 0:
        raise SourceError(f"'{path}' holds no row; nothing was put back, name another file")
    rows = _check_rows(read.events, quarantined(stream), path)
    files = sorted({file for file, _ in rows})
    going = to_return(returned_rows(stream, files), rows)

    def guard() -> None:
        """Refuse where another process put rows of these files back since."""
        if count_returned(stream, files) != going.files:
            raise SourceError(
                f"another process put rows of stream '{stream.name}' back meanwhile; nothing was "
                "put back, run it again"
            )

    report = append(
        stream,
        read.events.select(stream.schema.names),
        derived=derived,
        transactions=going.transactions,
        metadata={"put_back": str(len(rows))},
        guard=guard,
    )
    report = tidied(stream, report, derived)
    return PutBackReport(stream.name, report, quarantined(stream).num_rows)


def _read(path: Path, schema: pa.Schema, time: str) -> FileEvents:
    """Read the rows of a file, in which all cells may be texts, whatever its format.

    Where a file that states types holds texts in place of other values, it is read as the CSV file
    of its rows would be.
    """
    files = find_files([path], format_name=None)
    is_typed = files.format in (SourceFormat.PARQUET, SourceFormat.ARROW)
    stated = common_schema(files, read_schemas(files)) if is_typed else schema
    kept = pa.schema([stated.field(name) for name in schema.names if name in stated.names])
    has_texts = any(
        pat.is_string(one.type) and not pat.is_string(schema.field(one.name).type) for one in kept
    )
    if not has_texts or any(pat.is_binary(one.type) for one in kept):  # CSV does not hold bytes
        return read_files(files, ReadOptions(), time=time, schema=schema)
    texts = io.BytesIO()
    with pa_csv.CSVWriter(texts, kept) as writer:
        for file in files.files:
            stop = len(rows_of_groups(file)) if files.format is SourceFormat.PARQUET else 0
            for batch in read_typed(files.format, file, kept.names, 0, stop):
                writer.write(batch.cast(kept, safe=False))  # nanoseconds are cut
    texts.seek(0)
    options = ReadOptions(format="csv", delimiter=",")
    try:
        return read_files(["-"], options, time=time, schema=schema, stdin=texts)
    except (SchemaError, SourceError) as error:
        raise type(error)(str(error).replace("'standard input'", f"'{path}'")) from error


def _check_rows(events: pa.Table, waiting: pa.Table, path: Path) -> Sequence[tuple[str, int]]:
    """Return file and number of each row, all of which must be in quarantine, and once here."""
    names = events.column(ROW).to_pylist()
    known = set(waiting.column(ROW).to_pylist())
    for name, count in Counter(names).items():
        if name not in known:
            raise SourceError(
                f"row '{name}' of '{path}' is not in quarantine, or was put back before; nothing "
                f"was put back, take it out of the file or correct its {ROW}"
            )
        if count > 1:
            raise SourceError(
                f"row '{name}' stands {count:,} times in '{path}'; nothing was put back, leave one"
            )
    parts = (name.rpartition(":") for name in names)
    return [(file, int(number)) for file, _, number in parts]
