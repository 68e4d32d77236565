"""Column files: plain columns of fixed width under checksums, which trees and runs are kept in.

A column file is read by NumPy and never decoded::

    columns | head | tail

Every column is an array of one type, little-endian, at the next multiple of eight bytes. ``head``
is one line of JSON and, behind it, the CRC-32 of each page of 16 KiB of each column (uint32)::

    {"version": 1, "kind": "run", "subject": "...", "about": {...}, "columns": [["t", "u4", 12]]}

``tail`` is 16 bytes: length and CRC-32 of the head (uint32), then ``CHRONCOL``. Where a column lies
follows from the types and lengths before it, so there is no place in the file that could lie: the
columns fill the bytes before the head, or the file is refused before anything is allocated. A
string column ``x`` is two: ``x.ends`` (int64, with a zero in front) and ``x.bytes`` (UTF-8).
"""

from __future__ import annotations

import json
import os
import struct
import tempfile
import uuid
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from chronicle.disk import discard
from chronicle.errors import OlderFormatError
from chronicle.foreign_text import parse_json

VERSION = 1

Values = npt.NDArray[Any]

_MAGIC = b"CHRONCOL"
_TAIL = struct.Struct("<II8s")  # length and CRC-32 of the head, magic
_TYPES = {name: np.dtype(f"<{name}") for name in ("u1", "u2", "u4", "u8", "i8", "f8")}
_ALIGNMENT = 8
_PAGE_BYTES = 1 << 14  # what is compared with its checksum before any byte of it is used
_PARQUET_MAGIC = b"PAR1"
_LIKELY_HEAD = 1 << 15  # bytes read at once from the end: heads of most files fit
_SPOOL_BYTES = 1 << 24  # of a column being written that stay in memory
_COPIED_BYTES = 1 << 20


class ReplacedError(ValueError):
    """Another file has taken the place of the one that was opened."""


@dataclass(frozen=True, slots=True)
class Column:
    """Where a column lies in its file."""

    name: str
    dtype: np.dtype[Any]
    n_rows: int
    start: int
    """First byte."""

    first_page: int
    """Position of the checksum of its first page among those of all columns."""

    @property
    def n_bytes(self) -> int:
        """Bytes of its values."""
        return self.n_rows * self.dtype.itemsize


