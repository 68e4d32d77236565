"""Operators of a query one after the other, over rows that are pushed: offline and online alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np
import pyarrow as pa

from chronicle.time import is_ascending, to_int64
from replay.engines.scan import in_units
from replay.errors import NotSupportedError, QueryError
from replay.language.aggregation import to_aggregation
from replay.language.bound import (
    ROW_NUMBER,
    WINDOW_END,
    WINDOW_START,
    Attribute,
    BoundPatternQuery,
    BoundQuery,
    DataType,
    Outer,
    SituationRelation,
    SubqueryRelation,
    WholeRange,
    WindowAggregation,
)
from replay.language.required_columns import in_stream_order
from replay.language.simplify import without_order
from replay.language.symbol_aggregates import with_arrays
from replay.limits import check_limits
from replay.operators.outer_pieces import (
    Alike,
    CountingOperator,
    Counts,
    Gap,
    Operator,
    OuterOperator,
    SkippingOperator,
    ToldOperator,
)
from replay.operators.packing import State
from replay.operators.whole_numbers import WHOLE
from replay.patterns.program import MatchProgram, summed_as_pushed, summed_in_windows
from replay.running.online_query import OnlineQuery
from replay.running.scalars import scalar_queries
from replay.running.statement import Statement, to_statement

if TYPE_CHECKING:
    from replay.patterns.together import InWindows

_BORDERS = (WINDOW_START, WINDOW_END)

Enter = Callable[[BoundPatternQuery, MatchProgram], "Callable[[], tuple[InWindows, int] | None]"]
"""See `Together.enter_windows`."""


def operators_of(
    query: BoundQuery, *, eager: bool = False, told_max: int | None = None
) -> list[Operator]:
    """Return what the rows of a query's source pass through to become its answer.

    ``eager`` has windows told as soon as they are over, as one wants it online; of ``told_max`` see
    `allowed_to_tell`.
    """
    checks = _checks(query)
    if isinstance(query, BoundPatternQuery):
        return [*checks, *(matching_online(query) if eager else matching(query))]
    what = to_aggregation(query)
    if what is not None:
        return [*checks, *aggregating(what, eager=eager, told_max=told_max)]
    outer, backward = in_stream_order(query.outer, query.source.time)
    return [*checks, OuterOperator(query.outer if backward else outer)]


def situating(relation: SituationRelation) -> list[Operator]:
    """Return what the rows of its source pass through to become the matches of a pattern."""
    from replay.situations.operator import SituationOperator  # no other query needs them
    from replay.windows.group_aggregator import GroupAggregator

    below = isinstance(relation.source, SubqueryRelation)
    checks: list[Operator] = [TimeCheck(relation.source_time.name)] if below else []
    return [*checks, Late(lambda schema: SituationOperator(relation, schema, GroupAggregator))]


def _checks(query: BoundQuery) -> list[Operator]:
    """Return a check of the time of a subquery's rows, where something depends on it."""
    if not isinstance(query.source, SubqueryRelation):
        return []
    if isinstance(query, BoundPatternQuery):
        return [RowNumbers() if query.time == ROW_NUMBER else TimeCheck(query.time)]
    time = query.source.time
    in_order, _ = in_stream_order(query.outer, time)
    needs_time = query.windows is not None or in_order.order_by != query.outer.order_by
    return [TimeCheck(time)] if time is not None and needs_time else []


def aggregating(
    what: WindowAggregation,
    *,
    span: tuple[int, int] | None = None,
    eager: bool = False,
    told_max: int | None = None,
) -> list[Operator]:
    """Return the operators of a window aggregation and of what is done with its rows.

    ``span`` holds first and last time of the stream where they are known.
    """
    from replay.windows.aggregator import WindowAggregator

    allowed = allowed_to_tell(what, told_max)

    def aggregator(schema: pa.Schema) -> AnswersOfSchema:
        return WindowAggregator(what, schema, span=span, eager=eager, told_max=allowed)

    return [Late(aggregator), *finishing(what)]


