"""Read CSV files with DuckDB: cells as text, in the order of the file, with what is no record."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from chronicle.errors import SourceError
from chronicle.foreign_text import first_line
from chronicle.ingest.raw_text import (
    BATCH_RECORDS,
    NOT_UTF8,
    RECORD_BYTES_MAX,
    Place,
    PlainText,
    RecordBatch,
    Reject,
    lines_of,
    plain_text,
    too_long,
    utf8_chunks,
)

if TYPE_CHECKING:
    import duckdb

_DELIMITERS = (",", ";", "\t", "|")

_HEADER_BYTES_MAX = 1 << 20

_HEADER = -1
"""Number of the header among the records."""

_TOO_LONG = "LINE SIZE OVER MAXIMUM"
_REASONS = {
    "TOO MANY COLUMNS": "the record does not parse: it has more cells than there are columns",
    "MISSING COLUMNS": "the record does not parse: it has fewer cells than there are columns",
    "UNQUOTED VALUE": "the record does not parse: a quote is never closed, or text follows it",
    "INVALID ENCODING": f"the record is {NOT_UTF8}",
}
_UNKNOWN_REASON = "the record does not parse"


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a CSV file is written."""

    delimiter: str
    quote: str
    """Empty if nothing encloses a cell."""

    encoding: str = "utf-8"
    has_header: bool = True
    null: tuple[str, ...] = ()
    """Texts that stand for no value, beside the empty cell."""


def read_header(path: Path, dialect: Dialect) -> tuple[str, ...]:
    """Return the cells of the first record."""
    head = b""
    for chunk in utf8_chunks(path, dialect.encoding):
        head += chunk
        if len(head) > _HEADER_BYTES_MAX:
            break
    try:
        header = _first_record(head.decode("utf-8-sig", "surrogateescape"), dialect)
    except csv.Error as error:
        raise SourceError(
            f"the first line of '{path}' cannot be read ({error}); name the columns in it"
        ) from error
    if not header:
        raise SourceError(
            f"'{path}' has no header line; add one that names the columns, or give --columns"
        )
    try:
        "".join(header).encode()
    except UnicodeEncodeError as error:
        said = NOT_UTF8
        if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
            said = said.replace("latin-1", "utf-16")
        raise SourceError(f"'{path}' is {said}") from error
    return header


def _first_record(text: str, dialect: Dialect) -> tuple[str, ...]:
    """Return the cells of the first record of a text."""
    reader = csv.reader(
        io.StringIO(text, newline=""),
        delimiter=dialect.delimiter,
        quotechar=dialect.quote or None,
        quoting=csv.QUOTE_MINIMAL if dialect.quote else csv.QUOTE_NONE,
        strict=True,
    )
    return tuple(next(reader, []))


def find_delimiter(path: Path, dialect: Dialect, *, time: str) -> str:
    """Return what separates the cells: the sign by which the header names the time column.

    By the ending if none does, or if there is no header.
    """
    by_ending = "\t" if ".tsv" in [suffix.lower() for suffix in path.suffixes] else ","
    for sign in (by_ending, *_DELIMITERS) if dialect.has_header else ():
        if time in read_header(path, Dialect(sign, dialect.quote, dialect.encoding)):
            return sign
    return by_ending


class _Rejected(NamedTuple):
    """A reject as DuckDB tells it."""

    at: int
    """Its first byte in the text."""

    n_lines: int
    reason: str | None
    """None for a line of blanks, which is passed over."""


@contextmanager
def open_csv(path: Path, names: tuple[str, ...], dialect: Dialect) -> Iterator[CsvRecords]:
    """Lend the records of a CSV file; ``names`` are those of its columns, in its order."""
    import duckdb

    with ExitStack() as stack:
        connection = stack.enter_context(duckdb.connect(config={"threads": 1}))
        connection.execute("SET enable_progress_bar = false")  # it is drawn on stdout
        text = stack.enter_context(plain_text(path, dialect.encoding))
        records = CsvRecords(path, names, dialect, text, connection)
        ends = text.ends
        if ends.is_mixed and (ends.n_lines < 2 or not records.takes_line_ends()):
            text = stack.enter_context(plain_text(path, dialect.encoding, same_ends=True))
            records = CsvRecords(path, names, dialect, text, connection)
        yield records


