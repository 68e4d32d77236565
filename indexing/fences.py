"""Fences: key range and count of every group of a run, and what they tell of key ranges."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from indexing.key_range import Bounds


@dataclass(frozen=True, slots=True)
class Selection:
    """The groups of a run that hold keys of some ranges."""

    groups: np.ndarray
    """int64, ascending."""
    rim: np.ndarray
    """Whether the group may hold keys outside the ranges too."""

    @property
    def at_rim(self) -> np.ndarray:
        """The groups that may."""
        return np.asarray(self.groups[self.rim])


@dataclass(frozen=True)  # without slots, to keep what follows from the fields
class Fences:
    """Groups of a run in the order of their keys.

    No key of a group is smaller than ``low`` or greater than ``high`` (int64, float64 or object
    arrays of str), which both ascend. They are keys of the group, except that long strings are cut.
    ``count`` has the entries of each group, none empty.
    """

    low: np.ndarray
    high: np.ndarray
    count: np.ndarray

    def __len__(self) -> int:
        return len(self.count)

    def select(self, bounds: Bounds) -> Selection:
        """Return the groups that may hold keys of ``bounds``.

        For each range at most two of them are at the rim, however many there are (while keys
        are no longer than a fence holds).
        """
        n = len(self)
        if n == 0 or len(bounds) == 0:
            return Selection(np.empty(0, dtype=np.int64), np.empty(0, dtype=bool))
        if len(bounds) == 1:
            return self._select_one(bounds)
        first = self._first(self.high, bounds)
        first_whole = self._first(self.low, bounds)
        end = self._end(self.low, bounds)
        end_whole = self._end(self.high, bounds)
        touched = _covered(first, end, n)
        # Ranges are disjoint, so a group that lies inside one of them is touched by no other.
        whole = _covered(first_whole, end_whole, n)
        groups = np.flatnonzero(touched)
        return Selection(groups, ~whole[groups])

    def _select_one(self, bounds: Bounds) -> Selection:
        """Return what :meth:`select` does for one range, in a third of the time."""
        first, end, first_whole, end_whole = self._touched(bounds)
        groups = np.arange(first, max(first, end), dtype=np.int64)
        rim = np.ones(len(groups), dtype=bool)
        rim[max(0, first_whole - first) : max(0, end_whole - first)] = False
        return Selection(groups, rim)

    @cached_property
    def _listed(self) -> tuple[list[Any], list[Any], list[int]]:
        """Least keys, greatest keys, and the entries before each group and of all, as lists.

        Planning asks each run of an index about each range. To bisect a list and to take the
        difference of two sums takes a quarter of what arrays of a few hundred groups do.
        """
        before = np.concatenate(([0], np.cumsum(self.count)))
        return self.low.tolist(), self.high.tolist(), before.tolist()

    def _touched(self, bounds: Bounds) -> tuple[int, int, int, int]:
        """Return the groups that one range touches and those that lie inside it, half-open."""
        lows, highs, _ = self._listed
        low, high = bounds.low.item(0), bounds.high.item(0)
        bisect_low = bisect_right if bounds.low_open.item(0) else bisect_left
        first, first_whole = bisect_low(highs, low), bisect_low(lows, low)
        if bounds.endless.item(0):
            return first, len(lows), first_whole, len(lows)
        bisect_high = bisect_left if bounds.high_open.item(0) else bisect_right
        return first, bisect_high(lows, high), first_whole, bisect_high(highs, high)

    def count_between(self, bounds: Bounds) -> tuple[int, int]:
        """Return the least and the most entries there are in the ranges."""
        if len(bounds) != 1:
            selection = self.select(bounds)
            counts = self.count[selection.groups]
            most = int(counts.sum())
            return most - int(counts[selection.rim].sum()), most
        first, end, first_whole, end_whole = self._touched(bounds)
        before = self._listed[2]
        whole = before[min(end, end_whole)] - before[max(first, first_whole)]
        return max(0, whole), max(0, before[end] - before[first])

    @staticmethod
    def _first(keys: np.ndarray, bounds: Bounds) -> np.ndarray:
        """Return for each range the first group whose ``keys`` reach its lower bound."""
        closed = np.searchsorted(keys, bounds.low, side="left")
        if not bounds.low_open.any():
            return closed
        return np.where(bounds.low_open, np.searchsorted(keys, bounds.low, side="right"), closed)

    @staticmethod
    def _end(keys: np.ndarray, bounds: Bounds) -> np.ndarray:
        """Return for each range the first group whose ``keys`` pass its upper bound."""
        end = np.searchsorted(keys, bounds.high, side="right")
        if bounds.high_open.any():
            opened = np.searchsorted(keys, bounds.high, side="left")
            end = np.where(bounds.high_open, opened, end)
        return np.where(bounds.endless, len(keys), end)


def _covered(first: np.ndarray, end: np.ndarray, n: int) -> np.ndarray:
    """Return which of ``n`` places lie in any of the half-open stretches."""
    real = first < end
    change = np.zeros(n + 1, dtype=np.int64)
    np.add.at(change, first[real], 1)
    np.add.at(change, end[real], -1)
    return np.asarray(np.cumsum(change[:n]) > 0)
