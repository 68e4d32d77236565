"""Which operator sums over matches, by how it tells runs apart; see `lanes_of`."""

from __future__ import annotations

from replay.patterns.program import MatchProgram
from replay.patterns.summing.entries import EntryTrendOperator
from replay.patterns.summing.event_grain import EventTrendOperator
from replay.patterns.summing.lanes import Lanes, lanes_of
from replay.patterns.summing.operator import TrendOperator


def new_summing(program: MatchProgram, n_events: int | None = None) -> TrendOperator:
    """Return what sums over the matches of a program that has ``sums``."""
    assert program.sums is not None
    if program.sums.grain is not None:
        return EventTrendOperator(program, n_events)
    if lanes_of(program.query, program) is Lanes.ENTRIES:
        return EntryTrendOperator(program, n_events)
    return TrendOperator(program, n_events)
