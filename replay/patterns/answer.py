"""From the matches a replay finds to the rows of the answer, no further than LIMIT asks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from replay.engines.evidence import SpanSample
from replay.engines.key_filter import KeyFilter
from replay.engines.partition_rows import Beside
from replay.engines.source import EventSource, fetch_events
from replay.errors import QueryError
from replay.expressions.scalars import Faults
from replay.language.bound import BoundPatternQuery, Outer, RowsPerMatch, Semantics
from replay.limits import check_limits
from replay.operators.outer import apply_outer
from replay.patterns.config import MEASURED_ROWS_AT_ONCE
from replay.patterns.local import Replay
from replay.patterns.matches import Matches
from replay.patterns.measures import answer_counts, answer_parts
from replay.patterns.program import MatchProgram, summed_in_windows, why_made
from replay.patterns.summing.lanes import lanes_of
from replay.patterns.trends.algebra import Summing
from replay.patterns.trends.indexes import told_edges
from replay.planning.requirements import Aggregation
from replay.planning.row_spans import RowSpans

IntArray = npt.NDArray[np.int64]

MEASURED_ROWS_FIRST = 64
"""Rows of matches measured first where LIMIT may be reached any time; each time twice as many."""


class ResultBuilder:
    """A query on its way over stretches of blocks, and what that took so far.

    ``program`` is what the query was compiled to; other arguments are as in `Replay`.
    """

    def __init__(
        self,
        source: EventSource,
        query: BoundPatternQuery,
        program: MatchProgram,
        stretches: IntArray,
        keys: KeyFilter | None = None,
        beside: Beside | None = None,
        spans: RowSpans | None = None,
        *,
        goes_on: bool = False,
    ) -> None:
        self._source = source
        self._query = query
        self._program = program
        self._faults = Faults()
        ends_early = query.limit is not None or may_end_early(query.outer)
        self.replayed = Replay(
            source,
            program,
            stretches,
            keys,
            beside,
            spans,
            ends_early=ends_early,
            goes_on=goes_on,
        )
        self.stretches = stretches
        self.sample = SpanSample()
        """Where the matches that were measured lie."""

    @property
    def n_faults(self) -> int:
        """Faults of rows so far: in conditions, measures and the outer query."""
        return self.replayed.n_faults + self._faults.count

    def tables(self) -> Iterator[pa.Table]:
        """Yield the rows of the answer as they are found, at least one table.

        Matches are measured some at a time and then forgotten. Unless the outer query groups or
        orders, memory is bounded by the rows that are undecided. A `StepLimitError` or `SkipError`
        is raised if it comes before LIMIT is reached.
        """
        if self._program.sums is not None:
            return iter((self._summed(self._program.sums.summing),))
        return to_rows(self._query, self._measured(), self._faults)

    def _summed(self, summing: Summing) -> pa.Table:
        from replay.patterns.summing.answer import answer_sums

        schema = self._fetch(list(self._query.partition_by), np.empty(0, np.int64)).schema
        return answer_sums(self._query, summing, self.replayed.totals(), schema, self._faults)

    def _measured(self) -> Iterator[pa.Table]:
        for part in wanted_parts(self._query, self._program, self.replayed.matches()):
            is_one = self._query.rows_per_match is RowsPerMatch.ONE
            counts = None if is_one else answer_counts(self._query, part)
            self.sample.add(part.first_seq, part.last_seq, counts)
            yield from answer_parts(
                self._query,
                self._program,
                part,
                self._fetch,
                n_events=self._source.n_events,
                faults=self._faults,
            )

    def _fetch(self, columns: list[str], seqs: IntArray) -> pa.Table:
        kept = self.replayed.kept.find(columns, seqs)
        return fetch_events(self._source, columns, seqs) if kept is None else kept


_WAITS = "rows are put in order, or look at their neighbours, before they are matched"


def aggregation_of(
    query: BoundPatternQuery, program: MatchProgram | None = None
) -> Aggregation | None:
    """Return how aggregates over every match of a strategy are found; None where there are none.

    ``program`` is what the query was compiled to; None where its matches are made in any case.
    """
    outer = query.outer
    if outer is None or outer.group_by is None or query.semantics is Semantics.SQL:
        return None
    if query.windows is not None:
        program = summed_in_windows(query)
    if program is not None and program.sums is not None:
        code, grain = program.strategy, program.sums.grain
        assert code is not None
        found = Aggregation(
            "summed", "", "type", lanes=lanes_of(query, program).value, states=code.n_states - 2
        )
        if grain is None:
            return found
        return replace(found, grain="event", edges=told_edges(code, grain, query.symbols))
    return Aggregation("enumerated", why_made(query) or _WAITS)


def wanted_parts(
    query: BoundPatternQuery, program: MatchProgram, matches: Iterable[Matches]
) -> Iterator[Matches]:
    """Yield the matches that LIMIT asks for in parts worth measuring, at least one part.

    Where an error ends the matches, those before it are yielded first: the outer query may have
    had enough with them.
    """
    if query.limit is not None:
        matches = _enough(query, matches, query.limit)
    many = MEASURED_ROWS_AT_ONCE
    threshold = MEASURED_ROWS_FIRST if may_end_early(query.outer) else many
    parts, n_rows = [Matches.none(program)], 0
    try:
        for found in matches:
            check_limits()
            parts.append(found)
            n_rows += len(found) if found.rows is None else len(found.rows)
            if n_rows >= threshold:
                yield Matches.concat(parts)
                parts, n_rows = [Matches.none(program)], 0
                threshold = min(2 * threshold, many)
    except QueryError:
        yield Matches.concat(parts)
        raise
    yield Matches.concat(parts)


def _enough(query: BoundPatternQuery, matches: Iterable[Matches], limit: int) -> Iterator[Matches]:
    """Yield the matches that give the first ``limit`` rows, and then ask for no more.

    The last of them may give more rows than that.
    """
    missing = limit
    if missing <= 0:
        return
    for found in matches:
        counts = answer_counts(query, found)
        n = int(np.searchsorted(np.cumsum(counts), missing)) + 1
        yield found if n >= len(found) else found.head(n)
        missing -= int(counts.sum())
        if missing <= 0:
            return


def to_rows(
    query: BoundPatternQuery, inner: Iterable[pa.Table], faults: Faults
) -> Iterator[pa.Table]:
    """Yield the rows of the query's answer, at least one table, from those of MATCH_RECOGNIZE."""
    if query.limit is not None:
        inner = cut(inner, 0, query.limit)
    outer = query.outer
    if outer is None:
        yield from inner
    elif outer.is_row_by_row:
        plain = replace(outer, limit=None, offset=0)
        tables = (apply_outer(table, plain, faults) for table in inner)
        yield from cut(tables, outer.offset, outer.limit)
    elif may_end_early(outer):
        yield _first_distinct(inner, outer, faults)
    else:
        yield apply_outer(pa.concat_tables(inner), outer, faults)