def finishing(what: WindowAggregation) -> list[Operator]:
    """Return what is done with the rows of a window aggregation."""
    return [OuterOperator(_rest_in_order(what))]


def allowed_to_tell(what: WindowAggregation, told_max: int | None) -> int | None:
    """Return how many windows there may be to tell, with LIMIT any number if it ends them early.

    ``told_max`` holds for an answer that is kept whole; None: this one comes piece by piece.
    """
    rest = _rest_in_order(what)
    if told_max is None or rest.limit is None or rest.where is not None or not rest.is_row_by_row:
        return told_max
    return None if rest.offset + rest.limit <= told_max else told_max


def _rest_in_order(what: WindowAggregation) -> Outer:
    borders = () if isinstance(what.windows, WholeRange) else _BORDERS
    return without_order(what.rest, (*borders, *what.key_names))


def matching(
    query: BoundPatternQuery, *, first: int | None = None, enter: Enter | None = None
) -> list[Operator]:
    """Return the operators of a row pattern and of the outer query around it.

    ``first`` is the time of the stream's first event, where it is known; ``enter`` takes note of
    sums in windows, which may then be found with those of other queries.

    Raises a NotSupportedError for subqueries in MEASURES that have no value yet: online.
    """
    _check_no_scalars(query)
    summed = summed_in_windows(query)
    if summed is not None:
        from replay.running.windowed_patterns import WindowedSums  # nor these

        together = None if enter is None else enter(query, summed)
        make = partial(WindowedSums, query, summed, first=first, together=together)
        return [Late(make, is_told=False)]
    pushed = summed_as_pushed(query)
    if pushed is not None:
        from replay.running.summed_patterns import PatternSums

        return [Late(partial(PatternSums, query, pushed), is_told=False)]
    query = with_arrays(query)
    inner = Late(partial(_inner, replace(query, outer=None), first))
    return [inner] if query.outer is None else [inner, OuterOperator(query.outer)]


def matching_online(query: BoundPatternQuery) -> list[Operator]:
    """Return the operators of a row pattern and of the outer query around it, for rows to come.

    Raises a NotSupportedError for an outer query that has no row before the rows end.
    """
    query = replace(query, outer=_without_window_order(query))
    outer = query.outer
    if outer is None or not (outer.order_by or _is_grouped(outer)):
        return matching(query)
    if query.windows is None or outer.order_by:
        raise whole_answer_needed()
    from replay.running.windowed_patterns import (  # no other query needs it
        GroupedMatching,
        WindowedSums,
        grouped_by_window,
    )

    if not grouped_by_window(outer):
        raise whole_answer_needed()
    _check_no_scalars(query)
    items = tuple((name, Attribute(name, expression.type)) for name, expression in outer.items)
    cut = Outer(items, distinct=outer.distinct, limit=outer.limit, offset=outer.offset)
    grouped = replace(query, outer=replace(outer, distinct=False, limit=None, offset=0))
    summed = summed_in_windows(query)
    make: Callable[[pa.Schema], AnswersOfSchema] = (
        partial(GroupedMatching, with_arrays(grouped))
        if summed is None
        else partial(WindowedSums, grouped, summed, eager=True)
    )
    return [Late(make), NumberCheck(query, ONLINE), OuterOperator(cut)]


def whole_answer_needed() -> NotSupportedError:
    """Return the error on what stands around MATCH_RECOGNIZE and has no row before the end."""
    return NotSupportedError(
        "ORDER BY, GROUP BY, aggregates, HAVING and DISTINCT around MATCH_RECOGNIZE need the whole "
        "answer, which an online query never has; have matches be those of windows and write GROUP "
        "BY window_start, leave them out, or use replay.query"
    )


def _is_grouped(outer: Outer) -> bool:
    return outer.group_by is not None or outer.having is not None


