"""Read CSV files: cells as text, in the order of the file, with what is no record."""

from __future__ import annotations

import codecs
import csv
import io
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from chronicle.errors import SourceError
from chronicle.ingest.raw_text import (
    NOT_UTF8,
    RECORD_BYTES_MAX,
    Place,
    RecordBatch,
    Reject,
    lines_of,
    too_long,
    utf8_chunks,
)

DELIMITERS = (",", ";", "\t", "|")
"""What may separate cells where nobody says it."""

_LINES_BEFORE_HEADER_MAX = 100

_HEADER_BYTES_MAX = 1 << 20

_CAREFUL_RECORDS = 16
"""Records that are read one by one where the first of them has odd quotes; more each time."""

_TOO_MANY = "the record does not parse: it has more cells than there are columns"
_TOO_FEW = "the record does not parse: it has fewer cells than there are columns"
_BAD_QUOTES = "the record does not parse: a quote is never closed, or text follows it"
_BAD_BYTES = f"the record is {NOT_UTF8}"

_CHARACTERS_MAX = 1 << 30

_LF, _CR = 10, 13
_LINE = re.compile(rb"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")


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
    with _long_fields():
        return tuple(next(_csv_reader(io.StringIO(text, newline=""), dialect), []))


def _csv_reader(lines: Iterator[str], dialect: Dialect) -> Iterator[list[str]]:
    """Return a reader of records whose line breaks in quotes are kept."""
    return csv.reader(
        lines,
        delimiter=dialect.delimiter,
        quotechar=dialect.quote or None,
        quoting=csv.QUOTE_MINIMAL if dialect.quote else csv.QUOTE_NONE,
        strict=True,
    )


def line_of_header(path: Path, dialect: Dialect, *, time: str) -> int | None:
    """Return which of the first lines names the time column; None if none does."""
    lines = islice(lines_of(path, dialect.encoding), _LINES_BEFORE_HEADER_MAX)
    for number, line in enumerate(lines, 1):
        text = line.decode("utf-8", "replace").rstrip("\r\n")
        if any(time in _cells_of_line(text, replace(dialect, delimiter=one)) for one in DELIMITERS):
            return number
    return None


def _cells_of_line(text: str, dialect: Dialect) -> tuple[str, ...]:
    try:
        return _first_record(text, dialect)
    except csv.Error:
        return ()


def find_delimiter(path: Path, dialect: Dialect, *, time: str | None) -> str:
    """Return what separates the cells: the sign by which the header names the time column.

    By the ending if none does, or if there is no header. Without a time column, the sign that parts
    the header into the most cells.
    """
    by_ending = delimiter_by_ending(path)
    if time is None:
        return _widest_delimiter(path, dialect, by_ending)
    for sign in (by_ending, *DELIMITERS) if dialect.has_header else ():
        if time in read_header(path, Dialect(sign, dialect.quote, dialect.encoding)):
            return sign
    return by_ending


def _widest_delimiter(path: Path, dialect: Dialect, by_ending: str) -> str:
    """Return the sign that parts the header into the most cells; two of them are refused."""
    signs = dict.fromkeys((by_ending, *DELIMITERS))
    widths = {}
    for sign in signs:
        with suppress(SourceError):
            widths[sign] = len(read_header(path, replace(dialect, delimiter=sign)))
    most = max(widths.values(), default=1)
    if by_ending == "\t" and widths.get(by_ending, 1) > 1:
        return by_ending
    found = [sign for sign, width in widths.items() if width == most]
    if most > 1 and len(found) > 1:
        raise SourceError(
            f"what separates the cells of '{path}', {found[0]!r} or {found[1]!r}? Its header has "
            "as many cells by either; quote the names in it"
        )
    return found[0] if most > 1 else by_ending


def delimiter_by_ending(path: Path) -> str:
    """Return the delimiter that the ending of a file stands for."""
    return "\t" if ".tsv" in [suffix.lower() for suffix in path.suffixes] else ","


# ---------------------------------------------------------------------------------------------
# A file, from front to back.


@dataclass(frozen=True, slots=True)
class _Part:
    """Records that follow one another in a file, and what stands between them and is none."""

    text: bytes
    columns: list[pa.Array]
    """Cells of the records."""

    starts: npt.NDArray[np.int64]
    """First byte of each record in the text."""

    ends: npt.NDArray[np.int64]
    """Byte behind each record; its line end is a part of it."""

    faults: list[tuple[int, int, str]]
    """First byte, byte behind and reason of each text that is no record."""


