"""What the footer of a run says: cover, fences, where each row group lies, and checksums.

A run is an ordinary Parquet file with the columns ``key, t, position``. Its key-value
metadata holds one entry, ``chronicle.run``::

    chronicle-run-2:<crc>:<length of places>:<length of head>:<places><head>

``head`` is an Arrow IPC stream in base64: a record batch of fences (``low, high, count``) whose
schema metadata names attribute and cover. ``places`` is base64 of where the row groups lie and of
their CRC-32, which are known only when the file is written: room is left for them and they are
filled in afterwards, as is ``crc``, the CRC-32 of the whole footer with these eight digits 0.
So every byte of a run that is ever read is under a checksum, and fences are had from the bytes of
the footer, with no loop over row groups.
"""

from __future__ import annotations

import base64
import binascii
import io
import json
import zlib
from dataclasses import dataclass
from itertools import pairwise
from typing import BinaryIO

import numpy as np
import pyarrow as pa

from indexing.errors import CorruptRunError
from indexing.fences import Fences
from indexing.keys import KeyKind, to_comparable

METADATA_KEY = "chronicle.run"

_MAGIC = b"chronicle-run-2:"
_CRC_DIGITS = 8
_PARQUET_TAIL = 8  # length of the footer (4), magic (4)


@dataclass(frozen=True, slots=True)
class CoveredFile:
    """A data file whose entries a run holds."""

    name: str
    n_events: int
    n_entries: int


@dataclass(frozen=True, slots=True)
class RunHead:
    """What is known of a run before any entry is read."""

    attribute: str
    kind: KeyKind
    cover: tuple[CoveredFile, ...]
    fences: Fences


@dataclass(frozen=True, slots=True)
class Places:
    """Where the row groups lie in the file.

    Attributes
    ----------
    starts
        int64 array, one more than there are groups: bytes ``starts[g]:starts[g + 1]``.
    pages
        int64 array of shape (groups, 3): where in the file the values of key (of strings: the
        codes of their dictionary), t and position start.
    dictionaries
        int64 array of shape (groups, 2): where the dictionary of strings starts and ends; 0
        for other keys.
    crc
        uint32 array: CRC-32 of each group's bytes.
    """

    starts: np.ndarray
    pages: np.ndarray
    dictionaries: np.ndarray
    crc: np.ndarray


