"""Mergeable summaries of consecutive blocks: times, extremes, sums and second moments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from chronicle.tree.double_double import Pair, add, divide, multiply, times, two_sum

Ints = npt.NDArray[np.int64]
Numbers = npt.NDArray[Any]

INT_MAX = np.iinfo(np.int64).max
INT_MIN = np.iinfo(np.int64).min
_LOW_BITS = 32
_LOW_MASK = (1 << _LOW_BITS) - 1
_HALF = 2.0**_LOW_BITS


class Kind(Enum):
    """What can be said of an attribute's values."""

    INTEGER = "integer"
    """Exact sums; extremes int64."""

    FLOAT = "float"
    """Compensated sums; extremes float64; NaN counted apart."""

    ORDINAL = "ordinal"
    """Booleans, dates, timestamps: extremes int64 (0/1, days, microseconds), no sum."""

    STRING = "string"
    """Extremes strings in code point order, no sum."""

    OPAQUE = "opaque"
    """Binary and decimal payload: nulls counted, nothing else."""

    @property
    def has_extremes(self) -> bool:
        """Whether values have an order that summaries keep."""
        return self is not Kind.OPAQUE

    @property
    def has_sum(self) -> bool:
        """Whether values can be added."""
        return self in (Kind.INTEGER, Kind.FLOAT)


def kind_of(data_type: pa.DataType) -> Kind:
    """Return the kind of a column of a stream's (normalised) schema."""
    if pat.is_integer(data_type):
        return Kind.INTEGER
    if pat.is_floating(data_type):
        return Kind.FLOAT
    if pat.is_boolean(data_type) or pat.is_date(data_type) or pat.is_timestamp(data_type):
        return Kind.ORDINAL
    if pat.is_string(data_type):
        return Kind.STRING
    return Kind.OPAQUE


@dataclass(frozen=True, slots=True)
class TimeSummary:
    """Count, times and gaps of n consecutive blocks or nodes; every array int64, shape (n,)."""

    count: Ints
    t_min: Ints
    t_max: Ints

    gap_min: Ints
    """Smallest time between neighbouring events inside; -1 where there are fewer than two."""

    gap_max: Ints
    """Largest time between neighbouring events inside; -1 where there are fewer than two."""

    def __len__(self) -> int:
        return len(self.count)

    def slice(self, start: int, stop: int) -> TimeSummary:
        """Return the entries ``start`` to ``stop``, half-open; views."""
        return TimeSummary(*(column[start:stop] for column in self.columns()))

    def take(self, entries: Ints) -> TimeSummary:
        """Return the entries at some positions, in the order given."""
        return TimeSummary(*(column[entries] for column in self.columns()))

    def columns(self) -> tuple[Ints, Ints, Ints, Ints, Ints]:
        """Return the arrays in the order of the fields."""
        return self.count, self.t_min, self.t_max, self.gap_min, self.gap_max

    @classmethod
    def concat(cls, parts: Sequence[TimeSummary]) -> TimeSummary:
        """Return the entries of all parts in order."""
        if not parts:
            return cls(*(np.zeros(0, np.int64) for _ in range(5)))
        columns = zip(*(part.columns() for part in parts), strict=True)
        return cls(*(np.concatenate(column) for column in columns))

    def merge(self, starts: Ints) -> TimeSummary:
        """Merge groups of consecutive entries; see ``AttributeSummary.merge``."""
        if len(starts) == 0:
            return self.slice(0, 0)
        stops = _stops(starts, len(self))
        between = np.empty(len(self), np.int64)
        between[:-1] = self.t_min[1:] - self.t_max[:-1]
        ends = stops - 1
        low = np.where(self.gap_min < 0, INT_MAX, self.gap_min)
        border = between.copy()
        border[ends] = INT_MAX
        gap_min = np.minimum.reduceat(np.minimum(low, border), starts)
        border[ends] = -1
        return TimeSummary(
            count=np.add.reduceat(self.count, starts),
            t_min=self.t_min[starts],
            t_max=self.t_max[ends],
            gap_min=np.where(gap_min == INT_MAX, -1, gap_min),
            gap_max=np.maximum.reduceat(np.maximum(self.gap_max, border), starts),
        )


