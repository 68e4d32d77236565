"""Compiled leaves of the interval computation: joins of ascending arrays, order by key."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def sweep_lower_bounds(values, wanted):  # type: ignore[no-untyped-def]
    """Return for each of ``wanted`` how many ``values`` are smaller; both int64, ascending."""
    places = np.empty(len(wanted), np.int64)
    at = 0
    n = len(values)
    for i in range(len(wanted)):
        while at < n and values[at] < wanted[i]:
            at += 1
        places[i] = at
    return places


@njit(cache=True, nogil=True)
def find_members(wanted, present, first, n_words):  # type: ignore[no-untyped-def]
    """Return which of ``wanted`` are among ``present``, by a bit map over their span.

    Without a branch that depends on the data: merging two lists instead mispredicts every other
    step. Every value of both arrays lies in ``first`` to ``first + 32 * n_words - 1``.
    """
    words = np.zeros(n_words, np.int64)
    for i in range(len(present)):
        place = present[i] - first
        words[place >> 5] |= 1 << (place & 31)
    found = np.empty(len(wanted), np.bool_)
    for i in range(len(wanted)):
        place = wanted[i] - first
        found[i] = (words[place >> 5] >> (place & 31)) & 1 != 0
    return found


@njit(cache=True, nogil=True)
def order_by_key(keys, kept, n_keys):  # type: ignore[no-untyped-def]
    """Return ``kept`` in order of ``keys[kept]``, all below ``n_keys``: a counting sort, stable."""
    cursor = np.zeros(n_keys + 1, np.int64)
    for i in range(len(kept)):
        cursor[keys[kept[i]] + 1] += 1
    for key in range(n_keys):
        cursor[key + 1] += cursor[key]
    places = np.empty(len(kept), np.int64)
    for i in range(len(kept)):
        key = keys[kept[i]]
        places[cursor[key]] = kept[i]
        cursor[key] += 1
    return places
