"""The syntax tree of a query: what was written, with nothing resolved.

Every node knows its place in the text (``at``, an offset), which equality does not look at.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal

from replay.language.bound import Asked, EdgeKind, JoinKind, RowsPerMatch, Semantics, SkipMode


@dataclass(frozen=True, slots=True)
class Node:
    """A piece of a query."""

    at: int = field(default=0, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Identifier(Node):
    """A name; a quoted one is taken to the letter, any other also in another case."""

    name: str
    quoted: bool = False


# ---------------------------------------------------------------------------------------------
# Expressions


@dataclass(frozen=True, slots=True)
class Number(Node):
    """A number without sign: an int, or a float where it was written with a dot or exponent.

    A Decimal where it has digits that a double does not tell, of at most 18.
    """

    value: int | float | Decimal


@dataclass(frozen=True, slots=True)
class Text(Node):
    """``'text'``."""

    value: str


@dataclass(frozen=True, slots=True)
class Truth(Node):
    """``TRUE`` or ``FALSE``."""

    value: bool


@dataclass(frozen=True, slots=True)
class Null(Node):
    """``NULL``."""


@dataclass(frozen=True, slots=True)
class TimeText(Node):
    """``TIMESTAMP '…'`` or ``DATE '…'``."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Duration(Node):
    """``INTERVAL '30' MINUTE`` or ``30 MINUTES``; the unit in upper case and singular.

    Also of several units, as ``INTERVAL '1 02:03' DAY TO MINUTE`` has them. Those of
    `CALENDAR_UNITS` only measure windows.
    """

    amount: str
    unit: str


CALENDAR_UNITS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}
"""Units of durations that vary in length, and how many months each has."""


@dataclass(frozen=True, slots=True)
class Parameter(Node):
    """``:name``."""

    name: str


@dataclass(frozen=True, slots=True)
class ListParameter(Node):
    """``:name`` behind IN, without parentheses: its value is the list."""

    name: str


@dataclass(frozen=True, slots=True)
class Column(Node):
    """``x`` or ``A.x``."""

    name: Identifier
    symbol: Identifier | None = None


@dataclass(frozen=True, slots=True)
class RowValue(Node):
    """``(a, b)``: two values or more, which are compared as one."""

    parts: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Unary(Node):
    """``NOT``, ``-`` or ``+`` before an operand."""

    op: str
    operand: Expression


@dataclass(frozen=True, slots=True)
class Binary(Node):
    """Arithmetic ``+ - * / %`` or a comparison ``= <> < <= > >=``."""

    op: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Logical(Node):
    """``AND`` or ``OR`` over two or more terms."""

    op: str
    terms: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Between(Node):
    """``operand [NOT] BETWEEN low AND high``."""

    operand: Expression
    low: Expression
    high: Expression
    negated: bool = False


@dataclass(frozen=True, slots=True)
class InList(Node):
    """``operand [NOT] IN (options)``; a `ListParameter` stands alone for all of its values."""

    operand: Expression
    options: tuple[Expression, ...]
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Like(Node):
    """``operand [NOT] LIKE pattern [ESCAPE escape]``, or ILIKE, which takes no note of case."""

    operand: Expression
    pattern: Expression
    escape: Expression | None = None
    negated: bool = False
    any_case: bool = False


@dataclass(frozen=True, slots=True)
class IsNull(Node):
    """``operand IS [NOT] NULL``."""

    operand: Expression
    negated: bool = False


@dataclass(frozen=True, slots=True)
class IsTruth(Node):
    """``operand IS [NOT] TRUE``, ``FALSE`` or (None) ``UNKNOWN``."""

    operand: Expression
    value: bool | None
    negated: bool = False


@dataclass(frozen=True, slots=True)
class IsDistinct(Node):
    """``left IS [NOT] DISTINCT FROM right``."""

    left: Expression
    right: Expression
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Case(Node):
    """``CASE [operand] WHEN … THEN … [ELSE …] END``."""

    operand: Expression | None
    branches: tuple[tuple[Expression, Expression], ...]
    otherwise: Expression | None = None