@dataclass(frozen=True, slots=True)
class ColumnFile:
    """An opened column file. Reads are thread-safe and hold no file handle in between."""

    path: Path
    about: dict[str, Any]
    """What the writer said of the columns."""

    columns: Mapping[str, Column]
    size_bytes: int
    identity: tuple[int, int, int]
    crc: npt.NDArray[np.uint32]
    checked: bytearray = field(repr=False)
    """Whether each page was found to match its checksum, 0 or 1. Files never change once they are
    committed, so once per opened file is enough."""

    def n_rows(self, name: str, dtype: str) -> int:
        """Return the length of a column that must be of this type."""
        column = self.columns.get(name)
        if column is None or column.dtype != _TYPES[dtype]:
            found = "none" if column is None else column.dtype.str[1:]
            raise ValueError(f"its column '{name}' is to be of type {dtype}, not {found}")
        return column.n_rows

    def read(
        self,
        *wanted: tuple[str, int, int],
        borrow: Callable[[int], Values] | None = None,
    ) -> list[Values]:
        """Return rows ``start`` to ``stop`` (half-open) of columns, their checksums compared.

        ``wanted`` has name, start and stop of each. ``borrow`` gives memory for so many bytes, to
        read all of them into; fresh memory if None. Raises ReplacedError if another file lies in
        its place, ValueError if a checksum differs, the file is too short or there are no such
        rows.
        """
        if not wanted:
            return []
        stretches = [self._stretch(*one) for one in wanted]
        room = sum(stretch.room for stretch in stretches)
        free = np.empty(room, np.uint8) if borrow is None else borrow(room)
        found = []
        file = os.open(self.path, os.O_RDONLY)
        try:
            if _identity(file) != self.identity:
                raise ReplacedError("another file has taken its place")
            for stretch in stretches:
                found.append(self._read_stretch(file, stretch, free))
                free = free[stretch.room :]
        finally:
            os.close(file)
        return found

    def read_all(self, *names: str) -> list[Values]:
        """Return whole columns; raises as ``read``."""
        return self.read(*((name, 0, self.columns[name].n_rows) for name in names))

    def read_strings(self, name: str, start: int, stop: int) -> pa.StringArray:
        """Return strings ``start`` to ``stop`` of a string column; raises as ``read``."""
        [ends] = self.read((f"{name}.ends", start, stop + 1))
        first, last = int(ends[0]), int(ends[-1])
        if (ends[1:] < ends[:-1]).any() or last - first >= 1 << 31:
            raise ValueError(f"the ends of its strings '{name}' do not ascend")
        [texts] = self.read((f"{name}.bytes", first, last))
        offsets = (ends - first).astype(np.int32)
        strings = pa.StringArray.from_buffers(
            stop - start, pa.py_buffer(offsets), pa.py_buffer(texts)
        )
        try:
            strings.validate(full=True)
        except pa.ArrowException as error:
            raise ValueError(f"its strings '{name}' are no text ({error})") from error
        return strings

    def n_strings(self, name: str) -> int:
        """Return the length of a string column; raises as ``n_rows``."""
        self.n_rows(f"{name}.bytes", "u1")
        return self.n_rows(f"{name}.ends", "i8") - 1

    def check(self) -> None:
        """Compare all checksums; raises as ``read``."""
        self.checked[:] = bytes(len(self.checked))
        for name, column in self.columns.items():
            step = _COPIED_BYTES // column.dtype.itemsize
            for start in range(0, column.n_rows, step):
                self.read((name, start, min(column.n_rows, start + step)))

    def _stretch(self, name: str, start: int, stop: int) -> _Stretch:
        """Return the bytes to read: of pages that were not compared yet all of them."""
        column = self.columns[name]
        if not 0 <= start <= stop <= column.n_rows:
            raise ValueError(f"its column '{name}' has no rows {start} to {stop}")
        width = column.dtype.itemsize
        first, last = start * width, stop * width
        page, end = first // _PAGE_BYTES, -(-last // _PAGE_BYTES)
        at = column.first_page
        if first == last or self.checked.find(0, at + page, at + end) < 0:
            return _Stretch(column, first, last, 0, last - first, range(0))
        low, high = page * _PAGE_BYTES, min(end * _PAGE_BYTES, column.n_bytes)
        return _Stretch(column, low, high, first - low, last - low, range(page, end))

    def _read_stretch(self, file: int, stretch: _Stretch, free: Values) -> Values:
        column = stretch.column
        data = free[: stretch.last - stretch.first]
        _fill(file, data, column.start + stretch.first)
        for i, page in enumerate(stretch.unchecked):
            at = column.first_page + page
            if zlib.crc32(data.data[i * _PAGE_BYTES : (i + 1) * _PAGE_BYTES]) != int(self.crc[at]):
                raise ValueError(f"the checksum of its column '{column.name}' differs")
            self.checked[at] = 1
        return data[stretch.low : stretch.high].view(column.dtype)


