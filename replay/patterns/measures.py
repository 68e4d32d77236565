"""MEASURES of matches, read from the stream only where a match is."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from replay.expressions.columns import Values, to_arrow
from replay.expressions.evaluate import MatchValue, evaluate
from replay.expressions.scalars import Faults
from replay.language.bound import (
    Attribute,
    BoundPatternQuery,
    Classifier,
    Expression,
    MatchNumber,
)
from replay.patterns.config import MEASURED_ROWS_AT_ONCE
from replay.patterns.matches import Matches
from replay.patterns.program import MatchProgram, slot_of, sorted_attributes
from replay.patterns.rows.events import Fetch, FetchedEvents
from replay.patterns.rows.reader import RowReader
from replay.patterns.rows.views import Navigator

IntArray = npt.NDArray[np.int64]


def evaluate_measures(
    query: BoundPatternQuery,
    program: MatchProgram,
    matches: Matches,
    fetch: Fetch,
    *,
    n_events: int,
    faults: Faults | None = None,
) -> pa.Table:
    """Return the answer's columns for matches.

    Parameters
    ----------
    query, program
        The query, and what it was compiled to.
    matches
        In the order wanted; all of them are answered (``query.limit`` is the caller's affair).
    fetch
        Reads columns (at least one) of the events at ascending, distinct ``seq``, maybe none.
    n_events
        Events of the stream: PREV and NEXT beyond it are NULL.
    faults
        Counts the evaluations whose arithmetic, cast or sum gave NULL.

    Returns
    -------
    pyarrow.Table
        One row per match, or the rows that ALL ROWS PER MATCH gives; columns named and ordered as
        ``query.output``. A column of the stream, and a measure that is a plain attribute, keep
        their type (dictionaries decoded).
    """
    parts = answer_parts(query, program, matches, fetch, n_events=n_events, faults=faults)
    return pa.concat_tables(parts)


def answer_parts(
    query: BoundPatternQuery,
    program: MatchProgram,
    matches: Matches,
    fetch: Fetch,
    *,
    n_events: int,
    faults: Faults | None = None,
) -> Iterator[pa.Table]:
    """Yield the answer of `evaluate_measures` in tables, at least one, all of one schema.

    A part covers whole matches of about ``MEASURED_ROWS_AT_ONCE`` rows, which bounds the memory
    of many long matches; each part fetches once, when it is asked for.
    """
    faults = Faults() if faults is None else faults
    if not program.needs_rows:
        reader = _AnchorReader(query, program, matches, fetch, n_events, faults)
        yield _answer(query, reader, len(matches))
        return
    for part in matches.split(MEASURED_ROWS_AT_ONCE):
        assert part.rows is not None
        navigator = Navigator(
            part.rows,
            program.row_offsets,
            partitioned=bool(query.partition_by),
            n_events=n_events,
        )
        yield _answer(query, RowReader(query, part, navigator, fetch, faults), len(part))


def _answer(
    query: BoundPatternQuery, reader: _AnchorReader | RowReader, n_matches: int
) -> pa.Table:
    """Return the columns of the answer."""
    if not query.output:  # the outer query counts; a table without columns forgets its rows
        return pa.table({"": pa.nulls(n_matches)})
    measures = {measure.name: measure.expression for measure in query.measures}
    columns = []
    for source, _ in query.output:
        if source not in measures:
            columns.append(reader.column(source))
            continue
        expression = measures[source]
        if isinstance(expression, Attribute):
            measured = reader.attribute(expression)
        else:
            measured = to_arrow(reader.values(expression), expression.type)
        columns.append(reader.spread(measured))
    return pa.table(columns, names=[name for _, name in query.output])


class _AnchorReader:
    """Reads measures of matches whose rows the matcher did not keep, but the rows measured."""

    def __init__(
        self,
        query: BoundPatternQuery,
        program: MatchProgram,
        matches: Matches,
        fetch: Fetch,
        n_events: int,
        faults: Faults,
    ) -> None:
        self.n_rows = len(matches)
        self._query = query
        self._matches = matches
        self._n_events = n_events
        self._faults = faults
        self._slots = {
            slot: number
            for number, slot in enumerate(zip(program.anchors, program.offsets, strict=True))
        }
        partition = [source for source, _ in query.output if source in query.partition_by]
        read = [a for m in query.measures for a in sorted_attributes(m.expression)]
        wanted = [self._seqs(attribute) for attribute in dict.fromkeys(read)]
        if partition:
            wanted.append(matches.first_seq)
        names = [*partition, *(attribute.name for attribute in read)]
        self._events = FetchedEvents(fetch, names, wanted)

    def column(self, name: str) -> pa.Array:
        """Return a partition column for every match."""
        return self._events.plain(name, self._events.rows(self._matches.first_seq))

    def attribute(self, attribute: Attribute) -> pa.Array:
        """Return a measure that is a plain attribute, with its column's type."""
        return self._events.plain(attribute.name, self._events.rows(self._seqs(attribute)))

    def values(self, expression: Expression) -> Values:
        """Return any measure."""
        return evaluate(expression, self, self._faults, match_values=self._match_values)

    def spread(self, measured: pa.Array) -> pa.Array:
        """Return the measure: every row of the answer is a match."""
        return measured

    def at(self, attribute: Attribute) -> Values:
        """Return the attribute's value for every match."""
        return self._events.values(attribute, self._events.rows(self._seqs(attribute)))

    def _seqs(self, attribute: Attribute) -> IntArray:
        """Return the ``seq`` the attribute is read at for every match, -1 for none."""
        slot = slot_of(attribute, self._query)
        anchors = self._matches.anchors[:, self._slots[slot]]
        if slot[1] == attribute.offset:
            return anchors
        seqs = anchors + attribute.offset
        return np.where((anchors >= 0) & (seqs >= 0) & (seqs < self._n_events), seqs, -1)

    def _match_values(self, what: MatchValue) -> Values:
        if isinstance(what, MatchNumber):
            return Values(self._matches.number, None)
        assert isinstance(what, Classifier), "others need the rows of the match"
        classifier = self._matches.classifier
        names = pa.array(self._query.symbols, pa.string())
        return Values(names.take(pa.array(classifier, mask=classifier < 0)), None)
