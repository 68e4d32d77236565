"""Events of a stream that pass a filter, as a query of their own."""

from __future__ import annotations

from dataclasses import dataclass

from replay.engines.scan import Reading
from replay.filters.requirements import requirements
from replay.language.bound import StreamRelation
from replay.operators.outer_pieces import Operator
from replay.planning.requirements import Requirements
from replay.planning.statistics import StreamStatistics


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

    def operators(self, query: FilteredEvents) -> list[Operator]:  # noqa: ARG002
        """Return none: whoever reads events filters them."""
        return []