@dataclass(slots=True)
class CsvRecords:
    """The records of one CSV file, to be read once from front to back; see ``read_plan.Records``.

    They are those of Python's ``csv`` in strict mode. A record ends with LF, CR LF or CR, whatever
    ends the others; within quotes all of these are text. Lines that are empty are no records.
    """

    path: Path
    names: tuple[str, ...]
    """Of the columns, in the order of the file."""

    dialect: Dialect
    _n_faults: int = field(default=0, init=False)

    def __iter__(self) -> Iterator[RecordBatch]:
        first = 0
        for _, part in self._parts():
            self._n_faults += len(part.faults)
            if len(part.starts):
                cells = dict(zip(self.names, part.columns, strict=True))
                yield RecordBatch(first, cells, len(part.starts), {})
                first += len(part.starts)

    def rejects(self) -> Iterator[Reject]:
        """Yield what is no record, with its line, by reading the file again."""
        if not self._n_faults:
            return
        for line, part in self._parts():
            lines = _line_numbers(part, line, [start for start, _, _ in part.faults])
            for number, (start, end, reason) in zip(lines, part.faults, strict=True):
                yield Reject(number, _as_text(part.text[start:end]), reason)

    def places(self, numbers: Sequence[int]) -> Iterator[Place]:
        """Yield the places of some records, by reading the file again."""
        wanted = np.sort(np.asarray(numbers, np.int64))
        first = 0
        for line, part in self._parts() if len(wanted) else ():
            last = first + len(part.starts)
            low, high = np.searchsorted(wanted, (first, last))
            rows = wanted[low:high] - first
            for row, number in zip(rows, _line_numbers(part, line, part.starts[rows]), strict=True):
                yield Place(number, _as_text(part.text[part.starts[row] : part.ends[row]]))
            if high == len(wanted):
                return
            first = last

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

    def _parts(self) -> Iterator[tuple[int, _Part]]:
        """Yield the parts of the file, each with the number of its first line."""
        scanner = _Scanner(self.dialect, len(self.names))
        chunks = utf8_chunks(self.path, self.dialect.encoding)
        rest, line, is_last = b"", 1, False
        at_header, at_begin = self.dialect.has_header, True
        while not is_last:
            chunk = next(chunks, None)
            is_last = chunk is None
            text = rest + (chunk or b"")
            if at_begin:
                text, at_begin = text.removeprefix(codecs.BOM_UTF8), False
            if at_header and (text or is_last):
                end = scanner.end_of_first(text, is_last=is_last)
                if end is None:
                    rest = self._bounded(text, line)
                    continue
                line += _count_line_ends(text[:end])
                text, at_header = text[end:], False
            done = 0
            for part in scanner.parts(text, is_last=is_last):
                self._check_lengths(part, line)
                yield line, part
                line += _count_line_ends(part.text)
                done += len(part.text)
            rest = self._bounded(text[done:], line)

    def _bounded(self, text: bytes, line: int) -> bytes:
        if len(text) > RECORD_BYTES_MAX:
            raise too_long(self.path, line)
        return text

    def _check_lengths(self, part: _Part, line: int) -> None:
        """Refuse a file with a record, or what is none, that no reader should hold."""
        long = part.starts[part.ends - part.starts > RECORD_BYTES_MAX].tolist()
        long += [start for start, end, _ in part.faults if end - start > RECORD_BYTES_MAX]
        if long:
            raise too_long(self.path, next(_line_numbers(part, line, [min(long)])))


def _as_text(record: bytes) -> str:
    return record.rstrip(b"\r\n").decode("utf-8", "replace")


def _count_line_ends(text: bytes) -> int:
    return text.count(b"\n") + text.count(b"\r") - text.count(b"\r\n")


def _line_numbers(
    part: _Part, first: int, places: Sequence[int] | npt.NDArray[np.int64]
) -> Iterator[int]:
    """Yield the lines of ascending places in a text whose first line has a number."""
    at, line = 0, first
    for place in places:
        line += _count_line_ends(part.text[at:place])
        at = place
        yield line


# ---------------------------------------------------------------------------------------------
# A text, taken apart.


