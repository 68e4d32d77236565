"""Summaries of blocks computed from their events, many blocks at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from chronicle.tree.double_double import Floats, Pair, add, divide, multiply, two_product, two_sum
from chronicle.tree.summary import (
    INT_MAX,
    INT_MIN,
    AttributeSummary,
    Ints,
    Kind,
    TimeSummary,
    carry,
    counted,
    equal_runs,
    kind_of,
    two_sum_rows,
)

_CHUNK_VALUES = 1 << 16
"""Values summed at once: 512 KiB of doubles, so that the passes stay in the cache."""

_NO_NUMBERS = np.zeros(0)
_DIRECT_SUM_MAX = 1 << 62


def summarise_times(times: Ints, block_counts: Sequence[int]) -> TimeSummary:
    """Summarise the times of consecutive blocks.

    ``times`` are int64, ascending, shape (n_events,); ``block_counts`` the events per block, each
    at least 1, which sum to n_events.
    """
    counts = np.asarray(block_counts, np.int64)
    ends = np.cumsum(counts)
    starts = ends - counts
    gaps = np.diff(times, append=times[-1:])
    crossing = ends - 1
    gaps[crossing] = INT_MAX
    gap_min = np.minimum.reduceat(gaps, starts) if len(gaps) else gaps
    gaps[crossing] = -1
    gap_max = np.maximum.reduceat(gaps, starts) if len(gaps) else gaps
    return TimeSummary(
        count=counts,
        t_min=times[starts],
        t_max=times[ends - 1],
        gap_min=np.where(gap_min == INT_MAX, -1, gap_min),
        gap_max=gap_max,
    )


def summarise(column: pa.Array | pa.ChunkedArray, block_counts: Sequence[int]) -> AttributeSummary:
    """Summarise one attribute over consecutive blocks.

    ``column`` has the attribute of all events, in stream order, of a normalised type or of a
    dictionary of it; ``block_counts`` the events per block, each at least 1.

    Notes
    -----
    Sums of floats and second moments are pairs of doubles: `moment_rows`.
    """
    if pat.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = kind_of(column.type)
    # Strings stay as they are, since one array holds 2 GiB.
    array = column if kind in (Kind.STRING, Kind.OPAQUE) else to_plain(column)
    counts = np.asarray(block_counts, np.int64)
    valid = None if array.null_count == 0 else array.is_valid().to_numpy(zero_copy_only=False)
    nulls = _count_false(valid, counts)
    if kind is Kind.OPAQUE or kind is Kind.STRING:
        return _summarise_bytes(array, kind, counts, nulls)
    values = _to_numpy(array, kind)
    present = valid
    if kind is Kind.FLOAT:
        number = ~np.isnan(values)
        if not number.all():
            present = number if valid is None else number & valid
    n_values = counts - _count_false(present, counts)
    minimum, maximum = _extremes(values, present, kind, counts)
    summary = AttributeSummary(
        kind, n_values, nulls, counts - nulls - n_values, minimum, maximum, *(_NO_NUMBERS,) * 4
    )
    return _with_moments(summary, values, present, counts) if kind.has_sum else summary


def to_plain(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return the values of a column in one array, without a dictionary."""
    if pat.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if isinstance(column, pa.ChunkedArray):
        column = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    if isinstance(column, pa.ChunkedArray):  # an older Arrow keeps the chunks of an empty column
        column = pa.concat_arrays(column.chunks) if column.chunks else pa.array([], column.type)
    return column


def _to_numpy(array: pa.Array, kind: Kind) -> npt.NDArray[Any]:
    """Return int64 or float64 values; what stands at nulls is arbitrary but no NaN."""
    if pat.is_date(array.type):
        array = array.view(pa.int32())
    elif pat.is_timestamp(array.type):
        array = array.view(pa.int64())
    elif pat.is_boolean(array.type):
        array = array.cast(pa.int8())
    if array.null_count:
        array = array.fill_null(0)
    values: npt.NDArray[Any] = array.to_numpy(zero_copy_only=False)
    return values.astype(np.float64 if kind is Kind.FLOAT else np.int64, copy=False)


