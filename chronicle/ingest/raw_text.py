"""Text files as bytes: decompressed, in UTF-8, in lines of bounded length; and their records."""

from __future__ import annotations

import codecs
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from chronicle.errors import SourceError

RECORD_BYTES_MAX = 2 << 20
"""Bytes of a line, and of a record: bounds what a file can make a reader hold at once."""

_CHUNK_BYTES = 1 << 20

NOT_UTF8 = "not UTF-8 text; name its --encoding, such as latin-1"
"""What is said of text in another encoding than the one that is assumed."""

_COMPRESSIONS = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}
"""By ending, in Arrow's words."""

_OF_DUCKDB = ("none", "gzip", "zstd")
"""What DuckDB decompresses itself, in its words and Arrow's."""


def too_long(path: Path, line: int) -> SourceError:
    """Return the refusal of a record that no reader should hold."""
    return SourceError(
        f"the record that begins at line {line:,} of '{path}' is longer than "
        f"{RECORD_BYTES_MAX >> 20} MiB; it is no line of a text file, or a quote is never closed: "
        "mend it, or leave the file out"
    )


def compression_of(path: Path) -> str:
    """Return how a file is compressed, by its ending."""
    return _COMPRESSIONS.get(path.suffix.lower(), "none")


def utf8_chunks(path: Path, encoding: str, *, compression: str | None = None) -> Iterator[bytes]:
    """Yield a file's text in UTF-8, decompressed by its ending unless ``compression`` says how.

    What is said to be UTF-8 comes as it is, whether it is or not. Other text that is not in its
    encoding is refused.
    """
    decoder = None if encoding == "utf-8" else codecs.getincrementaldecoder(encoding)()
    try:
        kind = compression or compression_of(path)
        with pa.input_stream(path, compression=None if kind == "none" else kind) as stream:
            while chunk := stream.read(_CHUNK_BYTES):
                yield chunk if decoder is None else decoder.decode(chunk).encode()
            if decoder is not None:
                yield decoder.decode(b"", True).encode()
    except UnicodeError as error:
        raise SourceError(
            f"'{path}' is not {encoding} text ({error}); name its --encoding"
        ) from error
    except (OSError, pa.ArrowInvalid) as error:
        raise SourceError(f"'{path}' cannot be read: {error}") from error


def lines_of(path: Path, encoding: str, *, compression: str | None = None) -> Iterator[bytes]:
    """Yield the lines of a text file with their ends, LF or CR LF; a lone CR ends none."""
    rest, number = b"", 0
    for chunk in utf8_chunks(path, encoding, compression=compression):
        lines = _split(rest + chunk)
        rest = lines.pop()
        number += len(lines)
        if len(rest) > RECORD_BYTES_MAX or any(len(line) > RECORD_BYTES_MAX for line in lines):
            raise too_long(path, number + 1)
        yield from lines
    if rest:
        yield rest


def _split(text: bytes) -> list[bytes]:
    """Return the lines that end in a text, with their ends, and what is left."""
    parts = text.split(b"\n")
    return [part + b"\n" for part in parts[:-1]] + parts[-1:]


@dataclass(frozen=True, slots=True)
class LineEnds:
    """How often lines of a text end in each way."""

    n_lf: int
    n_crlf: int
    n_cr: int
    """Without a line feed behind."""

    n_lines: int
    """Those that end with a line feed, and what is behind the last."""

    @property
    def is_mixed(self) -> bool:
        """Whether they end in more than one way, or in none that other programs write today."""
        return self.n_cr > 0 or (self.n_lf > 0 and self.n_crlf > 0)


def look_over(path: Path, chunks: Iterable[bytes]) -> LineEnds:
    """Count the ends of lines, and refuse a line that is too long in constant memory."""
    n_all_lf = n_crlf = n_all_cr = since = 0
    before = b""
    for chunk in chunks:
        if before == b"\r" or b"\r" in chunk:
            n_all_cr += chunk.count(b"\r")
            n_crlf += chunk.count(b"\r\n") + (before == b"\r" and chunk[:1] == b"\n")
        first = _first_end(chunk)
        since += len(chunk) if first < 0 else first
        if since > RECORD_BYTES_MAX:
            raise too_long(path, 1 + n_all_lf + n_all_cr - n_crlf)
        if first >= 0:
            since = len(chunk) - 1 - max(chunk.rfind(b"\n"), chunk.rfind(b"\r"))
        n_all_lf += chunk.count(b"\n")
        before = chunk[-1:] or before
    n_lines = n_all_lf + (before not in (b"", b"\n"))
    return LineEnds(n_all_lf - n_crlf, n_crlf, n_all_cr - n_crlf, n_lines)


def _first_end(chunk: bytes) -> int:
    at = chunk.find(b"\n")
    return at if at >= 0 else chunk.find(b"\r")


@dataclass(frozen=True, slots=True)
class PlainText:
    """A text file as DuckDB reads it."""

    path: Path
    compression: str
    ends: LineEnds


@contextmanager
def plain_text(path: Path, encoding: str, *, same_ends: bool = False) -> Iterator[PlainText]:
    """Lend a file that holds the text in UTF-8, compressed in no way DuckDB does not know.

    It is the file itself, or a copy that goes with the block. With ``same_ends`` all lines end with
    LF, those in quoted cells too. Lines too long are refused.
    """
    compression = compression_of(path)
    if compression in _OF_DUCKDB and encoding == "utf-8" and not same_ends:
        ends = look_over(path, utf8_chunks(path, encoding))
        if set(str(path)).isdisjoint("*?[]{}\\"):
            yield PlainText(path, compression, ends)
            return
        with tempfile.TemporaryDirectory(prefix="chronicle-") as folder:
            link = Path(folder) / "text"  # DuckDB would take the name for a pattern
            link.symlink_to(path)
            yield PlainText(link, compression, ends)
        return
    with tempfile.TemporaryDirectory(prefix="chronicle-") as folder:
        copy = Path(folder) / "text"
        with copy.open("wb") as file:
            chunks = utf8_chunks(path, encoding)
            ends = look_over(path, _copied(_same_ends(chunks) if same_ends else chunks, file.write))
        yield PlainText(copy, "none", ends)


def _copied(chunks: Iterable[bytes], write: object) -> Iterator[bytes]:
    assert callable(write)
    for chunk in chunks:
        write(chunk)
        yield chunk


def _same_ends(chunks: Iterable[bytes]) -> Iterator[bytes]:
    rest = b""
    for chunk in chunks:
        text = rest + chunk
        rest = b"\r" if text.endswith(b"\r") else b""  # the first half of a line end, perhaps
        text = text[: len(text) - len(rest)]
        yield text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    yield rest.replace(b"\r", b"\n")


# ---------------------------------------------------------------------------------------------
# Records as they are handed on: cells by column, and what is no record.

BATCH_RECORDS = 1 << 16
"""Records handed on together."""


@dataclass(frozen=True, slots=True)
class RecordBatch:
    """Records that follow one another in a file."""

    first: int
    """Number of the first among the records of the file, from 0."""

    cells: dict[str, pa.Array]
    """By column: texts, or what JSON says of the type; null where there is no value."""

    n_records: int

    nested: dict[str, pa.Array]
    """Masks of cells that hold an object or an array, for columns that have any."""


class Place(NamedTuple):
    """Where a record stands in its file."""

    line: int
    """Its first line, from 1."""

    text: str
    """The record as it is written."""


class Reject(NamedTuple):
    """What stands in a file and is no record."""

    line: int
    text: str
    reason: str
