"""What a lookup returns, and how the entries of runs become one list in order of ``seq``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from indexing.bounds import Bounds
from indexing.config import SCATTER_SPAN_MAX
from indexing.cover import Segments
from indexing.keys import KeyKind
from indexing.objects import join_objects, to_codes
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
    objects
        The events' values of the key column, aligned with ``seq``, if they were asked for: int64,
        or strings in a dictionary array; null where the column is.
    """

    seq: np.ndarray
    t: np.ndarray
    n_entries_read: int
    n_bytes_read: int
    objects: pa.Array | None = None


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

    def find(self, bounds: Bounds, *, with_objects: bool = False) -> Lookup:
        """Return what the run holds of ``bounds``; raises what reading the run raises."""
        selection = self.run.fences.select(bounds)
        if not len(selection.groups):
            return nothing_found(self.run.object_kind if with_objects else None)
        segments = self.segments
        shift = int(segments.shifts[0]) if segments.is_one else 0
        found = self.run.find(selection, bounds, shift=shift, with_objects=with_objects)
        seq, t, cuts, objects = found.position, found.t, found.cuts, found.objects
        if not segments.is_one:
            segments.place(seq)
            live = seq >= 0
            if not live.all():
                cuts = np.concatenate(([0], np.cumsum(live)))[cuts]
                seq, t = seq[live], t[live]
                objects = None if objects is None else objects.filter(pa.array(live))
            if not segments.ascends:
                cuts = np.arange(len(seq) + 1)
        seq, t, objects = _order_pieces(seq, t, cuts, objects)
        if found.is_scratch and seq is found.position:
            seq, t = seq.copy(), t.copy()
        objects = None if objects is None else to_codes(objects)
        return Lookup(seq, t, found.n_entries_read, found.n_bytes_read, objects)

    def count(self, bounds: Bounds) -> tuple[int, int]:
        """Return the least and the most entries the run can hold of ``bounds``."""
        fences = self.run.fences
        least, most = fences.count_entries(fences.select(bounds))
        return max(0, least - self.n_dead), min(most, self.n_live)


def nothing_found(object_kind: KeyKind | None) -> Lookup:
    """Return the empty answer, with objects if their kind is given."""
    objects = object_kind and to_codes(pa.array([], object_kind.arrow_type))
    return Lookup(_NOTHING, _NOTHING, 0, 0, objects)


def join_lookups(found: Sequence[Lookup]) -> Lookup:
    """Return several answers, at least one, as one."""
    if len(found) == 1:
        return found[0]
    objects = None
    if found[0].objects is not None:
        objects = join_objects([to_codes(f.objects) for f in found])
    seq, t, objects = in_order([(f.seq, f.t) for f in found], objects)
    n_entries_read = sum(f.n_entries_read for f in found)
    return Lookup(seq, t, n_entries_read, sum(f.n_bytes_read for f in found), objects)


def in_order(
    parts: Sequence[tuple[np.ndarray, np.ndarray]], objects: pa.Array | None = None
) -> tuple[np.ndarray, np.ndarray, pa.Array | None]:
    """Join lists of (seq, t) into one in order of ``seq``.

    Parameters
    ----------
    parts
        Pairs of int64 arrays of equal length, each in order of ``seq``; no ``seq`` twice.
    objects
        Of all entries, one list after the other; brought into the same order.
    """
    if len(parts) < 2:
        seq, t = parts[0] if parts else (_NOTHING, _NOTHING)
        return seq, t, objects
    seq = np.concatenate([p[0] for p in parts])
    t = np.concatenate([p[1] for p in parts])
    return _order_pieces(seq, t, np.cumsum([0, *(len(p[0]) for p in parts)]), objects)


def _order_pieces(
    seq: np.ndarray, t: np.ndarray, cuts: np.ndarray, objects: pa.Array | None
) -> tuple[np.ndarray, np.ndarray, pa.Array | None]:
    """Put entries in order of ``seq`` that ascends in each piece ``cuts[i]:cuts[i + 1]``."""
    if len(cuts) <= 2:
        return seq, t, objects
    borders = cuts[(cuts > 0) & (cuts < len(seq))]
    if bool((seq[borders] > seq[borders - 1]).all()):
        return seq, t, objects
    first = int(seq.min())
    span = int(seq.max()) - first + 1
    from indexing.kernels import order_by_seq, stable_order

    if span > len(seq) * SCATTER_SPAN_MAX:
        places = stable_order(seq)
    elif objects is None:
        ordered: tuple[np.ndarray, np.ndarray] = order_by_seq(seq, t, first, span)
        return *ordered, None
    else:
        _, places = order_by_seq(seq, np.arange(len(seq)), first, span)
    return seq[places], t[places], None if objects is None else objects.take(pa.array(places))
