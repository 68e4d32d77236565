"""What windows mean to a row pattern: how far a match reaches, and the pattern inside of one."""

from __future__ import annotations

from dataclasses import replace

from replay.expressions.literals import UNIT_US
from replay.language.bound import (
    WINDOW_END,
    WINDOW_START,
    BoundPatternQuery,
    PatternWindows,
    SlidingWindows,
)

_DAY = UNIT_US["DAY"]
_MONTH_MAX = 31 * _DAY


def matched_in_windows(query: BoundPatternQuery) -> BoundPatternQuery:
    """Return the pattern as it is matched over the rows of one window, without its outer query.

    The window bounds every match, as WITHIN does: `!X` at an end of the pattern looks no further.
    """
    assert query.windows is not None
    output = tuple(item for item in query.output if item[0] not in (WINDOW_START, WINDOW_END))
    # One column at least: it carries how many rows there are.
    output = output or ((query.time, query.time),)
    return replace(query, windows=None, outer=None, limit=None, output=output, within=reach(query))


def reach(query: BoundPatternQuery) -> int | None:
    """Return the longest span of a match: that of WITHIN, or of a window less a unit of time."""
    if query.windows is None:
        return query.within
    longest = _longest(query.windows) - 1
    return longest if query.within is None else min(longest, query.within)


def _longest(windows: PatternWindows) -> int:
    if isinstance(windows, SlidingWindows) or windows.calendar is None:
        return windows.size
    # Clocks are put forward and back; two units more are longer than any so many.
    return (windows.size + 2) * (_MONTH_MAX if windows.calendar.of_months else _DAY)
