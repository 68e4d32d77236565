"""Counts of every match within a window, without building any of them.

A row is a linear map of the numbers of runs by state, and so a matrix; what leads through a window
is the product of its rows', held as a queue of two stacks. No window is gone through twice, and a
row costs the same for windows of any length. Where more than their number is asked of runs, there
is a lane for each start instead, see `TrendOperator`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from replay.aggregates.exact import to_ints, widened
from replay.limits import check_limits
from replay.patterns.config import RETRY_FRACTION
from replay.patterns.prepared import Prepared
from replay.patterns.program import MatchProgram
from replay.patterns.strategies.intake import Intake
from replay.patterns.strategies.run_kernels import CONTIGUOUS
from replay.patterns.strategies.searches import SEMANTICS, Search, to_tables
from replay.patterns.summing import entry_kernels as kernels
from replay.patterns.summing.operator import WORDS_MAX, Total, too_long
from replay.patterns.trends.algebra import MATCHES

IntArray = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Words = npt.NDArray[np.uint64]

EAGER_ROWS = 4096
"""While at most so many rows wait, every push is summed; then as RETRY_FRACTION says."""

_FRONT_ROWS = 1024
"""Rows of a queue's front that there is room for at first."""

_N_LANES = len(kernels.Lanes._fields)
_INT64_MIN = int(np.iinfo(np.int64).min)


@dataclass(frozen=True, slots=True)
class _Segments:
    """Rows of partitions as the kernels take them, those of one together.

    ``bounds`` has a row for each segment: place of its sum, first row and end.
    """

    bounds: IntArray
    words: Words
    times: IntArray
    opens: Bools
    counted: Bools
    """Whether the matches that end with a row are to be added."""


class WindowedCounter(Intake):
    """Counts every match of one query with WITHIN over stretches of a stream.

    Rows are pushed as into a matcher, of a program whose ``sums`` count runs alone. The state is
    the rows of the window.
    """

    def __init__(self, program: MatchProgram, n_events: int | None = None) -> None:
        super().__init__(program, n_events)
        assert program.within is not None
        self._within = program.within
        tables = to_tables(program)
        self._tables = tuple(tables)
        self._semantics = SEMANTICS[self._code.semantics]
        self._n_states = len(tables.ways)
        self._used = np.bitwise_or.reduce(tables.ways) | tables.watched
        is_end = np.append(np.diff(tables.accepts) > 0, [False])  # the last is of no state, -1
        completes: Bools = np.any(is_end[tables.step], axis=0)
        bits = np.left_shift(np.uint64(1), np.arange(len(completes), dtype=np.uint64))
        self._completes = np.uint64(bits[completes].sum(dtype=np.uint64))
        self._n_words = 1
        self._summed_to = -1
        self._counts: dict[int, int] = {}

    def totals(self) -> list[Total]:
        """Return how many matches each partition has; without partitions, how many there are."""
        keys = self._partitions.to_snapshot()[0] if self._program.partition_by else [()]
        found = sorted(self._counts.items())
        return [Total(keys[place], 0, {MATCHES: count}) for place, count in found]

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
        self._summed_to = -1

    def _sum(self, search: Search) -> None:
        check_limits()
        if not len(search):
            return
        self._n_words = 1
        self._sum_entries(self._to_segments(search))
        self._summed_to = max(self._summed_to, int(search.seq.max()))
        search.cursor.at = self._first_needed(search)

    def _first_needed(self, search: Search) -> int:
        """Return the place of the first row that what is still to come may be joined with."""
        if search.final:
            return len(search)
        assert search.newest is not None
        oldest = max(search.newest - self._within, _INT64_MIN)
        return int(np.searchsorted(search.ordered.times, oldest))

    def _to_segments(self, search: Search) -> _Segments:
        """Return the rows that change anything, by partition."""
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
        bounds = np.zeros((len(begins), 3), np.int64)
        bounds[:, 0] = group[begins] if self._program.partition_by and len(begins) else 0
        bounds[:, 1], bounds[:, 2] = begins, ends
        counted = seq > self._summed_to
        return _Segments(bounds, np.ascontiguousarray(words), times, opens, counted)

    def _sum_entries(self, segments: _Segments) -> None:
        n = self._n_states
        numbers = [self._zeros(1), *self._room(segments, n * n)]
        numbers += [self._zeros(n * n_lanes) for n_lanes in (_FRONT_ROWS, n, n, 1)]

        def step(at: IntArray) -> int:
            status: int = kernels.count_within(
                segments.bounds, self._within, segments.counted, segments.times,
                segments.words, segments.opens, self._completes, self._semantics, self._tables,
                tuple(numbers[:_N_LANES]), tuple(numbers[_N_LANES:]), at,
            )  # fmt: skip
            return status

        self._run(step, numbers)

    def _room(self, segments: _Segments, n_moved: int) -> list[Words]:
        """Return the numbers of `kernels.Lanes` but for the cells."""
        n_places = int(segments.bounds[:, 0].max(initial=0)) + 1
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
                raise too_long()
            self._n_words *= 2
            numbers[:] = map(widened, numbers)
        finished = numbers[1]
        places = np.flatnonzero(finished.any(axis=1))
        for place, more in zip(places.tolist(), to_ints(finished[places]), strict=True):
            self._counts[place] = self._counts.get(place, 0) + more
