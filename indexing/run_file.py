"""Writes the Parquet file of a run."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from chronicle.disk import discard
from indexing.config import FENCE_KEY_CHARS
from indexing.encoding import Encoding, Layout, Repetition
from indexing.entries import Entries
from indexing.fences import Fences
from indexing.run_format import (
    METADATA_KEY,
    CoveredFile,
    Places,
    RunHead,
    seal,
    to_metadata,
)

_DELTA = "DELTA_BINARY_PACKED"
_PAGE_MAX = 1 << 30  # bytes and rows: one page per column chunk, since groups are read whole
_PAGE_HEADER_MAX = 64  # bytes; without statistics a header has about 25
_DATA_PAGE, _DICTIONARY_PAGE = 0, 2
_THRIFT_NEXT_I32 = 0x15
_LAST_CODE_POINT = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)


class RunFileWriter:
    """Writes one run, row group by row group, in the order of keys.

    The file takes its name when it is whole, so that a run that is written a second time (after a
    crash between writing and committing) never hides a whole one. Until then its name is its own:
    two processes may write the same run at once.
    """

    def __init__(self, path: Path, layout: Layout) -> None:
        self._path = path
        self._draft = path.with_name(f"{path.name}.{uuid.uuid4().hex}.draft")
        self._layout = layout
        self._low: list[object] = []
        self._high: list[object] = []
        self._count: list[int] = []
        encodings = layout.encodings.items()
        # Lookups decode the pages themselves, so nothing is compressed on top of its
        # encoding. No statistics: fences replace them.
        self._writer = pq.ParquetWriter(
            str(self._draft),
            layout.schema,
            compression="none",
            use_dictionary=[c for c, e in encodings if e is Encoding.DICTIONARY],
            dictionary_pagesize_limit=_PAGE_MAX,
            column_encoding={c: _DELTA for c, e in encodings if e is Encoding.DELTA},
            write_statistics=False,
            store_schema=False,
            data_page_version="1.0",
            data_page_size=_PAGE_MAX,
            max_rows_per_page=_PAGE_MAX,
        )

    def write_group(self, group: pa.Table, low: object, high: object) -> None:
        """Append one row group: the columns of the layout, keys from ``low`` to ``high``."""
        self._writer.write_table(group, row_group_size=group.num_rows)
        self._low.append(cut_below(low))
        self._high.append(cut_above(high))
        self._count.append(group.num_rows)

    def finish(self, cover: Iterable[CoveredFile], repetition: Repetition) -> None:
        """Write the footer and seal the file."""
        layout = self._layout
        fences = Fences(
            np.array(self._low, dtype=layout.kind.numpy_type),
            np.array(self._high, dtype=layout.kind.numpy_type),
            np.array(self._count, dtype=np.int64),
        )
        head = RunHead(layout, repetition, tuple(cover), fences)
        self._writer.add_key_value_metadata({METADATA_KEY: to_metadata(head)})
        self._writer.close()
        with self._draft.open("r+b") as file:
            seal(file, _places(file, layout), layout)
        self._draft.replace(self._path)

    def abandon(self) -> None:
        """Remove what was written."""
        with suppress(OSError):  # the disk may take no byte more
            self._writer.close()
        discard([self._draft])


def write_entries(path: Path, entries: Entries, cover: CoveredFile, layout: Layout) -> None:
    """Write a run of one data file; on failure nothing is left behind."""
    t = pa.array(layout.scale.to_steps(entries.t))
    columns = [entries.keys, t, pa.array(entries.position)]
    if layout.objects is not None:
        columns.append(entries.objects)
    table = pa.Table.from_arrays(columns, schema=layout.schema)
    writer = RunFileWriter(path, layout)
    try:
        for group, (first, end) in enumerate(pairwise(entries.cuts.tolist())):
            writer.write_group(
                table.slice(first, end - first),
                entries.fences.low[group],
                entries.fences.high[group],
            )
        writer.finish([cover], entries.repetition)
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


def _places(file: BinaryIO, layout: Layout) -> Places:
    """Return where the row groups of a written run lie, their checksums left out."""
    metadata = pq.read_metadata(file)
    is_coded = [e is Encoding.DICTIONARY for e in layout.encodings.values()]
    n, n_columns = metadata.num_row_groups, len(is_coded)
    starts = np.empty(n + 1, dtype=np.int64)
    pages = np.empty((n, n_columns), dtype=np.int64)
    dictionaries = np.zeros((n, n_columns, 2), dtype=np.int64)
    end = 4  # after the magic
    for g in range(n):
        group = metadata.row_group(g)
        starts[g] = end
        for c in range(n_columns):
            chunk = group.column(c)
            at, end = end, end + chunk.total_compressed_size
            if is_coded[c]:
                # What precedes the data page is the dictionary, a page of its own.
                data_page = chunk.data_page_offset
                first = _values_start(file, at, data_page, page_type=_DICTIONARY_PAGE)
                dictionaries[g, c] = first, data_page
                at = data_page
            pages[g, c] = _values_start(file, at, end, page_type=_DATA_PAGE)
    starts[-1] = end
    return Places(starts, pages, dictionaries, np.empty(0, dtype=np.uint32))


def _values_start(file: BinaryIO, start: int, end: int, *, page_type: int) -> int:
    """Return where in the file the values of the one page in bytes ``start:end`` start.

    The page's header is Thrift (compact protocol) and begins with type, size and compressed size.
    Of a required column the values are all that follows it, of another the levels come first.
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
