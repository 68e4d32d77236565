"""Read named columns of named blocks from data files; footers are parsed once per file."""

from __future__ import annotations

import os
import random
import threading
from collections import OrderedDict
from collections.abc import Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pat

from chronicle.config import TIME_UNIT
from chronicle.errors import CorruptBlockError, CorruptTreeError
from chronicle.log.adopted_file import (
    Stamp,
    check_footer,
    check_unchanged,
    is_adopted,
    place_in_table,
)
from chronicle.paths import repeated, to_constant, values_in
from chronicle.tree.checksummed_file import (
    Seal,
    check_chunks,
    parse_metadata,
    parse_seal,
    read_footer,
)
from chronicle.tree.page_checksums import check_pages
from chronicle.tree.summary import Ints

_FOOTERS_BYTES = 384 << 20
"""Memory for parsed footers: those of 76 full data files of ten columns, as many million events. A
query that needs one block of each of more files parses footers anew, some 5 ms for each; the week
of 60 M events of nine doubles (thesis 3.5.2) in windows an hour apart took four times as long."""

_CHUNK_BYTES = 1 << 10
"""What a parsed footer takes for one column of one block (2.7 MiB seen for 512 blocks of 6)."""

IDLE_FILES_MAX = 64
"""Open data files kept for the next read; each holds a file descriptor, of which a process has
1,024 by default."""


class OpenFiles:
    """Files that no thread reads at the moment, closed when others take their room. Thread-safe."""

    def __init__(self, n_max: int) -> None:
        self._n_max = n_max
        self._lock = threading.Lock()
        self._idle: OrderedDict[Hashable, list[pq.ParquetFile]] = OrderedDict()
        self._n_idle = 0

    def take(self, key: Hashable) -> pq.ParquetFile | None:
        """Hand over a file kept under a key; None if there is none."""
        with self._lock:
            files = self._idle.get(key)
            if not files:
                return None
            file = files.pop()
            self._n_idle -= 1
            if not files:
                del self._idle[key]
            return file

    def keep(self, key: Hashable, file: pq.ParquetFile) -> None:
        """Keep a file for whoever takes it next; closes those kept longest for it."""
        surplus = []
        with self._lock:
            self._idle.setdefault(key, []).append(file)
            self._idle.move_to_end(key)
            self._n_idle += 1
            while self._n_idle > self._n_max:
                oldest, files = next(iter(self._idle.items()))
                surplus.append(files.pop())
                self._n_idle -= 1
                if not files:
                    del self._idle[oldest]
        for closing in surplus:
            closing.close()

    def close(self, key: Hashable) -> None:
        """Close the files kept under a key."""
        with self._lock:
            files = self._idle.pop(key, [])
            self._n_idle -= len(files)
        for closing in files:
            closing.close()


# Of the process, not of a reader: a service that opens the store for each question, and whose
# caches keep the last snapshots, would run out of descriptors.
_open_files = OpenFiles(IDLE_FILES_MAX)


@dataclass(frozen=True, slots=True)
class Footer:
    """What is known of a data file once its footer is parsed."""

    metadata: pq.FileMetaData
    positions: dict[str, int]
    """Column chunk position by column name."""

    verified: list[int]
    """Of each block, the columns whose checksums were compared, as bits by position."""

    seal: Seal | None
    """Checksums of all bytes; None in a file of an older format, whose pages alone have them."""

    sizes: dict[str, Ints]
    """Bytes of a column in each block, once they were asked for."""

    stamp: Stamp | None = None
    """Of an adopted file, when its footer was found to be the one verified."""

    constants: dict[str, pa.Scalar] = field(default_factory=dict)
    """Values of partition columns, which an adopted file itself lacks."""

    @property
    def n_bytes(self) -> int:
        """Memory it takes, about."""
        return (1 + len(self.verified) * len(self.positions)) * _CHUNK_BYTES


@dataclass(frozen=True, slots=True)
class Stored:
    """A data file as another reader finds it."""

    path: Path
    held: frozenset[str]
    """Columns in it; those of the stream that it lacks are null, but for the constants."""
    constants: dict[str, pa.Scalar]


