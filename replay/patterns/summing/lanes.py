"""How runs are told apart by where they began, so that they can be left out later. Pure."""

from __future__ import annotations

from enum import StrEnum

from replay.language.bound import BoundPatternQuery
from replay.patterns.program import MatchProgram
from replay.patterns.trends.machine import Rule


class Lanes(StrEnum):
    """What the cells of a state are told apart by, besides what their grain says."""

    ONE = "one"
    """Nothing: no run is left out."""
    STARTS = "starts"
    """The first row of each run, within a window from there."""
    ENTRIES = "entries"
    """The state in which a run came into a row: windows are products of rows."""
    PANES = "panes"
    """The last start of a window before the first row of each run."""
    WINDOWS = "windows"
    """The window: each is summed by itself."""


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
    sums = program.sums
    assert sums is not None
    is_joined = sums.grain is None and all(field.rule is not Rule.SINCE for field in sums.fields)
    if query.windows is not None:
        waits = program.rows_before or program.rows_after or program.needs_all_rows
        is_plain = sums.grain is None and program.within is None
        if not is_plain or waits or query.order_by:
            return Lanes.WINDOWS
        return Lanes.ENTRIES if is_joined and not goes_out_early else Lanes.PANES
    if program.within is None:
        return Lanes.ONE
    return Lanes.ENTRIES if is_joined else Lanes.STARTS
