"""TAB+-tree levels within one data file, as a Parquet file that is read by column."""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from chronicle.derived import DerivedFile
from chronicle.disk import discard, writing
from chronicle.errors import CorruptTreeError
from chronicle.folder_lock import make_table_folder
from chronicle.plain_pages import (
    CODEC,
    decimals_of,
    filled_numbers,
    numbers_of,
    page_body,
    strings_of,
)
from chronicle.sealed import (
    SEAL_KEY,
    Seal,
    parse_seal,
    read_footer,
    seal,
    seal_room,
)
from chronicle.summary import (
    INT_MAX,
    INT_MIN,
    AttributeSummary,
    Ints,
    Kind,
    TimeSummary,
    kind_of,
)

TREE_TABLE = "tree"
"""Delta table of a stream that holds the tree files, named as their data files."""

_TIMES = ("count", "t_min", "t_max", "gap_min", "gap_max")
_SUM_TYPE = pa.decimal128(38, 0)

_LATER = "m2_rest"
"""Statistic that files of older versions do not have; it is 0 there."""

_PAGE_MAX = 1 << 30  # bytes and rows: one page per column

_Summary = TypeVar("_Summary", TimeSummary, AttributeSummary)


def build_levels(leaves: _Summary, fan_out: int) -> list[_Summary]:
    """Aggregate entries level by level until one is left.

    Returns
    -------
    list
        ``leaves`` first; entry i of a level aggregates the entries
        ``i * fan_out`` to ``(i + 1) * fan_out`` of the level before it.
    """
    levels = [leaves]
    while len(levels[-1]) > 1:
        starts = np.arange(0, len(levels[-1]), fan_out, dtype=np.int64)
        levels.append(levels[-1].merge(starts))
    return levels


def tree_schema(schema: pa.Schema) -> pa.Schema:
    """Return the columns of the tree table for events of a normalised schema.

    Column ``a__s`` holds statistic ``s`` of attribute ``a``: ``nulls``, ``nans`` (floats),
    ``min``, ``max``, ``sum`` (numbers), ``sum_rest`` (floats: what the sum lost to rounding),
    ``m2`` and ``m2_rest`` (numbers: second moment, and what it lost).
    """
    fields = [pa.field("level", pa.int32()), *(pa.field(name, pa.int64()) for name in _TIMES)]
    for field in schema:
        for statistic, data_type in _statistics(kind_of(field.type)).items():
            fields.append(pa.field(f"{field.name}__{statistic}", data_type))
    return pa.schema(fields)


def _statistics(kind: Kind) -> dict[str, pa.DataType]:
    value: pa.DataType = {Kind.FLOAT: pa.float64(), Kind.STRING: pa.string()}.get(kind, pa.int64())
    statistics = {"nulls": pa.int64()}
    if kind is Kind.FLOAT:
        statistics["nans"] = pa.int64()
    if kind.has_extremes:
        statistics |= {"min": value, "max": value}
    if kind.has_sum:
        statistics["sum"] = _SUM_TYPE if kind is Kind.INTEGER else pa.float64()
        if kind is Kind.FLOAT:
            statistics["sum_rest"] = pa.float64()
        statistics["m2"] = statistics["m2_rest"] = pa.float64()
    return statistics


def write_tree_file(
    stream_dir: Path,
    data_file: str,
    *,
    times: TimeSummary,
    attributes: Mapping[str, AttributeSummary],
    fan_out: int,
) -> DerivedFile:
    """Write all levels of one data file; replaces an earlier tree file of it, commits nothing.

    Parameters
    ----------
    stream_dir
        Folder of the stream.
    data_file
        Name of the data file; the tree file is named alike.
    times
        One entry per block of the data file.
    attributes
        One entry per block, by attribute, in the order of the stream's schema.
    fan_out
        Entries aggregated by one entry of the next level.
    """
    levels = build_levels(times, fan_out)
    sizes = [len(level) for level in levels]
    columns: dict[str, pa.Array] = {
        "level": pa.array(np.repeat(np.arange(len(sizes), dtype=np.int32), sizes))
    }
    for name, column in zip(_TIMES, TimeSummary.concat(levels).columns(), strict=True):
        columns[name] = pa.array(column)
    for attribute, leaves in attributes.items():
        entries = AttributeSummary.concat(build_levels(leaves, fan_out))
        for statistic, column in _to_columns(entries).items():
            columns[f"{attribute}__{statistic}"] = column
    path = make_table_folder(stream_dir, TREE_TABLE) / data_file
    _write_sealed(path, columns)
    return DerivedFile(TREE_TABLE, data_file, path.stat().st_size, sum(sizes))


