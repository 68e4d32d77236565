"""A temporal pattern over a filter, or below one, as one over the stream. Pure.

What only filters and projects a stream is the stream with fewer events: those that pass are the
neighbours of each other, and history ends with the last of them. What WHERE asks of the rows of
the answer changes nothing of that: matches it drops need not be found.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from replay.language.bound import (
    Attribute,
    BoundSelect,
    Expression,
    SituationRelation,
    StreamRelation,
    SubqueryRelation,
)
from replay.language.required_columns import columns_of_situations, pruned


@dataclass(frozen=True, slots=True)
class SituationQuery:
    """A temporal pattern over the events of a stream that pass a condition."""

    relation: SituationRelation
    where: Expression | None = None
    """Which events pass; None: all."""
    asked: Expression | None = None
    """What is asked of its matches afterwards: others may be left out."""

    @property
    def stream(self) -> StreamRelation:
        """The stream it reads."""
        assert isinstance(self.relation.source, StreamRelation)
        return self.relation.source


def to_situation_query(
    relation: SituationRelation, asked: Expression | None
) -> SituationQuery | None:
    """Return a pattern as one over a stream; None where its source does more than filter one."""
    source = relation.source
    if isinstance(source, StreamRelation):
        return SituationQuery(relation, asked=asked)
    if not isinstance(source, SubqueryRelation):
        return None
    below = pruned(source, columns_of_situations(relation)).query
    if not isinstance(below, BoundSelect) or not below.is_plain:
        return None
    stream = below.source
    if not isinstance(stream, StreamRelation) or stream.time != relation.source_time.name:
        return None
    for name, expression in below.outer.items:
        if not isinstance(expression, Attribute) or expression.name != name:
            return None
    return SituationQuery(replace(relation, source=stream), below.outer.where, asked)
