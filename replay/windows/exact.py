"""Aggregates that no summary can give: distinct values and percentiles, exact, of sliding rows."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa

from chronicle.tree.summary import AttributeSummary, Ints, Kind
from replay.expressions.columns import Values, to_arrays
from replay.operators.grouping import group_rows
from replay.windows.entries import Rows, summarise_rows
from replay.windows.exact_kernels import (
    distinct_ranks,
    slide_distinct,
    slide_percentile,
)

_DISTINCT_AT_ONCE = 1 << 18
"""Rows of windows whose different values are held at once."""


def count_distinct(rows: Rows, lo: Ints, hi: Ints) -> Ints:
    """Return how many different values each window has; NaN is one of them, -0.0 is 0.0.

    Takes time linear in rows and windows.

    Parameters
    ----------
    rows
        Values of the entries.
    lo, hi
        As in `merging.merge_windows`.
    """
    groups = group_rows([_values(rows.values)], len(rows.values))
    counts: Ints = slide_distinct(groups.of_row, groups.n_groups, *_row_bounds(rows, lo, hi))
    return counts


def summarise_distinct(
    rows: Rows, lo: Ints, hi: Ints, kind: Kind, *, squares: bool
) -> AttributeSummary:
    """Summarise the different values of each window, added up in their order.

    So the order of the rows does not matter, nor how the stream was cut. NaN is one of them, -0.0
    is 0.0. Takes time in O(n log n) of the n rows of each window, whatever they share.

    Parameters
    ----------
    rows
        Values of the entries: numbers.
    lo, hi
        As in `merging.merge_windows`.
    kind
        INTEGER or FLOAT.
    squares
        Whether second moments are wanted.
    """
    data = _values(rows.values).data
    different, ranks = np.unique(data, return_inverse=True)
    begins, ends = _row_bounds(rows, lo, hi)
    ends = np.maximum(begins, ends)
    batch = np.cumsum(ends - begins) // _DISTINCT_AT_ONCE
    cuts = [0, *(np.flatnonzero(np.diff(batch)) + 1).tolist(), len(lo)]
    parts = []
    for first, stop in pairwise(cuts):
        chosen, counts = distinct_ranks(ranks, begins[first:stop], ends[first:stop])
        borders = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        values = Values(different[chosen], None)
        parts.append(summarise_rows(values, kind, borders, squares=squares))
    return AttributeSummary.concat(parts)


def percentile(rows: Rows, lo: Ints, hi: Ints, fraction: float) -> Values:
    """Return a percentile of each window, NULL where it has no value but NaN.

    The value at place ``fraction * (n - 1)`` of the n values in ascending order, from 0; between
    two of them in proportion. Takes time in O((rows + windows) log rows).

    Parameters
    ----------
    rows
        Values of the entries: numbers.
    lo, hi
        As in `merging.merge_windows`.
    fraction
        From 0 to 1.
    """
    data = _values(rows.values).data
    different, ranks = np.unique(data, return_inverse=True)
    if data.dtype.kind == "f":
        ranks = np.where(np.isnan(data), -1, ranks)
    bounds = _row_bounds(rows, lo, hi)
    below, above, way = slide_percentile(ranks, len(different), *bounds, fraction)
    there = below >= 0
    if not len(different):
        return Values(np.zeros(len(lo)), there)
    least, most = (different[np.maximum(side, 0)].astype(np.float64) for side in (below, above))
    with np.errstate(over="ignore", invalid="ignore"):
        between = least + (most - least) * way
        # Of values too far apart to be subtracted, or infinite ones.
        between = np.where(np.isfinite(between), between, least * (1.0 - way) + most * way)
    return Values(np.where(below == above, least, between) + 0.0, there)


def _values(array: pa.Array) -> Values:
    """Return values without NULLs as `Values`."""
    if pa.types.is_string(array.type):
        return Values(array, None)
    return to_arrays(pa.chunked_array([array]))


def _row_bounds(rows: Rows, lo: Ints, hi: Ints) -> tuple[Ints, Ints]:
    before = np.concatenate([np.zeros(1, np.int64), np.cumsum(rows.counts)])
    return before[lo], before[np.maximum(lo, hi)]
