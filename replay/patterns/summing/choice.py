"""Which operator sums over matches, by how it tells runs apart; see `lanes_of`."""

from __future__ import annotations

from replay.patterns.program import MatchProgram
from replay.patterns.summing.entries import EntryTrendOperator
from replay.patterns.summing.event_grain import EventTrendOperator
from replay.patterns.summing.event_starts import EventStartOperator
from replay.patterns.summing.lanes import Lanes, lanes_of
from replay.patterns.summing.operator import TrendOperator
from replay.patterns.summing.starts import StartTrendOperator


def new_summing(program: MatchProgram, n_events: int | None = None) -> TrendOperator:
    """Return what sums over the matches of a program that has ``sums``."""
    assert program.sums is not None
    if program.sums.grain is not None:
        of_rows = EventTrendOperator if program.within is None else EventStartOperator
        return of_rows(program, n_events)
    match lanes_of(program.query, program):
        case Lanes.ENTRIES:
            return EntryTrendOperator(program, n_events)
        case Lanes.STARTS:
            return StartTrendOperator(program, n_events)
        case _:
            return TrendOperator(program, n_events)