class BlockReader:
    """Reads the data files of one stream. Thread-safe.

    Files are read by ``pread``, not mapped: a mapped file that is cut short while it is read kills
    the process, and mapping gains less than a tenth. Checksums are compared when a block's column
    is read for the first time: comparing them each time would make scans 1.4 times as slow.

    Strings are read dictionary-encoded. A column of the stream's schema that a data file lacks was
    added to the stream after the file was written: it is read as null.
    """

    def __init__(self, events_dir: Path, schema: pa.Schema) -> None:
        self._events_dir = events_dir
        self.schema = schema
        self._names = schema.names
        self._strings = [field.name for field in schema if pat.is_string(field.type)]
        self._types = {
            field.name: pa.dictionary(pa.int32(), pa.string())
            if pat.is_string(field.type)
            else field.type
            for field in schema
        }
        self._lock = threading.Lock()
        self._footers: dict[str, Footer] = {}
        self._expected: dict[str, tuple[Path, list[int]]] = {}
        self._footers_bytes = 0
        self._random = random.Random(0)  # noqa: S311 - which footer goes is no secret
        self._verified: dict[str, list[int]] = {}
        self._identity = object()

    def path(self, name: str) -> Path:
        """Return the path of a data file."""
        return self._events_dir / name

    def block_counts(self, name: str) -> list[int]:
        """Return the events of each block of a data file, from its footer."""
        return _group_sizes(self._footer(name).metadata)

    def expect_blocks(self, name: str, tree_path: Path, counts: list[int]) -> None:
        """Have the footer of a data file compared with the blocks its tree file says it has.

        Why: what is read is placed by these counts, and a query that reads nothing of a file
        should not open it either.

        A footer that is known and says otherwise raises CorruptTreeError here, another one when the
        file is read.
        """
        with self._lock:
            footer = self._footers.get(name)
            if footer is None:
                self._expected[name] = tree_path, counts
        if footer is not None:
            _check_blocks(footer.metadata, tree_path, counts)

    def column_bytes(self, name: str, column: str) -> Ints:
        """Return the compressed bytes of one column in each block of a data file."""
        footer = self._footer(name)
        found = footer.sizes.get(column)
        if found is None:
            found = footer.sizes[column] = _column_bytes(footer, column)
        return found

    def has_column(self, name: str, column: str) -> bool:
        """Return whether a data file holds a column, from its footer."""
        footer = self._footer(name)
        return column in footer.positions or column in footer.constants

    def read(self, name: str, row_groups: Sequence[int], columns: Sequence[str]) -> pa.Table:
        """Read blocks of one data file, in the order given, as one read.

        Raises CorruptBlockError if it is missing or damaged, UnreadFileError if the system does not
        hand out its bytes, be it for want of descriptors.
        """
        footer = self._footer(name)
        groups = list(row_groups)
        positions = [footer.positions[column] for column in columns if column in footer.positions]
        try:
            unverified = _unverified(footer, groups, positions)
            verify = bool(unverified)
            if verify and footer.seal is not None:
                check_chunks(self.path(name), footer.seal, unverified, sorted(positions))
                verify = False
            file = self._take(name, footer, verify=verify)
            table = file.reader.read_row_groups(groups, column_indices=positions, use_threads=False)
        except (OSError, ValueError, pa.ArrowException, LookupError) as error:
            self._check_unchanged(name, footer)  # says more than the error does
            raise CorruptBlockError.of(self.path(name), error) from error
        self._check_unchanged(name, footer)
        if footer.stamp is not None:
            table = self._in_stored_types(name, table)
        _note_verified(footer, unverified, positions)
        if name in self._footers:
            _open_files.keep((self._identity, name, verify), file)
        else:
            file.close()  # it holds the footer, which others took the room of
        for column in columns:
            if column not in footer.positions:
                table = table.append_column(column, self._not_held(footer, column, table.num_rows))
        return table if table.column_names == list(columns) else table.select(list(columns))

    def _check_unchanged(self, name: str, footer: Footer) -> None:
        """Check that an adopted file stayed as it is while it was read."""
        if footer.stamp is None:
            return
        try:
            check_unchanged(self.path(name), footer.stamp)
        except OSError as error:
            raise CorruptBlockError.of(self.path(name), error) from error

    def _in_stored_types(self, name: str, table: pa.Table) -> pa.Table:
        """Return columns of an adopted file in the types that the stream has."""
        try:
            for i, column in enumerate(table.columns):
                wanted = self._types[table.column_names[i]]
                if column.type != wanted:
                    table = table.set_column(i, table.column_names[i], _as_type(column, wanted))
        except pa.ArrowException as error:
            raise CorruptBlockError.of(self.path(name), error) from error
        return table

    def _not_held(self, footer: Footer, column: str, n_rows: int) -> pa.Array:
        """Return the values of a column that a data file lacks."""
        if column in footer.constants:
            return repeated(footer.constants[column], n_rows, self._types[column])
        return pa.nulls(n_rows, self._types[column])

    def verify(
        self, name: str, row_groups: Sequence[int], columns: Sequence[str] | None = None
    ) -> None:
        """Compare the checksums of columns, all unless told, of some blocks of a data file."""
        footer = self._footer(name)
        held = [column for column in footer.positions if columns is None or column in columns]
        if footer.seal is None:
            self.read(name, row_groups, held)
            return
        positions = sorted(footer.positions[column] for column in held)
        try:
            check_chunks(self.path(name), footer.seal, row_groups, positions)
        except (OSError, ValueError) as error:
            raise CorruptBlockError.of(self.path(name), error) from error
        _note_verified(footer, row_groups, positions)

    def to_be_read(self, name: str, columns: Sequence[str]) -> Stored:
        """Return how another reader finds columns of a data file, whose bytes are verified.

        Raises CorruptBlockError if it is missing or damaged, or no longer the file adopted.
        """
        footer = self._footer(name)
        self._check_unchanged(name, footer)
        held = [footer.positions[column] for column in columns if column in footer.positions]
        groups = _unverified(footer, range(len(footer.verified)), held)
        if groups and footer.stamp is not None:
            self._check_pages(name, footer, groups, columns)
            _note_verified(footer, groups, held)
        elif groups:
            self.verify(name, groups, columns)
        return Stored(self.path(name), frozenset(footer.positions), footer.constants)

    def _check_pages(
        self, name: str, footer: Footer, groups: Sequence[int], columns: Sequence[str]
    ) -> None:
        names = {column.lower() for column in columns}
        try:
            check_pages(self.path(name), footer.metadata, groups=groups, columns=names)
        except (OSError, ValueError) as error:
            self._check_unchanged(name, footer)  # says more than the error does
            raise CorruptBlockError.of(self.path(name), error) from error

    def read_file(self, name: str) -> pa.Table:
        """Read all events of one data file, in the types of the stream's schema."""
        blocks = range(len(self.block_counts(name)))
        return self.read(name, blocks, self.schema.names).cast(self.schema)

    def empty(self, columns: Sequence[str]) -> pa.Table:
        """Return no events, of the types ``read`` gives."""
        return pa.schema([(column, self._types[column]) for column in columns]).empty_table()

    def _footer(self, name: str) -> Footer:
        with self._lock:
            footer = self._footers.get(name)
            if footer is not None:
                return footer
        try:
            with self.path(name).open("rb", buffering=0) as file:
                text = read_footer(cast("BinaryIO", file))
            stamp = check_footer(self.path(name), text) if is_adopted(name) else None
            seal = None if stamp is not None else parse_seal(text, subject=name)
            metadata = parse_metadata(text)
            schema = metadata.schema
            names = [schema.column(i).path for i in range(len(schema))]
        except (OSError, ValueError, pa.ArrowException) as error:
            raise CorruptBlockError.of(self.path(name), error) from error
        if name in self._expected:
            _check_blocks(metadata, *self._expected[name])
        if stamp is not None:
            positions = {column: i for i, column in enumerate(names) if column in self._types}
            constants = self._constants(name, positions)
            footer = self._to_footer(name, metadata, positions, None, stamp, constants)
            return self._keep(name, footer)
        # Columns are only ever added at the end. Any other difference is damage, and must not be
        # taken for a column that the file is too old to have.
        common = min(len(names), len(self._names))
        if not names or names[:common] != self._names[:common]:
            reason = f"its columns are {names}, the stream's {self._names}"
            raise CorruptBlockError(str(self.path(name)), reason)
        positions = {column: i for i, column in enumerate(names)}
        return self._keep(name, self._to_footer(name, metadata, positions, seal, None, {}))

    def _to_footer(
        self,
        name: str,
        metadata: pq.FileMetaData,
        positions: dict[str, int],
        seal: Seal | None,
        stamp: Stamp | None,
        constants: dict[str, pa.Scalar],
    ) -> Footer:
        with self._lock:
            # What was verified outlives the footer: to verify it again would cost a slower scan.
            verified = self._verified.setdefault(name, [0] * metadata.num_row_groups)
        return Footer(metadata, positions, verified, seal, {}, stamp, constants)

    def _constants(self, name: str, held: Collection[str]) -> dict[str, pa.Scalar]:
        """Return what the path of an adopted file says of columns that it does not hold."""
        said = values_in(place_in_table(os.readlink(self.path(name))))  # noqa: PTH115
        return {
            column: to_constant(text, self.schema.field(column).type, column=column)
            for column, text in said.items()
            if column in self._types and column not in held
        }

    def _keep(self, name: str, footer: Footer) -> Footer:
        """Keep a footer, and let go of others at random; return the one that is kept.

        A full replay goes through all files in turn: the one used longest ago would always be the
        next one needed, and nothing that is kept would ever serve.
        """
        evicted: list[str] = []
        with self._lock:
            known = self._footers.get(name)
            if known is not None:  # another thread was faster
                return known
            self._footers_bytes += footer.n_bytes
            while self._footers_bytes > _FOOTERS_BYTES and self._footers:
                chosen = self._random.choice(list(self._footers))
                self._footers_bytes -= self._footers.pop(chosen).n_bytes
                evicted.append(chosen)
            self._footers[name] = footer
        for chosen in evicted:
            for verify in (False, True):  # open files hold the footer too
                _open_files.close((self._identity, chosen, verify))
        return footer

    def _take(self, name: str, footer: Footer, *, verify: bool) -> pq.ParquetFile:
        """Return a file no other thread uses: an idle one or one newly opened."""
        idle = _open_files.take((self._identity, name, verify))
        if idle is not None:
            return idle
        return pq.ParquetFile(
            self.path(name),
            metadata=footer.metadata,
            read_dictionary=[name for name in self._strings if name in footer.positions],
            page_checksum_verification=verify,
            pre_buffer=False,
            coerce_int96_timestamp_unit=TIME_UNIT,
        )


