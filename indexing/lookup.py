"""What a lookup returns, and how the entries of runs become one list in order of ``seq``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from indexing.bounds import Bounds
from indexing.config import SCATTER_SPAN_MAX
from indexing.cover import Segments
from indexing.run import Run

_NOTHING = np.empty(0, dtype=np.int64)
_NOTHING.flags.writeable = False


@dataclass(frozen=True, slots=True)
class Lookup:
    """The events whose keys lie in the ranges asked for.

    Attributes
    ----------
    seq
        int64 array, ascending, no number twice.
    t
        int64 array: the events' times in the stream's unit.
    n_entries_read
        Entries decoded to find them, those of the tail's events included.
    n_bytes_read
        Bytes read from run files, and from data files for the tail; 0 where the answer was kept.
    """

    seq: np.ndarray
    t: np.ndarray
    n_entries_read: int
    n_bytes_read: int


@dataclass(frozen=True, slots=True)
class PlacedRun:
    """A run as one snapshot sees it.

    Attributes
    ----------
    segments
        Where its positions lie in the stream, and which entries are taken from it.
    """

    run: Run
    segments: Segments
    n_dead: int = 0

    @property
    def n_live(self) -> int:
        """Entries taken from the run."""
        return sum(covered.n_entries for covered in self.run.cover) - self.n_dead

    def find(self, bounds: Bounds) -> Lookup:
        """Return what the run holds of ``bounds``; raises what reading the run raises."""
        selection = self.run.fences.select(bounds)
        if not len(selection.groups):
            return Lookup(_NOTHING, _NOTHING, 0, 0)
        segments = self.segments
        shift = int(segments.shifts[0]) if segments.is_one else 0
        found = self.run.find(selection, bounds, shift=shift)
        seq, t, cuts = found.position, found.t, found.cuts
        if not segments.is_one:
            segments.place(seq)
            live = seq >= 0
            if not live.all():
                cuts = np.concatenate(([0], np.cumsum(live)))[cuts]
                seq, t = seq[live], t[live]
            if not segments.ascends:
                cuts = np.arange(len(seq) + 1)
        seq, t = _order_pieces(seq, t, cuts)
        if found.is_scratch and seq is found.position:
            seq, t = seq.copy(), t.copy()
        return Lookup(seq, t, found.n_entries_read, found.n_bytes_read)

    def count(self, bounds: Bounds) -> tuple[int, int]:
        """Return the least and the most entries the run can hold of ``bounds``."""
        fences = self.run.fences
        least, most = fences.count_entries(fences.select(bounds))
        return max(0, least - self.n_dead), min(most, self.n_live)


def in_order(parts: Sequence[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """Join lists of (seq, t) into one in order of ``seq``.

    Parameters
    ----------
    parts
        Pairs of int64 arrays of equal length, each in order of ``seq``; no ``seq`` twice.
    """
    if len(parts) < 2:
        return parts[0] if parts else (_NOTHING, _NOTHING)
    seq = np.concatenate([p[0] for p in parts])
    t = np.concatenate([p[1] for p in parts])
    return _order_pieces(seq, t, np.cumsum([0, *(len(p[0]) for p in parts)]))


def _order_pieces(
    seq: np.ndarray, t: np.ndarray, cuts: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Put entries in order of ``seq`` that ascends in each piece ``cuts[i]:cuts[i + 1]``."""
    if len(cuts) <= 2:
        return seq, t
    borders = cuts[(cuts > 0) & (cuts < len(seq))]
    if bool((seq[borders] > seq[borders - 1]).all()):
        return seq, t
    first = int(seq.min())
    span = int(seq.max()) - first + 1
    if span > len(seq) * SCATTER_SPAN_MAX:
        # Times ascend with seq, so both arrays may be sorted each for itself.
        return np.sort(seq, kind="stable"), np.sort(t, kind="stable")
    from indexing.kernels import order_by_seq

    ordered: tuple[np.ndarray, np.ndarray] = order_by_seq(seq, t, first, span)
    return ordered
