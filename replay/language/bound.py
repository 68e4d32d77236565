"""What the binder makes of a query: names resolved, types known, nothing left to guess.

Planning reads ranges out of it and the operators execute it; neither sees text again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import Enum

from replay.expressions.nodes import (
    CURRENT,
    MATCH_LAST,
    Aggregate,
    Anchor,
    AnchorKind,
    Asked,
    Attribute,
    Call,
    Change,
    Classifier,
    DataType,
    Expression,
    Literal,
    MatchNumber,
    ScalarQuery,
    SortKey,
    SymbolSet,
    TimedOut,
    attributes,
    rewritten,
    walk,
)

__all__ = [
    "CURRENT",
    "MATCH_LAST",
    "Aggregate",
    "Anchor",
    "AnchorKind",
    "Asked",
    "Attribute",
    "Call",
    "Classifier",
    "DataType",
    "Expression",
    "Literal",
    "MatchNumber",
    "ScalarQuery",
    "SortKey",
    "SymbolSet",
    "TimedOut",
    "attributes",
    "rewritten",
    "walk",
]
# Expressions are part of a query, so whoever takes a query apart finds them here too.


# ---------------------------------------------------------------------------------------------
# Row patterns. Symbols are indices into BoundPatternQuery.symbols.


@dataclass(frozen=True, slots=True)
class Symbol:
    """One row that satisfies the symbol's condition."""

    index: int


@dataclass(frozen=True, slots=True)
class Concat:
    """Parts one after the other; no part at all is the empty pattern."""

    parts: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True)
class Alternate:
    """One of the branches, the earlier preferred."""

    branches: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """``body`` at least ``low`` and at most ``high`` times (None: no limit).

    Greedy prefers one more, reluctant prefers to stop. An iteration beyond ``low`` that maps no
    row ends the repetition.
    """

    body: Pattern
    low: int
    high: int | None
    greedy: bool = True


@dataclass(frozen=True, slots=True)
class Exclusion:
    """``{- body -}``: its rows are matched but left out of the output of ALL ROWS PER MATCH."""

    body: Pattern


class EdgeKind(Enum):
    """Which end of a partition."""

    START = "^"
    END = "$"


@dataclass(frozen=True, slots=True)
class Edge:
    """``^``: no row of the partition before; ``$``: none after. Maps no row."""

    kind: EdgeKind


@dataclass(frozen=True, slots=True)
class Negation:
    """``!X``: no row where it stands satisfies X's condition; see ``docs/sql.md``. Maps no row."""

    index: int


Pattern = Symbol | Concat | Alternate | Repeat | Exclusion | Edge | Negation
"""PERMUTE is written with Alternate and Concat, in lexicographic order of its elements."""


class SkipMode(Enum):
    """Where the search goes on after a match (an empty match always goes on at the next row)."""

    PAST_LAST_ROW = "PAST LAST ROW"
    TO_NEXT_ROW = "TO NEXT ROW"
    TO_FIRST = "TO FIRST"
    TO_LAST = "TO LAST"


class RowsPerMatch(Enum):
    """Which rows of the answer a match gives."""

    ONE = "ONE ROW PER MATCH"
    ALL_SHOW_EMPTY = "ALL ROWS PER MATCH SHOW EMPTY MATCHES"
    ALL_OMIT_EMPTY = "ALL ROWS PER MATCH OMIT EMPTY MATCHES"
    ALL_WITH_UNMATCHED = "ALL ROWS PER MATCH WITH UNMATCHED ROWS"


class Semantics(Enum):
    """Which matches there are."""

    SQL = "SQL"  # one per start row, by preferment, then AFTER MATCH SKIP
    CONTIGUOUS = "CONTIGUOUS"  # every mapping to consecutive rows
    SKIP_TILL_NEXT = "SKIP TILL NEXT"
    SKIP_TILL_ANY = "SKIP TILL ANY"


@dataclass(frozen=True, slots=True)
class Measure:
    """A column of the result."""

    name: str
    expression: Expression

    @property
    def type(self) -> DataType | None:
        """Return its type; None for an array, which can only be selected."""
        return None if is_array(self.expression) else self.expression.type


def is_array(expression: Expression) -> bool:
    """Tell whether a measure is an array of values, whose type its own is."""
    return isinstance(expression, Aggregate) and expression.function == "array"


