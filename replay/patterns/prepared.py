"""A batch of events as the matcher needs it: words of symbol bits instead of columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from replay.operators.partition_keys import Partitions

IntArray = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

BEFORE: Final = -1
"""Offset of the row before, which the first of a partition has not."""

BEHIND: Final = 1
"""Offset of the row behind, which the last of a partition has not."""


@dataclass(frozen=True, slots=True)
class Strings:
    """A leaf of strings: codes into a dictionary of its own batch."""

    leaf: int
    codes: npt.NDArray[np.int32]
    entries: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Prepared:
    """Rows of a batch, their predicates evaluated.

    ``words`` has shape (n,); ``times`` too, or (0,) where the query has no WITHIN; ``leaves``
    (int64, or the bits of doubles) and ``known`` have shape (n_leaves, n).
    """

    words: Words
    times: IntArray
    leaves: IntArray
    known: npt.NDArray[np.bool_]
    strings: tuple[Strings, ...]
    partitions: Partitions | None
    n_faults: int
    table: pa.Table | None = None
    """The rows themselves, where they can be evaluated only once grouped by partition."""
    seq: IntArray | None = None
    """``seq`` of the rows, ascending, where some of the stretch are left out; None: none are."""
    moved: Mapping[int, IntArray] | None = None
    """``seq`` of the row so far on in the partition, -1 for none, by offset, where that is known
    beforehand; None: rows tell by where they stand."""

    @property
    def n_rows(self) -> int:
        """Number of rows, margins not counted."""
        return len(self.words) if self.table is None else int(self.table.num_rows)

    def slice(self, offset: int, length: int) -> Prepared:
        """Return ``length`` rows from ``offset`` on; arrays are views.

        The faults of the whole batch are counted with its first rows.
        """
        part = np.s_[offset : offset + length]
        groups = self.partitions
        return Prepared(
            words=self.words[part],
            times=self.times[part],
            leaves=self.leaves[:, part],
            known=self.known[:, part],
            strings=tuple(Strings(s.leaf, s.codes[part], s.entries) for s in self.strings),
            partitions=groups and Partitions(groups.codes[part], groups.listed),
            n_faults=self.n_faults if offset == 0 else 0,
            table=None if self.table is None else self.table.slice(offset, length),
            seq=None if self.seq is None else self.seq[part],
            moved=None if self.moved is None else {o: to[part] for o, to in self.moved.items()},
        )
