"""How runs are told apart by where they began, so that they can be left out later. Pure."""

from __future__ import annotations

from enum import StrEnum

from replay.language.bound import (
    BoundPatternQuery,
    CumulateWindows,
    PatternWindows,
    TimeWindows,
)
from replay.patterns.program import MatchProgram
from replay.patterns.trends.machine import Rule

PANES_MAX = 8
"""Starts of windows that may hold a row, of windows that are summed by panes: it takes a step for
each of them, where it changes one product, which is three steps or more, however many they are."""


FACTOR_STATES_MAX = 256
"""States of an automaton up to which rows are multiplied: there are up to half their square of
factors, which are found one by one."""


class Lanes(StrEnum):
    """What the cells of a state are told apart by, besides what their grain says."""

    ONE = "one"
    """Nothing: no run is left out."""
    STARTS = "starts"
    """The first row of each run, within a window from there."""
    ENTRIES = "entries"
    """The state in which a run came into some rows: windows are products of rows."""
    PANES = "panes"
    """The last start of a window before the first row of each run."""
    ROWS = "rows"
    """The window, over rows that wait until it is over: each is gone through by itself."""
    WINDOWS = "windows"
    """The window: each is read and summed by itself."""


def lanes_of(
    query: BoundPatternQuery,
    program: MatchProgram,
    *,
    goes_out_early: bool = False,
) -> Lanes:
    """Return how runs are told apart of a query that is summed.

    ``program`` is what it was compiled to, without its window function. ``goes_out_early``:
    sums of windows go out once they are over, and a state may be asked for between them.
    """
    sums, code = program.sums, program.strategy
    assert sums is not None
    assert code is not None
    is_joined = sums.grain is None and all(field.rule is not Rule.SINCE for field in sums.fields)
    is_joined = is_joined and code.n_states <= FACTOR_STATES_MAX
    if query.windows is not None:
        waits = program.rows_before or program.rows_after or program.needs_all_rows
        if waits or query.order_by:
            return Lanes.WINDOWS
        if sums.grain is not None:
            return Lanes.ROWS
        if program.within is not None:
            return Lanes.ENTRIES if is_joined else Lanes.WINDOWS
        is_by_panes = goes_out_early or not is_joined or _overlap_little(query.windows)
        return Lanes.PANES if is_by_panes else Lanes.ENTRIES
    if program.within is None:
        return Lanes.ONE
    return Lanes.ENTRIES if is_joined else Lanes.STARTS


def _overlap_little(windows: PatternWindows) -> bool:
    if isinstance(windows, TimeWindows):
        return windows.size <= PANES_MAX * windows.slide
    return isinstance(windows, CumulateWindows)  # each row is in those of one start
