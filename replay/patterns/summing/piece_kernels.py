"""Compiled sums in windows over pieces of a stream, of each of which the sums are known."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from chronicle.compiled import njit
from replay.operators.place_kernels import right
from replay.patterns.summing.kernels import (
    STATUS_DONE,
    STATUS_FOUND,
    Fields,
    is_none,
    merge,
    set_none,
)

IntArray = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

# Fields of `at`, which says how far the kernel is and lets it go on where it stopped.
AT_PART = 0
AT_PLAIN = 1
AT_WINDOW = 2
N_FOUND = 3
LOW = 4  # the first piece of the front
MIDDLE = 5  # the end of the front, and the first piece of the back
NEXT = 6  # the end of the back
AT_SIZE = 7

_BACK = 0


class Pieces(NamedTuple):
    """The pieces that have sums, those of a partition together and in their order."""

    sums: Words
    numbers: IntArray
    """Which piece each is; of a partition they ascend."""


@njit(_nrt=False)
def _leave(at, low_number, pieces, back, fields):  # type: ignore[no-untyped-def]
    """Let pieces before a number leave the window."""
    low = at[LOW]
    while low < at[NEXT] and pieces.numbers[low] < low_number:
        low += 1
    at[LOW] = low
    if low <= at[MIDDLE]:
        return
    # The back becomes the front, each piece with the sum of it and of those behind it.
    for i in range(at[NEXT] - 2, low - 1, -1):
        merge(pieces.sums, i, pieces.sums, i + 1, fields)
    at[MIDDLE] = at[NEXT]
    set_none(back, _BACK)


@njit(_nrt=False)
def sum_pieces(at, parts, lows, highs, sums, of_sums, plain, windows, pieces, back, fields):  # type: ignore[no-untyped-def]  # fmt: skip
    """Sum in windows, each over pieces from one of ``lows`` to one of ``highs``.

    Neither descends. Pieces are a queue of two stacks, as the rows in `entry_kernels`. What is
    known of a window besides is among ``plain``, whose ``windows`` ascend in each partition. Of a
    partition ``parts`` has the number, the end of what is ``plain`` of it, its first piece and the
    end of these. ``back`` is one cell; ``of_sums`` has partition and window of each. Returns a
    status; ``pieces`` and ``fields`` are plain tuples of the fields of the classes named so.
    """
    pieces, fields = Pieces(*pieces), Fields(*fields)
    for number in range(at[AT_PART], len(parts)):
        place, plain_end, first, end = parts[number]
        if at[AT_WINDOW] < 0:
            at[AT_WINDOW], at[LOW], at[MIDDLE], at[NEXT] = 0, first, first, first
            set_none(back, _BACK)
        while True:
            at[AT_PART] = number
            i, window, n = at[AT_PLAIN], highs.size, at[N_FOUND]
            if i < plain_end:
                window = windows[i]
            if at[LOW] < end:
                in_it = right(highs, at[AT_WINDOW], highs.size, pieces.numbers[at[LOW]])
                window = min(window, in_it)
            if window == highs.size:
                break
            if n == len(sums):
                return STATUS_FOUND
            while at[NEXT] < end and pieces.numbers[at[NEXT]] < highs[window]:
                merge(back, _BACK, pieces.sums, at[NEXT], fields)
                at[NEXT] += 1
            _leave(at, lows[window], pieces, back, fields)
            set_none(sums, n)
            merge(sums, n, back, _BACK, fields)
            if at[LOW] < at[MIDDLE]:
                merge(sums, n, pieces.sums, at[LOW], fields)
            if i < plain_end and windows[i] == window:
                merge(sums, n, plain, i, fields)
                at[AT_PLAIN] += 1
            if not is_none(sums, n, 0, fields.words[0]):
                of_sums[0, n], of_sums[1, n] = place, window
                at[N_FOUND] += 1
            at[AT_WINDOW] = window + 1
        at[AT_WINDOW] = -1
    at[AT_PART] = len(parts)
    return STATUS_DONE
