"""Writes the Parquet file of a run."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from indexing.config import FENCE_KEY_CHARS
from indexing.entries import Entries
from indexing.fences import Fences
from indexing.keys import KeyKind
from indexing.run_format import METADATA_KEY, CoveredFile, RunHead, seal, to_metadata

_DELTA = "DELTA_BINARY_PACKED"
_PAGE_MAX = 1 << 30  # bytes and rows: one page per column chunk, since groups are read whole
_PAGE_HEADER_MAX = 64  # bytes; without statistics a header has about 25
_DATA_PAGE, _DICTIONARY_PAGE = 0, 2
_THRIFT_NEXT_I32 = 0x15
_LAST_CODE_POINT = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)


def run_schema(kind: KeyKind) -> pa.Schema:
    """Return the columns of a run."""
    return pa.schema(
        [
            pa.field("key", kind.arrow_type, nullable=False),
            pa.field("t", pa.int64(), nullable=False),
            pa.field("position", pa.int64(), nullable=False),
        ]
    )


class RunFileWriter:
    """Writes one run, row group by row group, in the order of keys.

    The file takes its name when it is whole, so that a run that is written a second time (after a
    crash between writing and committing) never hides a whole one.
    """

    def __init__(self, path: Path, *, attribute: str, kind: KeyKind) -> None:
        self._path = path
        self._draft = path.with_name(f"{path.name}.draft")
        self._attribute = attribute
        self._kind = kind
        self._low: list[object] = []
        self._high: list[object] = []
        self._count: list[int] = []
        packed = ["t", "position", *(["key"] if kind is KeyKind.INTEGER else [])]
        # Lookups decode the pages themselves, so nothing is compressed on top of its
        # encoding. No statistics: fences replace them.
        self._writer = pq.ParquetWriter(
            str(self._draft),
            run_schema(kind),
            compression="none",
            use_dictionary=["key"] if kind is KeyKind.STRING else False,
            dictionary_pagesize_limit=_PAGE_MAX,
            column_encoding=dict.fromkeys(packed, _DELTA),
            write_statistics=False,
            store_schema=False,
            data_page_version="1.0",
            data_page_size=_PAGE_MAX,
            max_rows_per_page=_PAGE_MAX,
        )

    def write_group(self, group: pa.Table, low: object, high: object) -> None:
        """Append one row group: ``key, t, position``, keys from ``low`` to ``high``."""
        self._writer.write_table(group, row_group_size=group.num_rows)
        self._low.append(cut_below(low))
        self._high.append(cut_above(high))
        self._count.append(group.num_rows)

    def finish(self, cover: Iterable[CoveredFile]) -> None:
        """Write the footer and seal the file."""
        fences = Fences(
            np.array(self._low, dtype=self._kind.numpy_type),
            np.array(self._high, dtype=self._kind.numpy_type),
            np.array(self._count, dtype=np.int64),
        )
        head = RunHead(self._attribute, self._kind, tuple(cover), fences)
        self._writer.add_key_value_metadata({METADATA_KEY: to_metadata(head)})
        self._writer.close()
        with self._draft.open("r+b") as file:
            starts, pages, dictionaries = _places(file, self._kind)
            seal(file, starts=starts, pages=pages, dictionaries=dictionaries)
        self._draft.replace(self._path)

    def abandon(self) -> None:
        """Remove what was written."""
        self._writer.close()
        self._draft.unlink(missing_ok=True)


def write_entries(
    path: Path, entries: Entries, cover: CoveredFile, *, attribute: str, kind: KeyKind
) -> None:
    """Write a run of one data file; on failure nothing is left behind."""
    table = pa.Table.from_arrays(
        [entries.keys, pa.array(entries.t), pa.array(entries.position)],
        schema=run_schema(kind),
    )
    writer = RunFileWriter(path, attribute=attribute, kind=kind)
    try:
        for group, (first, end) in enumerate(pairwise(entries.cuts.tolist())):
            writer.write_group(
                table.slice(first, end - first),
                entries.fences.low[group],
                entries.fences.high[group],
            )
        writer.finish([cover])
    except BaseException:
        writer.abandon()
        raise


def cut_below(key: object) -> object:
    """Return a fence no greater than ``key``: itself, or the prefix of a long string."""
    return key[:FENCE_KEY_CHARS] if isinstance(key, str) else key


def cut_above(key: object) -> object:
    """Return a fence no smaller than ``key``: itself, or what follows all strings of a prefix."""
    if not isinstance(key, str) or len(key) <= FENCE_KEY_CHARS:
        return key
    prefix = key[:FENCE_KEY_CHARS].rstrip(chr(_LAST_CODE_POINT))
    if not prefix:
        return key
    following = ord(prefix[-1]) + 1
    if following in _SURROGATES:
        following = _SURROGATES.stop
    return prefix[:-1] + chr(following)


def _places(file: BinaryIO, kind: KeyKind) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return ``starts``, ``pages`` and ``dictionaries`` as :class:`Places` has them."""
    metadata = pq.read_metadata(file)
    n = metadata.num_row_groups
    starts = np.empty(n + 1, dtype=np.int64)
    pages = np.empty((n, 3), dtype=np.int64)
    dictionaries = np.zeros((n, 2), dtype=np.int64)
    end = 4  # after the magic
    for g in range(n):
        group = metadata.row_group(g)
        starts[g] = end
        for c in range(group.num_columns):
            chunk = group.column(c)
            at, end = end, end + chunk.total_compressed_size
            if c == 0 and kind is KeyKind.STRING:
                # What precedes the data page is the dictionary, a page of its own.
                data_page = chunk.data_page_offset
                first = _values_start(file, at, data_page, page_type=_DICTIONARY_PAGE)
                dictionaries[g] = first, data_page
                at = data_page
            pages[g, c] = _values_start(file, at, end, page_type=_DATA_PAGE)
    starts[-1] = end
    return starts, pages, dictionaries


def _values_start(file: BinaryIO, start: int, end: int, *, page_type: int) -> int:
    """Return where in the file the values of the one page in bytes ``start:end`` start.

    The page's header is Thrift (compact protocol) and begins with type, size and compressed size.
    Of a required column the values are all that follows it.
    """
    file.seek(start)
    header = file.read(min(end - start, _PAGE_HEADER_MAX))
    fields, at = [], 0
    for _ in range(3):
        assert header[at] == _THRIFT_NEXT_I32, "a page header starts with three numbers"
        number, shift, at = 0, 0, at + 1
        while header[at] >= 0x80:
            number |= (header[at] & 0x7F) << shift
            shift, at = shift + 7, at + 1
        fields.append((number | header[at] << shift) >> 1)
        at += 1
    found_type, size, compressed_size = fields
    assert found_type == page_type, "pages come as they were asked for"
    assert size == compressed_size, "pages are not compressed"
    assert start + at < end - size <= start + _PAGE_HEADER_MAX, "there is one page"
    return end - size
