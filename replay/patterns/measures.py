"""MEASURES and the rows of the answer, read from the stream only where a match is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from replay.expressions.columns import Columns, Values, to_arrow
from replay.expressions.evaluate import MatchValue, evaluate
from replay.expressions.scalars import Faults
from replay.language.bound import (
    Aggregate,
    Anchor,
    AnchorKind,
    Attribute,
    BoundPatternQuery,
    Call,
    Classifier,
    DataType,
    Expression,
    MatchNumber,
    RowsPerMatch,
    SymbolSet,
    TimedOut,
    is_array,
)
from replay.operators.distinct import distinct
from replay.operators.ordering import key_columns
from replay.operators.row_aggregates import Spans, aggregate, collected
from replay.operators.row_kernels import find_rows
from replay.patterns.config import MEASURED_ROWS_AT_ONCE
from replay.patterns.matches import NO_SYMBOL, Matches, MatchRows
from replay.patterns.program import MatchProgram, slot_of, sorted_attributes

IntArray = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

Fetch = Callable[[list[str], IntArray], pa.Table]
"""Reads columns (at least one) of the events at ascending, distinct ``seq``, maybe none."""

_BYTES_MAX_PER_SEQ = 8
"""How sparse events may be for a byte per event between the first and the last of them."""


def answer_parts(
    query: BoundPatternQuery,
    program: MatchProgram,
    matches: Matches,
    fetch: Fetch,
    *,
    n_events: int,
    faults: Faults,
) -> Iterator[pa.Table]:
    """Yield the answer for matches in tables, at least one, all of one schema.

    There is one row per match, or those that ALL ROWS PER MATCH gives, with the columns of
    ``query.output``. A column of the stream, and a measure that is a plain attribute, keep their
    type (dictionaries decoded). ``query.limit`` is the caller's affair.

    A part covers whole matches of about ``MEASURED_ROWS_AT_ONCE`` rows, which bounds the memory
    of many long matches; each part fetches once, when it is asked for. PREV and NEXT are NULL
    beyond the stream's ``n_events``. ``faults`` counts evaluations whose arithmetic, cast or sum
    gave NULL.
    """
    if not program.needs_rows:
        yield _answer(query, _AnchorReader(query, program, matches, fetch, n_events, faults))
        return
    for part in matches.split(MEASURED_ROWS_AT_ONCE):
        yield _answer(query, _RowReader(query, program, part, fetch, n_events, faults))


def _answer(query: BoundPatternQuery, reader: _AnchorReader | _RowReader) -> pa.Table:
    """Return the columns of the answer."""
    if not query.output:  # the outer query counts; a table without columns forgets its rows
        return pa.table({"": pa.nulls(len(reader.matches))})
    measures = {measure.name: measure.expression for measure in query.measures}
    columns = []
    for source, _ in query.output:
        if source not in measures:
            columns.append(reader.column(source))
            continue
        expression = measures[source]
        if isinstance(expression, Attribute):
            measured = reader.attribute(expression)
        elif isinstance(expression, Aggregate) and is_array(expression):
            assert isinstance(reader, _RowReader), "an aggregate needs the rows of the match"
            measured = reader.array(expression)
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
        self.matches = matches
        self._query = query
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
        return self._events.plain(name, self._events.rows(self.matches.first_seq))

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
        anchors = self.matches.anchors[:, self._slots[slot]]
        if slot[1] == attribute.offset:
            return anchors
        seqs = anchors + attribute.offset
        return np.where((anchors >= 0) & (seqs >= 0) & (seqs < self._n_events), seqs, -1)

    def _match_values(self, what: MatchValue) -> Values:
        if isinstance(what, MatchNumber):
            return Values(self.matches.number, None)
        assert isinstance(what, Classifier), "others need the rows of the match"
        classifier = self.matches.classifier
        names = pa.array(self._query.symbols, pa.string())
        return Values(names.take(pa.array(classifier, mask=classifier < 0)), None)


class _RowReader:
    """Reads measures and columns at every row of the answer of matches with their rows.

    Faults are counted once for a measure at a row of the answer, and for an aggregate's argument
    at a row of a match.
    """

    def __init__(
        self,
        query: BoundPatternQuery,
        program: MatchProgram,
        matches: Matches,
        fetch: Fetch,
        n_events: int,
        faults: Faults,
    ) -> None:
        assert matches.rows is not None
        self.matches = matches
        self.faults = faults
        self.navigator = _Navigator(query, program, matches.rows, n_events)
        self.symbols = pa.array(query.symbols, pa.string())
        self._scopes: dict[SymbolSet, _Scope] = {}
        self._arguments: dict[tuple[SymbolSet, str], Values] = {}
        answered = answered_rows(query, matches)
        views = self.navigator.views_at(answered)
        if query.rows_per_match is RowsPerMatch.ONE:
            views = views.of_whole_matches()
        matched = matches.number[views.match] > 0
        self._place = None if matched.all() else pa.array(np.cumsum(matched) - 1, mask=~matched)
        self._scope = _Scope(self, views if self._place is None else views.take(matched))
        self._seq = matches.rows.seq[answered]
        computed = {measure.name: measure.expression for measure in query.measures}
        names, wanted = self._scope.reads(list(computed.values()))
        columns = [source for source, _ in query.output if source not in computed]
        if columns:
            wanted.append(self._seq)
        self.events = FetchedEvents(fetch, [*names, *columns], wanted)

    def column(self, name: str) -> pa.Array:
        """Return a column of the stream at every row of the answer, with its own type."""
        return self.events.plain(name, self.events.rows(self._seq))

    def attribute(self, attribute: Attribute) -> pa.Array:
        """Return a measure that is a plain attribute where a match is, with its column's type."""
        return self.events.plain(attribute.name, self._scope.rows_of(attribute))

    def values(self, expression: Expression) -> Values:
        """Return any measure where a match is."""
        return self._scope.evaluate(expression)

    def array(self, expression: Aggregate) -> pa.Array:
        """Return a measure that is an array of values where a match is."""
        return self._scope.array(expression)

    def spread(self, measured: pa.Array) -> pa.Array:
        """Return a measure at every row of the answer: NULL at those unmatched."""
        return measured if self._place is None else measured.take(self._place)

    def scope_of(self, symbols: SymbolSet) -> _Scope:
        """Return the scope of the rows mapped to symbols, each as it is mapped."""
        if symbols not in self._scopes:
            rows, _ = self.navigator.mapped(symbols)
            self._scopes[symbols] = _Scope(self, self.navigator.views_at(rows))
        return self._scopes[symbols]

    def argument(self, what: Aggregate) -> Values | None:
        """Return the values of an aggregate's argument, which several aggregates may share."""
        if what.argument is None:
            return None
        key = what.symbols, repr(what.argument)  # its text tells 0.0 from -0.0, equality does not
        if key not in self._arguments:
            self._arguments[key] = self.scope_of(what.symbols).evaluate(what.argument)
        return self._arguments[key]

    def order(self, what: Aggregate) -> list[Any]:
        """Return the columns of the keys of an aggregate's order, as ``np.lexsort`` takes them."""
        rows = self.scope_of(what.symbols)
        columns: list[Any] = []
        for key in reversed(what.order):
            columns += key_columns(key, rows.evaluate(key.expression))
        return columns


