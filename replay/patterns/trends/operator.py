"""Sums over every match of a strategy, without building any of them.

Where no condition looks across rows, all that a run can still do follows from its state. So it is
enough to know how many runs are in each, and a row is a linear map of these numbers. The idea is
A-Seq's (SIGMOD 2014) and COGRA's type grain (SIGMOD 2019), over the states of the automaton.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from replay.aggregates.exact import shrunk, to_ints, widened
from replay.errors import QueryError
from replay.limits import check_limits
from replay.patterns.config import RETRY_FRACTION
from replay.patterns.prepared import Prepared
from replay.patterns.program import MatchProgram
from replay.patterns.strategies.intake import Intake
from replay.patterns.strategies.run_kernels import CONTIGUOUS
from replay.patterns.strategies.searches import SEMANTICS, Search, to_tables
from replay.patterns.trends import kernels
from replay.patterns.trends.lanes import Lanes, choose_lanes

IntArray = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Words = npt.NDArray[np.uint64]

EAGER_ROWS = 4096
"""While at most so many rows wait, every push is summed; then as RETRY_FRACTION says."""

WORDS_MAX = 4096
"""Words of a number, some 78,000 digits."""

_FRONT_ROWS = 1024
"""Rows of a queue's front that there is room for at first."""

_N_LANES = len(kernels.Lanes._fields)
_INT64_MIN, _INT64_MAX = (int(bound) for bound in (np.iinfo(np.int64).min, np.iinfo(np.int64).max))


@dataclass(frozen=True, slots=True)
class _Segments:
    """Rows of partitions as the kernels take them, those of one together.

    ``bounds`` has a row for each segment: lane, place of its sum, first row and end, and whether
    the lane begins here.
    """

    bounds: IntArray
    words: Words
    times: IntArray
    opens: Bools
    counted: Bools
    """Whether the matches that end with a row are to be added."""


