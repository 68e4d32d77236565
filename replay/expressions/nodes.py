"""Bound expressions: names resolved, types known, and nothing left to guess."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any


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
    # int64 units of 10**-scale, of at most 18 digits; every scale is a type of its own.
    DECIMAL_0 = "DECIMAL(18, 0)"
    DECIMAL_1 = "DECIMAL(18, 1)"
    DECIMAL_2 = "DECIMAL(18, 2)"
    DECIMAL_3 = "DECIMAL(18, 3)"
    DECIMAL_4 = "DECIMAL(18, 4)"
    DECIMAL_5 = "DECIMAL(18, 5)"
    DECIMAL_6 = "DECIMAL(18, 6)"
    DECIMAL_7 = "DECIMAL(18, 7)"
    DECIMAL_8 = "DECIMAL(18, 8)"
    DECIMAL_9 = "DECIMAL(18, 9)"
    DECIMAL_10 = "DECIMAL(18, 10)"
    DECIMAL_11 = "DECIMAL(18, 11)"
    DECIMAL_12 = "DECIMAL(18, 12)"
    DECIMAL_13 = "DECIMAL(18, 13)"
    DECIMAL_14 = "DECIMAL(18, 14)"
    DECIMAL_15 = "DECIMAL(18, 15)"
    DECIMAL_16 = "DECIMAL(18, 16)"
    DECIMAL_17 = "DECIMAL(18, 17)"
    DECIMAL_18 = "DECIMAL(18, 18)"
    DECIMAL_76 = "DECIMAL(76, 0)"  # counts and sums of groups of matches; nothing computes with it

    __hash__ = object.__hash__  # that of Enum is a call of Python, and expressions are hashed a lot


SymbolSet = tuple[int, ...] | None
"""Symbols as ascending indices into ``BoundPatternQuery.symbols``; None: any symbol.

