"""Joins carried out: which blocks of each side are read, and in which order the join takes them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from chronicle import Snapshot
from chronicle.compile_time import clock
from chronicle.time import to_int64
from chronicle.words import number_of
from replay.engines.evidence import BlocksRead
from replay.engines.execution_stats import ExecutionStats
from replay.engines.index_phase import look_up
from replay.engines.read_ahead import read_ahead
from replay.engines.scan import UNIT_EVENTS, Reading, Scan, blocks_of, cut_blocks, in_units
from replay.engines.source import EventSource
from replay.engines.statistics import SnapshotStatistics
from replay.joins.asof_lookup import AsofLookup, find_asof_stretches
from replay.joins.keys import KeyNumbers
from replay.joins.plan import JoinPlan, SidePlan, choose_join_plan, seeks_partner
from replay.joins.spans import Reaches, blocks_within, spans_around, stretches_within
from replay.joins.stream_join import JoinOutline, WindowJoin
from replay.language.bound import Expression, JoinRelation, Relation
from replay.limits import check_limits
from replay.planning.block_ranges import all_blocks, count_blocks
from replay.planning.plan import PlanKind

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Piece:
    """Some events of one span, all that are in their blocks."""

    span: int
    first_seq: int
    table: pa.Table


class SpanReader:
    """Reads the events of spans of time, span by span.

    ``spans`` are first and last time of each, inclusive, ascending and disjoint, shape (n, 2);
    ``time`` is among the ``columns``. A block in which one span ends and another begins is read,
    and counted, for both.

    ``first_seqs`` holds the position of the first event of the blocks of each span, shape (n,);
    where a span has no block, of the first event behind it.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        source: EventSource,
        columns: tuple[str, ...],
        time: str,
        spans: IntArray,
    ) -> None:
        self._source = source
        self._columns = list(columns)
        self._time = time
        self._spans = spans
        self.blocks = blocks_within(spans, snapshot.leaves)
        self.first_seqs: IntArray = snapshot.bases[self.blocks[:, 0]]
        self.n_blocks = self.n_rows = 0
        self.seconds_read = 0.0

    def pieces(self) -> Iterator[Piece]:
        """Yield all events of the spans, in order; pieces may be empty."""
        mark = clock()
        for (_, unit), piece in read_ahead(self._units(), self._read, in_threads=True):
            self.seconds_read += clock() - mark
            self.n_blocks += len(unit)
            bases = self._source.bases
            self.n_rows += int((bases[unit + 1] - bases[unit]).sum())
            yield piece
            mark = clock()

    def _units(self) -> Iterator[tuple[int, IntArray]]:
        for span, (first, last) in enumerate(self.blocks.tolist()):
            for unit in cut_blocks(
                np.arange(first, last),
                self._source.bases,
                backward=False,
                first_events=UNIT_EVENTS,
            ):
                yield span, unit

    def _read(self, unit: tuple[int, IntArray]) -> Piece:
        span, blocks = unit
        table = self._source.read_blocks(blocks, self._columns)
        times = to_int64(table.column(self._time), name=self._time).to_numpy()
        begin, end = self._spans[span].tolist()
        low = int(np.searchsorted(times, begin, side="left"))
        high = int(np.searchsorted(times, end, side="right"))
        first_seq = int(self._source.bases[blocks[0]]) + low
        return Piece(span, first_seq, table.slice(low, high - low))


HITS_MAX = 1 << 22
"""Events of the driving side whose times are held at once, 8 bytes each; with more, all is read."""

COVERED_MAX = 0.8
"""Share of all blocks beyond which what lies around the driving side's events is not worth its
jumps."""


BACK_MAX = 0.25
"""Share of the right's blocks looked at on the way back to keys before all is read instead."""