@dataclass(frozen=True, slots=True)
class AttributeSummary:
    """One attribute over n consecutive blocks or nodes; every array has shape (n,).

    NaN and null are counted and take no part in extremes, sum and second moment. Where there is
    no value, the extremes are neutral for merging and mean nothing.
    """

    kind: Kind
    n_values: Ints
    """Values that are neither null nor NaN."""

    null_count: Ints
    nan_count: Ints

    minimum: Numbers | pa.Array
    """int64 or float64 ndarray; for strings a string array, null where there is no value; empty
    for opaque attributes."""

    maximum: Numbers | pa.Array

    sum_high: Numbers
    """Floats: the sum. Integers (int64): the sum is ``sum_high * 2**32 + sum_low``. Empty
    without sum."""

    sum_low: Numbers
    """Floats: what ``sum_high`` lost to rounding. Integers: in [0, 2**32)."""

    m2: npt.NDArray[np.float64]
    """Sum of squared differences from the mean; empty without sum."""

    m2_low: npt.NDArray[np.float64]
    """What ``m2`` lost to rounding; 0 where it is not finite, empty without sum."""

    def __len__(self) -> int:
        return len(self.n_values)

    def slice(self, start: int, stop: int) -> AttributeSummary:
        """Return the entries ``start`` to ``stop``, half-open; views."""
        cut = slice(start, stop)
        return AttributeSummary(self.kind, *(column[cut] for column in self.columns()))

    def take(self, entries: Ints) -> AttributeSummary:
        """Return the entries at some positions, in the order given."""
        return AttributeSummary(self.kind, *(_take(column, entries) for column in self.columns()))

    def columns(self) -> tuple[Any, ...]:
        """Return the arrays in the order of the fields."""
        return (
            self.n_values, self.null_count, self.nan_count, self.minimum, self.maximum,
            self.sum_high, self.sum_low, self.m2, self.m2_low,
        )  # fmt: skip

    @classmethod
    def concat(cls, parts: Sequence[AttributeSummary]) -> AttributeSummary:
        """Return the entries of all parts, which are of one kind and at least one, in order."""
        columns = zip(*(part.columns() for part in parts), strict=True)
        return cls(parts[0].kind, *(_concat(column) for column in columns))

    def merge(self, starts: Ints) -> AttributeSummary:
        """Merge groups of consecutive entries.

        Parameters
        ----------
        starts
            int64, shape (k,): strictly ascending first entries of the groups; the first is 0,
            each group ends where the next starts.

        Returns
        -------
        AttributeSummary
            k entries, each the summary of its group's events taken together.

        Notes
        -----
        Second moments are merged by the k-way form of Chan, Golub and LeVeque, "Updating
        formulae and a pairwise algorithm for computing sample variances" (1979), in pairs of
        doubles.
        """
        if len(starts) == 0:
            return self.slice(0, 0)
        merged = replace(
            self,
            n_values=np.add.reduceat(self.n_values, starts),
            null_count=np.add.reduceat(self.null_count, starts),
            nan_count=np.add.reduceat(self.nan_count, starts),
        )
        if self.kind.has_extremes:
            merged = replace(
                merged,
                minimum=_merge_extremes(self.minimum, starts, "min"),
                maximum=_merge_extremes(self.maximum, starts, "max"),
            )
        return self._merge_sums(merged, starts) if self.kind.has_sum else merged

    def _merge_sums(self, merged: AttributeSummary, starts: Ints) -> AttributeSummary:
        high: Numbers
        low: Numbers
        if self.kind is Kind.INTEGER:
            high, low = carry(
                np.add.reduceat(self.sum_high, starts), np.add.reduceat(self.sum_low, starts)
            )
        else:
            high, low = _merge_float_sums(self.sum_high, self.sum_low, starts)
        merged = replace(merged, sum_high=high, sum_low=low)
        m2, m2_low = self._merge_squares(merged, starts)
        return replace(merged, m2=m2, m2_low=m2_low)

    def _merge_squares(self, merged: AttributeSummary, starts: Ints) -> Pair:
        """Return second moments around the means of groups."""
        lengths = _stops(starts, len(self)) - starts
        n = self.n_values.astype(np.float64)
        with np.errstate(invalid="ignore", over="ignore"):
            high, low = (np.repeat(part, lengths) for part in merged.sum_pair())
            of_all = np.repeat(np.maximum(merged.n_values, 1), lengths).astype(np.float64)
            # The difference of exact products: means would be rounded, and may be large and close.
            apart = add(times(self.sum_pair(), of_all), times((high, low), -n))
            off = divide(divide(apart, np.maximum(n, 1.0)), of_all)
            spread, lost = add((self.m2, self.m2_low), multiply(times(off, n), off))
            none = self.n_values == 0
            spread[none] = lost[none] = 0.0
            plain = ~np.isfinite(lost)
            if plain.any():
                off_plain = self.mean() - np.repeat(merged.mean(), lengths)
                spread[plain] = (self.m2 + n * off_plain * off_plain)[plain]
                lost[plain] = 0.0
            return _merge_float_sums(spread, lost, starts)

    def mean(self) -> npt.NDArray[np.float64]:
        """Return the means, 0 where there is no value; needs a kind with sums."""
        with np.errstate(invalid="ignore", over="ignore"):
            high, low = self.sum_pair()
            return np.asarray((high + low) / np.maximum(self.n_values, 1), np.float64)

    def sum_pair(self) -> Pair:
        """Return the sums as pairs of doubles; those of integers lose nothing below 2**105."""
        if self.kind is Kind.INTEGER:
            rounded = np.asarray(self.sum_high, np.float64)
            rest = self.sum_high - rounded.astype(np.int64)
            return two_sum(rounded * _HALF, rest * _HALF + self.sum_low)
        return np.asarray(self.sum_high), np.asarray(self.sum_low)