def to_metadata(head: RunHead) -> str:
    """Return the metadata of a run with room for what :func:`seal` fills in."""
    fences = head.fences
    kind = head.kind.arrow_type
    about = {
        "attribute": head.attribute,
        "cover": [[c.name, c.n_events, c.n_entries] for c in head.cover],
    }
    batch = pa.record_batch(
        {
            "low": pa.array(fences.low, kind),
            "high": pa.array(fences.high, kind),
            "count": pa.array(fences.count, pa.int64()),
        }
    ).replace_schema_metadata({"run": json.dumps(about)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    room = b"A" * _places_length(len(fences))
    head_text = base64.b64encode(sink.getvalue())
    crc_room = b"0" * _CRC_DIGITS
    lengths = b":%d:%d:" % (len(room), len(head_text))
    return (_MAGIC + crc_room + lengths + room + head_text).decode("ascii")


def seal(
    file: BinaryIO, *, starts: np.ndarray, pages: np.ndarray, dictionaries: np.ndarray
) -> None:
    """Fill in places and checksums of a written run.

    Parameters
    ----------
    file
        The whole Parquet file, open for reading and writing.
    starts, pages, dictionaries
        As in :class:`Places`.
    """
    crc = np.empty(len(pages), dtype=np.uint32)
    for group, (start, end) in enumerate(pairwise(starts.tolist())):
        file.seek(start)
        crc[group] = zlib.crc32(file.read(end - start))
    footer = bytearray(read_footer(file))
    at = footer.rindex(_MAGIC) + len(_MAGIC)
    places = base64.b64encode(b"".join(a.tobytes() for a in (starts, pages, dictionaries, crc)))
    _, places_at, _ = _lengths(footer, at + _CRC_DIGITS + 1)
    footer[places_at : places_at + len(places)] = places
    footer[at : at + _CRC_DIGITS] = b"%08x" % zlib.crc32(footer)
    file.seek(-_PARQUET_TAIL - len(footer), io.SEEK_END)
    file.write(footer)


def read_footer(file: BinaryIO) -> bytes:
    """Return the bytes of the footer of a Parquet file.

    Raises
    ------
    ValueError
        If the file does not end as a Parquet file does.
    """
    size = file.seek(0, io.SEEK_END)
    if size < _PARQUET_TAIL:
        raise ValueError("it is too short for a Parquet file")
    file.seek(size - _PARQUET_TAIL)
    tail = file.read(_PARQUET_TAIL)
    length = int.from_bytes(tail[:4], "little")
    if tail[4:] != b"PAR1" or length > size - _PARQUET_TAIL:
        raise ValueError("it does not end as a Parquet file does")
    file.seek(size - _PARQUET_TAIL - length)
    return file.read(length)


def parse_footer(footer: bytes, path: str) -> tuple[RunHead, Places]:
    """Return what the footer of a run says.

    Raises
    ------
    CorruptRunError
        If the checksum differs or there is no run in it.
    """
    at = footer.rfind(_MAGIC)
    if at < 0:
        raise CorruptRunError(path, "its footer names no run of a known format")
    at += len(_MAGIC)
    claimed = footer[at : at + _CRC_DIGITS]
    actual = zlib.crc32(footer[at + _CRC_DIGITS :], zlib.crc32(footer[:at] + b"0" * _CRC_DIGITS))
    if claimed != b"%08x" % actual:
        raise CorruptRunError(path, "the checksum of its footer differs")
    try:
        return _parse_metadata(footer, at + _CRC_DIGITS + 1)
    except (ValueError, KeyError, TypeError, binascii.Error, pa.ArrowException) as error:
        raise CorruptRunError(path, f"its footer cannot be read: {error}") from error


def _parse_metadata(footer: bytes, at: int) -> tuple[RunHead, Places]:
    places_length, places_at, head_length = _lengths(footer, at)
    head_at = places_at + places_length
    places = base64.b64decode(footer[places_at:head_at])
    head = base64.b64decode(footer[head_at : head_at + head_length])
    with pa.ipc.open_stream(head) as stream:
        batch = stream.read_next_batch()
    about = json.loads(batch.schema.metadata[b"run"])
    n = batch.num_rows
    fences = Fences(
        to_comparable(batch["low"]), to_comparable(batch["high"]), to_comparable(batch["count"])
    )
    cover = tuple(CoveredFile(str(f), int(n_ev), int(n_en)) for f, n_ev, n_en in about["cover"])
    kind = KeyKind(str(batch.schema.field("low").type))
    return (
        RunHead(str(about["attribute"]), kind, cover, fences),
        Places(
            np.frombuffer(places, dtype=np.int64, count=n + 1),
            np.frombuffer(places, dtype=np.int64, count=3 * n, offset=8 * (n + 1)).reshape(n, 3),
            np.frombuffer(places, np.int64, 2 * n, 8 * (4 * n + 1)).reshape(n, 2),
            np.frombuffer(places, dtype=np.uint32, count=n, offset=8 * (6 * n + 1)),
        ),
    )


def _lengths(footer: bytes | bytearray, at: int) -> tuple[int, int, int]:
    """Return length of the places, where they start, and length of the head."""
    first = footer.index(b":", at)
    second = footer.index(b":", first + 1)
    return int(footer[at:first]), second + 1, int(footer[first + 1 : second])


def _places_length(n_groups: int) -> int:
    n_bytes = 8 * (n_groups + 1) + (3 + 2) * 8 * n_groups + 4 * n_groups
    return 4 * -(-n_bytes // 3)
