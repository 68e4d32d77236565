"""TAB+-tree levels within one data file, as a column file of which a query reads what it needs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chronicle.derived import DerivedFile
from chronicle.disk import writing
from chronicle.errors import CorruptTreeError
from chronicle.stream_folder import make_table_folder
from chronicle.tree.column_file import ColumnFile, ColumnWriter, ReplacedError, open_columns
from chronicle.tree.summary import AttributeSummary, Ints, Kind, TimeSummary

TREE_TABLE = "tree"
"""Delta table of a stream that holds the tree files, named as their data files."""

_FILE_KIND = "tree"
_TIMES = ("count", "t_min", "t_max", "gap_min", "gap_max")
_STRINGS = "string"

_COUNTS = {"nulls": "i8"}
_SQUARES = {"m2": "f8", "m2_rest": "f8"}
_STATISTICS: dict[Kind, dict[str, str]] = {
    Kind.INTEGER: {**_COUNTS, "min": "i8", "max": "i8", "sum": "i8", "sum_rest": "i8", **_SQUARES},
    Kind.FLOAT: {
        **_COUNTS, "nans": "i8", "min": "f8", "max": "f8", "sum": "f8", "sum_rest": "f8", **_SQUARES
    },
    Kind.ORDINAL: {**_COUNTS, "min": "i8", "max": "i8"},
    Kind.STRING: {**_COUNTS, "min": _STRINGS, "max": _STRINGS},
    Kind.OPAQUE: _COUNTS,
}  # fmt: skip
"""What is stored of an attribute, and the types of the columns: the fields of `AttributeSummary`,
whose ``sum_high`` and ``sum_low`` are ``sum`` and ``sum_rest``."""

_FIELDS = {
    "nulls": "null_count",
    "nans": "nan_count",
    "min": "minimum",
    "max": "maximum",
    "sum": "sum_high",
    "sum_rest": "sum_low",
    "m2": "m2",
    "m2_rest": "m2_low",
}

_Summary = TypeVar("_Summary", TimeSummary, AttributeSummary)
_Read = TypeVar("_Read")


def build_levels(leaves: _Summary, fan_out: int) -> list[_Summary]:
    """Aggregate entries level by level until one is left.

    ``leaves`` come first. Entry i of a level aggregates the entries ``i * fan_out`` to
    ``(i + 1) * fan_out`` of the level before it.
    """
    levels = [leaves]
    while len(levels[-1]) > 1:
        starts = np.arange(0, len(levels[-1]), fan_out, dtype=np.int64)
        levels.append(levels[-1].merge(starts))
    return levels


def write_tree_file(
    stream_dir: Path,
    data_file: str,
    *,
    times: TimeSummary,
    attributes: Mapping[str, AttributeSummary],
    fan_out: int,
) -> DerivedFile:
    """Write all levels of one data file; replaces an earlier tree file of it, commits nothing.

    ``times`` and ``attributes`` have one entry per block; the attributes are in the order of the
    stream's schema.
    """
    levels = build_levels(times, fan_out)
    sizes = [len(level) for level in levels]
    path = make_table_folder(stream_dir, TREE_TABLE) / data_file
    writer = ColumnWriter(path, kind=_FILE_KIND, subject=data_file)
    with writing(path), closing(writer):
        for name, column in zip(_TIMES, TimeSummary.concat(levels).columns(), strict=True):
            writer.add(name, "i8")
            writer.append(name, column)
        for attribute, leaves in attributes.items():
            entries = AttributeSummary.concat(build_levels(leaves, fan_out))
            for statistic, dtype in _STATISTICS[entries.kind].items():
                _write_statistic(writer, f"{attribute}__{statistic}", dtype, entries)
        size_bytes = writer.finish({"levels": sizes})
    return DerivedFile(TREE_TABLE, data_file, size_bytes, sum(sizes))


def _write_statistic(
    writer: ColumnWriter, name: str, dtype: str, entries: AttributeSummary
) -> None:
    values = getattr(entries, _FIELDS[name.rpartition("__")[2]])
    if dtype is _STRINGS:
        writer.add_strings(name)
        writer.append_strings(name, values.fill_null(""))
    else:
        writer.add(name, dtype)
        writer.append(name, values)


def extremes_to_arrow(column: Any, n_values: Ints) -> pa.Array:
    """Return minima or maxima of a summary as an array that is null where there is no value."""
    return pa.array(column, mask=n_values == 0) if isinstance(column, np.ndarray) else column


class TreeFile:
    """Reads one tree file by column; keeps what it has read. Thread-safe.

    Every byte that is read is compared with its checksum first, and what the entries say is
    checked as far as it can be without the events: a tree file that passes leads nobody astray.

    The file is named as its data file. Every method raises CorruptTreeError if it is missing,
    damaged, another data file's or of another format.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._file: ColumnFile | None = None
        self._times: list[TimeSummary] | None = None
        self._attributes: dict[str, list[AttributeSummary]] = {}

    def times(self) -> list[TimeSummary]:
        """Return the levels' counts, times and gaps, level 0 first."""
        with self._lock:
            if self._times is None:
                self._stated(self._open)
            assert self._times is not None
            return self._times

    def attribute(self, name: str, kind: Kind) -> list[AttributeSummary] | None:
        """Return the levels' summaries of one attribute, level 0 first.

        None if the file has no entries of it: it was written before the column was added.
        """
        self.times()
        with self._lock:
            if name not in self._attributes:
                whole = self._stated(lambda: self._read_attribute(name, kind))
                if whole is None:
                    return None
                self._attributes[name] = [whole.slice(a, b) for a, b in self._bounds()]
            return self._attributes[name]

    def holds(self, attributes: Sequence[str]) -> bool:
        """Return whether the file has entries of all these attributes."""
        return set(attributes) <= set(self.attributes())

    def attributes(self) -> list[str]:
        """Return the names of what the file has entries of."""
        self.times()
        assert self._file is not None
        end = "__nulls"
        return [name.removesuffix(end) for name in self._file.columns if name.endswith(end)]

    def check(self) -> None:
        """Compare all bytes with their checksums."""
        self.times()
        assert self._file is not None
        self._stated(self._file.check)

    def _stated(self, read: Callable[[], _Read]) -> _Read:
        """Read; what goes wrong with the file becomes one error."""
        try:
            return read()
        except FileNotFoundError as error:
            raise CorruptTreeError(str(self._path), "the file is missing") from error
        except (OSError, ValueError) as error:
            raise CorruptTreeError.of(self._path, error) from error

    def _open(self) -> None:
        file = open_columns(self._path, kind=_FILE_KIND, subject=self._path.name)
        sizes = file.about.get("levels")
        if type(sizes) is not list or any(type(n) is not int or n < 1 for n in sizes):
            raise ValueError("it does not say how many entries its levels have")
        if not sizes or any(file.n_rows(name, "i8") != sum(sizes) for name in _TIMES):
            raise ValueError("its levels have other numbers of entries")
        whole = TimeSummary(*file.read_all(*_TIMES))
        cuts = np.cumsum([0, *sizes]).tolist()
        times = [whole.slice(a, b) for a, b in pairwise(cuts)]
        _check_times(times)
        self._file, self._times = file, times

    def _bounds(self) -> list[tuple[int, int]]:
        assert self._times is not None
        return list(pairwise(np.cumsum([0, *map(len, self._times)]).tolist()))

    def _read_attribute(self, name: str, kind: Kind) -> AttributeSummary | None:
        assert self._file is not None
        assert self._times is not None
        if f"{name}__nulls" not in self._file.columns:
            return None
        count = TimeSummary.concat(self._times).count
        try:
            return _read_summary(self._file, name, kind, count)
        except ReplacedError:  # by one of more attributes, perhaps
            self._open()
            if not np.array_equal(TimeSummary.concat(self._times).count, count):
                raise
            return _read_summary(self._file, name, kind, count)


