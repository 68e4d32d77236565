"""The guard: how many seconds may go to what may turn out to be of no use."""

from __future__ import annotations

from typing import Final

LOSS_SHARE: Final = 1.1
"""No query may take longer than this many times its full replay, ..."""

LOSS_SECONDS: Final = 10e-3
"""... and this long besides: the goal that no plan is clearly slower than a full replay."""

PLANNED_SHARE: Final = 0.8
"""Of these seconds, what is left when a query has been planned."""

SAVING_MIN: Final = 4.0
"""Times of what lookups take that they must be expected to save before the first is asked.
Estimates err, and a chain that takes much of a replay is ended when part of it has been paid."""


def bearable(full_cost: float) -> float:
    """Return the seconds that may be spent on what may turn out to be of no use.

    Then everything is replayed besides, and no plan may take clearly longer than that alone.
    """
    return (LOSS_SHARE - 1.0) * full_cost + PLANNED_SHARE * LOSS_SECONDS


def is_bearable(
    spent_s: float, lookup_s: float, now_s: float, full_cost: float, share: float = 1.0
) -> bool:
    """Return whether a lookup may be carried out, if it may turn out to leave all that is left.

    All in seconds: spent on lookups so far, what the lookup takes at most, to replay what is left
    now, to replay everything; ``share`` is that of what may be spent (`bearable`).

    Examples
    --------
    >>> is_bearable(0.0, 0.5, 10.0, 10.0), is_bearable(0.6, 0.5, 10.0, 10.0)
    (True, False)
    """
    return spent_s + lookup_s + now_s <= full_cost + share * bearable(full_cost)


def in_words(seconds: float) -> str:
    """Return a time as sentences have it: milliseconds below a second."""
    return f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:,.3g} s"
