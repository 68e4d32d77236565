"""What the cost model is told of a query, a stream and the plans to be compared: numbers only."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class PlanFeatures:
    """A batch of plans over one stream.

    Events and blocks *remaining* are those the coarse pattern map leaves.
    """

    n_events: int
    n_blocks: int
    n_columns: int
    """Attributes the matcher must see of every event replayed."""
    remaining_events: int
    remaining_blocks: int
    remaining_stretches: int
    """Runs of neighbouring blocks that remain."""
    window_events: float
    """Events the query's window holds on average; infinite if nothing bounds a match."""
    block_lengths: IntArray
    """Positions of each basic block of the pattern, shape (n_basic_blocks,)."""
    starts_exact: bool
    """Whether a match begins with the first basic block."""
    ends_exact: bool
    """Whether a match ends with the last basic block."""
    basic_block: IntArray
    """Basic block of each condition, shape (n_conditions,)."""
    density: FloatArray
    """Share of the remaining events that satisfy each condition, shape (n_conditions,)."""
    lookup: IntArray
    """Lookup that answers each condition, shape (n_conditions,); equal ones are read once."""
    lookup_entries: FloatArray
    """Entries each lookup reads, shape (n_lookups,)."""
    selected: BoolArray
    """Conditions each plan uses, shape (n_plans, n_conditions); none at all is the tree plan."""
