"""The local engine: carries out a plan with threads over Arrow and compiled kernels, no JVM.

Reading and evaluating predicates runs in threads, a few units ahead; matching consumes the units
in stream order, since whether a row may start a match depends on the match before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from chronicle.compile_time import clock
from replay.engines.key_filter import KeyFilter
from replay.engines.partition_rows import Beside
from replay.engines.read_ahead import read_ahead
from replay.engines.scan import INLINE_EVENTS, UNIT_EVENTS
from replay.engines.source import EventSource, OnceRead, seqs_of_blocks
from replay.errors import SkipError
from replay.expressions.columns import to_arrays
from replay.language.bound import BoundPatternQuery
from replay.language.required_columns import columns_of_pattern
from replay.operators.distinct import distinct
from replay.patterns.matcher import new_matcher
from replay.patterns.matches import Matches
from replay.patterns.partitions import evaluate_among
from replay.patterns.prepared import Prepared
from replay.patterns.program import MatchProgram
from replay.planning.ascending import count_on
from replay.planning.block_ranges import count_events
from replay.planning.row_spans import RowSpans

if TYPE_CHECKING:
    from replay.patterns.matcher import Matcher
    from replay.patterns.summing.operator import Totals, TrendOperator

IntArray = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

FIRST_EVENTS = 1 << 13
"""Events of the first unit of a replay that may end early; each next one is twice as large."""

KEPT_MAX = 0.75
"""Share of a unit's rows in replay intervals up to which leaving out the others is worth it."""

KEPT_EVENTS = 1 << 18
"""Rows matched that are kept for measures: as many as two units, of which some are read ahead."""

RUN_ROWS_MIN = 512
"""Rows of the table for each run taken from which on cutting it is cheaper than to look at every
row."""


def kept_if_small(
    source: EventSource, query: BoundPatternQuery, program: MatchProgram, n_events: int
) -> EventSource:
    """Return the source of a replay of so many events: of a small one, one that keeps them.

    Measures then need no second read. Columns that only they read are read of all these events,
    which pays for few; where the matcher reads all columns anyway, a whole unit is kept.
    """
    columns = columns_of_pattern(query)
    n_most = UNIT_EVENTS if set(columns) <= set(program.columns) else INLINE_EVENTS
    return OnceRead(source, columns) if n_events <= n_most else source


@dataclass(frozen=True, slots=True)
class Piece:
    """A contiguous part of one stretch inside a unit."""

    first_block: int
    last_block: int
    """Half-open."""
    begins: bool
    """Whether the stretch begins here."""
    ends: bool


def cut_units(
    stretches: IntArray,
    bases: IntArray,
    unit_events: int,
    *,
    first_events: int | None = None,
    whole: bool = False,
) -> list[list[Piece]]:
    """Cut stretches of blocks into units of about ``unit_events`` events, in stream order. Pure.

    A unit is closed once it holds that many events or more; of the first ones ``first_events``,
    and each time twice as many. A stretch of no more events than the unit it begins in lies within
    it, a longer one may span several unless ``whole``.

    Parameters
    ----------
    stretches
        Half-open block ranges, ascending and disjoint, shape (n, 2).
    bases
        First ``seq`` of each block, shape (n_blocks + 1,).
    """
    units: list[list[Piece]] = []
    unit: list[Piece] = []
    n_next = unit_events if first_events is None else min(first_events, unit_events)
    room = n_next
    sizes = (bases[stretches[:, 1]] - bases[stretches[:, 0]]).tolist()
    for (first, last), n_events in zip(stretches.tolist(), sizes, strict=True):
        # One that is cut is searched in several goes, each of which copies the rows it is given.
        is_cut = n_events > n_next and not whole
        at = first
        while at < last:
            until = last
            if is_cut:
                limit = int(np.searchsorted(bases, bases[at] + room, side="left"))
                until = min(max(limit, at + 1), last)
            unit.append(Piece(at, until, at == first, until == last))
            room -= int(bases[until] - bases[at])
            at = until
            if room <= 0:
                units.append(unit)
                n_next = min(2 * n_next, unit_events)
                unit, room = [], n_next
    if unit:
        units.append(unit)
    return units


