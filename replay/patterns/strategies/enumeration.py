"""The matches of rows at hand, a batch at a time: arrays in, matches by row number out."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from replay.language.bound import Semantics
from replay.patterns.automaton import StrategyCode
from replay.patterns.conditions.kernels import N_FAULTS
from replay.patterns.conditions.state import new_mapped, to_conditions
from replay.patterns.config import STEPS_MAX
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

SEMANTICS = {
    Semantics.CONTIGUOUS: CONTIGUOUS,
    Semantics.SKIP_TILL_NEXT: NEXT,
    Semantics.SKIP_TILL_ANY: ANY,
}


@dataclass(frozen=True, slots=True)
class Segments:
    """Rows to be searched, those of a partition together, and their places in it.

    ``begins`` and ``ends`` (half-open) of each row's partition, and whether the row ``opens`` and
    ``closes`` it, have shape (n,). ``order`` are the rows a match may begin at, by ``seq``.
    """

    rows: Rows
    begins: IntArray
    ends: IntArray
    opens: Bools
    closes: Bools
    order: IntArray


@dataclass(slots=True)
class Cursor:
    """How far the matches are out: all of starts before ``at``, and of that one up to a row."""

    at: int = 0
    """Place in ``Segments.order``."""
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


def enumerate_matches(
    program: MatchProgram,
    segments: Segments,
    cursor: Cursor,
    *,
    final: bool,
    newest: int | None,
    n_matches: int,
    n_rows: int,
    ranks: IntArray | None = None,
) -> Batch:
    """Find the next matches after the cursor, and move it on.

    Parameters
    ----------
    final
        Whether no more rows come.
    newest
        Time of the newest event of the stream; None: no window has ended.
    n_matches, n_rows
        How many matches and rows of matches to return at most; a match always fits.
    ranks
        What stands for texts where conditions order them, see `to_conditions`.
    """
    code = program.strategy
    assert code is not None
    rows = segments.rows
    settings = _settings(program, code, final=final, newest=newest)
    progress = np.zeros(kernels.PROGRESS, np.int64)
    progress[kernels.AT_START], progress[kernels.DONE_ROW] = cursor.at, cursor.done
    out = _room(n_matches, max(n_rows, len(rows)))
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
        segments.order,
        settings,
        cursor.rows,
        cursor.symbols,
        tuple(_scratch(code, n_followed)),
        (np.zeros(size, np.int64), np.zeros(size, np.int64)),
        tuple(to_data(segments)),
        tuple(to_tables(program)),
        across,
        tuple(out),
        progress,
    )
    found = _batch(out, progress, status)
    _move(cursor, found, progress)
    return found


def _move(cursor: Cursor, found: Batch, progress: IntArray) -> None:
    at, done = int(progress[kernels.AT_START]), int(progress[kernels.DONE_ROW])
    same = (cursor.at, cursor.done) == (at, done)
    cursor.at, cursor.done = at, done
    full = found.status == kernels.STATUS_FULL
    if full and progress[kernels.RESUMES]:
        last = slice(int(found.offsets[-2]), int(found.offsets[-1]))
        cursor.rows, cursor.symbols = found.rows[last].copy(), found.symbols[last].copy()
    elif not (full and same):
        cursor.rows, cursor.symbols = cursor.rows[:0], cursor.symbols[:0]


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


def to_data(segments: Segments) -> Data:
    """Return rows as kernels take them."""
    rows = segments.rows
    words = np.ascontiguousarray(rows.words)
    places = segments.ends, segments.begins, segments.opens, segments.closes
    return Data(words, read_only(rows.times), *places)


def _settings(
    program: MatchProgram, code: StrategyCode, *, final: bool, newest: int | None
) -> IntArray:
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
