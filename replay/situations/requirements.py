"""What every match of a temporal pattern contains: an event of each condition, near each other.

A match is decided by the rows between its earliest start and its detection, and among them are the
first events of its situations, which lie as far from each other as `network` says. So events of
some conditions are looked up, and around each of the rarest that has one of each other near it the
rows that a match can have are read. Beside them only what tells is read whether a run at their
begin had begun before: with VALID FOR g rows up to g earlier; else the row before, of the same key
and of those that pass a filter, with as many more as PREV reads. With PARTITION BY it is asked for
once a match may need it, unless PREV reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, Final

from chronicle import Snapshot
from indexing.key_range import KeyRanges
from replay.engines.block_truth import is_said_by_range
from replay.engines.condition_runs import expected_runs
from replay.engines.scan import Reading
from replay.expressions.atoms import count_predicates
from replay.expressions.ranges import implied_ranges
from replay.language.bound import (
    Attribute,
    DataType,
    Expression,
    Situation,
    SituationRelation,
    attributes,
    rewritten,
)
from replay.language.fold import all_of, conjuncts
from replay.language.required_columns import columns_of_situations
from replay.operators.outer_pieces import Operator
from replay.planning.requirements import Details, Network, Position, Requirements
from replay.planning.statistics import StreamStatistics
from replay.situations.constant_blocks import constant_blocks
from replay.situations.network import UNBOUNDED, Distances, distances
from replay.situations.order import explained_orders
from replay.situations.sources import SituationQuery

KEY_KINDS: Final = (DataType.STRING, DataType.INTEGER, DataType.BOOLEAN)
"""Types of columns whose index tells the rows of a partition."""


class Situations:
    """The class of these queries; see `replay.running.classes.QueryClass`."""

    def __init__(self, operators: Callable[[SituationRelation], list[Operator]]) -> None:
        self._operators = operators

    def requirements(self, query: SituationQuery, stream: StreamStatistics) -> Requirements:
        """Return what every match contains."""
        return requirements(query, stream)

    def reading(self, query: SituationQuery) -> Reading:
        """Return which columns of the events are read."""
        from replay.situations.derive import adding_words  # no other query needs it

        relation = query.relation
        columns, time = columns_of_situations(relation), relation.source.time
        computed = adding_words(relation)
        return Reading(columns, query.where, time, encoded=True, computed=computed)

    def operators(self, query: SituationQuery) -> list[Operator]:
        """Return new operators that the events pass through."""
        return self._operators(query.relation)

    def details(self, query: SituationQuery, snapshot: Snapshot) -> Details:
        """Return what explain tells of situations, with how many there may be of each."""
        relation = query.relation
        bounds = distances(relation)
        assert bounds is not None, "of a pattern that can match"
        found = details(relation, bounds)
        rows = []
        for row, situation in zip(found["situations"], relation.situations, strict=True):
            n_runs = expected_runs(
                snapshot,
                situation.condition,
                by=relation.partition_by,
                time=relation.source_time.name,
                silence=relation.valid_for,
                where=query.where,
            )
            rows.append({**row, "runs": None if n_runs is None else round(n_runs)})
        return {**found, "situations": rows}


def requirements(query: SituationQuery, stream: StreamStatistics) -> Requirements:
    """Return what every match contains: an event of each situation, its first."""
    relation, where = query.relation, query.where
    conditions = [situation.condition for situation in relation.situations]
    n, by_key = len(conditions), relation.partition_by
    only_full = _why_only_full(relation, stream)
    bounds = distances(relation)
    assert bounds is not None, "of a pattern that can match"
    network = None if only_full is not None else _network(query, bounds)
    n_read_before = rows_read_before(relation)
    is_whole = not by_key and where is None
    # With VALID FOR the rows that may still speak are read beside those of a match.
    needs_before = n_read_before > 0 or is_whole or (not by_key and relation.valid_for is None)
    is_asked = by_key and relation.valid_for is None and not n_read_before
    read = {*columns_of_situations(relation), *(part.name for part in attributes(where))}
    return Requirements(
        positions=tuple(_position(query, place, bounds) for place in range(n)),
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
        rows_beside=(1 + n_read_before, 0) if needs_before else (0, 0),
        network=network,
        alike=constant_blocks(relation, where, stream),
        row_before_by=by_key[0] if is_asked else None,
        time=relation.source_time.name,
        symbols=tuple(situation.name for situation in relation.situations),
        columns=frozenset(read),
        n_predicates=count_predicates([*conditions, where]),
        details=details(relation, bounds),
        only_full=only_full,
    )


def rows_read_before(relation: SituationRelation) -> int:
    """Return how many rows before its own PREV reads at most in a condition."""
    named = _named(one.condition for one in relation.situations)
    return max((-part.offset for part in named), default=0)


def details(relation: SituationRelation, bounds: Distances) -> Details:
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


def _position(query: SituationQuery, place: int, bounds: Distances) -> Position:
    """Return what is known of the first event of a situation."""
    situation = query.relation.situations[place]
    passes = [] if query.where is None else [query.where]
    asked = _asked_of_first(query, situation)
    ranges = implied_ranges(all_of([*passes, *asked, situation.condition]))
    is_possible = ranges is not None
    ranges = dict(ranges or {})
    reach, time = bounds.reach[place], query.relation.source_time.name
    for range_ in _detections_asked(query) if reach < UNBOUNDED else ():
        ranges[time] = ranges.get(time, KeyRanges.everything()).intersect(_earlier(range_, reach))
    is_all = is_said_by_range(situation.condition)
    return Position(situation.name, ranges, is_possible, is_all)


def _asked_of_first(query: SituationQuery, situation: Situation) -> Iterator[Expression]:
    """Yield what WHERE asks of the first event of a situation: of its time and its partition."""
    start, time = f"{situation.name}_start", query.relation.source_time

    def as_event(part: Expression) -> Expression | None:
        return time if isinstance(part, Attribute) and part.name == start else None

    known = {*query.relation.partition_by, start}
    for part in conjuncts(query.asked):
        read = {attribute.name for attribute in attributes(part)}
        if read and read <= known:
            yield rewritten(part, as_event)


def _detections_asked(query: SituationQuery) -> Iterator[KeyRanges]:
    """Yield the ranges in which WHERE wants the instant of detection."""
    for part in conjuncts(query.asked):
        if {attribute.name for attribute in attributes(part)} == {query.relation.time}:
            ranges = implied_ranges(part)
            yield (ranges or {}).get(query.relation.time, KeyRanges.everything())


def _earlier(ranges: KeyRanges, most: int) -> KeyRanges:
    """Return the times that are at most so long before one in the ranges."""
    return KeyRanges.of(
        replace(one, low=one.low - most if isinstance(one.low, int) else None)
        for one in ranges.ranges
    )


def _network(query: SituationQuery, bounds: Distances) -> Network:
    """Return how far from each other the first events of a match's situations lie."""
    relation = query.relation
    n = range(len(relation.situations))
    is_whole = not relation.partition_by and query.where is None
    beside = 0 if is_whole or rows_read_before(relation) else relation.valid_for or 0
    return Network(
        bounds.low,
        bounds.high,
        tuple(bounds.before(place) + beside for place in n),
        bounds.reach,
        tuple(one.at_least or 0 for one in relation.situations),
        relation.valid_for,
        is_whole,
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
    asks = relation.valid_for is None or rows_read_before(relation)
    if asks and not _is_found_by_key(relation, stream):
        return (
            "with PARTITION BY and PREV, or without VALID FOR, the event before one of the same "
            "partition may lie anywhere, and it is found by the stream's key or an index on one "
            "column alone"
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
