"""Rows that PREV may still read, of each partition."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from chronicle.words import number_of
from replay.expressions.columns import Columns
from replay.limits import check_asked
from replay.operators.distinct import distinct
from replay.operators.packing import State
from replay.situations.derive_kernels import places_before
from replay.situations.held_rows import HeldRows

Ints = npt.NDArray[np.int64]

_SEQ, _PARTITION, _ORDINAL = range(3)

KEPT_MIN: Final = 1 << 12
"""Rows that pile up at least before those no partition needs are dropped."""


class PreviousRows:
    """Gives rows the rows before them in their partition, and keeps the last of each.

    A push takes time in its own rows, however many are kept: rows that others have come behind are
    dropped once they are as many as those that are left.
    """

    def __init__(self, offsets: list[int], schema: pa.Schema) -> None:
        self._offsets: Ints = -np.array([offset for offset in offsets if offset], np.int64)
        self._depth = int(self._offsets.max())
        self._counts: Ints = np.zeros(0, np.int64)
        self._rings: Ints = np.zeros((0, self._depth), np.int64)
        self._held = HeldRows(schema.empty_table(), 3)
        self._n_held_max = KEPT_MIN

    @property
    def n_held(self) -> int:
        """How many rows are held."""
        return self._held.n_rows

    def grow(self, n: int) -> None:
        """Make room for so many partitions."""
        what = f"PREV of {number_of(self._depth, 'row')} before, in {number_of(n, 'partition')}"
        check_asked(8.0 * n * self._depth, what)
        counts, rings = np.zeros(n, np.int64), np.zeros((n, self._depth), np.int64)
        counts[: len(self._counts)], rings[: len(self._rings)] = self._counts, self._rings
        self._counts, self._rings = counts, rings

    def forget(self) -> None:
        """Take it that nothing is known before the rows to come."""
        self._counts[:] = 0
        self._held.keep(np.zeros(0, np.int64))

    def columns(self, events: pa.Table, partitions: Ints, first_seq: int) -> Columns:
        """Return the columns of the next rows, which know what stands before each."""
        n = events.num_rows
        seqs = np.empty((len(self._offsets), n), np.int64)
        ordinals = np.empty(n, np.int64)
        places_before(
            partitions, first_seq, self._counts, self._rings, self._offsets, seqs, ordinals
        )
        earlier = distinct(seqs[(seqs >= 0) & (seqs < first_seq)])
        near = self._held.take(np.searchsorted(self._held.numbers[_SEQ], earlier))
        places: dict[int, Ints] = {0: np.arange(len(earlier), len(earlier) + n)}
        for offset, of in zip((-self._offsets).tolist(), seqs, strict=True):
            behind = of - first_seq + len(earlier)
            places[offset] = np.where(of < first_seq, np.searchsorted(earlier, of), behind)
            places[offset][of < 0] = -1
        self._keep(events, partitions, first_seq, ordinals)
        return Columns(pa.concat_tables([near, events]), places=places)

    def _keep(self, events: pa.Table, partitions: Ints, first_seq: int, ordinals: Ints) -> None:
        last = np.flatnonzero(self._counts[partitions] - ordinals <= self._depth)
        values = events.take(pa.array(last)) if len(last) < len(ordinals) else events
        self._held.append(values, first_seq + last, partitions[last], ordinals[last])
        if self._held.n_rows > self._n_held_max:
            _, whose, came = self._held.numbers
            self._held.keep(np.flatnonzero(self._counts[whose] - came <= self._depth))
            self._n_held_max = max(KEPT_MIN, 2 * self._held.n_rows)

    def state(self) -> State:
        """Return the rows that are kept."""
        return {"counts": self._counts, "rings": self._rings, "held": self._held.state()}

    def take_over(self, state: State) -> None:
        """Go on from what `state` gave."""
        counts, rings = state["counts"], state["rings"]
        if rings.shape != (len(counts), self._depth) or rings.dtype != np.int64:
            raise ValueError("the rows before of the state are of other lengths or types")
        self._counts, self._rings = counts.copy(), rings.copy()
        self._held.take_over(state["held"])
