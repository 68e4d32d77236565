"""Aggregates of the rows of a segment so far: of a match, or of a group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from chronicle.tree.double_double import divide, two_sum
from replay.errors import NotSupportedError, QueryError
from replay.expressions.columns import Values
from replay.expressions.scalars import Faults
from replay.expressions.types import DECIMAL_DIGITS, SCALES
from replay.language.bound import Aggregate, DataType
from replay.limits import check_limits
from replay.operators.exact_sums import HALF, LOW_HALF, range_sums
from replay.operators.row_kernels import running_best, running_squares, running_sum

IntArray = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_ELEMENTS_MAX = 2**31 - 1
"""Values that arrays of Arrow made together can have."""


class Spans(NamedTuple):
    """What is aggregated: for every result, rows from the begin of a segment up to some row."""

    segments: IntArray
    """Number of the segment of each row, ascending."""
    begins: IntArray
    """First row of the result's segment, or any row where none is aggregated."""
    ends: IntArray
    """The row after the last one aggregated."""


def aggregate(
    what: Aggregate,
    values: Values | None,
    spans: Spans,
    faults: Faults,
    order: Sequence[Any] = (),
) -> Values:
    """Return an aggregate of many spans of rows, in time linear in rows and results.

    ``var_*`` and ``stddev_*`` follow Welford's recurrence over doubles in row order; ``DISTINCT``
    keeps the first row of equal values (0.0 and -0.0 are equal, NaN equals NaN); ``min`` and
    ``max`` order strings by code point and give the first of equal values; ``avg`` of intervals
    drops fractions of a microsecond. ``values`` are the argument at every row; None for
    ``COUNT(*)``. ``order`` are the columns of its keys, as ``np.lexsort`` takes them.
    """
    if values is None:
        return Values(spans.ends - spans.begins, None)
    if what.function in ("any_value", "max_by", "min_by"):
        return _picked(what, values, spans, order)
    if what.function == "concat":
        return _concatenated(what, values, spans, order)
    data, spans = counted(what, values, spans)
    count = spans.ends - spans.begins
    if what.function == "count":
        return Values(count, None)
    if what.function in ("min", "max"):
        return _best(data, spans, greatest=what.function == "max")
    if what.function in ("sum", "avg"):
        sums = faults.drop(*_sums(what, data, spans))
        return _average(what, sums, count) if what.function == "avg" else sums
    return _spread(what, data, spans)


def collected(
    elements: pa.Array,
    keep: Bools | None,
    spans: Spans,
    *,
    distinct: bool = False,
    order: Sequence[Any] = (),
) -> pa.Array:
    """Return the elements of many spans of rows, NULL too, as an array for each.

    NULL stands for an array of none. ``keep`` says which rows there are; None: all. ``order`` is as
    in `aggregate`.
    """
    if keep is not None:
        elements, spans, order = _kept_in_order(elements, spans, order, keep)
    if distinct:
        first = _is_first(elements, spans.segments)
        elements, spans, order = _kept_in_order(elements, spans, order, first)
    lengths = spans.ends - spans.begins
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    if offsets[-1] > _ELEMENTS_MAX:
        raise QueryError(
            f"ARRAY_AGG makes arrays of {offsets[-1]:,} values together, and the limit is "
            f"{_ELEMENTS_MAX:,}; write ONE ROW PER MATCH, or FINAL LAST(…) of what is needed"
        )
    rows = _rows_of(spans, order)
    places = pa.array(offsets.astype(np.int32))
    is_none = pa.array(lengths == 0)
    return pa.ListArray.from_arrays(places, elements.take(pa.array(rows)), mask=is_none)