A single symbol, or the members of a SUBSET.
"""


class AnchorKind(Enum):
    """How the row an attribute is read from is found."""

    CURRENT = "current"  # the row under test, or the row an aggregate looks at
    FIRST = "first"  # first row mapped to the symbols
    LAST = "last"  # last row mapped to the symbols

    __hash__ = object.__hash__  # as that of DataType


@dataclass(frozen=True, slots=True)
class Anchor:
    """The row of a match an attribute is read from.

    In DEFINE of ``B``: ``x``, ``B.x``, ``LAST(B.x)``, ``LAST(x)`` are CURRENT; ``A.x`` and
    ``LAST(A.x)`` are LAST of A; ``FIRST(x)`` is FIRST of the whole match; ``FIRST(B.x)`` is FIRST
    of B, the current row counting as one of B. In MEASURES ``x`` is LAST of the whole match.
    Only rows mapped so far are seen (RUNNING), unless the anchor is ``final``.
    """

    kind: AnchorKind
    symbols: SymbolSet = None
    """Always None for CURRENT."""
    offset: int = 0
    """``FIRST(A.x, n)``: n rows of A after the first; ``LAST(A.x, n)``: n rows of A before the
    last. Where A has no such row, there is none."""
    final: bool = False
    """Whether all rows of the match are seen; in MEASURES of ALL ROWS PER MATCH only, since with
    ONE ROW PER MATCH a measure sees all rows anyway."""


CURRENT = Anchor(AnchorKind.CURRENT)
MATCH_LAST = Anchor(AnchorKind.LAST)
"""The last row of the match, which MEASURES read from unless they say otherwise."""


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

    def __hash__(self) -> int:  # sets of attributes are made all over planning and compiling
        return hash((self.name, self.anchor.symbols))


@dataclass(frozen=True, slots=True)
class Call:
    """An operator or function over arguments of exactly the types it needs.

    The binder inserts ``cast`` so that no operator sees mixed types. Operators:

    ``+ - * / %`` (both arguments of one numeric type; integer ``/`` truncates towards zero, ``%``
    has the sign of the dividend), also TIMESTAMP ± INTERVAL, INTERVAL ± INTERVAL,
    TIMESTAMP - TIMESTAMP (INTERVAL), DATE - DATE (INTEGER, days), INTERVAL * INTEGER,
    INTERVAL / INTEGER (INTERVAL), INTERVAL / INTERVAL (INTEGER, whole times), INTERVAL % INTERVAL;
    ``neg``; ``= <> < <= > >=`` (both arguments of one type); ``and or`` (n-ary), ``not``;
    ``is_null``; ``is_distinct`` (never UNKNOWN: NULL is like NULL, NaN like NaN);
    ``in`` (value, then literals); ``like`` (value, pattern literal[, escape literal]);
    ``case`` (condition, value, condition, value, …, otherwise); ``coalesce``, ``nullif``,
    ``cast`` (to ``type``); ``saturated`` (a number as DECIMAL in a comparison: one too large for 18
    digits lies beyond all that are not); functions of ``functions.FUNCTIONS`` by name: of numbers
    ``abs floor ceil trunc sign round sqrt cbrt ln log log10 log2 exp power sin cos tan asin acos
    atan atan2 degrees radians distance``, of texts ``lower upper length reverse concat concat_ws
    substring left right trim ltrim rtrim replace strpos starts_with ends_with lpad rpad repeat
    split_part regexp_like``.

    Of moments (TIMESTAMP or TIMESTAMP_UTC): ``year quarter month week year_of_week day day_of_week
    day_of_year``; ``epoch`` (DOUBLE, seconds; also of INTERVAL); ``time_part`` (moment, cycle,
    unit: whole units since the cycle began); ``time_floor`` (moment, width, origin);
    ``month_floor`` (moment, 1, 3 or 12); ``add_months`` (moment, INTEGER); ``months_between``;
    ``local_time`` (TIMESTAMP_UTC, zone literal) and ``instant`` (TIMESTAMP, zone literal).

    BETWEEN, NOT IN, IS NOT NULL and the like are written with these.
    Faults of a row (division by zero, overflow, domain) give NULL and are counted.
    NULL and NaN make any comparison UNKNOWN.
    """

    op: str
    args: tuple[Expression, ...]
    type: DataType


@dataclass(frozen=True, slots=True)
class Classifier:
    """Name of the symbol a row of the match is mapped to; NULL for a row that is not mapped.

    ``CLASSIFIER()`` reads the match's last row so far, ``CLASSIFIER(U)`` the last row of U; inside
    navigation any other anchor and offset, as attributes have them. In DEFINE of A ``CLASSIFIER()``
    is the constant 'A', which the binder puts in.
    """

    type: DataType = DataType.STRING
    anchor: Anchor = MATCH_LAST
    offset: int = 0


@dataclass(frozen=True, slots=True)
class MatchNumber:
    """``MATCH_NUMBER()``: 1, 2, … in the order of the matches of a partition."""

    type: DataType = DataType.INTEGER


@dataclass(frozen=True, slots=True)
class TimedOut:
    """Whether a row of the answer is a partial match that ran out of its window."""

    type: DataType = DataType.BOOLEAN


@dataclass(frozen=True, slots=True)
class Aggregate:
    """An aggregate over rows: of the match mapped so far, or of a group in the outer query.

    ``function`` is ``count``, ``sum``, ``avg``, ``min``, ``max``, ``var_pop``, ``var_samp``,
    ``stddev_pop`` or ``stddev_samp``; the binder writes the others with these. Rows where the
    argument is NULL (or NaN, for min and max) do not count. Over no row ``count`` is 0 and the
    others are NULL. Sums of INTEGER are exact, and NULL (a counted fault) where the whole sum does
    not fit; sums of DOUBLE add in row order from 0.0; ``avg`` is the sum, as a DOUBLE, over the
    count.

    Over the rows of a match there are also ``concat``, the texts one after the other, and
    ``array``, all values, NULL too, of the rows for which ``where`` is true, both in the order of
    ``order``. An array is a measure of its own, and ``type`` that of its elements. ``any_value`` is
    the first value; ``max_by`` and ``min_by`` are that of the first row at which the key of
    ``order`` is greatest or least: rows where either is NULL, or the key NaN, do not count.

    In the outer query of MATCH_RECOGNIZE it is over the rows of a group of matches. With symbols
    it is over every row mapped to them in each match of the group: attributes of its argument are
    those of the stream, and a row counts once for each match that has it. `elements` in an argument
    are the values of arrays, each by itself.

    Over the rows of a stream there are also ``first`` and ``last``, the argument at the first and
    the last row, whether NULL or not, and ``percentile``, of the values that are neither NULL nor
    NaN, as a DOUBLE.
    """

    function: str
    argument: Expression | None
    """Evaluated at each row, attributes anchored at CURRENT; None: ``COUNT(*)`` or ``COUNT(A.*)``.
    ``Classifier(anchor=CURRENT)`` inside is the symbol of the row itself."""
    symbols: SymbolSet
    """Rows of which symbols; None: all rows of the match (of the group)."""
    type: DataType
    distinct: bool = False
    final: bool = False
    """As in `Anchor`."""
    fraction: float | None = None
    """Of ``percentile``: from 0 to 1, the median at 0.5."""
    where: Expression | None = None
    """Of ``array``: which rows, as the argument is evaluated; None: all."""
    order: tuple[SortKey, ...] = ()
    """As the argument is evaluated; empty: the order of the rows."""

    @property
    def inside(self) -> tuple[Expression, ...]:
        """What is evaluated at each row."""
        own = (part for part in (self.argument, self.where) if part is not None)
        return (*own, *(key.expression for key in self.order))


@dataclass(frozen=True, slots=True)
class SortKey:
    """One key of ORDER BY."""

    expression: Expression
    descending: bool = False
    nulls_first: bool = False
    """NULL and NaN alike count as missing."""


class Asked(Enum):
    """What is asked of a query inside an expression."""

    VALUE = "value"  # the one it has, NULL if it has none
    VALUES = "values"  # all of them, as last argument of ``in``
    EXISTS = "exists"  # whether it has a row


@dataclass(frozen=True, slots=True)
class ScalarQuery:
    """What a query gives; literals have its place before anything is evaluated."""

    query: Any
    """A bound query."""
    type: DataType
    asked: Asked = Asked.VALUE


Expression = (
    Literal | Attribute | Call | Classifier | MatchNumber | TimedOut | Aggregate | ScalarQuery
)

Change = Callable[[Expression], Expression | None]
"""Gives what stands in the place of a part; None: it stays, and its own parts are looked at."""


def walk(expression: Expression) -> list[Expression]:
    """Return the expression and all parts of it, parents first."""
    parts = [expression]
    for behind, part in enumerate(parts, 1):  # which grows while it is gone through
        if isinstance(part, Call):
            parts[behind:behind] = part.args
        elif isinstance(part, Aggregate):
            parts[behind:behind] = part.inside
    return parts


def rewritten(expression: Expression, change: Change) -> Expression:
    """Return the expression with every part replaced for which ``change`` gives another.

    Parents come first; inside of what was replaced nothing is looked at.
    """
    changed = change(expression)
    if changed is not None:
        return changed
    if isinstance(expression, Call):
        args = tuple(rewritten(argument, change) for argument in expression.args)
        return replace(expression, args=args)
    if isinstance(expression, Aggregate):
        argument, where = (
            None if part is None else rewritten(part, change)
            for part in (expression.argument, expression.where)
        )
        order = tuple(
            replace(key, expression=rewritten(key.expression, change)) for key in expression.order
        )
        return replace(expression, argument=argument, where=where, order=order)
    return expression


def attributes(expression: Expression | None) -> frozenset[Attribute]:
    """Return every attribute the expression reads."""
    if expression is None:
        return frozenset()
    return frozenset([part for part in walk(expression) if isinstance(part, Attribute)])
