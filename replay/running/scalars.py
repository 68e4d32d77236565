"""Subqueries that are values: asked before the row pattern whose measures read them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import pyarrow as pa

from replay.errors import QueryError
from replay.expressions.columns import to_arrays
from replay.language.bound import (
    BoundPatternQuery,
    DataType,
    Expression,
    Literal,
    ScalarQuery,
    rewritten,
    walk,
)


def scalar_queries(query: BoundPatternQuery) -> list[ScalarQuery]:
    """Return the subqueries whose values measures read, each once."""
    parts = (part for measure in query.measures for part in walk(measure.expression))
    return list(dict.fromkeys(part for part in parts if isinstance(part, ScalarQuery)))


def with_values(
    query: BoundPatternQuery, values: Mapping[ScalarQuery, Literal]
) -> BoundPatternQuery:
    """Return the pattern with values in the places of subqueries."""

    def change(part: Expression) -> Expression | None:
        return values[part] if isinstance(part, ScalarQuery) else None

    measures = (replace(m, expression=rewritten(m.expression, change)) for m in query.measures)
    return replace(query, measures=tuple(measures))


def value_of(tables: Iterator[pa.Table], data_type: DataType) -> Literal:
    """Return the value that a query of one column gives: NULL if it has no row.

    Raises a QueryError for more than one row.
    """
    table = pa.concat_tables(tables)
    if table.num_rows > 1:
        raise QueryError(
            f"a subquery that is a value gives {table.num_rows:,} rows; aggregate them, or write "
            "LIMIT 1"
        )
    column = table.column(0)
    if not table.num_rows or column.null_count:
        return Literal(None, data_type)
    if data_type is DataType.STRING:
        return Literal(column[0].as_py(), data_type)
    return Literal(to_arrays(column).data[0].item(), data_type)