def all_null(kind: Kind, count: Ints) -> AttributeSummary:
    """Return the summaries of entries whose events have no value of an attribute.

    ``count`` are the events of each entry, shape (n,).
    """
    n = len(count)
    none = np.zeros(n, np.int64)
    low: Numbers | pa.Array = np.full(n, INT_MAX)
    high: Numbers | pa.Array = np.full(n, INT_MIN)
    if kind is Kind.STRING:
        low = high = pa.nulls(n, pa.string())
    elif kind is Kind.FLOAT:
        low, high = np.full(n, np.inf), np.full(n, -np.inf)
    elif kind is Kind.OPAQUE:
        low = high = np.zeros(0)
    sums = np.zeros(n, np.float64 if kind is Kind.FLOAT else np.int64)
    sums = sums if kind.has_sum else np.zeros(0)
    m2 = np.zeros(n if kind.has_sum else 0)
    return AttributeSummary(kind, none, count, none, low, high, sums, sums, m2, m2)


def counted(n_values: Ints, null_count: Ints) -> AttributeSummary:
    """Return summaries that count events and tell nothing else of them."""
    return AttributeSummary(
        Kind.OPAQUE, n_values, null_count, np.zeros(len(n_values), np.int64), *[np.zeros(0)] * 6
    )


def integer_sums(high: Ints, low: Ints) -> list[int]:
    """Return the exact sums that ``sum_high`` and ``sum_low`` of integers stand for."""
    return [int(a) * (_LOW_MASK + 1) + int(b) for a, b in zip(high, low, strict=True)]


def carry(high: Ints, low: Ints) -> tuple[Ints, Ints]:
    """Bring the low parts of integer sums into [0, 2**32)."""
    return high + (low >> _LOW_BITS), low & _LOW_MASK


def equal_runs(lengths: Ints) -> Iterator[tuple[int, int, int, int]]:
    """Split groups into runs of equal length, each of which can be seen as a matrix.

    ``lengths`` are those of consecutive groups, int64, shape (n,). Yields first group, number of
    groups, first element and group length.
    """
    if len(lengths) == 0:
        return
    firsts = np.concatenate(([0], np.flatnonzero(np.diff(lengths)) + 1))
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    stops = _stops(firsts, len(lengths))
    for first, stop in zip(firsts.tolist(), stops.tolist(), strict=True):
        yield first, stop - first, int(offsets[first]), int(lengths[first])


