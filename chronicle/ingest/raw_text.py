"""Text files as bytes: decompressed, in UTF-8, in lines of bounded length; and their records."""

from __future__ import annotations

import codecs
import gzip
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from chronicle.errors import SourceError

RECORD_BYTES_MAX = 2 << 20
"""Bytes of a line, and of a record: bounds what a file can make a reader hold at once."""

_CHUNK_BYTES = 1 << 20

NOT_UTF8 = "not UTF-8 text; name its --encoding, such as latin-1"
"""What is said of text in another encoding than the one that is assumed."""

_COMPRESSIONS = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}
"""By ending, in Arrow's words."""


def too_long(path: Path, line: int) -> SourceError:
    """Return the refusal of a record that no reader should hold."""
    return SourceError(
        f"the record that begins at line {line:,} of '{path}' is longer than "
        f"{RECORD_BYTES_MAX >> 20} MiB; it is no line of a text file, or a quote is never closed: "
        "mend it, or leave the file out"
    )


def utf8_chunks(path: Path, encoding: str) -> Iterator[bytes]:
    """Yield a file's text in UTF-8, decompressed by its ending.

    What is said to be UTF-8 comes as it is, whether it is or not. Other text that is not in its
    encoding is refused.
    """
    decoder = None if encoding == "utf-8" else codecs.getincrementaldecoder(encoding)()
    try:
        for chunk in _decompressed(path):
            yield chunk if decoder is None else decoder.decode(chunk).encode()
        if decoder is not None:
            yield decoder.decode(b"", True).encode()
    except UnicodeError as error:
        raise SourceError(
            f"'{path}' is not {encoding} text ({error}); name its --encoding"
        ) from error
    except (OSError, EOFError, pa.ArrowInvalid, zlib.error) as error:
        raise SourceError(f"'{path}' cannot be read: {error}") from error


def _decompressed(path: Path) -> Iterator[bytes]:
    kind = _COMPRESSIONS.get(path.suffix.lower())
    # Arrow takes the zeros behind a gzip file, with which tapes and object stores pad, for data.
    is_gzip = kind == "gzip"
    opened = gzip.open(path) if is_gzip else pa.input_stream(path, compression=kind)  # noqa: SIM115
    with opened as stream:
        while chunk := stream.read(_CHUNK_BYTES):
            yield chunk


def lines_of(path: Path, encoding: str) -> Iterator[bytes]:
    """Yield the lines of a text file with their ends, LF or CR LF; a lone CR ends none."""
    rest, number = b"", 0
    for chunk in utf8_chunks(path, encoding):
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


# ---------------------------------------------------------------------------------------------
# Records as they are handed on: cells by column, and what is no record.


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

    kinds: dict[str, npt.NDArray[np.int8]] = field(default_factory=dict)
    """What JSON says each cell is (``cells.JSON_NUMBER`` and so on), for columns of several."""


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
