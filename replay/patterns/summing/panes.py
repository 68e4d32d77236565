"""Sums over every match in each of many windows that overlap, in one go over the rows.

A match is in a window if its first and its last row are. Runs whose first rows lie between the same
two starts of windows, in one *pane*, are in the same windows while these last: they share a lane,
and when a window ends, its sum is that of the lanes since its start.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from replay.limits import check_limits
from replay.operators.packing import State
from replay.patterns.prepared import Prepared
from replay.patterns.program import MatchProgram
from replay.patterns.row_intake import KNOWN_MIN, Arrays
from replay.patterns.search import Rows
from replay.patterns.summing import kernels
from replay.patterns.summing.operator import Totals, TrendOperator
from replay.patterns.trends.machine import Steps, Sums, steps_of

IntArray = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

_FOUND_MIN = 64
"""Sums of windows that there is room for at first, at least."""


class PaneTrendOperator(TrendOperator):
    """Sums over the matches of each window of one query; the type grain, without WITHIN.

    The state is a few numbers for each partition, pane of the windows that are not over, and state
    of the automaton.
    """

    kind = "sums over matches by pane"
    _numbered = ("_cells", "_totals", "_found")

    def __init__(self, program: MatchProgram, sums: Sequence[Sums] = ()) -> None:
        """Sum over what a program says, which may be that of several queries of some ``sums``."""
        super().__init__(program)
        self._lanes = _Lanes.none(self._n_partitions)
        self._of_queries = tuple(sums) or (self._sums,)
        self._begins = np.empty(0, np.bool_)
        self._found = self._new_cells(0)
        # Windows may be over before the first row comes.
        self._program_of_codes = tuple(self._to_program())

    def _make_room(self, n_partitions: int) -> None:
        super()._make_room(n_partitions)
        self._lanes.make_room(self._n_partitions)

    def _have_lanes(self, n_more: int) -> None:
        """Have none for partitions: their panes have lanes."""

    def _more_lanes(self) -> None:
        """Have twice the lanes, each with cells for its states and for the matches of queries."""
        n_more = max(16, len(self._lanes.born))
        self._lanes.make_lanes(n_more)
        more = self._new_cells(n_more * (self._code.n_states + self._code.n_queries))
        self._cells = np.concatenate([self._cells, more])

    def sum(
        self, prepared: Prepared, panes: IntArray, windows: kernels.Windows
    ) -> list[tuple[IntArray, Totals]]:
        """Take the next rows; by query, return sums of windows that are over and their numbers.

        ``panes`` has of each row the last start of a window until its time; each row is in one.
        """
        rows = self._admit(prepared, self._n_rows)
        self._n_rows += len(rows)
        found = self._sum(rows, panes, windows)
        self._forget_idle()
        return found

    def _sum(
        self, rows: Rows, panes: IntArray, windows: kernels.Windows
    ) -> list[tuple[IntArray, Totals]]:
        assert rows.group is not None
        self._make_room(int(rows.group.max(initial=-1)) + 1)
        none = np.zeros(0, np.int64)
        seen = kernels.Rows(self._codes_of(rows), rows.group, none, *self._operands_of(rows))
        lanes, n_states, n_queries = self._lanes, self._code.n_states, self._code.n_queries
        has_lanes = np.flatnonzero(lanes.heads >= 0)
        listed = np.concatenate([has_lanes, np.zeros(len(lanes.heads) - len(has_lanes), np.int64)])
        at = np.zeros(kernels.AT_SIZE, np.int64)
        at[kernels.N_LISTED] = len(has_lanes)
        self._found = self._new_cells(max(_FOUND_MIN, len(windows.starts) * n_queries))
        of_found = np.zeros((3, len(self._found)), np.int64)
        while True:
            check_limits()
            status = kernels.sum_panes(
                at, n_states, n_queries, panes, self._begins, tuple(windows), listed,
                *lanes.arrays(), self._cells, self._new_cells(self._n_slots),
                (self._found, *of_found), tuple(self._fields()), tuple(seen),
                self._program_of_codes,
            )  # fmt: skip
            if status == kernels.STATUS_DONE:
                break
            if status == kernels.STATUS_LANES:
                self._more_lanes()
            elif status == kernels.STATUS_WIDE:
                self._more_words()
            else:
                n_more = max(len(self._found), int(at[kernels.N_LISTED]) * n_queries)
                self._found = np.concatenate([self._found, self._new_cells(n_more)])
                more = np.zeros((3, n_more), np.int64)
                of_found = np.concatenate([of_found, more], axis=1)
        keys = list(self._partitions.to_snapshot()[0]) if self._program.partition_by else None
        n = int(at[kernels.N_FOUND])
        group, window, query = of_found[:, :n]
        found = []
        for number, sums in enumerate(self._of_queries):
            own = np.flatnonzero(query == number)
            of_own = [()] * len(own) if keys is None else [keys[i] for i in group[own].tolist()]
            found.append((window[own], self._to_totals(of_own, self._found[own], sums)))
        return found

    def state(self) -> State:
        """Return all that is known, for `take_over`; see ``Operator.state``."""
        packed = super().state()
        lanes = zip(_Lanes.NAMES, self._lanes.arrays(), strict=True)
        packed["arrays"] |= {f"lanes.{name}": array.copy() for name, array in lanes}
        return packed

    def _take_cells(self, arrays: Arrays) -> None:
        self._lanes = _Lanes(*(arrays[f"lanes.{name}"] for name in _Lanes.NAMES))
        self._lanes.check(self._n_partitions)
        width = self._code.n_states + self._code.n_queries
        if len(arrays["cells"]) != len(self._lanes.born) * width:
            raise ValueError("the sums of the state are of other lengths or types")
        self._found = self._new_cells(0)

    def _steps_of(self, word: int, begin: int) -> list[Steps]:
        return [steps_of(self._code, word, None), steps_of(self._code, word, begin)]

    def _to_program(self) -> kernels.Program:
        program = super()._to_program()
        self._begins = self._to_begins(program)
        return program

    def _forget_idle(self) -> None:
        """Forget partitions without lanes, whenever as many have come as were left the last time.

        Why: one that comes again goes on as a new one would.
        """
        n_known = len(self._partitions)
        if not self._program.partition_by or n_known < self._known_max[0]:
            return
        lanes = self._lanes
        kept = np.flatnonzero(lanes.heads[:n_known] >= 0)
        self._partitions.forget_others(kept)
        lanes.heads, lanes.tails = lanes.heads[kept], lanes.tails[kept]
        self._totals = self._totals[: len(kept)]
        self._known_max[0] = max(KNOWN_MIN, 2 * len(kept))


class _Lanes:
    """The lanes of panes, of each partition one after the other; those of none are free."""

    NAMES = ("heads", "tails", "following", "born", "free")

    def __init__(
        self, heads: IntArray, tails: IntArray, following: IntArray, born: IntArray, free: IntArray
    ) -> None:
        self.heads, self.tails = heads, tails
        self.following, self.born, self.free = following, born, free

    @classmethod
    def none(cls, n_partitions: int) -> _Lanes:
        """Return places for so many partitions, and no lane."""
        nothing = np.empty(0, np.int64)
        lanes = cls(nothing, nothing, nothing, nothing, np.full(1, -1))
        lanes.make_room(n_partitions)
        return lanes

    def arrays(self) -> tuple[IntArray, ...]:
        """Return them as kernels take them."""
        return self.heads, self.tails, self.following, self.born, self.free

    def make_room(self, n_partitions: int) -> None:
        """Have places for so many partitions."""
        more = np.full(n_partitions - len(self.heads), -1)
        self.heads, self.tails = (np.concatenate([a, more]) for a in (self.heads, self.tails))

    def make_lanes(self, n_more: int) -> None:
        """Have so many more lanes that are free."""
        n = len(self.born)
        links = np.append(np.arange(n + 1, n + n_more), self.free[kernels.FREE])
        self.following = np.concatenate([self.following, links])
        self.born = np.concatenate([self.born, np.zeros(n_more, np.int64)])
        self.free = np.full(1, n)

    def check(self, n_partitions: int) -> None:
        """Refuse links that compiled loops could not follow."""
        n = len(self.born)
        shapes = {
            "heads": (n_partitions,),
            "tails": (n_partitions,),
            "following": (n,),
            "born": (n,),
            "free": (1,),
        }
        for name, shape in shapes.items():
            array = getattr(self, name)
            if array.dtype != np.int64 or array.shape != shape:
                raise ValueError("the lanes of the state are of other lengths or types")
            if name != "born" and len(array) and not -1 <= array.min() <= array.max() < n:
                raise ValueError("the state has lanes that it does not name")
        # Each lane stands in one place: else a loop along them might not end.
        links = np.concatenate([self.heads, self.following, self.free])
        if (np.bincount(links[links >= 0], minlength=n) != 1).any():
            raise ValueError("the lanes of the state do not follow each other")