def _without_window_order(query: BoundPatternQuery) -> Outer | None:
    """Return the outer query without an ORDER BY that asks for the order of windows and groups."""
    outer = query.outer
    if outer is None or query.windows is None:
        return outer
    keys = outer.group_by
    if keys is None:
        borders = [(source, name) for source, name in query.output if source in _BORDERS]
        return without_order(outer, [name for _, name in sorted(borders, reverse=True)])
    names = [key.name for key in keys if isinstance(key, Attribute)]
    in_order = without_order(replace(outer, group_by=None), names)
    return replace(in_order, group_by=keys) if len(names) == len(keys) else outer


def _check_no_scalars(query: BoundPatternQuery) -> None:
    if scalar_queries(query):
        raise NotSupportedError(
            "a subquery in MEASURES or DEFINE needs its whole answer, which an online query never "
            "has; ask for it before, and give its value as a parameter"
        )


def _inner(query: BoundPatternQuery, first: int | None, schema: pa.Schema) -> AnswersOfSchema:
    if query.windows is not None:
        from replay.running.windowed_patterns import WindowedMatching

        return WindowedMatching(query, schema, first=first)
    return Matching(to_statement(query), schema)


class _HandedOn:
    """What operators share that hand every row on as it comes."""

    n_faults = 0
    is_done = False

    def advance(self, time: int) -> Iterator[pa.Table]:  # noqa: ARG002
        """Yield nothing: no row waits."""
        return iter(())

    def finish(self) -> Iterator[pa.Table]:
        """Yield nothing: no row waits."""
        return iter(())


class RowNumbers(_HandedOn):
    """Rows that are sorted, with their numbers as `ROW_NUMBER`."""

    def __init__(self) -> None:
        self._n_rows = 0

    def push(self, table: pa.Table) -> Iterator[pa.Table]:
        """Give the next rows their numbers, and yield them."""
        numbers = np.arange(self._n_rows, self._n_rows + table.num_rows)
        self._n_rows += table.num_rows
        yield table.append_column(ROW_NUMBER, pa.array(numbers, pa.int64()))

    def state(self) -> State:
        """Return how many rows there were."""
        return {"n_rows": self._n_rows}

    def take_over(self, state: State) -> None:
        """Go on from what `state` gave."""
        self._n_rows = state["n_rows"]


_OF_INTEGER: Final = "CAST(… AS VARCHAR), LOG10(…) or CAST(… AS DECIMAL(76, 0))"
_OF_DECIMAL: Final = "CAST(… AS VARCHAR) or LOG10(…)"
BELOW: Final = (
    "column '{}' of a subquery has a number that {} cannot hold, so no query around can "
    "compute with it; write {} in the subquery"
)
ONLINE: Final = (
    "column '{}' has a number that {} cannot hold, and an online answer has its types before "
    "its rows; write {}"
)


class NumberCheck(_HandedOn):
    """Groups of matches, handed on to what takes numbers of their types: `BELOW` or `ONLINE`."""

    def __init__(self, query: BoundPatternQuery, message: str) -> None:
        self._message = message
        items = () if query.outer is None else query.outer.items
        self._types = {name: part.type for name, part in items if part.type in WHOLE}

    def push(self, table: pa.Table) -> Iterator[pa.Table]:
        """Yield the next rows.

        Raises a QueryError for a count or a sum beyond its type.
        """
        for name, type_ in self._types.items():
            if pa.types.is_decimal256(table.schema.field(name).type):
                ways = _OF_INTEGER if type_ is DataType.INTEGER else _OF_DECIMAL
                raise QueryError(self._message.format(name, type_.value, ways))
        yield table

    def state(self) -> State:
        """Return nothing: there is nothing to know."""
        return {}

    def take_over(self, state: State) -> None:
        """Go on: there is nothing to know."""


