"""What planning asks of a stream: summaries of blocks and counts of index entries, no events."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from indexing.key_range import KeyRanges

IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


class Leaves(Protocol):
    """The TAB+-tree's leaf level, one entry per block in stream order."""

    @property
    def count(self) -> IntArray:
        """Events of each block, shape (n_blocks,), all positive."""
        ...

    @property
    def base(self) -> IntArray:
        """First ``seq`` of each block and, last, the number of events, shape (n_blocks + 1,)."""
        ...

    @property
    def t_min(self) -> IntArray:
        """Least time of each block, shape (n_blocks,), ascending."""
        ...

    @property
    def t_max(self) -> IntArray:
        """Greatest time of each block, shape (n_blocks,), ascending."""
        ...


class AttributeBounds(Protocol):
    """Least and greatest value of an attribute in each block; nulls and NaN take no part."""

    @property
    def minimum(self) -> pa.Array:
        """Shape (n_blocks,): int64, double or string; null where the block has no value."""
        ...

    @property
    def maximum(self) -> pa.Array:
        """Shape (n_blocks,), of the same type."""
        ...

    @property
    def n_values(self) -> IntArray:
        """Values that are neither null nor NaN, shape (n_blocks,)."""
        ...

    @property
    def known(self) -> BoolArray:
        """False where nothing is known of the block, shape (n_blocks,)."""
        ...


class StreamStatistics(Protocol):
    """One snapshot of a stream, as planning sees it."""

    @property
    def n_events(self) -> int:
        """Events of the stream."""
        ...

    @property
    def n_blocks(self) -> int:
        """Blocks of the stream."""
        ...

    @property
    def leaves(self) -> Leaves:
        """The leaf level of the tree."""
        ...

    @property
    def gap_min(self) -> int:
        """Least time between neighbouring events of the stream; 0 if not known."""
        ...

    @property
    def indexed(self) -> frozenset[str]:
        """Attributes that have a secondary index."""
        ...

    def bounds(self, attribute: str) -> AttributeBounds:
        """Return the attribute's bounds in each block."""
        ...

    def estimate_count(self, attribute: str, ranges: KeyRanges) -> tuple[int, int]:
        """Return the least and most index entries in ``ranges``, told from fences alone."""
        ...