class _Scope:
    """Rows that expressions are evaluated at; a source of attributes for `evaluate`."""

    def __init__(self, reader: _RowReader, views: _Views) -> None:
        self.n_rows = len(views)
        self.views = views
        self._reader = reader
        self._seq: dict[tuple[Anchor, int], IntArray] = {}
        self._rows: dict[tuple[Anchor, int], IntArray] = {}

    def reads(self, expressions: list[Expression]) -> tuple[set[str], list[IntArray]]:
        """Return the columns that expressions read, and ``seq`` of the events, -1 for none."""
        names: set[str] = set()
        wanted = []
        for part in (part for expression in expressions for part in _parts(expression)):
            if isinstance(part, Attribute):
                names.add(part.name)
                wanted.append(self._seq_of(part))
            elif isinstance(part, Aggregate) and part.inside:
                inner_names, inner_wanted = self._reader.scope_of(part.symbols).reads(
                    list(part.inside)
                )
                names |= inner_names
                wanted += inner_wanted
        return names, wanted

    def evaluate(self, expression: Expression) -> Values:
        """Return an expression's values."""
        return evaluate(expression, self, self._reader.faults, match_values=self._match_values)

    def at(self, attribute: Attribute) -> Values:
        """Return an attribute's values."""
        return self._reader.events.values(attribute, self.rows_of(attribute))

    def rows_of(self, attribute: Attribute) -> IntArray:
        """Return which of the fetched events an attribute is read from, -1 for none."""
        key = attribute.anchor, attribute.offset
        if key not in self._rows:
            self._rows[key] = self._reader.events.rows(self._seq_of(attribute))
        return self._rows[key]

    def _seq_of(self, attribute: Attribute) -> IntArray:
        key = attribute.anchor, attribute.offset
        if key not in self._seq:
            self._seq[key] = self._reader.navigator.seq_of(*key, self.views)
        return self._seq[key]

    def _match_values(self, what: MatchValue) -> Values:
        matches, match = self._reader.matches, self.views.match
        if isinstance(what, Aggregate):
            return self._aggregate(what)
        if isinstance(what, MatchNumber):
            return Values(matches.number[match], None)
        if isinstance(what, TimedOut):
            flags = matches.timed_out
            none = np.zeros(self.n_rows, np.bool_)
            return Values(none if flags is None else flags[match], None)
        symbol = self._reader.navigator.symbol_of(what.anchor, what.offset, self.views)
        return Values(self._reader.symbols.take(pa.array(symbol, mask=symbol < 0)), None)

    def _aggregate(self, what: Aggregate) -> Values:
        argument = self._reader.argument(what)
        order = self._reader.order(what)
        return aggregate(what, argument, self._spans(what), self._reader.faults, order)

    def array(self, what: Aggregate) -> pa.Array:
        """Return the values of an aggregate's argument, an array of them for each view."""
        values = self._reader.argument(what)
        assert values is not None, "an array is of values"
        keep = None
        if what.where is not None:
            data, valid = self._reader.scope_of(what.symbols).evaluate(what.where)
            keep = data if valid is None else data & valid
        elements = to_arrow(values, what.type)
        order = self._reader.order(what)
        return collected(elements, keep, self._spans(what), distinct=what.distinct, order=order)

    def _spans(self, what: Aggregate) -> Spans:
        """Return which of the rows of an aggregate's symbols each view aggregates."""
        _, counts = self._reader.navigator.mapped(what.symbols)
        views = self.views
        return Spans(
            self._reader.scope_of(what.symbols).views.match,
            counts[views.begins],
            counts[views.match_ends if what.final else views.ends],
        )


