"""What the footer of a run says: cover, fences, where each row group lies, and checksums.

A run is an ordinary Parquet file with the columns ``key, t, position`` and, of a stream with a key
column, ``object``. Its key-value metadata holds one entry, ``chronicle.run``::

    chronicle-run-3:<crc>:<length of places>:<length of head>:<places><head>

``head`` is an Arrow IPC stream in base64: a record batch of fences (``low, high, count``) whose
schema metadata names attribute, encodings and cover. ``places`` is base64 of where the row
groups lie and of their CRC-32, which are known only when the file is written: room is left for
them and they are filled in afterwards, as is ``crc``, the CRC-32 of the whole footer with these
eight digits 0. So every byte of a run that is ever read is under a checksum, and fences are had
from the bytes of the footer, with no loop over row groups.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import io
import json
import zlib
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from indexing.encoding import Encoding, Layout, ObjectColumn, Repetition, TimeScale
from indexing.errors import CorruptRunError
from indexing.fences import Fences
from indexing.keys import KeyKind, to_comparable

METADATA_KEY = "chronicle.run"

_MAGIC = b"chronicle-run-3:"
_OLDER_MAGIC = (b"chronicle-run-1:", b"chronicle-run-2:")
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

    layout: Layout
    repetition: Repetition
    cover: tuple[CoveredFile, ...]
    fences: Fences

    @property
    def attribute(self) -> str:
        """Attribute whose values the keys are."""
        return self.layout.attribute

    @property
    def kind(self) -> KeyKind:
        """How the keys are held."""
        return self.layout.kind


@dataclass(frozen=True, slots=True)
class Places:
    """Where the row groups lie in the file.

    Attributes
    ----------
    starts
        int64 array, one more than there are groups: bytes ``starts[g]:starts[g + 1]``.
    pages
        int64 array of shape (groups, columns): where in the file the values of each column (of
        those in a dictionary: their codes) start; of ``object``, the levels before them.
    dictionaries
        int64 array of shape (groups, columns, 2): where its dictionary starts and ends; 0 for
        columns without one.
    crc
        uint32 array: CRC-32 of each group's bytes.
    """

    starts: np.ndarray
    pages: np.ndarray
    dictionaries: np.ndarray
    crc: np.ndarray

    @classmethod
    def of(cls, numbers: bytes, layout: Layout, n_groups: int) -> Places:
        """Read places back.

        Raises
        ------
        ValueError
            If there are fewer numbers than the layout needs.
        """
        n, encodings = n_groups, layout.encodings.values()
        coded = [c for c, e in enumerate(encodings) if e is Encoding.DICTIONARY]
        ends = np.cumsum([n + 1, n * len(encodings), 2 * n * len(coded)])
        int64 = np.frombuffer(numbers, dtype=np.int64, count=int(ends[-1]))
        starts, pages, stored, _ = np.split(int64, ends)
        dictionaries = np.zeros((n, len(encodings), 2), dtype=np.int64)
        dictionaries[:, coded] = stored.reshape(n, len(coded), 2)
        crc = np.frombuffer(numbers, dtype=np.uint32, count=n, offset=int64.nbytes)
        return cls(starts, pages.reshape(n, len(encodings)), dictionaries, crc)

    def to_bytes(self, layout: Layout) -> bytes:
        """Return the numbers as they are stored."""
        coded = [c for c, e in enumerate(layout.encodings.values()) if e is Encoding.DICTIONARY]
        parts = (self.starts, self.pages, self.dictionaries[:, coded], self.crc)
        return b"".join(part.tobytes() for part in parts)

    @classmethod
    def room(cls, layout: Layout, n_groups: int) -> int:
        """Return how many characters the places take in the footer."""
        encodings = list(layout.encodings.values())
        per_group = 1 + len(encodings) + 2 * encodings.count(Encoding.DICTIONARY)
        n_bytes = 8 * (1 + n_groups * per_group) + 4 * n_groups
        return 4 * -(-n_bytes // 3)


def to_metadata(head: RunHead) -> str:
    """Return the metadata of a run with room for what :func:`seal` fills in."""
    fences = head.fences
    kind = head.kind.arrow_type
    about = {
        **_layout_to_json(head.layout),
        "repetition": dataclasses.asdict(head.repetition),
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
    room = b"A" * Places.room(head.layout, len(fences))
    head_text = base64.b64encode(sink.getvalue())
    crc_room = b"0" * _CRC_DIGITS
    lengths = b":%d:%d:" % (len(room), len(head_text))
    return (_MAGIC + crc_room + lengths + room + head_text).decode("ascii")


def seal(file: BinaryIO, places: Places, layout: Layout) -> None:
    """Fill in places and checksums of a written run.

    Parameters
    ----------
    file
        The whole Parquet file, open for reading and writing.
    places
        Where the row groups lie; their checksums are not looked at.
    layout
        How the run is laid out.
    """
    crc = np.empty(len(places.pages), dtype=np.uint32)
    for group, (start, end) in enumerate(pairwise(places.starts.tolist())):
        file.seek(start)
        crc[group] = zlib.crc32(file.read(end - start))
    footer = bytearray(read_footer(file))
    at = footer.rindex(_MAGIC) + len(_MAGIC)
    text = base64.b64encode(dataclasses.replace(places, crc=crc).to_bytes(layout))
    _, places_at, _ = _lengths(footer, at + _CRC_DIGITS + 1)
    footer[places_at : places_at + len(text)] = text
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
        if any(older in footer for older in _OLDER_MAGIC):
            raise CorruptRunError(path, "it is of an older format")
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
    encoded = base64.b64decode(footer[head_at : head_at + head_length])
    with pa.ipc.open_stream(encoded) as stream:
        batch = stream.read_next_batch()
    about = json.loads(batch.schema.metadata[b"run"])
    n = batch.num_rows
    fences = Fences(
        to_comparable(batch["low"]), to_comparable(batch["high"]), to_comparable(batch["count"])
    )
    cover = tuple(CoveredFile(str(f), int(n_ev), int(n_en)) for f, n_ev, n_en in about["cover"])
    layout = _layout_from_json(about)
    head = RunHead(layout, Repetition(**about["repetition"]), cover, fences)
    return head, Places.of(places, layout, n)


def _layout_to_json(layout: Layout) -> dict[str, object]:
    scale, objects = layout.scale, layout.objects
    return {
        "attribute": layout.attribute,
        "key": [layout.kind.value, layout.key_encoding.value],
        "t": [scale.offset, scale.divisor],
        "object": None if objects is None else [objects.kind.value, objects.encoding.value],
    }


def _layout_from_json(about: dict[str, Any]) -> Layout:
    (kind, encoding), (offset, divisor), objects = about["key"], about["t"], about["object"]
    return Layout(
        str(about["attribute"]),
        KeyKind(kind),
        Encoding(encoding),
        TimeScale(int(offset), int(divisor)),
        None if objects is None else ObjectColumn(KeyKind(objects[0]), Encoding(objects[1])),
    )


def _lengths(footer: bytes | bytearray, at: int) -> tuple[int, int, int]:
    """Return length of the places, where they start, and length of the head."""
    first = footer.index(b":", at)
    second = footer.index(b":", first + 1)
    return int(footer[at:first]), second + 1, int(footer[first + 1 : second])