class TimeCheck(_HandedOn):
    """Rows of a subquery, handed on as long as their time is there and does not go back."""

    def __init__(self, time: str) -> None:
        self._time = time
        self._last: int | None = None

    def push(self, table: pa.Table) -> Iterator[pa.Table]:
        """Check the next rows and yield them.

        Raises a QueryError for a time that is missing or goes back.
        """
        times = table.column(self._time)
        if times.null_count:
            raise QueryError(
                f"the subquery gives a row without a time in column '{self._time}'; leave such "
                f"rows out: WHERE {self._time} IS NOT NULL"
            )
        values = to_int64(times, name=self._time).to_numpy()
        if len(values):
            if not is_ascending(values) or (self._last is not None and values[0] < self._last):
                raise QueryError(
                    f"the rows of the subquery go back in time in column '{self._time}'; write "
                    f"ORDER BY {self._time} in it"
                )
            self._last = int(values[-1])
        yield table

    def state(self) -> State:
        """Return the time of the last row."""
        return {"last": self._last}

    def take_over(self, state: State) -> None:
        """Go on from what `state` gave."""
        self._last = state["last"]


class AnswersOfSchema(Operator, Protocol):
    """An operator that knows the columns of what it gives."""

    schema: pa.Schema


class Late:
    """An operator that is made once a first table tells the columns of its rows."""

    def __init__(
        self, make: Callable[[pa.Schema], AnswersOfSchema], *, is_told: bool = True
    ) -> None:
        self._make = make
        # Whether its columns are known before the answer is.
        self._is_told = is_told
        self._made: AnswersOfSchema | None = None

    @property
    def n_faults(self) -> int:
        """Faults of rows so far."""
        return 0 if self._made is None else self._made.n_faults

    @property
    def counts(self) -> Counts:
        """What was done so far, in numbers of its own."""
        made: object = self._made
        return made.counts if isinstance(made, CountingOperator) else {}

    @property
    def is_done(self) -> bool:
        """Whether no row to come can change the answer any more."""
        return self._made is not None and self._made.is_done

    def push(self, table: pa.Table) -> Iterator[pa.Table]:
        """Take the next rows and yield what is certain; for the first of them a table, if told."""
        if self._made is None:
            self._made = self._make(table.schema)
            if self._is_told:
                yield self._made.schema.empty_table()
        yield from self._made.push(table)

    def advance(self, time: int) -> Iterator[pa.Table]:
        """Take it that no row to come is before a time."""
        return iter(()) if self._made is None else self._made.advance(time)

    def skip(self, gap: Gap) -> Iterator[pa.Table]:
        """Take it that rows were left out here, where it makes a difference."""
        skip = getattr(self._made, "skip", None)
        return iter(()) if skip is None else skip(gap)

    def tell(self, events: pa.Table, alike: Alike) -> Iterator[pa.Table]:
        """Take the next rows, read or not; a table has told the columns."""
        made: object = self._made
        assert isinstance(made, ToldOperator)
        return made.tell(events, alike)

    def finish(self) -> Iterator[pa.Table]:
        """Yield the rest."""
        return iter(()) if self._made is None else self._made.finish()

    @property
    def reached(self) -> int | None:
        """The time before which no further row comes out; None: not known."""
        return getattr(self._made, "reached", None)

    def state(self) -> State:
        """Return what is known and kept, once a table has told the columns."""
        assert self._made is not None
        return self._made.state()

    def take_over(self, state: State) -> None:
        """Go on from what `state` gave; a table must have told the columns here, too."""
        assert self._made is not None
        self._made.take_over(state)


