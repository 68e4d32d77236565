"""``MATCH_RECOGNIZE ( … )``: its clauses, in SQL's order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from replay.language import syntax
from replay.language.bound import SkipMode
from replay.language.cursor import Cursor, describe
from replay.language.expression_parser import parse_expression
from replay.language.row_pattern_parser import parse_row_pattern
from replay.language.syntax import Identifier
from replay.language.tokens import END

Item = TypeVar("Item")


@dataclass(slots=True)
class _Clauses:
    """What was read so far."""

    partition_by: tuple[Identifier, ...] = ()
    order_by: tuple[Identifier, ...] = ()
    measures: tuple[syntax.Measure, ...] = ()
    skip: SkipMode | None = None
    pattern: syntax.RowPattern | None = None
    within: syntax.Expression | None = None
    defines: tuple[syntax.Define, ...] = ()
    given: list[str] = field(default_factory=list)


def parse_match_recognize(cursor: Cursor) -> syntax.MatchRecognize:
    """Parse ``( … )``, the parentheses included.

    Raises
    ------
    PatternSyntaxError
        Also where clauses are missing, given twice or out of order.
    NotSupportedError
        Naming the clause that Chronicle cannot answer yet.
    """
    opening = cursor.expect("(", "after MATCH_RECOGNIZE")
    clauses = _Clauses()
    while not cursor.accept(")"):
        _parse_clause(cursor, clauses, opening.at)
    if not clauses.order_by:
        raise cursor.error(
            "MATCH_RECOGNIZE needs ORDER BY with the stream's time column", opening.at
        )
    if clauses.pattern is None:
        raise cursor.error("MATCH_RECOGNIZE needs PATTERN ( … )", opening.at)
    return syntax.MatchRecognize(
        partition_by=clauses.partition_by,
        order_by=clauses.order_by,
        measures=clauses.measures,
        skip=clauses.skip,
        pattern=clauses.pattern,
        within=clauses.within,
        defines=clauses.defines,
        at=opening.at,
    )


def _parse_clause(cursor: Cursor, clauses: _Clauses, opening: int) -> None:
    token = cursor.token
    name = _NAMES.get(token.key)
    if name is None:
        if token.kind == END:
            raise cursor.error("the '(' of MATCH_RECOGNIZE is not closed", opening)
        raise cursor.error(f"expected {_expected(clauses)}, found {describe(token)}")
    if name in clauses.given:
        raise cursor.error(f"{name} is given twice")
    for later in clauses.given:
        if _ORDER.index(later) > _ORDER.index(name):
            raise cursor.error(f"{name} stands before {later} in MATCH_RECOGNIZE")
    cursor.advance()
    _CLAUSES[name](cursor, clauses)
    clauses.given.append(name)


def _expected(clauses: _Clauses) -> str:
    last = clauses.given[-1] if clauses.given else ""
    if last == "DEFINE":
        return "',' before the next condition, or ')' to close MATCH_RECOGNIZE"
    if clauses.pattern is not None:
        return "')' to close MATCH_RECOGNIZE, or a clause such as WITHIN or DEFINE"
    separator = "',' or " if last in ("PARTITION BY", "ORDER BY", "MEASURES") else ""
    return f"{separator}a clause such as PATTERN"


def _partition_by(cursor: Cursor, clauses: _Clauses) -> None:
    cursor.expect("BY", "after PARTITION")
    clauses.partition_by = _identifiers(cursor, "a column to partition by")


def _order_by(cursor: Cursor, clauses: _Clauses) -> None:
    cursor.expect("BY", "after ORDER")
    clauses.order_by = _identifiers(cursor, "the stream's time column")
    if cursor.token.key == "DESC":
        raise cursor.not_supported(
            "ORDER BY … DESC", remedy="events are matched in the order of time"
        )
    cursor.accept("ASC")
    if cursor.token.key == "NULLS":
        raise cursor.not_supported(
            "NULLS FIRST or LAST", remedy="the time of an event is never null"
        )


def _identifiers(cursor: Cursor, what: str) -> tuple[Identifier, ...]:
    names = [_plain_column(cursor, what)]
    while cursor.accept(","):
        names.append(_plain_column(cursor, what))
    return tuple(names)


def _plain_column(cursor: Cursor, what: str) -> Identifier:
    name = cursor.identifier(what)
    if cursor.token.key in (".", "(", "+", "-", "*", "/", "%"):
        raise cursor.error(
            f"expected the plain name of {what}, found '{name.name}{cursor.token.text}'"
        )
    return name


def _measures(cursor: Cursor, clauses: _Clauses) -> None:
    clauses.measures = tuple(_separated(cursor, _measure))


def _measure(cursor: Cursor) -> syntax.Measure:
    at = cursor.token.at
    expression = parse_expression(cursor)
    if cursor.token.key != "AS":
        raise cursor.error(
            f"expected AS and a name for this measure, found {describe(cursor.token)}"
        )
    cursor.advance()
    return syntax.Measure(expression, cursor.identifier("a name after AS"), at=at)


def _rows_per_match(cursor: Cursor, _: _Clauses) -> None:
    for key in ("ROW", "PER", "MATCH"):
        cursor.expect(key, "as in ONE ROW PER MATCH")


def _after_match(cursor: Cursor, clauses: _Clauses) -> None:
    cursor.expect("MATCH", "after AFTER")
    cursor.expect("SKIP", "after AFTER MATCH")
    for mode in SkipMode:
        if cursor.accept(*mode.value.split()):
            clauses.skip = mode
            return
    if cursor.token.key == "TO":
        target = cursor.peek()
        first_or_last = target.key in ("FIRST", "LAST") and cursor.peek(2).key != "PATTERN"
        shown = f"{target.key} {cursor.peek(2).text}" if first_or_last else target.text
        raise cursor.not_supported(f"AFTER MATCH SKIP TO {shown}")
    raise cursor.error(f"expected PAST LAST ROW or TO NEXT ROW, found {describe(cursor.token)}")


def _pattern(cursor: Cursor, clauses: _Clauses) -> None:
    clauses.pattern = parse_row_pattern(cursor)


def _within(cursor: Cursor, clauses: _Clauses) -> None:
    clauses.within = parse_expression(cursor)


def _define(cursor: Cursor, clauses: _Clauses) -> None:
    clauses.defines = tuple(_separated(cursor, _condition))


def _condition(cursor: Cursor) -> syntax.Define:
    at = cursor.token.at
    symbol = cursor.identifier("a symbol to define")
    cursor.expect("AS", f"and a condition after DEFINE {symbol.name}")
    return syntax.Define(symbol, parse_expression(cursor), at=at)


def _separated(cursor: Cursor, parse: Callable[[Cursor], Item]) -> list[Item]:
    items = [parse(cursor)]
    while cursor.accept(","):
        items.append(parse(cursor))
    return items


def _not_yet(what: str) -> Callable[[Cursor, _Clauses], None]:
    def refuse(cursor: Cursor, _: _Clauses) -> None:
        raise cursor.not_supported(what, cursor.tokens[cursor.index - 1].at)

    return refuse


_CLAUSES: dict[str, Callable[[Cursor, _Clauses], None]] = {
    "PARTITION BY": _partition_by,
    "ORDER BY": _order_by,
    "MEASURES": _measures,
    "ONE ROW PER MATCH": _rows_per_match,
    "ALL ROWS PER MATCH": _not_yet("ALL ROWS PER MATCH"),
    "AFTER MATCH": _after_match,
    "PATTERN": _pattern,
    "SEMANTICS": _not_yet("SEMANTICS (another strategy than SQL's)"),
    "WITHIN": _within,
    "WITH TIMEOUTS": _not_yet("WITH TIMEOUTS"),
    "SUBSET": _not_yet("SUBSET"),
    "DEFINE": _define,
}
_ORDER = tuple(_CLAUSES)
_NAMES = {name.split()[0]: name for name in _ORDER}