@dataclass(frozen=True, slots=True)
class BoundPatternQuery:
    """A ``MATCH_RECOGNIZE`` query, ready to be planned and run."""

    stream: str
    time: str
    """Name of the time column (ORDER BY), or `ROW_NUMBER`."""
    time_type: DataType
    partition_by: tuple[str, ...]
    symbols: tuple[str, ...]
    """Names in order of first appearance in PATTERN."""
    pattern: Pattern
    defines: tuple[Expression | None, ...]
    """Condition of each symbol; None: always true."""
    within: int | None
    """Greatest ``last.t - first.t``: microseconds, or the unit of an integer time column."""
    skip: SkipMode
    measures: tuple[Measure, ...]
    output: tuple[tuple[str, str], ...]
    """Columns of the answer as (source, name): source is a measure, or a column of the stream."""
    limit: int | None = None
    """Only the first so many matches (rows of the answer, with ALL ROWS PER MATCH) in canonical
    order. Where there is an `outer`, so many that it needs no further one; its own LIMIT holds."""
    skip_to: SymbolSet = None
    """The symbols of SKIP TO FIRST or LAST."""
    rows_per_match: RowsPerMatch = RowsPerMatch.ONE
    semantics: Semantics = Semantics.SQL
    with_timeouts: bool = False
    order_by: tuple[str, ...] = ()
    """Columns that order events of the same time, NULLs last, before their order of arrival."""
    outer: Outer | None = None
    """What the outer query does with the answer; None: nothing but `limit`."""
    source: Relation | None = None
    """Where its rows come from; None: the stream `stream`."""
    windows: PatternWindows | None = None
    """The answer is that over the rows of each window, one window after the other; None: over all
    rows. Columns of ``output`` may be `WINDOW_START` and `WINDOW_END`."""


@dataclass(frozen=True, slots=True)
class Outer:
    """The outer query: expressions over the columns of the answer of MATCH_RECOGNIZE.

    Attributes name columns of ``BoundPatternQuery.output``, anchored at CURRENT.
    """

    items: tuple[tuple[str, Expression], ...]
    """Columns of the result: name and expression; with Aggregates where rows are grouped."""
    where: Expression | None = None
    group_by: tuple[Expression, ...] | None = None
    """None: not grouped; no expression at all: one group of all rows."""
    having: Expression | None = None
    order_by: tuple[SortKey, ...] = ()
    """Ties keep canonical order."""
    distinct: bool = False
    limit: int | None = None
    offset: int = 0
    groups_ascend: bool = False
    """Whether groups come by their keys, ascending and missing ones last, not by their first rows:
    those of patterns in windows."""

    @property
    def is_row_by_row(self) -> bool:
        """Whether a row of the outer query depends on one row of the inner one alone."""
        across = self.group_by is not None or self.having is not None
        return not (across or self.order_by or self.distinct)

    @property
    def is_plain(self) -> bool:
        """Whether rows are only filtered, in their order, and each made one of the answer."""
        return self.is_row_by_row and self.limit is None and not self.offset

    @property
    def rows_enough(self) -> int | None:
        """How many rows of the inner query the answer can depend on; None: on all."""
        across = self.where is not None or not self.is_row_by_row
        return None if across or self.limit is None else self.offset + self.limit

    @property
    def expressions(self) -> list[Expression]:
        """All there are: of the columns, of WHERE, GROUP BY, HAVING and ORDER BY."""
        columns = [expression for _, expression in self.items]
        conditions = [part for part in (self.where, self.having) if part is not None]
        keys = [key.expression for key in self.order_by]
        return [*columns, *conditions, *(self.group_by or ()), *keys]

    def rewritten(self, change: Change) -> Outer:
        """Return the same with parts of its expressions replaced, as by :func:`rewritten`."""
        by, keys = self.order_by, self.group_by
        return replace(
            self,
            items=tuple((name, rewritten(part, change)) for name, part in self.items),
            where=None if self.where is None else rewritten(self.where, change),
            group_by=None if keys is None else tuple(rewritten(key, change) for key in keys),
            having=None if self.having is None else rewritten(self.having, change),
            order_by=tuple(replace(k, expression=rewritten(k.expression, change)) for k in by),
        )

    def over_groups(self, change: Change) -> Outer:
        """Return what is left to be done with one row per group, with parts replaced likewise."""
        over = self.rewritten(change)
        return replace(over, where=over.having, group_by=None, having=None)


def pattern_parts(pattern: Pattern) -> Iterator[Pattern]:
    """Yield the pattern and all parts of it, parents first."""
    yield pattern
    match pattern:
        case Concat(inner) | Alternate(inner):
            for part in inner:
                yield from pattern_parts(part)
        case Repeat(body) | Exclusion(body):
            yield from pattern_parts(body)


def edges(pattern: Pattern) -> set[EdgeKind]:
    """Return which ends of a partition the pattern asks for."""
    return {part.kind for part in pattern_parts(pattern) if isinstance(part, Edge)}


def is_nullable(pattern: Pattern) -> bool:
    """Tell whether the pattern can map no row."""
    match pattern:
        case Symbol():
            return False
        case Concat(parts):
            return all(map(is_nullable, parts))
        case Alternate(branches):
            return any(map(is_nullable, branches))
        case Repeat(body, low):
            return low == 0 or is_nullable(body)
        case Exclusion(body):
            return is_nullable(body)
    return True


