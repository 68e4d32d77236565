"""What the binder makes of queries without a row pattern: relations, windows, joins.

Everything is resolved and typed as in ``bound``. Columns of a relation are named by the names of
`Columns`; a stream's are its own, those of a join are told apart by the binder.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from replay.language.bound import Aggregate, BoundPatternQuery, DataType, Expression, Outer

WINDOW_START = "window_start"
WINDOW_END = "window_end"
JOIN_TIME = "join_time"
"""The last column of a windowed join: the later of the times of a pair, of a left event without
partner its own."""

Columns = tuple[tuple[str, DataType | None], ...]
"""Name and type of each column of a relation; None for a type that can only be selected."""


# ---------------------------------------------------------------------------------------------
# Windows. Times are internal: microseconds, or the unit of an integer time column.


@dataclass(frozen=True, slots=True)
class TimeWindows:
    """HOP and TUMBLE: ``[origin + k slide, origin + k slide + size)`` for every whole k.

    All that overlap [first event, last event] are part of the answer (thesis Def. 2.8).
    """

    size: int
    slide: int
    """At least 1 and at most ``size``."""
    origin: int | None = None
    """None: the time of the stream's first event, whatever the WHERE."""


@dataclass(frozen=True, slots=True)
class CumulateWindows:
    """CUMULATE: from ``origin + k size`` to each step after it, ``size`` the last."""

    step: int
    size: int
    """A multiple of ``step``."""
    origin: int | None = None


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


# ---------------------------------------------------------------------------------------------
# Relations


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
    """What else must hold, over ``columns``; None for ASOF."""
    left_window: JoinWindow | None
    """Which left events an event of the right sees; None for ASOF."""
    right_window: JoinWindow | None
    """Which right events an event of the left sees; None only for ASOF without WITHIN."""
    time: str
    """Name in ``columns`` of the time of the pair: `JOIN_TIME`, of an ASOF join the left's time."""
    left_time: str = ""
    right_time: str = ""
    asof_strict: bool = False
    """ASOF: whether the right event must be before the left one (``>``), not at it (``>=``)."""


Relation = StreamRelation | SubqueryRelation | JoinRelation


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
