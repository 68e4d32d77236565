"""Whole numbers of any size, and sums of doubles without loss, in arrays of words of 64 bits.

A number is the last axis of an array: its words, the lowest first, in two's complement. All numbers
of an array have as many words as the widest needs.

Sums of blocks in the tree, ``chronicle.tree.double_double``, stay pairs of doubles: a summary has a
fixed number of bytes in the files that are there, is merged by NumPy a million at a time, and its
sums of squares would need up to 4,200 bits of fraction here. Aggregates over rows and over matches,
which promise the exact sum rounded once, are what this is for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint64]

IntArray = npt.NDArray[np.int64]

WholeNumbers = Sequence[int] | IntArray
"""Numbers of any size, or of 64 bits."""

_WORD_BYTES = 8


def listed(numbers: Sequence[Any] | IntArray) -> Sequence[Any]:
    """Return numbers, or what stands for them, as Python's."""
    return numbers.tolist() if isinstance(numbers, np.ndarray) else numbers


def taken(numbers: Sequence[Any] | IntArray, places: IntArray) -> Sequence[Any] | IntArray:
    """Return the numbers that stand in some places."""
    if isinstance(numbers, np.ndarray):
        return numbers[places]
    return [numbers[place] for place in places.tolist()]


def to_ints(numbers: Words) -> Sequence[int]:
    """Return the numbers of an array of shape (n, n_words) as Python's."""
    return listed(to_numbers(numbers))


def to_numbers(numbers: Words) -> WholeNumbers:
    """Return the numbers of an array of shape (n, n_words), as an array where they fit one word."""
    lowest = np.ascontiguousarray(numbers[:, 0]).view(np.int64)
    if (numbers[:, 1:].view(np.int64) == lowest[:, None] >> 63).all():
        return lowest
    data = np.ascontiguousarray(numbers).astype("<u8").tobytes()
    size = _WORD_BYTES * numbers.shape[1]
    places = range(0, len(data), size)
    return [int.from_bytes(data[at : at + size], "little", signed=True) for at in places]


def from_ints(values: Iterable[int], n_words: int) -> Words:
    """Return an array of shape (n, n_words) with the numbers; OverflowError if one is too wide."""
    size = _WORD_BYTES * n_words
    data = b"".join(value.to_bytes(size, "little", signed=True) for value in values)
    return np.frombuffer(data, "<u8").reshape(-1, n_words).astype(np.uint64)
