"""What every drop contains: an event with a high value, and one with a low value behind it."""

from __future__ import annotations

from chronicle import Snapshot
from indexing.key_range import KeyRange, KeyRanges
from replay.engines.scan import Reading
from replay.operators.outer_pieces import Operator
from replay.planning.requirements import Details, Position, Requirements
from replay.planning.statistics import StreamStatistics
from tests.toy_class.drop_operator import DropOperator
from tests.toy_class.drop_query import DropQuery


class Drops:
    def requirements(self, query: DropQuery, stream: StreamStatistics) -> Requirements:
        high = KeyRanges((KeyRange(low=query.high),))
        low = KeyRanges((KeyRange(high=query.low),))
        return Requirements(
            positions=(Position("HIGH", {"x": high}), Position("LOW", {"x": low})),
            gap_before=(False, True),
            trailing_gap=False,
            rows_min=2,
            rows_max=None,
            scattered=False,
            fill_before=(None, None),
            within=query.within,
            time=query.stream.time,
            symbols=("HIGH", "LOW"),
            columns=frozenset({"t", "x"}),
            n_predicates=2,
        )

    def reading(self, query: DropQuery) -> Reading:
        return Reading(("t", "x"))

    def details(self, query: DropQuery, snapshot: Snapshot) -> Details:
        return {}

    def operators(self, query: DropQuery) -> list[Operator]:
        return [DropOperator(query)]
