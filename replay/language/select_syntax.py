"""The syntax tree of queries without a row pattern, and of what stands after FROM."""

from __future__ import annotations

from dataclasses import dataclass

from replay.language.bound_select import JoinKind
from replay.language.syntax import (
    Expression,
    Identifier,
    Node,
    OrderItem,
    PatternQuery,
    SelectItem,
)

# ---------------------------------------------------------------------------------------------
# What stands after FROM


@dataclass(frozen=True, slots=True)
class StreamName(Node):
    """``stream [AS alias]``."""

    name: Identifier
    alias: Identifier | None = None


@dataclass(frozen=True, slots=True)
class Subquery(Node):
    """``(query) [AS alias]``."""

    query: SelectQuery | PatternQuery
    alias: Identifier | None = None


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
    origin: Expression | None = None
    alias: Identifier | None = None


WINDOW_ARGUMENTS: dict[str, tuple[str, ...]] = {
    "HOP": ("SLIDE", "SIZE"),
    "TUMBLE": ("SIZE",),
    "CUMULATE": ("STEP", "SIZE"),
    "SESSION": ("GAP",),
    "HOP_ROWS": ("SLIDE", "SIZE"),
    "TUMBLE_ROWS": ("SIZE",),
}
"""What each window function takes after its source and time."""

WITH_ORIGIN = frozenset({"HOP", "TUMBLE", "CUMULATE"})
OF_ROWS = frozenset({"HOP_ROWS", "TUMBLE_ROWS"})


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
    right: StreamName | Subquery
    within: tuple[Span, ...]
    on: Expression | None


Reference = StreamName | Subquery | WindowCall | Join

# ---------------------------------------------------------------------------------------------
# Queries


@dataclass(frozen=True, slots=True)
class SelectQuery(Node):
    """``SELECT … FROM …`` without MATCH_RECOGNIZE; a clause that is not there is None or empty."""

    select: tuple[SelectItem, ...]
    source: Reference
    limit: Expression | None = None
    """Also where it was written ``FETCH FIRST n ROWS ONLY``."""
    offset: Expression | None = None
    distinct: bool = False
    where: Expression | None = None
    group_by: tuple[Expression, ...] = ()
    having: Expression | None = None
    order_by: tuple[OrderItem, ...] = ()


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


def _names(node: Query | Reference) -> tuple[str, ...]:
    match node:
        case StreamName():
            return (node.name.name,)
        case Subquery() | CreateStream():
            return _names(node.query)
        case Join():
            return (*_names(node.left), *_names(node.right))
    return _names(node.source)
