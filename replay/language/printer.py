"""The syntax tree back to text, such that parsing the text gives the tree again."""

from __future__ import annotations

import re
from collections.abc import Iterable
from decimal import Decimal

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
from replay.language.syntax import (
    CreateStream,
    Expression,
    Identifier,
    Node,
    Query,
    Reference,
    RowPattern,
    SelectQuery,
    Span,
    StreamName,
    Subquery,
    WindowCall,
)

_POWERS = {"AND": AND, "OR": OR, "+": SUM, "-": SUM, "*": PRODUCT, "/": PRODUCT, "%": PRODUCT}
_POWERS |= dict.fromkeys(COMPARISONS, COMPARISON)

_LOOSE_PATTERN, _SEQUENCE_PATTERN, _ATOM_PATTERN = range(3)

_PLAIN_NAME = re.compile(r"[^\W\d]\w*")


def to_sql(node: Node) -> str:
    """Return the text of a query, expression, row pattern or any part of them.

    ``parse(to_sql(node)) == node`` for every node a parser gives.
    """
    if isinstance(node, Query):
        return _query(node)
    if isinstance(node, Reference):
        return _reference(node)
    if isinstance(node, Span):
        return _span(node)
    if isinstance(node, syntax.MatchRecognize):
        return _match_recognize(node)
    if isinstance(node, RowPattern):
        return _row_pattern(node, _LOOSE_PATTERN)
    if isinstance(node, Identifier):
        return _identifier(node)
    if isinstance(node, syntax.SelectItem):
        return _select_item(node)
    if isinstance(node, syntax.OrderItem):
        return _order_item(node)
    if isinstance(node, syntax.Measure):
        return f"{to_sql(node.expression)} AS {_identifier(node.name)}"
    if isinstance(node, syntax.Define):
        return f"{_identifier(node.symbol)} AS {to_sql(node.condition)}"
    if isinstance(node, syntax.Subset):
        return f"{_identifier(node.name)} = ({_list(node.members)})"
    assert isinstance(node, Expression)
    return _expression(node)


# ---------------------------------------------------------------------------------------------
# Queries


def _query(query: Query) -> str:
    if isinstance(query, CreateStream):
        return f"CREATE STREAM {_identifier(query.name)} AS {_query(query.query)}"
    parts = [
        f"SELECT {'DISTINCT ' if query.distinct else ''}{_list(query.select)}",
        f"FROM {to_sql(query.source)}",
    ]
    if isinstance(query, syntax.PatternQuery):
        parts[-1] += f" {_match_recognize(query.recognize)}{_alias(query.alias)}"
    return " ".join([*parts, *_outer_clauses(query)])


def _alias(alias: Identifier | None) -> str:
    return "" if alias is None else f" AS {_identifier(alias)}"


def _outer_clauses(query: syntax.PatternQuery | SelectQuery) -> Iterable[str]:
    if query.where is not None:
        yield f"WHERE {to_sql(query.where)}"
    if query.group_by:
        yield f"GROUP BY {_list(query.group_by)}"
    if query.having is not None:
        yield f"HAVING {to_sql(query.having)}"
    if query.order_by:
        yield f"ORDER BY {_list(query.order_by)}"
    if query.limit is not None:
        yield f"LIMIT {to_sql(query.limit)}"
    if query.offset is not None:
        yield f"OFFSET {to_sql(query.offset)}"


def _order_item(item: syntax.OrderItem) -> str:
    direction = " DESC" if item.descending else ""
    return f"{to_sql(item.expression)}{direction}{' NULLS FIRST' if item.nulls_first else ''}"


def _match_recognize(clause: syntax.MatchRecognize) -> str:
    lines = ["MATCH_RECOGNIZE ("]
    if clause.partition_by:
        lines.append(f"  PARTITION BY {_list(clause.partition_by)}")
    lines.append(f"  ORDER BY {_list(clause.order_by)}")
    if clause.measures:
        lines.append(f"  MEASURES {_list(clause.measures)}")
    if clause.rows is not None:
        lines.append(f"  {clause.rows.kind.value}")
    if clause.skip is not None:
        lines.append(f"  AFTER MATCH SKIP {_skip(clause.skip)}")
    lines.append(f"  PATTERN ({_row_pattern(clause.pattern, _LOOSE_PATTERN)})")
    if clause.strategy is not None:
        lines.append(f"  SEMANTICS {clause.strategy.kind.value}")
    if clause.within is not None:
        lines.append(f"  WITHIN {to_sql(clause.within)}")
    if clause.timeouts is not None:
        lines.append("  WITH TIMEOUTS")
    if clause.subsets:
        lines.append(f"  SUBSET {_list(clause.subsets)}")
    if clause.defines:
        lines.append(f"  DEFINE {_list(clause.defines)}")
    return "\n".join([*lines, ")"])


def _skip(skip: syntax.Skip) -> str:
    target = f" {_identifier(skip.target)}" if skip.target is not None else ""
    return f"{skip.mode.value}{target}"


