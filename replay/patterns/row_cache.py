"""Keep the rows read for matching, for the measures of their matches."""

from __future__ import annotations

from itertools import pairwise
from threading import Lock

import numpy as np
import pyarrow as pa

from replay.planning.statistics import IntArray


class RowCache:
    """Rows read in pieces, in any order and by any thread, as long as they are few.

    Parameters
    ----------
    n_most
        Once there are more rows than so many, none is kept any more.
    """

    def __init__(self, n_most: int) -> None:
        self._room = n_most
        self._parts: list[tuple[IntArray, pa.Table]] = []
        self._lock = Lock()

    def add(self, seq: IntArray, table: pa.Table) -> None:
        """Keep the rows of a table, whose ``seq`` ascend and are those of no other table."""
        with self._lock:
            self._room -= len(seq)
            if self._room < 0:
                self._parts.clear()
            elif len(seq):
                self._parts.append((seq, table))

    def find(self, columns: list[str], seqs: IntArray) -> pa.Table | None:
        """Return the rows at ``seqs``, which ascend; None if a row or a column is not kept."""
        with self._lock:
            parts = sorted(self._parts, key=lambda part: int(part[0][0]))
        if not parts or not set(columns) <= set(parts[0][1].column_names):
            return None
        kept = np.concatenate([seq for seq, _ in parts])
        at = np.searchsorted(kept, seqs)
        if not np.array_equal(kept[np.minimum(at, len(kept) - 1)], seqs):
            return None
        firsts = np.cumsum([0, *(len(seq) for seq, _ in parts)])
        borders = pairwise(np.searchsorted(at, firsts).tolist())
        taken = [
            table.select(columns).take(pa.array(at[low:high] - first))
            for (_, table), (low, high), first in zip(parts, borders, firsts[:-1], strict=True)
        ]
        return pa.concat_tables(taken).unify_dictionaries()
