"""What a lookup returns, and how the entries of runs become one list in order of ``seq``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np
import pyarrow as pa

from indexing.config import SCATTER_SPAN_MAX
from indexing.cover import Segments
from indexing.fences import Selection
from indexing.key_range import Bounds
from indexing.keys import KeyKind
from indexing.masked_lookup import MaskedEntries, RowMask, no_entries
from indexing.objects import join_values, to_codes
from indexing.run import Run
from indexing.scratch import Room, Scratch

_counters = Scratch()


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
class Taken:
    """What one part of an index added to an answer, in order of ``seq``."""

    n: int
    n_entries_read: int
    n_bytes_read: int
    objects: pa.Array | None


class Reading(Protocol):
    """What is to be read of one part of an index."""

    @property
    def n_most(self) -> int:
        """Entries it adds at most."""
        ...

    def read(self, room: Room, *, with_objects: bool = False) -> Taken:
        """Add the entries found to ``room``, which has place for all, in order of ``seq``."""
        ...

    def read_within(self, rows: RowMask, *, with_times: bool, with_objects: bool) -> MaskedEntries:
        """Return the entries found that a mask of rows leaves."""
        ...


@dataclass(frozen=True, slots=True)
class RunReading:
    """What is to be read of a placed run: groups that may hold keys of ``bounds``."""

    placed: PlacedRun
    bounds: Bounds
    selection: Selection

    @property
    def n_most(self) -> int:
        """Entries of the groups."""
        return int(self.placed.run.fences.count[self.selection.groups].sum())

    def read(self, room: Room, *, with_objects: bool = False) -> Taken:
        """Add what the run holds of ``bounds``; raises what reading the run raises."""
        run, segments = self.placed.run, self.placed.segments
        if not len(self.selection.groups):
            return Taken(0, 0, 0, None)
        is_one = segments.is_one
        found = run.find(
            self.selection,
            self.bounds,
            shift=int(segments.shifts[0]) if is_one else 0,
            room=room,
            with_objects=with_objects,
        )
        seq, t, cuts, objects = found.position, found.t, found.cuts, found.objects
        is_placed = found.is_placed
        if not is_one:
            segments.place(seq)
            live = seq >= 0
            if not live.all():
                cuts = np.concatenate(([0], np.cumsum(live)))[cuts]
                seq, t, is_placed = seq[live], t[live], False
                objects = None if objects is None else objects.filter(pa.array(live))
            if not segments.ascends:
                cuts = np.arange(len(seq) + 1)
        if not ascend(seq, cuts):
            if is_placed:  # where they go in order
                seq, t = seq.copy(), t.copy()
            with run.stated():
                objects = order(seq, t, cuts, objects, room.free(len(seq)))
            room.keep(len(seq))
        elif is_placed:
            room.keep(len(seq))
        else:
            room.put(seq, t)
        objects = None if objects is None else to_codes(objects)
        return Taken(len(seq), found.n_entries_read, found.n_bytes_read, objects)

    def read_within(self, rows: RowMask, *, with_times: bool, with_objects: bool) -> MaskedEntries:
        """Return what the run holds of ``bounds`` and of ``rows``; raises as :meth:`read`."""
        placed = self.placed
        if not len(self.selection.groups):
            return no_entries()
        found = placed.run.find_within(
            self.selection,
            self.bounds,
            placed.segments,
            rows,
            with_times=with_times,
            with_objects=with_objects,
        )
        if not placed.segments.ascends:
            found = replace(found, cuts=np.arange(len(found.seq) + 1))
        if ascend(found.seq, found.cuts):
            return found
        seq, t = np.empty((2, len(found.seq)), np.int64)
        with placed.run.stated():
            objects = order(
                found.seq, seq if found.t is None else found.t, found.cuts, found.objects, (seq, t)
            )
        cuts = np.array([0, len(seq)])
        return replace(found, seq=seq, t=None if found.t is None else t, cuts=cuts, objects=objects)


def look_up(readings: Sequence[Reading], object_kind: KeyKind | None) -> Lookup:
    """Read all parts of an answer, no event of which is in two; raises what reading them raises.

    The arrays returned cannot be written to and lie in one piece of memory.
    """
    room = Room(sum(reading.n_most for reading in readings))
    taken = [reading.read(room, with_objects=object_kind is not None) for reading in readings]
    objects = object_kind and to_codes(pa.array([], object_kind.arrow_type))
    held = [part.objects for part in taken if part.n]
    if objects is not None and held:
        objects = held[0] if len(held) == 1 else join_values(held)
    seq, t = room.filled()
    cuts = np.cumsum([0, *(part.n for part in taken)])
    if not ascend(seq, cuts):
        in_order = Room(len(room))
        objects = order(seq, t, cuts, objects, in_order.free(len(room)))
        in_order.keep(len(room))
        seq, t = in_order.filled()
    seq.flags.writeable = t.flags.writeable = False
    n_entries_read = sum(part.n_entries_read for part in taken)
    return Lookup(seq, t, n_entries_read, sum(part.n_bytes_read for part in taken), objects)


def look_up_within(
    readings: Sequence[Reading],
    rows: RowMask,
    object_kind: KeyKind | None,
    *,
    with_times: bool,
) -> MaskedEntries:
    """Read of all parts of an answer what a mask of rows leaves, in order of ``seq``."""
    with_objects = object_kind is not None
    parts = [
        reading.read_within(rows, with_times=with_times, with_objects=with_objects)
        for reading in readings
    ]
    n_read = sum(part.n_entries_read for part in parts)
    n_bytes = sum(part.n_bytes_read for part in parts)
    held = [part for part in parts if len(part.seq)]
    if not held:
        objects = object_kind and to_codes(pa.array([], object_kind.arrow_type))
        return replace(no_entries(objects), n_entries_read=n_read, n_bytes_read=n_bytes)
    seq = np.concatenate([part.seq for part in held])
    t = np.concatenate([part.t for part in held if part.t is not None]) if with_times else None
    objects = to_codes(join_values([part.objects for part in held])) if with_objects else None
    firsts = np.cumsum([0, *(len(part.seq) for part in held)])
    cuts = np.concatenate([part.cuts + first for part, first in zip(held, firsts, strict=False)])
    if not ascend(seq, cuts):
        into = np.empty_like(seq), np.empty_like(seq)
        objects = order(seq, seq if t is None else t, cuts, objects, into)
        seq, t = into[0], None if t is None else into[1]
    return MaskedEntries(seq, t, np.array([0, len(seq)]), n_read, n_bytes, objects)


def ascend(seq: np.ndarray, cuts: np.ndarray) -> bool:
    """Return whether ``seq``, which ascends in each piece ``cuts[i]:cuts[i + 1]``, does throughout.

    ``cuts`` ascend from 0 to its length.
    """
    if len(cuts) <= 2:
        return True
    borders = cuts[(cuts > 0) & (cuts < len(seq))]
    return bool((seq[borders] > seq[borders - 1]).all())


def order(
    seq: np.ndarray,
    t: np.ndarray,
    cuts: np.ndarray,
    objects: pa.Array | None,
    into: tuple[np.ndarray, np.ndarray],
) -> pa.Array | None:
    """Write entries in order of ``seq`` to ``into``, and return their objects in this order.

    Parameters
    ----------
    seq, t
        int64 arrays of equal length, at least one.
    cuts
        int64 array: ``seq`` ascends in each piece ``cuts[i]:cuts[i + 1]``.
    into
        Two arrays like ``seq`` and ``t`` that share no memory with them.

    Raises
    ------
    ValueError
        If a ``seq`` comes twice.
    """
    from indexing.kernels import order_by_seq

    seq_out, t_out = into
    held = cuts[1:] > cuts[:-1]
    first, last = int(seq[cuts[:-1][held]].min()), int(seq[cuts[1:][held] - 1].max())
    if last - first >= len(seq) * SCATTER_SPAN_MAX:
        places = np.argsort(seq)
        seq_out[:], t_out[:] = seq[places], t[places]
        n_different = 1 + np.count_nonzero(seq_out[1:] > seq_out[:-1])
    else:
        n_words = ((last - first) >> 6) + 1
        memory = _counters.borrow(12 * n_words)
        marks, below = memory[: 8 * n_words].view(np.uint64), memory[8 * n_words :].view(np.int32)
        if objects is None:
            n_different = order_by_seq(seq, t, first, marks, below, seq_out, t_out)
        else:
            places = np.zeros(len(seq), dtype=np.int64)
            n_different = order_by_seq(
                seq, np.arange(len(seq)), first, marks, below, seq_out, places
            )
            t_out[:] = t[places]
    if n_different < len(seq):
        raise ValueError("it has two entries of one event")
    return None if objects is None else objects.take(pa.array(places))