@dataclass(frozen=True, slots=True)
class Cast(Node):
    """``CAST(operand AS type)`` or TRY_CAST; the type in upper case."""

    operand: Expression
    type: str
    lenient: bool = False
    """TRY_CAST: a constant that is no such value is NULL too, and no error of the query."""
    length: int | None = None
    """Of ``VARCHAR(n)``: how many characters of the text stay."""


@dataclass(frozen=True, slots=True)
class Star(Node):
    """``*`` or ``m.*``: all columns in SELECT, all rows in ``COUNT(*)`` and ``COUNT(A.*)``."""

    symbol: Identifier | None = None


@dataclass(frozen=True, slots=True)
class Function(Node):
    """A call of a function by name; an aggregate is one too, maybe of DISTINCT values."""

    name: Identifier
    args: tuple[Expression, ...]
    distinct: bool = False
    scope: str | None = None
    """``RUNNING`` or ``FINAL`` before an aggregate."""
    where: Expression | None = None
    """``FILTER (WHERE …)`` after an aggregate."""
    order_by: tuple[OrderItem, ...] = ()
    """``ORDER BY`` behind the arguments of one that keeps values in an order."""


@dataclass(frozen=True, slots=True)
class Navigation(Node):
    """``FIRST``, ``LAST``, ``PREV`` or ``NEXT`` of an operand."""

    kind: str
    operand: Expression
    offset: Expression | None = None
    scope: str | None = None
    """``RUNNING`` or ``FINAL`` before ``FIRST`` or ``LAST``."""


@dataclass(frozen=True, slots=True)
class ClassifierCall(Node):
    """``CLASSIFIER()`` or ``CLASSIFIER(A)``."""

    symbol: Identifier | None = None


@dataclass(frozen=True, slots=True)
class MatchNumberCall(Node):
    """``MATCH_NUMBER()``."""


@dataclass(frozen=True, slots=True)
class ScalarQuery(Node):
    """``(SELECT …)``: a query that reads nothing around it, and what is asked of it."""

    query: SelectQuery | PatternQuery
    asked: Asked = Asked.VALUE


@dataclass(frozen=True, slots=True)
class Written(Node):
    """A part of a query to the letter, as a user wrote it: trees that hold it are only printed."""

    text: str


Expression = (
    Number
    | Text
    | Truth
    | Null
    | TimeText
    | Duration
    | Parameter
    | ListParameter
    | Column
    | RowValue
    | Unary
    | Binary
    | Logical
    | Between
    | InList
    | Like
    | IsNull
    | IsTruth
    | IsDistinct
    | Case
    | Cast
    | Star
    | Function
    | Navigation
    | ClassifierCall
    | MatchNumberCall
    | ScalarQuery
    | Written
)


# ---------------------------------------------------------------------------------------------
# Row patterns


@dataclass(frozen=True, slots=True)
class SymbolPattern(Node):
    """One row of a symbol."""

    symbol: Identifier


@dataclass(frozen=True, slots=True)
class Sequence(Node):
    """Two or more parts in a row, or none: the empty pattern ``()``."""

    parts: tuple[RowPattern, ...]


@dataclass(frozen=True, slots=True)
class Alternation(Node):
    """Two or more branches, the earlier preferred."""

    branches: tuple[RowPattern, ...]


@dataclass(frozen=True, slots=True)
class Quantified(Node):
    """``body`` at least ``low`` and at most ``high`` times (None: no limit)."""

    body: RowPattern
    low: int
    high: int | None
    greedy: bool = True


@dataclass(frozen=True, slots=True)
class Permutation(Node):
    """``PERMUTE(…)``: the elements in any order, earlier ones first preferred."""

    elements: tuple[RowPattern, ...]


