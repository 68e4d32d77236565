"""How runs are told apart by where they began, so that they can be left out later. Pure."""

from __future__ import annotations

from enum import StrEnum

from replay.language.bound import BoundPatternQuery
from replay.patterns.program import MatchProgram


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


def lanes_of(query: BoundPatternQuery, program: MatchProgram, *, is_pushed: bool = False) -> Lanes:
    """Return how runs are told apart of a query that is summed.

    ``program`` is what it was compiled to, without its window function. ``is_pushed``: rows come
    from other operators, and a state may be asked for between them.
    """
    sums = program.sums
    assert sums is not None
    if query.windows is not None:
        waits = program.rows_before or program.rows_after or program.needs_all_rows
        is_plain = sums.grain is None and program.within is None
        return Lanes.PANES if is_plain and not waits and not query.order_by else Lanes.WINDOWS
    if program.within is None:
        return Lanes.ONE
    # A window is never gone through twice where nothing but the number of runs is asked: how many
    # rows it has is not known before, and two stacks cost the same for any number.
    is_count = sums.grain is None and len(sums.fields) == 1
    return Lanes.ENTRIES if is_count and not is_pushed else Lanes.STARTS