class Replay:
    """Stretches of blocks on their way through a matcher, and what that took so far.

    Parameters
    ----------
    source
        The events.
    program
        The compiled query.
    stretches
        Half-open block ranges, ascending, disjoint and not adjacent, shape (n, 2). Every match,
        and every row that decides over it, must lie within one of them.
    keys
        Tells which of their rows can be part of a match; None: all of them.
    beside
        Further rows that PREV, NEXT, ``^`` and ``$`` look at in partitions; None where they look at
        none, or where the stretches are the whole stream.
    spans
        Tell which rows can be part of a match, where there are no partitions; None: all of them.
    ends_early
        Whether the first few matches may be enough: little is read at once until they have come.
    goes_on
        Whether rows between the stretches change nothing, so that matches may reach from one into
        others: all are one stretch then, of which rows were left out.
    """

    def __init__(
        self,
        source: EventSource,
        program: MatchProgram,
        stretches: IntArray,
        keys: KeyFilter | None = None,
        beside: Beside | None = None,
        spans: RowSpans | None = None,
        *,
        ends_early: bool = False,
        goes_on: bool = False,
    ) -> None:
        self._bases, self._ends_early = source.bases, ends_early
        self.kept = RowCache(KEPT_EVENTS)
        """Rows that were matched where others beside them were not, if they are few."""
        assert keys is None or program.partition_by
        assert keys is None or program.stands_alone or beside is not None
        assert spans is None or not program.partition_by
        self._source, self.program, self._stretches = source, program, stretches
        self._keys, self._beside, self._spans = keys, beside, spans
        assert not goes_on or not any((keys, beside, spans, program.rows_before))
        assert not goes_on or not program.rows_after
        self._goes_on = goes_on
        self.asked_together: Callable[[Replay], Totals | None] = lambda _: None
        """Gives the sums over all matches where they are found with those of other queries."""
        self._n_faults: Callable[[], int] = lambda: 0
        # Fewer than planned where `matches` was left early.
        self.n_blocks = self.n_rows = 0
        self.seconds_read = 0.0
        """Time the matcher waited for events to be read and predicates to be evaluated."""

    @property
    def n_faults(self) -> int:
        """Faults of rows in conditions so far."""
        return self._n_faults()

    def matches(self) -> Iterator[Matches]:
        """Yield matches as soon as they are certain, all in canonical order.

        Whoever has enough leaves the iteration: nothing is read or enumerated beyond. Matches that
        come before a `StepLimitError` or a `SkipError` have been yielded.
        """
        matcher = new_matcher(self.program, self._source.n_events)
        try:
            for _ in self.pushed_into(matcher):
                yield from matcher.batches()
        except SkipError:  # raised by a push: what comes before it is certain by now
            yield from matcher.batches()
            raise

    def totals(self) -> Totals:
        """Return the sums over all matches without making any, of a program that has ``sums``."""
        found = self.asked_together(self)
        if found is not None:
            return found
        from replay.patterns.summing.choice import new_summing

        operator = new_summing(self.program, self._source.n_events)
        for _ in self.pushed_into(operator):
            continue
        return operator.totals()

    def of(self, source: EventSource, program: MatchProgram) -> Replay:
        """Return a new replay of the same stretches, of which all rows are pushed."""
        return Replay(source, program, self._stretches)

    def pushed_into(self, matcher: Matcher | TrendOperator) -> Iterator[None]:
        """Push all rows; pause wherever matches may be taken."""
        self._n_faults = lambda: matcher.n_faults
        mark = clock()
        cut = cut_units(
            self._stretches,
            self._bases,
            UNIT_EVENTS,
            first_events=FIRST_EVENTS if self._ends_early else None,
            whole=self._beside is not None,  # Partitions are evaluated with all of a stretch.
        )
        is_small = count_events(self._stretches, self._bases) <= INLINE_EVENTS
        units = read_ahead(cut, self._read, in_threads=not is_small and len(cut) > 1)
        for unit, prepared in units:
            self.seconds_read += clock() - mark
            self.n_blocks += sum(piece.last_block - piece.first_block for piece in unit)
            if self._goes_on:
                (rows,) = prepared
                matcher.push(rows, self._bases[unit[0].first_block])
                self.n_rows += rows.n_rows
                yield
            else:
                for n_rows in _push(matcher, unit, prepared, self._bases):
                    self.n_rows += n_rows
                    yield
            mark = clock()
        if self._goes_on:
            matcher.finish()
            yield

    def _read(self, unit: list[Piece]) -> list[Prepared]:
        """Return the unit's rows, evaluated: at once, or piece by piece where rows look around."""
        columns = list(self.program.columns)
        if self.program.rows_before or self.program.rows_after:
            return self._read_with_margins(unit, columns)
        if self._beside is not None:
            return [self._read_among(unit, columns, self._beside)]
        blocks = np.concatenate([np.arange(p.first_block, p.last_block) for p in unit])
        table = self._source.read_blocks(blocks, columns)
        # Rows of no use are left out before any predicate is evaluated.
        if self._keys is not None:
            seq = seqs_of_blocks(blocks, self._source.bases)
            rows = self._keys.rows(table, seq)
            return [self._prepare_some(select_rows(table, rows), seq[rows])]
        if self._spans is not None:
            starts, n_rows, first_seqs = self._in_spans(unit, table)
            if int(n_rows.sum()) <= KEPT_MAX * table.num_rows:
                some = select_runs(table, starts, n_rows)
                return [self._prepare_some(some, count_on(first_seqs, n_rows))]
        prepared = self.program.prepare(table)
        if self._goes_on:
            return [replace(prepared, seq=seqs_of_blocks(blocks, self._source.bases))]
        return [prepared]

    def _prepare_some(self, table: pa.Table, seq: IntArray) -> Prepared:
        """Evaluate some rows of a unit, and keep them."""
        self.kept.add(seq, table)
        return replace(self.program.prepare(table), seq=seq)

    def _in_spans(self, unit: list[Piece], table: pa.Table) -> tuple[IntArray, IntArray, IntArray]:
        """Return runs of the rows in spans, and of stretches that are not at hand as a whole.

        Ascending: first row, number of rows and first ``seq`` of each.
        """
        assert self._spans is not None
        times = np.empty(0, np.int64)
        if self._spans.by_time:
            times = to_arrays(table.column(self.program.time.name)).data
        bases = self._source.bases
        first_seqs = bases[[piece.first_block for piece in unit]]
        n_rows = bases[[piece.last_block for piece in unit]] - first_seqs
        pieces = np.stack((np.cumsum(n_rows) - n_rows, n_rows, first_seqs))
        is_whole = np.array([piece.begins and piece.ends for piece in unit])
        whole_starts, whole_rows, whole_seqs = pieces[:, is_whole]
        cut = np.stack(self._spans.cut(whole_starts, whole_rows, whole_seqs, times))
        runs = np.concatenate((cut, pieces[:, ~is_whole]), axis=1)
        starts, n_rows, first_seqs = runs[:, np.argsort(runs[0])]
        return starts, n_rows, first_seqs

    def _read_among(self, unit: list[Piece], columns: list[str], beside: Beside) -> Prepared:
        """Read whole stretches with the rows that are looked at beside them."""
        bases = self._source.bases
        own = np.concatenate([np.arange(p.first_block, p.last_block) for p in unit])
        first = int(np.searchsorted(self._stretches[:, 0], unit[0].first_block))
        further = beside.rows(first, first + len(unit))
        blocks = distinct(own, np.searchsorted(bases, further, side="right") - 1)
        table = self._source.read_blocks(blocks, columns)
        seq = seqs_of_blocks(blocks, bases)
        is_own = np.repeat(np.isin(blocks, own), bases[blocks + 1] - bases[blocks])
        if self._keys is None:
            rows = np.flatnonzero(is_own)
        else:
            rows = self._keys.rows(table, seq)
            rows = rows[is_own[rows]]
        is_needed = np.zeros(len(seq), np.bool_)
        is_needed[rows] = True
        is_needed[np.searchsorted(seq, further)] = True
        needed = np.flatnonzero(is_needed)
        table = select_rows(table, needed)
        return evaluate_among(self.program, table, seq[needed], np.searchsorted(needed, rows))

    def _read_with_margins(self, unit: list[Piece], columns: list[str]) -> list[Prepared]:
        """Read all pieces at once, each with the rows PREV and NEXT look at beside it."""
        views = [self._with_margins(piece) for piece in unit]
        bases = self._source.bases
        blocks = distinct(*(np.arange(*view.blocks) for view in views))
        table = self._source.read_blocks(blocks, columns)
        first_row = np.cumsum(np.append(0, bases[blocks + 1] - bases[blocks]))
        at = first_row[np.searchsorted(blocks, [view.blocks[0] for view in views])].tolist()
        return [
            self.program.prepare(
                table.slice(first + view.skipped, view.n_rows),
                before=view.before,
                after=view.after,
            )
            for first, view in zip(at, views, strict=True)
        ]

    def _with_margins(self, piece: Piece) -> _View:
        """Return where a piece lies together with the rows PREV and NEXT look at beside it."""
        bases = self._source.bases
        lo, hi = int(bases[piece.first_block]), int(bases[piece.last_block])
        before = min(self.program.rows_before, lo)
        after = min(self.program.rows_after, self._source.n_events - hi)
        first = int(np.searchsorted(bases, lo - before, side="right")) - 1
        last = int(np.searchsorted(bases, hi + after, side="left"))
        skipped = lo - before - int(bases[first])
        return _View((first, last), skipped, before + hi - lo + after, before, after)


