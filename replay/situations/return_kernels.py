"""Compiled leaves of RETURN: which rows that are held belong to which situation.

Rows are numbered as they come, from ``first_held`` on those that are held. Each knows the row
before of its partition, so that those of a partition are found without looking at others.
"""

from __future__ import annotations

import numpy as np

from chronicle.compiled import njit
from replay.operators.place_kernels import left, right


@njit()
def link_rows(partitions, first, last, before):  # type: ignore[no-untyped-def]
    """Note the row before of each row's partition, -1 for none; ``last`` has those known so far.

    Without ``partitions`` all rows are of number 0.
    """
    for row in range(before.size):
        partition = partitions[row] if partitions.size else 0
        before[row] = last[partition]
        last[partition] = first + row


@njit()
def count_rows(partitions, since, last, before, seqs, first_held):  # type: ignore[no-untyped-def]
    """Count the rows of each partition that are held, from the ``seq`` in ``since`` on."""
    counts = np.zeros(partitions.size, np.int64)
    for i in range(partitions.size):
        row = last[partitions[i]]
        while row >= first_held and seqs[row - first_held] >= since[i]:
            counts[i] += 1
            row = before[row - first_held]
    return counts


@njit()
def list_rows(partitions, last, before, ends, counts, first_held, places):  # type: ignore[no-untyped-def]
    """List the places of the rows counted among those held, of partition i before ``ends[i]``."""
    for i in range(partitions.size):
        row = last[partitions[i]]
        for k in range(counts[i]):
            place = row - first_held
            places[ends[i] - 1 - k] = place
            row = before[place]


@njit()
def cut_ranges(begins, ends, seqs, times, first, stop, until, lows, highs):  # type: ignore[no-untyped-def]
    """Find the rows of each situation among those of its partition, ``begins[i] : ends[i]``.

    They are those from ``first`` on, before ``stop``, and with a time up to ``until``.
    """
    for i in range(first.size):
        lows[i] = left(seqs, begins[i], ends[i], first[i])
        until_stop = left(seqs, lows[i], ends[i], stop[i])
        highs[i] = right(times, lows[i], until_stop, until[i])
