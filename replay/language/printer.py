"""Expressions of the syntax tree back to text: for errors, and as names of columns."""

from __future__ import annotations

import re
from collections.abc import Iterable
from decimal import Decimal

from replay.language import bound, syntax
from replay.language.cursor import RESERVED
from replay.language.expression_parser import (
    AND,
    ATOM,
    COMPARISON,
    COMPARISONS,
    NOT,
    OR,
    PRODUCT,
    SIGN,
    SUM,
)
from replay.language.syntax import Expression, Identifier
from replay.language.tokens import in_quotes, quoted

_POWERS = {"AND": AND, "OR": OR, "+": SUM, "-": SUM, "*": PRODUCT, "/": PRODUCT, "%": PRODUCT}
_POWERS |= dict.fromkeys(COMPARISONS, COMPARISON)

_PLAIN_NAME = re.compile(r"[^\W\d]\w*")


def to_sql(node: Expression | Identifier) -> str:
    """Return the text of an expression or name; parsing it gives the node again."""
    return _identifier(node) if isinstance(node, Identifier) else _expression(node)


def _identifier(identifier: Identifier) -> str:
    name = identifier.name
    plain = _PLAIN_NAME.fullmatch(name) is not None and name.upper() not in RESERVED
    return name if plain and not identifier.quoted else quoted(name)


def _list(nodes: Iterable[Expression]) -> str:
    return ", ".join(map(_expression, nodes))


def _within(node: Expression, power: int) -> str:
    """Print an operand, in parentheses unless it binds at least as tightly as ``power``."""
    text = _expression(node)
    return text if _power(node) >= power else f"({text})"


def _power(node: Expression) -> int:
    match node:
        case syntax.Binary(op, _, _) | syntax.Logical(op, _):
            return _POWERS[op]
        case syntax.Unary("NOT", _):
            return NOT
        case syntax.Unary():
            return SIGN
        case syntax.Between() | syntax.InList() | syntax.Like() | syntax.IsNull():
            return COMPARISON
        case syntax.IsTruth() | syntax.IsDistinct():
            return COMPARISON
    return ATOM


def _expression(node: Expression) -> str:
    match node:
        case syntax.Unary("NOT", operand):
            return f"NOT {_within(operand, NOT)}"
        case syntax.Unary(op, operand):
            return f"{op}{_within(operand, ATOM)}"
        case syntax.Binary(op, left, right):
            power = _POWERS[op]
            # Operators of one level group to the left; comparisons do not chain at all.
            left_power = power if power > COMPARISON else power + 1
            return f"{_within(left, left_power)} {op} {_within(right, power + 1)}"
        case syntax.Logical(op, terms):
            return f" {op} ".join(_within(term, _POWERS[op] + 1) for term in terms)
        case syntax.Between(operand, low, high, negated):
            bounds = f"{_within(low, SUM)} AND {_within(high, SUM)}"
            return f"{_within(operand, SUM)} {_not(negated)}BETWEEN {bounds}"
        case syntax.InList(operand, options, negated):
            listed = _list(options)
            is_list = syntax.is_values(options[0]) or isinstance(options[0], syntax.ListParameter)
            listed = listed if is_list else f"({listed})"
            return f"{_within(operand, SUM)} {_not(negated)}IN {listed}"
        case syntax.Like(operand, pattern, escape, negated, any_case):
            tail = f" ESCAPE {_within(escape, SUM)}" if escape is not None else ""
            like = f"{_not(negated)}{'I' if any_case else ''}LIKE"
            return f"{_within(operand, SUM)} {like} {_within(pattern, SUM)}{tail}"
        case syntax.IsNull(operand, negated):
            return f"{_within(operand, SUM)} IS {_not(negated)}NULL"
        case syntax.IsTruth(operand, value, negated):
            word = "UNKNOWN" if value is None else str(value).upper()
            return f"{_within(operand, SUM)} IS {_not(negated)}{word}"
        case syntax.IsDistinct(left, right, negated):
            sides = _within(left, SUM), _within(right, SUM)
            return f"{sides[0]} IS {_not(negated)}DISTINCT FROM {sides[1]}"
        case syntax.Case(operand, branches, otherwise):
            return _case(operand, branches, otherwise)
        case syntax.Cast(operand, type_name, lenient, length):
            as_type = type_name if length is None else f"{type_name}({length})"
            return f"{'TRY_' if lenient else ''}CAST({_expression(operand)} AS {as_type})"
        case syntax.Function():
            return _function(node)
        case syntax.Navigation(kind, operand, offset, scope):
            tail = f", {_expression(offset)}" if offset is not None else ""
            call = f"{kind}({_expression(operand)}{tail})"
            return f"{scope} {call}" if scope is not None else call
    return _atom(node)


def _function(node: syntax.Function) -> str:
    distinct = "DISTINCT " if node.distinct else ""
    order = ""
    if node.order_by:
        order = f" ORDER BY {', '.join(map(_sorted_by, node.order_by))}"
    call = f"{_identifier(node.name)}({distinct}{_list(node.args)}{order})"
    if node.where is not None:
        call += f" FILTER (WHERE {_expression(node.where)})"
    return f"{node.scope} {call}" if node.scope is not None else call


def _sorted_by(item: syntax.OrderItem) -> str:
    direction = " DESC" if item.descending else ""
    return f"{_expression(item.expression)}{direction}{' NULLS FIRST' if item.nulls_first else ''}"


def _atom(node: Expression) -> str:
    match node:
        case syntax.Written(text):
            return text
        case syntax.Number(value):
            return f"{value:f}" if isinstance(value, Decimal) else repr(value)
        case syntax.Text(value):
            return in_quotes(value)
        case syntax.Truth(value):
            return "TRUE" if value else "FALSE"
        case syntax.Null():
            return "NULL"
        case syntax.TimeText(kind, text):
            return f"{kind} {in_quotes(text)}"
        case syntax.Duration(amount, unit):
            return f"INTERVAL {in_quotes(amount)} {unit}"
        case syntax.Parameter(name) | syntax.ListParameter(name):
            return f":{name}"
        case syntax.Column(name, symbol):
            of_symbol = "" if symbol is None else f"{_identifier(symbol)}."
            return f"{of_symbol}{_identifier(name)}"
        case syntax.RowValue(parts):
            return f"({_list(parts)})"
        case syntax.ClassifierCall(symbol):
            return f"CLASSIFIER({_identifier(symbol) if symbol is not None else ''})"
        case syntax.MatchNumberCall():
            return "MATCH_NUMBER()"
        case syntax.ScalarQuery(_, asked):
            return "EXISTS (SELECT …)" if asked is bound.Asked.EXISTS else "(SELECT …)"
        case syntax.Star(symbol):
            return "*" if symbol is None else f"{_identifier(symbol)}.*"
    raise AssertionError(f"no text for {type(node).__name__}")


def _case(
    operand: Expression | None,
    branches: tuple[tuple[Expression, Expression], ...],
    otherwise: Expression | None,
) -> str:
    parts = ["CASE"]
    if operand is not None:
        parts.append(_expression(operand))
    parts.extend(
        f"WHEN {_expression(condition)} THEN {_expression(value)}" for condition, value in branches
    )
    if otherwise is not None:
        parts.append(f"ELSE {_expression(otherwise)}")
    return " ".join([*parts, "END"])


def _not(negated: bool) -> str:
    return "NOT " if negated else ""
