"""The columns of SELECT, and the clauses after FROM: WHERE, GROUP BY, …, LIMIT, OFFSET."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from replay.language import syntax
from replay.language.cursor import Cursor, describe
from replay.language.expression_parser import accept_distinct, accept_star, parse_expression
from replay.language.syntax import Expression
from replay.language.tokens import END, NAME, QUOTED

Item = TypeVar("Item")


@dataclass(slots=True)
class Clauses:
    """What was read so far."""

    after: str
    """What the clauses stand after, for errors."""
    where: Expression | None = None
    group_by: tuple[Expression, ...] = ()
    having: Expression | None = None
    order_by: tuple[syntax.OrderItem, ...] = ()
    limit: Expression | None = None
    offset: Expression | None = None
    given: list[str] = field(default_factory=list)


def parse_select_list(cursor: Cursor) -> tuple[bool, tuple[syntax.SelectItem, ...]]:
    """Parse what stands between SELECT and FROM; the first value tells whether it is DISTINCT.

    Raises
    ------
    PatternSyntaxError, NotSupportedError
        With the place.
    """
    if cursor.at("DISTINCT", "ON", "("):
        raise cursor.not_supported("SELECT DISTINCT ON (…)")
    distinct = accept_distinct(cursor, (",", "FROM", ".", "AS"))
    return distinct, separated(cursor, _select_item)


def parse_clauses(cursor: Cursor, after: str) -> Clauses:
    """Parse the clauses that are there.

    Raises
    ------
    PatternSyntaxError
        Also where one is given twice or out of order.
    NotSupportedError
        With the place.
    """
    clauses = Clauses(after)
    while cursor.token.key in CLAUSES:
        _parse_clause(cursor, clauses)
    return clauses


def separated(cursor: Cursor, parse: Callable[[Cursor], Item]) -> tuple[Item, ...]:
    """Parse one or more with commas between them."""
    items = [parse(cursor)]
    while cursor.accept(","):
        items.append(parse(cursor))
    return tuple(items)


def _select_item(cursor: Cursor) -> syntax.SelectItem:
    token = cursor.token
    if token.key in ("FROM", ",", ")", ";") or token.kind == END:
        raise cursor.error(f"expected a column of the answer or *, found {describe(token)}")
    expression = accept_star(cursor) or parse_expression(cursor)
    alias = None
    if cursor.accept("AS") or (cursor.token.kind in (NAME, QUOTED) and cursor.token.key != "FROM"):
        if isinstance(expression, syntax.Star):
            raise cursor.error("* stands for several columns and cannot take a name", token.at)
        alias = cursor.identifier("a name after AS")
    if cursor.token.key not in (",", "FROM"):
        raise cursor.error(f"expected ',' and a column, or FROM, found {describe(cursor.token)}")
    return syntax.SelectItem(expression, alias, at=token.at)


def _parse_clause(cursor: Cursor, clauses: Clauses) -> None:
    name, parse = CLAUSES[cursor.token.key]
    if name in clauses.given:
        raise cursor.error(f"{name} is given twice")
    if {name, *clauses.given} >= {"LIMIT", "FETCH"}:
        raise cursor.error("LIMIT and FETCH say the same; write one of them")
    for later in clauses.given:
        if _RANKS[later] > _RANKS[name]:
            raise cursor.error(f"{name} stands before {later} after {clauses.after}")
    cursor.advance()
    parse(cursor, clauses)
    clauses.given.append(name)


def _where(cursor: Cursor, clauses: Clauses) -> None:
    clauses.where = parse_expression(cursor)


def _group_by(cursor: Cursor, clauses: Clauses) -> None:
    cursor.expect("BY", "after GROUP")
    clauses.group_by = separated(cursor, _grouping)


def _grouping(cursor: Cursor) -> Expression:
    following = cursor.peek().key
    if cursor.token.key in ("ROLLUP", "CUBE") and following == "(":
        raise cursor.not_supported(f"GROUP BY {cursor.token.key} (…)")
    if cursor.token.key == "GROUPING" and following == "SETS":
        raise cursor.not_supported("GROUP BY GROUPING SETS (…)")
    if cursor.token.key == "ALL" and following not in (".", ","):
        raise cursor.not_supported("GROUP BY ALL", remedy="write the columns, or 1, 2, …")
    return parse_expression(cursor)


def _having(cursor: Cursor, clauses: Clauses) -> None:
    clauses.having = parse_expression(cursor)


def _order_by(cursor: Cursor, clauses: Clauses) -> None:
    cursor.expect("BY", "after ORDER")
    clauses.order_by = separated(cursor, _order_item)


def _order_item(cursor: Cursor) -> syntax.OrderItem:
    at = cursor.token.at
    expression = parse_expression(cursor)
    descending = cursor.accept("DESC")
    if not descending:
        cursor.accept("ASC")
    nulls_first = cursor.accept("NULLS", "FIRST")
    if not nulls_first and cursor.accept("NULLS"):
        cursor.expect("LAST", "or FIRST after NULLS")
    return syntax.OrderItem(expression, descending, nulls_first, at=at)


def _limit(cursor: Cursor, clauses: Clauses) -> None:
    if not cursor.accept("ALL"):
        clauses.limit = parse_expression(cursor)


def _offset(cursor: Cursor, clauses: Clauses) -> None:
    clauses.offset = parse_expression(cursor)
    if not cursor.accept("ROWS"):
        cursor.accept("ROW")


def _fetch(cursor: Cursor, clauses: Clauses) -> None:
    if not cursor.accept("NEXT"):
        cursor.expect("FIRST", "after FETCH, as in FETCH FIRST 10 ROWS ONLY")
    token = cursor.token
    is_one = token.key in ("ROW", "ROWS")
    clauses.limit = syntax.Number(1, at=token.at) if is_one else parse_expression(cursor)
    if not cursor.accept("ROW"):
        cursor.expect("ROWS", "as in FETCH FIRST 10 ROWS ONLY")
    if cursor.token.key == "WITH":
        raise cursor.not_supported("FETCH … WITH TIES")
    cursor.expect("ONLY", "as in FETCH FIRST 10 ROWS ONLY")


CLAUSES: dict[str, tuple[str, Callable[[Cursor, Clauses], None]]] = {
    "WHERE": ("WHERE", _where),
    "GROUP": ("GROUP BY", _group_by),
    "HAVING": ("HAVING", _having),
    "ORDER": ("ORDER BY", _order_by),
    "LIMIT": ("LIMIT", _limit),
    "OFFSET": ("OFFSET", _offset),
    "FETCH": ("FETCH", _fetch),
}
"""By its first word: how a clause is called, and how the rest of it is parsed."""

_RANKS = {
    "WHERE": 0,
    "GROUP BY": 1,
    "HAVING": 2,
    "ORDER BY": 3,
    "LIMIT": 4,
    "OFFSET": 4,
    "FETCH": 4,
}
"""The order of the clauses; those of one rank stand in any."""