@dataclass(frozen=True, slots=True)
class Excluded(Node):
    """``{- body -}``."""

    body: RowPattern


@dataclass(frozen=True, slots=True)
class EdgePattern(Node):
    """``^`` or ``$``."""

    kind: EdgeKind


@dataclass(frozen=True, slots=True)
class Negated(Node):
    """``!X``."""

    symbol: Identifier


RowPattern = (
    SymbolPattern
    | Sequence
    | Alternation
    | Quantified
    | Permutation
    | Excluded
    | EdgePattern
    | Negated
)


# ---------------------------------------------------------------------------------------------
# Queries


@dataclass(frozen=True, slots=True)
class SelectItem(Node):
    """``expression [AS alias]`` of the outer query; a `Star` stands for all columns."""

    expression: Expression
    alias: Identifier | None = None


@dataclass(frozen=True, slots=True)
class OrderItem(Node):
    """``expression [ASC | DESC] [NULLS FIRST | NULLS LAST]`` of ORDER BY.

    Missing values come last in both directions unless told otherwise.
    """

    expression: Expression
    descending: bool = False
    nulls_first: bool = False


@dataclass(frozen=True, slots=True)
class Measure(Node):
    """``expression AS name``."""

    expression: Expression
    name: Identifier


@dataclass(frozen=True, slots=True)
class Define(Node):
    """``symbol AS condition``."""

    symbol: Identifier
    condition: Expression


@dataclass(frozen=True, slots=True)
class Rows(Node):
    """``ONE ROW PER MATCH`` or ``ALL ROWS PER MATCH …``."""

    kind: RowsPerMatch


@dataclass(frozen=True, slots=True)
class Skip(Node):
    """``AFTER MATCH SKIP …``."""

    mode: SkipMode
    target: Identifier | None = None
    """The symbol of TO FIRST and TO LAST."""


@dataclass(frozen=True, slots=True)
class Strategy(Node):
    """``SEMANTICS …``."""

    kind: Semantics


@dataclass(frozen=True, slots=True)
class Timeouts(Node):
    """``WITH TIMEOUTS``."""


@dataclass(frozen=True, slots=True)
class Subset(Node):
    """``name = (members)``."""

    name: Identifier
    members: tuple[Identifier, ...]


