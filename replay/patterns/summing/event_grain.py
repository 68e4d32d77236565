"""Sums over every match of a strategy whose conditions read a row mapped before."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from replay.operators.packing import State
from replay.patterns.automaton import StrategyCode
from replay.patterns.conditions.across import Conditions, new_mapped, to_conditions
from replay.patterns.conditions.kernels import N_FAULTS
from replay.patterns.program import MatchProgram
from replay.patterns.row_intake import Arrays
from replay.patterns.search import Rows
from replay.patterns.strategies.searches import SEMANTICS
from replay.patterns.summing import event_kernels, kernels
from replay.patterns.summing.operator import TrendOperator
from replay.patterns.summing.tree_kernels import Trees
from replay.patterns.summing.trees import emptied, no_trees, to_trees
from replay.patterns.trends.indexes import to_indexes
from replay.patterns.trends.references import NEVER, EventGrain, Move

IntArray = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
Bools = npt.NDArray[np.bool_]

_CELLS_MIN = 64
"""Cells that there is room for at first."""

ROWS_MIN = 32
"""In fewer rows cells are looked at one by one, as trees are made anew for each push; unless there
are twice as many as when cells of equal values were last made one."""

_NOTHING = -1


@dataclass(slots=True)
class _Kept:
    """What conditions read of rows, by column: of those that are live, and those that come."""

    leaves: IntArray
    known: Bools
    groups: IntArray
    """Partition of each."""

    @classmethod
    def none(cls, n_leaves: int) -> _Kept:
        shape = (n_leaves, 0)
        return cls(np.empty(shape, np.int64), np.empty(shape, np.bool_), np.empty(0, np.int64))

    def __len__(self) -> int:
        return int(self.leaves.shape[1])

    def with_rows(self, rows: Rows) -> _Kept:
        """Return them with further rows behind."""
        assert rows.group is not None
        n = len(self.leaves)
        return _Kept(
            np.concatenate([self.leaves, rows.leaves[:n]], axis=1),
            np.concatenate([self.known, rows.known[:n]], axis=1),
            np.concatenate([self.groups, rows.group]),
        )

    def take(self, columns: IntArray) -> _Kept:
        return _Kept(self.leaves[:, columns], self.known[:, columns], self.groups[columns])


def to_machine(code: StrategyCode, grain: EventGrain) -> event_kernels.Machine:
    """Return what kernels are told of the automaton of a query."""
    symbols = np.left_shift(np.uint64(1), np.arange(code.step.shape[1], dtype=np.uint64))
    leads: Bools = np.greater_equal(grain.step, 0)
    negated = np.array(code.negated, np.int64)
    others = np.arange(code.n_states)[:, None] != code.skip
    watches = others & (grain.negations != NEVER).any(axis=0)
    kept = (grain.moves != Move.ROW) & grain.has_live[grain.step]
    return event_kernels.Machine(
        step=grain.step,
        skip=code.skip,
        ways=np.where(leads, symbols, np.uint64(0)).sum(axis=1, dtype=np.uint64),
        watched=np.where(watches, symbols[negated], np.uint64(0)).sum(axis=1, dtype=np.uint64),
        negated=negated,
        ends=np.diff(code.accepts) > 0,
        goes_on=np.any(leads, axis=1),
        conditions=grain.conditions,
        negations=grain.negations,
        moves=grain.moves,
        keeps=grain.keeps,
        has_live=grain.has_live,
        keeps_rows=bool((kept & leads).any()) or bool(watches.any()),
    )


def new_room(n_columns: int, slots: Words) -> event_kernels.Room:
    """Return working memory for a row; there is a slot for each state."""
    n_states = len(slots)
    return event_kernels.Room(
        slots=slots,
        symbols=np.full(n_states, -1),
        heads=np.full(n_states, _NOTHING),
        places=np.zeros(n_columns + 1, np.int64),
        marks=np.zeros(n_columns + 1, np.int64),
        n_marked=np.zeros(1, np.int64),
    )


class EventTrendOperator(TrendOperator):
    """Sums over every match of one query, by state and live row; see `EventGrain`. No WITHIN.

    What conditions read of live rows is kept; what rows are needed for no more is not.
    """

    kind = "sums over matches by row"

    def __init__(self, program: MatchProgram, n_events: int | None = None) -> None:
        assert program.sums is not None
        assert program.sums.grain is not None
        self._grain = program.sums.grain
        self._live = np.empty(0, np.int64)
        self._following = np.empty(0, np.int64)
        self._free = np.array([_NOTHING, 0])
        self._heads = np.empty(0, np.int64)
        self._kept = _Kept.none(len(program.across.leaves))
        self._opens = np.empty(0, np.bool_)
        super().__init__(program, n_events)
        self._machine = to_machine(self._code, self._grain)
        self._indexes = to_indexes(self._code, self._grain)
        self._has_trees = bool((self._indexes.leaf >= 0).any())
        self._kept_max = ROWS_MIN
        self._conditions: Conditions
        self._trees: Trees

    # -----------------------------------------------------------------------------------------
    # Rows

    def _take(self, rows: Rows) -> None:
        if not len(rows):
            return
        self._kept = self._kept.with_rows(rows)
        super()._take(rows)
        columns, places = np.unique(self._live[self._live != _NOTHING], return_inverse=True)
        self._live[self._live != _NOTHING] = places
        self._kept = self._kept.take(columns)
        if (self._trees.number >= 0).any():
            self._kept_max = max(ROWS_MIN, 2 * len(self._kept))

    def _codes_of(self, rows: Rows) -> IntArray:
        """Return the symbols of each row as bits."""
        kept, width, across = self._kept, self._layout.width, self._grain.across
        self._conditions = to_conditions(across, kept.leaves, kept.known, self._ranks())
        self._trees = no_trees(self._indexes, width)
        is_worth_it = len(rows) >= ROWS_MIN or len(kept) > self._kept_max
        if self._has_trees and is_worth_it:
            lanes, n_lanes = kept.groups, len(self._totals)
            self._trees = to_trees(self._indexes, self._conditions, lanes, n_lanes, width)
        asks = self._code.asks_for_start
        self._opens = self._are_first(rows) if asks else np.zeros(len(rows), np.bool_)
        return rows.words.view(np.int64)

    def _see(self, at: int, rows: kernels.Rows) -> int:
        n_states, n_columns = self._code.n_states, len(self._kept)
        across = self._conditions, new_mapped(self._grain.across, 1)
        self._trees = emptied(self._trees, self._layout.width)
        room = new_room(n_columns, self._new_cells(n_states))
        cells = event_kernels.Cells(
            self._cells, self._live, self._following, self._free, self._heads
        )
        progress = np.zeros(N_FAULTS + 1, np.int64)
        settings = SEMANTICS[self._code.semantics], self._high, self._opens
        where = at, n_columns - len(rows.code)
        seen = (
            tuple(self._machine), tuple(cells), tuple(room), tuple(self._trees), self._totals,
            tuple(self._fields()), tuple(rows), across, progress,
        )  # fmt: skip
        reached = int(event_kernels.sum_rows(*where, *settings, *seen))
        self._n_faults += int(progress[N_FAULTS])
        if reached == at < len(rows.code):
            # With trees there is a cell for each value, of which every row may have another.
            has_trees = bool((self._trees.number >= 0).any())
            self._more_cells(len(rows.code) - at if has_trees else 0)
        return reached

    # -----------------------------------------------------------------------------------------
    # Cells

    def _have_lanes(self, n_more: int) -> None:
        more = np.full(n_more * self._code.n_states, _NOTHING)
        self._heads = np.concatenate([self._heads, more])

    def _more_cells(self, n_least: int) -> None:
        """Have twice the cells, and so many more at least."""
        n = len(self._live)
        n_more = max(_CELLS_MIN, n, n_least)
        links = np.append(np.arange(n + 1, n + n_more), self._free[kernels.FREE])
        self._following = np.concatenate([self._following, links])
        self._live = np.concatenate([self._live, np.full(n_more, _NOTHING)])
        self._cells = np.concatenate([self._cells, self._new_cells(n_more)])
        self._free = np.array([n, self._free[event_kernels.N_FREE] + n_more])

    def _forget_runs(self) -> None:
        self._cells, self._live = self._new_cells(0), np.empty(0, np.int64)
        self._following, self._free = np.empty(0, np.int64), np.array([_NOTHING, 0])
        self._heads[:] = _NOTHING
        self._kept = _Kept.none(len(self._kept.leaves))

    @property
    def _high(self) -> np.uint64:
        """As all cells may become one."""
        return kernels.HIGH >> np.uint64(len(self._live).bit_length())

    # -----------------------------------------------------------------------------------------
    # State

    def state(self) -> State:
        """Return all that is known, for `take_over`; see ``Operator.state``."""
        packed = super().state()
        packed["arrays"] |= {
            "live": self._live.copy(),
            "following": self._following.copy(),
            "free": self._free.copy(),
            "heads": self._heads.copy(),
            "kept.leaves": self._kept.leaves.copy(),
            "kept.known": self._kept.known.copy(),
            "kept.groups": self._kept.groups.copy(),
        }
        return packed

    def _take_cells(self, arrays: Arrays) -> None:
        n, n_leaves = len(self._cells), len(self._grain.across.leaves)
        n_kept = arrays["kept.leaves"].shape[-1]
        expected = {
            "live": (np.int64, (n,), n_kept),
            "following": (np.int64, (n,), n),
            "free": (np.int64, (2,), n + 1),
            "heads": (np.int64, (self._n_partitions * self._code.n_states,), n),
            "kept.leaves": (np.int64, (n_leaves, n_kept), None),
            "kept.known": (np.bool_, (n_leaves, n_kept), None),
            "kept.groups": (np.int64, (n_kept,), len(self._totals)),
        }
        for name, (dtype, shape, most) in expected.items():
            array = arrays[name]
            if array.dtype != dtype or array.shape != shape:
                raise ValueError("the cells of the state are of other lengths or types")
            if most is not None and array.size and not -1 <= array.min() <= array.max() < most:
                raise ValueError("the state has cells or rows that it does not name")
        self._live, self._following = arrays["live"], arrays["following"]
        self._free, self._heads = arrays["free"], arrays["heads"]
        self._kept = _Kept(*(arrays[f"kept.{name}"] for name in ("leaves", "known", "groups")))
        links = np.concatenate([self._heads, self._following, self._free[:1]])
        # Each cell stands in one list: else a loop along it might not end.
        if (np.bincount(links[links >= 0], minlength=n) != 1).any():
            raise ValueError("the cells of the state do not follow each other")