def _write_sealed(path: Path, columns: Mapping[str, pa.Array]) -> None:
    """Write a tree file whole and sealed: it appears under its name complete or not at all."""
    # Without nulls and compression the values of these columns are the bytes of the file, so
    # that opening a tree file parses nothing.
    plain = ("level", *_TIMES)
    fields = [
        pa.field(name, column.type, nullable=name.endswith(("__min", "__max")))
        for name, column in columns.items()
    ]
    table = pa.Table.from_arrays(list(columns.values()), schema=pa.schema(fields))
    room = seal_room(path.name, n_rows=len(table), n_groups=1, names=list(columns))
    draft = _draft(path)
    try:
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            with pq.ParquetWriter(
                draft, table.schema, use_dictionary=False, write_statistics=False,
                compression={n: "none" if n in plain else CODEC for n in columns},
                write_page_checksum=True, store_schema=False, data_page_version="1.0",
                data_page_size=_PAGE_MAX, max_rows_per_page=_PAGE_MAX,
            ) as writer:  # fmt: skip
                writer.write_table(table, row_group_size=len(table))
                writer.add_key_value_metadata({SEAL_KEY: room})
            seal(draft)
            draft.replace(path)
    finally:
        discard([draft])


def _draft(path: Path) -> Path:
    return path.with_name(f"_{path.name}.{uuid.uuid4().hex}.draft")


def _to_columns(entries: AttributeSummary) -> dict[str, pa.Array]:
    kind = entries.kind
    columns = {"nulls": pa.array(entries.null_count)}
    if kind is Kind.FLOAT:
        columns["nans"] = pa.array(entries.nan_count)
    if kind.has_extremes:
        columns["min"] = extremes_to_arrow(entries.minimum, entries.n_values)
        columns["max"] = extremes_to_arrow(entries.maximum, entries.n_values)
    if kind is Kind.INTEGER:
        columns["sum"] = _to_decimal(entries.sum_high, entries.sum_low)
    elif kind is Kind.FLOAT:
        columns["sum"] = pa.array(entries.sum_high)
        columns["sum_rest"] = pa.array(entries.sum_low)
    if kind.has_sum:
        columns["m2"] = pa.array(entries.m2)
        columns["m2_rest"] = pa.array(entries.m2_low)
    return columns


def extremes_to_arrow(column: Any, n_values: Ints) -> pa.Array:
    """Return minima or maxima of a summary as an array that is null where there is no value."""
    return pa.array(column, mask=n_values == 0) if isinstance(column, np.ndarray) else column


def _to_decimal(high: Ints, low: Ints) -> pa.Array:
    """Pack ``high * 2**32 + low`` as decimals of scale 0 (128 bits, two's complement)."""
    words = np.empty((len(high), 2), np.int64)
    words[:, 0] = (high << 32) | low
    words[:, 1] = high >> 32
    return pa.Array.from_buffers(_SUM_TYPE, len(high), [None, pa.py_buffer(words)])


