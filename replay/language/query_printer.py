"""The syntax tree of a query back to text, such that parsing the text gives the tree again."""

from __future__ import annotations

from collections.abc import Iterable

from replay.language import printer, syntax
from replay.language.syntax import (
    CreateStream,
    Expression,
    Identifier,
    Join,
    Node,
    OneRow,
    Query,
    Reference,
    RowPattern,
    SelectQuery,
    Span,
    StreamName,
    Subquery,
    WindowCall,
    WrittenMatch,
)

_LOOSE_PATTERN, _SEQUENCE_PATTERN, _ATOM_PATTERN = range(3)


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
    if isinstance(node, syntax.SelectItem):
        return _select_item(node)
    if isinstance(node, syntax.OrderItem):
        return _order_item(node)
    if isinstance(node, syntax.Measure):
        return f"{to_sql(node.expression)} AS {printer.to_sql(node.name)}"
    if isinstance(node, syntax.Define):
        return f"{printer.to_sql(node.symbol)} AS {to_sql(node.condition)}"
    if isinstance(node, syntax.Subset):
        return f"{printer.to_sql(node.name)} = ({_list(node.members)})"
    assert isinstance(node, Expression | Identifier)
    return printer.to_sql(node)


# ---------------------------------------------------------------------------------------------
# Queries


def _query(query: Query, indent: str = "") -> str:
    """Print a query, each of its clauses on a line behind ``indent``.

    No line is put in front of one that a text or a name goes on in.
    """
    if isinstance(query, CreateStream):
        return f"CREATE STREAM {printer.to_sql(query.name)} AS {_query(query.query)}"
    parts = [f"SELECT {'DISTINCT ' if query.distinct else ''}{_list(query.select)}"]
    if not isinstance(query.source, OneRow):
        parts.append(f"FROM {_reference(query.source, indent)}")
    if isinstance(query, syntax.PatternQuery):
        parts[-1] += f" {_match_recognize(query.recognize)}{_alias(query.alias)}"
    return f"\n{indent}".join([*parts, *_outer_clauses(query)])


def _alias(alias: Identifier | None) -> str:
    return "" if alias is None else f" AS {printer.to_sql(alias)}"


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
    if clause.order_by:
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
    target = f" {printer.to_sql(skip.target)}" if skip.target is not None else ""
    return f"{skip.mode.value}{target}"


def _select_item(item: syntax.SelectItem) -> str:
    return f"{to_sql(item.expression)}{_alias(item.alias)}"


def _list(nodes: Iterable[Node]) -> str:
    return ", ".join(to_sql(node) for node in nodes)


# ---------------------------------------------------------------------------------------------
# What stands after FROM


def _reference(node: Reference, indent: str = "") -> str:
    match node:
        case StreamName(name, alias):
            return f"{printer.to_sql(name)}{_alias(alias)}"
        case Subquery(query, alias, columns):
            inside = f"{indent}  "
            names = f"({_list(columns)})" if columns else ""
            return f"(\n{inside}{_query(query, inside)}\n{indent}){_alias(alias)}{names}"
        case WindowCall():
            return f"TABLE({_window_call(node, indent)}){_alias(node.alias)}"
        case WrittenMatch(source, word, clauses):
            return f"{_reference(source, indent)} {word} (\n{clauses.text}\n{indent})"
    assert isinstance(node, Join)
    within = f" WITHIN {_spans(node.within)}" if node.within else ""
    on = f" ON {to_sql(node.on)}" if node.on is not None else ""
    on += f" USING ({_list(node.using)})" if node.using else ""
    conditions = on + within if node.kind.value.startswith("ASOF") else within + on
    left, right = (_reference(side, indent) for side in (node.left, node.right))
    return f"{left}\n{indent}{node.kind.value} {right}{conditions}"


def _window_call(node: WindowCall, indent: str) -> str:
    source = f"TABLE {_reference(node.source, indent)}"
    if node.partition_by:
        source += f" PARTITION BY ({_list(node.partition_by)})"
    arguments = [source]
    if node.time is not None:
        arguments.append(f"DESCRIPTOR({printer.to_sql(node.time)})")
    arguments += map(to_sql, node.arguments)
    if node.origin is not None:
        is_first = isinstance(node.origin, syntax.FirstEvent)
        arguments.append(f"ORIGIN => {'FIRST EVENT' if is_first else to_sql(node.origin)}")
    if node.zone is not None:
        arguments.append(f"TIMEZONE => {to_sql(node.zone)}")
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
            text = f"!{printer.to_sql(symbol)}"
            return f"({text})" if power == _ATOM_PATTERN else text
    return _row_pattern_atom(pattern)


def _row_pattern_atom(pattern: RowPattern) -> str:
    match pattern:
        case syntax.SymbolPattern(symbol):
            text = printer.to_sql(symbol)
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