def _push(
    matcher: Matcher | TrendOperator, unit: list[Piece], prepared: list[Prepared], bases: IntArray
) -> Iterator[int]:
    """Push a unit's pieces; yield the rows pushed, wherever matches may be taken."""
    first = bases[[piece.first_block for piece in unit]]
    last = bases[[piece.last_block for piece in unit]]
    if len(prepared) < len(unit) or prepared[0].seq is not None:
        # One evaluation for all pieces of the unit.
        yield from _push_together(matcher, unit, prepared[0], first, last)
        return
    for piece, batch, seq in zip(unit, prepared, first.tolist(), strict=True):
        matcher.push(batch, seq)
        if piece.ends:
            matcher.finish()
        yield batch.n_rows


def _push_together(
    matcher: Matcher | TrendOperator,
    unit: list[Piece],
    prepared: Prepared,
    first: IntArray,
    last: IntArray,
) -> Iterator[int]:
    """Push pieces evaluated together: those that are whole stretches at once, others by one."""
    if prepared.seq is None:
        ends = np.cumsum(last - first)
        starts = ends - (last - first)
    else:
        starts, ends = np.searchsorted(prepared.seq, first), np.searchsorted(prepared.seq, last)
    is_parted = prepared.seq is not None and prepared.partitions is None
    at = 0
    while at < len(unit):
        until = at
        while until < len(unit) and unit[until].begins and unit[until].ends:
            until += 1
        if until > at:
            low, high = int(starts[at]), int(ends[until - 1])
            whole = np.s_[at:until]
            rows = prepared.slice(low, high - low)
            stretches = starts[whole] - low, ends[whole] - starts[whole], first[whole]
            matcher.push_stretches(rows, *(_runs(rows.seq) if is_parted else stretches))
        else:
            until = at + 1
            low, high = int(starts[at]), int(ends[at])
            matcher.push(prepared.slice(low, high - low), int(first[at]))
            if unit[at].ends:
                matcher.finish()
        yield high - low
        at = until


