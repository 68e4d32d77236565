"""The table of classes of query: what each requires, reads, and makes of the rows it is given.

A class that is entered here is planned, replayed, explained and run online without a word of it
anywhere else; its modules are imported with the first of its queries. Row patterns and selects are
opened by `select`, as they are made of several parts.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Protocol, cast

from chronicle import Snapshot
from costmodel.parameters import CostParameters
from replay.engines.scan import Reading
from replay.engines.statistics import SnapshotStatistics
from replay.filters.requirements import FilteredEvents, Filters
from replay.language.bound import StreamRelation
from replay.operators.outer_pieces import Operator
from replay.planning.plan import Plan
from replay.planning.planner import choose_plan
from replay.planning.requirements import Details, Requirements
from replay.planning.statistics import StreamStatistics
from replay.running.statement import STATEMENTS_CACHED
from replay.running.steps import situating


class ClassQuery(Protocol):
    """A bound query of one class over one stream: an immutable value."""

    def __hash__(self) -> int: ...

    @property
    def stream(self) -> StreamRelation:
        """The stream it reads."""
        ...


class QueryClass(Protocol):
    """What there is to know of a class of query."""

    def requirements(self, query: Any, stream: StreamStatistics) -> Requirements:
        """Return what every answer contains. Pure."""
        ...

    def reading(self, query: Any) -> Reading:
        """Return which columns of the events are read."""
        ...

    def operators(self, query: Any) -> list[Operator]:
        """Return new operators that the events pass through, the first told of gaps if it can."""
        ...

    def details(self, query: Any, snapshot: Snapshot) -> Details:
        """Return what explain tells besides, for which it may read a few blocks."""
        ...


def _situations() -> QueryClass:
    from replay.situations.requirements import Situations

    return Situations(situating)


CLASSES: dict[str, Callable[[], QueryClass]] = {
    FilteredEvents.__name__: Filters,
    "SituationQuery": _situations,
}
"""By the name of the type of their bound queries, which may not be imported yet."""


def of_table(query: object) -> ClassQuery | None:
    """Return a query whose class is in the table; None of others."""
    return cast("ClassQuery", query) if type(query).__name__ in CLASSES else None


def class_of(query: ClassQuery) -> QueryClass:
    """Return the class of a query of the table."""
    return CLASSES[type(query).__name__]()


@lru_cache(STATEMENTS_CACHED)
def planned(
    query: ClassQuery, statistics: SnapshotStatistics, requested: str, parameters: CostParameters
) -> Plan:
    """Return the plan of a query of the table.

    Raises a PlanError if the plan asked for cannot apply to it.
    """
    required = class_of(query).requirements(query, statistics)
    return choose_plan(required, statistics, requested=requested, parameters=parameters)
