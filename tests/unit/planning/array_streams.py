"""Streams held as arrays."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from indexing.key_range import KeyRanges
from replay.language.bound import BoundPatternQuery, Symbol
from replay.planning.plan import Occurrences
from tests.unit.planning.streams import SmallLeaves, compare, query_of, seq, star

BLOCK = 64
"""Events of a block."""


class ArrayStream:
    """Events one time unit apart in blocks of equal size; attributes are 0 or 1."""

    def __init__(self, columns: Mapping[str, np.ndarray], block_events: int = BLOCK) -> None:
        n = len(next(iter(columns.values())))
        self.columns = {"t": np.arange(n, dtype=np.int64), **columns}
        self.base = np.append(np.arange(0, n, block_events), n).astype(np.int64)
        self.n_events, self.n_blocks = n, len(self.base) - 1
        self.leaves = SmallLeaves(
            np.diff(self.base),
            self.base,
            self.base[:-1],
            self.base[1:] - 1,
            np.ones(self.n_blocks, dtype=np.int64),
        )

    def occurrences(self, attribute: str, ranges: KeyRanges) -> Occurrences:
        value = ranges.ranges[0].low
        seqs = np.flatnonzero(self.columns[attribute] == value).astype(np.int64)
        return Occurrences(seqs, seqs)


def gapped(names: str, within: int) -> BoundPatternQuery:
    """Return the query ``A Z* B Z* …`` with ``A.a = 1``, ``B.b = 1``, … and Z free."""
    free = Symbol(len(names))
    parts = [part for i in range(len(names)) for part in (star(free), Symbol(i))][1:]
    defines = [compare("=", name, 1) for name in names]
    return query_of(seq(*parts), [*defines, None], within=within)