def block_counts(n_events: int, block_events: int) -> list[int]:
    """Return events per block: all full but the last."""
    full, rest = divmod(n_events, block_events)
    return [block_events] * full + ([rest] if rest else [])


def _group_sizes(metadata: pq.FileMetaData) -> list[int]:
    return [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]


def _check_blocks(metadata: pq.FileMetaData, tree_path: Path, counts: list[int]) -> None:
    if counts != _group_sizes(metadata):
        raise CorruptTreeError(str(tree_path), "the data file has blocks of other sizes")


def _as_type(column: pa.ChunkedArray, wanted: pa.DataType) -> pa.ChunkedArray:
    """Return a column of a file that another program wrote, in the type the stream has."""
    if pat.is_dictionary(wanted):
        return column.cast(wanted.value_type).dictionary_encode()
    return column.cast(wanted)


def _unverified(footer: Footer, groups: Sequence[int], positions: Sequence[int]) -> list[int]:
    """Return the blocks of which a column's checksum was not compared yet."""
    wanted = _bits(positions)
    return [group for group in groups if footer.verified[group] & wanted != wanted]


def _note_verified(footer: Footer, groups: Sequence[int], positions: Iterable[int]) -> None:
    """Note that the checksums of columns of some blocks were compared.

    What a thread that does so at the same time notes may be lost: it is compared again then.
    """
    compared = _bits(positions)
    for group in groups:
        footer.verified[group] |= compared


def _bits(positions: Iterable[int]) -> int:
    bits = 0
    for position in positions:  # one may come twice
        bits |= 1 << position
    return bits


def _column_bytes(footer: Footer, column: str) -> Ints:
    groups = range(footer.metadata.num_row_groups)
    if column not in footer.positions:
        return np.zeros(len(groups), np.int64)
    position = footer.positions[column]
    return np.array(
        [footer.metadata.row_group(i).column(position).total_compressed_size for i in groups],
        np.int64,
    )
