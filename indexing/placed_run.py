"""A run as one snapshot sees it, and what is read of it for a lookup."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from indexing.cover import Segments
from indexing.fences import Selection
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

    def seek(self, bounds: Bounds) -> RunReading:
        """Return what is to be read of the run for ``bounds``; reads nothing yet."""
        return RunReading(self, bounds, self.run.fences.select(bounds))

    def count(self, bounds: Bounds) -> tuple[int, int]:
        """Return the least and the most entries the run can hold of ``bounds``."""
        least, most = self.run.fences.count_between(bounds)
        return max(0, least - self.n_dead), min(most, self.n_live)


@dataclass(frozen=True, slots=True)
class RunReading:
    """What is to be read of a placed run: groups that may hold keys of ``bounds``."""

    placed: PlacedRun
    bounds: Bounds
    selection: Selection

    def read(self, rows: RowMask | None, *, with_times: bool, with_objects: bool) -> Lookup:
        """Return what the run holds of ``bounds`` and ``rows``; raises what reading it raises."""
        run, segments = self.placed.run, self.placed.segments
        if not len(self.selection.groups):
            return Lookup.nothing()
        asked = {"with_times": with_times, "with_objects": with_objects}
        if rows is not None:
            found = run.find_within(self.selection, self.bounds, segments, rows, **asked)
        else:
            found = run.find(self.selection, self.bounds, segments, with_objects=with_objects)
        if not segments.ascends:
            found = replace(found, cuts=np.arange(len(found.seq) + 1))
        with run.stated():
            return found.in_order()
