"""A run as one snapshot sees it, and what is read of it for a lookup."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from indexing.cover import Segments
from indexing.key_range import Bounds
from indexing.lookup import Lookup
from indexing.row_mask import RowMask
from indexing.run import Run


@dataclass(frozen=True)  # without slots, to keep what follows from the fields
class PlacedRun:
    """A run as one snapshot sees it."""

    run: Run
    segments: Segments
    """Where its positions lie in the stream, and which entries are taken from it."""
    n_dead: int = 0

    @cached_property
    def n_live(self) -> int:
        """Entries taken from the run."""
        return sum(covered.n_entries for covered in self.run.cover) - self.n_dead

    @property
    def spans(self) -> np.ndarray:
        """Sequence numbers its entries can have: int64, shape (n, 2), half-open."""
        return self.segments.spans

    def read(
        self, bounds: Bounds, rows: RowMask | None, *, with_times: bool, with_objects: bool
    ) -> Lookup:
        """Return what the run holds of ``bounds`` and ``rows``; raises what reading it raises."""
        run, segments = self.run, self.segments
        selection = run.fences.select(bounds)
        if not len(selection.groups):
            return Lookup.nothing()
        asked = {"with_times": with_times, "with_objects": with_objects}
        if rows is not None:
            found = run.find_within(selection, bounds, segments, rows, **asked)
        else:
            found = run.find(selection, bounds, segments, with_objects=with_objects)
        if not segments.ascends:
            found = replace(found, cuts=np.arange(len(found.seq) + 1))
        with run.stated():
            return found.in_order()

    def count(self, bounds: Bounds) -> tuple[int, int]:
        """Return the least and the most entries the run can hold of ``bounds``."""
        least, most = self.run.fences.count_between(bounds)
        return max(0, least - self.n_dead), min(most, self.n_live)
