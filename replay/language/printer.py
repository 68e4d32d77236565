"""The syntax tree back to text, such that parsing the text gives the tree again."""

from __future__ import annotations

import re
from collections.abc import Iterable

from replay.language import syntax
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
from replay.language.syntax import Expression, Identifier, Node, RowPattern

_POWERS = {"AND": AND, "OR": OR, "+": SUM, "-": SUM, "*": PRODUCT, "/": PRODUCT, "%": PRODUCT}
_POWERS |= dict.fromkeys(COMPARISONS, COMPARISON)

_LOOSE_PATTERN, _SEQUENCE_PATTERN, _ATOM_PATTERN = range(3)

_PLAIN_NAME = re.compile(r"[^\W\d]\w*")


def to_sql(node: Node) -> str:
    """Return the text of a query, expression, row pattern or any part of them.

    ``parse(to_sql(node)) == node`` for every node a parser gives.
    """
    if isinstance(node, syntax.PatternQuery):
        return _query(node)
    if isinstance(node, syntax.MatchRecognize):
        return _match_recognize(node)
    if isinstance(node, RowPattern):
        return _row_pattern(node, _LOOSE_PATTERN)
    if isinstance(node, Identifier):
        return _identifier(node)
    if isinstance(node, syntax.SelectItem):
        return _select_item(node)
    if isinstance(node, syntax.Measure):
        return f"{to_sql(node.expression)} AS {_identifier(node.name)}"
    if isinstance(node, syntax.Define):
        return f"{_identifier(node.symbol)} AS {to_sql(node.condition)}"
    assert isinstance(node, Expression)
    return _expression(node)


# ---------------------------------------------------------------------------------------------
# Queries


def _query(query: syntax.PatternQuery) -> str:
    columns = "*" if query.select is None else _list(query.select)
    parts = [
        f"SELECT {columns} FROM {_identifier(query.source)} {_match_recognize(query.recognize)}"
    ]
    if query.alias is not None:
        parts.append(f"AS {_identifier(query.alias)}")
    if query.limit is not None:
        parts.append(f"LIMIT {to_sql(query.limit)}")
    return " ".join(parts)


def _match_recognize(clause: syntax.MatchRecognize) -> str:
    lines = ["MATCH_RECOGNIZE ("]
    if clause.partition_by:
        lines.append(f"  PARTITION BY {_list(clause.partition_by)}")
    lines.append(f"  ORDER BY {_list(clause.order_by)}")
    if clause.measures:
        lines.append(f"  MEASURES {_list(clause.measures)}")
    if clause.skip is not None:
        lines.append(f"  AFTER MATCH SKIP {clause.skip.value}")
    lines.append(f"  PATTERN ({_pattern_inside(clause.pattern)})")
    if clause.within is not None:
        lines.append(f"  WITHIN {to_sql(clause.within)}")
    if clause.defines:
        lines.append(f"  DEFINE {_list(clause.defines)}")
    return "\n".join([*lines, ")"])


def _select_item(item: syntax.SelectItem) -> str:
    qualifier = f"{_identifier(item.qualifier)}." if item.qualifier is not None else ""
    alias = f" AS {_identifier(item.alias)}" if item.alias is not None else ""
    return f"{qualifier}{_identifier(item.name)}{alias}"


def _identifier(identifier: Identifier) -> str:
    name = identifier.name
    plain = _PLAIN_NAME.fullmatch(name) is not None and name.upper() not in RESERVED
    if identifier.quoted or not plain:
        return '"' + name.replace('"', '""') + '"'
    return name


def _list(nodes: Iterable[Node]) -> str:
    return ", ".join(to_sql(node) for node in nodes)


# ---------------------------------------------------------------------------------------------
# Row patterns


def _pattern_inside(pattern: RowPattern) -> str:
    if isinstance(pattern, syntax.Sequence) and not pattern.parts:
        return ""
    return _row_pattern(pattern, _LOOSE_PATTERN)


def _row_pattern(pattern: RowPattern, power: int) -> str:
    """Print a pattern, in parentheses where one of its kind cannot stand by itself."""
    if isinstance(pattern, syntax.SymbolPattern):
        return _identifier(pattern.symbol)
    if isinstance(pattern, syntax.Quantified):
        text = _row_pattern(pattern.body, _ATOM_PATTERN) + _quantifier(pattern)
        return f"({text})" if power == _ATOM_PATTERN else text
    if isinstance(pattern, syntax.Alternation):
        text = " | ".join(_row_pattern(part, _LOOSE_PATTERN + 1) for part in pattern.branches)
        return f"({text})" if power > _LOOSE_PATTERN else text
    if not pattern.parts:
        return "()"
    text = " ".join(
        f"({_row_pattern(part, _LOOSE_PATTERN)})"
        if isinstance(part, syntax.Sequence) and part.parts
        else _row_pattern(part, _SEQUENCE_PATTERN)
        for part in pattern.parts
    )
    return f"({text})" if power == _ATOM_PATTERN else text


def _quantifier(pattern: syntax.Quantified) -> str:
    low, high = pattern.low, pattern.high
    short = {(0, None): "*", (1, None): "+", (0, 1): "?"}.get((low, high))
    if short is None:
        bounds = str(low) if low == high else f"{low},{'' if high is None else high}"
        short = f"{{{bounds}}}"
    return short + ("" if pattern.greedy else "?")


# ---------------------------------------------------------------------------------------------
# Expressions


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
            return f"{_within(operand, SUM)} {_not(negated)}IN ({_list(options)})"
        case syntax.Like(operand, pattern, escape, negated):
            tail = f" ESCAPE {_within(escape, SUM)}" if escape is not None else ""
            return f"{_within(operand, SUM)} {_not(negated)}LIKE {_within(pattern, SUM)}{tail}"
        case syntax.IsNull(operand, negated):
            return f"{_within(operand, SUM)} IS {_not(negated)}NULL"
        case syntax.Case(operand, branches, otherwise):
            return _case(operand, branches, otherwise)
        case syntax.Cast(operand, type_name):
            return f"CAST({_expression(operand)} AS {type_name})"
        case syntax.Function(name, args):
            return f"{_identifier(name)}({_list(args)})"
        case syntax.Navigation(kind, operand, offset):
            tail = f", {_expression(offset)}" if offset is not None else ""
            return f"{kind}({_expression(operand)}{tail})"
    return _atom(node)


def _atom(node: Expression) -> str:
    match node:
        case syntax.Number(value):
            return repr(value)
        case syntax.Text(value):
            return _text(value)
        case syntax.Truth(value):
            return "TRUE" if value else "FALSE"
        case syntax.Null():
            return "NULL"
        case syntax.TimeText(kind, text):
            return f"{kind} {_text(text)}"
        case syntax.Duration(amount, unit):
            return f"INTERVAL {_text(amount)} {unit}"
        case syntax.Parameter(name):
            return f":{name}"
        case syntax.Column(name, None):
            return _identifier(name)
        case syntax.Column(name, symbol):
            assert symbol is not None
            return f"{_identifier(symbol)}.{_identifier(name)}"
        case syntax.ClassifierCall(symbol):
            return f"CLASSIFIER({_identifier(symbol) if symbol is not None else ''})"
        case syntax.MatchNumberCall():
            return "MATCH_NUMBER()"
        case syntax.Star():
            return "*"
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


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
