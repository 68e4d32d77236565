"""Clauses of a temporal pattern: in ``MATCH_SITUATIONS ( … )``, or alone behind ``FROM source``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from chronicle.errors import did_you_mean
from replay.language import allen, syntax
from replay.language.cursor import RESERVED, Cursor, describe
from replay.language.duration_parser import refuse_unknown_unit
from replay.language.expression_parser import COMPARISON, parse_direction, parse_expression
from replay.language.match_recognize_parser import parse_measures, plain_column
from replay.language.syntax import Expression, SituationDefine, TemporalTerm
from replay.language.tokens import NAME, NUMBER, QUOTED


def parse_match_situations(cursor: Cursor) -> syntax.MatchSituations:
    """Parse ``( … )`` after MATCH_SITUATIONS, the parentheses included."""
    opening = cursor.expect("(", "after MATCH_SITUATIONS")
    clauses = parse_situation_clauses(cursor, opening.at)
    if not cursor.closes(opening):
        raise cursor.error(f"expected {_expected(cursor)}, found {describe(cursor.token)}")
    return clauses


def parse_situation_clauses(cursor: Cursor, at: int) -> syntax.MatchSituations:
    """Parse the clauses as far as they go; errors on missing ones stand at ``at``."""
    values: dict[str, Any] = {}
    given: list[str] = []
    while cursor.token.key in _CLAUSES:
        name, field, parse = _CLAUSES[cursor.token.key]
        cursor.begin_clause(name, given, _PLACES, "in a temporal pattern")
        values[field] = parse(cursor)
    if cursor.token.key == "MEASURES":
        raise cursor.error("what a match returns is named by RETURN, the last clause; write RETURN")
    if "defines" not in values:
        raise cursor.error(
            f"expected DEFINE name AS condition and a temporal pattern, found "
            f"{describe(cursor.token)}; a query of events begins with SELECT: SELECT * FROM …"
        )
    return syntax.MatchSituations(**values, at=at)


def _expected(cursor: Cursor) -> str:
    before = cursor.tokens[cursor.index - 1]
    if before.kind == NUMBER and cursor.token.kind == NAME:
        refuse_unknown_unit(cursor, if_near=True)
        return (
            "')' or a clause; numbers have no units but those of time, so write "
            f"{before.text} alone, as the column has it"
        )
    return "')' to close MATCH_SITUATIONS, or a clause such as PATTERN or WITHIN"


# ---------------------------------------------------------------------------------------------
# Clauses


def _partition_by(cursor: Cursor) -> tuple[syntax.Column, ...]:
    cursor.expect("BY", "after PARTITION")
    return cursor.separated(lambda inside: plain_column(inside, "a column to partition by"))


def _order_by(cursor: Cursor) -> syntax.Column:
    cursor.expect("BY", "after ORDER")
    column = plain_column(cursor, "the time column")
    if parse_direction(cursor) != (False, False):
        raise cursor.error("situations follow time as it goes; leave out DESC and NULLS FIRST")
    if cursor.token.key == ",":
        raise cursor.error(
            "situations follow the order of time alone, and events of one time that of their "
            "arrival; leave out further columns of ORDER BY"
        )
    return column


def _valid_for(cursor: Cursor) -> Expression:
    cursor.expect("FOR", "and a duration after VALID")
    return _duration(cursor)


def _duration(cursor: Cursor) -> Expression:
    duration = parse_expression(cursor, COMPARISON)
    if cursor.token.key not in (*_CLAUSES, *_BEHIND_NUMBERS):
        refuse_unknown_unit(cursor)
    return duration


def _define(cursor: Cursor) -> tuple[SituationDefine, ...]:
    return cursor.separated(_situation)


def _situation(cursor: Cursor) -> SituationDefine:
    at = cursor.token.at
    name = cursor.identifier("a situation to define")
    cursor.expect("AS", f"and a condition after DEFINE {name.name}")
    condition = parse_expression(cursor)
    _refuse_unit(cursor)
    if cursor.accept("BETWEEN"):
        least = _duration(cursor)
        cursor.expect("AND", "between the durations of BETWEEN")
        return SituationDefine(name, condition, least, _duration(cursor), at=at)
    at_least = _duration(cursor) if cursor.accept("AT", "LEAST") else None
    at_most = _duration(cursor) if cursor.accept("AT", "MOST") else None
    if cursor.token.key == "AT":
        raise cursor.error(
            "a duration is written AT LEAST d, AT MOST d, AT LEAST d AT MOST d or BETWEEN d AND d"
        )
    return SituationDefine(name, condition, at_least, at_most, at=at)


def _refuse_unit(cursor: Cursor) -> None:
    before, unit = cursor.tokens[cursor.index - 1], cursor.token
    is_word = unit.kind == NAME and unit.key not in (*_CLAUSES, *_BEHIND_NUMBERS)
    if before.kind == NUMBER and is_word:
        raise cursor.error(
            f"a number has no unit '{unit.text}'; write {before.text} alone, as the column has it "
            "(units of time, such as 5 SECONDS, make durations)"
        )


def _pattern(cursor: Cursor) -> tuple[TemporalTerm, ...]:
    terms = [*_pair(cursor)]
    while cursor.accept("AND"):
        terms += _pair(cursor)
    if cursor.token.key == "OR":
        raise cursor.error(
            "a pattern joins pairs by AND, and the relations of one pair by ;: write A meets;"
            "overlaps B"
        )
    return tuple(terms)


def _pair(cursor: Cursor) -> list[TemporalTerm]:
    """Parse ``A meets;overlaps B`` or ``A meets B; B contains A``, the terms of one pair, as one.

    One pair's terms are alternatives, so those of the other way round are turned.
    """
    term = _term(cursor)
    relations = term.relations
    while cursor.token.key == ";" and cursor.peek().kind in (NAME, QUOTED):
        cursor.advance()
        other = _term(cursor)
        same = [name.name.casefold() for name in (other.left, other.right)]
        wanted = [name.name.casefold() for name in (term.left, term.right)]
        if same == wanted:
            relations |= other.relations
        elif same == wanted[::-1]:
            relations |= allen.inverse(other.relations)
        else:
            raise cursor.error(
                f"; joins relations of one pair, here {term.left.name} and {term.right.name}; "
                "between pairs write AND",
                other.at,
            )
    return [TemporalTerm(term.left, relations, term.right, at=term.at)]


def _term(cursor: Cursor) -> TemporalTerm:
    at = cursor.token.at
    left = cursor.identifier("the name of a situation")
    relations = _relation(cursor)
    while cursor.accept(";"):
        relations |= _relation(cursor)
    if cursor.token.key in (",", "OR"):
        raise cursor.error(
            "relations of one pair are joined by ;: write A meets;overlaps B, not "
            f"{describe(cursor.token)}"
        )
    right = cursor.identifier("the name of a situation")
    return TemporalTerm(left, relations, right, at=at)


def _relation(cursor: Cursor) -> int:
    token = cursor.token
    if token.kind != NAME:
        raise cursor.error(f"expected a temporal relation such as before, found {describe(token)}")
    cursor.advance()
    name = token.text.lower().replace("_", " ")
    if cursor.accept("BY") or cursor.accept("-", "BY"):
        name += " by"
    if name in allen.BITS:
        return allen.BITS[name]
    if name in _ELSEWHERE:
        raise cursor.error(
            f"'{name}' is a predicate of SQL, wider than a temporal relation; write "
            f"{_ELSEWHERE[name]}",
            token.at,
        )
    hint = did_you_mean(name, allen.NAMES)
    raise cursor.error(
        f"no temporal relation '{name}' (there are: {', '.join(allen.NAMES)}){hint}", token.at
    )


_ELSEWHERE = {"precedes": "before;meets", "succeeds": "after;met by"}
"""Predicates of SQL:2011 that are no relation of Allen's, and what stands for them."""