class Matching:
    """A row pattern without an outer query, over rows that are pushed."""

    def __init__(self, statement: Statement, schema: pa.Schema) -> None:
        self._online = OnlineQuery(statement, schema)
        self.schema = self._online.schema

    @property
    def n_faults(self) -> int:
        """Faults of rows so far."""
        return self._online.n_faults

    @property
    def is_done(self) -> bool:
        """Whether LIMIT has enough."""
        return self._online.is_done

    def push(self, table: pa.Table) -> Iterator[pa.Table]:
        """Take the next rows and yield the matches that are certain."""
        yield self._online.push(table)

    def advance(self, time: int) -> Iterator[pa.Table]:  # noqa: ARG002
        """Yield nothing: matches wait for the next row."""
        return iter(())

    def finish(self) -> Iterator[pa.Table]:
        """Yield the rest of the matches."""
        yield self._online.finish()

    def state(self) -> State:
        """Return what is known and kept."""
        return self._online.state()

    def take_over(self, state: State) -> None:
        """Go on from what `state` gave."""
        self._online.take_over(state)


class Chain:
    """Operators one after the other, as one."""

    def __init__(self, operators: Sequence[Operator]) -> None:
        self._operators = tuple(operators)

    @property
    def n_faults(self) -> int:
        """Faults of rows so far, of all of them."""
        return sum(operator.n_faults for operator in self._operators)

    @property
    def counts(self) -> Counts:
        """What was done so far, in numbers of their own."""
        return {
            kind: counts
            for operator in self._operators
            if isinstance(operator, CountingOperator)
            for kind, counts in operator.counts.items()
        }

    @property
    def is_done(self) -> bool:
        """Whether no row to come can change the answer any more."""
        return any(operator.is_done for operator in self._operators)

    def push(self, table: pa.Table) -> Iterator[pa.Table]:
        """Take the next rows and yield what comes out at the other end."""
        return _pushed([table], self._operators)

    def skip(self, gap: Gap) -> Iterator[pa.Table]:
        """Take it that rows were left out here, where it makes a difference."""
        first, *rest = self._operators
        return _pushed(first.skip(gap), rest) if isinstance(first, SkippingOperator) else iter(())

    def tell(self, events: pa.Table, alike: Alike) -> Iterator[pa.Table]:
        """Take the next rows, read or not."""
        first, *rest = self._operators
        assert isinstance(first, ToldOperator)
        return _pushed(first.tell(events, alike), rest)

    def advance(self, time: int) -> Iterator[pa.Table]:
        """Take it that no row to come is before a time, as far as operators hand times on."""
        for place, operator in enumerate(self._operators):
            yield from _pushed(operator.advance(time), self._operators[place + 1 :])
            if not _keeps_times(operator):
                reached = getattr(operator, "reached", None)
                if reached is None:
                    return
                time = reached

    def finish(self) -> Iterator[pa.Table]:
        """Yield the rest."""
        for place, operator in enumerate(self._operators):
            rest = self._operators[place + 1 :]
            if not any(later.is_done for later in rest):
                yield from _pushed(operator.finish(), rest)

    @property
    def reached(self) -> int | None:
        """The time before which no further row comes out, where an operator tells it; else None."""
        told = [operator for operator in self._operators if not _keeps_times(operator)]
        return getattr(told[-1], "reached", None) if told else None

    @property
    def keeps_times(self) -> bool:
        """Whether rows come out as they go in, with their times."""
        return all(map(_keeps_times, self._operators))

    def state(self) -> State:
        """Return what each of them knows and keeps."""
        return {"operators": [operator.state() for operator in self._operators]}

    def take_over(self, state: State) -> None:
        """Go on from what `state` gave."""
        for operator, own in zip(self._operators, state["operators"], strict=True):
            operator.take_over(own)


def _keeps_times(operator: Operator) -> bool:
    is_row_by_row = isinstance(operator, OuterOperator) and not operator.needs_end
    return is_row_by_row or isinstance(operator, TimeCheck)


def _pushed(tables: Iterable[pa.Table], operators: Sequence[Operator]) -> Iterator[pa.Table]:
    if not operators:
        yield from tables
        return
    for piece in chain.from_iterable(map(in_units, tables)):
        check_limits()
        yield from _pushed(operators[0].push(piece), operators[1:])
        if operators[0].is_done:
            return