def _parts(expression: Expression) -> Iterator[Expression]:
    """Yield the parts of an expression that are evaluated where it is; no aggregate's argument."""
    yield expression
    if isinstance(expression, Call):
        for argument in expression.args:
            yield from _parts(argument)


@dataclass(frozen=True, slots=True)
class _Views:
    """What is seen from some rows: all arrays int64 of one length, rows as places in `MatchRows`.

    Of the match only the rows ``begins : ends`` are seen, the last of them the one the view is
    from; FINAL sees ``begins : match_ends``. A row of `NO_SYMBOL` is none that anything finds.
    """

    match: IntArray
    begins: IntArray
    ends: IntArray
    match_ends: IntArray

    def __len__(self) -> int:
        return len(self.match)

    def of_whole_matches(self) -> _Views:
        """Return views from the last rows of the matches, which see all of them."""
        return _Views(self.match, self.begins, self.match_ends, self.match_ends)

    def take(self, chosen: IntArray | Bools) -> _Views:
        """Return the chosen views, in the order chosen."""
        return _Views(
            self.match[chosen], self.begins[chosen], self.ends[chosen], self.match_ends[chosen]
        )


def answered_rows(query: BoundPatternQuery, matches: Matches) -> IntArray:
    """Return which rows of the matches give a row of the answer, as places in `MatchRows`.

    With ONE ROW PER MATCH that is the first row of each match, which partition columns are read
    from.
    """
    assert matches.rows is not None
    if query.rows_per_match is RowsPerMatch.ONE:
        return matches.rows.offsets[:-1]
    shown = ~matches.rows.excluded
    if query.rows_per_match is RowsPerMatch.ALL_OMIT_EMPTY:
        shown &= matches.rows.symbol != NO_SYMBOL
    return np.flatnonzero(shown)


def answer_counts(query: BoundPatternQuery, matches: Matches) -> IntArray:
    """Return how many rows of the answer each match gives; what LIMIT counts."""
    if query.rows_per_match is RowsPerMatch.ONE:
        return np.ones(len(matches), np.int64)
    assert matches.rows is not None
    at = np.searchsorted(answered_rows(query, matches), matches.rows.offsets)
    return np.diff(at)


