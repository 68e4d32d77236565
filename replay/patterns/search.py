"""One search over segments of rows: arrays in, matches by ``seq`` and undecided starts out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap

import numpy as np
import numpy.typing as npt

from replay.language.bound import SkipMode
from replay.limits import check_limits
from replay.patterns import kernels
from replay.patterns.backtracking_kernels import EXCLUDED
from replay.patterns.conditions.across import Conditions, Mapped, new_mapped, to_conditions
from replay.patterns.conditions.kernels import ANCHOR_FIRST, N_FAULTS
from replay.patterns.config import (
    MATCHES_AT_ONCE,
    PATH_BYTES_AT_ONCE,
    STATES_MAX,
    STATES_PATIENCE,
    STEPS_MAX,
)
from replay.patterns.matches import NO_SYMBOL, Matches, MatchRows
from replay.patterns.memo_kernels import INFO, PATIENCE
from replay.patterns.program import MatchProgram

IntArray = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

# Arrays as the kernels take them, which say what they are.
Machine = tuple[
    IntArray,
    npt.NDArray[np.uint64],
    npt.NDArray[np.int32],
    Bytes,
    IntArray,
    npt.NDArray[np.int32],
    IntArray,
    Bytes,
    IntArray,
    IntArray,
    npt.NDArray[np.uint16],
]
States = tuple[IntArray, IntArray, IntArray, IntArray, IntArray, IntArray, IntArray]
Across = tuple[Conditions, Mapped, States]

_SKIPS = {
    SkipMode.PAST_LAST_ROW: kernels.SKIP_PAST_LAST,
    SkipMode.TO_NEXT_ROW: kernels.SKIP_TO_NEXT,
    SkipMode.TO_FIRST: kernels.SKIP_TO_FIRST,
    SkipMode.TO_LAST: kernels.SKIP_TO_LAST,
}


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows to be searched; ``seq`` and ``group`` only where partitions mix the order.

    ``words`` has shape (n,), ``times`` (n,) or (0,), ``leaves`` and ``known`` (n_leaves, n).
    """

    words: npt.NDArray[np.uint64]
    times: IntArray
    leaves: IntArray
    known: npt.NDArray[np.bool_]
    seq: IntArray | None = None
    group: IntArray | None = None
    moved: Mapping[int, IntArray] | None = None
    """As of `Prepared`."""

    def __len__(self) -> int:
        return len(self.words)

    def take(self, rows: IntArray | npt.NDArray[np.bool_] | slice) -> Rows:
        """Return the chosen rows."""
        return Rows(
            self.words[rows],
            self.times[rows] if len(self.times) else self.times,
            np.ascontiguousarray(self.leaves[:, rows]),
            np.ascontiguousarray(self.known[:, rows]),
            None if self.seq is None else self.seq[rows],
            None if self.group is None else self.group[rows],
            None if self.moved is None else {o: to[rows] for o, to in self.moved.items()},
        )

    @staticmethod
    def concat(parts: list[Rows]) -> Rows:
        """Return the parts, of which there is at least one, one after the other."""
        if len(parts) == 1:
            return parts[0]
        return Rows(
            np.concatenate([part.words for part in parts]),
            np.concatenate([part.times for part in parts]),
            np.concatenate([part.leaves for part in parts], axis=1),
            np.concatenate([part.known for part in parts], axis=1),
            _join([part.seq for part in parts]),
            _join([part.group for part in parts]),
            _join_moved([part.moved for part in parts if part.moved is not None]),
        )


def _join(parts: list[IntArray | None]) -> IntArray | None:
    present = [part for part in parts if part is not None]
    return np.concatenate(present) if present else None


def _join_moved(parts: list[Mapping[int, IntArray]]) -> Mapping[int, IntArray] | None:
    return {o: np.concatenate([part[o] for part in parts]) for o in parts[0]} if parts else None


@dataclass(frozen=True, slots=True)
class Segments:
    """Rows to be searched: those of a partition (or stretch) stand together; int64[n_segments]."""

    rows: Rows
    begins: IntArray
    """First row of each segment."""
    ends: IntArray
    """Half-open."""
    shifts: IntArray
    """``seq`` of the segment's rows less their number, where `Rows.seq` does not say it."""

    def seq(self, rows: IntArray, segments: IntArray) -> IntArray:
        """Return the ``seq`` of rows, -1 for row -1."""
        known = self.rows.seq
        if known is None:
            return np.where(rows < 0, -1, rows + self.shifts[segments])
        return np.where(rows < 0, -1, known[rows])

    def seq_of(self, row: int, segment: int) -> int:
        """Return the ``seq`` of one row."""
        return int(self.seq(np.array([row]), np.array([segment]))[0])

    def moved_seq(self, rows: IntArray, segments: IntArray, offset: int) -> IntArray:
        """Return ``seq`` of the rows ``offset`` further on, -1 for none and for row -1."""
        if offset == 0:
            return self.seq(rows, segments)
        if self.rows.moved is not None:
            return np.where(rows < 0, -1, self.rows.moved[offset][rows])
        targets = rows + offset
        there = (rows >= 0) & (targets >= self.begins[segments]) & (targets < self.ends[segments])
        return self.seq(np.where(there, targets, -1), segments)


