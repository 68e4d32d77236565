"""What planning asks of a stream: summaries of blocks and counts of index entries, no events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from chronicle.tree.summary import AttributeBounds, Leaves
from costmodel.parameters import CostParameters
from indexing.key_range import KeyRanges
from indexing.keys import KeyKind

IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
FloatArray = NDArray[np.float64]

Composites = Mapping[str, tuple[tuple[str, KeyKind], ...]]
"""Columns of each index over several, in the order its keys compare them in, with the kind of
their keys; by the index's name."""


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
    def texts(self) -> frozenset[str]:
        """Columns of text, which take longer to decode."""
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

        Entries outside the half-open ranges of ``seq`` in ``within``, shape (n, 2), need not be
        counted, as far as whole runs can be told to lie there.
        """
        ...

    def holds_key(self, attribute: str) -> bool:
        """Return whether all runs of an index carry the stream's key column beside their key."""
        ...