@dataclass(slots=True, eq=False)
class JoinSide:
    """One side of a join."""

    give: Callable[[], Iterator[pa.Table]]
    """Gives its rows in order of time, at least one table; for their columns alone where there is a
    snapshot."""
    snapshot: Snapshot | None
    """The stream, where the side is one of a store; the join then reads it by itself."""
    statistics: SnapshotStatistics | None
    """What planning may know of it."""
    source: EventSource | None = None
    """Where its events are read; None: of the snapshot."""
    _tables: Iterator[pa.Table] | None = field(default=None, init=False)
    _first: pa.Table | None = field(default=None, init=False)

    @property
    def schema(self) -> pa.Schema:
        """Columns that are read."""
        if self._first is None:
            self._tables = self.give()
            self._first = next(self._tables)
        return self._first.schema

    def tables(self) -> Iterator[pa.Table]:
        """Yield its rows; may be asked once."""
        whole = chain([self._first], self._tables) if self._tables else self.give()
        return chain.from_iterable(map(in_units, whole))


OpenSource = Callable[[Relation, tuple[str, ...]], JoinSide]
"""Opens a relation to read some columns, by its own names."""


class JoinRun:
    """A join on its way.

    ``where`` is a condition over its columns that is applied to what it gives: rows that it leaves
    out for certain are not read, or dropped early. ``columns`` are those wanted; at least its time
    is given. Of ``requested`` see `choose_join_plan`.

    ``plan`` says how its sides are read, ``sides`` are the left and the right.
    """

    def __init__(
        self,
        join: JoinRelation,
        open_source: OpenSource,
        *,
        where: Expression | None = None,
        columns: Collection[str] = (),
        requested: str = "auto",
    ) -> None:
        outline = JoinOutline.of(join, where=where, columns=columns)
        self._join = join = outline.join
        self._conditions = outline.conditions
        self._columns = names = outline.side_columns
        self.sides = open_source(join.left, names[0]), open_source(join.right, names[1])
        left, right = self.sides
        self.plan: JoinPlan = choose_join_plan(
            join,
            self._conditions,
            (left.statistics, right.statistics),
            requested=requested,
        )
        first = [None if side.snapshot is None else side.snapshot.t_min for side in self.sides]
        self._operator = outline.operator(left.schema, right.schema, origins=(first[0], first[1]))
        self._scans: list[Scan] = []
        self._span_readers: list[SpanReader] = []
        self._reads: list[tuple[int, IntArray, tuple[str, ...], Scan | SpanReader]] = []
        self._n_blocks_back = 0
        self._seeks_partner = seeks_partner(join, self._conditions.right_partners)
        self._numbers = KeyNumbers(len(join.equal), join.null_safe)
        self._looked_up = ExecutionStats()

    @property
    def schema(self) -> pa.Schema:
        """Columns of the answer."""
        return self._operator.schema

    def work(self) -> ExecutionStats:
        """Return what was done so far.

        Blocks read twice count twice. Candidates are the driving side's events, and intervals the
        spans of time around them.
        """
        readers: list[Scan | SpanReader] = [*self._scans, *self._span_readers]
        return self._looked_up + ExecutionStats(
            n_blocks=self._n_blocks_back + sum(reader.n_blocks for reader in readers),
            n_blocks_total=self._n_blocks_total,
            n_rows=sum(reader.n_rows for reader in readers),
            n_rows_total=sum(s.snapshot.n_events for s in self.sides if s.snapshot is not None),
            n_faults=self._operator.n_faults + sum(scan.n_faults for scan in self._scans),
            read_s=sum(reader.seconds_read for reader in readers),
            byte_counters=(self._count_bytes,),
            reads=tuple(
                BlocksRead(self._snapshot(place), stretches, reader.n_blocks)
                for place, stretches, _, reader in self._reads
            ),
        )

    @property
    def _n_blocks_total(self) -> int:
        """Blocks of the streams of a store that are joined."""
        return sum(side.snapshot.n_blocks for side in self.sides if side.snapshot is not None)

    def _count_bytes(self) -> int:
        """Return the compressed bytes of the columns of blocks that were read."""
        return sum(
            self._snapshot(place).block_bytes(np.unique(blocks_of(stretches)), columns)
            for place, stretches, columns, _ in self._reads
        )

    def tables(self) -> Iterator[pa.Table]:
        """Yield the answer in canonical order, at least one table; may be asked once."""
        yield self.schema.empty_table()
        if self.plan.drives is None:
            yield from self._merged([self._all_of(place) for place in (0, 1)])
        else:
            yield from self._driven(0 if self.plan.drives == "left" else 1)

    # -----------------------------------------------------------------------------------------
    # Each side by itself

    def _all_of(self, place: int) -> Iterator[pa.Table]:
        """Return the events of a side that its own condition leaves, by blocks."""
        side = self.sides[place]
        planned = self.plan.sides[place]
        if side.snapshot is None or planned is None:
            return side.tables()
        if not self.plan.prunes:
            return self._scan(place, all_blocks(side.snapshot.n_blocks))
        return self._scan(place, self._found_by(planned, place))

    def _found_by(self, planned: SidePlan, place: int) -> IntArray:
        """Look up what the plan of a side says, and return the blocks to read."""
        side = self.sides[place]
        assert side.statistics is not None
        found = look_up(planned.plan, side.statistics)
        done = replace(planned, plan=found.plan)
        if place == 0:
            self.plan = replace(self.plan, left=done)
        else:
            self.plan = replace(self.plan, right=done)
        # Candidates of a join are the events that are read around.
        self._looked_up += replace(found.work, n_candidates=0, n_intervals=0)
        return found.stretches.blocks

    def _switch(self, why: str) -> None:
        self._looked_up += ExecutionStats(switched=why)

    def _scan(
        self, place: int, stretches: IntArray, reading: Reading | None = None
    ) -> Iterator[pa.Table]:
        """Read blocks of a side."""
        reading = reading or Reading(self._columns[place])
        scan = Scan(self._source(place), stretches, reading)
        self._reads.append((place, stretches, tuple(reading.all_columns), scan))
        self._scans.append(scan)
        return scan.tables()

    def _snapshot(self, place: int) -> Snapshot:
        snapshot = self.sides[place].snapshot
        assert snapshot is not None
        return snapshot

    def _source(self, place: int) -> EventSource:
        source = self.sides[place].source
        return self._snapshot(place) if source is None else source

    def _merged(self, sides: list[Iterator[pa.Table]]) -> Iterator[pa.Table]:
        """Push both sides, always the one that is behind, and yield what becomes certain."""
        ended = [False, False]
        while not self._operator.is_over(*ended):
            check_limits()
            place = self._operator.behind(*ended)
            table = next(sides[place], None)
            if table is None:
                ended[place] = True
            else:
                self._operator.push(place, table)
            yield from self._operator.certain(*ended)

    # -----------------------------------------------------------------------------------------
    # Around the events of one side

    def _driven(self, place: int) -> Iterator[pa.Table]:
        """Find the events of one side, and read both around them."""
        planned = self.plan.sides[place]
        assert planned is not None
        found = self._found_by(planned, place)
        hits = self._hits(place, planned, found)
        if hits is None:
            yield from self._merged([self._all_of(0), self._all_of(1)])
            return
        if self._seeks_partner:
            back = self._back_from(*hits)
            right = self._all_of(1) if back is None else self._scan(1, back)
            yield from self._merged([self._scan(0, found), right])
            return
        spans = self._spans_around(place, hits[0])
        if spans is None:
            yield from self._merged([self._all_of(0), self._all_of(1)])
        elif Reaches.of(self._join, left_drives=place == 0).count_rows:
            yield from self._span_by_span(spans)
        else:
            allowed = [self._allowed(0), self._allowed(1)]
            allowed[place] = found
            yield from self._merged(
                [
                    self._scan(side, stretches_within(spans, self._snapshot(side).leaves, inside))
                    for side, inside in enumerate(allowed)
                ]
            )

    def _allowed(self, place: int) -> IntArray | None:
        """Return the blocks of a side that its own condition leaves, by the tree; None: all."""
        planned = self.plan.sides[place]
        if planned is None or planned.plan.kind is PlanKind.FULL:
            return None
        return planned.plan.stretches

    def _hits(
        self, place: int, planned: SidePlan, found: IntArray
    ) -> tuple[IntArray, IntArray] | None:
        """Return times and numbers of keys of the driving side's events; None if they are many."""
        time = (self._join.left_time, self._join.right_time)[place]
        keys = tuple(pair[place] for pair in self._join.equal) if self._seeks_partner else ()
        columns = tuple(dict.fromkeys((time, *keys)))
        times, codes, n = [np.empty(0, np.int64)], [np.empty(0, np.int64)], 0
        for table in self._scan(place, found, Reading(columns, planned.condition)):
            times.append(to_int64(table.column(time), name=time).to_numpy())
            codes.append(self._numbers.number(table, keys))
            n += table.num_rows
            if n > HITS_MAX:
                self._switch(f"more than {HITS_MAX:,} events were found to read around: reads all")
                return None
        self._looked_up += ExecutionStats(n_candidates=n)
        return np.concatenate(times), np.concatenate(codes)

    def _back_from(self, times: IntArray, codes: IntArray) -> IntArray | None:
        """Return the blocks of the right that hold what events of the left seek; None: most."""
        snapshot, join = self._snapshot(1), self._join
        allowed = self._allowed(1)
        blocks = blocks_of(all_blocks(snapshot.n_blocks) if allowed is None else allowed)
        keys = tuple(right for _, right in join.equal)
        condition = self._conditions.right_partners
        lookup = AsofLookup(join.right_time, keys, condition, join.asof_strict, join.asof_forward)
        most = int(BACK_MAX * len(blocks)) if self.plan.is_adaptive else None
        began = clock()
        back, n_read = find_asof_stretches(
            snapshot, lookup, (times, codes), self._numbers, blocks, n_blocks_max=most
        )
        self._looked_up += ExecutionStats(index_s=clock() - began)
        self._n_blocks_back += n_read
        if back is None:
            read = number_of(n_read, "block")
            way = "ahead" if join.asof_forward else "on the way back"
            self._switch(f"not all keys were found in {read} {way}: reads all")
        return back

    def _spans_around(self, place: int, times: IntArray) -> IntArray | None:
        """Return the spans around the driving side's events; None if they are nearly everything."""
        leaves = [self._snapshot(side).leaves for side in (0, 1)]
        reaches = Reaches.of(self._join, left_drives=place == 0)
        spans = spans_around(times, times, reaches, leaves[place], leaves[1 - place])
        self._looked_up += ExecutionStats(n_intervals=len(spans))
        covered = sum(count_blocks(stretches_within(spans, of, None)) for of in leaves)
        n_total = self._n_blocks_total
        if self.plan.is_adaptive and covered > COVERED_MAX * n_total:
            self._switch(
                f"{covered:,} of {n_total:,} blocks lie around the "
                f"{number_of(len(times), 'event')} found: reads all"
            )
            return None
        return spans

    def _span_by_span(self, spans: IntArray) -> Iterator[pa.Table]:
        """Read both sides in full within each span, and count the rows in between as gone."""
        operator = self._operator
        assert isinstance(operator, WindowJoin)
        readers = [
            SpanReader(
                self._snapshot(place),
                self._source(place),
                self._columns[place],
                (self._join.left_time, self._join.right_time)[place],
                spans,
            )
            for place in (0, 1)
        ]
        for place, reader in enumerate(readers):
            self._reads.append((place, reader.blocks, self._columns[place], reader))
            self._span_readers.append(reader)
        waiting = [_Waiting(reader.pieces()) for reader in readers]
        for span in range(len(spans)):
            firsts = [int(reader.first_seqs[span]) for reader in readers]
            yield from operator.skip_to(firsts[0], firsts[1])
            ended = [False, False]
            while not all(ended):
                check_limits()
                place = operator.behind(*ended)
                piece = waiting[place].next_of(span)
                if piece is None:
                    ended[place] = True
                else:
                    operator.push(place, piece.table, piece.first_seq)
                yield from operator.certain(*ended)


class _Waiting:
    """Pieces taken span by span."""

    def __init__(self, pieces: Iterator[Piece]) -> None:
        self._pieces = pieces
        self._next: Piece | None = next(pieces, None)

    def next_of(self, span: int) -> Piece | None:
        """Return the next piece of a span; None behind its last."""
        piece = self._next
        if piece is None or piece.span != span:
            return None
        self._next = next(self._pieces, None)
        return piece