def _pieces(counts: Ints) -> Iterator[tuple[slice, slice, tuple[int, int]]]:
    """Yield blocks, their events and the matrix shape these have, in cache-sized pieces."""
    for block, n, first, width in equal_runs(counts):
        step = max(1, _CHUNK_VALUES // width)
        for row in range(0, n, step):
            rows = min(step, n - row)
            event = first + row * width
            yield (
                slice(block + row, block + row + rows),
                slice(event, event + rows * width),
                (rows, width),
            )


def _count_false(mask: npt.NDArray[np.bool_] | None, counts: Ints) -> Ints:
    result = np.zeros(len(counts), np.int64)
    if mask is not None:
        for blocks, events, shape in _pieces(counts):
            result[blocks] = shape[1] - np.count_nonzero(mask[events].reshape(shape), axis=1)
    return result


def _extremes(
    values: npt.NDArray[Any], present: npt.NDArray[np.bool_] | None, kind: Kind, counts: Ints
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    minimum, maximum = np.empty(len(counts), values.dtype), np.empty(len(counts), values.dtype)
    low, high = (np.inf, -np.inf) if kind is Kind.FLOAT else (INT_MAX, INT_MIN)
    for blocks, events, shape in _pieces(counts):
        piece = values[events]
        here = None if present is None else present[events]
        least = piece if here is None else np.where(here, piece, low)
        most = piece if here is None else np.where(here, piece, high)
        minimum[blocks] = least.reshape(shape).min(axis=1)
        maximum[blocks] = most.reshape(shape).max(axis=1)
    return minimum, maximum


def _with_moments(
    summary: AttributeSummary,
    values: npt.NDArray[Any],
    present: npt.NDArray[np.bool_] | None,
    counts: Ints,
) -> AttributeSummary:
    """Add sums and second moments."""
    high, low = np.empty(len(counts), values.dtype), np.empty(len(counts), values.dtype)
    m2, m2_low = np.empty(len(counts)), np.empty(len(counts))
    none = summary.n_values == 0
    least, most = (np.where(none, 0, side) for side in (summary.minimum, summary.maximum))
    n_values = summary.n_values.astype(np.float64)
    for blocks, events, shape in _pieces(counts):
        matrix = values[events].reshape(shape)
        here = None if present is None else present[events].reshape(shape)
        given = (here, n_values[blocks], least[blocks], most[blocks])
        if summary.kind is Kind.INTEGER:
            m2[blocks], m2_low[blocks] = integer_square_rows(matrix, *given)
            added = matrix if here is None else np.where(here, matrix, 0)
            high[blocks], low[blocks] = _integer_sum_rows(added)
        else:
            sums, squares = _float_moments(matrix, *given)
            (high[blocks], low[blocks]), (m2[blocks], m2_low[blocks]) = sums, squares
    return replace(summary, sum_high=high, sum_low=low, m2=m2, m2_low=m2_low)


def _float_moments(
    matrix: Floats,
    here: npt.NDArray[np.bool_] | None,
    n_values: Floats,
    least: Floats,
    most: Floats,
) -> Moments:
    """Return moments of doubles; those that are not finite once more as plain sums."""
    with np.errstate(invalid="ignore", over="ignore"):
        found = moment_rows(matrix, here, n_values, least, most)
        (high, low), (m2, m2_low) = found
        odd = ~(np.isfinite(low) & np.isfinite(m2_low))
        if odd.any():
            rows = matrix[odd] if here is None else np.where(here[odd], matrix[odd], 0.0)
            high[odd], low[odd] = two_sum_rows(rows)
            off = rows - (high[odd] / np.maximum(n_values[odd], 1.0))[:, np.newaxis]
            off = off if here is None else np.where(here[odd], off, 0.0)
            m2[odd], m2_low[odd] = np.vecdot(off, off), 0.0
    return found


def _integer_sum_rows(matrix: Ints) -> tuple[Ints, Ints]:
    """Sum each row exactly, as high and low part (see ``AttributeSummary``)."""
    largest = max(abs(int(matrix.min())), abs(int(matrix.max())))
    if largest * matrix.shape[1] <= _DIRECT_SUM_MAX:
        return carry(np.zeros(len(matrix), np.int64), matrix.sum(axis=1))
    return carry((matrix >> 32).sum(axis=1), (matrix & 0xFFFFFFFF).sum(axis=1))


def _summarise_bytes(
    array: pa.Array | pa.ChunkedArray, kind: Kind, counts: Ints, nulls: Ints
) -> AttributeSummary:
    """Summarise strings (extremes too) and opaque values (nulls only)."""
    if kind is Kind.OPAQUE:
        return counted(counts - nulls, nulls)
    ends = np.cumsum(counts)
    slices = [array.slice(int(e - n), int(n)) for e, n in zip(ends, counts, strict=True)]
    extremes = [pc.min_max(part).as_py() for part in slices]
    minimum = pa.array([pair["min"] for pair in extremes], type=pa.string())
    maximum = pa.array([pair["max"] for pair in extremes], type=pa.string())
    zeros = np.zeros(len(counts), np.int64)
    return AttributeSummary(
        kind, counts - nulls, nulls, zeros, minimum, maximum, *(_NO_NUMBERS,) * 4
    )


# ---------------------------------------------------------------------------------------------
# Sums and second moments of many rows, in about twice a double's precision


Bools = npt.NDArray[np.bool_]

_ROOM = 1.5 * 2.0**52
"""Added and subtracted again it rounds numbers below 2**51 to whole ones."""

_EXACT_RANGE = 1 << 52
_LIMB_BITS = 22
"""Products of limbs that are so short add up to 2**19 in 64 bits."""


class Moments(NamedTuple):
    """Of n rows; every array has shape (n,)."""

    total: Pair
    """Sums."""
    squares: Pair
    """Sums of squared differences from the mean."""


def moment_rows(
    matrix: Floats, here: Bools | None, n_values: Floats, least: Floats, most: Floats
) -> Moments:
    """Return sums and second moments of rows of doubles.

    Parameters
    ----------
    matrix
        float64, shape (n, width), width from 1 to 2**19.
    here
        Likewise, what of it is a value; None: all.
    n_values
        How many are, shape (n,).
    least, most
        Extremes of the values of each row, 0 where it has none.

    Returns
    -------
    Moments
        What is infinite, or beyond some 2**980, has parts that are not finite.

    Notes
    -----
    To within ``width * 2**-100`` of the sum of absolute values, and of
    ``m2 + abs(mean) * sqrt(n * m2)``. Every number less the middle of its row is cut into four
    slices, the first three multiples of powers of two that are common to the row, and so short
    that their sums and the sums of their products are exact in doubles: Ozaki, Ogita, Oishi and
    Rump, "Error-free transformations of matrix multiplication" (2012).
    """
    bits = _slice_bits(matrix.shape[1])
    half = most / 2.0 - least / 2.0
    unit = _shared(np.ldexp(1.0, np.frexp(half)[1] + (1 - bits)))
    middle = np.where(half == 0.0, least, least / 2.0 + most / 2.0)
    # Values so close to each other that their differences are exact.
    far = (np.maximum(np.abs(least), np.abs(most)) >= unit * 2.0**51) | (half == 0.0)
    if far.any():
        matrix = matrix - np.where(far, middle, 0.0)[:, None]
    center = np.where(far, 0.0, (middle + unit * _ROOM) - unit * _ROOM)
    if here is not None:
        matrix = np.where(here, matrix, center[:, None])
    first, rest = _first_slice(matrix, center, unit)
    total, squares = _sums(first, rest, unit, bits)
    whole = add(two_product(np.where(far, middle, center), n_values), total)
    return Moments(whole, _centered(total, squares, n_values))


def _slice_bits(width: int) -> int:
    """Return how long numbers may be so that ``width`` of their squares are added without loss."""
    return (53 - width.bit_length()) // 2


def _centered(total: Pair, squares: Pair, n_values: Floats) -> Pair:
    """Return sums of squared differences from the mean, of those from some other number."""
    return add(squares, multiply(total, divide(total, -np.maximum(n_values, 1.0))))


def _shared(unit: Floats) -> Floats:
    """Return one unit for all rows where theirs are much the same, which is faster."""
    largest = unit.max()
    return np.asarray(largest) if largest <= 4.0 * unit.min() else unit


def _column(numbers: Floats) -> Floats:
    return numbers[:, np.newaxis] if numbers.ndim else numbers


def _first_slice(matrix: Floats, center: Floats, unit: Floats) -> Pair:
    """Return how many units each number is from a center of whole units, and the rest."""
    raised = unit * _ROOM
    rest = matrix + _column(raised)
    first = rest - (raised + center)[:, np.newaxis]
    rest -= _column(raised)
    np.subtract(matrix, rest, out=rest)
    return first, rest


def _sums(first: Floats, rest: Floats, unit: Floats, bits: int) -> tuple[Pair, Pair]:
    """Return sums and sums of squares of ``first + rest``; overwrites ``rest``."""
    one = np.ones(first.shape[1])
    raised = _column(unit * (_ROOM * 2.0**-bits))
    second = rest + raised
    second -= raised
    rest -= second
    last = 2.0 * np.vecdot(second, rest) + np.vecdot(rest, rest)
    raised = raised * 2.0**-bits
    third = rest + raised
    third -= raised
    rest -= third
    last += 2.0 * np.vecdot(first, rest)
    total = two_sum(np.vecdot(first, one), np.vecdot(second, one))
    squares = two_sum(np.vecdot(first, first), 2.0 * np.vecdot(first, second))
    squares = add(squares, two_sum(2.0 * np.vecdot(first, third), np.vecdot(second, second)))
    none = np.zeros_like(last)
    return (
        add(total, two_sum(np.vecdot(third, one), np.vecdot(rest, one))),
        add(squares, (last, none)),
    )


def integer_square_rows(
    matrix: Ints, here: Bools | None, n_values: Floats, least: Ints, most: Ints
) -> Pair:
    """Return second moments of rows of integers; see `moment_rows`.

    Exact before they are rounded to a pair where a row's values are 2**52 or more apart.
    """
    apart = most.view(np.uint64) - least.view(np.uint64)  # beyond 63 bits, too
    if (apart >= _EXACT_RANGE).any():
        return _wide_square_rows(matrix, here, n_values, least)
    middle = least + (apart >> np.uint64(1)).view(np.int64)
    off = (matrix - middle[:, np.newaxis]).astype(np.float64)
    if int(apart.max()) >> _slice_bits(matrix.shape[1]) == 0:  # one slice
        off = off if here is None else np.where(here, off, 0.0)
        none = np.zeros(len(off))
        return _centered((off.sum(axis=1), none), (np.vecdot(off, off), none), n_values)
    low, high = (least - middle).astype(np.float64), (most - middle).astype(np.float64)
    return moment_rows(off, here, n_values, low, high).squares


def _wide_square_rows(matrix: Ints, here: Bools | None, n_values: Floats, least: Ints) -> Pair:
    apart = matrix.view(np.uint64) - least.view(np.uint64)[:, np.newaxis]
    if here is not None:
        apart = np.where(here, apart, np.uint64(0))
    shifts = (0, _LIMB_BITS, 2 * _LIMB_BITS)
    mask = np.uint64((1 << _LIMB_BITS) - 1)
    limbs = [((apart >> np.uint64(s)) & mask).view(np.int64) for s in shifts]
    totals = _weighed([(s, limb.sum(axis=1)) for s, limb in zip(shifts, limbs, strict=True)])
    products = [
        (s + r, np.vecdot(one, other))
        for s, one in zip(shifts, limbs, strict=True)
        for r, other in zip(shifts, limbs, strict=True)
    ]
    high, low = np.zeros(len(matrix)), np.zeros(len(matrix))
    numbers = n_values.astype(np.int64).tolist()
    rows = zip(numbers, totals, _weighed(products), strict=True)
    for row, (n, total, squares) in enumerate(rows):
        exact = Fraction(n * squares - total * total, max(n, 1))
        high[row] = float(exact)
        low[row] = float(exact - Fraction(high[row]))
    return high, low


def _weighed(terms: list[tuple[int, Ints]]) -> list[int]:
    """Return the exact sums of columns, each shifted to the left by so many bits."""
    shifts = [shift for shift, _ in terms]
    columns = zip(*(column.tolist() for _, column in terms), strict=True)
    return [sum(v << s for s, v in zip(shifts, row, strict=True)) for row in columns]