class _Navigator:
    """Finds the rows that measures read: in the match, then beside it.

    With partitions neighbours are those in the partition, which `MatchRows.moved` tells.
    """

    def __init__(
        self, query: BoundPatternQuery, program: MatchProgram, rows: MatchRows, n_events: int
    ) -> None:
        self._rows = rows
        self._column_of = {offset: column for column, offset in enumerate(program.row_offsets)}
        self._partitioned = bool(query.partition_by)
        self._n_events = n_events
        self._match = np.repeat(np.arange(len(rows.offsets) - 1), np.diff(rows.offsets))
        self._mapped: dict[SymbolSet, tuple[IntArray, IntArray]] = {}

    def mapped(self, symbols: SymbolSet) -> tuple[IntArray, IntArray]:
        """Return the rows mapped to the symbols, and how many of them stand before each row.

        The counts have one entry more than there are rows, so a range of rows ``a : b`` has the
        entries ``counts[a] : counts[b]`` of the rows.
        """
        if symbols not in self._mapped:
            symbol = self._rows.symbol
            wanted = symbol != NO_SYMBOL if symbols is None else np.isin(symbol, symbols)
            counts = np.concatenate([np.zeros(1, np.int64), np.cumsum(wanted, dtype=np.int64)])
            self._mapped[symbols] = np.flatnonzero(wanted), counts
        return self._mapped[symbols]

    def views_at(self, rows: IntArray) -> _Views:
        """Return what is seen from rows of matches: each row and those before it in the match."""
        match, offsets = self._match[rows], self._rows.offsets
        return _Views(match, offsets[match], rows + 1, offsets[match + 1])

    def rows_of(self, anchor: Anchor, views: _Views) -> IntArray:
        """Return the anchor's row as each view sees it, -1 for none."""
        rows, counts = self.mapped(anchor.symbols)
        low = counts[views.begins]
        high = counts[views.match_ends if anchor.final else views.ends]
        is_first = anchor.kind is AnchorKind.FIRST
        place = low + anchor.offset if is_first else high - 1 - anchor.offset
        there = (place >= low) & (place < high)
        if not len(rows):
            return np.full(len(views), -1, np.int64)
        return np.where(there, rows[np.where(there, place, 0)], -1)

    def seq_of(self, anchor: Anchor, offset: int, views: _Views) -> IntArray:
        """Return ``seq`` of the row ``offset`` physical rows after the anchor's, -1 for none."""
        row = self.rows_of(anchor, views)
        there = row >= 0
        if not there.any():
            return row
        if offset and self._partitioned:
            return np.where(there, self._rows.moved[row, self._column_of[offset]], -1)
        seq = self._rows.seq[row] + offset
        return np.where(there & (seq >= 0) & (seq < self._n_events), seq, -1)

    def symbol_of(self, anchor: Anchor, offset: int, views: _Views) -> IntArray:
        """Return the symbol of that row, -1 where the match does not map it.

        Only the anchor is found among the rows seen: a neighbour may be any row of the match.
        """
        row = self.rows_of(anchor, views)
        if offset:
            seq = self.seq_of(anchor, offset, views)
            found = find_rows(self._rows.seq, views.begins, views.match_ends, seq)
            row = np.where(seq < 0, -1, found)
        if not len(self._rows):
            return row
        return np.where(row < 0, -1, self._rows.symbol[row].astype(np.int64))


class FetchedEvents:
    """Columns of the events at ``wanted``: ``seq`` in any order, -1 for none.

    Nothing is fetched where no column is wanted.
    """

    def __init__(self, fetch: Fetch, names: Iterable[str], wanted: Iterable[IntArray]) -> None:
        columns = sorted(set(names))
        self._seq = np.empty(0, np.int64)
        if columns:
            self._seq = _distinct(wanted)
            self._table = fetch(columns, self._seq)
            self._columns = Columns(self._table)
        n = len(self._seq)
        self._has_no_gap = n > 0 and bool(self._seq[-1] - self._seq[0] == n - 1)

    def rows(self, seq: IntArray) -> IntArray:
        """Return where the events at ``seq`` stand among those fetched, -1 for none."""
        rows = seq - self._seq[0] if self._has_no_gap else np.searchsorted(self._seq, seq)
        return np.where(seq < 0, -1, rows)

    def values(self, attribute: Attribute, rows: IntArray) -> Values:
        """Return an attribute's values at rows that `rows` gave; NULL for -1."""
        here, there = Attribute(attribute.name, attribute.type), rows >= 0
        if attribute.type is DataType.STRING:
            codes, dictionary = self._columns.encoded(here)
            found = codes[rows] if len(codes) else np.zeros(len(rows), np.int32)
            is_null = ~there | (found == len(dictionary))
            return Values(dictionary.take(pa.array(found, mask=is_null)), None)
        data, valid = self._columns.at(here)
        if not len(data):
            return Values(np.zeros(len(rows), data.dtype), there)
        return Values(data[rows], there if valid is None else there & valid[rows])

    def plain(self, name: str, rows: IntArray) -> pa.Array:
        """Return a column's values as they are stored, dictionaries decoded; NULL for -1."""
        column = self._table.column(name)
        if pa.types.is_dictionary(column.type):
            column = column.unify_dictionaries().cast(column.type.value_type)
        return column.take(pa.array(rows, mask=rows < 0))


def _distinct(wanted: Iterable[IntArray]) -> IntArray:
    """Return all ``seq`` but -1, ascending, each once."""
    parts = [part for part in (seq[seq >= 0] for seq in wanted) if len(part)]
    if not parts:
        return np.empty(0, np.int64)
    low, high = min(int(part.min()) for part in parts), max(int(part.max()) for part in parts)
    if high - low > _BYTES_MAX_PER_SEQ * sum(map(len, parts)):
        return distinct(*parts)
    is_wanted = np.zeros(high - low + 1, np.bool_)  # where they stand close, no sort is needed
    for part in parts:
        is_wanted[part - low] = True
    return np.flatnonzero(is_wanted) + low
