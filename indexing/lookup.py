"""What a lookup finds, and how the entries of several parts become one list in order of ``seq``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import pyarrow as pa

from indexing.config import SCATTER_SPAN_MAX
from indexing.key_range import Bounds
from indexing.keys import KeyKind
from indexing.objects import join_values, to_codes
from indexing.row_mask import RowMask
from indexing.scratch import Scratch

_counters = Scratch()


@dataclass(frozen=True, slots=True)
class Lookup:
    """The events whose keys lie in the ranges asked for.

    Attributes
    ----------
    seq
        int64 array, no number twice; of an answer ascending.
    t
        int64 array: the events' times in the stream's unit; None where they were not asked for.
    n_entries_read
        Entries decoded to find them, those of the tail's events included, and those of groups that
        were left out not.
    n_bytes_read
        Bytes read from run files, and from data files for the tail; 0 where the answer was kept.
    objects
        The events' values of the key column, aligned with ``seq``, if they were asked for: int64,
        or strings in a dictionary array; null where the column is.
    cuts
        int64 array: ``seq`` ascends in each piece ``cuts[i]:cuts[i + 1]``; an answer is one.
    """

    seq: np.ndarray
    t: np.ndarray | None
    n_entries_read: int
    n_bytes_read: int
    objects: pa.Array | None
    cuts: np.ndarray

    @classmethod
    def nothing(cls, objects: pa.Array | None = None) -> Lookup:
        """Return no event, found without reading any entry."""
        none = np.empty(0, np.int64)
        return cls(none, none, 0, 0, objects, np.zeros(1, np.int64))

    @classmethod
    def concat(cls, parts: Sequence[Lookup]) -> Lookup:
        """Return what all parts found, at least one, each with events or all without."""
        if len(parts) == 1:
            return parts[0]
        times = [part.t for part in parts if part.t is not None]
        objects = [part.objects for part in parts if part.objects is not None]
        firsts = np.cumsum([0, *(len(part.seq) for part in parts)])
        return cls(
            np.concatenate([part.seq for part in parts]),
            np.concatenate(times) if times else None,
            sum(part.n_entries_read for part in parts),
            sum(part.n_bytes_read for part in parts),
            join_values(objects) if objects else None,
            np.concatenate([part.cuts + first for part, first in zip(parts, firsts, strict=False)]),
        )

    def take(self, kept: np.ndarray) -> Lookup:
        """Return those of the events that are kept, a bool array."""
        return replace(
            self,
            seq=self.seq[kept],
            t=None if self.t is None else self.t[kept],
            objects=None if self.objects is None else self.objects.filter(pa.array(kept)),
            cuts=np.concatenate(([0], np.cumsum(kept)))[self.cuts],
        )

    def where(self, rows: RowMask) -> Lookup:
        """Return the events that a mask of rows leaves."""
        return self.take(rows.contains(self.seq))

    def in_order(self) -> Lookup:
        """Return the events in order of ``seq``; `ValueError` if one comes twice."""
        seq, t, objects = self.seq, self.t, self.objects
        if not ascend(seq, self.cuts):
            into = np.empty_like(seq), np.empty_like(seq)
            objects = order(seq, seq if t is None else t, self.cuts, objects, into)
            seq, t = into[0], None if t is None else into[1]
        return replace(self, seq=seq, t=t, objects=objects, cuts=np.array([0, len(seq)]))


class Part(Protocol):
    """Where the entries of some data files come from."""

    def read(
        self, bounds: Bounds, rows: RowMask | None, *, with_times: bool, with_objects: bool
    ) -> Lookup:
        """Return the events with keys in ``bounds`` that a mask of rows leaves, in their order."""
        ...


def look_up(
    asked: Sequence[Part],
    bounds: Bounds,
    object_kind: KeyKind | None,
    *,
    rows: RowMask | None = None,
    with_times: bool = True,
) -> Lookup:
    """Ask parts of an index, no event of which is in two; raises what reading them raises.

    Of what a mask of rows leaves out nothing is returned, and as little as can be is read.
    """
    with_objects = object_kind is not None
    parts = [
        part.read(bounds, rows, with_times=with_times, with_objects=with_objects) for part in asked
    ]
    none = object_kind and to_codes(pa.nulls(0, object_kind.arrow_type))
    held = [part for part in parts if len(part.seq)] or [Lookup.nothing(none)]
    return replace(
        Lookup.concat(held).in_order(),
        n_entries_read=sum(part.n_entries_read for part in parts),
        n_bytes_read=sum(part.n_bytes_read for part in parts),
    )


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