# ---------------------------------------------------------------------------------------------
# Relations: what stands after FROM. Their columns are named by the names of `Columns`; a stream's
# are its own, those of a join are told apart by the binder.

WINDOW_START = "window_start"
WINDOW_END = "window_end"
ROW_NUMBER = "(row number)"
"""The time of a row pattern whose ORDER BY is none of time: rows numbered in that order."""
JOIN_TIME = "join_time"
"""The last column of a windowed join: the later of the times of a pair, of a left event without
partner its own."""

Columns = tuple[tuple[str, DataType | None], ...]
"""Name and type of each column of a relation; None for a type that can only be selected."""


# ---------------------------------------------------------------------------------------------
# Windows. Times are internal: microseconds, or the unit of an integer time column.


@dataclass(frozen=True, slots=True)
class Calendar:
    """What windows are measured in whose length varies: months, or days of a zone's clocks.

    Unit k begins ``phase`` microseconds after clocks show the begin of the k-th month, or day,
    from 1970-01-01 on.
    """

    of_months: bool
    zone: str | None = None
    """Whose clocks tell; None: those of the time column, whose days all have 24 hours."""
    phase: int = 0
    """At least 0, and less than a day; of months less than 28."""


@dataclass(frozen=True, slots=True)
class TimeWindows:
    """HOP and TUMBLE: ``[origin + k slide, origin + k slide + size)`` for every whole k.

    All that overlap [first event, last event] are part of the answer (thesis Def. 2.8).
    """

    size: int
    slide: int
    """At least 1 and at most ``size``."""
    origin: int | None = None
    """None: the time of the stream's first event, whatever the WHERE; not with a calendar."""
    calendar: Calendar | None = None
    """What size, slide and origin are units of; None: of time."""


@dataclass(frozen=True, slots=True)
class CumulateWindows:
    """CUMULATE: from ``origin + k size`` to each step after it, ``size`` the last."""

    step: int
    size: int
    """A multiple of ``step``."""
    origin: int | None = None
    calendar: Calendar | None = None


@dataclass(frozen=True, slots=True)
class SessionWindows:
    """SESSION: events less than ``gap`` apart; ends ``gap`` after its last event."""

    gap: int
    partition_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RowWindows:
    """HOP_ROWS and TUMBLE_ROWS: ``size`` rows from every ``slide``-th on, full ones only.

    Thesis Def. 2.7. Starts and ends are the times of the first and the last row.
    """

    size: int
    slide: int
    partition_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WholeRange:
    """One window of all events: an aggregate without window function.

    It is part of the answer also without events, unless there are keys.
    """


Windows = TimeWindows | CumulateWindows | SessionWindows | RowWindows | WholeRange


@dataclass(frozen=True, slots=True)
class SlidingWindows:
    """SLIDING: ``[T - size + 1, T + 1)`` for each distinct time T of the source's events."""

    size: int


PatternWindows = TimeWindows | CumulateWindows | SlidingWindows
"""Windows in which patterns are matched."""


# ---------------------------------------------------------------------------------------------
# Relations


@dataclass(frozen=True, slots=True)
class OneRow:
    """One row without columns, which a SELECT without FROM reads."""

    columns: Columns = ()
    time: None = None


@dataclass(frozen=True, slots=True)
class StreamRelation:
    """A stream of a store, or a table in memory."""

    name: str
    columns: Columns
    time: str | None
    """Its time column; None for a table in memory where nothing names one."""


@dataclass(frozen=True, slots=True)
class SubqueryRelation:
    """The answer of a query, in its order."""

    query: BoundQuery
    columns: Columns
    time: str | None
    """The column that carries time on, ascending in the answer; None if none does."""


class JoinKind(Enum):
    """Which pairs, and which events without one."""

    INNER = "JOIN"
    LEFT = "LEFT JOIN"
    ASOF = "ASOF JOIN"
    ASOF_LEFT = "ASOF LEFT JOIN"


@dataclass(frozen=True, slots=True)
class JoinWindow:
    """Window over one side, of which an event of the other sees the active one (thesis Def. 2.9).

    Active at time T is the latest window that is complete by then. Of time windows
    ``[origin + k slide, origin + k slide + size)``, origin being the first event of that side
    whatever the conditions, the one with the greatest whole k that ends at T + 1 or before; with
    slide 1, the events of ``(T - size, T]``. Of count windows, rows ``k slide`` to
    ``k slide + size`` with the greatest k >= 0 for which all of them have come by T, those of time
    T included; none before ``size`` rows have come.
    """

    size: int
    """Units of time or rows, at least 1; at most 2^61."""
    slide: int = 1
    """At least 1 and at most ``size``."""
    in_rows: bool = False


