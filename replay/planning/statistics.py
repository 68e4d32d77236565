"""What planning asks of a stream: summaries of blocks and counts of index entries, no events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from costmodel.parameters import CostParameters
from indexing.key_range import KeyRanges
from indexing.keys import KeyKind

IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
FloatArray = NDArray[np.float64]

Composites = Mapping[str, tuple[tuple[str, KeyKind], ...]]
"""Columns of each index over several, in the order its keys compare them in, with the kind of
their keys; by the index's name."""


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

    @property
    def gap_min(self) -> IntArray:
        """Least time between neighbours in each block; -1 where there is none or none is known."""
        ...


class AttributeBounds(Protocol):
    """Extremes and moments of an attribute in each block; nulls and NaN take no part.

    Equal only to itself.
    """

    def __hash__(self) -> int: ...

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

    @property
    def mean(self) -> FloatArray:
        """Mean of the values, shape (n_blocks,); NaN where it is not known, as of no numbers."""
        ...

    @property
    def variance(self) -> FloatArray:
        """Mean squared difference from ``mean``, shape (n_blocks,); NaN where that is."""
        ...


class Timeline(Protocol):
    """Where the events of a stream lie: what intervals are computed with."""

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


class StreamStatistics(Timeline, Protocol):
    """One snapshot of a stream, as planning sees it."""

    @property
    def indexed(self) -> frozenset[str]:
        """Attributes that have a secondary index, and names of those over several columns."""
        ...

    @property
    def composites(self) -> Composites:
        """Of ``indexed``, the indexes over several columns."""
        ...

    @property
    def derived(self) -> frozenset[str]:
        """Derived attributes declared for the stream, by name, such as ``delta(x)``."""
        ...

    @property
    def key(self) -> str | None:
        """The stream's key column, which index entries may carry beside their own key."""
        ...

    @property
    def n_keys(self) -> float:
        """How many keys take turns in the stream, estimated; 1.0 without a key column.

        May read a few blocks, once.
        """
        ...

    @property
    def parameters(self) -> CostParameters:
        """Weights of the cost model on this machine."""
        ...

    def bounds(self, attribute: str) -> AttributeBounds:
        """Return the attribute's bounds in each block."""
        ...

    def estimate_count(
        self, attribute: str, ranges: KeyRanges, *, within: IntArray | None = None
    ) -> tuple[int, int]:
        """Return the least and most index entries in ``ranges``, told from fences alone.

        Parameters
        ----------
        within
            Half-open ranges of ``seq``, shape (n, 2): entries outside need not be counted, as far
            as whole runs can be told to lie there. None: the whole stream.
        """
        ...

    def expect_count(self, attribute: str, ranges: KeyRanges) -> float:
        """Return about how many index entries are in ``ranges``: between least and most."""
        ...