def two_sum_rows(
    matrix: npt.NDArray[np.float64],
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Sum each row in about twice the working precision.

    ``matrix`` has shape (n, width), width at least 1. Returns sums and what they lost to rounding,
    each of shape (n,); rows whose sum overflows or that hold infinities get the plain sum and 0.

    Notes
    -----
    Halving by TwoSum with the errors added up: Ogita, Rump and Oishi, "Accurate sum and dot
    product" (2005), Sum2, with pairwise instead of running sums so that it goes by column.
    """
    partial = matrix
    errors = np.zeros(len(matrix))
    with np.errstate(invalid="ignore", over="ignore"):
        while partial.shape[1] > 1:
            half = partial.shape[1] // 2
            left, right = partial[:, :half], partial[:, half : 2 * half]
            total = left + right
            virtual = total - left
            errors += ((left - (total - virtual)) + (right - virtual)).sum(axis=1)
            odd = partial[:, 2 * half :]
            partial = np.concatenate((total, odd), axis=1) if odd.shape[1] else total
        sums = partial[:, 0]
        bad = ~(np.isfinite(sums) & np.isfinite(errors))
        high = sums + errors
        low = errors - (high - sums)
        if bad.any():
            high[bad] = matrix[bad].sum(axis=1)
            low[bad] = 0.0
    return high, low


def _merge_float_sums(
    high: npt.NDArray[np.float64], low: npt.NDArray[np.float64], starts: Ints
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    lengths = _stops(starts, len(high)) - starts
    merged_high, merged_low = np.empty(len(starts)), np.empty(len(starts))
    for group, n, first, width in equal_runs(lengths):
        block = slice(first, first + n * width)
        total, lost = two_sum_rows(high[block].reshape(n, width))
        lost = lost + low[block].reshape(n, width).sum(axis=1)
        with np.errstate(invalid="ignore"):
            rounded = total + lost
            rest = np.where(np.isfinite(rounded), lost - (rounded - total), 0.0)
        merged_high[group : group + n] = rounded
        merged_low[group : group + n] = rest
    return merged_high, merged_low


def _merge_extremes(column: Any, starts: Ints, which: str) -> Any:
    if isinstance(column, np.ndarray):
        function = np.minimum if which == "min" else np.maximum
        return function.reduceat(column, starts)
    pick = pc.min if which == "min" else pc.max
    stops = _stops(starts, len(column)).tolist()
    groups = zip(starts.tolist(), stops, strict=True)
    return pa.array([pick(column[a:b]).as_py() for a, b in groups], type=pa.string())


def _concat(columns: Sequence[Any]) -> Any:
    if len(columns) == 1:
        return columns[0]
    if isinstance(columns[0], np.ndarray):
        return np.concatenate(columns)
    return pa.concat_arrays(columns)


def _take(column: Any, entries: Ints) -> Any:
    """Return some entries of a column; one that a kind does not have stays empty."""
    if isinstance(column, np.ndarray):
        return column[entries] if len(column) else column
    return column.take(pa.array(entries))


def _stops(starts: Ints, n: int) -> Ints:
    return np.append(starts[1:], n)


@dataclass(frozen=True, slots=True)
class Leaves:
    """All n blocks of a snapshot in stream order."""

    count: Ints
    """Events per block, shape (n,)."""

    base: Ints
    """Sequence number of each block's first event, and of the stream's end, shape (n + 1,)."""

    t_min: Ints
    t_max: Ints

    gap_min: Ints
    """Smallest time between neighbouring events within the block; -1 below two events."""

    gap_max: Ints
    """Largest time between neighbouring events within the block; -1 below two events."""

    file: npt.NDArray[np.int32]
    """Position in ``Snapshot.files`` of the data file that holds the block."""

    row_group: npt.NDArray[np.int32]
    """Position of the block in its data file."""


@dataclass(frozen=True, slots=True, eq=False)
class AttributeBounds:
    """Least and greatest value of one attribute in each of n blocks, and how values lie between.

    Equal only to itself, so that what follows from it can be kept.
    """

    minimum: pa.Array
    """int64 (integers, booleans, timestamps in us, dates in days), float64 or string; null where
    there is no value or nothing is known."""

    maximum: pa.Array

    n_values: Ints
    """Values neither null nor NaN, shape (n,); where not known, the block's number of events."""

    known: npt.NDArray[np.bool_]
    """False where the block has no tree entry, the attribute has no order, or values of a derived
    one depend on events of other files; shape (n,)."""

    mean: npt.NDArray[np.float64]
    """Of the values, shape (n,); NaN where it is not known, as of what cannot be added."""

    variance: npt.NDArray[np.float64]
    """Mean squared difference from ``mean``, shape (n,); NaN where that is."""
