"""How runs are told apart by where they began, so that they can be left out later."""

from __future__ import annotations

from replay.patterns.program import MatchProgram
from replay.patterns.summing.entries import WindowedCounter
from replay.patterns.summing.event_grain import EventTrendOperator
from replay.patterns.summing.operator import TrendOperator

Summed = TrendOperator | WindowedCounter


def new_summing(program: MatchProgram, n_events: int | None = None) -> Summed:
    """Return what sums over the matches of a program that has ``sums``.

    A window is never gone through twice where nothing but the number of runs is asked: how many
    rows it has is not known before, and two stacks cost the same for any number.
    """
    assert program.sums is not None
    if program.sums.grain is not None:
        return EventTrendOperator(program, n_events)
    if program.within is not None and len(program.sums.fields) == 1:
        return WindowedCounter(program, n_events)
    return TrendOperator(program, n_events)


def new_summing_as_pushed(program: MatchProgram) -> TrendOperator:
    """Return what sums over the matches of rows that are pushed, and gives its state."""
    assert program.sums is not None
    return TrendOperator(program) if program.sums.grain is None else EventTrendOperator(program)