def _runs(seq: IntArray | None) -> tuple[IntArray, IntArray, IntArray]:
    """Return first row, number of rows and first ``seq`` of rows that follow each other."""
    assert seq is not None
    starts = np.flatnonzero(np.diff(seq, prepend=-2) != 1)
    return starts, np.diff(starts, append=len(seq)), seq[starts]


@dataclass(frozen=True, slots=True)
class _View:
    """The rows of a piece and its margins."""

    blocks: tuple[int, int]
    """Half-open: the blocks they lie in."""
    skipped: int
    """Rows of the first of these blocks that stand before them."""
    n_rows: int
    before: int
    after: int
    """Rows that are margins."""


class RowCache:
    """Rows read for matching, kept for measures: in pieces, in any order and by any thread.

    Once there are more than ``n_most`` rows, none is kept any more.
    """

    def __init__(self, n_most: int) -> None:
        self._room = n_most
        self._parts: list[tuple[IntArray, pa.Table]] = []
        self._lock = Lock()

    def add(self, seq: IntArray, table: pa.Table) -> None:
        """Keep the rows of a table, whose ``seq`` ascend and are those of no other table."""
        with self._lock:
            self._room -= len(seq)
            if self._room < 0:
                self._parts.clear()
            elif len(seq):
                self._parts.append((seq, table))

    def find(self, columns: list[str], seqs: IntArray) -> pa.Table | None:
        """Return the rows at ``seqs``, which ascend; None if a row or a column is not kept."""
        with self._lock:
            parts = sorted(self._parts, key=lambda part: int(part[0][0]))
        if not parts or not set(columns) <= set(parts[0][1].column_names):
            return None
        kept = np.concatenate([seq for seq, _ in parts])
        at = np.searchsorted(kept, seqs)
        if not np.array_equal(kept[np.minimum(at, len(kept) - 1)], seqs):
            return None
        firsts = np.cumsum([0, *(len(seq) for seq, _ in parts)])
        borders = pairwise(np.searchsorted(at, firsts).tolist())
        taken = [
            table.select(columns).take(pa.array(at[low:high] - first))
            for (_, table), (low, high), first in zip(parts, borders, firsts[:-1], strict=True)
        ]
        return pa.concat_tables(taken).unify_dictionaries()


def select_rows(table: pa.Table, rows: IntArray) -> pa.Table:
    """Return some rows, ascending, in one piece, with dictionaries no larger than need be."""
    mask: Bools = np.zeros(table.num_rows, dtype=np.bool_)
    mask[rows] = True
    return _in_one_piece(table.filter(pa.array(mask)))


def select_runs(table: pa.Table, starts: IntArray, n_rows: IntArray) -> pa.Table:
    """Return runs of rows, ascending and disjoint, as `select_rows` does."""
    if len(starts) * RUN_ROWS_MIN > table.num_rows:
        return select_rows(table, count_on(starts, n_rows))
    runs = map(table.slice, starts.tolist(), n_rows.tolist())
    return _in_one_piece(pa.concat_tables([table.slice(0, 0), *runs]))


def _in_one_piece(chosen: pa.Table) -> pa.Table:
    for place, field in enumerate(chosen.schema):
        column = chosen.column(place)
        if pa.types.is_dictionary(field.type):
            words = sum(len(chunk.dictionary) for chunk in column.chunks)
            if words > chosen.num_rows:
                column = column.cast(field.type.value_type).dictionary_encode()
                chosen = chosen.set_column(place, field.name, column)
    return chosen.unify_dictionaries().combine_chunks()