def _rows_of(spans: Spans, order: Sequence[Any]) -> IntArray:
    """Return the rows of all spans, one span after the other, each in the order asked for."""
    lengths = spans.ends - spans.begins
    before = np.cumsum(lengths) - lengths
    rows: IntArray = np.arange(lengths.sum()) + np.repeat(spans.begins - before, lengths)
    if not order:
        return rows
    check_limits()
    of_span = np.repeat(np.arange(len(lengths)), lengths)
    sorted_rows: IntArray = rows[np.lexsort([*(column[rows] for column in order), of_span])]
    return sorted_rows


def _concatenated(what: Aggregate, values: Values, spans: Spans, order: Sequence[Any]) -> Values:
    """Return the texts of each span one after the other, NULL of none."""
    texts, spans, order = _kept_in_order(values.data, spans, order, _is_there(values))
    if what.distinct:
        first = _is_first(texts, spans.segments)
        texts, spans, order = _kept_in_order(texts, spans, order, first)
    lengths = spans.ends - spans.begins
    every = texts.take(pa.array(_rows_of(spans, order))).to_pylist() if order else texts.to_pylist()
    ends = np.cumsum(lengths) if order else spans.ends
    bounds = zip((ends - lengths).tolist(), ends.tolist(), strict=True)
    whole = ["".join(every[begin:end]) if begin < end else None for begin, end in bounds]
    return Values(pa.array(whole, pa.string()), None)


def _picked(what: Aggregate, values: Values, spans: Spans, order: Sequence[Any]) -> Values:
    """Return the first value of each span, or that where the key is greatest or least."""
    keep = _is_there(values)
    if order:
        _, missing = order
        keep = keep & ~missing
    data, spans, order = _kept_in_order(values.data, spans, order, keep)
    rows = spans.begins
    if order:
        greatest = what.function == "max_by"
        rows = _up_to(running_best(order[0], spans.segments, greatest), spans)
    return _taken(data, rows, spans.ends > spans.begins)


def _is_there(values: Values) -> Bools:
    """Return which values are not NULL."""
    data, valid = values
    if isinstance(data, np.ndarray):
        return np.ones(len(data), np.bool_) if valid is None else valid
    return np.asarray(data.is_valid().to_numpy(zero_copy_only=False), np.bool_)


def counted(what: Aggregate, values: Values, spans: Spans) -> tuple[Any, Spans]:
    """Return the values that count, and the spans among them; of DISTINCT each once."""
    data, counts = values
    if isinstance(data, pa.ChunkedArray):
        data = data.combine_chunks()
    if isinstance(data, pa.Array):
        counts = data.is_valid().to_numpy(zero_copy_only=False)
    elif what.function in ("min", "max") and data.dtype == np.float64:
        counts = ~np.isnan(data) if counts is None else counts & ~np.isnan(data)
    if counts is not None:
        data, spans = _kept(data, spans, counts)
    if what.distinct and what.function not in ("min", "max"):
        data, spans = _kept(data, spans, _is_first(data, spans.segments))
    return data, spans


def _kept(data: Any, spans: Spans, keep: Bools) -> tuple[Any, Spans]:
    if keep.all():
        return data, spans
    before = np.concatenate([np.zeros(1, np.int64), np.cumsum(keep, dtype=np.int64)])
    data = data.filter(pa.array(keep)) if isinstance(data, pa.Array) else data[keep]
    return data, Spans(spans.segments[keep], before[spans.begins], before[spans.ends])


def _kept_in_order(
    data: Any, spans: Spans, order: Sequence[Any], keep: Bools
) -> tuple[Any, Spans, Sequence[Any]]:
    """Return values, spans and columns of an order without the rows that are not kept."""
    if isinstance(data, pa.ChunkedArray):
        data = data.combine_chunks()
    return (*_kept(data, spans, keep), [column[keep] for column in order])