class TreeFile:
    """Reads one tree file by column; keeps what it has read. Thread-safe.

    Every byte that is read is compared with its checksum first.

    Parameters
    ----------
    path
        The tree file, named as its data file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._seal: Seal | None = None
        self._positions: dict[str, int] = {}
        self._offsets: list[int] = []
        self._identity: tuple[int, int] | None = None
        self._times: list[TimeSummary] | None = None
        self._attributes: dict[str, list[AttributeSummary]] = {}

    def times(self) -> list[TimeSummary]:
        """Return the levels' counts, times and gaps, level 0 first.

        Raises
        ------
        CorruptTreeError
            If the file is missing, damaged, another data file's or of an older format.
        """
        with self._lock:
            if self._times is None:
                with self._open() as file:
                    self._times = self._read_times(file)
            return self._times

    def attribute(self, name: str, kind: Kind) -> list[AttributeSummary] | None:
        """Return the levels' summaries of one attribute, level 0 first.

        None if the file has no entries of it: it was written before the column was added.

        Raises
        ------
        CorruptTreeError
            As for ``times``.
        """
        times = self.times()
        with self._lock:
            if name not in self._attributes:
                count = TimeSummary.concat(times).count
                whole = self._read_attribute(name, kind, count)
                if whole is None:
                    return None
                self._attributes[name] = [whole.slice(a, b) for a, b in self._bounds()]
            return self._attributes[name]

    def holds(self, attributes: Sequence[str]) -> bool:
        """Return whether the file has entries of all these attributes.

        Raises
        ------
        CorruptTreeError
            As for ``times``.
        """
        self.times()
        return all(f"{name}__nulls" in self._positions for name in attributes)

    def attributes(self) -> list[str]:
        """Return the names of what the file has entries of.

        Raises
        ------
        CorruptTreeError
            As for ``times``.
        """
        self.times()
        end = "__nulls"
        return [name.removesuffix(end) for name in self._positions if name.endswith(end)]

    def rounds_squares(self) -> bool:
        """Return whether an older version wrote it, which kept second moments as doubles.

        Raises
        ------
        CorruptTreeError
            As for ``times``.
        """
        self.times()
        return any(
            name.endswith("__m2") and f"{name.removesuffix('m2')}{_LATER}" not in self._positions
            for name in self._positions
        )

    @contextmanager
    def _open(self) -> Iterator[BinaryIO]:
        """Open the file; what goes wrong with it becomes one error."""
        try:
            with self._path.open("rb", buffering=0) as file:
                yield cast("BinaryIO", file)
        except FileNotFoundError as error:
            raise CorruptTreeError(str(self._path), "the file is missing") from error
        except (OSError, ValueError, LookupError, pa.ArrowException) as error:
            raise CorruptTreeError.of(self._path, error) from error

    def _read_times(self, file: BinaryIO) -> list[TimeSummary]:
        footer = read_footer(file)
        found = parse_seal(footer, subject=self._path.name)
        if found is None:
            raise ValueError("it has no seal, as an older Chronicle wrote it or one byte is wrong")
        n, n_chunks = found.n_rows, 1 + len(_TIMES)
        if n == 0 or found.crc.shape[1] < n_chunks:
            raise ValueError("it has no entries")
        end = int(found.starts[n_chunks])
        data = os.pread(file.fileno(), end, 0)
        first = int(found.starts[0])
        found.check_bytes(memoryview(data)[first:], 0, n_chunks)
        # The values are the last bytes of their column chunk, in front of them is a page header.
        ends = found.starts[1 : n_chunks + 1].tolist()
        level = np.frombuffer(data, np.int32, n, ends[0] - 4 * n)
        whole = TimeSummary(*(np.frombuffer(data, np.int64, n, e - 8 * n) for e in ends[1:]))
        self._offsets = [0, *np.cumsum(np.bincount(level)).tolist()]
        self._seal = found
        self._identity = _identity(file)
        self._positions = {name: i for i, name in enumerate(found.names)}
        return [whole.slice(a, b) for a, b in self._bounds()]

    def _bounds(self) -> list[tuple[int, int]]:
        return list(zip(self._offsets[:-1], self._offsets[1:], strict=True))

    def _read_attribute(self, name: str, kind: Kind, count: Ints) -> AttributeSummary | None:
        statistics = self._stored(name, kind)
        first = self._positions.get(f"{name}__nulls")
        if first is None:
            return None
        with self._open() as file:
            if _identity(file) != self._identity:  # replaced since by one of more attributes
                self._times = self._read_times(file)
                first = self._positions[f"{name}__nulls"]
            stop = first + len(statistics)
            places = [self._positions.get(f"{name}__{statistic}") for statistic in statistics]
            if places != list(range(first, stop)):
                raise ValueError(f"its entries of '{name}' are of another type")
            pages = self._read(file, first, stop)
            return _to_summary(dict(zip(statistics, pages, strict=True)), kind, count)

    def _stored(self, name: str, kind: Kind) -> tuple[str, ...]:
        """Return the statistics of an attribute; older versions did not write the last."""
        statistics = tuple(_statistics(kind))
        is_old = f"{name}__{_LATER}" not in self._positions
        return tuple(s for s in statistics if s != _LATER) if is_old else statistics

    def _read(self, file: BinaryIO, first: int, stop: int) -> list[bytes]:
        """Read the pages of columns that follow each other in the file."""
        found = self._seal
        assert found is not None
        borders = (found.starts[first : stop + 1] - found.starts[first]).tolist()
        data = memoryview(os.pread(file.fileno(), borders[-1], int(found.starts[first])))
        found.check_bytes(data, first, stop)
        return [page_body(data[start:end]) for start, end in pairwise(borders)]


def _identity(file: BinaryIO) -> tuple[int, int]:
    found = os.fstat(file.fileno())
    return found.st_ino, found.st_mtime_ns


def _to_summary(found: Mapping[str, bytes], kind: Kind, count: Ints) -> AttributeSummary:
    n = len(count)
    nulls = numbers_of(found["nulls"], n, np.int64)
    nans = numbers_of(found["nans"], n, np.int64) if "nans" in found else np.zeros(n, np.int64)
    n_values = count - nulls - nans
    nothing = np.zeros(0)
    minimum: Any = nothing
    maximum: Any = nothing
    if kind is Kind.STRING:
        minimum, maximum = (strings_of(found[name], n_values > 0) for name in ("min", "max"))
    elif kind.has_extremes:
        data_type = np.float64 if kind is Kind.FLOAT else np.int64
        low, high = (np.inf, -np.inf) if kind is Kind.FLOAT else (INT_MAX, INT_MIN)
        minimum = filled_numbers(found["min"], n_values > 0, low, data_type)
        maximum = filled_numbers(found["max"], n_values > 0, high, data_type)
    sums: tuple[npt.NDArray[Any], npt.NDArray[Any]] = (nothing, nothing)
    if kind is Kind.INTEGER:
        sums = decimals_of(found["sum"], n)
    elif kind is Kind.FLOAT:
        sums = (
            numbers_of(found["sum"], n, np.float64),
            numbers_of(found["sum_rest"], n, np.float64),
        )
    m2 = m2_low = nothing
    if kind.has_sum:
        m2 = numbers_of(found["m2"], n, np.float64)
        m2_low = numbers_of(found[_LATER], n, np.float64) if _LATER in found else np.zeros(n)
    return AttributeSummary(kind, n_values, nulls, nans, minimum, maximum, *sums, m2, m2_low)
