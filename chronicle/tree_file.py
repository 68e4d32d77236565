"""TAB+-tree levels within one data file, as a Parquet file that is read by column."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from chronicle.derived import DerivedFile
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
    ``min``, ``max``, ``sum`` (numbers), ``sum_rest`` (floats: what the sum lost to rounding) and
    ``m2`` (numbers).
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
        statistics["m2"] = pa.float64()
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
    table = pa.table(columns)
    path = stream_dir / TREE_TABLE / data_file
    write_parquet(path, table)
    return DerivedFile(TREE_TABLE, data_file, path.stat().st_size, table.num_rows)


def write_parquet(path: Path, table: pa.Table) -> None:
    """Write a small derived file whole: it appears under its name complete or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"_{path.name}.{uuid.uuid4().hex}.draft")
    try:
        pq.write_table(
            table, draft, compression="lz4", row_group_size=max(1, table.num_rows),
            use_dictionary=False, write_statistics=False, write_page_checksum=True,
        )  # fmt: skip
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


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


def _from_decimal(column: pa.Array) -> tuple[Ints, Ints]:
    words = np.frombuffer(column.buffers()[1], np.int64).reshape(-1, 2)
    words = words[column.offset : column.offset + len(column)]
    high = (words[:, 1] << 32) | ((words[:, 0] >> 32) & 0xFFFFFFFF)
    return high, words[:, 0] & 0xFFFFFFFF


class TreeFile:
    """Reads one tree file by column; keeps what it has read. Thread-safe.

    Raises
    ------
    OSError or pa.ArrowInvalid or KeyError
        From any method, if the file is missing, damaged or of another schema.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._file: pq.ParquetFile | None = None
        self._positions: dict[str, int] = {}
        self._offsets: list[int] = []
        self._times: list[TimeSummary] | None = None
        self._attributes: dict[str, list[AttributeSummary]] = {}

    def times(self) -> list[TimeSummary]:
        """Return the levels' counts, times and gaps, level 0 first."""
        with self._lock:
            if self._times is None:
                self._file = pq.ParquetFile(self._path, page_checksum_verification=True)
                names = self._file.schema_arrow.names
                self._positions = {name: i for i, name in enumerate(names)}
                level, *columns = self._read(("level", *_TIMES))
                sizes = np.bincount(level.to_numpy())
                self._offsets = [0, *np.cumsum(sizes).tolist()]
                whole = TimeSummary(*(_ints(column) for column in columns))
                self._times = [whole.slice(a, b) for a, b in self._bounds()]
            return self._times

    def attribute(self, name: str, kind: Kind) -> list[AttributeSummary]:
        """Return the levels' summaries of one attribute, level 0 first."""
        times = self.times()
        with self._lock:
            if name not in self._attributes:
                count = TimeSummary.concat(times).count
                whole = self._read_attribute(name, kind, count)
                self._attributes[name] = [whole.slice(a, b) for a, b in self._bounds()]
            return self._attributes[name]

    def _bounds(self) -> list[tuple[int, int]]:
        return list(zip(self._offsets[:-1], self._offsets[1:], strict=True))

    def _read(self, names: tuple[str, ...]) -> list[pa.Array]:
        assert self._file is not None
        table = self._file.reader.read_row_groups(
            [0], column_indices=[self._positions[name] for name in names], use_threads=False
        )
        return [table.column(name).combine_chunks() for name in names]

    def _read_attribute(self, name: str, kind: Kind, count: Ints) -> AttributeSummary:
        statistics = tuple(_statistics(kind))
        arrays = self._read(tuple(f"{name}__{statistic}" for statistic in statistics))
        found = dict(zip(statistics, arrays, strict=True))
        nulls = _ints(found["nulls"])
        nans = _ints(found["nans"]) if kind is Kind.FLOAT else np.zeros(len(nulls), np.int64)
        nothing = np.zeros(0)
        minimum: Any = nothing
        maximum: Any = nothing
        if kind.has_extremes:
            low, high = (np.inf, -np.inf) if kind is Kind.FLOAT else (INT_MAX, INT_MIN)
            minimum, maximum = _filled(found["min"], low), _filled(found["max"], high)
        sums: tuple[npt.NDArray[Any], npt.NDArray[Any]] = (nothing, nothing)
        if kind is Kind.INTEGER:
            sums = _from_decimal(found["sum"])
        elif kind is Kind.FLOAT:
            sums = (found["sum"].to_numpy(), found["sum_rest"].to_numpy())
        m2 = found["m2"].to_numpy() if kind.has_sum else nothing
        return AttributeSummary(
            kind, count - nulls - nans, nulls, nans, minimum, maximum, *sums, m2
        )


def _ints(column: pa.Array) -> Ints:
    return np.asarray(column.to_numpy(), np.int64)


def _filled(column: pa.Array, neutral: float) -> Any:
    if column.type == pa.string():
        return column
    return (column.fill_null(neutral) if column.null_count else column).to_numpy()
