"""``MATCH_RECOGNIZE ( … )``: its clauses, in SQL's order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from replay.language import syntax
from replay.language.bound import RowsPerMatch, Semantics, SkipMode
from replay.language.cursor import Cursor, describe
from replay.language.duration_parser import refuse_unknown_unit
from replay.language.expression_parser import parse_expression
from replay.language.row_pattern_parser import parse_row_pattern
from replay.language.tokens import END, NAME, QUOTED

Item = TypeVar("Item")


@dataclass(slots=True)
class _Clauses:
    """What was read so far."""

    partition_by: tuple[syntax.Column, ...] = ()
    order_by: tuple[syntax.Column, ...] = ()
    measures: tuple[syntax.Measure, ...] = ()
    rows: syntax.Rows | None = None
    skip: syntax.Skip | None = None
    pattern: syntax.RowPattern | None = None
    strategy: syntax.Strategy | None = None
    within: syntax.Expression | None = None
    timeouts: syntax.Timeouts | None = None
    subsets: tuple[syntax.Subset, ...] = ()
    defines: tuple[syntax.Define, ...] = ()
    given: list[str] = field(default_factory=list)


def parse_match_recognize(cursor: Cursor) -> syntax.MatchRecognize:
    """Parse ``( … )``, the parentheses included."""
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
        rows=clauses.rows,
        strategy=clauses.strategy,
        timeouts=clauses.timeouts,
        subsets=clauses.subsets,
        at=opening.at,
    )


def _parse_clause(cursor: Cursor, clauses: _Clauses, opening: int) -> None:
    token = cursor.token
    name = _NAMES.get(token.key)
    if name is None:
        if token.kind == END:
            raise cursor.error("the '(' of MATCH_RECOGNIZE is not closed", opening)
        if token.key in ("INITIAL", "SEEK") and cursor.peek().key == "PATTERN":
            raise cursor.error(f"{token.key} is for windows, not for MATCH_RECOGNIZE; leave it out")
        raise cursor.error(f"expected {_expected(clauses)}, found {describe(token)}")
    if name in clauses.given:
        raise cursor.error(f"{name} is given twice")
    for later in clauses.given:
        if later in _ANYWHERE or name in _ANYWHERE:
            continue
        if _PLACES[later] > _PLACES[name]:
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
    clauses.partition_by = tuple(
        _separated(cursor, lambda cursor: _plain_column(cursor, "a column to partition by"))
    )


def _order_by(cursor: Cursor, clauses: _Clauses) -> None:
    cursor.expect("BY", "after ORDER")
    names = [_ordered_column(cursor, "the stream's time column")]
    while cursor.accept(","):
        names.append(_ordered_column(cursor, "a column to order by"))
    clauses.order_by = tuple(names)


def _ordered_column(cursor: Cursor, what: str) -> syntax.Column:
    name = _plain_column(cursor, what)
    if cursor.token.key == "DESC":
        raise cursor.not_supported(
            "ORDER BY … DESC", remedy="events are matched in the order of time"
        )
    cursor.accept("ASC")
    if cursor.at("NULLS", "FIRST"):
        raise cursor.not_supported(
            "NULLS FIRST", remedy="events without a value come last among those of their time"
        )
    cursor.accept("NULLS", "LAST")
    return name


def _plain_column(cursor: Cursor, what: str) -> syntax.Column:
    name = cursor.identifier(what)
    column = syntax.Column(name, at=name.at)
    if cursor.accept("."):
        column = syntax.Column(cursor.identifier(f"{what} after the dot"), name, at=name.at)
    if cursor.token.key in (".", "(", "+", "-", "*", "/", "%"):
        raise cursor.error(
            f"expected the plain name of {what}, found '{column.name.name}{cursor.token.text}'"
        )
    return column


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


def _rows_per_match(cursor: Cursor, clauses: _Clauses) -> None:
    first = cursor.tokens[cursor.index - 1]
    words = ("ROW", "PER", "MATCH") if first.key == "ONE" else ("ROWS", "PER", "MATCH")
    for key in words:
        cursor.expect(key, f"as in {first.key} {' '.join(words)}")
    kind = RowsPerMatch.ONE
    if first.key == "ALL":
        kind = RowsPerMatch.ALL_SHOW_EMPTY
        for option, option_words in _EMPTY_MATCHES.items():
            if cursor.accept(*option_words):
                kind = option
                break
        else:
            _refuse_half_an_option(cursor)
    clauses.rows = syntax.Rows(kind, at=first.at)


_EMPTY_MATCHES: dict[RowsPerMatch, tuple[str, ...]] = {
    RowsPerMatch.ALL_SHOW_EMPTY: ("SHOW", "EMPTY", "MATCHES"),
    RowsPerMatch.ALL_OMIT_EMPTY: ("OMIT", "EMPTY", "MATCHES"),
    RowsPerMatch.ALL_WITH_UNMATCHED: ("WITH", "UNMATCHED", "ROWS"),
}


def _refuse_half_an_option(cursor: Cursor) -> None:
    for words in _EMPTY_MATCHES.values():
        if cursor.token.key == words[0] and not cursor.at("WITH", "TIMEOUTS"):
            raise cursor.error(
                f"expected {' '.join(words)} after ALL ROWS PER MATCH, found "
                f"{describe(cursor.token)} {describe(cursor.peek())}"
            )


def _after_match(cursor: Cursor, clauses: _Clauses) -> None:
    at = cursor.tokens[cursor.index - 1].at
    cursor.expect("MATCH", "after AFTER")
    cursor.expect("SKIP", "after AFTER MATCH")
    for mode in (SkipMode.PAST_LAST_ROW, SkipMode.TO_NEXT_ROW):
        if cursor.accept(*mode.value.split()):
            clauses.skip = syntax.Skip(mode, at=at)
            return
    if not cursor.accept("TO"):
        raise cursor.error(
            "expected PAST LAST ROW, TO NEXT ROW, TO FIRST symbol or TO LAST symbol, found "
            f"{describe(cursor.token)}"
        )
    mode = SkipMode.TO_LAST
    # A symbol may be called FIRST or LAST.
    if cursor.token.key in ("FIRST", "LAST") and not _ends_skip(cursor):
        mode = SkipMode.TO_FIRST if cursor.advance().key == "FIRST" else SkipMode.TO_LAST
    clauses.skip = syntax.Skip(mode, cursor.identifier("a symbol to skip to"), at=at)


def _ends_skip(cursor: Cursor) -> bool:
    """Tell whether the symbol to skip to is the current token."""
    following = cursor.peek()
    if following.kind not in (NAME, QUOTED):
        return True
    return following.key == "PATTERN" and cursor.peek(2).key == "("


def _pattern(cursor: Cursor, clauses: _Clauses) -> None:
    clauses.pattern = parse_row_pattern(cursor)


def _semantics(cursor: Cursor, clauses: _Clauses) -> None:
    at = cursor.tokens[cursor.index - 1].at
    for kind in Semantics:
        if kind is not Semantics.SQL and cursor.accept(*kind.value.split()):
            clauses.strategy = syntax.Strategy(kind, at=at)
            return
    raise cursor.error(
        "expected CONTIGUOUS, SKIP TILL NEXT or SKIP TILL ANY after SEMANTICS, found "
        f"{describe(cursor.token)}"
    )


def _timeouts(cursor: Cursor, clauses: _Clauses) -> None:
    at = cursor.tokens[cursor.index - 1].at
    cursor.expect("TIMEOUTS", "after WITH")
    clauses.timeouts = syntax.Timeouts(at=at)


def _subset(cursor: Cursor, clauses: _Clauses) -> None:
    clauses.subsets = tuple(_separated(cursor, _union))


def _union(cursor: Cursor) -> syntax.Subset:
    at = cursor.token.at
    name = cursor.identifier("a name for the subset")
    cursor.expect("=", f"and symbols in parentheses after SUBSET {name.name}")
    cursor.expect("(", "before the symbols of the subset")
    members = _separated(cursor, lambda cursor: cursor.identifier("a symbol of PATTERN"))
    if cursor.token.key != ")":
        raise cursor.error(
            f"expected ',' or ')' after a symbol of the subset, found {describe(cursor.token)}"
        )
    cursor.advance()
    return syntax.Subset(name, tuple(members), at=at)


def _within(cursor: Cursor, clauses: _Clauses) -> None:
    clauses.within = parse_expression(cursor)
    if cursor.token.key not in _NAMES:  # none of which is a unit, as a look at each would tell
        refuse_unknown_unit(cursor, if_near=True)


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


_CLAUSES: dict[str, Callable[[Cursor, _Clauses], None]] = {
    "PARTITION BY": _partition_by,
    "ORDER BY": _order_by,
    "MEASURES": _measures,
    "ROWS PER MATCH": _rows_per_match,
    "AFTER MATCH": _after_match,
    "PATTERN": _pattern,
    "SEMANTICS": _semantics,
    "WITHIN": _within,
    "WITH TIMEOUTS": _timeouts,
    "SUBSET": _subset,
    "DEFINE": _define,
}
_NAMES = {name.split()[0]: name for name in _CLAUSES if name != "ROWS PER MATCH"}
_NAMES |= {"ONE": "ROWS PER MATCH", "ALL": "ROWS PER MATCH"}

_PLACES = {name: place for place, name in enumerate(_CLAUSES)}
_ANYWHERE = frozenset({"SEMANTICS"})
"""No clause of the standard, and people write it before PATTERN as well as behind."""

# What follows PATTERN has no order of its own.
_PLACES |= dict.fromkeys(("SEMANTICS", "WITHIN", "WITH TIMEOUTS", "SUBSET"), _PLACES["SUBSET"])
