"""A row pattern over a filter, planned and carried out as one over the stream itself.

The pattern sees the rows that pass and nothing in between, as if whether a row passes were a
column it is partitioned by, and only rows that pass could be mapped. So what holds of patterns
with PARTITION BY holds here: candidates may have rows that do not pass between theirs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from replay.engines.source import EventSource
from replay.expressions.columns import Columns
from replay.expressions.evaluate import truths
from replay.expressions.scalars import Faults
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

IntArray = npt.NDArray[np.int64]

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


class FilteredSource:
    """Events of a source, with the column `PASSES` that says whether a condition holds."""

    def __init__(self, source: EventSource, where: Expression) -> None:
        self._source = source
        self._where = where
        self._faults: list[int] = []
        self.n_events = source.n_events
        self.n_blocks = source.n_blocks
        self.bases = source.bases

    @property
    def n_faults(self) -> int:
        """Faults of rows in the condition so far."""
        return sum(self._faults)

    def read_blocks(self, blocks: IntArray, columns: list[str]) -> pa.Table:
        """Return the rows of ``blocks``, which ascend."""
        if PASSES not in columns:
            return self._source.read_blocks(blocks, columns)
        named = {attribute.name for attribute in attributes(self._where)}
        plain = sorted({*columns, *named} - {PASSES})
        table = self._source.read_blocks(blocks, plain)
        faults = Faults()
        passes = truths(self._where, Columns(table), faults)
        self._faults.append(faults.count)
        return table.append_column(PASSES, pa.array(passes)).select(columns)
