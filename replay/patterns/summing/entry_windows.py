"""Sums over every match in each of many windows, at the same cost for windows of any length.

A window is the product of its rows, see `EntryTrendOperator`: whatever windows there are, a row
comes and goes once.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from replay.patterns.prepared import Prepared
from replay.patterns.program import MatchProgram
from replay.patterns.search import Rows
from replay.patterns.summing import entry_kernels
from replay.patterns.summing.entries import EntryTrendOperator
from replay.patterns.summing.operator import Totals
from replay.patterns.summing.within import segments_of

IntArray = npt.NDArray[np.int64]

_FOUND_MIN = 64
"""Sums of windows that there is room for at first, at least."""


class EntryWindowOperator(EntryTrendOperator):
    """Sums over the matches of each window of one query; as `EntryTrendOperator`, without WITHIN.

    The state is the rows of the windows to come.
    """

    _numbered = (*EntryTrendOperator._numbered, "_found")

    def __init__(self, program: MatchProgram) -> None:
        self._found = np.zeros((0, 0), np.uint64)
        super().__init__(program)
        self._found = self._new_cells(_FOUND_MIN)

    def sum(
        self, prepared: Prepared, times: IntArray, windows: IntArray, oldest: int
    ) -> tuple[IntArray, Totals]:
        """Take the next rows; return the sums of windows that are over, and the number of each.

        ``windows`` has start and end of each, of which neither descends. No window to come has
        rows from before ``oldest``.
        """
        rows = self._admit(prepared, self._n_rows)
        self._n_rows += len(rows)
        self._keep(replace(rows, times=times))
        kept = Rows.concat(self._waiting) if self._waiting else None
        numbers, totals = np.empty(0, np.int64), Totals.joined([])
        if kept is not None and len(windows):
            numbers, totals = self._sum_windows(kept, windows)
            kept = kept.take(slice(int(np.searchsorted(kept.times, oldest)), None))
        self._waiting = [kept] if kept is not None and len(kept) else []
        return numbers, totals

    def _sum_windows(self, rows: Rows, windows: IntArray) -> tuple[IntArray, Totals]:
        assert rows.group is not None
        rows, segments = segments_of(rows, rows.group, -1)
        seen = self._seen(rows, rows.times)
        starts, ends = np.ascontiguousarray(windows[:, 0]), np.ascontiguousarray(windows[:, 1])
        group, window = (np.zeros(len(self._found), np.int64) for _ in range(2))
        n_found = 0

        def step(at: IntArray, *others: Any) -> int:
            nonlocal group, window, n_found
            while True:
                n_states, begins, has_slots, queue, scratch, *of_rows = others
                status: int = entry_kernels.sum_entry_windows(
                    at, segments, starts, ends, n_states, begins, has_slots, queue, scratch,
                    (self._found, group, window), *of_rows,
                )  # fmt: skip
                n_found = int(at[entry_kernels.N_FOUND])
                if status != entry_kernels.STATUS_FOUND:
                    return status
                more = np.zeros(len(group), np.int64)
                group, window = np.concatenate([group, more]), np.concatenate([window, more])
                self._found = np.concatenate([self._found, self._new_cells(len(more))])

        self._multiply(step, seen)
        order = np.argsort(window[:n_found], kind="stable")
        keys = list(self._partitions.to_snapshot()[0]) if self._program.partition_by else [()]
        found = [keys[place] for place in group[order].tolist()]
        return window[order], self._to_totals(found, self._found[order])
