"""Comparisons of rows of values, ``(a, b) = (c, d)``, written with comparisons of single values."""

from __future__ import annotations

from collections.abc import Sequence

from replay.language import syntax
from replay.language.source import Source
from replay.language.syntax import Binary, Expression, Logical, RowValue

COMPARING = (
    syntax.Binary,
    syntax.Between,
    syntax.InList,
    syntax.IsNull,
    syntax.IsDistinct,
)
"""Nodes whose operands may be rows of values."""


def without_rows(node: Expression, source: Source) -> Expression | None:
    """Return a comparison of rows as one of single values; None where no side is a row.

    NULL makes it UNKNOWN as in SQL: ``(1, NULL) = (2, 3)`` is FALSE, ``(1, NULL) = (1, 3)`` is not
    known. Planning sees what is asked of each value.
    """
    match node:
        case syntax.Binary(op, left, right) if _has_row(left, right):
            if op not in _STRICT:
                raise source.error(f"{op} takes single values, not a row of several", node)
            return _compared(op, *_pair(left, right, source), node.at)
        case syntax.Between(operand, low, high, negated) if _has_row(operand, low, high):
            inside = Logical(
                "AND",
                (
                    _compared(">=", *_pair(operand, low, source), node.at),
                    _compared("<=", *_pair(operand, high, source), node.at),
                ),
                at=node.at,
            )
            return _negated(inside, negated)
        case syntax.InList(operand, options, negated) if _has_row(operand, *options):
            if syntax.is_values(options[0]):
                raise source.not_supported(
                    "a row of several values before IN (SELECT …)",
                    node,
                    "join what MATCH_RECOGNIZE gives with that query",
                )
            pairs = [_pair(operand, option, source) for option in options]
            return _negated(
                _joined("OR", [_compared("=", *pair, node.at) for pair in pairs], node.at), negated
            )
        case syntax.IsNull(RowValue(parts), negated):
            nulls = [syntax.IsNull(part, negated, at=node.at) for part in parts]
            return _joined("AND", nulls, node.at)
        case syntax.IsDistinct(left, right, negated) if _has_row(left, right):
            sides = zip(*_pair(left, right, source), strict=True)
            tests = [syntax.IsDistinct(a, b, negated, at=node.at) for a, b in sides]
            return _joined("AND" if negated else "OR", tests, node.at)
    return None


_STRICT = {"=": "=", "<>": "<>", "<": "<", "<=": "<", ">": ">", ">=": ">"}
"""How a value that decides compares, by how the rows do."""


def _compared(
    op: str, left: Sequence[Expression], right: Sequence[Expression], at: int
) -> Expression:
    """Return the comparison of two rows: the first values that differ decide."""
    pairs = list(zip(left, right, strict=True))
    if op in ("=", "<>"):
        terms: list[Expression] = [Binary(op, a, b, at=at) for a, b in pairs]
        return _joined("AND" if op == "=" else "OR", terms, at)
    (a, b), *rest = pairs
    if not rest:
        return Binary(op, a, b, at=at)
    behind = _compared(op, left[1:], right[1:], at)
    equal = Logical("AND", (Binary("=", a, b, at=at), behind), at=at)
    return Logical("OR", (Binary(_STRICT[op], a, b, at=at), equal), at=at)


def _has_row(*operands: Expression) -> bool:
    return any(isinstance(operand, RowValue) for operand in operands)


def _pair(
    left: Expression, right: Expression, source: Source
) -> tuple[tuple[Expression, ...], tuple[Expression, ...]]:
    """Return the values of two rows, which are as many."""
    sides = [part.parts if isinstance(part, RowValue) else (part,) for part in (left, right)]
    if len(sides[0]) != len(sides[1]):
        raise source.error(
            f"a row of {len(sides[0])} cannot be compared with one of {len(sides[1])}", right
        )
    return sides[0], sides[1]


def _joined(op: str, terms: Sequence[Expression], at: int) -> Expression:
    return terms[0] if len(terms) == 1 else Logical(op, tuple(terms), at=at)


def _negated(node: Expression, negated: bool) -> Expression:
    return syntax.Unary("NOT", node, at=node.at) if negated else node
