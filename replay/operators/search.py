"""One search over segments of rows: arrays in, found matches and undecided starts out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from replay.operators import kernels
from replay.operators.conditions.kernels import ANCHOR_FIRST, N_FAULTS
from replay.operators.config import MATCHES_AT_ONCE, STEPS_MAX
from replay.operators.program import MatchProgram

IntArray = npt.NDArray[np.int64]


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
        )


def _join(parts: list[IntArray | None]) -> IntArray | None:
    present = [part for part in parts if part is not None]
    return np.concatenate(present) if present else None


@dataclass(frozen=True, slots=True)
class Found:
    """Matches as row numbers of the searched rows, by segment and start; int64[n]."""

    first: IntArray
    last: IntArray
    classifier: IntArray
    segment: IntArray
    anchors: IntArray
    """Shape (n, n_anchors)."""

    def __len__(self) -> int:
        return len(self.first)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a search gave."""

    found: Found
    n_faults: int
    stuck_at: tuple[int, int] | None = None
    """Row and segment of the start at which the step limit was passed."""


def search(
    program: MatchProgram,
    rows: Rows,
    nexts: IntArray,
    ends: IntArray,
    *,
    final: bool,
    newest: int,
) -> Outcome:
    """Find the matches of every start row that can be decided.

    Parameters
    ----------
    nexts, ends
        First start not decided yet and end (half-open) of each segment; ``nexts`` is updated.
    final
        Whether the segments get no more rows.
    newest
        Time of the newest event seen; decides starts whose window has passed.
    """
    settings = _settings(program, final=final, newest=newest)
    rows = _owned(rows)
    if program.pattern.fixed is not None:
        return _search_fixed(program, rows, nexts, ends, settings)
    return _search_machine(program, rows, nexts, ends, settings)


def _owned(rows: Rows) -> Rows:
    """Return the rows in contiguous, writable memory: one signature for every kernel call."""
    times = rows.times if rows.times.flags.writeable else rows.times.copy()
    return Rows(
        rows.words, times, np.ascontiguousarray(rows.leaves), np.ascontiguousarray(rows.known)
    )


def _settings(program: MatchProgram, *, final: bool, newest: int) -> IntArray:
    settings = np.zeros(kernels.SETTINGS, np.int64)
    settings[kernels.SKIP_PAST] = program.skip_past
    settings[kernels.HAS_WITHIN] = program.within is not None
    settings[kernels.WITHIN] = program.within or 0
    settings[kernels.FINAL] = final
    settings[kernels.NEWEST] = newest
    bounded = len(program.across.code) == 0  # by the memo
    settings[kernels.STEP_LIMIT] = np.iinfo(np.int64).max if bounded else STEPS_MAX
    settings[kernels.N_REGISTERS] = program.pattern.n_registers
    return settings


def _search_fixed(
    program: MatchProgram, rows: Rows, nexts: IntArray, ends: IntArray, settings: IntArray
) -> Outcome:
    capacity = min(len(rows) + 1, MATCHES_AT_ONCE)
    progress = np.zeros(kernels.PROGRESS, np.int64)
    firsts, segments = [], []
    while True:
        first, segment = np.empty(capacity, np.int64), np.empty(capacity, np.int64)
        status = kernels.find_fixed(
            program.pattern.prefix, settings, rows.words, rows.times, ends, nexts,
            first, segment, progress,
        )  # fmt: skip
        n_out = int(progress[kernels.N_OUT])
        firsts.append(first[:n_out])
        segments.append(segment[:n_out])
        if status == kernels.STATUS_DONE:
            break
    return Outcome(_fixed_matches(program, np.concatenate(firsts), np.concatenate(segments)), 0)


def _fixed_matches(program: MatchProgram, first: IntArray, segment: IntArray) -> Found:
    """Return the matches of a fixed sequence: every row's symbol follows from its place."""
    sequence = np.array(program.pattern.fixed, dtype=np.int64)
    places = []
    for anchor_kind, symbol in program.anchor_codes.tolist():
        found = np.arange(len(sequence)) if symbol < 0 else np.flatnonzero(sequence == symbol)
        place = found[0 if anchor_kind == ANCHOR_FIRST else -1] if len(found) else None
        places.append(np.full(len(first), -1) if place is None else first + place)
    return Found(
        first=first,
        last=first + (len(sequence) - 1),
        classifier=np.full(len(first), sequence[-1]),
        segment=segment,
        anchors=np.stack(places, axis=1) if places else np.empty((len(first), 0), np.int64),
    )


def _search_machine(
    program: MatchProgram, rows: Rows, nexts: IntArray, ends: IntArray, settings: IntArray
) -> Outcome:
    capacity = min(len(rows) + 1, MATCHES_AT_ONCE)
    n_anchors = len(program.anchors)
    progress = np.zeros(kernels.PROGRESS, np.int64)
    across = program.across
    memo = np.zeros((program.pattern.n_memo, len(rows) + 1), np.int32)
    parts = []
    while True:
        out = [np.empty(capacity, np.int64) for _ in range(4)]
        anchors = np.empty((capacity, n_anchors), np.int64)
        status = kernels.find_matches(
            program.pattern.code, program.pattern.prefix, settings, rows.words, rows.times,
            ends, nexts, memo, program.tracked, across.slices, across.code, across.constants,
            across.constants.view(np.float64), rows.leaves, rows.leaves.view(np.float64),
            rows.known, program.anchor_codes, *out, anchors, progress,
        )  # fmt: skip
        n_out = int(progress[kernels.N_OUT])
        parts.append([column[:n_out] for column in (*out, anchors)])
        if status != kernels.STATUS_FULL:
            break
    first, last, classifier, segment, anchor_rows = map(np.concatenate, zip(*parts, strict=True))
    found = Found(first, last, classifier, segment, anchor_rows)
    stuck = None
    if status == kernels.STATUS_STEPS:
        stuck = int(progress[kernels.AT_ROW]), int(progress[kernels.AT_SEGMENT])
    return Outcome(found, int(progress[N_FAULTS]), stuck)
