"""Merges entries of consecutive events to summaries of windows, which may overlap."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from chronicle.tree.summary import INT_MAX, INT_MIN, AttributeSummary, Ints, Kind, all_null, carry
from replay.operators.grouping import encode_strings, string_ranks
from replay.windows.kernels import slide_extremes
from replay.windows.moment_kernels import slide_moments

Floats = npt.NDArray[np.float64]

_NO_NUMBERS = np.zeros(0)


def merge_windows(
    summary: AttributeSummary, lo: Ints, hi: Ints, *, squares: bool = True
) -> AttributeSummary:
    """Merge the entries of each window.

    Pure. Takes time linear in entries and windows, however much these overlap.

    ``lo`` and ``hi``, int64, shape (n_windows,), both ascend (ties allowed): window w holds the
    entries ``lo[w]`` to ``hi[w]``, half-open; none where ``lo[w] >= hi[w]``. One without events is
    like those of `chronicle.tree.summary.all_null`. Without ``squares`` there need be no second
    moments, and are none.

    Notes
    -----
    Sums of floats are merged as pairs of doubles with a relative error of 3 * 2**-106 a step, so
    n of them are within n * 2**-104 of the sum of absolute values. Second moments are pairs, too,
    and add terms that are not negative, each to some 2**-100 but for what sums are off.
    """
    if len(lo) == 0 or len(summary) == 0:
        nothing = all_null(summary.kind, np.zeros(len(lo), np.int64))
        return nothing if squares else without_squares(nothing)
    merged = replace(
        summary,
        n_values=merge_counts(summary.n_values, lo, hi),
        null_count=merge_counts(summary.null_count, lo, hi),
        nan_count=merge_counts(summary.nan_count, lo, hi),
    )
    if summary.kind.has_extremes:
        least, most = _extremes(summary, lo, hi)
        merged = replace(merged, minimum=least, maximum=most)
    if summary.kind is Kind.INTEGER:
        merged = _with_integer_sums(merged, summary, lo, hi)
        return _with_integer_squares(merged, summary, lo, hi) if squares else merged
    if summary.kind is Kind.FLOAT:
        sums = (np.asarray(summary.sum_high), np.asarray(summary.sum_low))
        high, low, m2, m2_low = _moments(summary, sums, lo, hi, squares=squares)
        return replace(merged, sum_high=high, sum_low=low, m2=m2, m2_low=m2_low)
    return merged


def merge_counts(counts: Ints, lo: Ints, hi: Ints) -> Ints:
    """Add up the counts of each window's entries; see `merge_windows`."""
    before = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=before[1:])
    added: Ints = before[np.maximum(lo, hi)] - before[lo]
    return added


def without_squares(summary: AttributeSummary) -> AttributeSummary:
    """Return summaries without second moments."""
    return replace(summary, m2=_NO_NUMBERS, m2_low=_NO_NUMBERS)


def _extremes(summary: AttributeSummary, lo: Ints, hi: Ints) -> tuple[Any, Any]:
    """Return least and greatest of each window, neutral ones where it has no value."""
    if summary.kind is Kind.STRING:
        return _string_extremes(summary, lo, hi)
    neutral = (np.inf, -np.inf) if summary.kind is Kind.FLOAT else (INT_MAX, INT_MIN)
    return _slide_extremes(
        np.asarray(summary.minimum), np.asarray(summary.maximum), lo, hi, neutral
    )


def _slide_extremes(
    least: npt.NDArray[Any],
    most: npt.NDArray[Any],
    lo: Ints,
    hi: Ints,
    neutral: tuple[float, float],
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    out_least = np.full(len(lo), neutral[0], least.dtype)
    out_most = np.full(len(lo), neutral[1], most.dtype)
    slide_extremes(least.copy(), most.copy(), lo, hi, out_least, out_most)
    return out_least, out_most


def _string_extremes(summary: AttributeSummary, lo: Ints, hi: Ints) -> tuple[pa.Array, pa.Array]:
    """Return the extremes of texts, found by their places in the order of all of them."""
    n = len(summary)
    codes, dictionary = encode_strings(pa.concat_arrays([summary.minimum, summary.maximum]))
    n_texts = len(dictionary)
    ranks = string_ranks(dictionary)
    by_rank = dictionary.take(pa.array(np.argsort(ranks)))
    least = np.append(ranks, n_texts)[codes[:n]]
    most = np.append(ranks, -1)[codes[n:]]
    least, most = _slide_extremes(least, most, lo, hi, (n_texts, -1))
    return (
        by_rank.take(pa.array(least, mask=least == n_texts)),
        by_rank.take(pa.array(most, mask=most == -1)),
    )


def _with_integer_sums(
    merged: AttributeSummary, summary: AttributeSummary, lo: Ints, hi: Ints
) -> AttributeSummary:
    high, low = carry(
        merge_counts(np.asarray(summary.sum_high), lo, hi),
        merge_counts(np.asarray(summary.sum_low), lo, hi),
    )
    return without_squares(replace(merged, sum_high=high, sum_low=low))


def _with_integer_squares(
    merged: AttributeSummary, summary: AttributeSummary, lo: Ints, hi: Ints
) -> AttributeSummary:
    _, _, m2, m2_low = _moments(summary, summary.sum_pair(), lo, hi, squares=True)
    return replace(merged, m2=m2, m2_low=m2_low)


def _moments(
    summary: AttributeSummary, sums: tuple[Floats, Floats], lo: Ints, hi: Ints, *, squares: bool
) -> tuple[Floats, Floats, Floats, Floats]:
    parts = (*sums, summary.m2, summary.m2_low)
    with np.errstate(over="ignore", invalid="ignore"):  # infinite values, in plain Python
        moments: tuple[Floats, Floats, Floats, Floats] = slide_moments(
            summary.n_values, *(part.copy() for part in parts), lo, hi, squares or None
        )
    return moments
