"""Find lines of CSV files whose quotes do not close, so that none is taken for an event.

A record of CSV is a line. What a line break in a quoted cell leaves of a record could parse by
chance, and history would have events that nobody wrote: none of its lines is one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from chronicle.errors import SourceError

if TYPE_CHECKING:
    from pyspark.sql import Column

CHUNK_BYTES = 8 << 20
"""Looked at together: little memory, and enough that the work is done by regular expressions."""

_MARK = "a quote is open here: "

_TO_CLOSING = re.compile(r'(?:[^"]++|"")*+"')
"""From inside a quoted cell to its closing quote; a quote inside quotes is doubled."""

_CAN_OPEN = re.compile(r'"(?<![^,\r\n]")(?:[^"\r\n]++|"")*+(?![^\r\n])')
"""What is in every line that leaves a quote open, and in some that close theirs."""

_LINE_END = re.compile(r"(\r\n|\n|\r)")


def is_open_after(line: str, *, inside: bool = False) -> bool:
    """Return whether a quoted cell goes on behind the end of a line. Pure.

    Parameters
    ----------
    line
        Without its end.
    inside
        Whether the line begins inside a quoted cell.

    Examples
    --------
    >>> is_open_after('1,"a'), is_open_after('b",2', inside=True), is_open_after('1,"a""b",a"')
    (True, False, False)
    """
    at = 0
    while True:
        if inside or line.startswith('"', at):
            closing = _TO_CLOSING.match(line, at if inside else at + 1)
            if closing is None:
                return True
            at, inside = closing.end(), False
        # Whatever stands between a closing quote and the next comma belongs to the cell.
        at = line.find(",", at) + 1
        if at == 0:
            return False


def open_lines(lines: Iterable[str], *, inside: bool = False) -> tuple[list[int], bool]:
    """Return which lines have a part of a cell with a line break, and whether one goes on. Pure.

    They are all lines from the one that opens a quote to the one that closes it, or to the last
    one if none does.

    Parameters
    ----------
    lines
        Without their ends.
    inside
        Whether the first begins inside a quoted cell.

    Examples
    --------
    >>> open_lines(['1,"a"', '2,"b', "3,c", 'd"', "4,e"])
    ([1, 2, 3], False)
    """
    found = []
    for number, line in enumerate(lines):
        if inside or '"' in line:
            began, inside = inside, is_open_after(line, inside=inside)
            if began or inside:
                found.append(number)
    return found, inside


def close_quotes(files: Sequence[Path], folder: Path, *, width: int) -> tuple[Path, ...]:
    """Return files to read lines for records from: copies of those that have open lines.

    Spark reads the parts of a file at once, and cannot know at the start of one whether it is
    inside quotes. In a copy ``unmarked`` tells the lines that ``open_lines`` finds.

    Parameters
    ----------
    files
        CSV files, each with a header that closes its quotes.
    folder
        Where copies go; made if there are any.
    width
        Number of cells of a record.

    Raises
    ------
    SourceError
        If a file cannot be read.
    """
    return tuple(
        _copy(path, folder / f"{position}.csv", width=width) if _has_open_lines(path) else path
        for position, path in enumerate(files)
    )


def unmarked(record: Column, *, width: int) -> tuple[Column, Column]:
    """Return whether a record's text is a marked line, and the text as it was written."""
    from pyspark.sql import functions as F  # noqa: N812

    prefix = _prefix(width)
    is_marked = record.startswith(prefix)
    text = record.substr(F.lit(len(prefix) + 1), F.length(record))
    return is_marked, F.when(is_marked, text).otherwise(record)


def _prefix(width: int) -> str:
    """Return what marks a line: one cell more than a record has, so that it is none."""
    return "," * width + _MARK


def _has_open_lines(path: Path) -> bool:
    return any(_CAN_OPEN.search(text) and _open_in(text)[0] for text in _texts(path))


def _open_in(text: str) -> tuple[list[int], bool]:
    return open_lines(_LINE_END.split(text)[::2])


def _copy(path: Path, copy: Path, *, width: int) -> Path:
    """Write a copy of a file with its open lines marked; return where it lies."""
    copy.parent.mkdir(exist_ok=True)
    inside = False
    with copy.open("wb") as file:
        for text in _texts(path):
            parts = _LINE_END.split(text)  # lines and their ends by turns
            found, inside = open_lines(parts[::2], inside=inside)
            for number in found:
                if parts[2 * number].strip():  # a blank line is no record anyway
                    parts[2 * number] = _prefix(width) + parts[2 * number]
            file.write("".join(parts).encode("latin-1"))
    return copy.absolute()


def _texts(path: Path) -> Iterator[str]:
    """Read a file by whole lines; its bytes stand for themselves, whatever they encode."""
    rest = ""
    try:
        with pa.input_stream(path, compression="detect") as stream:
            while chunk := stream.read(CHUNK_BYTES):
                text = rest + chunk.decode("latin-1")
                # A return at the end could be the first half of a line end.
                end = max(text.rfind("\n"), text.rfind("\r", 0, -1)) + 1
                yield text[:end]
                rest = text[end:]
    except (OSError, pa.ArrowInvalid) as error:
        raise SourceError(f"'{path}' cannot be read: {error}") from error
    yield rest
