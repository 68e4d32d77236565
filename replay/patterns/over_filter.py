"""A row pattern over a filter, planned as one over the stream itself. Pure.

The pattern sees the rows that pass and nothing in between, as if whether a row passes were a
column it is partitioned by, and only rows that pass could be mapped. So what holds of patterns
with PARTITION BY holds here: candidates may have rows that do not pass between theirs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from replay.language.bound import (
    Attribute,
    BoundPatternQuery,
    BoundSelect,
    Call,
    DataType,
    Expression,
    StreamRelation,
    SubqueryRelation,
    attributes,
    is_nullable,
)
from replay.patterns.requirements import requirements

PASSES: Final = "\0passes"
"""Name of the column that says whether a row passes; no column of a stream has a NUL in it."""


@dataclass(frozen=True, slots=True)
class FilteredPattern:
    """A row pattern over the rows of a stream that pass a condition."""

    planned: BoundPatternQuery
    """Over the stream, with the condition in every symbol's: what planning is told."""
    carried_out: BoundPatternQuery
    """The same, with `PASSES` in the place of the condition: what is matched."""
    where: Expression


def to_filtered_pattern(query: BoundPatternQuery) -> FilteredPattern | None:
    """Return a pattern over a subquery as one over its stream; None where that cannot be pruned.

    The subquery must filter a stream and select columns of it as they are. The pattern must not
    ask for neighbours, ends or rows that are not mapped: those of the stream are not those of the
    rows that pass.
    """
    source = query.source
    if not isinstance(source, SubqueryRelation) or not isinstance(source.query, BoundSelect):
        return None
    below = source.query
    outer = below.outer
    is_plain = outer.is_row_by_row and outer.limit is None and not outer.offset
    keeps_names = all(
        isinstance(expression, Attribute) and expression.name == name
        for name, expression in outer.items
    )
    if outer.where is None or below.windows is not None or not (is_plain and keeps_names):
        return None
    stream = below.source
    if not isinstance(stream, StreamRelation) or stream.time != query.time:
        return None
    if is_nullable(query.pattern) or not attributes(outer.where):
        return None
    planned = _over_stream(query, stream.name, outer.where)
    required = requirements(planned)
    if required.only_full is not None or not required.is_restricted:
        return None
    passes = Attribute(PASSES, DataType.BOOLEAN)
    return FilteredPattern(planned, _over_stream(query, stream.name, passes), outer.where)


def _over_stream(query: BoundPatternQuery, stream: str, condition: Expression) -> BoundPatternQuery:
    return replace(
        query,
        source=None,
        stream=stream,
        partition_by=(*query.partition_by, PASSES),
        defines=tuple(
            condition if define is None else Call("and", (condition, define), DataType.BOOLEAN)
            for define in query.defines
        ),
    )