def _check_times(levels: Sequence[TimeSummary]) -> None:
    """Check what binary search and the numbering of events rely on."""
    leaves = levels[0]
    n_events = sum(leaves.count.tolist())  # exactly, whatever is claimed
    for level in levels:
        if (level.count < 1).any() or sum(level.count.tolist()) != n_events:
            raise ValueError("its numbers of events do not add up")
        if (level.t_min > level.t_max).any() or (level.t_max[:-1] > level.t_min[1:]).any():
            raise ValueError("its times do not ascend")
        if (level.gap_min < -1).any() or (level.gap_min > level.gap_max).any():
            raise ValueError("its gaps are no gaps")
    if len(levels[-1]) != 1:
        raise ValueError("its highest level has more than one entry")


def _read_summary(file: ColumnFile, name: str, kind: Kind, count: Ints) -> AttributeSummary:
    """Read and check the entries of one attribute."""
    found: dict[str, Any] = {}
    n = len(count)
    statistics = _STATISTICS[kind]
    numbers = [statistic for statistic, dtype in statistics.items() if dtype is not _STRINGS]
    if any(file.n_rows(f"{name}__{s}", statistics[s]) != n for s in numbers):
        raise ValueError(f"its entries of '{name}' are of another number")
    values = file.read_all(*(f"{name}__{s}" for s in numbers))
    found = {_FIELDS[s]: v for s, v in zip(numbers, values, strict=True)}
    nulls, nans = found["null_count"], found.setdefault("nan_count", np.zeros(n, np.int64))
    in_range = (nulls >= 0) & (nulls <= count) & (nans >= 0) & (nans <= count)
    n_values = count - nulls - nans
    if not in_range.all() or (n_values < 0).any():
        raise ValueError(f"its entries of '{name}' count more events than there are")
    for statistic in statistics.keys() - set(numbers):
        found[_FIELDS[statistic]] = _read_strings(file, f"{name}__{statistic}", n_values)
    for absent in ("minimum", "maximum", "sum_high", "sum_low", "m2", "m2_low"):
        found.setdefault(absent, np.zeros(0))
    summary = AttributeSummary(kind, n_values, **found)
    _check_summary(summary, name)
    return summary


def _read_strings(file: ColumnFile, name: str, n_values: Ints) -> pa.StringArray:
    """Return extremes, null where there is no value."""
    if file.n_strings(name) != len(n_values):
        raise ValueError(f"its entries '{name}' are of another number")
    strings = file.read_strings(name, 0, len(n_values))
    present = n_values > 0
    if present.all():
        return strings
    validity = pa.py_buffer(np.packbits(present, bitorder="little"))
    return pa.StringArray.from_buffers(len(strings), *strings.buffers()[1:], validity)


def _check_summary(summary: AttributeSummary, name: str) -> None:
    """Check that extremes are in order, and integer sums as `carry` leaves them."""
    if summary.kind.has_extremes:
        low, high, present = summary.minimum, summary.maximum, summary.n_values > 0
        if summary.kind is Kind.STRING:
            ordered = pc.less_equal(low, high).fill_null(True).to_numpy(zero_copy_only=False)
        else:
            ordered = (low <= high) | ~present  # which NaN is not
        if not ordered.all():
            raise ValueError(f"its entries of '{name}' have a minimum above the maximum")
    if summary.kind is Kind.INTEGER and (summary.sum_low >> 32).any():
        raise ValueError(f"its sums of '{name}' are of another form")