@dataclass(slots=True)
class CsvRecords:
    """The records of one CSV file, to be read once from front to back; see ``read_plan.Records``.

    What a quoted cell with line breaks holds is one record. Lines that are empty are none.
    """

    path: Path
    names: tuple[str, ...]
    """Of the columns, in the order of the file."""

    dialect: Dialect
    text: PlainText
    """The file as DuckDB reads it."""

    connection: duckdb.DuckDBPyConnection
    _tall: dict[int, int] = field(default_factory=dict)
    """Line breaks in records that have any, by number."""

    _rejects: list[_Rejected] | None = None
    """None until the records were read to the end."""

    _n_records: int = 0

    def __post_init__(self) -> None:
        if self.dialect.has_header:
            self._tall[_HEADER] = sum(name.count("\n") for name in self.names)

    def __iter__(self) -> Iterator[RecordBatch]:
        import duckdb

        first = 0
        try:
            reader = self.connection.sql(self._query("*")).to_arrow_reader(BATCH_RECORDS)
            for batch in reader:
                self._note_tall(batch, first)
                yield RecordBatch(
                    first, dict(zip(self.names, batch.columns, strict=True)), batch.num_rows, {}
                )
                first += batch.num_rows
        except (duckdb.Error, OSError) as error:
            raise _unreadable(self.path, error) from error
        self._rejects = self._query_rejects()
        self._n_records = first
        self._put_lost_aside(self._rejects)

    def rejects(self) -> Sequence[Reject]:
        """Return what is no record, with physical lines."""
        return [
            Reject(*place, key.reason)
            for key, place in self._walk(frozenset())
            if isinstance(key, _Rejected) and key.reason is not None
        ]

    def places(self, numbers: Sequence[int]) -> Iterator[Place]:
        """Yield the places of some records."""
        for key, place in self._walk(frozenset(numbers)):
            if not isinstance(key, _Rejected):
                yield place

    def cells_of(self, text: str, *, doubtful: str | None = None) -> str | None:
        """Return the cells of a record as a JSON object; None if it has not one for each column.

        With ``doubtful``, a column, it may have too few or too many: they go by position, and that
        column's begins with a ``?``, so that nobody takes them for right without looking.
        """
        try:
            cells = _first_record(text, self.dialect)
        except csv.Error:
            return None
        if len(cells) != len(self.names) and doubtful is None:
            return None
        missing = ("", *self.dialect.null)
        found = zip(self.names, cells, strict=False)
        row = {name: None if cell in missing else cell for name, cell in found}
        if doubtful is not None:
            row[doubtful] = f"?{row.get(doubtful) or ''}"
        return json.dumps(row)

    def takes_line_ends(self) -> bool:
        """Return whether DuckDB reads a file whose lines end in several ways to its end."""
        import duckdb

        try:
            self.connection.sql(self._query("count(*)", store_rejects=False)).fetchall()
        except (duckdb.Error, OSError):
            return False
        return True

    def _query(self, what: str, *, store_rejects: bool = True) -> str:
        """Return the query over all columns as text.

        Read in parallel, DuckDB 2.0 passes over records of files whose lines end in several ways,
        without a word; and told how they end, it passes over all others.
        """
        names = ", ".join(f"{_quoted(name)}: 'VARCHAR'" for name in self.names)
        null = ", ".join(map(_quoted, ("", *self.dialect.null)))
        faults = "store_rejects = true" if store_rejects else "ignore_errors = true"
        return (
            f"SELECT {what} FROM read_csv({_quoted(str(self.text.path))}, auto_detect = false, "
            f"all_varchar = true, columns = {{{names}}}, header = {self.dialect.has_header}, "
            f"delim = {_quoted(self.dialect.delimiter)}, quote = {_quoted(self.dialect.quote)}, "
            f"escape = {_quoted(self.dialect.quote)}, nullstr = [{null}], strict_mode = true, "
            f"hive_partitioning = false, parallel = false, max_line_size = {RECORD_BYTES_MAX}, "
            f"compression = '{self.text.compression}', {faults})"
        )

    def _query_rejects(self) -> list[_Rejected]:
        """Return each reject once, in the order of the file.

        A record that is too long is refused: DuckDB goes on somewhere inside it.
        """
        rows = self.connection.sql(
            "SELECT line_byte_position, csv_line, error_type FROM reject_errors "
            "ORDER BY line_byte_position, byte_position NULLS FIRST"
        ).fetchall()
        found: dict[int, _Rejected] = {}
        for one_based, text, word in rows:
            at = one_based - 1
            if word == _TOO_LONG:
                raise too_long(self.path, self._line_of(at))
            # Empty lines before a record are handed over with it, and of their CR LF the LF.
            bare = text.lstrip("\r\n")
            at += len(text) - len(bare)
            if bare.strip():
                n_lines = bare.rstrip("\r\n").count("\n") + 1
                found.setdefault(at, _Rejected(at, n_lines, _REASONS.get(word, _UNKNOWN_REASON)))
            else:
                found.setdefault(at, _Rejected(at, 1, None))
        return list(found.values())

    def _put_lost_aside(self, found: list[_Rejected]) -> None:
        """Add what DuckDB passed over without a word to the rejects that were found.

        Why: read one buffer after the other, DuckDB 2.0 says nothing of a quote that is open at
        the end of the file. So every line must belong to a record, to a reject, or be empty.

        Anything else that was passed over is refused.
        """
        n_heads = 1 if self.dialect.has_header else 0
        n_lines = n_heads + self._n_records + sum(self._tall.values())
        if n_lines + sum(one.n_lines for one in found) == self.text.ends.n_lines:
            return
        left = self._left_over()
        begin, first = next(((at, line) for at, line in left if line.strip()), (0, b""))
        if not first:
            return
        if not self.dialect.quote or self.dialect.quote.encode() not in first:
            raise SourceError(
                f"'{self.path}' cannot be read: DuckDB passed over {first[:80]!r}; nothing was "
                "taken, check --delimiter and --quote"
            )
        n_lines, n_bytes = 1, len(first)
        for _, line in left:
            n_lines, n_bytes = n_lines + 1, n_bytes + len(line)
        if n_bytes > RECORD_BYTES_MAX:
            raise too_long(self.path, self._line_of(begin))
        found.append(_Rejected(begin, n_lines, _REASONS["UNQUOTED VALUE"]))

    def _left_over(self) -> Iterator[tuple[int, bytes]]:
        """Yield the lines behind the last record and the last reject."""
        lines = self._lines()
        last = self._n_records - 1
        for _ in self._walk(frozenset((last,)), lines):
            pass
        yield from ((start, line) for _, start, line in lines)

    def _line_of(self, at: int) -> int:
        for number, start, line in self._lines():
            if start + len(line) > at:
                return number
        return 0

    def _lines(self) -> Iterator[tuple[int, int, bytes]]:
        """Yield the lines that DuckDB read, each with its number and its first byte."""
        start = 0
        lines = lines_of(self.text.path, "utf-8", compression=self.text.compression)
        for number, line in enumerate(lines, 1):
            yield number, start, line
            start += len(line)

    def _walk(
        self, wanted: AbstractSet[int], lines: Iterator[tuple[int, int, bytes]] | None = None
    ) -> Iterator[tuple[_Rejected | int, Place]]:
        """Yield the places of rejects, and of the records of these numbers, by going over lines.

        Every line belongs to a reject, whose byte DuckDB tells, or else to the next record, whose
        line breaks were counted; an empty one between them to none, unless it is a whole record.
        """
        assert self._rejects is not None, "the records were not read to the end"
        rejects = iter(self._rejects)
        reject = next(rejects, None)
        last = max(wanted, default=_HEADER - 1)
        number = _HEADER if self.dialect.has_header else 0
        lines = self._lines() if lines is None else lines
        while reject is not None or number <= last:
            line_number, start, line = next(lines, (0, 0, b""))
            if not line:
                return
            if reject is not None and start <= reject.at < start + len(line):
                place = _to_place(line_number, line, islice(lines, reject.n_lines - 1))
                if reject.reason is not None:
                    yield reject, place
                reject = next(rejects, None)
            elif line.strip(b"\r\n") or len(self.names) == 1:
                place = _to_place(line_number, line, islice(lines, self._tall.get(number, 0)))
                if number in wanted:
                    yield number, place
                number += 1

    def _note_tall(self, batch: pa.RecordBatch, first: int) -> None:
        """Count the line breaks in records."""
        for column in batch.columns:
            counts = pc.count_substring(column, "\n")
            if pc.max(counts).as_py():
                for row, count in enumerate(counts.to_pylist()):
                    if count:
                        number = first + row
                        self._tall[number] = self._tall.get(number, 0) + count


def _to_place(number: int, line: bytes, more: Iterable[tuple[int, int, bytes]]) -> Place:
    whole = b"".join([line, *(text for _, _, text in more)])
    return Place(number, whole.rstrip(b"\r\n").decode("utf-8", "replace").removeprefix("\ufeff"))


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _unreadable(path: Path, error: Exception) -> SourceError:
    reason = first_line(str(error)) or type(error).__name__
    return SourceError(f"'{path}' cannot be read ({reason}); check the file")