def may_end_early(outer: Outer | None) -> bool:
    """Return whether the outer query may have enough before the inner one ends."""
    if outer is None or outer.limit is None:
        return False
    return replace(outer, distinct=False).is_row_by_row


def _first_distinct(inner: Iterable[pa.Table], outer: Outer, faults: Faults) -> pa.Table:
    """Return the answer of DISTINCT with LIMIT, asking for no more tables once it is whole.

    What has come is looked at each time it is twice as much, which costs about as much as looking
    at all of it twice.
    """
    tables: list[pa.Table] = []
    n_rows = looked_at = 0

    def is_whole() -> bool:
        answer = apply_outer(pa.concat_tables(tables), outer, Faults())
        return bool(answer.num_rows == outer.limit)

    try:
        for table in inner:
            tables.append(table)
            n_rows += table.num_rows
            if n_rows >= 2 * looked_at:
                looked_at = n_rows
                if is_whole():
                    break
    except QueryError:
        if not tables or not is_whole():
            raise
    return apply_outer(pa.concat_tables(tables), outer, faults)


def cut(tables: Iterable[pa.Table], offset: int, limit: int | None) -> Iterator[pa.Table]:
    """Yield the rows from ``offset`` on, ``limit`` at most, and then ask for no more tables.

    At least one table is yielded where there is one.
    """
    left = limit
    for table in tables:
        kept = table.slice(offset, left)
        offset = max(0, offset - table.num_rows)
        yield kept
        if left is not None:
            left -= kept.num_rows
            if left <= 0:
                return
