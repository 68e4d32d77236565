"""Seals written Parquet files: checksums of all their bytes, kept in their own footer.

The key-value metadata of a sealed file holds one entry, ``chronicle.seal``::

    chronicle-seal-1:<crc>:<rows>:<length of names>:<length of chunks>:<subject>:<names><chunks>

``names`` is base64 of the columns' names as a JSON array, for who would not parse the footer for
them. ``chunks`` is base64 of two little-endian uint32 arrays of shape (row groups, columns): the
lengths of the column chunks, which follow each other from byte 4 on, and their CRC-32. They are
known only when the file is written, so room is left for them and filled in afterwards, as is
``crc``, the CRC-32 of the whole footer with these eight digits 0. ``subject`` says whose file it
is, so that a file under the name of another is found. To every other reader the file is an
ordinary one.
"""

from __future__ import annotations

import base64
import binascii
import io
import json
import os
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from chronicle.foreign_text import parse_json

SEAL_KEY = "chronicle.seal"

_MAGIC = b"chronicle-seal-1:"
_CRC_DIGITS = 8
_PARQUET_MAGIC = b"PAR1"
_PARQUET_TAIL = 8  # length of the footer (4), magic (4)
_LIKELY_FOOTER = 1 << 15  # bytes read at once from the end: footers of tree files fit


@dataclass(frozen=True, slots=True)
class Seal:
    """What the footer of a sealed file says of its bytes."""

    starts: npt.NDArray[np.int64]
    """One more than there are column chunks: chunk ``c`` of row group ``g`` lies at
    ``starts[g * n_columns + c]`` and ends where the next one starts."""

    crc: npt.NDArray[np.uint32]
    """CRC-32 of each chunk's bytes, shape (row groups, columns)."""

    def check_bytes(self, data: memoryview, first: int, stop: int) -> None:
        """Compare the checksums of consecutive column chunks.

        ``data`` are their bytes, ``first`` to ``stop`` (half-open) which chunks, counted over all
        row groups. Raises ValueError if a checksum differs or bytes are missing.
        """
        crc = self.crc.ravel()
        base = int(self.starts[first])
        for chunk in range(first, stop):
            start, end = int(self.starts[chunk]) - base, int(self.starts[chunk + 1]) - base
            if end > len(data) or zlib.crc32(data[start:end]) != int(crc[chunk]):
                group, column = divmod(chunk, self.crc.shape[1])
                raise ValueError(
                    f"the checksum of column {column} in its row group {group} differs"
                )


