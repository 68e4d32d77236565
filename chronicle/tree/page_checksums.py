"""Compares the checksums of Parquet pages without decoding them, for readers that do not compare.

DuckDB is one. A page is a header in Thrift's compact protocol (a struct whose fields 3 and 4 are
the length of what follows and its CRC-32) and that many bytes; pages follow each other in a column
chunk. Most writers give either all pages of a file a checksum or none.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection
from pathlib import Path
from typing import BinaryIO, NamedTuple

import pyarrow.parquet as pq

_HEADER_BYTES = 1 << 12
"""Read at once for a header, and doubled until it fits: it may hold the extremes of texts."""

_HEADER_BYTES_MAX = 1 << 24

_LENGTH, _CRC = 3, 4


class PageHeader(NamedTuple):
    """What is needed of the header of a page."""

    n_bytes: int
    """Of the header itself."""

    n_data_bytes: int
    crc: int | None
    """Of the data, as an unsigned number; None if the writer gave none."""


def check_pages(
    path: Path,
    metadata: pq.FileMetaData | None = None,
    *,
    groups: Collection[int] | None = None,
    columns: Collection[str] | None = None,
) -> None:
    """Compare the checksums of the pages of a Parquet file, where it has them.

    Parameters
    ----------
    path
        The file.
    metadata
        Its footer, if it was parsed before.
    groups, columns
        Which row groups, and which columns by name, in small letters; all if None.

    Raises
    ------
    ValueError
        If a checksum differs, or a page does not lie where the footer says.
    OSError
        If the file cannot be read.
    """
    footer = pq.read_metadata(path) if metadata is None else metadata
    with path.open("rb") as file:
        for g in range(footer.num_row_groups) if groups is None else groups:
            group = footer.row_group(g)
            for c in range(group.num_columns):
                chunk = group.column(c)
                name = chunk.path_in_schema.partition(".")[0]
                if columns is None or name.lower() in columns:
                    _check_chunk(file, chunk, f"column '{name}' in its row group {g}")


def _check_chunk(file: BinaryIO, chunk: pq.ColumnChunkMetaData, what: str) -> None:
    at, end = chunk.data_page_offset, 0
    if chunk.has_dictionary_page and 0 < (chunk.dictionary_page_offset or 0) < at:
        at = chunk.dictionary_page_offset
    end = at + chunk.total_compressed_size
    while at < end:
        header = _read_header(file, at, what)
        if header.crc is None:
            return
        file.seek(at + header.n_bytes)
        data = file.read(header.n_data_bytes)
        if len(data) < header.n_data_bytes or zlib.crc32(data) != header.crc:
            raise ValueError(f"the checksum of a page of {what} differs")
        at += header.n_bytes + header.n_data_bytes


def _read_header(file: BinaryIO, at: int, what: str) -> PageHeader:
    n_bytes = _HEADER_BYTES
    while True:
        file.seek(at)
        data = file.read(n_bytes)
        try:
            return parse_page_header(data)
        except IndexError:
            if len(data) == n_bytes and n_bytes < _HEADER_BYTES_MAX:
                n_bytes *= 2
                continue
            raise ValueError(f"the header of a page of {what} is cut off") from None
        except (ValueError, RecursionError) as error:
            raise ValueError(f"the header of a page of {what} is damaged ({error})") from error


def parse_page_header(data: bytes) -> PageHeader:
    """Return what the header at the beginning of some bytes says. Pure.

    Raises IndexError where it goes on behind them, ValueError where it is none.
    """
    reader = _Compact(data)
    numbers = reader.struct()
    length, crc = numbers.get(_LENGTH), numbers.get(_CRC)
    if length is None or length < 0:
        raise ValueError("it has no length")
    return PageHeader(reader.at, length, None if crc is None else crc & 0xFFFFFFFF)


_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)


class _Compact:
    """Walks over bytes of Thrift's compact protocol; IndexError where they end too early."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0

    def struct(self) -> dict[int, int]:
        """Return the whole numbers among the fields of a struct, by id."""
        numbers: dict[int, int] = {}
        field = 0
        while head := self._byte():
            delta, kind = head >> 4, head & 0x0F
            field = field + delta if delta else self._number()
            if kind in (_I16, _I32, _I64):
                numbers[field] = self._number()
            elif kind not in (_TRUE, _FALSE):  # their value is their type
                self._skip(kind)
        return numbers

    def _skip(self, kind: int) -> None:
        if kind in (_TRUE, _FALSE, _BYTE):  # of a list: a byte each
            self._move(1)
        elif kind in (_I16, _I32, _I64):
            self._varint()
        elif kind == _DOUBLE:
            self._move(8)
        elif kind == _BINARY:
            self._move(self._varint())
        elif kind in (_LIST, _SET):
            head = self._byte()
            n = head >> 4 if head >> 4 < 15 else self._varint()
            for _ in range(n):
                self._skip(head & 0x0F)
        elif kind == _MAP:
            n = self._varint()
            kinds = self._byte() if n else 0
            for _ in range(n):
                self._skip(kinds >> 4)
                self._skip(kinds & 0x0F)
        elif kind == _STRUCT:
            self.struct()
        else:
            raise ValueError(f"it has a field of type {kind}")

    def _byte(self) -> int:
        value = self._data[self.at]
        self.at += 1
        return value

    def _move(self, n: int) -> None:
        self.at += n
        if self.at > len(self._data):
            raise IndexError

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
            if shift > 63:
                raise ValueError("it has a number of more than 64 bits")

    def _number(self) -> int:
        """Return a number in zigzag form."""
        value = self._varint()
        return (value >> 1) ^ -(value & 1)
