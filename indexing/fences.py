"""Fences: key range and count of every row group of a run, and what they tell of key ranges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from indexing.bounds import Bounds
from indexing.keys import KeyKind

LIKELY_REPEATED = 0.5
"""How likely a double that is asked for by itself occurs more than once."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The row groups of a run that hold keys of some ranges.

    Attributes
    ----------
    groups
        int64 array, ascending.
    rim
        bool array: whether the group may hold keys outside the ranges too.
    """

    groups: np.ndarray
    rim: np.ndarray


@dataclass(frozen=True, slots=True)
class Fences:
    """Row groups of a run in the order of their keys.

    Attributes
    ----------
    low, high
        int64, float64 or object (str) arrays: no key of the group is smaller, none greater.
        Both ascend. They are keys of the group, except that long strings are cut.
    count
        int64 array: entries per group, none empty.
    """

    low: np.ndarray
    high: np.ndarray
    count: np.ndarray

    def __len__(self) -> int:
        return len(self.count)

    def select(self, bounds: Bounds) -> Selection:
        """Return the row groups that may hold keys of ``bounds``.

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

    def _touched(self, bounds: Bounds) -> tuple[int, int, int, int]:
        """Return the groups that one range touches and those that lie inside it, half-open."""
        low = bounds.low[0]
        low_side: Literal["left", "right"] = "right" if bounds.low_open[0] else "left"
        first = int(self.high.searchsorted(low, low_side))
        first_whole = int(self.low.searchsorted(low, low_side))
        if bounds.endless[0]:
            end = end_whole = len(self)
        else:
            high = bounds.high[0]
            high_side: Literal["left", "right"] = "left" if bounds.high_open[0] else "right"
            end = int(self.low.searchsorted(high, high_side))
            end_whole = int(self.high.searchsorted(high, high_side))
        return first, end, first_whole, end_whole

    def precede_next(self, groups: np.ndarray) -> np.ndarray:
        """Return which of some groups hold only entries that come before all of the next of them.

        So it is of groups that have but one key, the same: its entries ascend from group to group.

        Parameters
        ----------
        groups
            Ascending, at least one.

        Returns
        -------
        ndarray of bool, shape (n_groups,)
            False for the last.
        """
        low, high = self.low[groups], self.high[groups]
        of_one = np.append(np.asarray(low == high, dtype=np.bool_), False)
        return np.asarray(of_one[:-1] & of_one[1:] & (low == np.append(low[1:], high[-1:])))

    def count_between(self, bounds: Bounds) -> tuple[int, int]:
        """Return the least and the most entries there are in the ranges."""
        if len(bounds) != 1:
            return self.count_entries(self.select(bounds))
        first, end, first_whole, end_whole = self._touched(bounds)
        whole = self.count[max(first, first_whole) : min(end, end_whole)]
        return int(whole.sum()), int(self.count[first:end].sum())

    def count_entries(self, selection: Selection) -> tuple[int, int]:
        """Return the least and the most entries the selected groups hold in their ranges."""
        counts = self.count[selection.groups]
        most = int(counts.sum())
        return most - int(counts[selection.rim].sum()), most

    def expect_entries(self, bounds: Bounds) -> float:
        """Return about how many entries lie in the ranges, a number between least and most.

        Keys of a row group at the rim are taken to be spread evenly between its least and its
        greatest one, and a closed bound to be one of them (`_share_of_one_key`); of strings, which
        have no distances, half of them count.
        """
        selection = self.select(bounds)
        least, most = self.count_entries(selection)
        if bounds.kind is KeyKind.STRING:
            return (least + most) / 2
        rim = selection.groups[selection.rim]
        if len(rim) == 0:
            return float(least)
        inside = bounds.shares_between(self.low[rim], self.high[rim])
        inside = np.maximum(inside, self._share_of_one_key(rim, bounds))
        return least + float(self.count[rim] @ inside)

    def _share_of_one_key(self, groups: np.ndarray, bounds: Bounds) -> np.ndarray:
        """Return the part of each group that has the key of a closed bound, as far as can be told.

        Where keys are all different, none. Fences tell: keys of m entries lie across a part
        ``1 - 1 / m`` of the borders between groups; and who asks for a single double knows that it
        occurs, as likely as not. Of a key that is repeated a group of n entries may have any
        number, 1 to 10 as likely as 10 to 100, so the middle is ``sqrt(n)``; of one that is a fence
        about half.
        """
        low, high = self.low[groups][:, None], self.high[groups][:, None]
        n_shared = np.count_nonzero(self.high[:-1] == self.low[1:])
        repeated = np.full(len(bounds), n_shared / max(len(self) - 1, 1))
        if bounds.kind is KeyKind.DOUBLE:
            repeated[bounds.low == bounds.high] = max(repeated.max(), LIKELY_REPEATED)
        part = 1.0 / np.sqrt(self.count[groups])[:, None]
        share = np.zeros(len(groups))
        for key, is_open in ((bounds.low, bounds.low_open), (bounds.high, bounds.high_open)):
            of_group = np.where((low == key) | (key == high), 0.5, part) * repeated
            has_key = (low <= key) & (key <= high) & ~is_open
            share = np.maximum(share, np.where(has_key, of_group, 0.0).max(axis=1))
        return share

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
