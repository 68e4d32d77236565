"""What answering from the tree took."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from chronicle import Snapshot
from chronicle.tree.summary import Ints


@dataclass(slots=True)
class TreeStats:
    """Counts of what was done so far."""

    n_blocks: int = 0
    """Blocks read."""
    n_rows: int = 0
    """Their events."""
    n_faults: int = 0
    """Rows on which the WHERE met a fault."""
    seconds_read: float = 0.0
    reads: list[tuple[Ints, tuple[str, ...]]] = field(default_factory=list)
    """Blocks and columns of each read."""

    def add(self, other: TreeStats) -> None:
        """Count what something else took too."""
        self.n_blocks += other.n_blocks
        self.n_rows += other.n_rows
        self.n_faults += other.n_faults
        self.seconds_read += other.seconds_read
        self.reads += other.reads

    def read(self, blocks: Ints, n_rows: int, columns: tuple[str, ...]) -> None:
        """Count blocks that were read."""
        self.n_blocks += len(blocks)
        self.n_rows += n_rows
        self.reads.append((blocks, columns))

    def count_bytes(self, snapshot: Snapshot) -> int:
        """Return the compressed bytes of what was read."""
        return sum(
            snapshot.block_bytes(np.unique(blocks), list(columns)) for blocks, columns in self.reads
        )