@dataclass(frozen=True, slots=True)
class JoinRelation:
    """Two relations joined; columns of the left come first.

    ``columns`` name the result's, `JOIN_TIME` last unless it is an ASOF join; ``left_names`` and
    ``right_names`` say which column of which side each is, in the same order.
    """

    kind: JoinKind
    left: Relation
    right: Relation
    columns: Columns
    left_names: tuple[str, ...]
    right_names: tuple[str, ...]
    equal: tuple[tuple[str, str], ...]
    """Columns of one type that must be equal: (left's own name, right's own name)."""
    condition: Expression | None
    """What else must hold, over ``columns``; of ASOF each term reads one side at most."""
    left_window: JoinWindow | None
    """Which left events an event of the right sees; None for ASOF."""
    right_window: JoinWindow | None
    """Which right events an event of the left sees; None only for ASOF without WITHIN, and of
    ``asof_forward`` how far ahead its partner may be."""
    time: str
    """Name in ``columns`` of the time of the pair: `JOIN_TIME`, of an ASOF join the left's time."""
    left_time: str = ""
    right_time: str = ""
    asof_strict: bool = False
    """ASOF: whether the right event must not be at the time of the left one (``>``, ``<``)."""
    asof_forward: bool = False
    """ASOF: whether the right event is the next one (``<=``, ``<``), not the latest before."""
    null_safe: tuple[bool, ...] = ()
    """Of each of ``equal``, whether a missing value equals a missing one; empty: of none."""


@dataclass(frozen=True, slots=True)
class Situation:
    """A condition, and how long its situations last; durations are internal as times are."""

    name: str
    condition: Expression
    at_least: int | None = None
    at_most: int | None = None


DETECTION_TIME = "detection_time"
"""The last column of a temporal pattern, by which its rows ascend."""


@dataclass(frozen=True, slots=True)
class SituationRelation:
    """A temporal pattern over the situations of a source; of one situation alone, these.

    ``columns`` are those of PARTITION BY, of RETURN, start and end of each situation, and
    `DETECTION_TIME`.
    """

    source: Relation
    source_time: Attribute
    partition_by: tuple[str, ...]
    valid_for: int | None
    """How long an event speaks when no other follows; None: until one does."""
    situations: tuple[Situation, ...]
    pairs: tuple[tuple[int, int, int], ...]
    """Two situations by their places, and the relations of the first to the second
    (`replay.language.allen`); each pair once."""
    within: int | None
    is_final: bool
    """Whether a match is told once all its situations are over (EMIT FINAL)."""
    returns: tuple[Measure, ...]
    """Expressions over columns of PARTITION BY and Aggregates, ``symbols`` of which is the
    situation whose rows are aggregated."""
    columns: Columns
    time: str = DETECTION_TIME


Relation = OneRow | StreamRelation | SubqueryRelation | JoinRelation | SituationRelation


# ---------------------------------------------------------------------------------------------
# Queries


@dataclass(frozen=True, slots=True)
class BoundSelect:
    """``SELECT … FROM relation …`` without MATCH_RECOGNIZE.

    Rows are the relation's, in its order. With ``windows`` a row counts for each of its windows
    and has the columns window_start and window_end besides; it is then grouped by window.
    """

    source: Relation
    outer: Outer
    windows: Windows | None
    columns: Columns
    """Of the answer."""
    time: str | None
    """The column of the answer that carries time on, ascending; None if none does."""

    @property
    def is_plain(self) -> bool:
        """Whether rows are only filtered, in their order, and each made one of the answer."""
        return self.windows is None and self.outer.is_plain


@dataclass(frozen=True, slots=True)
class BoundCreate:
    """``CREATE STREAM name AS query``."""

    name: str
    query: BoundSelect | BoundPatternQuery
    time: str
    """Time column of the new stream."""


BoundQuery = BoundSelect | BoundPatternQuery


# ---------------------------------------------------------------------------------------------
# What the operators of aggregation are told


@dataclass(frozen=True, slots=True)
class WindowAggregation:
    """The aggregation inside a `BoundSelect`: what is computed for every window and key.

    The operators give one row per window and key, in the order of window start, window end and
    keys ascending (missing last), with the columns window_start, window_end, ``key_names`` and
    ``aggregate_names``. ``rest`` is done with these rows.
    """

    windows: Windows
    time: str
    """Time column of the stream; empty where `WholeRange` meets a table in memory without one."""
    where: Expression | None
    """Over columns of the stream."""
    keys: tuple[Expression, ...]
    key_names: tuple[str, ...]
    aggregates: tuple[Aggregate, ...]
    """Each once."""
    aggregate_names: tuple[str, ...]
    rest: Outer = field(compare=False)
    """SELECT, HAVING (as its ``where``), ORDER BY, DISTINCT, LIMIT over these columns."""
