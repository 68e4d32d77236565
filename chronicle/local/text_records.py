"""Take text files apart into records and cells, as Spark does; here lines and CSV."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv

from chronicle.ingest.quotes import open_lines

_BLANKS = "".join(map(chr, range(33)))


@dataclass(frozen=True, slots=True)
class Records:
    """The records of one file as cells, in order."""

    cells: dict[str, pa.Array]
    """Strings by column; null where there is no value, or none of the column's kind."""

    malformed: npt.NDArray[np.bool_]
    """Which records are no records, or have a cell of another kind."""

    texts: Sequence[str] | None
    """The records as they stand in the file; None where nothing but its lines tells them."""

    open_lines: Sequence[int] = ()
    """Which of them are lines of a quoted cell with a line break, and so no records."""


def decode(data: bytes) -> str:
    """Return the text of a file; what is no UTF-8 becomes U+FFFD, as in Java."""
    return data.decode("utf-8", "replace").removeprefix("\ufeff")


def lines_of(text: str) -> list[str]:
    """Return the lines that are not blank."""
    return [line for line in re.split(r"\r\n|\n|\r", text) if line.strip(_BLANKS)]


def split_csv(data: bytes, names: Sequence[str]) -> Records:
    """Take a CSV file with a header apart.

    A record is a line. One of another width than the header's is malformed, and so are all lines
    that a quoted cell with a line break touches; they have no cells.
    """
    if b'"' not in data and len(names) > 1:
        found = _split_plain(data, names)
        if found is not None:
            return found
    lines = lines_of(decode(data))[1:]
    rows = [split_record(line) for line in lines]
    width = len(names)
    malformed = np.array([len(row) != width for row in rows], bool)
    touched, _ = open_lines(lines)
    malformed[touched] = True
    empty = [""] * width
    kept = [empty if bad else row for row, bad in zip(rows, malformed.tolist(), strict=True)]
    columns = zip(*kept, strict=True) if kept else ([] for _ in names)
    cells = {
        name: pa.array([cell or None for cell in column], pa.string())
        for name, column in zip(names, columns, strict=True)
    }
    return Records(cells, malformed, lines, touched)


def _split_plain(data: bytes, names: Sequence[str]) -> Records | None:
    """Take a file without any quote apart at once; None if a line has not the header's width."""
    try:
        table = pa.csv.read_csv(
            pa.py_buffer(data),
            read_options=pa.csv.ReadOptions(
                column_names=list(names), skip_rows=1, use_threads=False
            ),
            parse_options=pa.csv.ParseOptions(quote_char=False),
            convert_options=pa.csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()),
                null_values=[""],
                strings_can_be_null=True,
            ),
        )
    except pa.ArrowInvalid:  # also bytes that are no UTF-8
        return None
    cells = {name: table.column(name).combine_chunks() for name in names}
    return Records(cells, np.zeros(table.num_rows, bool), None)


def split_record(line: str) -> list[str]:
    """Return the cells of a CSV record.

    A quote inside quotes is doubled. A cell that begins with a quote and has more behind the
    closing one is taken as it stands; one that is never closed reaches to the end of the line.

    Examples
    --------
    >>> split_record('a,"b""c",d')
    ['a', 'b"c', 'd']
    >>> split_record('a,"b"x,c')
    ['a', '"b"x', 'c']
    """
    if '"' not in line:
        return line.split(",")
    cells, at = [], 0
    while True:
        if line.startswith('"', at):
            cell, at = _quoted(line, at + 1)
        else:
            end = line.find(",", at)
            end = len(line) if end < 0 else end
            cell, at = line[at:end], end
        cells.append(cell)
        if at >= len(line):
            return cells
        at += 1


def _quoted(line: str, start: int) -> tuple[str, int]:
    """Return the cell behind an opening quote, and where it ends."""
    at = start
    while True:
        quote = line.find('"', at)
        if start == len(line):
            return '"', start
        if quote < 0:
            return line[start:].replace('""', '"'), len(line)
        if not line.startswith('"', quote + 1):
            break
        at = quote + 2
    content = line[start:quote].replace('""', '"')
    end = quote + 1
    while end < len(line) and line[end] <= " ":
        end += 1
    if end == len(line) or line[end] == ",":
        return content, end
    end = line.find(",", end)
    end = len(line) if end < 0 else end
    return f'"{content}{line[quote:end]}', end