class TrendOperator(Intake):
    """Counts every match of one query over stretches of a stream.

    Rows are pushed as into a `StrategyMatcher`, of a program that `is_countable`. The state is the
    rows of the window, or without WITHIN no row but one number for each partition and state.

    Parameters
    ----------
    lanes
        How runs are told apart by where they began; None: as `choose_lanes` has it.
    """

    def __init__(
        self, program: MatchProgram, n_events: int | None = None, *, lanes: Lanes | None = None
    ) -> None:
        super().__init__(program, n_events)
        assert program.is_countable
        self._lanes = choose_lanes(program.within) if lanes is None else lanes
        tables = to_tables(program)
        self._tables = tuple(tables)
        self._semantics = SEMANTICS[self._code.semantics]
        self._n_states = len(tables.ways)
        self._begins = tables.ways[0] | tables.ways[kernels.EMPTY]
        self._used = np.bitwise_or.reduce(tables.ways) | tables.watched
        is_end = np.append(np.diff(tables.accepts) > 0, [False])  # the last is of no state, -1
        completes: Bools = np.any(is_end[tables.step], axis=0)
        bits = np.left_shift(np.uint64(1), np.arange(len(completes), dtype=np.uint64))
        self._completes = np.uint64(bits[completes].sum(dtype=np.uint64))
        self._n_words = 1
        self._cells = self._zeros(0)
        self._has_begun = np.zeros(0, np.bool_)
        self._summed_to = -1
        self._counts: dict[int, int] = {}

    @property
    def count(self) -> int:
        """Number of matches that are certain, exact however large."""
        return sum(self._counts.values())

    def _advance(self) -> None:
        n_waiting = 0 if self._open is None else len(self._open)
        n_new = sum(map(len, self._inbox))
        if n_waiting > EAGER_ROWS and n_new * RETRY_FRACTION < n_waiting:
            return
        self._merge_inbox()
        assert self._open is not None
        self._sum(self._open)
        self._trim()

    def push_stretches(
        self, prepared: Prepared, starts: IntArray, n_rows: IntArray, first_seqs: IntArray
    ) -> None:
        """Take several whole stretches at once, each finished; see ``Intake.push_stretches``."""
        super().push_stretches(prepared, starts, n_rows, first_seqs)
        self._sum_finished()

    def finish(self) -> None:
        """End the stretch: nothing more is to come, so sum what is pending."""
        super().finish()
        self._sum_finished()

    def _sum_finished(self) -> None:
        while self._finished:
            self._sum(self._finished.popleft())
        # No run goes on in another stretch.
        self._cells = self._zeros(0)
        self._has_begun = np.zeros(0, np.bool_)
        self._summed_to = -1

    def _sum(self, search: Search) -> None:
        check_limits()
        if not len(search):
            return
        segments = self._to_segments(search)
        if not len(self._cells):
            self._n_words = 1
        if self._lanes is Lanes.ENTRIES:
            self._sum_entries(segments)
        else:
            self._sum_lanes(segments)
        self._summed_to = max(self._summed_to, int(search.seq.max()))
        search.cursor.at = self._first_needed(search)

    def _first_needed(self, search: Search) -> int:
        """Return the place of the first row that what is still to come may be joined with."""
        within = self._program.within
        if within is None or search.final:
            return len(search)
        assert search.newest is not None
        oldest = max(search.newest - within, _INT64_MIN)
        return int(np.searchsorted(search.ordered.times, oldest))

    def _to_segments(self, search: Search) -> _Segments:
        """Return the rows that change anything, by partition or by start."""
        rows = search.rows
        assert rows.group is not None
        words = rows.words & self._used
        group, opens, seq, times = rows.group, search.opens, search.seq, rows.times
        if self._semantics != CONTIGUOUS:
            kept = np.flatnonzero(words)
            words, group, opens, seq = words[kept], group[kept], opens[kept], seq[kept]
            times = times[kept] if len(times) else times
        cuts = np.flatnonzero(np.diff(group, prepend=-1, append=-1))
        begins, ends = cuts[:-1], cuts[1:]
        bounds = np.zeros((len(begins), 5), np.int64)
        of_begins = group[begins] if len(begins) else begins
        bounds[:, 1] = of_begins if self._program.partition_by else 0
        bounds[:, 2], bounds[:, 3], bounds[:, 4] = begins, ends, 1
        if self._lanes is Lanes.ONE and (not search.final or len(self._has_begun)):
            self._make_room(int(of_begins.max(initial=-1)) + 1)
            bounds[:, 0] = of_begins
            bounds[:, 4] = ~self._has_begun[of_begins]
            self._has_begun[of_begins] = True
        counted = seq > self._summed_to
        if self._lanes is Lanes.STARTS:
            bounds = self._of_starts(bounds, words, times)
        return _Segments(bounds, np.ascontiguousarray(words), times, opens, counted)

    def _make_room(self, n_lanes: int) -> None:
        """Have cells for so many lanes."""
        if n_lanes > len(self._has_begun):
            n_more = n_lanes  # twice as many as needed, to grow seldom
            self._cells = np.concatenate([self._cells, self._zeros(n_more * self._n_states)])
            self._has_begun = np.concatenate([self._has_begun, np.zeros(n_more, np.bool_)])

    def _of_starts(self, bounds: IntArray, words: Words, times: IntArray) -> IntArray:
        """Return a segment for each row that a run may begin with."""
        within = self._program.within
        assert within is not None
        begins = words & self._begins != 0
        parts = [np.zeros((0, 5), np.int64)]
        for _, place, first, end, _ in bounds.tolist():
            starts = first + np.flatnonzero(begins[first:end])
            last_times = np.minimum(times[starts], _INT64_MAX - within) + within
            ends = first + np.searchsorted(times[first:end], last_times, side="right")
            part = np.zeros((len(starts), 5), np.int64)
            part[:, 1], part[:, 2], part[:, 3], part[:, 4] = place, starts, ends, 1
            parts.append(part[ends > starts])
        return np.concatenate(parts)

    def _sum_lanes(self, segments: _Segments) -> None:
        only_first, has_cells = self._lanes is Lanes.STARTS, len(self._cells) > 0
        numbers = [self._cells if has_cells else self._zeros(self._n_states)]
        numbers += self._room(segments, self._n_states)

        def step(at: IntArray) -> int:
            status: int = kernels.count_lanes(
                segments.bounds, only_first, segments.counted, segments.words, segments.opens,
                self._semantics, self._tables, tuple(numbers), at,
            )  # fmt: skip
            return status

        self._run(step, numbers)
        if has_cells:
            self._cells = shrunk(numbers[0])
            self._n_words = self._cells.shape[1]

    def _sum_entries(self, segments: _Segments) -> None:
        n = self._n_states
        numbers = [self._zeros(1), *self._room(segments, n * n)]
        numbers += [self._zeros(n * n_lanes) for n_lanes in (_FRONT_ROWS, n, n, 1)]

        def step(at: IntArray) -> int:
            status: int = kernels.count_within(
                segments.bounds, self._program.within, segments.counted, segments.times,
                segments.words, segments.opens, self._completes, self._semantics, self._tables,
                tuple(numbers[:_N_LANES]), tuple(numbers[_N_LANES:]), at,
            )  # fmt: skip
            return status

        self._run(step, numbers)

    def _room(self, segments: _Segments, n_moved: int) -> list[Words]:
        """Return the numbers of `kernels.Lanes` but for the cells."""
        n_places = int(segments.bounds[:, 1].max(initial=0)) + 1
        return [self._zeros(n_places), self._zeros(n_moved), self._zeros(2)]

    def _zeros(self, n_numbers: int) -> Words:
        return np.zeros((n_numbers, self._n_words), np.uint64)

    def _run(self, step: Callable[[IntArray], int], numbers: list[Words]) -> None:
        """Take a kernel to its end, giving it what it lacks; keep the sums it has finished."""
        at = np.full(kernels.AT_SIZE, -1)
        at[kernels.AT_SEGMENT] = 0
        while (status := step(at)) != kernels.STATUS_DONE:
            check_limits()
            if status == kernels.STATUS_LONG:  # the front is empty when it is asked for
                numbers[_N_LANES] = self._zeros(2 * len(numbers[_N_LANES]))
                continue
            if 2 * self._n_words > WORDS_MAX:
                raise _too_long()
            self._n_words *= 2
            numbers[:] = map(widened, numbers)
        finished = numbers[1]
        places = np.flatnonzero(finished.any(axis=1))
        for place, more in zip(places.tolist(), to_ints(finished[places]), strict=True):
            self._counts[place] = self._counts.get(place, 0) + more


def _too_long() -> QueryError:
    return QueryError(
        f"there are so many matches that their number has more than {WORDS_MAX} words of 64 bits, "
        "over 78,000 digits; narrow the conditions, or add WITHIN"
    )
