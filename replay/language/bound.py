"""What the binder makes of a query: names resolved, types known, nothing left to guess.

Planning reads ranges out of it and the operators execute it; neither sees text again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum


class DataType(Enum):
    """Type of an expression, and how its values are carried."""

    BOOLEAN = "BOOLEAN"
    INTEGER = "INTEGER"  # int64
    DOUBLE = "DOUBLE"
    STRING = "STRING"
    TIMESTAMP = "TIMESTAMP"  # int64 microseconds of a local clock, no zone
    TIMESTAMP_UTC = "TIMESTAMP WITH TIME ZONE"  # int64 microseconds since the epoch, UTC
    DATE = "DATE"  # int64 days since the epoch
    INTERVAL = "INTERVAL"  # int64 microseconds
    NULL = "NULL"  # the literal NULL before it takes a type


class AnchorKind(Enum):
    """How the row an attribute is read from is found."""

    CURRENT = "current"  # the row under test; in DEFINE only
    FIRST = "first"  # first row mapped to the symbol
    LAST = "last"  # last row mapped to the symbol


@dataclass(frozen=True, slots=True)
class Anchor:
    """The row of a match an attribute is read from.

    In DEFINE of ``B``: ``x``, ``B.x``, ``LAST(B.x)``, ``LAST(x)`` are CURRENT; ``A.x`` and
    ``LAST(A.x)`` are LAST of A; ``FIRST(x)`` is FIRST of the whole match; ``FIRST(B.x)`` is FIRST
    of B, the current row counting as one of B. In MEASURES ``x`` is LAST of the whole match.
    """

    kind: AnchorKind
    symbol: int | None = None
    """Index into ``BoundPatternQuery.symbols``; None: any symbol (and always None for CURRENT)."""


CURRENT = Anchor(AnchorKind.CURRENT)


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant. ``value`` is int (also for times and intervals), float, str, bool or None."""

    value: int | float | str | bool | None
    type: DataType


@dataclass(frozen=True, slots=True)
class Attribute:
    """An attribute of the event ``offset`` physical rows after the anchor's row.

    ``PREV(x, n)`` has offset -n, ``NEXT(x, n)`` has n. A row outside the partition gives NULL.
    """

    name: str
    type: DataType
    anchor: Anchor = CURRENT
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Call:
    """An operator or function over arguments of exactly the types it needs.

    The binder inserts ``cast`` so that no operator sees mixed types. Operators:

    ``+ - * / %`` (both arguments of one numeric type; integer ``/`` truncates towards zero, ``%``
    has the sign of the dividend), also TIMESTAMP ± INTERVAL, INTERVAL ± INTERVAL,
    TIMESTAMP - TIMESTAMP (INTERVAL), DATE - DATE (INTEGER, days), INTERVAL * INTEGER; ``neg``;
    ``= <> < <= > >=`` (both arguments of one type); ``and or`` (n-ary), ``not``; ``is_null``;
    ``in`` (value, then literals); ``like`` (value, pattern literal[, escape literal]);
    ``case`` (condition, value, condition, value, …, otherwise); ``coalesce``, ``nullif``,
    ``cast`` (to ``type``); functions by lower-case name: ``abs floor ceil round sqrt ln exp
    power mod lower upper length``.

    BETWEEN, NOT IN, IS NOT NULL and the like are written with these.
    Faults of a row (division by zero, overflow, domain) give NULL and are counted.
    NULL and NaN make any comparison UNKNOWN.
    """

    op: str
    args: tuple[Expression, ...]
    type: DataType


@dataclass(frozen=True, slots=True)
class Classifier:
    """``CLASSIFIER()``: name of the symbol of the match's last row; NULL for an empty match."""

    type: DataType = DataType.STRING


@dataclass(frozen=True, slots=True)
class MatchNumber:
    """``MATCH_NUMBER()``: 1, 2, … in the order of the matches of a partition."""

    type: DataType = DataType.INTEGER


Expression = Literal | Attribute | Call | Classifier | MatchNumber


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


Pattern = Symbol | Concat | Alternate | Repeat


class SkipMode(Enum):
    """Where the search goes on after a match (an empty match always goes on at the next row)."""

    PAST_LAST_ROW = "PAST LAST ROW"
    TO_NEXT_ROW = "TO NEXT ROW"


@dataclass(frozen=True, slots=True)
class Measure:
    """A column of the result."""

    name: str
    expression: Expression


@dataclass(frozen=True, slots=True)
class BoundPatternQuery:
    """A ``MATCH_RECOGNIZE`` query, ready to be planned and run."""

    stream: str
    time: str
    """Name of the time column (ORDER BY)."""
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
    """Columns of the answer as (source, name): source is a partition column or a measure."""
    limit: int | None = None


def walk(expression: Expression) -> Iterator[Expression]:
    """Yield the expression and all parts of it, parents first."""
    yield expression
    if isinstance(expression, Call):
        for argument in expression.args:
            yield from walk(argument)


def attributes(expression: Expression | None) -> frozenset[Attribute]:
    """Return every attribute the expression reads."""
    if expression is None:
        return frozenset()
    return frozenset(part for part in walk(expression) if isinstance(part, Attribute))
