"""Joins of ascending arrays, in time linear in both, and runs: what lookups are joined with."""

from __future__ import annotations

from typing import Final

import numpy as np

from replay.planning.statistics import BoolArray, IntArray

SWEEP_VALUES_MIN: Final = 2048
"""Below this many values, and wanted ones, bisecting costs microseconds, and needs no compiler
loaded."""

SWEEP_WANTED_MIN: Final = 64
"""Below this many wanted ones too."""

MARKED_MAX: Final = 24
"""Values per wanted one up to which marking them all in a bit map beats looking for each."""

SPAN_WORDS_MAX: Final = 8
"""Words of the bit map per value marked in it: clearing a word costs a small part of marking."""

RANK_WORDS_MAX: Final = 2
"""Words of a bit map of rows per wanted one up to which it beats going on from one to the next,
where every step is mispredicted."""

RANKED_MAX: Final = 32
"""Rows per wanted one up to which marking all of them is worth it."""


def lower_bounds(values: IntArray, wanted: IntArray) -> IntArray:
    """Return for each of ``wanted`` how many of ``values`` are smaller, both ascending int64.

    As ``numpy.searchsorted(values, wanted)``; values between two wanted ones cost the logarithm of
    their number.
    """
    is_short = max(len(values), len(wanted)) < SWEEP_VALUES_MIN
    if is_short or len(wanted) < SWEEP_WANTED_MIN:
        return np.asarray(np.searchsorted(values, wanted), dtype=np.int64)
    from replay.planning.kernels import sweep_lower_bounds

    places: IntArray = sweep_lower_bounds(values, wanted)
    return places


def row_lower_bounds(rows: IntArray, wanted: IntArray) -> IntArray:
    """Return the same of ``rows``, no two equal: where both are dense a bit map tells."""
    if len(wanted) < SWEEP_VALUES_MIN or len(rows) == 0:
        return lower_bounds(rows, wanted)
    n_words = ((int(rows[-1]) - int(rows[0])) >> 6) + 2
    if n_words > RANK_WORDS_MAX * len(wanted) or len(rows) > RANKED_MAX * len(wanted):
        return lower_bounds(rows, wanted)
    from replay.planning.kernels import rank_lower_bounds

    places: IntArray = rank_lower_bounds(rows, wanted, rows[0], n_words)
    return places


def are_in(wanted: IntArray, present: IntArray) -> BoolArray:
    """Return which of the ascending ``wanted`` are among the ascending ``present``."""
    if len(present) == 0:
        return np.zeros(len(wanted), dtype=np.bool_)
    first, n_words = _span(wanted, present)
    is_long = SWEEP_VALUES_MIN <= len(present) <= MARKED_MAX * len(wanted)
    if is_long and n_words <= SPAN_WORDS_MAX * len(present):
        from replay.planning.kernels import find_members

        found: BoolArray = find_members(wanted, present, first, n_words)
        return found
    at = lower_bounds(present, wanted)
    at[at == len(present)] = 0
    return np.asarray(present[at] == wanted, dtype=np.bool_)


def count_on(starts: IntArray, lengths: IntArray) -> IntArray:
    """Return the numbers from each of ``starts`` on, as many as its length, one after the other.

    Examples
    --------
    >>> import numpy as np
    >>> count_on(np.array([3, 10]), np.array([2, 3])).tolist()
    [3, 4, 10, 11, 12]
    """
    behind = np.cumsum(lengths)
    return np.repeat(starts - (behind - lengths), lengths) + np.arange(int(lengths.sum()))


def _span(a: IntArray, b: IntArray) -> tuple[int, int]:
    """Return the least value of two ascending arrays and the words of 32 bits they span."""
    if len(a) == 0:
        return int(b[0]), 1 + (int(b[-1] - b[0]) >> 5)
    first = int(min(a[0], b[0]))
    return first, 1 + ((int(max(a[-1], b[-1])) - first) >> 5)


_INT64_MAX: Final = 2**63 - 1


def saturating_add(times: IntArray, delta: int) -> IntArray:
    """Return ``times + delta``, held at the ends of int64 instead of wrapping."""
    if delta >= 0:
        delta = min(delta, _INT64_MAX)
        return np.minimum(times, _INT64_MAX - delta) + delta
    delta = max(delta, -_INT64_MAX)
    return np.maximum(times, -_INT64_MAX - 1 - delta) + delta
