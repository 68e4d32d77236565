"""Lanes: how runs are told apart by where they began, so that they can be left out later."""

from __future__ import annotations

from enum import Enum


class Lanes(Enum):
    """Which numbers there are of each cell. Every choice gives the same answer."""

    ONE = "one"
    """One: no run is ever left out."""
    STARTS = "starts"
    """One by row a run may begin with, as A-Seq marks them; all rows of its window are gone
    through again."""
    ENTRIES = "entries"
    """One by state, as if runs began there: rows become matrices, and what leads through a window
    is their product, held as a queue of two stacks."""


def choose_lanes(within: int | None) -> Lanes:
    """Return the lanes of a query. Pure.

    A window is never gone through twice where the matrices of its rows do: how many rows it has is
    not known before, and two stacks cost the same for any number.
    """
    return Lanes.ONE if within is None else Lanes.ENTRIES