def _is_first(data: Any, segments: IntArray) -> Bools:
    """Return which rows are the first of their value in their segment."""
    if isinstance(data, pa.Array):
        encoded = data.dictionary_encode(null_encoding="encode")
        codes = encoded.indices.to_numpy(zero_copy_only=False)
    else:
        codes = np.unique(data, return_inverse=True)[1]
    order = np.lexsort((codes, segments))  # stable: of equal ones the first row stays first
    sorted_codes, sorted_segments = codes[order], segments[order]
    first = np.ones(len(order), np.bool_)
    first[1:] = (np.diff(sorted_codes) != 0) | (np.diff(sorted_segments) != 0)
    result = np.empty_like(first)
    result[order] = first
    return result


def _all_or(valid: Bools) -> Bools | None:
    return None if valid.all() else valid


def _up_to(running: Any, spans: Spans) -> Any:
    """Return the running value at the last row of each span; anything where there is none."""
    if not len(running):
        return np.zeros(len(spans.ends), running.dtype)
    return running[np.maximum(spans.ends - 1, 0)]


def _sums(what: Aggregate, data: Any, spans: Spans) -> tuple[Values, Bools | None]:
    """Return the sum of each span, and whether it fits where it might not."""
    there = _all_or(spans.ends > spans.begins)
    if data.dtype == np.float64:
        return Values(_up_to(running_sum(data, spans.segments), spans), there), None
    halves = (data >> HALF, data & LOW_HALF)
    upper, lower = (range_sums(half, spans.begins, spans.ends) for half in halves)
    upper += lower >> HALF
    sums, fits = (upper << HALF) + (lower & LOW_HALF), upper == upper.astype(np.int32)
    if what.type in SCALES:
        fits = fits & (np.abs(sums) < 10**DECIMAL_DIGITS)
    return Values(sums, there), fits


def _average(what: Aggregate, sums: Values, count: IntArray) -> Values:
    among = np.maximum(count, 1)
    if what.type is DataType.INTERVAL:
        whole = sums.data // among
        return Values(whole + ((whole < 0) & (whole * among != sums.data)), sums.valid)
    assert what.argument is not None
    scale = SCALES.get(what.argument.type)
    if scale is None:
        return Values(sums.data.astype(np.float64) / among, sums.valid)
    whole = two_sum((sums.data >> HALF) * 2.0**HALF, (sums.data & LOW_HALF) * 1.0)
    mean = divide(divide(whole, among.astype(np.float64)), np.float64(10**scale))
    return Values(mean[0], sums.valid)


def _best(data: Any, spans: Spans, *, greatest: bool) -> Values:
    """Return the least or greatest value of each span."""
    there = spans.ends > spans.begins
    row = _up_to(running_best(_sortable(data), spans.segments, greatest), spans)
    return _taken(data, row, there)


def _taken(data: Any, row: IntArray, there: Bools) -> Values:
    """Return the values at some rows, where there is one."""
    if isinstance(data, pa.Array):
        return Values(data.take(pa.array(row, mask=~there)), None)
    if not len(data):
        return Values(np.zeros(len(row), data.dtype), there)
    return Values(data[np.where(there, row, 0)], _all_or(there))


def _sortable(data: Any) -> Any:
    """Return numbers in the order of the values."""
    if not isinstance(data, pa.Array):
        return data.astype(np.int64) if data.dtype == np.bool_ else data
    encoded = data.dictionary_encode()
    order = pc.array_sort_indices(encoded.dictionary).to_numpy()
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    return ranks[encoded.indices.to_numpy(zero_copy_only=False)]


def _spread(what: Aggregate, data: Any, spans: Spans) -> Values:
    """Return the variance or standard deviation of each span."""
    family, _, kind = what.function.partition("_")
    if family not in ("var", "stddev") or kind not in ("pop", "samp"):
        raise NotSupportedError(f"the aggregate '{what.function}' is not supported yet")
    less = 1 if kind == "samp" else 0
    count = spans.ends - spans.begins
    squares = _up_to(running_squares(data.astype(np.float64), spans.segments), spans)
    variance = squares / np.maximum(count - less, 1)
    return Values(np.sqrt(variance) if family == "stddev" else variance, _all_or(count > less))
