"""What a snapshot tells of its data files and blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from chronicle.tree.file_tree import FileTree
from chronicle.tree.summary import Ints, TimeSummary


@dataclass(frozen=True, slots=True)
class DataFile:
    """A live file of the events table."""

    name: str
    ordinal: str
    """Orders files of equal times."""

    n_events: int
    n_blocks: int
    size_bytes: int
    t_min: int
    t_max: int
    has_tree: bool
    """Whether its TAB+-tree entries are stored; without them it is always read in full."""


@dataclass(frozen=True, slots=True)
class Leaves:
    """All n blocks of a snapshot in stream order."""

    count: Ints
    """Events per block, shape (n,)."""

    base: Ints
    """Sequence number of each block's first event, and of the stream's end, shape (n + 1,)."""

    t_min: Ints
    t_max: Ints

    gap_min: Ints
    """Smallest time between neighbouring events within the block; -1 below two events."""

    gap_max: Ints
    """Largest time between neighbouring events within the block; -1 below two events."""

    file: npt.NDArray[np.int32]
    """Position in ``Snapshot.files`` of the data file that holds the block."""

    row_group: npt.NDArray[np.int32]
    """Position of the block in its data file."""


@dataclass(frozen=True, slots=True, eq=False)
class AttributeBounds:
    """Least and greatest value of one attribute in each of n blocks, and how values lie between.

    Equal only to itself, so that what follows from it can be kept.
    """

    minimum: pa.Array
    """int64 (integers, booleans, timestamps in us, dates in days), float64 or string; null where
    there is no value or nothing is known."""

    maximum: pa.Array

    n_values: Ints
    """Values neither null nor NaN, shape (n,); where not known, the block's number of events."""

    known: npt.NDArray[np.bool_]
    """False where the block has no tree entry, the attribute has no order, or values of a derived
    one depend on events of other files; shape (n,)."""

    mean: npt.NDArray[np.float64]
    """Of the values, shape (n,); NaN where it is not known, as of what cannot be added."""

    variance: npt.NDArray[np.float64]
    """Mean squared difference from ``mean``, shape (n,); NaN where that is."""


def to_data_file(tree: FileTree) -> DataFile:
    """Return what a data file's tree entries say of it."""
    leaves = tree.times()[0]
    return DataFile(
        name=tree.name,
        ordinal=tree.ordinal,
        n_events=int(leaves.count.sum()),
        n_blocks=len(leaves),
        size_bytes=tree.size_bytes,
        t_min=int(leaves.t_min[0]),
        t_max=int(leaves.t_max[-1]),
        has_tree=tree.is_stored,
    )


def to_leaves(times: TimeSummary, files: Sequence[DataFile]) -> Leaves:
    """Return the blocks of data files that follow each other, from their summaries of times."""
    n_blocks = [file.n_blocks for file in files]
    return Leaves(
        count=times.count,
        base=np.concatenate(([0], np.cumsum(times.count))).astype(np.int64),
        t_min=times.t_min,
        t_max=times.t_max,
        gap_min=times.gap_min,
        gap_max=times.gap_max,
        file=np.repeat(np.arange(len(files), dtype=np.int32), n_blocks),
        row_group=np.concatenate(
            [np.zeros(0, np.int32), *(np.arange(n, dtype=np.int32) for n in n_blocks)]
        ),
    )
