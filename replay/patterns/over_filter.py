"""A row pattern over a filter, or by what is computed, planned and carried out over the stream.

The pattern sees the rows that pass and nothing in between, as if whether a row passes were a
column it is partitioned by, and only rows that pass could be mapped. So what holds of patterns
with PARTITION BY holds here: candidates may have rows that do not pass between theirs. Columns
that PARTITION BY alone names may be computed as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from replay.engines.source import EventSource
from replay.expressions.columns import Columns, to_arrow
from replay.expressions.evaluate import evaluate
from replay.expressions.scalars import Faults
from replay.language.bound import (
    Attribute,
    BoundPatternQuery,
    BoundSelect,
    Call,
    DataType,
    Expression,
    Literal,
    StreamRelation,
    SubqueryRelation,
    attributes,
    is_nullable,
)
from replay.language.fold import joined
from replay.language.symbol_aggregates import with_arrays
from replay.patterns.requirements import requirements

IntArray = npt.NDArray[np.int64]

PASSES: Final = "\0passes"
"""Name of the column that says whether a row passes; no column of a stream has a NUL in it."""


@dataclass(frozen=True, slots=True)
class FilteredPattern:
    """A row pattern over the rows of a stream that pass a condition, or by computed columns."""

    planned: BoundPatternQuery
    """Over the stream, with the condition in every symbol's: what planning is told."""
    carried_out: BoundPatternQuery
    """The same, with `PASSES` in the place of the condition: what is matched."""
    computed: Mapping[str, Expression]
    """Columns that the stream lacks: `PASSES` where there is a condition, those of PARTITION BY."""


def to_filtered_pattern(query: BoundPatternQuery) -> FilteredPattern | None:
    """Return a pattern over a subquery as one over its stream; None where that cannot be pruned.

    The subquery must filter a stream and select columns of it as they are, but for those that
    PARTITION BY alone names. The pattern must not ask for neighbours, ends or rows that are not
    mapped: those of the stream are not those of the rows that pass.
    """
    source, made = query.source, with_arrays(query)
    if not isinstance(source, SubqueryRelation) or not isinstance(source.query, BoundSelect):
        return None
    below = source.query
    outer = below.outer
    stream, where = below.source, outer.where
    if not below.is_plain or not isinstance(stream, StreamRelation):
        return None
    computed = {
        name: expression
        for name, expression in outer.items
        if not isinstance(expression, Attribute) or expression.name != name
    }
    if stream.time != query.time or not computed.keys() <= _only_partitioned_by(made):
        return None
    every = [*computed.values(), *([] if where is None else [where])]
    if is_nullable(query.pattern) or not every or not all(map(attributes, every)):
        return None
    planned = _over_stream(query, stream.name, where)
    required = requirements(planned)
    if required.only_full is not None or not required.is_restricted:
        return None
    if where is None:
        return FilteredPattern(planned, _over_stream(made, stream.name, None), computed)
    is_true = Call(
        "coalesce", (where, Literal(value=False, type=DataType.BOOLEAN)), DataType.BOOLEAN
    )
    passes = Attribute(PASSES, DataType.BOOLEAN)
    carried_out = _over_stream(made, stream.name, passes)
    return FilteredPattern(planned, carried_out, {**computed, PASSES: is_true})


def _only_partitioned_by(query: BoundPatternQuery) -> set[str]:
    """Return the columns that PARTITION BY names and no expression reads."""
    expressions = (*query.defines, *(measure.expression for measure in query.measures))
    read = {attribute.name for part in expressions for attribute in attributes(part)}
    return {*query.partition_by} - read - {*query.order_by}


def _over_stream(
    query: BoundPatternQuery, stream: str, condition: Expression | None
) -> BoundPatternQuery:
    """Return the pattern over the stream, of rows for which a condition is true."""
    if condition is None:
        return replace(query, source=None, stream=stream)
    return replace(
        query,
        source=None,
        stream=stream,
        partition_by=(*query.partition_by, PASSES),
        defines=tuple(joined((condition, define)) for define in query.defines),
    )


class ComputedSource:
    """Events of a source, with columns that are computed of theirs."""

    def __init__(self, source: EventSource, computed: Mapping[str, Expression]) -> None:
        self._source = source
        self._computed = computed
        self._faults: list[int] = []
        self.n_events = source.n_events
        self.n_blocks = source.n_blocks
        self.bases = source.bases

    @property
    def n_faults(self) -> int:
        """Faults of rows in what was computed so far."""
        return sum(self._faults)

    def read_blocks(self, blocks: IntArray, columns: list[str]) -> pa.Table:
        """Return the rows of ``blocks``, which ascend."""
        wanted = {name: self._computed[name] for name in columns if name in self._computed}
        if not wanted:
            return self._source.read_blocks(blocks, columns)
        table = self._source.read_blocks(blocks, columns_read(columns, self._computed))
        faults = Faults()
        source = Columns(table)
        for name, expression in wanted.items():
            values = evaluate(expression, source, faults)
            table = table.append_column(name, to_arrow(values, expression.type))
        self._faults.append(faults.count)
        return table.select(columns)


def columns_read(columns: Iterable[str], computed: Mapping[str, Expression]) -> list[str]:
    """Return the columns of the stream that are read for some, computed ones among them."""
    names = {*columns}
    for name in names & computed.keys():
        names |= {attribute.name for attribute in attributes(computed[name])}
    return sorted(names - computed.keys())