class _Stretch(NamedTuple):
    """Bytes ``first`` to ``last`` of a column, of which ``low`` to ``high`` are wanted."""

    column: Column
    first: int
    last: int
    low: int
    high: int
    unchecked: range
    """Pages to compare; the stretch begins with the first of them."""

    @property
    def room(self) -> int:
        """Bytes it takes: the next one starts where any number may."""
        return -(-(self.last - self.first) // _ALIGNMENT) * _ALIGNMENT


def open_columns(path: Path, *, kind: str, subject: str | None = None) -> ColumnFile:
    """Open a column file: its head is read and checked, of the columns nothing is read.

    ``subject`` says whose file it must be; None for anybody's. Raises OlderFormatError if it is a
    Parquet file, as older versions wrote them, ValueError if it is damaged, of a later format, of
    another kind or another subject's.
    """
    file = os.open(path, os.O_RDONLY)
    try:
        identity = _identity(file)
        size = identity[2]
        end = np.empty(min(size, _LIKELY_HEAD), np.uint8)
        _fill(file, end, size - len(end))
        length, crc = _parse_tail(end[-_TAIL.size :].tobytes(), size)
        head_at = size - _TAIL.size - length
        head = end[max(0, len(end) - _TAIL.size - length) : len(end) - _TAIL.size]
        if len(head) < length:
            head = np.empty(length, np.uint8)
            _fill(file, head, head_at)
    finally:
        os.close(file)
    if zlib.crc32(head.data) != crc:
        raise ValueError("the checksum of its head differs")
    text, _, checksums = head.tobytes().partition(b"\n")
    columns, about = _parse_head(text, head_at, len(checksums), kind, subject)
    page_crc = np.frombuffer(checksums, "<u4")
    return ColumnFile(path, about, columns, size, identity, page_crc, bytearray(len(page_crc)))


def _parse_tail(tail: bytes, size: int) -> tuple[int, int]:
    """Return length and checksum of the head."""
    if tail[-4:] == _PARQUET_MAGIC:
        raise OlderFormatError("an older Chronicle wrote it")
    if len(tail) < _TAIL.size or tail[-len(_MAGIC) :] != _MAGIC:
        raise ValueError("it does not end as a column file does")
    length, crc, _ = _TAIL.unpack(tail)
    if length > size - _TAIL.size:
        raise ValueError("it is shorter than its head")
    return length, crc


def _parse_head(
    text: bytes, head_at: int, n_checksum_bytes: int, kind: str, subject: str | None
) -> tuple[dict[str, Column], dict[str, Any]]:
    """Return the columns, which fill what lies before the head exactly, and what they hold."""
    try:
        head = parse_json(text)
        version, about, listed = head["version"], head["about"], head["columns"]
        found = str(head["kind"]), str(head["subject"])
        is_plain = type(version) is int and type(about) is dict and type(listed) is list
        parts = [(str(n), _TYPES[t], r) for n, t, r in listed] if version == VERSION else []
    except (ValueError, LookupError, TypeError) as error:
        raise ValueError(f"its head cannot be read ({error!r})") from error
    if not is_plain or any(type(n_rows) is not int or n_rows < 0 for _, _, n_rows in parts):
        raise ValueError("its head is of another form")
    if version != VERSION:
        raise ValueError(
            f"it is of format {version}, this Chronicle reads {VERSION}: a later one wrote it"
        )
    if found[0] != kind or subject not in (None, found[1]):
        raise ValueError(f"it is the {found[0]} of '{found[1]}'")
    columns: dict[str, Column] = {}
    at = n_pages = 0
    for name, dtype, n_rows in parts:
        columns[name] = Column(name, dtype, n_rows, at, n_pages)
        at += -(-columns[name].n_bytes // _ALIGNMENT) * _ALIGNMENT
        n_pages += -(-columns[name].n_bytes // _PAGE_BYTES)
    if len(columns) != len(parts) or at != head_at or 4 * n_pages != n_checksum_bytes:
        raise ValueError("its columns do not fill it")
    return columns, about


class ColumnWriter:
    """Writes a column file, columns growing side by side; it appears whole or not at all.

    Until it is finished large columns lie in files without a name.
    """

    def __init__(self, path: Path, *, kind: str, subject: str) -> None:
        self._path = path
        self._kind = kind
        self._subject = subject
        self._columns: dict[str, tuple[np.dtype[Any], IO[bytes]]] = {}
        self._ends: dict[str, int] = {}

    def add(self, name: str, dtype: str) -> None:
        """Add an empty column behind the others."""
        folder = str(self._path.parent)
        spool = tempfile.SpooledTemporaryFile(_SPOOL_BYTES, mode="w+b", dir=folder)  # noqa: SIM115
        self._columns[name] = _TYPES[dtype], spool

    def add_strings(self, name: str) -> None:
        """Add an empty string column."""
        self.add(f"{name}.ends", "i8")
        self.add(f"{name}.bytes", "u1")
        self.append(f"{name}.ends", np.zeros(1, np.int64))
        self._ends[name] = 0

    def append(self, name: str, values: Values) -> None:
        """Append values, which the column's type holds exactly."""
        dtype, spool = self._columns[name]
        spool.write(np.ascontiguousarray(values, dtype).data.cast("B"))

    def append_strings(self, name: str, strings: pa.StringArray) -> None:
        """Append strings, none of them null."""
        _, offsets, texts = strings.buffers()
        if not len(strings):
            return
        ends = np.frombuffer(offsets, np.int32)[strings.offset : strings.offset + len(strings) + 1]
        ends = ends.astype(np.int64)
        if texts is not None:
            self.append(f"{name}.bytes", np.frombuffer(texts, np.uint8)[ends[0] : ends[-1]])
        self.append(f"{name}.ends", ends[1:] + (self._ends[name] - ends[0]))
        self._ends[name] += int(ends[-1] - ends[0])

    def finish(self, about: Mapping[str, Any]) -> int:
        """Write the file and return its size in bytes."""
        draft = self._path.with_name(f"_{self._path.name}.{uuid.uuid4().hex}.draft")
        try:
            with draft.open("wb") as file:
                listed: list[list[Any]] = []
                crc: list[int] = []
                for name, (dtype, spool) in self._columns.items():
                    n_bytes = _copy(spool, file, crc)
                    listed.append([name, dtype.str[1:], n_bytes // dtype.itemsize])
                    file.write(bytes(-n_bytes % _ALIGNMENT))
                text = json.dumps(
                    {
                        "version": VERSION,
                        "kind": self._kind,
                        "subject": self._subject,
                        "about": about,
                        "columns": listed,
                    }
                )
                head = text.encode("ascii") + b"\n" + np.array(crc, "<u4").tobytes()
                file.write(head + _TAIL.pack(len(head), zlib.crc32(head), _MAGIC))
                size = file.tell()
            draft.replace(self._path)
        finally:
            discard([draft])
            self.close()
        return size

    def close(self) -> None:
        """Let go of what was written."""
        for _, spool in self._columns.values():
            with suppress(OSError):  # the disk may take no byte more
                spool.close()


def _copy(spool: IO[bytes], file: IO[bytes], crc: list[int]) -> int:
    """Copy a column and note the checksums of its pages; return its bytes."""
    n_bytes = 0
    spool.seek(0)
    while part := memoryview(spool.read(_COPIED_BYTES)):
        crc += [zlib.crc32(part[a : a + _PAGE_BYTES]) for a in range(0, len(part), _PAGE_BYTES)]
        file.write(part)
        n_bytes += len(part)
    return n_bytes


def _identity(file: int) -> tuple[int, int, int]:
    found = os.fstat(file)
    return found.st_ino, found.st_mtime_ns, found.st_size


def _fill(file: int, data: Values, at: int) -> None:
    """Read bytes from ``at`` on until ``data`` is full."""
    free = data.data.cast("B") if len(data) else memoryview(b"")
    while len(free):
        n = os.preadv(file, [free], at)
        if not n:
            raise ValueError(f"it ends before byte {at + len(free)}")
        free, at = free[n:], at + n


def stretches_of(groups: Values) -> list[tuple[int, int]]:
    """Return the stretches, half-open, of numbers that follow each other, of ascending ones."""
    if not len(groups):
        return []
    first, last = int(groups[0]), int(groups[-1])
    if last - first + 1 == len(groups):
        return [(first, last + 1)]
    breaks = np.flatnonzero(np.diff(groups) != 1) + 1
    cuts = pairwise([0, *breaks.tolist(), len(groups)])
    return [(int(groups[a]), int(groups[b - 1]) + 1) for a, b in cuts]
