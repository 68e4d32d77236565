"""What every match of a temporal pattern contains: an event of each condition, near each other.

A match is decided by the rows between its earliest start and its detection, and among them are the
first events of its situations, which lie as far from each other as `network` says. So events of
some conditions are looked up, and around each of the rarest that has one of each other near it the
rows that a match can have are read. Beside them only what tells is read whether a run at their
begin had begun before: without PARTITION BY the row before, with as many more as PREV reads; with
it and VALID FOR g rows up to g earlier; else the row before of the same key, which is asked for
once a match may need it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from replay.engines.block_truth import is_said_by_range
from replay.engines.scan import Reading
from replay.expressions.atoms import count_predicates
from replay.expressions.ranges import implied_ranges
from replay.language.bound import (
    Attribute,
    DataType,
    Expression,
    Situation,
    SituationRelation,
    StreamRelation,
    attributes,
)
from replay.language.required_columns import columns_of_situations
from replay.operators.outer_pieces import Operator
from replay.planning.requirements import Network, Position, Requirements
from replay.planning.statistics import StreamStatistics
from replay.situations.constant_blocks import constant_blocks
from replay.situations.network import UNBOUNDED, Distances, distances
from replay.situations.order import explained_orders

KEY_KINDS: Final = (DataType.STRING, DataType.INTEGER, DataType.BOOLEAN)
"""Types of columns whose index tells the rows of a partition."""


@dataclass(frozen=True, slots=True)
class SituationQuery:
    """A temporal pattern over a stream."""

    relation: SituationRelation

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
        """Return what every match contains."""
        return requirements(query.relation, stream)

    def reading(self, query: SituationQuery) -> Reading:
        """Return which columns of the events are read."""
        from replay.situations.derive import adding_words  # no other query needs it

        columns, time = columns_of_situations(query.relation), query.relation.source.time
        computed = adding_words(query.relation)
        return Reading(columns, time=time, encoded=True, computed=computed)

    def operators(self, query: SituationQuery) -> list[Operator]:
        """Return new operators that the events pass through."""
        return self._operators(query.relation)


def requirements(relation: SituationRelation, stream: StreamStatistics) -> Requirements:
    """Return what every match contains: an event of each situation, its first."""
    conditions = [situation.condition for situation in relation.situations]
    n, by_key = len(conditions), relation.partition_by
    only_full = _why_only_full(relation, stream)
    bounds = distances(relation)
    assert bounds is not None, "of a pattern that can match"
    network = None if only_full is not None else _network(relation, bounds)
    n_read_before = max((-part.offset for part in _named(conditions)), default=0)
    return Requirements(
        positions=tuple(map(_position, relation.situations)),
        gap_before=(True,) * n,
        trailing_gap=True,
        rows_min=1,
        rows_max=None,
        scattered=True,
        fill_before=(None,) * n,
        agreeing=by_key,
        within=None
        if network is None
        else max(sum(sides) for sides in zip(network.before, network.behind, strict=True)),
        rows_beside=(0, 0) if by_key else (1 + n_read_before, 0),
        network=network,
        alike=constant_blocks(relation, stream),
        row_before_by=by_key[0] if by_key and relation.valid_for is None else None,
        time=relation.source_time.name,
        symbols=tuple(situation.name for situation in relation.situations),
        columns=frozenset(columns_of_situations(relation)),
        n_predicates=count_predicates(conditions),
        details=details(relation, bounds),
        only_full=only_full,
    )


def details(relation: SituationRelation, bounds: Distances) -> dict[str, list[dict[str, Any]]]:
    """Return what explain tells of situations, and of the orders in which they are looked for."""
    situations = {"situations": explained(relation, bounds)}
    if len(relation.situations) == 1:
        return situations
    return situations | {"order": explained_orders(relation)}


def explained(relation: SituationRelation, bounds: Distances) -> list[dict[str, Any]]:
    """Return what explain tells of each situation; durations are in the units of times."""

    def bounded(distance: int) -> int | None:
        return distance if abs(distance) < UNBOUNDED else None

    return [
        {
            "name": situation.name,
            "start_low": bounded(bounds.low[0][place]),
            "start_high": bounded(bounds.high[0][place]),
            "reach": bounded(bounds.reach[place]),
        }
        for place, situation in enumerate(relation.situations)
    ]


def _position(situation: Situation) -> Position:
    ranges = implied_ranges(situation.condition)
    is_all = is_said_by_range(situation.condition)
    return Position(situation.name, ranges or {}, ranges is not None, is_all)


def _network(relation: SituationRelation, bounds: Distances) -> Network:
    """Return how far from each other the first events of a match's situations lie."""
    n = range(len(relation.situations))
    beside = (relation.valid_for or 0) if relation.partition_by else 0
    return Network(
        bounds.low,
        bounds.high,
        tuple(bounds.before(place) + beside for place in n),
        bounds.reach,
        tuple(one.at_least or 0 for one in relation.situations),
        relation.valid_for,
        not relation.partition_by,
    )


def _named(conditions: Iterable[Expression]) -> set[Attribute]:
    """Return what conditions read."""
    return {part for condition in conditions for part in attributes(condition)}


def _why_only_full(relation: SituationRelation, stream: StreamStatistics) -> str | None:
    """Return why all events have to be replayed; None if some may be left out."""
    bounds = distances(relation)
    if bounds is None or max(bounds.reach) >= UNBOUNDED:
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