def _select_item(item: syntax.SelectItem) -> str:
    return f"{to_sql(item.expression)}{_alias(item.alias)}"


def _identifier(identifier: Identifier) -> str:
    name = identifier.name
    plain = _PLAIN_NAME.fullmatch(name) is not None and name.upper() not in RESERVED
    return name if plain and not identifier.quoted else quoted(name)


def quoted(name: str) -> str:
    """Return a name in quotes, which may hold any signs."""
    return '"' + name.replace('"', '""') + '"'


def _list(nodes: Iterable[Node]) -> str:
    return ", ".join(to_sql(node) for node in nodes)


# ---------------------------------------------------------------------------------------------
# What stands after FROM


def _reference(node: Reference) -> str:
    match node:
        case StreamName(name, alias):
            return f"{_identifier(name)}{_alias(alias)}"
        case Subquery(query, alias):
            return f"({_query(query)}){_alias(alias)}"
        case WindowCall():
            return f"TABLE({_window_call(node)}){_alias(node.alias)}"
    within = f" WITHIN {_spans(node.within)}" if node.within else ""
    on = f" ON {to_sql(node.on)}" if node.on is not None else ""
    conditions = on + within if node.kind.value.startswith("ASOF") else within + on
    return f"{_reference(node.left)} {node.kind.value} {_reference(node.right)}{conditions}"


def _window_call(node: WindowCall) -> str:
    source = f"TABLE {_reference(node.source)}"
    if node.partition_by:
        source += f" PARTITION BY ({_list(node.partition_by)})"
    arguments = [source]
    if node.time is not None:
        arguments.append(f"DESCRIPTOR({_identifier(node.time)})")
    arguments += map(to_sql, node.arguments)
    if node.origin is not None:
        arguments.append(to_sql(node.origin))
    return f"{node.function}({', '.join(arguments)})"


def _spans(spans: tuple[Span, ...]) -> str:
    text = _list(spans)
    return f"({text})" if len(spans) > 1 or text.startswith("(") else text


def _span(span: Span) -> str:
    unit = " ROWS" if span.in_rows else ""
    slide = "" if span.slide is None else f" SLIDE {to_sql(span.slide)}{unit}"
    return f"{to_sql(span.size)}{unit}{slide}"


# ---------------------------------------------------------------------------------------------
# Row patterns


def _row_pattern(pattern: RowPattern, power: int) -> str:
    """Print a pattern, in parentheses where one of its kind cannot stand by itself."""
    match pattern:
        case syntax.Quantified(body):
            text = _row_pattern(body, _ATOM_PATTERN) + _quantifier(pattern)
            return f"({text})" if power == _ATOM_PATTERN else text
        case syntax.Alternation(branches):
            text = " | ".join(_row_pattern(part, _LOOSE_PATTERN + 1) for part in branches)
            return f"({text})" if power > _LOOSE_PATTERN else text
        case syntax.Sequence(parts) if parts:
            text = " ".join(_part_of_sequence(part) for part in parts)
            return f"({text})" if power == _ATOM_PATTERN else text
        case syntax.Negated(symbol):
            text = f"!{_identifier(symbol)}"
            return f"({text})" if power == _ATOM_PATTERN else text
    return _row_pattern_atom(pattern)


def _row_pattern_atom(pattern: RowPattern) -> str:
    match pattern:
        case syntax.SymbolPattern(symbol):
            text = _identifier(symbol)
            return f"({text})" if text.upper() == "PERMUTE" else text
        case syntax.Permutation(elements):
            return f"PERMUTE({', '.join(_row_pattern(e, _SEQUENCE_PATTERN) for e in elements)})"
        case syntax.Excluded(body):
            return f"{{- {_row_pattern(body, _LOOSE_PATTERN)} -}}"
        case syntax.EdgePattern(kind):
            return kind.value
    assert isinstance(pattern, syntax.Sequence)
    return "()"


def _part_of_sequence(part: RowPattern) -> str:
    if isinstance(part, syntax.Sequence) and part.parts:
        return f"({_row_pattern(part, _LOOSE_PATTERN)})"
    return _row_pattern(part, _SEQUENCE_PATTERN)


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
            return f"{_within(operand, SUM)} {_not(negated)}IN ({_list(options)})"
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
        case syntax.Cast(operand, type_name, lenient):
            return f"{'TRY_' if lenient else ''}CAST({_expression(operand)} AS {type_name})"
        case syntax.Function(name, args, distinct, scope):
            call = f"{_identifier(name)}({'DISTINCT ' if distinct else ''}{_list(args)})"
            return f"{scope} {call}" if scope is not None else call
        case syntax.Navigation(kind, operand, offset, scope):
            tail = f", {_expression(offset)}" if offset is not None else ""
            call = f"{kind}({_expression(operand)}{tail})"
            return f"{scope} {call}" if scope is not None else call
    return _atom(node)


def _atom(node: Expression) -> str:
    match node:
        case syntax.Number(value):
            return f"{value:f}" if isinstance(value, Decimal) else repr(value)
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


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
