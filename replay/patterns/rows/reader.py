"""Measures and columns at the rows of the answer, read from the rows of the matches."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from replay.expressions.columns import Values
from replay.expressions.evaluate import MatchValue, evaluate
from replay.expressions.scalars import Faults
from replay.language.bound import (
    Aggregate,
    Anchor,
    Attribute,
    BoundPatternQuery,
    Call,
    Expression,
    MatchNumber,
    RowsPerMatch,
    SymbolSet,
    TimedOut,
)
from replay.operators.row_aggregates import Spans, aggregate
from replay.patterns.matches import Matches
from replay.patterns.rows.events import Fetch, FetchedEvents
from replay.patterns.rows.views import Navigator, Views, answered_rows

IntArray = npt.NDArray[np.int64]


class RowReader:
    """Reads measures and columns at every row of the answer of some matches.

    Parameters
    ----------
    query
        The query.
    matches
        Matches with their rows.
    navigator
        Finds rows among those of the matches.
    fetch
        Where to read events; asked once at most.
    faults
        Counts evaluations (of a measure at a row of the answer, of an aggregate's argument at a
        row of a match) that gave NULL because of a fault.
    """

    def __init__(
        self,
        query: BoundPatternQuery,
        matches: Matches,
        navigator: Navigator,
        fetch: Fetch,
        faults: Faults,
    ) -> None:
        assert matches.rows is not None
        answered = answered_rows(query, matches)
        views = navigator.views_at(answered)
        if query.rows_per_match is RowsPerMatch.ONE:
            views = views.of_whole_matches()
        matched = matches.number[views.match] > 0
        self._place = None if matched.all() else pa.array(np.cumsum(matched) - 1, mask=~matched)
        context = _Context(query, matches, navigator, faults)
        self._scope = _Scope(context, views if self._place is None else views.take(matched))
        self._seq = matches.rows.seq[answered]
        computed = {measure.name: measure.expression for measure in query.measures}
        names, wanted = self._scope.reads(list(computed.values()))
        columns = [source for source, _ in query.output if source not in computed]
        if columns:
            wanted.append(self._seq)
        context.events = FetchedEvents(fetch, [*names, *columns], wanted)
        self._events = context.events

    def column(self, name: str) -> pa.Array:
        """Return a column of the stream at every row of the answer, with its own type."""
        return self._events.plain(name, self._events.rows(self._seq))

    def attribute(self, attribute: Attribute) -> pa.Array:
        """Return a measure that is a plain attribute where a match is, with its column's type."""
        return self._events.plain(attribute.name, self._scope.rows_of(attribute))

    def values(self, expression: Expression) -> Values:
        """Return any measure where a match is."""
        return self._scope.evaluate(expression)

    def spread(self, measured: pa.Array) -> pa.Array:
        """Return a measure at every row of the answer: NULL at those unmatched."""
        return measured if self._place is None else measured.take(self._place)


class _Context:
    """What all scopes of some matches share."""

    events: FetchedEvents

    def __init__(
        self, query: BoundPatternQuery, matches: Matches, navigator: Navigator, faults: Faults
    ) -> None:
        self.matches = matches
        self.navigator = navigator
        self.faults = faults
        self.symbols = pa.array(query.symbols, pa.string())
        self._scopes: dict[SymbolSet, _Scope] = {}
        self._arguments: dict[tuple[SymbolSet, str], Values] = {}

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


class _Scope:
    """Rows that expressions are evaluated at; a source of attributes for `evaluate`."""

    def __init__(self, context: _Context, views: Views) -> None:
        self.n_rows = len(views)
        self.views = views
        self._context = context
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
            elif isinstance(part, Aggregate) and part.argument is not None:
                inner_names, inner_wanted = self._context.scope_of(part.symbols).reads(
                    [part.argument]
                )
                names |= inner_names
                wanted += inner_wanted
        return names, wanted

    def evaluate(self, expression: Expression) -> Values:
        """Return an expression's values."""
        return evaluate(expression, self, self._context.faults, match_values=self._match_values)

    def at(self, attribute: Attribute) -> Values:
        """Return an attribute's values."""
        return self._context.events.values(attribute, self.rows_of(attribute))

    def rows_of(self, attribute: Attribute) -> IntArray:
        """Return which of the fetched events an attribute is read from, -1 for none."""
        key = attribute.anchor, attribute.offset
        if key not in self._rows:
            self._rows[key] = self._context.events.rows(self._seq_of(attribute))
        return self._rows[key]

    def _seq_of(self, attribute: Attribute) -> IntArray:
        key = attribute.anchor, attribute.offset
        if key not in self._seq:
            self._seq[key] = self._context.navigator.seq_of(*key, self.views)
        return self._seq[key]

    def _match_values(self, what: MatchValue) -> Values:
        matches, match = self._context.matches, self.views.match
        if isinstance(what, Aggregate):
            return self._aggregate(what)
        if isinstance(what, MatchNumber):
            return Values(matches.number[match], None)
        if isinstance(what, TimedOut):
            flags = matches.timed_out
            none = np.zeros(self.n_rows, np.bool_)
            return Values(none if flags is None else flags[match], None)
        symbol = self._context.navigator.symbol_of(what.anchor, what.offset, self.views)
        return Values(self._context.symbols.take(pa.array(symbol, mask=symbol < 0)), None)

    def _aggregate(self, what: Aggregate) -> Values:
        _, counts = self._context.navigator.mapped(what.symbols)
        views = self.views
        spans = Spans(
            self._context.scope_of(what.symbols).views.match,
            counts[views.begins],
            counts[views.match_ends if what.final else views.ends],
        )
        return aggregate(what, self._context.argument(what), spans, self._context.faults)


def _parts(expression: Expression) -> Iterator[Expression]:
    """Yield the parts of an expression that are evaluated where it is; no aggregate's argument."""
    yield expression
    if isinstance(expression, Call):
        for argument in expression.args:
            yield from _parts(argument)
