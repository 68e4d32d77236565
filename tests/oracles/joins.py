"""Joins as their definitions read: every window enumerated, every pair looked at."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from replay.language.bound import JoinWindow

Row = dict[str, Any]
Pair = tuple[int, int | None]
"""Places of the left and of the right row; no right row where the left one comes alone."""


def active_window(times: Sequence[int], window: JoinWindow, now: int) -> range:
    """Thesis Def. 2.9: the latest window whose last instant (of count windows, row) has come."""
    if not times:
        return range(0)
    best = range(0)
    if window.in_rows:  # Def. 2.7
        first = 0
        while first + window.size <= len(times):
            if times[first + window.size - 1] <= now:
                best = range(first, first + window.size)
            first += window.slide
        return best
    start = times[0]  # Def. 2.8, for every whole k
    while start + window.size - 1 > now:
        start -= window.slide
    while start + window.slide + window.size - 1 <= now:
        start += window.slide
    inside = [i for i, t in enumerate(times) if start <= t < start + window.size]
    return range(inside[0], inside[-1] + 1) if inside else best


def windowed_join(
    left: Sequence[int],
    right: Sequence[int],
    left_window: JoinWindow,
    right_window: JoinWindow,
    holds: Callable[[int, int], bool],
    *,
    outer: bool = False,
) -> list[Pair]:
    """Thesis Def. 2.12-2.13, a simultaneous pair once, in the canonical order.

    Parameters
    ----------
    left, right
        Times of the rows.
    left_window, right_window
        Windows over each side.
    holds
        The join predicate, of places.
    outer
        Whether left rows without a partner come alone.
    """
    pairs: set[Pair] = set()
    for i, now in enumerate(left):
        pairs |= {(i, j) for j in active_window(right, right_window, now) if holds(i, j)}
    for j, now in enumerate(right):
        pairs |= {(i, j) for i in active_window(left, left_window, now) if holds(i, j)}
    if outer:
        pairs |= {(i, None) for i in set(range(len(left))) - {i for i, _ in pairs}}

    def place(pair: Pair) -> tuple[int, bool, int, int]:
        i, j = pair
        if j is None:
            return left[i], True, i, -1
        now = max(left[i], right[j])
        return (now, True, i, j) if left[i] == now else (now, False, j, i)

    return sorted(pairs, key=place)


def asof_join(
    left: Sequence[int],
    right: Sequence[int],
    holds: Callable[[int, int], bool],
    *,
    strict: bool,
    within: int | None,
    outer: bool,
    forward: bool = False,
) -> list[Pair]:
    """To each left row the latest right row before it (forward: the next) that it agrees with."""
    pairs: list[Pair] = []
    for i, now in enumerate(left):
        ahead = [t - now if forward else now - t for t in right]
        found = [
            j
            for j, away in enumerate(ahead)
            if (away > 0 if strict else away >= 0)
            and (within is None or away < within)
            and holds(i, j)
        ]
        if found:
            pairs.append((i, found[0 if forward else -1]))
        elif outer:
            pairs.append((i, None))
    return pairs
