"""What events that pass a filter contain: one position, named like the stream; their query."""

from __future__ import annotations

from dataclasses import dataclass

from chronicle import Snapshot
from replay.engines.scan import Reading
from replay.expressions.atoms import count_predicates
from replay.expressions.ranges import implied_ranges
from replay.language.bound import Expression, StreamRelation, attributes
from replay.operators.outer_pieces import Operator
from replay.planning.requirements import Details, Position, Requirements
from replay.planning.statistics import StreamStatistics


def requirements(
    stream: str, time: str | None, where: Expression | None, *, limit: int | None = None
) -> Requirements:
    """Return what every event contains that passes a condition.

    The one position is named like the stream: plans are written ``indexes=stream.x``. Without a
    condition every event passes; ``limit`` is how many are enough.
    """
    ranges = implied_ranges(where)
    return Requirements(
        positions=(Position(stream, ranges or {}, ranges is not None),),
        gap_before=(False,),
        trailing_gap=False,
        rows_min=1,
        rows_max=1,
        scattered=False,
        fill_before=(None,),
        time=time,
        symbols=(stream,),
        columns=frozenset() if where is None else frozenset(a.name for a in attributes(where)),
        n_predicates=count_predicates([where]),
        closes_early=True,
        matches_wanted=limit,
        of_events=True,
    )


@dataclass(frozen=True, slots=True)
class FilteredEvents:
    """Some columns of the events of a stream that pass a condition."""

    stream: StreamRelation
    reading: Reading
    limit: int | None = None
    """How many events are enough."""


class Filters:
    """The class of these queries; see `replay.running.classes.QueryClass`."""

    def requirements(self, query: FilteredEvents, stream: StreamStatistics) -> Requirements:  # noqa: ARG002
        """Return what every event contains that passes."""
        where = query.reading.where
        return requirements(query.stream.name, query.stream.time, where, limit=query.limit)

    def reading(self, query: FilteredEvents) -> Reading:
        """Return what is read."""
        return query.reading

    def details(self, query: FilteredEvents, snapshot: Snapshot) -> Details:  # noqa: ARG002
        """Return nothing: the ranges tell all there is."""
        return {}

    def operators(self, query: FilteredEvents) -> list[Operator]:  # noqa: ARG002
        """Return none: whoever reads events filters them."""
        return []