@dataclass(frozen=True, slots=True)
class Found:
    """Matches as row numbers of the searched rows, by segment and start; int64[n]."""

    first: IntArray
    last: IntArray
    classifier: IntArray
    segment: IntArray
    anchors: IntArray
    """Shape (n, n_anchors)."""
    symbols: Bytes
    """Symbols of the rows of all matches, one after the other, where the program needs them."""
    excluded: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.first)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a search gave."""

    found: Found
    nexts: IntArray
    """First start of each segment that is not decided yet."""
    n_faults: int = 0
    stuck_at: tuple[int, int] | None = None
    """Row and segment of the start at which the step limit was passed."""
    failures: tuple[tuple[int, int, bool], ...] = ()
    """Matches after which AFTER MATCH SKIP has nowhere to go: first row, segment, and whether the
    symbol's row is that row; it has none otherwise."""


def search(
    program: MatchProgram,
    segments: Segments,
    firsts: IntArray,
    lasts: IntArray,
    numbers: IntArray,
    *,
    final: bool,
    newest: int,
    ranks: IntArray | None = None,
) -> Outcome:
    """Find the matches of every start row that can be decided.

    Parameters
    ----------
    firsts, lasts
        By segment: the row its partition begins with in the stream, -1 if that is not at hand; and
        the row it ends before, as far as rows have come, past the segment's end if it goes on.
    numbers
        By segment: number of the last match of its partition; updated.
    final
        Whether the segments get no more rows.
    newest
        Time of the newest event seen; decides starts whose window has passed.
    ranks
        What stands for texts where conditions order them, see `to_conditions`.
    """
    settings = _settings(program, final=final, newest=newest)
    rows, nexts = _in_place(segments.rows), segments.begins.copy()
    if program.pattern.fixed is not None:
        return Outcome(_search_fixed(program, rows, segments.ends, nexts, settings), nexts)
    bounds = segments.ends, nexts, firsts, lasts, numbers
    return _search_machine(program, rows, bounds, settings, ranks)


def _in_place(rows: Rows) -> Rows:
    """Return the rows in contiguous memory, with times that are only read.

    One signature for every kernel call: most times come from Arrow, which lets nobody write to
    them, and to copy those would cost as much again as a search that finds little.
    """
    times, leaves, known = read_only(rows.times), rows.leaves, rows.known
    return Rows(rows.words, times, np.ascontiguousarray(leaves), np.ascontiguousarray(known))


def read_only(array: IntArray) -> IntArray:
    """Return a view of the array that cannot be written to."""
    view = array.view()
    view.flags.writeable = False
    return view


def _settings(program: MatchProgram, *, final: bool, newest: int) -> IntArray:
    keeps = program.within is None and not program.states.start_matters
    settings = np.zeros(kernels.SETTINGS, np.int64)
    settings[kernels.SKIP] = _SKIPS[program.skip.mode]
    settings[kernels.SKIP_SYMBOLS : kernels.SKIP_SYMBOLS + 1] = np.array(
        [program.skip.symbols], np.uint64
    ).view(np.int64)
    settings[kernels.HAS_WITHIN] = program.within is not None
    settings[kernels.WITHIN] = program.within or 0
    settings[kernels.FINAL] = final
    settings[kernels.NEWEST] = newest
    settings[kernels.STEP_LIMIT] = STEPS_MAX if program.pattern.by_state else np.iinfo(np.int64).max
    settings[kernels.NUMBERS_RUN_ON] = not program.partition_by
    settings[kernels.KEEPS_STATES] = keeps
    settings[kernels.GIVES_PATH] = program.needs_rows
    return settings


