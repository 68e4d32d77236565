"""Read named columns of named blocks from data files; footers are parsed once per file."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pat

from chronicle.errors import CorruptBlockError
from chronicle.summary import Ints

_FOOTERS_MAX = 256
"""Parsed footers kept (about 0.3 MB each for 512 blocks of 8 columns)."""

_IDLE_FILES_MAX = 64
"""Open data files kept for the next read; each holds a file descriptor."""


@dataclass(frozen=True, slots=True)
class Footer:
    """What is known of a data file once its footer is parsed."""

    metadata: pq.FileMetaData
    positions: dict[str, int]
    """Column chunk position by column name."""

    verified: npt.NDArray[np.bool_]
    """Whether the checksums of a block's column were compared, shape (blocks, columns)."""


class BlockReader:
    """Reads the data files of one stream. Thread-safe.

    Files are read by ``pread``, not mapped: a mapped file that is cut short while it is read kills
    the process, and mapping gains less than a tenth. Checksums are compared when a block's column
    is read for the first time: comparing them each time would make scans 1.4 times as slow.

    Parameters
    ----------
    events_dir
        Folder of the events table.
    schema
        The stream's schema; strings are read dictionary-encoded.
    """

    def __init__(self, events_dir: Path, schema: pa.Schema) -> None:
        self._events_dir = events_dir
        self._strings = [field.name for field in schema if pat.is_string(field.type)]
        self._types = {
            field.name: pa.dictionary(pa.int32(), pa.string())
            if pat.is_string(field.type)
            else field.type
            for field in schema
        }
        self._lock = threading.Lock()
        self._footers: OrderedDict[str, Footer] = OrderedDict()
        self._idle: OrderedDict[tuple[str, bool], list[pq.ParquetFile]] = OrderedDict()
        self._n_idle = 0
        self._sizes: dict[tuple[str, str], Ints] = {}

    def path(self, name: str) -> Path:
        """Return the path of a data file."""
        return self._events_dir / name

    def block_counts(self, name: str) -> list[int]:
        """Return the events of each block of a data file, from its footer."""
        metadata = self._footer(name).metadata
        return [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]

    def column_bytes(self, name: str, column: str) -> Ints:
        """Return the compressed bytes of one column in each block of a data file."""
        found = self._sizes.get((name, column))
        if found is None:
            footer = self._footer(name)
            position = footer.positions[column]
            groups = range(footer.metadata.num_row_groups)
            found = np.array(
                [footer.metadata.row_group(i).column(position).total_compressed_size
                 for i in groups],
                np.int64,
            )  # fmt: skip
            self._sizes[name, column] = found
        return found

    def read(self, name: str, row_groups: Sequence[int], columns: Sequence[str]) -> pa.Table:
        """Read blocks of one data file, in the order given, as one read.

        Raises
        ------
        CorruptBlockError
            If the file is missing or damaged.
        """
        footer = self._footer(name)
        groups = list(row_groups)
        try:
            positions = [footer.positions[column] for column in columns]
            chunks = np.ix_(groups, positions)
            verify = not footer.verified[chunks].all()
            file = self._take(name, footer, verify=verify)
            table = file.reader.read_row_groups(groups, column_indices=positions, use_threads=False)
        except (OSError, pa.ArrowException, LookupError) as error:
            raise CorruptBlockError(str(self.path(name)), _reason(error)) from error
        footer.verified[chunks] = True
        self._give_back((name, verify), file)
        return table if table.column_names == list(columns) else table.select(list(columns))

    def empty(self, columns: Sequence[str]) -> pa.Table:
        """Return no events, of the types ``read`` gives."""
        return pa.schema([(column, self._types[column]) for column in columns]).empty_table()

    def _footer(self, name: str) -> Footer:
        with self._lock:
            footer = self._footers.get(name)
            if footer is not None:
                self._footers.move_to_end(name)
                return footer
        try:
            metadata = pq.read_metadata(self.path(name))
        except (OSError, pa.ArrowException) as error:
            raise CorruptBlockError(str(self.path(name)), _reason(error)) from error
        schema = metadata.schema
        positions = {schema.column(i).path: i for i in range(len(schema))}
        verified = np.zeros((metadata.num_row_groups, len(positions)), np.bool_)
        footer = Footer(metadata, positions, verified)
        with self._lock:
            self._footers[name] = footer
            while len(self._footers) > _FOOTERS_MAX:
                self._footers.popitem(last=False)
        return footer

    def _take(self, name: str, footer: Footer, *, verify: bool) -> pq.ParquetFile:
        """Return a file no other thread uses: an idle one or one newly opened."""
        with self._lock:
            idle = self._idle.get((name, verify))
            if idle:
                self._n_idle -= 1
                return idle.pop()
        return pq.ParquetFile(
            self.path(name),
            metadata=footer.metadata,
            read_dictionary=self._strings,
            page_checksum_verification=verify,
            pre_buffer=False,
        )

    def _give_back(self, key: tuple[str, bool], file: pq.ParquetFile) -> None:
        surplus: list[pq.ParquetFile] = []
        with self._lock:
            self._idle.setdefault(key, []).append(file)
            self._idle.move_to_end(key)
            self._n_idle += 1
            while self._n_idle > _IDLE_FILES_MAX:
                oldest, files = next(iter(self._idle.items()))
                if files:
                    surplus.append(files.pop())
                    self._n_idle -= 1
                if not files:
                    del self._idle[oldest]
        for closing in surplus:
            closing.close()


def _reason(error: BaseException) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