class _Scanner:
    """Takes a text apart into records of so many cells.

    Where quotes enclose whole cells, a quote opens a cell if an even number of them stand before
    it, and a delimiter or line end within quotes has an odd number before it: so whole arrays of
    bytes are looked at together. The first quote that encloses no whole cell ends that; the record
    it stands in, and some behind it, are read by the ``csv`` module, one after the other.
    """

    def __init__(self, dialect: Dialect, n_columns: int) -> None:
        self._dialect = dialect
        self._n_columns = n_columns
        self._delimiter = ord(dialect.delimiter)
        self._quote = ord(dialect.quote) if dialect.quote else None
        self._null = pa.array(dialect.null, pa.string())

    def parts(self, text: bytes, *, is_last: bool) -> Iterator[_Part]:
        """Yield the records that end in a text; ``is_last`` if nothing follows it."""
        n_careful = _CAREFUL_RECORDS
        while text:
            part = self._regular(text, is_last=is_last)
            if part is None:
                part = self._careful(text, n_careful, is_last=is_last)
                n_careful *= 4
            if part is None:
                return
            yield part
            text = text[len(part.text) :]

    def end_of_first(self, text: bytes, *, is_last: bool) -> int | None:
        """Return the byte behind the first record, which may have any number of cells."""
        found = next(self._one_by_one(text, is_last=is_last), None)
        return len(text) if found is None and is_last else None if found is None else found[1]

    # --- all at once ---------------------------------------------------------------------------

    def _regular(self, text: bytes, *, is_last: bool) -> _Part | None:
        """Return the records before the first odd quote or byte; None if there is none."""
        n_bytes = len(text)
        if is_last and not text.endswith((b"\n", b"\r")):
            text += b"\n"
        found = self._structure(text, is_last=is_last)
        if found is None:
            return None
        signs, is_border, is_end, stop = found
        kept = np.frombuffer(text, np.uint8, stop)
        is_kept = np.ones(stop, bool)
        is_kept[signs] = False
        borders = np.flatnonzero(is_border)
        offsets = np.zeros(len(borders) + 1, np.int32)
        offsets[1:] = signs[borders] - borders  # bytes kept before each border
        lengths = np.diff(offsets)
        cells = pa.StringArray.from_buffers(
            len(lengths),
            pa.py_buffer(offsets),
            pa.py_buffer(kept[is_kept]),
            pa.py_buffer(np.packbits(lengths > 0, bitorder="little")),
        )
        last_cells = np.flatnonzero(is_end[borders])
        ends = signs[borders[last_cells]] + 1
        return self._to_part(text[: min(stop, n_bytes)], cells, last_cells, ends)

    def _structure(
        self, text: bytes, *, is_last: bool
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_], npt.NDArray[np.bool_], int] | None:
        """Return the bytes that are no cell's, which of them end a cell, and which a record.

        And the byte behind the last record that is regular; None if there is none.
        """
        framed = np.frombuffer(b"\n%b\n" % text, np.uint8)
        array = framed[1:-1]
        has_cr = b"\r" in text
        has_quotes = self._quote is not None and bytes((self._quote,)) in text
        special = (array == self._delimiter) | (array == _LF)
        if has_cr:
            special |= array == _CR
        if has_quotes:
            special |= array == self._quote
        signs = np.flatnonzero(special)
        kinds = array[signs]
        stop = len(text)
        is_sign = is_outside = np.ones(len(signs), bool)
        if has_quotes:
            is_quote = kinds == self._quote
            is_outside = (np.cumsum(is_quote, dtype=np.uint8) & 1) == 0
            is_outside &= ~is_quote
            quotes = np.flatnonzero(is_quote)
            is_literal, stop = self._look_at_quotes(framed, signs[quotes])
            is_sign = is_outside | is_quote
            is_sign[quotes[is_literal]] = False
        is_border = is_outside & ((kinds == self._delimiter) | (kinds == _LF))
        is_end = is_outside & (kinds == _LF)
        if has_cr:
            is_cr = is_outside & (kinds == _CR)
            is_at_end = signs == len(text) - 1
            if not is_last:
                is_cr &= ~is_at_end  # its LF may follow
            is_cr &= is_at_end | (framed[signs + 2] != _LF)
            is_end |= is_cr
            is_border |= is_cr
        try:
            text[:stop].decode()
        except UnicodeDecodeError as error:
            stop = error.start
        ends = np.flatnonzero(is_end[: np.searchsorted(signs, stop)])
        if not len(ends):
            return None
        n_signs = int(ends[-1]) + 1
        stop = int(signs[n_signs - 1]) + 1
        if is_sign is is_outside and not has_cr:
            return signs[:n_signs], is_border[:n_signs], is_end[:n_signs], stop
        is_sign = is_sign[:n_signs]
        return (
            signs[:n_signs][is_sign],
            is_border[:n_signs][is_sign],
            is_end[:n_signs][is_sign],
            stop,
        )

    def _look_at_quotes(
        self, framed: npt.NDArray[np.uint8], quotes: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.bool_], int]:
        """Return which quotes belong to a cell, and the first that encloses no whole cell.

        Every other one opens; of two side by side within a cell, the second is a part of it. All
        of them are given by their bytes in a text around which ``framed`` has line feeds.
        """
        opening, closing = quotes[0::2], quotes[1::2]
        before, after = framed[opening], framed[closing + 2]
        is_second = before == self._quote
        bad_opening = opening[~(is_second | self._is_border(before))]
        bad_closing = closing[~((after == self._quote) | self._is_border(after))]
        first = min(
            (int(one[0]) for one in (bad_opening, bad_closing) if len(one)),
            default=len(framed) - 2,
        )
        is_literal = np.zeros(len(quotes), bool)
        is_literal[0::2] = is_second
        return is_literal, first

    def _is_border(self, signs: npt.NDArray[np.uint8]) -> npt.NDArray[np.bool_]:
        return np.asarray((signs == self._delimiter) | (signs == _LF) | (signs == _CR), bool)

    def _to_part(
        self,
        text: bytes,
        cells: pa.StringArray,
        last_cells: npt.NDArray[np.int64],
        ends: npt.NDArray[np.int64],
    ) -> _Part:
        """Part the cells into columns, and what has another number of them from records."""
        first_cells = np.concatenate(([0], last_cells[:-1] + 1))
        starts = np.concatenate(([0], ends[:-1]))
        widths = last_cells + 1 - first_cells
        faults: list[tuple[int, int, str]] = []
        is_good = widths == self._n_columns
        for row in np.flatnonzero(~is_good).tolist():
            start, end = int(starts[row]), int(ends[row])
            if text[start:end].strip():
                reason = _TOO_MANY if widths[row] > self._n_columns else _TOO_FEW
                faults.append((start, end, reason))
        if not is_good.all():
            first_cells, starts, ends = first_cells[is_good], starts[is_good], ends[is_good]
        columns = [
            self._without_null(cells.take(pa.array(first_cells + n)))
            for n in range(self._n_columns)
        ]
        return _Part(text, columns, starts, ends, faults)

    def _without_null(self, cells: pa.Array) -> pa.Array:
        """Return cells without the texts that stand for no value."""
        if not len(self._null):
            return cells
        is_null = pc.is_in(cells, self._null)
        return pc.if_else(is_null, pa.scalar(None, pa.string()), cells)

    # --- one by one ----------------------------------------------------------------------------

    def _careful(self, text: bytes, n: int, *, is_last: bool) -> _Part | None:
        """Return the first records, at most so many; None if none of them ends in the text."""
        rows: list[list[str]] = []
        places: list[tuple[int, int]] = []
        faults: list[tuple[int, int, str]] = []
        stop = 0
        for start, end, cells in self._one_by_one(text, is_last=is_last):
            stop = end
            reason = self._fault_of(cells)
            if reason is None:
                rows.append(cells or [""])
                places.append((start, end))
            elif text[start:end].strip():
                faults.append((start, end, reason))
            n -= 1
            if not n:
                break
        if not stop:
            return None
        columns = [
            self._without_null(pa.array([row[at] or None for row in rows], pa.string()))
            for at in range(self._n_columns)
        ]
        starts, ends = np.array(places, np.int64).reshape(-1, 2).T
        return _Part(text[:stop], columns, starts, ends, faults)

    def _fault_of(self, cells: list[str] | None) -> str | None:
        """Return why cells are no record; None of cells: their quotes are none."""
        if cells is None:
            return _BAD_QUOTES
        try:
            "".join(cells).encode()
        except UnicodeEncodeError:
            return _BAD_BYTES
        n_cells = max(1, len(cells))
        if n_cells == self._n_columns:
            return None
        return _TOO_MANY if n_cells > self._n_columns else _TOO_FEW

    def _one_by_one(
        self, text: bytes, *, is_last: bool
    ) -> Iterator[tuple[int, int, list[str] | None]]:
        """Yield first byte, byte behind and cells of each record that ends in a text.

        The cells are None where its quotes are none; it ends with the line that shows it.
        """
        at, has_ended = 0, False

        def lines() -> Iterator[str]:
            nonlocal at, has_ended
            for line in _LINE.finditer(text):
                end = line.end()
                if not is_last and end == len(text) and not line[0].endswith(b"\n"):
                    break  # it may go on, or be half a CR LF
                at = end
                yield line[0].decode("utf-8", "surrogateescape")
            has_ended = True

        with _long_fields():
            reader = _csv_reader(lines(), self._dialect)
            while True:
                start = at
                try:
                    cells = next(reader, None)
                except csv.Error:
                    if has_ended and not is_last:
                        return
                    yield start, at, None
                else:
                    if cells is None:
                        return
                    yield start, at, cells


@contextmanager
def _long_fields() -> Iterator[None]:
    """Let the ``csv`` module read cells of any length; ours are bounded by that of a record."""
    before = csv.field_size_limit(_CHARACTERS_MAX)
    try:
        yield
    finally:
        csv.field_size_limit(before)
