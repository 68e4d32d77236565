"""What every match of a temporal pattern contains: events of each of its conditions.

Of one of them, the anchor, events are looked up. Why that is enough: a match is decided by the rows
between its earliest start and its detection, which are at most WITHIN apart, and among them is the
first event of the anchor's situation. So the rows up to WITHIN around each event of the anchor hold
every match, and beside them only what tells whether a run at their begin had begun before: without
PARTITION BY the row before, with as many more as PREV reads; with it and VALID FOR g rows up to g
earlier; else the row before of the same key, which is asked for once a match may need it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final

from replay.engines.scan import Reading
from replay.errors import PlanError
from replay.expressions.atoms import count_predicates
from replay.expressions.ranges import implied_ranges
from replay.language.bound import (
    Attribute,
    DataType,
    Expression,
    SituationRelation,
    StreamRelation,
    attributes,
)
from replay.language.required_columns import columns_of_situations
from replay.operators.outer_pieces import Operator
from replay.planning.named_plans import PREFIX
from replay.planning.planner import choose_plan
from replay.planning.requirements import Position, Requirements
from replay.planning.statistics import StreamStatistics

KEY_KINDS: Final = (DataType.STRING, DataType.INTEGER, DataType.BOOLEAN)
"""Types of columns whose index tells the rows of a partition."""


@dataclass(frozen=True, slots=True)
class SituationQuery:
    """A temporal pattern over a stream."""

    relation: SituationRelation
    anchor: str | None = None
    """The situation whose events are looked up; None: the one that leaves least."""

    @property
    def stream(self) -> StreamRelation:
        """The stream it reads."""
        assert isinstance(self.relation.source, StreamRelation)
        return self.relation.source


class Situations:
    """The class of these queries; see `replay.running.classes.QueryClass`."""

    def __init__(self, operators: Callable[[SituationRelation], list[Operator]]) -> None:
        self._operators = operators

    def requirements(self, query: SituationQuery, stream: StreamStatistics) -> Requirements:
        """Return what every match contains, of the anchor."""
        found = [
            required
            for required in requirements(query.relation, stream)
            if query.anchor in (None, required.positions[0].symbol)
        ]
        impossible = [required for required in found if required.is_impossible]
        bounded = impossible or [required for required in found if required.is_restricted] or found
        if len(bounded) == 1 or bounded[0].only_full is not None:
            return bounded[0]
        return min(bounded, key=lambda each: choose_plan(each, stream).estimated.cost)

    def reading(self, query: SituationQuery) -> Reading:
        """Return which columns of the events are read."""
        return Reading(columns_of_situations(query.relation), time=query.relation.source.time)

    def operators(self, query: SituationQuery) -> list[Operator]:
        """Return new operators that the events pass through."""
        return self._operators(query.relation)


def requirements(relation: SituationRelation, stream: StreamStatistics) -> list[Requirements]:
    """Return for each situation what a match contains of it."""
    conditions = [situation.condition for situation in relation.situations]
    names = tuple(situation.name for situation in relation.situations)
    within, by_key = relation.within, relation.partition_by
    n_read_before = max((-part.offset for part in _named(conditions)), default=0)
    if by_key and within is not None and relation.valid_for is not None:
        within += relation.valid_for
    of_any = Requirements(
        positions=(),
        gap_before=(True,),
        trailing_gap=True,
        rows_min=1,
        rows_max=None,
        scattered=True,
        fill_before=(None,),
        within=within,
        rows_beside=(0, 0) if by_key else (1 + n_read_before, 0),
        row_before_by=by_key[0] if by_key and relation.valid_for is None else None,
        time=relation.source_time.name,
        symbols=names,
        columns=frozenset(columns_of_situations(relation)),
        n_predicates=count_predicates(conditions),
        only_full=_why_only_full(relation, stream),
    )
    found = []
    for name, condition in zip(names, conditions, strict=True):
        ranges = implied_ranges(condition)
        position = Position(name, ranges or {}, ranges is not None)
        found.append(replace(of_any, positions=(position,)))
    return found


def _named(conditions: Iterable[Expression]) -> set[Attribute]:
    """Return what conditions read."""
    return {part for condition in conditions for part in attributes(condition)}


def _why_only_full(relation: SituationRelation, stream: StreamStatistics) -> str | None:
    """Return why all events have to be replayed; None if some may be left out."""
    if relation.within is None:
        return "without WITHIN nothing bounds how long before its detection a situation began"
    if not relation.partition_by:
        return None
    if any(part.offset for part in _named(one.condition for one in relation.situations)):
        return (
            "PREV in a condition with PARTITION BY asks for an event that may lie anywhere before"
        )
    if relation.valid_for is None and not _is_found_by_key(relation, stream):
        return (
            "with PARTITION BY and without VALID FOR the event before one of the same partition "
            "may lie anywhere, and it is found by the stream's key or an index on one column alone"
        )
    return None


def _is_found_by_key(relation: SituationRelation, stream: StreamStatistics) -> bool:
    """Return whether the row before of a partition can be looked for."""
    if relation.partition_by == (stream.key,):
        return True
    kinds = dict(relation.source.columns)
    return (
        len(relation.partition_by) == 1
        and relation.partition_by[0] in stream.indexed
        and kinds[relation.partition_by[0]] in KEY_KINDS
    )


def anchor_of(requested: str, relation: SituationRelation) -> str | None:
    """Return the situation that a plan asked for by name looks up; None: it names none.

    Raises a PlanError if it names several.
    """
    if not requested.startswith(PREFIX):
        return None
    names = [situation.name for situation in relation.situations]
    asked = {item.strip().partition(".")[0] for item in requested.removeprefix(PREFIX).split(",")}
    found = [name for name in names if name in asked]
    if len(found) > 1:
        raise PlanError(
            f"plan '{requested}' looks up {' and '.join(found)}, and a temporal pattern is found "
            f"around the events of one situation; ask for '{PREFIX}{found[0]}'"
        )
    return found[0] if found else None
