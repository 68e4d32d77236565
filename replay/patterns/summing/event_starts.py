"""Sums within a time over every match of a strategy whose conditions read a row mapped before.

Runs are told apart by their first rows, one after the other: the rows within the time of a start
are gone through with the runs that begin there alone, whose cells the next start has again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from replay.limits import check_limits
from replay.patterns.conditions.across import new_mapped, to_conditions
from replay.patterns.conditions.kernels import N_FAULTS
from replay.patterns.program import MatchProgram
from replay.patterns.search import Rows
from replay.patterns.strategies.searches import SEMANTICS
from replay.patterns.summing import event_grain, event_kernels, kernels
from replay.patterns.summing.event_grain import new_room, to_machine
from replay.patterns.summing.trees import emptied, no_trees, to_trees
from replay.patterns.summing.within import WithinTrendOperator, segments_of
from replay.patterns.trends.indexes import to_indexes

IntArray = npt.NDArray[np.int64]

_CELLS_MIN = 64
"""Cells that there is room for at first."""


class EventStartOperator(WithinTrendOperator):
    """Sums over every match of one query with WITHIN, by start, state and live row."""

    kind = "sums over matches by start and row"

    def __init__(self, program: MatchProgram, n_events: int | None = None) -> None:
        super().__init__(program, n_events)
        assert program.sums is not None
        assert program.sums.grain is not None
        self._grain = program.sums.grain
        self._machine = to_machine(self._code, self._grain)
        self._indexes = to_indexes(self._code, self._grain)
        self._n_cells = _CELLS_MIN

    def _codes_of(self, rows: Rows) -> IntArray:
        """Return the symbols of each row as bits."""
        return rows.words.view(np.int64)

    def _sum(self, rows: Rows, parts: IntArray) -> None:
        rows, segments = segments_of(rows, parts, self._summed_to)

        def step(at: IntArray, *others: Any) -> int:
            status: int = event_kernels.sum_starts(
                at, segments, self._within, self._new_cells(1), self._totals, *others
            )
            return status

        self._go_through(rows, segments, self._rows_within(rows.times), step)

    def _go_through(
        self, rows: Rows, segments: IntArray, n_rows: float, step: Callable[..., int]
    ) -> int:
        """Take a kernel to its end, giving it what it lacks; return how many sums it found.

        ``n_rows`` are gone through at once in the mean, of all partitions.
        """
        seen, across, indexes = self._seen(rows, rows.times), self._grain.across, self._indexes
        n_leaves, n_segments = len(across.leaves), len(segments)
        conditions = to_conditions(
            across, rows.leaves[:n_leaves], rows.known[:n_leaves], self._ranks()
        )
        trees = no_trees(indexes, self._layout.width)
        if n_rows >= event_grain.ROWS_MIN * n_segments and (indexes.leaf >= 0).any():
            lanes = np.repeat(np.arange(n_segments), segments[:, 3] - segments[:, 1])
            trees = to_trees(indexes, conditions, lanes, n_segments, self._layout.width)
        opens = np.zeros(len(rows), np.bool_)
        if self._code.asks_for_start:
            opens = self._are_first(rows)
        progress = np.zeros(N_FAULTS + 1, np.int64)
        at, status = np.zeros(kernels.AT_SIZE, np.int64), kernels.STATUS_WIDE
        while status != kernels.STATUS_DONE:
            check_limits()
            n, n_states = self._n_cells, self._code.n_states
            cells = event_kernels.Cells(
                numbers=self._new_cells(n),
                live=np.full(n, -1),
                following=np.append(np.arange(1, n), -1),
                free=np.array([0, n]),
                heads=np.full(n_segments * n_states, -1),
            )
            # As all cells may become one.
            high = kernels.HIGH >> np.uint64(n.bit_length())
            status = step(
                at, SEMANTICS[self._code.semantics], high, opens, tuple(self._machine),
                tuple(cells), tuple(new_room(len(rows), self._new_cells(n_states))),
                tuple(emptied(trees, self._layout.width)), tuple(self._fields()), tuple(seen),
                (conditions, new_mapped(across, 1)), progress,
            )  # fmt: skip
            if status == kernels.STATUS_WIDE:
                self._more_words()
            elif status == event_kernels.STATUS_CELLS:
                self._n_cells *= 2
        self._n_faults += int(progress[N_FAULTS])
        return int(at[kernels.N_FOUND])

    def _rows_within(self, times: IntArray) -> float:
        """Return how many rows, of all partitions, are within the time of a row in the mean."""
        assert self._within is not None
        ordered = np.sort(times)
        latest = np.minimum(ordered, np.iinfo(np.int64).max - self._within) + self._within
        n_until = np.searchsorted(ordered, latest, side="right")
        return float((n_until - np.arange(len(ordered))).mean())