def _search_fixed(
    program: MatchProgram, rows: Rows, ends: IntArray, nexts: IntArray, settings: IntArray
) -> Found:
    capacity = min(len(rows) + 1, MATCHES_AT_ONCE)
    progress = np.zeros(kernels.PROGRESS, np.int64)
    firsts, places = [], []
    while True:
        first, segment = np.empty(capacity, np.int64), np.empty(capacity, np.int64)
        status = kernels.find_fixed(
            program.pattern.prefix, settings, rows.words, rows.times, ends, nexts, first, segment,
            progress,
        )  # fmt: skip
        n_out = int(progress[kernels.N_OUT])
        firsts.append(first[:n_out])
        places.append(segment[:n_out])
        if status == kernels.STATUS_DONE:
            break
    return _fixed_matches(program, np.concatenate(firsts), np.concatenate(places))


def _fixed_matches(program: MatchProgram, first: IntArray, segment: IntArray) -> Found:
    """Return the matches of a fixed sequence: every row's symbol follows from its place."""
    sequence = np.array(program.pattern.fixed, dtype=np.int64)
    places = []
    for anchor_kind, symbol, _ in program.anchor_codes.tolist():
        found = np.arange(len(sequence)) if symbol < 0 else np.flatnonzero(sequence == symbol)
        place = found[0 if anchor_kind == ANCHOR_FIRST else -1] if len(found) else None
        places.append(np.full(len(first), -1) if place is None else first + place)
    symbols = np.tile(sequence.astype(np.uint8), len(first) if program.needs_rows else 0)
    return Found(
        first=first,
        last=first + (len(sequence) - 1),
        classifier=np.full(len(first), sequence[-1]),
        segment=segment,
        anchors=stack(places, len(first)),
        symbols=symbols,
        excluded=np.zeros(len(symbols), np.bool_),
    )


def _search_machine(
    program: MatchProgram,
    rows: Rows,
    bounds: tuple[IntArray, ...],
    settings: IntArray,
    ranks: IntArray | None,
) -> Outcome:
    capacity = min(len(rows) + 1, MATCHES_AT_ONCE)
    n_path = max(len(rows), PATH_BYTES_AT_ONCE) if program.needs_rows else 0
    progress = np.zeros(kernels.PROGRESS, np.int64)
    across = _across(program, rows, ranks) if program.pattern.by_state else None
    path = np.empty(len(rows) + 1, np.uint8) if across is None else across[1][4]
    machine = _machine(program, rows, path)
    ends, nexts, *_ = bounds
    failures = np.full(len(ends), -1, np.int64)
    parts = []
    while True:
        check_limits()
        out = [np.empty(capacity, np.int64) for _ in range(4)]
        anchors = np.empty((capacity, len(program.anchors)), np.int64)
        out_path = np.empty(n_path, np.uint8)
        status = kernels.find_matches(
            machine, across, program.pattern.prefix, program.pattern.required, settings,
            rows.times, *bounds, failures, program.shown, program.anchor_codes, *out, anchors,
            out_path, progress,
        )  # fmt: skip
        n_out = int(progress[kernels.N_OUT])
        columns = [column[:n_out] for column in (*out, anchors)]
        parts.append([*columns, out_path[: progress[kernels.N_PATH]]])
        if status != kernels.STATUS_FULL:
            break
    *joined, bytes_ = (np.concatenate(column) for column in zip(*parts, strict=True))
    first, last, classifier, segment, anchor_rows = joined
    symbols = program.shown.astype(np.uint8)[bytes_ & ~np.uint8(EXCLUDED)]
    found = Found(first, last, classifier, segment, anchor_rows, symbols, bytes_ >= EXCLUDED)
    stuck = None
    if status == kernels.STATUS_STEPS:
        stuck = int(progress[kernels.AT_ROW]), int(progress[kernels.AT_SEGMENT])
    failed = np.flatnonzero(failures >= 0).tolist()
    skips = tuple((int(failures[g]) >> 1, g, bool(failures[g] & 1)) for g in failed)
    return Outcome(found, nexts, int(progress[N_FAULTS]), stuck, skips)


def _machine(program: MatchProgram, rows: Rows, path: Bytes) -> Machine:
    """Return the machine with its memory, which is touched only as it is used."""
    n = len(rows)
    pattern = program.pattern
    shares = (
        program.skip.mode is not SkipMode.PAST_LAST_ROW
        and program.within is None
        and not pattern.by_state
    )
    n_shared = n + 1 if shares else 0
    return (
        pattern.code,
        rows.words,
        np.zeros((pattern.n_points, n + 1), np.int32),
        path,
        np.empty(pattern.n_registers, np.int64),
        np.zeros(n_shared, np.int32),
        np.empty(n_shared, np.int64),
        np.empty(n_shared, np.uint8),
        np.zeros((pattern.n_points, 2), np.int64),
        np.zeros((pattern.n_runs, 2), np.int64),
        np.zeros((pattern.n_runs, n + 1), np.uint16),
    )


