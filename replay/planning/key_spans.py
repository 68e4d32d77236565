"""Rows that matter, key by key: what is left of replay intervals whose candidates have a key."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from replay.planning.key_join import in_order_of_keys
from replay.planning.statistics import BoolArray, IntArray


@dataclass(frozen=True, slots=True, eq=False)
class KeySpans:
    """Spans of time, or of ``seq``, by key; a match of a key has all its rows in one of them."""

    examples: IntArray
    """``seq`` of an event of each key that has a span, shape (n_keys,): keys are numbered so."""
    offsets: IntArray
    """Spans of key k are ``offsets[k]`` to ``offsets[k + 1]``, shape (n_keys + 1,)."""
    low: IntArray
    """First time or ``seq`` of each span; ascending within a key."""
    high: IntArray
    """Last one, which is part of it. Spans of one key do not overlap."""
    by_time: bool
    """Whether times bound them, not ``seq``."""

    def contain(self, key: IntArray, at: IntArray) -> BoolArray:
        """Return which events lie in a span of their key.

        ``key`` is the number of each event's key, below zero for one that has no span; ``at`` its
        time or ``seq``, ascending.
        """
        from replay.planning.kernels import find_in_spans

        # Arrow's memory is read-only, and would have the kernel compiled once more.
        key, at = (a if a.flags.writeable else a.copy() for a in (key, at))
        inside: BoolArray = find_in_spans(key, at, self.offsets, self.low, self.high)
        return inside


def unite_by_key(
    key: IntArray, example: IntArray, low: IntArray, high: IntArray, *, by_time: bool
) -> KeySpans:
    """Unite the spans of each key that overlap; their ends are included, those of one key ascend.

    ``key`` is the number of each span's key, from 0, at most a few times as large as there are
    events; ``example`` the ``seq`` of an event that has it; ``by_time`` tells times from ``seq``.
    """
    order = in_order_of_keys(key, np.arange(len(key)), 1 + int(key.max(initial=-1)))
    key, low, high = key[order], low[order], high[order]
    is_new = np.diff(key, prepend=-1) > 0
    begins = np.flatnonzero(is_new | np.append(True, low[1:] > high[:-1])[: len(low)])
    ends = np.append(begins[1:], len(low))[: len(begins)] - 1
    firsts = np.flatnonzero(is_new[begins])
    offsets = np.append(firsts, len(begins))
    return KeySpans(example[order][begins][firsts], offsets, low[begins], high[ends], by_time)