def seal_room(subject: str, *, n_rows: int, n_groups: int, names: Sequence[str]) -> str:
    """Return the metadata entry of a file about to be written, with room for its checksums."""
    room = 4 * -(-8 * n_groups * len(names) // 3)
    text = base64.b64encode(json.dumps(list(names)).encode()).decode("ascii")
    head = f"{'0' * _CRC_DIGITS}:{n_rows}:{len(text)}:{room}:{subject}:"
    return _MAGIC.decode("ascii") + head + text + "A" * room


def seal(path: Path) -> None:
    """Fill in the checksums of a file written with the entry that ``seal_room`` gave.

    Reads the file once more, from the page cache.
    """
    with path.open("r+b") as file:
        footer = bytearray(read_footer(file))
        metadata = parse_metadata(bytes(footer))
        n_groups, n_columns = metadata.num_row_groups, metadata.num_columns
        lengths = np.empty((n_groups, n_columns), np.uint32)
        for g in range(n_groups):
            group = metadata.row_group(g)
            lengths[g] = [group.column(c).total_compressed_size for c in range(n_columns)]
        crc = np.empty((n_groups, n_columns), np.uint32)
        file.seek(len(_PARQUET_MAGIC))
        for g in range(n_groups):
            data = memoryview(file.read(int(lengths[g].sum(dtype=np.int64))))
            start = 0
            for c, length in enumerate(lengths[g].tolist()):
                crc[g, c] = zlib.crc32(data[start : start + length])
                start += length
        footer_at = file.seek(0, io.SEEK_END) - _PARQUET_TAIL - len(footer)
        ends = len(_PARQUET_MAGIC) + int(lengths.sum(dtype=np.int64))
        assert ends == footer_at, "nothing lies between the column chunks and the footer"
        at = footer.rindex(_MAGIC) + len(_MAGIC)
        chunks = base64.b64encode(lengths.tobytes() + crc.tobytes())
        head = _parse_head(bytes(footer), at)
        assert len(chunks) == head.room, "room was left for as many chunks as were written"
        footer[head.chunks_at : head.chunks_at + head.room] = chunks
        footer[at : at + _CRC_DIGITS] = b"%08x" % zlib.crc32(footer)
        file.seek(footer_at)
        file.write(footer)


def read_footer(file: BinaryIO) -> bytes:
    """Return the bytes of the footer of a Parquet file.

    Raises ValueError if the file does not start and end as a Parquet file does.
    """
    size = file.seek(0, os.SEEK_END)
    if size < len(_PARQUET_MAGIC) + _PARQUET_TAIL:
        raise ValueError("it is too short for a Parquet file")
    taken = min(size, _LIKELY_FOOTER)
    file.seek(size - taken)
    end = file.read(taken)
    length = int.from_bytes(end[-_PARQUET_TAIL:-4], "little")
    if end[-4:] != _PARQUET_MAGIC or length > size - _PARQUET_TAIL - len(_PARQUET_MAGIC):
        raise ValueError("it does not end as a Parquet file does")
    if length > taken - _PARQUET_TAIL:
        file.seek(size - _PARQUET_TAIL - length)
        return file.read(length)
    return end[taken - _PARQUET_TAIL - length : taken - _PARQUET_TAIL]


def parse_seal(footer: bytes, *, subject: str) -> Seal | None:
    """Return the seal in a footer, whose own checksum is compared; None if there is none.

    Raises ValueError if the footer is damaged or the file is another subject's.
    """
    at = footer.rfind(_MAGIC)
    if at < 0:
        return None
    at += len(_MAGIC)
    claimed = footer[at : at + _CRC_DIGITS]
    actual = zlib.crc32(footer[at + _CRC_DIGITS :], zlib.crc32(footer[:at] + b"0" * _CRC_DIGITS))
    if claimed != b"%08x" % actual:
        raise ValueError("the checksum of its footer differs")
    try:
        head = _parse_head(footer, at)
        names = parse_json(base64.b64decode(footer[head.names_at : head.chunks_at]))
        chunks = base64.b64decode(footer[head.chunks_at : head.chunks_at + head.room])
        words = np.frombuffer(chunks, np.uint32)
    except (ValueError, binascii.Error) as error:
        raise ValueError(f"its seal cannot be read ({error})") from error
    if head.subject != subject:
        raise ValueError(f"it is the file of '{head.subject}'")
    lengths, crc = words.reshape(2, -1)
    starts = np.empty(len(lengths) + 1, np.int64)
    starts[0] = len(_PARQUET_MAGIC)
    np.cumsum(lengths, out=starts[1:])
    starts[1:] += starts[0]
    return Seal(starts, crc.reshape(-1, max(1, len(names))))


def parse_metadata(footer: bytes) -> pq.FileMetaData:
    """Return the parsed footer; raises what pyarrow raises if it is damaged."""
    return pq.read_metadata(pa.BufferReader(_as_file(footer)))


def _as_file(footer: bytes) -> bytes:
    """Return the least file of this footer: what parses a footer looks for it at a file's end."""
    return b"".join((_PARQUET_MAGIC, footer, len(footer).to_bytes(4, "little"), _PARQUET_MAGIC))


class _Head(NamedTuple):
    """Where the parts of a seal lie in the footer, and what stands before them."""

    names_at: int
    chunks_at: int
    room: int
    subject: str


def _parse_head(footer: bytes, at: int) -> _Head:
    at += _CRC_DIGITS + 1
    fields = []
    for _ in range(4):
        end = footer.index(b":", at)
        fields.append(footer[at:end])
        at = end + 1
    _n_rows, n_names, room = (int(field) for field in fields[:3])
    return _Head(at, at + n_names, room, fields[3].decode("utf-8"))


def check_chunks(path: Path, found: Seal, groups: Iterable[int], columns: Sequence[int]) -> None:
    """Read column chunks of a file and compare their checksums.

    ``columns`` ascend. Raises ValueError if a checksum differs or the file is too short.
    """
    n_columns = found.crc.shape[1]
    # Neighbouring columns are read at once.
    firsts = [i for i in range(len(columns)) if i == 0 or columns[i] != columns[i - 1] + 1]
    runs = [(columns[a], columns[b - 1] + 1) for a, b in pairwise([*firsts, len(columns)])]
    with path.open("rb", buffering=0) as file:
        for group in groups:
            for a, b in runs:
                first, stop = group * n_columns + a, group * n_columns + b
                start, end = int(found.starts[first]), int(found.starts[stop])
                data = os.pread(file.fileno(), end - start, start)
                found.check_bytes(memoryview(data), first, stop)
