"""``MATCH_RECOGNIZE ( … )``: its clauses, in SQL's order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from replay.language import syntax
from replay.language.bound import RowsPerMatch, Semantics, SkipMode
from replay.language.cursor import Cursor, describe
from replay.language.duration_parser import refuse_unknown_unit
from replay.language.expression_parser import parse_direction, parse_expression
from replay.language.printer import to_sql
from replay.language.row_pattern_parser import parse_row_pattern
from replay.language.tokens import END, NAME, QUOTED


def parse_match_recognize(
    cursor: Cursor,
) -> tuple[syntax.MatchRecognize, tuple[syntax.SelectItem, ...]]:
    """Parse ``( … )``, the parentheses included.

    The second value is what PARTITION BY computes, to be columns of what is read.
    """
    opening = cursor.expect("(", "after MATCH_RECOGNIZE")
    values: dict[str, Any] = {}
    given: list[str] = []
    while not cursor.accept(")"):
        _parse_clause(cursor, values, given, opening.at)
    if "pattern" not in values:
        raise cursor.error("MATCH_RECOGNIZE needs PATTERN ( … )", opening.at)
    values.setdefault("order_by", ())
    computed: dict[str, syntax.SelectItem] = {}
    columns = [_partition_column(part, computed) for part in values.get("partition_by", ())]
    values["partition_by"] = tuple(columns)
    return syntax.MatchRecognize(**values, at=opening.at), tuple(computed.values())


def _partition_column(
    part: syntax.Expression, computed: dict[str, syntax.SelectItem]
) -> syntax.Column:
    """Return the column that PARTITION BY names, or the one that will hold what it computes."""
    if isinstance(part, syntax.Column):
        return part
    name = syntax.Identifier(to_sql(part), True, at=part.at)
    computed[name.name] = syntax.SelectItem(part, name, at=part.at)
    return syntax.Column(name, at=part.at)


def _parse_clause(cursor: Cursor, values: dict[str, Any], given: list[str], opening: int) -> None:
    """Parse the next clause into the field of its name."""
    token = cursor.token
    name = _NAMES.get(token.key)
    if name is None:
        if token.kind == END:
            raise cursor.error("the '(' of MATCH_RECOGNIZE is not closed", opening)
        if token.key in ("INITIAL", "SEEK") and cursor.peek().key == "PATTERN":
            raise cursor.error(f"{token.key} is for windows, not for MATCH_RECOGNIZE; leave it out")
        raise cursor.error(f"expected {_expected(given)}, found {describe(token)}")
    cursor.begin_clause(name, given, _PLACES, "in MATCH_RECOGNIZE")
    field, parse = _CLAUSES[name]
    values[field] = parse(cursor)


def _expected(given: list[str]) -> str:
    last = given[-1] if given else ""
    if last == "DEFINE":
        return "',' before the next condition, or ')' to close MATCH_RECOGNIZE"
    if "PATTERN" in given:
        return "')' to close MATCH_RECOGNIZE, or a clause such as WITHIN or DEFINE"
    separator = "',' or " if last in ("PARTITION BY", "ORDER BY", "MEASURES") else ""
    return f"{separator}a clause such as PATTERN"


def parse_partition_by(cursor: Cursor) -> tuple[syntax.Expression, ...]:
    """Parse what follows PARTITION."""
    cursor.expect("BY", "after PARTITION")
    return cursor.separated(parse_expression)


def _order_by(cursor: Cursor) -> tuple[syntax.OrderItem, ...]:
    cursor.expect("BY", "after ORDER")
    items = [_order_item(cursor, "the stream's time column")]
    while cursor.accept(","):
        items.append(_order_item(cursor, "a column to order by"))
    return tuple(items)


def _order_item(cursor: Cursor, what: str) -> syntax.OrderItem:
    column = plain_column(cursor, what)
    return syntax.OrderItem(column, *parse_direction(cursor), at=column.at)


def plain_column(cursor: Cursor, what: str) -> syntax.Column:
    """Parse ``name`` or ``source.name``."""
    name = cursor.identifier(what)
    column = syntax.Column(name, at=name.at)
    if cursor.accept("."):
        column = syntax.Column(cursor.identifier(f"{what} after the dot"), name, at=name.at)
    if cursor.token.key in (".", "(", "+", "-", "*", "/", "%"):
        raise cursor.error(
            f"expected the plain name of {what}, found '{column.name.name}{cursor.token.text}'"
        )
    return column


def parse_measures(
    cursor: Cursor, why: str = "and a name for this measure"
) -> tuple[syntax.Measure, ...]:
    """Parse ``expression AS name, …``; ``why`` there must be AS is for errors."""

    def measure(cursor: Cursor) -> syntax.Measure:
        at = cursor.token.at
        expression = parse_expression(cursor)
        cursor.expect("AS", why)
        return syntax.Measure(expression, cursor.identifier("a name after AS"), at=at)

    return cursor.separated(measure)


def _rows_per_match(cursor: Cursor) -> syntax.Rows:
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
    return syntax.Rows(kind, at=first.at)


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


def _after_match(cursor: Cursor) -> syntax.Skip:
    at = cursor.tokens[cursor.index - 1].at
    cursor.expect("MATCH", "after AFTER")
    cursor.expect("SKIP", "after AFTER MATCH")
    for mode in (SkipMode.PAST_LAST_ROW, SkipMode.TO_NEXT_ROW):
        if cursor.accept(*mode.value.split()):
            return syntax.Skip(mode, at=at)
    if not cursor.accept("TO"):
        raise cursor.error(
            "expected PAST LAST ROW, TO NEXT ROW, TO FIRST symbol or TO LAST symbol, found "
            f"{describe(cursor.token)}"
        )
    mode = SkipMode.TO_LAST
    # A symbol may be called FIRST or LAST.
    if cursor.token.key in ("FIRST", "LAST") and not _ends_skip(cursor):
        mode = SkipMode.TO_FIRST if cursor.advance().key == "FIRST" else SkipMode.TO_LAST
    return syntax.Skip(mode, cursor.identifier("a symbol to skip to"), at=at)


def _ends_skip(cursor: Cursor) -> bool:
    """Tell whether the symbol to skip to is the current token."""
    following = cursor.peek()
    if following.kind not in (NAME, QUOTED):
        return True
    return following.key == "PATTERN" and cursor.peek(2).key == "("


def _semantics(cursor: Cursor) -> syntax.Strategy:
    at = cursor.tokens[cursor.index - 1].at
    for kind in Semantics:
        if kind is not Semantics.SQL and cursor.accept(*kind.value.split()):
            return syntax.Strategy(kind, at=at)
    raise cursor.error(
        "expected CONTIGUOUS, SKIP TILL NEXT or SKIP TILL ANY after SEMANTICS, found "
        f"{describe(cursor.token)}"
    )


def _timeouts(cursor: Cursor) -> syntax.Timeouts:
    at = cursor.tokens[cursor.index - 1].at
    cursor.expect("TIMEOUTS", "after WITH")
    return syntax.Timeouts(at=at)


def _subset(cursor: Cursor) -> tuple[syntax.Subset, ...]:
    return cursor.separated(_union)


def _union(cursor: Cursor) -> syntax.Subset:
    at = cursor.token.at
    name = cursor.identifier("a name for the subset")
    cursor.expect("=", f"and symbols in parentheses after SUBSET {name.name}")
    cursor.expect("(", "before the symbols of the subset")
    members = cursor.separated(lambda cursor: cursor.identifier("a symbol of PATTERN"))
    if cursor.token.key != ")":
        raise cursor.error(
            f"expected ',' or ')' after a symbol of the subset, found {describe(cursor.token)}"
        )
    cursor.advance()
    return syntax.Subset(name, members, at=at)


def _within(cursor: Cursor) -> syntax.Expression:
    if cursor.token.key in _NAMES:
        found = describe(cursor.token)
        raise cursor.error(f"expected a duration after WITHIN, such as 30 MINUTES, found {found}")
    within = parse_expression(cursor)
    if cursor.token.key not in _NAMES:  # none of which is a unit, as a look at each would tell
        refuse_unknown_unit(cursor, if_near=True)
    return within


def _define(cursor: Cursor) -> tuple[syntax.Define, ...]:
    return cursor.separated(_condition)


def _condition(cursor: Cursor) -> syntax.Define:
    at = cursor.token.at
    symbol = cursor.identifier("a symbol to define")
    cursor.expect("AS", f"and a condition after DEFINE {symbol.name}")
    return syntax.Define(symbol, parse_expression(cursor), at=at)


_CLAUSES: dict[str, tuple[str, Callable[[Cursor], object]]] = {
    "PARTITION BY": ("partition_by", parse_partition_by),
    "ORDER BY": ("order_by", _order_by),
    "MEASURES": ("measures", parse_measures),
    "ROWS PER MATCH": ("rows", _rows_per_match),
    "AFTER MATCH": ("skip", _after_match),
    "PATTERN": ("pattern", parse_row_pattern),
    "SEMANTICS": ("strategy", _semantics),
    "WITHIN": ("within", _within),
    "WITH TIMEOUTS": ("timeouts", _timeouts),
    "SUBSET": ("subsets", _subset),
    "DEFINE": ("defines", _define),
}
"""In SQL's order: the field of each clause, and how what follows its first word is parsed."""

_NAMES = {name.split()[0]: name for name in _CLAUSES if name != "ROWS PER MATCH"}
_NAMES |= {"ONE": "ROWS PER MATCH", "ALL": "ROWS PER MATCH"}

# SEMANTICS is no clause of the standard, and people write it before PATTERN as well as behind.
_PLACES = {name: place for place, name in enumerate(_CLAUSES) if name != "SEMANTICS"}
# What follows PATTERN has no order of its own.
_PLACES |= dict.fromkeys(("WITHIN", "WITH TIMEOUTS", "SUBSET"), _PLACES["SUBSET"])
