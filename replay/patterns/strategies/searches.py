"""Searches over the rows of a stretch: their matches a batch at a time, in canonical order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from replay.language.bound import Semantics
from replay.patterns.automaton import StrategyCode
from replay.patterns.conditions.across import new_mapped, to_conditions
from replay.patterns.conditions.kernels import N_FAULTS
from replay.patterns.config import STEPS_MAX
from replay.patterns.partitions import PartitionEdges
from replay.patterns.program import MatchProgram
from replay.patterns.search import Rows, read_only
from replay.patterns.strategies import kernels
from replay.patterns.strategies.run_kernels import (
    ANY,
    CONTIGUOUS,
    N_OUT,
    N_ROWS_OUT,
    NEXT,
    Data,
    Out,
    Tables,
)

IntArray = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

MEMO_MAX = 1 << 20
"""Rows and states remembered as leading nowhere; beyond, the search may look again."""

ROWS_AT_ONCE = 1 << 18
"""Rows of matches found at once; a longer match comes alone."""

SEMANTICS = {
    Semantics.CONTIGUOUS: CONTIGUOUS,
    Semantics.SKIP_TILL_NEXT: NEXT,
    Semantics.SKIP_TILL_ANY: ANY,
}


@dataclass(slots=True)
class Cursor:
    """How far the matches are out: all of starts before ``at``, and of that one up to a row."""

    at: int = 0
    """Place in ``Search.order``."""
    done: int = -1
    """All matches of the start that end up to this row are out."""
    rows: IntArray = field(default_factory=lambda: np.empty(0, np.int64))
    """The last match of the start that is out, if others may end with the same row."""
    symbols: npt.NDArray[np.uint8] = field(default_factory=lambda: np.empty(0, np.uint8))


@dataclass(frozen=True, slots=True)
class Batch:
    """Matches as row numbers, in canonical order; match k has ``offsets[k] : offsets[k + 1]``."""

    offsets: IntArray
    rows: IntArray
    symbols: npt.NDArray[np.uint8]
    timed_out: Bools
    n_faults: int
    status: int
    """See ``kernels.find_all``."""

    def __len__(self) -> int:
        return len(self.timed_out)


@dataclass(slots=True)
class Search:
    """Rows in order of ``seq``, the same grouped by partition, and how far their matches are out.

    ``begins`` and ``ends`` (half-open) of each grouped row's partition, and whether the row
    ``opens`` and ``closes`` it, have shape (n,).
    """

    ordered: Rows
    rows: Rows
    """Those of a partition together."""
    begins: IntArray
    ends: IntArray
    opens: Bools
    closes: Bools
    order: IntArray
    """Grouped rows that a match may begin at, by ``seq``."""
    newest: int | None
    """Time of the newest event seen; None: no window has ended."""
    cursor: Cursor = field(default_factory=Cursor)
    final: bool = False
    """Whether no more rows come."""
    is_dry: bool = False
    """Whether it gives no more before rows come, or at all if ``final``."""

    def __len__(self) -> int:
        return len(self.ordered)

    def end(self) -> None:
        """Say that no more rows come."""
        self.final = True
        self.is_dry = False

    def next(self, program: MatchProgram, n_matches: int, ranks: IntArray | None) -> Batch:
        """Find the next matches, at most so many, and move on; ``ranks``: see `to_conditions`."""
        code, rows, cursor = program.strategy, self.rows, self.cursor
        assert code is not None
        settings = _settings(program, final=self.final, newest=self.newest)
        progress = np.zeros(kernels.PROGRESS, np.int64)
        progress[kernels.AT_START], progress[kernels.DONE_ROW] = cursor.at, cursor.done
        out = _room(n_matches, max(ROWS_AT_ONCE, len(rows)))
        n_keys = min(len(rows) * code.n_states, MEMO_MAX)
        size = 1 if settings[kernels.ACROSS] else 1 << (n_keys - 1).bit_length()
        across = None
        n_followed = 0
        if settings[kernels.ACROSS]:
            n_followed = len(rows)
            leaves, known = np.ascontiguousarray(rows.leaves), np.ascontiguousarray(rows.known)
            conditions = to_conditions(program.across, leaves, known, ranks)
            across = conditions, new_mapped(program.across, len(rows))
        status = kernels.find_all(
            self.order,
            settings,
            cursor.rows,
            cursor.symbols,
            tuple(_scratch(code, n_followed)),
            (np.zeros(size, np.int64), np.zeros(size, np.int64)),
            tuple(self.to_data()),
            tuple(to_tables(program)),
            across,
            tuple(out),
            progress,
        )
        found = _batch(out, progress, status)
        self._move(found, progress)
        self.is_dry = status in (kernels.STATUS_DONE, kernels.STATUS_OPEN)
        return found

    def _move(self, found: Batch, progress: IntArray) -> None:
        cursor = self.cursor
        at, done = int(progress[kernels.AT_START]), int(progress[kernels.DONE_ROW])
        same = (cursor.at, cursor.done) == (at, done)
        cursor.at, cursor.done = at, done
        full = found.status == kernels.STATUS_FULL
        if full and progress[kernels.RESUMES]:
            last = slice(int(found.offsets[-2]), int(found.offsets[-1]))
            cursor.rows, cursor.symbols = found.rows[last].copy(), found.symbols[last].copy()
        elif not (full and same):
            cursor.rows, cursor.symbols = cursor.rows[:0], cursor.symbols[:0]

    def to_data(self) -> Data:
        """Return the rows as kernels take them."""
        words = np.ascontiguousarray(self.rows.words)
        places = self.ends, self.begins, self.opens, self.closes
        return Data(words, read_only(self.rows.times), *places)

    def extended(
        self, new: list[Rows], search_of: Callable[[Rows, int | None], Search], lookback: int | None
    ) -> Search:
        """Return the search with further rows, less those that no match can need any more.

        ``new`` is in order of ``seq``; rows decide about a match that begins ``lookback`` or less
        after them, None: not at all.
        """
        cursor, seq = self.cursor, self.seq
        start = self._start()
        kept = self.ordered.take(slice(self._first_kept(start, lookback), None))
        longer = search_of(Rows.concat([kept, *new]), self.newest)
        places = np.argsort(longer.seq)
        ascending = longer.seq[places]

        def moved(old: IntArray) -> IntArray:
            return places[np.searchsorted(ascending, seq[old])]

        unseen = int(self.ordered.seq[-1]) + 1 if len(self) else None  # type: ignore[index]
        begin = start if start is not None else unseen
        if begin is not None:
            longer.cursor.at = int(np.searchsorted(longer.seq[longer.order], begin))
        if start is not None:
            # Before the start itself there is nothing to be done.
            if cursor.done >= self.order[cursor.at]:
                longer.cursor.done = int(moved(np.array([cursor.done]))[0])
            longer.cursor.rows, longer.cursor.symbols = moved(cursor.rows), cursor.symbols
        return longer

    def trimmed(
        self, search_of: Callable[[Rows, int | None], Search], lookback: int | None
    ) -> Search:
        """Return a dry search less the rows no match can need, if they are half of it."""
        if 2 * self._first_kept(self._start(), lookback) < max(len(self), 1):
            return self
        shorter = self.extended([], search_of, lookback)
        shorter.is_dry = True
        return shorter

    def _start(self) -> int | None:
        """Return ``seq`` of the first row whose matches may not all be out; None: they are."""
        return self.start_seq if self.cursor.at < len(self.order) else None

    @property
    def start_seq(self) -> int:
        """``seq`` of the first row of the matches under search."""
        return int(self.seq[self.order[self.cursor.at]])

    @property
    def seq(self) -> IntArray:
        """``seq`` of the grouped rows."""
        assert self.rows.seq is not None
        return self.rows.seq

    def _first_kept(self, start: int | None, lookback: int | None) -> int:
        """Return the first of the rows in order that is needed still."""
        assert self.ordered.seq is not None
        begin = len(self.ordered)
        if start is not None:
            begin = int(np.searchsorted(self.ordered.seq, start))
        if lookback is None or not len(self.ordered):
            return begin
        times = self.ordered.times
        oldest = int(times[min(begin, len(times) - 1)]) - lookback
        return min(begin, int(np.searchsorted(times, max(oldest, np.iinfo(np.int64).min))))


def to_search(
    rows: Rows, edges: PartitionEdges, firsts: IntArray | None, *, newest: int | None = None
) -> Search:
    """Return a search over rows, in order of ``seq`` with their groups, from its beginning.

    ``firsts`` are ``seq`` of the row of each group that was pushed first, if the pattern asks for
    it, and ``newest`` is the time of the newest event seen before.
    """
    assert rows.seq is not None
    assert rows.group is not None
    if len(rows.times):
        newest = int(rows.times[-1]) if newest is None else max(newest, int(rows.times[-1]))
    ordered = rows
    begins, ends = np.zeros(len(rows), np.int64), np.full(len(rows), len(rows))
    order = np.arange(len(rows))
    if len(rows) and rows.group.min() != rows.group.max():
        rows = rows.take(np.argsort(rows.group, kind="stable"))
        assert rows.group is not None
        cuts = np.flatnonzero(np.diff(rows.group, prepend=-1, append=-1))
        counts = np.diff(cuts)
        begins, ends = np.repeat(cuts[:-1], counts), np.repeat(cuts[1:], counts)
        order = np.argsort(rows.seq)  # type: ignore[arg-type]
    seq = rows.seq
    assert seq is not None
    at = np.arange(len(rows))
    opens = edges.are_first(rows, at, seq, None if firsts is None else firsts[rows.group])
    closes = np.equal(at, ends - 1) & edges.are_last(rows, at, seq)
    return Search(ordered, rows, begins, ends, opens, closes, order, newest)


def _room(n_matches: int, n_rows: int) -> Out:
    return Out(
        last=np.empty(n_matches, np.int64),
        timed=np.empty(n_matches, np.bool_),
        offsets=np.zeros(n_matches + 1, np.int64),
        rows=np.empty(n_rows, np.int64),
        symbols=np.empty(n_rows, np.uint8),
    )


def _batch(out: Out, progress: IntArray, status: int) -> Batch:
    n, n_rows = int(progress[N_OUT]), int(progress[N_ROWS_OUT])
    return Batch(
        offsets=out.offsets[: n + 1],
        rows=out.rows[:n_rows],
        symbols=out.symbols[:n_rows],
        timed_out=out.timed[:n],
        n_faults=int(progress[N_FAULTS]),
        status=status,
    )


def _settings(program: MatchProgram, *, final: bool, newest: int | None) -> IntArray:
    code = program.strategy
    assert code is not None
    settings = np.zeros(kernels.SETTINGS, np.int64)
    across = bool(len(program.across.code))
    settings[kernels.SEMANTICS] = SEMANTICS[code.semantics]
    settings[kernels.HAS_WITHIN] = program.within is not None
    settings[kernels.WITHIN] = program.within or 0
    settings[kernels.FINAL] = final
    settings[kernels.NEWEST] = np.iinfo(np.int64).min if newest is None else newest
    settings[kernels.TIMEOUTS] = code.timeouts
    settings[kernels.ACROSS] = across
    settings[kernels.STEP_LIMIT] = STEPS_MAX if across else np.iinfo(np.int64).max
    settings[kernels.WAITS] = code.timeouts or code.looks_after
    settings[kernels.LOOKS_BEFORE] = code.looks_before
    settings[kernels.LOOKS_AFTER] = code.looks_after
    return settings


def _scratch(code: StrategyCode, n_followed: int) -> kernels.Scratch:
    n, n_negated = code.n_states, len(code.negated)
    return kernels.Scratch(
        waiting=np.empty(n, np.int32),
        found=np.empty(n, np.int32),
        marks=np.zeros(n, np.bool_),
        finals=np.zeros(n, np.uint8),
        reach=np.empty(n, np.int64),
        latest=np.empty(n_negated, np.int64),
        nearest=np.zeros(n_negated, np.int64),
        stamp=np.zeros(1, np.int64),
        taken=np.full(n_followed, -1),
        ends=np.full(n_followed, -1),
    )


def to_tables(program: MatchProgram) -> Tables:
    """Return the automaton as kernels take it, with the sets of symbols they ask for."""
    code = program.strategy
    assert code is not None
    bits = np.left_shift(np.uint64(1), np.arange(code.step.shape[1], dtype=np.uint64))
    leads = code.step >= 0
    ways = np.where(leads, bits, np.uint64(0)).sum(axis=1, dtype=np.uint64)
    inner = leads & (ways[code.step] != 0)
    asked = np.flatnonzero(program.across.conditioned)
    negated = np.array(code.negated, np.int64)
    return Tables(
        step=code.step,
        skip=code.skip,
        ways=ways,
        inner=np.where(inner, bits, np.uint64(0)).sum(axis=1, dtype=np.uint64),
        accepts=code.accepts,
        conditions=code.conditions,
        negated=negated,
        watched=np.uint64(bits[negated].sum(dtype=np.uint64)),
        asks=np.uint64(bits[asked].sum(dtype=np.uint64)),
    )