@dataclass(frozen=True, slots=True)
class MatchRecognize(Node):
    """``MATCH_RECOGNIZE ( … )``; a clause that is not there is None or empty."""

    order_by: tuple[OrderItem, ...]
    """Columns; empty where the time is known without."""
    pattern: RowPattern
    partition_by: tuple[Column, ...] = ()
    """Of the source; what is computed is a column of a subquery, named as it is written."""
    measures: tuple[Measure, ...] = ()
    skip: Skip | None = None
    within: Expression | None = None
    defines: tuple[Define, ...] = ()
    rows: Rows | None = None
    strategy: Strategy | None = None
    timeouts: Timeouts | None = None
    subsets: tuple[Subset, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Clauses(Node):
    """What stands around FROM in both kinds of query; a clause that is not there is empty."""

    limit: Expression | None = None
    """Also where it was written ``FETCH FIRST n ROWS ONLY``."""
    offset: Expression | None = None
    distinct: bool = False
    where: Expression | None = None
    group_by: tuple[Expression, ...] = ()
    having: Expression | None = None
    order_by: tuple[OrderItem, ...] = ()


@dataclass(frozen=True, slots=True)
class PatternQuery(Clauses):
    """``SELECT … FROM source MATCH_RECOGNIZE ( … ) …``, the outer query around it included."""

    select: tuple[SelectItem, ...]
    source: StreamName | Subquery
    recognize: MatchRecognize
    alias: Identifier | None = None
    windows: WindowCall | None = None
    """The window function before it, over ``source``; None: there is none."""

    @property
    def qualifier(self) -> str | None:
        """What can stand before a column in PARTITION BY and ORDER BY; None: nothing."""
        name = self.source.alias or getattr(self.source, "name", None)
        return None if name is None else name.name


# ---------------------------------------------------------------------------------------------
# What stands after FROM


@dataclass(frozen=True, slots=True)
class OneRow(Node):
    """What a SELECT without FROM reads: one row without columns."""


@dataclass(frozen=True, slots=True)
class StreamName(Node):
    """``stream [AS alias]``."""

    name: Identifier
    alias: Identifier | None = None


@dataclass(frozen=True, slots=True)
class Subquery(Node):
    """``(query) [AS alias [(column, …)]]``."""

    query: SelectQuery | PatternQuery
    alias: Identifier | None = None
    columns: tuple[Identifier, ...] = ()
    """Names for its first columns, in their place."""


@dataclass(frozen=True, slots=True)
class FirstEvent(Node):
    """``FIRST EVENT``: the stream's, as the origin of windows."""


@dataclass(frozen=True, slots=True)
class WindowCall(Node):
    """``TABLE(HOP(TABLE stream, DESCRIPTOR(ts), slide, size[, origin])) [AS alias]`` and the like.

    ``arguments`` are in the order of the function (`WINDOW_ARGUMENTS`), however they were written.
    """

    function: str
    """In upper case: a key of `WINDOW_ARGUMENTS`."""
    source: StreamName | Subquery
    partition_by: tuple[Identifier, ...]
    time: Identifier | None
    """The column of DESCRIPTOR; None where a count window gives none."""
    arguments: tuple[Expression, ...]
    origin: Expression | FirstEvent | None = None
    zone: Expression | None = None
    alias: Identifier | None = None
    is_within: bool = field(default=False, compare=False)
    """Written ``WITHIN size [SLIDE slide]``, where no function is named."""


WINDOW_ARGUMENTS: dict[str, tuple[str, ...]] = {
    "HOP": ("SLIDE", "SIZE"),
    "TUMBLE": ("SIZE",),
    "CUMULATE": ("STEP", "SIZE"),
    "SESSION": ("GAP",),
    "HOP_ROWS": ("SLIDE", "SIZE"),
    "TUMBLE_ROWS": ("SIZE",),
    "SLIDING": ("SIZE",),
}
"""What each window function takes after its source and time."""

WITH_ORIGIN = frozenset({"HOP", "TUMBLE", "CUMULATE"})
OF_PATTERNS = frozenset({*WITH_ORIGIN, "SLIDING"})
"""Functions that may stand before MATCH_RECOGNIZE; SLIDING nowhere else."""
OF_ROWS = frozenset({"HOP_ROWS", "TUMBLE_ROWS"})


def window_form(function: str) -> str:
    """Return how a window function is written, for errors."""
    time = "" if function in OF_ROWS else ", DESCRIPTOR(time)"
    names = "".join(f", {name.lower()}" for name in WINDOW_ARGUMENTS[function])
    origin = "[, origin][, timezone]" if function in WITH_ORIGIN else ""
    return f"{function}(TABLE stream{time}{names}{origin})"


@dataclass(frozen=True, slots=True)
class Span(Node):
    """``10 MINUTES``, ``300`` or ``10 ROWS``, each ``[SLIDE n]``: the window over a side."""

    size: Expression
    slide: Expression | None = None
    in_rows: bool = False


@dataclass(frozen=True, slots=True)
class Join(Node):
    """``left [LEFT] JOIN right WITHIN … [ON …]``, ``left ASOF [LEFT] JOIN right ON … [WITHIN …]``.

    ``within`` has one span for both sides, or one for each.
    """

    kind: JoinKind
    left: Reference
    right: StreamName | Subquery | Situations
    within: tuple[Span, ...]
    on: Expression | None
    using: tuple[Identifier, ...] = ()
    """``USING (k, l)`` in the place of ON."""


@dataclass(frozen=True, slots=True)
class SituationDefine(Node):
    """``name AS condition [AT LEAST d] [AT MOST d]``, or ``… BETWEEN d AND d``."""

    name: Identifier
    condition: Expression
    at_least: Expression | None = None
    at_most: Expression | None = None


@dataclass(frozen=True, slots=True)
class TemporalTerm(Node):
    """``left relation [; relation]… right``: relations as bits of `allen.BITS`."""

    left: Identifier
    relations: int
    right: Identifier


@dataclass(frozen=True, slots=True)
class MatchSituations(Node):
    """The clauses of a temporal pattern; one that is not there is None or empty."""

    defines: tuple[SituationDefine, ...]
    partition_by: tuple[Column, ...] = ()
    order_by: Column | None = None
    valid_for: Expression | None = None
    pattern: tuple[TemporalTerm, ...] = ()
    within: Expression | None = None
    is_final: bool = False
    returns: tuple[Measure, ...] = ()


@dataclass(frozen=True, slots=True)
class Situations(Node):
    """``source MATCH_SITUATIONS ( … ) [AS alias]``; the papers' form is a query of it alone."""

    source: StreamName | Subquery
    clauses: MatchSituations
    alias: Identifier | None = None


@dataclass(frozen=True, slots=True)
class WrittenMatch(Node):
    """``source MATCH_RECOGNIZE ( … )`` or MATCH_SITUATIONS, whose clauses are as written."""

    source: StreamName | Subquery
    word: str
    clauses: Written


Reference = OneRow | StreamName | Subquery | WindowCall | Join | Situations | WrittenMatch


@dataclass(frozen=True, slots=True)
class SelectQuery(Clauses):
    """``SELECT … [FROM …]`` without MATCH_RECOGNIZE."""

    select: tuple[SelectItem, ...]
    source: Reference


@dataclass(frozen=True, slots=True)
class CreateStream(Node):
    """``CREATE STREAM name AS query``."""

    name: Identifier
    query: SelectQuery | PatternQuery


Query = PatternQuery | SelectQuery | CreateStream
"""What ``parse_query`` gives."""


def streams_of(query: Query) -> tuple[str, ...]:
    """Return the names of the streams a query reads, each once, in the order they are written."""
    return tuple(dict.fromkeys(_names(query)))


def has_situations(query: Query) -> bool:
    """Tell whether a query reads situations, below what else it does."""
    return any(isinstance(node, Situations) for node in nodes_of(query))


def _names(node: Query | Reference) -> tuple[str, ...]:
    match node:
        case OneRow():
            return ()
        case StreamName():
            return (node.name.name,)
        case Subquery() | CreateStream():
            return _names(node.query)
        case Join():
            return (*_names(node.left), *_names(node.right))
        case PatternQuery():
            inside = (name for part in scalar_queries(node) for name in _names(part.query))
            return (*_names(node.source), *inside)
    return _names(node.source)


def is_values(node: Expression) -> bool:
    """Tell whether a query stands for all its values."""
    return isinstance(node, ScalarQuery) and node.asked is Asked.VALUES


def scalar_queries(query: PatternQuery) -> list[ScalarQuery]:
    """Return the queries whose values MEASURES and DEFINE read, but for nested ones."""
    clause = query.recognize
    expressions = (
        *(measure.expression for measure in clause.measures),
        *(define.condition for define in clause.defines),
    )
    return [node for node in nodes_of(expressions) if isinstance(node, ScalarQuery)]


def nodes_of(part: object) -> Iterator[Node]:
    """Yield the nodes of expressions, parents first; the query of a `ScalarQuery` is no part."""
    if isinstance(part, tuple):
        for inner in part:
            yield from nodes_of(inner)
    elif isinstance(part, Node):
        yield part
        if not isinstance(part, ScalarQuery):
            for name in part.__slots__:  # its own fields, without the place, which all have
                yield from nodes_of(getattr(part, name))
