"""Subqueries that MEASURES and DEFINE read: asked first, and their values take their places."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from replay.errors import QueryError
from replay.expressions.columns import to_arrays
from replay.language import fold
from replay.language.bound import (
    Asked,
    BoundPatternQuery,
    Call,
    DataType,
    Expression,
    Literal,
    ScalarQuery,
    rewritten,
    walk,
)

Given = tuple[Literal, ...]
"""What a subquery gave: one value, or for IN all of them."""


def scalar_queries(query: BoundPatternQuery) -> list[ScalarQuery]:
    """Return the subqueries that MEASURES and DEFINE read, each once."""
    measures = [measure.expression for measure in query.measures]
    return _found_in([*measures, *_conditions(query)])


def decide_matches(query: BoundPatternQuery) -> bool:
    """Tell whether values of subqueries decide what matches, and so how it is planned."""
    return bool(_found_in(_conditions(query)))


def _conditions(query: BoundPatternQuery) -> list[Expression]:
    return [condition for condition in query.defines if condition is not None]


def _found_in(expressions: list[Expression]) -> list[ScalarQuery]:
    parts = (part for expression in expressions for part in walk(expression))
    return list(dict.fromkeys(part for part in parts if isinstance(part, ScalarQuery)))


def with_values(query: BoundPatternQuery, given: Mapping[ScalarQuery, Given]) -> BoundPatternQuery:
    """Return the pattern with what subqueries gave in their places."""

    def change(part: Expression) -> Expression | None:
        if isinstance(part, ScalarQuery):
            return given[part][0]
        return _listed(part) if isinstance(part, Call) and part.op == "in" else None

    def _listed(inside: Call) -> Expression | None:
        value, *options = inside.args
        asked = [part for part in walk(options[-1]) if isinstance(part, ScalarQuery)]
        if not asked or asked[0].asked is not Asked.VALUES:
            return None
        if not given[asked[0]]:
            return Literal(False, DataType.BOOLEAN)
        # An option may be the subquery within a cast to the type that is compared.
        each = (_put(options[-1], asked[0], one) for one in given[asked[0]])
        return replace(inside, args=(rewritten(value, change), *each))

    def condition(define: Expression | None) -> Expression | None:
        if define is None or not _found_in([define]):
            return define
        known = fold.folded(rewritten(define, change))
        return None if known == fold.TRUE else known

    measures = (replace(m, expression=rewritten(m.expression, change)) for m in query.measures)
    return replace(
        query, measures=tuple(measures), defines=tuple(condition(d) for d in query.defines)
    )


def _put(expression: Expression, query: ScalarQuery, value: Literal) -> Expression:
    """Return the expression with a value in the place of a subquery."""
    return rewritten(expression, lambda part: value if part == query else None)


def nothing_of(query: ScalarQuery) -> Given:
    """Return what stands for a subquery that was not asked yet."""
    return (Literal(None, query.type),)


def given_by(tables: Iterator[pa.Table], query: ScalarQuery) -> Given:
    """Return what a subquery gives; its one value is NULL if it has no row.

    Raises a QueryError for more than one row where one value is asked.
    """
    if query.asked is Asked.EXISTS:
        return (Literal(any(table.num_rows for table in tables), DataType.BOOLEAN),)
    column = pa.concat_tables(tables).column(0)
    if query.asked is Asked.VALUES:
        return _literals(pa.chunked_array([pc.unique(column)]), query.type)
    if len(column) > 1:
        raise QueryError(
            f"a subquery that is a value gives {len(column):,} rows; aggregate them, or write "
            "LIMIT 1"
        )
    return _literals(column, query.type) if len(column) else nothing_of(query)


def _literals(column: pa.ChunkedArray, kind: DataType) -> Given:
    """Return the values of a column as constants."""
    if kind is DataType.STRING:
        return tuple(Literal(value, kind) for value in column.to_pylist())
    data, valid = to_arrays(column).data.tolist(), column.is_valid().to_pylist()
    return tuple(
        Literal(value if known else None, kind) for value, known in zip(data, valid, strict=True)
    )