def _within(cursor: Cursor) -> Expression:
    return _duration(cursor)


def _emit(cursor: Cursor) -> bool:
    """Return whether it is FINAL."""
    if cursor.accept("FINAL"):
        return True
    cursor.expect("EARLY", "or FINAL after EMIT")
    return False


def _return(cursor: Cursor) -> tuple[syntax.Measure, ...]:
    return parse_measures(cursor, "and a name after an expression of RETURN")


_CLAUSES: dict[str, tuple[str, str, Callable[[Cursor], object]]] = {
    "PARTITION": ("PARTITION BY", "partition_by", _partition_by),
    "ORDER": ("ORDER BY", "order_by", _order_by),
    "VALID": ("VALID FOR", "valid_for", _valid_for),
    "DEFINE": ("DEFINE", "defines", _define),
    "PATTERN": ("PATTERN", "pattern", _pattern),
    "WITHIN": ("WITHIN", "within", _within),
    "EMIT": ("EMIT", "is_final", _emit),
    "RETURN": ("RETURN", "returns", _return),
}
"""By its first word: how a clause is called, its field, and how the rest of it is parsed."""
_AROUND = ("WHERE", "GROUP", "HAVING", "LIMIT", "OFFSET", "FETCH")
_BEHIND_NUMBERS = (*RESERVED, *_AROUND, "AT", "MEASURES")
"""Words behind a number that are no unit of it, and have errors of their own."""
_PLACES = {name: place for place, (name, _, _) in enumerate(_CLAUSES.values())}
