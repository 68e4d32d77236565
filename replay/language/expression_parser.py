"""Expressions of all query languages, by operator precedence (a Pratt parser)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal

from replay.errors import NotSupportedError
from replay.expressions.nodes import DataType
from replay.expressions.types import DECIMAL_DIGITS, WITH_LENGTH
from replay.language import syntax
from replay.language.bound import Asked
from replay.language.cursor import RESERVED, Cursor, describe
from replay.language.duration_parser import (
    UNITS,
    parse_interval,
)
from replay.language.functions import AGGREGATES, ORDERED, PARTS, why_refused
from replay.language.syntax import Expression, Identifier
from replay.language.tokens import NAME, NUMBER, PARAMETER, QUOTED, STRING, Token, place

OR, AND, NOT, COMPARISON, SUM, PRODUCT, SIGN, ATOM = range(1, 9)
"""How tightly operators bind, loosest first."""

_DIGITS_MAX = 76

COMPARISONS = frozenset({"=", "<>", "!=", "<", "<=", ">", ">="})


def parse_expression(cursor: Cursor, power: int = 0) -> Expression:
    """Parse an expression whose operators bind tighter than ``power``."""
    cursor.enter()
    is_condition = cursor.token.key == "NOT"
    left = _prefix(cursor)
    levels = 1
    while True:
        token = cursor.token
        binding, parse = _INFIX.get(token.key, _NOTHING)
        # Comparisons do not chain: behind one, BETWEEN says how long a situation lasts.
        is_over = is_condition and token.key == "BETWEEN"
        if binding <= power or is_over or (token.key == "AT" and not cursor.at(*_AT_TIME_ZONE)):
            cursor.leave(levels)
            return left
        cursor.enter()
        levels += 1
        left = parse(cursor, left, token)
        is_condition = binding <= COMPARISON


# ---------------------------------------------------------------------------------------------
# What an expression can begin with


def _prefix(cursor: Cursor) -> Expression:
    token = cursor.token
    if token.kind == NAME:
        special = _WORDS.get(token.key)
        parsed = special(cursor, token) if special else None
        return parsed if parsed is not None else _name(cursor, token)
    if token.kind == NUMBER:
        return _number(cursor)
    if token.kind == STRING:
        cursor.advance()
        return syntax.Text(token.text, at=token.at)
    if token.kind == QUOTED:
        return _name(cursor, token)
    if token.kind == PARAMETER:
        cursor.advance()
        return syntax.Parameter(token.text, at=token.at)
    if token.key in ("-", "+"):
        cursor.advance()
        return syntax.Unary(token.key, parse_expression(cursor, PRODUCT), at=token.at)
    if token.key == "(":
        if cursor.scalar_query is not None and _begins_query(cursor):
            return cursor.scalar_query(cursor)
        cursor.advance()
        _refuse_subquery(cursor)
        parts = cursor.separated(parse_expression)
        _close(cursor, token)
        return parts[0] if len(parts) == 1 else syntax.RowValue(parts, at=token.at)
    raise cursor.error(f"expected an expression, found {describe(token)}")


def _number(cursor: Cursor) -> Expression:
    token = cursor.advance()
    unit = cursor.token
    if unit.key in UNITS:
        cursor.advance()
        return syntax.Duration(token.text, UNITS[unit.key], at=token.at)
    return syntax.Number(_value(cursor, token), at=token.at)


def _value(cursor: Cursor, token: Token) -> int | float | Decimal:
    if token.text.isdecimal():
        if len(token.text) > _DIGITS_MAX:
            raise cursor.error(f"a number has at most {_DIGITS_MAX} digits", token.at)
        return int(token.text)  # INTEGER or, next to a count of matches, DECIMAL(76, 0)
    number = float(token.text)
    if math.isinf(number):
        raise cursor.error("this number is outside the range of DOUBLE", token.at)
    exact = Decimal(token.text)
    is_short = "e" in token.text.lower() or len(exact.as_tuple().digits) > DECIMAL_DIGITS
    return number if is_short or exact == Decimal(repr(number)) else exact


def _name(cursor: Cursor, token: Token) -> Expression:
    """Parse a column, a column of a symbol, or the call of a function."""
    if token.key == "PATTERN" and cursor.peek().key == "(":
        raise cursor.error("expected an expression, found the clause PATTERN")
    first = cursor.identifier("an expression")
    if cursor.token.key == "(":
        return _call(cursor, first)
    if not cursor.accept("."):
        return syntax.Column(first, at=token.at)
    name = cursor.identifier(f"an attribute after '{first.name}.'")
    if cursor.token.key == ".":
        raise cursor.not_supported("a field inside a nested attribute")
    return syntax.Column(name, first, at=token.at)


def _call(cursor: Cursor, name: Identifier) -> Expression:
    word = name.name.upper()
    opening = cursor.advance()
    if word in _KEYWORD_CALLS:
        inside = _KEYWORD_CALLS[word](cursor, name.at)
        _close(cursor, opening)
        return inside
    distinct = word in AGGREGATES and accept_distinct(cursor, (")", ",", "."))
    star = accept_star(cursor)
    args: tuple[Expression, ...] = ()
    if star is not None:
        args = (star,)
    elif cursor.token.key != ")":
        args = cursor.separated(parse_expression)
    order_by = _close_ordered(cursor, opening) if word in ORDERED else ()
    if word not in ORDERED:
        _close(cursor, opening)
    if word == "PERCENTILE_CONT" and cursor.accept("WITHIN", "GROUP"):
        name, args = Identifier("APPROX_PERCENTILE", at=name.at), (_ordered_value(cursor), *args)
    where = _filter(cursor) if word in AGGREGATES and cursor.at("FILTER", "(") else None
    if cursor.at("OVER", "("):
        raise cursor.not_supported("a window function (OVER …)", name.at)
    return syntax.Function(name, args, distinct, where=where, order_by=order_by, at=name.at)


def _close_ordered(cursor: Cursor, opening: Token) -> tuple[syntax.OrderItem, ...]:
    """Parse ``[ORDER BY …] ) [WITHIN GROUP (ORDER BY …)]``, the end of a call."""
    order_by: tuple[syntax.OrderItem, ...] = ()
    if cursor.accept("ORDER", "BY"):
        order_by = cursor.separated(parse_order_item)
    _close(cursor, opening)
    if not order_by and cursor.accept("WITHIN", "GROUP"):
        group = cursor.expect("(", "and ORDER BY behind WITHIN GROUP")
        cursor.expect("ORDER", "as in WITHIN GROUP (ORDER BY x)")
        cursor.expect("BY", "after ORDER")
        order_by = cursor.separated(parse_order_item)
        _close(cursor, group)
    return order_by


def parse_order_item(cursor: Cursor) -> syntax.OrderItem:
    """Parse ``expression [ASC | DESC] [NULLS FIRST | NULLS LAST]``."""
    at = cursor.token.at
    expression = parse_expression(cursor)
    return syntax.OrderItem(expression, *parse_direction(cursor), at=at)


def parse_direction(cursor: Cursor) -> tuple[bool, bool]:
    """Parse ``[ASC | DESC] [NULLS FIRST | NULLS LAST]``: whether it is DESC, whether FIRST."""
    descending = cursor.accept("DESC")
    if not descending:
        cursor.accept("ASC")
    nulls_first = cursor.accept("NULLS", "FIRST")
    if not nulls_first and cursor.accept("NULLS"):
        cursor.expect("LAST", "or FIRST after NULLS")
    return descending, nulls_first


def _ordered_value(cursor: Cursor) -> Expression:
    """Parse ``(ORDER BY value)`` behind WITHIN GROUP."""
    opening = cursor.expect("(", "and ORDER BY behind WITHIN GROUP")
    cursor.expect("ORDER", "as in WITHIN GROUP (ORDER BY x)")
    cursor.expect("BY", "after ORDER")
    value = parse_expression(cursor)
    if cursor.token.key == "DESC":
        raise cursor.not_supported("WITHIN GROUP (ORDER BY … DESC)", remedy="take 1 - p ascending")
    cursor.accept("ASC")
    _close(cursor, opening)
    return value


def _filter(cursor: Cursor) -> Expression:
    """Parse ``FILTER (WHERE condition)``."""
    cursor.advance()
    opening = cursor.advance()
    cursor.expect("WHERE", "and a condition in FILTER (…)")
    where = parse_expression(cursor)
    _close(cursor, opening)
    return where


def accept_distinct(cursor: Cursor, after_name: tuple[str, ...]) -> bool:
    """Step over DISTINCT or ALL, and tell whether it was DISTINCT.

    Before one of the keys ``after_name`` it is the name of a column and stays.
    """
    if cursor.peek().key in after_name:
        return False
    return cursor.accept("DISTINCT") or (cursor.accept("ALL") and False)


def accept_star(cursor: Cursor) -> syntax.Star | None:
    """Step over ``*`` or ``A.*`` if it comes next."""
    token = cursor.token
    if cursor.accept("*"):
        return syntax.Star(at=token.at)
    if token.kind in (NAME, QUOTED) and cursor.peek().key == "." and cursor.peek(2).key == "*":
        symbol = cursor.identifier("a name before '.*'")
        cursor.accept(".", "*")
        return syntax.Star(symbol, at=token.at)
    return None


# ---------------------------------------------------------------------------------------------
# Words with a meaning of their own, most of them only before "(" or a text


def _literal(node: Expression) -> Callable[[Cursor, Token], Expression]:
    def parse(cursor: Cursor, token: Token) -> Expression:
        cursor.advance()
        if isinstance(node, syntax.Truth):
            return syntax.Truth(node.value, at=token.at)
        return syntax.Null(at=token.at)

    return parse


def _not(cursor: Cursor, token: Token) -> Expression:
    cursor.advance()
    return syntax.Unary("NOT", parse_expression(cursor, NOT), at=token.at)


def _time_text(cursor: Cursor, token: Token) -> Expression | None:
    if cursor.peek().kind != STRING:
        return None
    cursor.advance()
    return syntax.TimeText(token.key, cursor.advance().text, at=token.at)


def _case(cursor: Cursor, token: Token) -> Expression:
    cursor.advance()
    operand = None if cursor.token.key == "WHEN" else parse_expression(cursor)
    branches = []
    while cursor.accept("WHEN"):
        condition = parse_expression(cursor)
        cursor.expect("THEN", "after the condition of WHEN")
        branches.append((condition, parse_expression(cursor)))
    if not branches:
        cursor.expect("WHEN", "after CASE")
    otherwise = parse_expression(cursor) if cursor.accept("ELSE") else None
    cursor.expect("END", "to close CASE")
    return syntax.Case(operand, tuple(branches), otherwise, at=token.at)


def _call_of(
    inside: Callable[[Cursor, Token], Expression],
) -> Callable[[Cursor, Token], Expression | None]:
    """Return what parses a word and what is inside its parentheses; without them it is a name."""

    def parse(cursor: Cursor, token: Token) -> Expression | None:
        if cursor.peek().key != "(":
            return None
        cursor.advance()
        opening = cursor.advance()
        node = inside(cursor, token)
        _close(cursor, opening)
        return node

    return parse


def _cast(cursor: Cursor, token: Token) -> Expression:
    operand = parse_expression(cursor)
    cursor.expect("AS", "and a type in CAST")
    if cursor.token.kind != NAME:
        raise cursor.error(f"expected a type, found {describe(cursor.token)}")
    words = [cursor.advance().key]
    while cursor.token.key in ("PRECISION", "VARYING", "WITH", "WITHOUT", "TIME", "ZONE"):
        words.append(cursor.advance().key)
    name = " ".join(words)
    if name in ("DECIMAL", "NUMERIC") and _has_76_digits(cursor):
        name = DataType.DECIMAL_76.value
    length = _length(cursor) if name in WITH_LENGTH and cursor.token.key == "(" else None
    if cursor.token.key == "(":
        raise cursor.not_supported(
            "a type with a length or precision", remedy=f"write {words[0]} alone"
        )
    return syntax.Cast(operand, name, token.key == "TRY_CAST", length, at=token.at)


def _has_76_digits(cursor: Cursor) -> bool:
    """Step over ``(76, 0)`` if it comes next."""
    parts = [cursor.token, *(cursor.peek(ahead) for ahead in range(1, 5))]
    if "".join(part.text for part in parts) != "(76,0)":
        return False
    for _ in parts:
        cursor.advance()
    return True


def _length(cursor: Cursor) -> int:
    """Parse the ``(n)`` of ``VARCHAR(n)``."""
    opening = cursor.advance()
    token = cursor.advance()
    if not token.text.isdecimal() or not 0 < int(token.text) < 2**31:
        raise cursor.error("a text has a whole number of characters from 1", token.at)
    _close(cursor, opening)
    return int(token.text)


def _navigation(cursor: Cursor, token: Token) -> Expression:
    operand = parse_expression(cursor)
    offset = parse_expression(cursor) if cursor.accept(",") else None
    return syntax.Navigation(token.key, operand, offset, at=token.at)


def _classifier(cursor: Cursor, token: Token) -> Expression:
    symbol = None if cursor.token.key == ")" else cursor.identifier("a symbol")
    return syntax.ClassifierCall(symbol, at=token.at)


def _match_number(_: Cursor, token: Token) -> Expression:
    return syntax.MatchNumberCall(at=token.at)


def _running(cursor: Cursor, token: Token) -> Expression | None:
    """Parse ``RUNNING`` or ``FINAL`` and what it stands before; else it is a name."""
    following = cursor.peek()
    is_name = following.kind in (NAME, QUOTED) and following.key not in RESERVED
    if not is_name or cursor.peek(2).key not in ("(", "."):
        return None
    cursor.advance()
    operand = _prefix(cursor)
    if isinstance(operand, syntax.Navigation) and operand.kind in ("FIRST", "LAST"):
        if operand.scope is None:
            return replace(operand, scope=token.key, at=token.at)
    elif isinstance(operand, syntax.Function) and operand.name.name.upper() in AGGREGATES:
        return replace(operand, scope=token.key, at=token.at)
    raise cursor.error(
        f"{token.key} stands before FIRST, LAST or an aggregate, as in {token.key} LAST(A.x)",
        token.at,
    )


def _exists(cursor: Cursor, token: Token) -> Expression | None:
    if cursor.peek().key != "(" or cursor.peek(2).key not in ("SELECT", "WITH"):
        return None
    if cursor.scalar_query is None:
        raise cursor.not_supported("a subquery")
    cursor.advance()
    rows = cursor.scalar_query(cursor)
    if not isinstance(rows, syntax.ScalarQuery):  # one without FROM, which has one row
        return syntax.Truth(True, at=token.at)
    return replace(rows, asked=Asked.EXISTS, at=token.at)


def _begins_query(cursor: Cursor) -> bool:
    """Tell whether a query in parentheses stands here."""
    return cursor.token.key == "(" and cursor.peek().key in ("SELECT", "WITH")


def _clock(cursor: Cursor, token: Token) -> None:
    """Refuse what SQL reads the clock by, without parentheses."""
    refused = why_refused(token.key)
    assert refused is not None
    raise NotSupportedError(refused, **place(cursor.text, token.at))


_CLOCK_WORDS = ("CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP", "LOCALTIMESTAMP")

_WORDS: dict[str, Callable[[Cursor, Token], Expression | None]] = {
    "NOT": _not,
    "NULL": _literal(syntax.Null()),
    "TRUE": _literal(syntax.Truth(True)),
    "FALSE": _literal(syntax.Truth(False)),
    "TIMESTAMP": _time_text,
    "DATE": _time_text,
    "INTERVAL": parse_interval,
    "CASE": _case,
    "CAST": _call_of(_cast),
    "TRY_CAST": _call_of(_cast),
    **dict.fromkeys(_CLOCK_WORDS, _clock),
    "FIRST": _call_of(_navigation),
    "LAST": _call_of(_navigation),
    "PREV": _call_of(_navigation),
    "NEXT": _call_of(_navigation),
    "CLASSIFIER": _call_of(_classifier),
    "MATCH_NUMBER": _call_of(_match_number),
    "RUNNING": _running,
    "FINAL": _running,
    "EXISTS": _exists,
}


# ---------------------------------------------------------------------------------------------
# What can follow an operand


def _logical(cursor: Cursor, left: Expression, token: Token) -> Expression:
    power = AND if token.key == "AND" else OR
    terms = [left]
    while cursor.accept(token.key):
        terms.append(parse_expression(cursor, power))
    return syntax.Logical(token.key, tuple(terms), at=left.at)


def _arithmetic(cursor: Cursor, left: Expression, token: Token) -> Expression:
    cursor.advance()
    power = SUM if token.key in "+-" else PRODUCT
    return syntax.Binary(token.key, left, parse_expression(cursor, power), at=token.at)


def _comparison(cursor: Cursor, left: Expression, token: Token) -> Expression:
    cursor.advance()
    if token.key == cursor.token.key == "=":
        raise cursor.error("equality is written with one =, not ==")
    if cursor.token.key in ("ANY", "ALL", "SOME") and cursor.peek().key == "(":
        raise cursor.not_supported(
            f"a comparison with {cursor.token.key} (…)", remedy="write IN (…)"
        )
    right = parse_expression(cursor, COMPARISON)
    if cursor.token.key in COMPARISONS:
        raise cursor.error("comparisons do not chain: write a < b AND b < c")
    op = "<>" if token.key == "!=" else token.key
    return syntax.Binary(op, left, right, at=token.at)


def _negated(cursor: Cursor, left: Expression, token: Token) -> Expression:
    following = cursor.peek()
    parse = _NEGATABLE.get(following.key)
    if parse is None:
        raise cursor.error(f"expected BETWEEN, IN or LIKE after NOT, found {describe(following)}")
    cursor.advance()
    return parse(cursor, left, token, True)


def _plain(
    parse: Callable[[Cursor, Expression, Token, bool], Expression],
) -> Callable[[Cursor, Expression, Token], Expression]:
    return lambda cursor, left, token: parse(cursor, left, token, False)


def _between(cursor: Cursor, left: Expression, token: Token, negated: bool) -> Expression:
    cursor.advance()
    low = parse_expression(cursor, COMPARISON)
    cursor.expect("AND", "between the bounds of BETWEEN")
    high = parse_expression(cursor, COMPARISON)
    return syntax.Between(left, low, high, negated, at=token.at)


def _in_list(cursor: Cursor, left: Expression, token: Token, negated: bool) -> Expression:
    cursor.advance()
    if cursor.scalar_query is not None and _begins_query(cursor):
        answer = cursor.scalar_query(cursor)
        if isinstance(answer, syntax.ScalarQuery):
            answer = replace(answer, asked=Asked.VALUES)
        return syntax.InList(left, (answer,), negated, at=token.at)
    if cursor.token.kind == PARAMETER:
        name = cursor.advance()
        values = syntax.ListParameter(name.text, at=name.at)
        return syntax.InList(left, (values,), negated, at=token.at)
    opening = cursor.expect("(", "after IN")
    _refuse_subquery(cursor)
    options = cursor.separated(parse_expression)
    _close(cursor, opening)
    return syntax.InList(left, options, negated, at=token.at)


def _like(cursor: Cursor, left: Expression, token: Token, negated: bool) -> Expression:
    any_case = cursor.advance().key == "ILIKE"
    pattern = parse_expression(cursor, COMPARISON)
    escape = parse_expression(cursor, COMPARISON) if cursor.accept("ESCAPE") else None
    return syntax.Like(left, pattern, escape, negated, any_case, at=token.at)


def _is_null(cursor: Cursor, left: Expression, token: Token) -> Expression:
    cursor.advance()
    negated = cursor.accept("NOT")
    word = cursor.token
    if word.key in _TRUTHS:
        cursor.advance()
        return syntax.IsTruth(left, _TRUTHS[word.key], negated, at=token.at)
    if cursor.accept("DISTINCT"):
        cursor.expect("FROM", "after IS DISTINCT")
        right = parse_expression(cursor, COMPARISON)
        return syntax.IsDistinct(left, right, negated, at=token.at)
    cursor.expect("NULL", "after IS")
    return syntax.IsNull(left, negated, at=token.at)


def _concatenation(cursor: Cursor, left: Expression, token: Token) -> Expression:
    texts = [left]
    while cursor.accept("||"):
        texts.append(parse_expression(cursor, SUM))
    return _function("concat", tuple(texts), token.at)


def _at_time_zone(cursor: Cursor, left: Expression, token: Token) -> Expression:
    cursor.accept(*_AT_TIME_ZONE)
    return _function("timezone", (parse_expression(cursor, SIGN), left), token.at)


def _unsupported_operator(cursor: Cursor, _: Expression, token: Token) -> Expression:
    raise cursor.not_supported(f"the operator {token.key}")


def _refuse_subquery(cursor: Cursor) -> None:
    if cursor.token.key == "SELECT":
        raise cursor.not_supported("a subquery")


def _close(cursor: Cursor, opening: Token) -> None:
    if not cursor.closes(opening):
        raise cursor.error(f"expected ')' or an operator, found {describe(cursor.token)}")


_NEGATABLE = {"BETWEEN": _between, "IN": _in_list, "LIKE": _like, "ILIKE": _like}
_TRUTHS = {"TRUE": True, "FALSE": False, "UNKNOWN": None}
_AT_TIME_ZONE = ("AT", "TIME", "ZONE")

_Infix = Callable[[Cursor, Expression, Token], Expression]
_NOTHING: tuple[int, _Infix] = (-1, _unsupported_operator)
_INFIX: dict[str, tuple[int, _Infix]] = {
    "OR": (OR, _logical),
    "AND": (AND, _logical),
    **dict.fromkeys(COMPARISONS, (COMPARISON, _comparison)),
    "BETWEEN": (COMPARISON, _plain(_between)),
    "IN": (COMPARISON, _plain(_in_list)),
    "LIKE": (COMPARISON, _plain(_like)),
    "NOT": (COMPARISON, _negated),
    "IS": (COMPARISON, _is_null),
    "ILIKE": (COMPARISON, _plain(_like)),
    "AT": (SIGN, _at_time_zone),
    "||": (SUM, _concatenation),
    "+": (SUM, _arithmetic),
    "-": (SUM, _arithmetic),
    "*": (PRODUCT, _arithmetic),
    "/": (PRODUCT, _arithmetic),
    "%": (PRODUCT, _arithmetic),
}


# ---------------------------------------------------------------------------------------------
# Calls whose arguments words separate: they become calls of ordinary functions, with commas


_TRIMS = {"BOTH": "trim", "LEADING": "ltrim", "TRAILING": "rtrim"}


def _function(name: str, args: tuple[Expression, ...], at: int) -> syntax.Function:
    """Return the call of a function at a place of the text."""
    return syntax.Function(Identifier(name, at=at), args, at=at)


def _extract(cursor: Cursor, at: int) -> Expression:
    """Parse the inside of ``EXTRACT(field FROM x)``."""
    token = cursor.token
    if token.kind not in (NAME, STRING):
        raise cursor.error(f"expected a part of a time such as HOUR, found {describe(token)}")
    part = PARTS.get(token.text.lower())
    if part is None:
        known = ", ".join(sorted({name.upper() for name in PARTS.values()}))
        raise cursor.error(f"EXTRACT knows no part '{token.text}' of a time; it knows {known}")
    cursor.advance()
    cursor.expect("FROM", "after the part of EXTRACT")
    return _function(part, (parse_expression(cursor),), at)


def _substring(cursor: Cursor, at: int) -> Expression:
    """Parse the inside of ``SUBSTRING(x FROM start [FOR length])``, also with commas."""
    text = parse_expression(cursor)
    if cursor.accept("FROM"):
        start = parse_expression(cursor)
    elif cursor.token.key == "FOR":
        start = syntax.Number(1, at=cursor.token.at)
    else:
        return _function("substring", (text, *_more(cursor)), at)
    length = (parse_expression(cursor),) if cursor.accept("FOR") else ()
    return _function("substring", (text, start, *length), at)


def _trim(cursor: Cursor, at: int) -> Expression:
    """Parse the inside of ``TRIM([[BOTH | LEADING | TRAILING] [characters] FROM] x)``."""
    name = "trim"
    if cursor.token.key in _TRIMS and _begins_operand(cursor):
        name = _TRIMS[cursor.advance().key]
        characters = () if cursor.token.key == "FROM" else (parse_expression(cursor),)
        if not characters or cursor.token.key == "FROM":
            cursor.expect("FROM", "after the side of TRIM")
            return _function(name, (parse_expression(cursor), *characters), at)
        return _function(name, characters, at)
    first = parse_expression(cursor)
    if cursor.accept("FROM"):
        return _function(name, (parse_expression(cursor), first), at)
    return _function(name, (first, *_more(cursor)), at)


def _begins_operand(cursor: Cursor) -> bool:
    """Tell whether an operand, or FROM, follows the word, which is then no name of a column."""
    following = cursor.peek()
    return following.kind in (NAME, QUOTED, STRING) or following.key == "("


def _position(cursor: Cursor, at: int) -> Expression:
    """Parse the inside of ``POSITION(part IN text)``."""
    part = parse_expression(cursor, COMPARISON)
    cursor.expect("IN", "after the part that POSITION looks for")
    return _function("strpos", (parse_expression(cursor), part), at)


def _overlay(cursor: Cursor, at: int) -> Expression:
    raise cursor.not_supported("the function OVERLAY", at, "write it with left, substring and ||")


def _more(cursor: Cursor) -> tuple[Expression, ...]:
    return cursor.separated(parse_expression) if cursor.accept(",") else ()


_KEYWORD_CALLS: dict[str, Callable[[Cursor, int], Expression]] = {
    "EXTRACT": _extract,
    "SUBSTRING": _substring,
    "TRIM": _trim,
    "POSITION": _position,
    "OVERLAY": _overlay,
}
"""What parses the inside of a call whose arguments words separate, and the place of the call."""
