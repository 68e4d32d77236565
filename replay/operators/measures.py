"""MEASURES of matches, read from the stream only where a match is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from chronicle.config import TIME_UNIT
from replay.language.bound import (
    Attribute,
    BoundPatternQuery,
    Classifier,
    DataType,
    Expression,
    MatchNumber,
)
from replay.operators.columns import Columns, Values
from replay.operators.evaluate import evaluate
from replay.operators.matches import Matches
from replay.operators.program import MatchProgram, slot_of, sorted_attributes
from replay.operators.scalars import Faults

IntArray = npt.NDArray[np.int64]
Fetch = Callable[[list[str], IntArray], pa.Table]

ARROW_TYPES = {
    DataType.BOOLEAN: pa.bool_(),
    DataType.INTEGER: pa.int64(),
    DataType.DOUBLE: pa.float64(),
    DataType.STRING: pa.string(),
    DataType.TIMESTAMP: pa.timestamp(TIME_UNIT),
    DataType.TIMESTAMP_UTC: pa.timestamp(TIME_UNIT, "UTC"),
    DataType.DATE: pa.date32(),
    DataType.INTERVAL: pa.duration(TIME_UNIT),
    DataType.NULL: pa.null(),
}


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
        Counts the matches whose arithmetic or casts gave NULL.

    Returns
    -------
    pyarrow.Table
        One row per match, columns named and ordered as ``query.output``. A measure that is a
        plain attribute keeps its column's type (dictionaries decoded).
    """
    reader = _MatchRows(query, program, matches, fetch, n_events)
    faults = Faults() if faults is None else faults
    measures = {measure.name: measure.expression for measure in query.measures}
    columns = []
    for source, _ in query.output:
        if source in measures:
            columns.append(reader.measure(measures[source], faults))
        else:
            columns.append(reader.plain(source, reader.first_rows))
    return pa.table(columns, names=[name for _, name in query.output])


class _MatchRows:
    """The rows that measures read, by match."""

    def __init__(
        self,
        query: BoundPatternQuery,
        program: MatchProgram,
        matches: Matches,
        fetch: Fetch,
        n_events: int,
    ) -> None:
        self.n_rows = len(matches)
        self._query = query
        self._matches = matches
        self._n_events = n_events
        self._slots = {
            slot: number
            for number, slot in enumerate(zip(program.anchors, program.offsets, strict=True))
        }
        partition = [source for source, _ in query.output if source in query.partition_by]
        read = [a for m in query.measures for a in sorted_attributes(m.expression)]
        wanted = [self._seqs(attribute) for attribute in dict.fromkeys(read)]
        if partition:
            wanted.append(matches.first_seq)
        names = sorted({*partition, *(attribute.name for attribute in read)})
        self._seq_of_row = np.empty(0, np.int64)
        self._table: pa.Table | None = None
        if names:
            seqs = np.unique(np.concatenate(wanted))
            self._seq_of_row = seqs[seqs >= 0]
            self._table = fetch(names, self._seq_of_row)
            self._columns = Columns(self._table)

    @property
    def first_rows(self) -> IntArray:
        """Rows of the matches' first events."""
        return self._rows(self._matches.first_seq)

    def at(self, attribute: Attribute) -> Values:
        """Return the attribute's value for every match."""
        rows = self._rows(self._seqs(attribute))
        here = Attribute(attribute.name, attribute.type)
        data, valid = self._columns.at(here)
        if attribute.type is DataType.STRING:
            return Values(data.take(pa.array(rows, mask=rows < 0)), None)
        if not len(data):
            return Values(np.zeros(len(rows), data.dtype), np.zeros(len(rows), np.bool_))
        there = rows >= 0
        return Values(data[rows], there if valid is None else there & valid[rows])

    def plain(self, name: str, rows: IntArray) -> pa.Array:
        """Return a column's values as they are stored; NULL for row -1."""
        assert self._table is not None
        column = self._table.column(name)
        if pa.types.is_dictionary(column.type):
            column = column.unify_dictionaries().cast(column.type.value_type)
        return column.take(pa.array(rows, mask=rows < 0))

    def measure(self, expression: Expression, faults: Faults) -> pa.Array:
        """Return a measure's values."""
        if isinstance(expression, Attribute):
            return self.plain(expression.name, self._rows(self._seqs(expression)))
        found = evaluate(expression, self, faults, match_values=self._match_values)
        return to_arrow(found, expression.type)

    def _seqs(self, attribute: Attribute) -> IntArray:
        """Return the ``seq`` the attribute is read at for every match, -1 for none."""
        slot = slot_of(attribute, self._query)
        anchors = self._matches.anchors[:, self._slots[slot]]
        if slot[1] == attribute.offset:
            return anchors
        seqs = anchors + attribute.offset
        return np.where((anchors >= 0) & (seqs >= 0) & (seqs < self._n_events), seqs, -1)

    def _rows(self, seqs: IntArray) -> IntArray:
        """Return where the events at ``seqs`` stand among those fetched, -1 for none."""
        return np.where(seqs < 0, -1, np.searchsorted(self._seq_of_row, seqs))

    def _match_values(self, what: Classifier | MatchNumber) -> Values:
        if isinstance(what, MatchNumber):
            return Values(self._matches.number, None)
        classifier = self._matches.classifier
        names = pa.array(self._query.symbols, pa.string())
        return Values(names.take(pa.array(classifier, mask=classifier < 0)), None)


def to_arrow(values: Values, data_type: DataType) -> pa.Array:
    """Return evaluated values as an Arrow array of the type's Arrow type."""
    data, valid = values
    target = ARROW_TYPES[data_type]
    if data_type is DataType.NULL:
        return pa.nulls(len(data))
    if data_type is DataType.STRING:
        return data.combine_chunks() if isinstance(data, pa.ChunkedArray) else data
    mask: Any = None if valid is None else ~valid
    if data_type is DataType.DATE:
        data = data.astype(np.int32)
    elif data_type not in (DataType.BOOLEAN, DataType.INTEGER, DataType.DOUBLE):
        return pa.array(data, pa.int64(), mask=mask).cast(target)
    return pa.array(data, target, mask=mask)