def _across(program: MatchProgram, rows: Rows, ranks: IntArray | None) -> Across:
    return (
        to_conditions(program.across, rows.leaves, rows.known, ranks),
        new_mapped(program.across, len(rows)),
        _states(program),
    )


def _states(program: MatchProgram) -> States:
    keys = program.states
    info = np.zeros(INFO, np.int64)
    info[PATIENCE] = STATES_PATIENCE
    memory = _untouched((3 + keys.width) * STATES_MAX)
    return (
        keys.slices,
        keys.items,
        memory[: 2 * STATES_MAX],
        memory[3 * STATES_MAX :].reshape(STATES_MAX, keys.width),
        memory[2 * STATES_MAX : 3 * STATES_MAX],
        np.empty(keys.width, np.int64),
        info,
    )


def _untouched(n: int) -> IntArray:
    """Return so many zeros, whose memory is taken as they are touched: most searches touch none.

    NumPy's would come from the heap, which then grows and shrinks by megabytes at every search.
    """
    return np.frombuffer(mmap(-1, 8 * n, flags=MAP_PRIVATE | MAP_ANONYMOUS), np.int64)


def to_matches(
    program: MatchProgram, found: Found, number: IntArray, segments: Segments
) -> Matches:
    """Return matches by the ``seq`` of their rows; ``number`` is 0 for an unmatched row."""
    first = segments.seq(found.first, found.segment)
    last = segments.seq(found.last, found.segment)
    columns = [
        segments.moved_seq(rows, found.segment, offset)
        for rows, offset in zip(found.anchors.T, program.offsets, strict=True)
    ]
    return Matches(
        first_seq=first,
        last_seq=np.where(found.last < found.first, first - 1, last),
        number=number,
        classifier=found.classifier,
        anchors=stack(columns, len(found)),
        rows=_rows(found, segments, program.row_offsets) if program.needs_rows else None,
    )


_ROW_BYTES = 32
"""About what a row of a match takes, without those it looks at."""


def _rows(found: Found, searched: Segments, row_offsets: tuple[int, ...]) -> MatchRows:
    lengths = found.last - found.first + 1
    counts = np.maximum(lengths, 1)
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    check_limits(n_bytes=int(offsets[-1]) * (_ROW_BYTES + 8 * len(row_offsets)))
    rows = np.arange(offsets[-1]) + np.repeat(found.first - offsets[:-1], counts)
    segments = np.repeat(found.segment, counts)
    mapped = np.repeat(lengths > 0, counts)
    symbol = np.full(len(rows), NO_SYMBOL, np.uint8)
    symbol[mapped] = found.symbols
    excluded = np.zeros(len(rows), np.bool_)
    excluded[mapped] = found.excluded
    moved = stack([searched.moved_seq(rows, segments, o) for o in row_offsets], len(rows))
    return MatchRows(offsets, searched.seq(rows, segments), symbol, excluded, moved)


def with_unmatched(
    found: Found,
    number: IntArray,
    searched: Segments,
    nexts: IntArray,
    covered_to: IntArray,
) -> tuple[Found, IntArray]:
    """Return matches and, as empty ones of number 0, rows that no match maps.

    By segment the starts before ``nexts`` are decided, so what maps them is known; matches found
    earlier map rows up to the ``seq`` ``covered_to``.
    """
    n = len(searched.rows)
    change = np.zeros(n + 1, np.int64)
    np.add.at(change, found.first, 1)
    np.add.at(change, np.maximum(found.last, found.first) + 1, -1)
    counts = nexts - searched.begins
    segments = np.repeat(np.arange(len(counts)), counts)
    ahead = np.cumsum(counts) - counts
    rows = np.arange(counts.sum()) + np.repeat(searched.begins - ahead, counts)
    free = (np.cumsum(change)[rows] == 0) & (searched.seq(rows, segments) > covered_to[segments])
    rows, segments = rows[free], segments[free]
    merged = Found(
        first=np.concatenate([found.first, rows]),
        last=np.concatenate([found.last, rows - 1]),
        classifier=np.concatenate([found.classifier, np.full(len(rows), -1)]),
        segment=np.concatenate([found.segment, segments]),
        anchors=np.concatenate([found.anchors, np.full((len(rows), found.anchors.shape[1]), -1)]),
        symbols=found.symbols,
        excluded=found.excluded,
    )
    return merged, np.concatenate([number, np.zeros(len(rows), np.int64)])


def stack(columns: list[IntArray], n_rows: int) -> IntArray:
    """Return columns beside each other, of which there may be none."""
    return np.stack(columns, axis=1) if columns else np.empty((n_rows, 0), np.int64)
