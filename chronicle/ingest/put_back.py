"""Put mended records of the quarantine back in as events, each once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from chronicle.append_report import AppendReport
from chronicle.derived import DerivedWriter
from chronicle.errors import SourceError
from chronicle.ingest.cells import is_like_a_name, is_number
from chronicle.ingest.local import find_files
from chronicle.ingest.raw_text import RecordBatch
from chronicle.ingest.read_files import (
    Cut,
    Piece,
    Refusal,
    raise_first,
    refuse_unknown,
    to_events,
)
from chronicle.ingest.read_options import (
    VALUE_OPTIONS,
    ReadOptions,
    check_read_options,
    options_from_json,
    options_in_words,
)
from chronicle.ingest.read_plan import (
    ReadPlan,
    check_columns,
    inspect_sources,
    open_records,
    text_plan,
)
from chronicle.ingest.sources import SourceFormat, SourceSet, tells_format
from chronicle.ingest.times import TimeReading, TimeSource, choose_time_reading, time_source
from chronicle.ingest.typed_files import common_schema, read_schemas, read_typed, rows_of_groups
from chronicle.maintenance.compaction import tidied
from chronicle.store import Stream
from chronicle.time import cut_to_us, time_type
from chronicle.type_names import sql_type
from chronicle.words import because, number_of
from chronicle.write.append import append
from chronicle.write.quarantine import (
    LINE,
    READING,
    RECORD,
    ROW,
    ROWS_SCHEMA,
    count_by_reason,
    count_returned,
    quarantined,
    returned_rows,
    to_mend,
    to_return,
)

Rows = npt.NDArray[np.intp]


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


def put_back(
    stream: Stream,
    path: Path,
    options: ReadOptions | None = None,
    *,
    derived: DerivedWriter | None = None,
) -> PutBackReport:
    """Append the mended rows of a file, and take them out of the quarantine in the same commit.

    All rows of the file are put back, or none. The commit of the events carries which rows they
    are: whatever is killed when, a row is an event or in quarantine, and never both. The file is
    CSV, JSON, Parquet or Arrow, with the stream's columns and those of `ROWS_SCHEMA`, as
    ``chronicle quarantine STREAM --out`` writes them; rows of other files stay as they are. A row
    that is not in quarantine, stands twice, or is no event yet is refused.

    Cells are read by the options by which their row was put aside; ``options`` count more, and
    say how the file itself is written. A row of a text file that nobody changed stays where it is,
    unless ``options`` say how else it is read.
    """
    given = ReadOptions() if options is None else options
    if given.ambiguous == "infer":
        raise SourceError(
            "the order of mended rows says nothing of their times; give --ambiguous earlier or "
            "later, or write an offset behind the times"
        )
    waiting = quarantined(stream)
    reader = _Reader(stream, given, waiting)
    read = pa.Table.from_batches(reader.events(path), reader.schema)
    _check_faults(reader, path)
    if read.num_rows == 0:
        raise SourceError(f"'{path}' holds no row; nothing was put back, name another file")
    rows = _check_rows(read, waiting, path)
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
        read.select(stream.schema.names),
        derived=derived,
        transactions=going.transactions,
        metadata={"put_back": str(len(rows))},
        guard=guard,
    )
    report = tidied(stream, report, derived)
    return PutBackReport(stream.name, report, quarantined(stream).num_rows)


def _check_faults(reader: _Reader, path: Path) -> None:
    """Refuse a file with rows that are no events yet."""
    if not reader.reasons:
        return
    told = ", ".join(because(count_by_reason(reader.reasons)))
    ways = " or ".join(sorted(reader.wrong_by))
    raise SourceError(
        f"{len(reader.reasons):,} rows of '{path}' are no events yet ({told}); nothing was "
        f"put back: correct the columns {', '.join(reader.stream.schema.names)} ({RECORD} is not "
        "read), take a ? away before times of rows that are right, or take the rows out of the "
        f"file{f'; they are read as before, with {ways}' if ways else ''}"
    )


@dataclass(slots=True)
class _Reader:
    """Reads the rows of a file, each by the options by which it was put aside."""

    stream: Stream
    given: ReadOptions
    """What counts more than those options."""

    waiting: pa.Table
    """What is in quarantine."""

    remembered: Mapping[str, str | None] = field(init=False)
    """Options by name of the row, as JSON."""

    unmended: Mapping[str, tuple[str, ...]] = field(init=False)
    """Cells of rows of text files as they are handed out, by name of the row."""

    schema: pa.Schema = field(init=False)
    """Of what is read: the stream's columns and those of `ROWS_SCHEMA`."""

    reasons: list[str] = field(default_factory=list)
    """Why rows are no events; grows as events are read."""

    wrong_by: set[str] = field(default_factory=set)
    """Options by which these were read, in words."""

    def __post_init__(self) -> None:
        self.schema = pa.schema([*self.stream.schema, *ROWS_SCHEMA])
        names = self.waiting.column(ROW).to_pylist()
        ways = self.waiting.column(READING).to_pylist()
        self.remembered = dict(zip(names, ways, strict=True))
        is_other = any(getattr(self.given, name) for name in VALUE_OPTIONS)
        is_text = pc.and_(
            self.waiting.column(LINE).is_valid(), self.waiting.column(READING).is_valid()
        )
        rows = self.waiting.slice(0, 0) if is_other else self.waiting.filter(is_text)
        names = rows.column(ROW).to_pylist()
        cells = _texts(to_mend(rows, self.stream.schema), self.stream.schema.names)
        self.unmended = dict(zip(names, cells, strict=True))

    def events(self, path: Path) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a file that are events, in its order."""
        check_read_options(self.given, "csv")
        if not tells_format(path):
            raise SourceError(
                f"the ending of '{path}' tells no format; call the file .csv, .jsonl, .parquet or "
                ".arrow"
            )
        files = find_files([path], format_name=None)
        is_typed = files.format in (SourceFormat.PARQUET, SourceFormat.ARROW)
        read = _typed_cells if is_typed else self._text_cells
        for batch in read(files, self.schema):
            yield self._to_events(batch)

    def _text_cells(self, files: SourceSet, schema: pa.Schema) -> Iterator[RecordBatch]:
        time, given = self.stream.settings.time, self.given
        options = ReadOptions(delimiter=given.delimiter, quote=given.quote, encoding=given.encoding)
        found = inspect_sources(files, options, time=time, stream_schema=schema)
        plan = text_plan(found, options)
        plan = replace(plan, time=time, schema=schema, left_out=found.nested)
        refusals: list[Refusal] = []
        for position, path in enumerate(files.files):
            records = open_records(path, plan, columns=tuple(schema.names))
            for batch in records:
                if plan.format is SourceFormat.JSON:
                    refuse_unknown(batch, plan, refusals)
                yield batch
            raise_first(refusals, records, plan, Piece(position, str(path)))
            self.reasons += [reject.reason for reject in records.rejects()]

    def _to_events(self, batch: RecordBatch) -> pa.RecordBatch:
        names = [str(name) for name in batch.cells[ROW].to_pylist()]
        ways = np.array([self.remembered.get(name) or "" for name in names], object)
        parts, places = [], []
        for way in dict.fromkeys(ways.tolist()):
            rows = np.flatnonzero(ways == way)
            events, kept = self._read(_rows_of(batch, rows, self.schema), way)
            parts.append(events)
            places.append(rows[kept])
        if not parts:
            return pa.RecordBatch.from_pylist([], self.schema)
        order = pa.array(np.argsort(np.concatenate(places)))
        return pa.concat_batches(parts).take(order)

    def _read(self, rows: RecordBatch, way: str) -> tuple[pa.RecordBatch, Rows]:
        """Return the events among rows that were put aside in one way, and which they are."""
        options = _joined(options_from_json(way or None), self.given)
        for name, cells in rows.cells.items():
            if options.null and pat.is_string(cells.type):
                is_null = pc.is_in(cells, pa.array(options.null))
                rows.cells[name] = pc.if_else(is_null, pa.scalar(None, cells.type), cells)
        time = self.stream.settings.time
        reading = _reading(rows.cells[time].type, self.stream, options)
        plan = ReadPlan(SourceFormat.CSV, options, time, reading, self.schema)
        events, bad = to_events(rows, plan, [], cut=Cut())
        if bad:
            self.reasons += [reason for _, reason in bad]
            self.wrong_by |= {options_in_words(options)} - {""}
        kept = np.setdiff1d(np.arange(rows.n_records), [number for number, _ in bad])
        texts = _texts(rows.cells, self.stream.schema.names)
        names = rows.cells[ROW].to_pylist()
        same = [row for row in kept.tolist() if self.unmended.get(names[row]) == texts[row]]
        self.reasons += ["the row is as it was put aside"] * len(same)
        for one in self.stream.schema:
            cells = rows.cells[one.name]
            if one.name != time and is_number(one.type) and pat.is_string(cells.type):
                n_names = int(np.count_nonzero(is_like_a_name(cells)[kept]))
                why = f"column '{one.name}' is {sql_type(one.type)}, which drops a 0 or + in front"
                self.reasons += [why] * n_names
        return events, kept


def _texts(cells: Any, names: Sequence[str]) -> list[tuple[Any, ...]]:
    """Return the cells of each row, empty for none; what is no text is no cell of a text file."""
    columns = []
    for name in names:
        values = cells[name].to_pylist()
        is_text = pat.is_string(cells[name].type)
        columns.append([value or "" if is_text or value is None else (value,) for value in values])
    return list(zip(*columns, strict=True))


def _joined(remembered: ReadOptions, given: ReadOptions) -> ReadOptions:
    """Return by which options cells are read: those given count more. Pure."""
    says_time = given.time_format is not None or given.time_unit is not None
    times = given if says_time else remembered
    ambiguous = None if remembered.ambiguous == "infer" else remembered.ambiguous
    return ReadOptions(
        decimal_comma=remembered.decimal_comma or given.decimal_comma,
        null=given.null or remembered.null,
        time_format=times.time_format,
        time_unit=times.time_unit,
        time_zone=given.time_zone or remembered.time_zone,
        ambiguous=given.ambiguous or ambiguous,
    )


def _reading(cells: pa.DataType, stream: Stream, options: ReadOptions) -> TimeReading:
    """Return how the times of mended rows are read; timestamps are what they are."""
    time = stream.settings.time
    declared = time_type(stream.schema.field(time).type, column=time)
    pattern, unit = options.time_format, options.time_unit
    if pat.is_temporal(cells):
        source, pattern, unit = time_source(cells, time), None, None
    elif pattern is not None:
        source = TimeSource.TEXT
    elif unit is not None:
        source = TimeSource.NUMBER
    else:
        source = TimeSource.INTEGER if declared == "integer" else TimeSource.TEXT
    return choose_time_reading(
        source,
        column=time,
        declared=declared,
        pattern=pattern,
        zone=options.time_zone,
        unit=unit,
        text_has_offset=False,
        ambiguous=options.ambiguous,
    )


def _typed_cells(files: SourceSet, schema: pa.Schema) -> Iterator[RecordBatch]:
    """Yield the rows of files that state types; texts may stand in place of other values."""
    stated = common_schema(files, read_schemas(files))
    names = [name for name in stated.names if name in schema.names]
    where = str(files.files[0])
    check_columns(names, schema.names, where=where, whose="the stream")
    for path in files.files:
        stop = len(rows_of_groups(path)) if files.format is SourceFormat.PARQUET else 0
        for batch in read_typed(files.format, path, names, 0, stop):
            columns = [
                cut_to_us(column)[0].cast(stated.field(name).type, safe=False)
                for name, column in zip(names, batch.columns, strict=True)
            ]
            cells = dict(zip(names, columns, strict=True))
            yield RecordBatch(0, cells, batch.num_rows, {})


def _rows_of(batch: RecordBatch, rows: Rows, schema: pa.Schema) -> RecordBatch:
    """Return some rows of a batch."""
    at = pa.array(rows)
    cells = {name: batch.cells[name].take(at) for name in schema.names}
    nested = {name: mask.take(at) for name, mask in batch.nested.items() if name in cells}
    return RecordBatch(0, cells, len(rows), nested)


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
