"""When a match of situations is certain, whatever events may follow. Pure.

The instant is the greatest of one term of each situation and one of each pair. An end that is not
known yet is `OPEN`, later than all times; so is a term that waits for one. None instead of a term:
it can never be certain.
"""

from __future__ import annotations

from typing import Final

from replay.language import allen
from replay.language.bound import Situation

OPEN: Final = (1 << 63) - 1


def own_term(situation: Situation, start: int, end: int, *, is_final: bool) -> int | None:
    """Return when the durations of a situation are certain."""
    if end != OPEN:
        at_least, at_most = situation.at_least, situation.at_most
        if at_least is not None and end - start < at_least:
            return None
        if at_most is not None and end - start > at_most:
            return None
    if is_final or situation.at_most is not None:
        return end
    return start if situation.at_least is None else start + situation.at_least


def pair_term(relations: int, a: tuple[int, int], b: tuple[int, int]) -> int | None:
    """Return when it is certain that two periods have one of some relations."""
    (a_start, a_end), (b_start, b_end) = a, b
    later = max(a_start, b_start)
    earlier_end = min(a_end, b_end)
    if earlier_end > later:
        # Both go on at the later start: which relation it is only their ends tell.
        group = allen.GROUPS[0 if a_start < b_start else 1 if a_start == b_start else 2]
        allowed = relations & group
        if allowed == group:
            return later
        if not allowed:
            return None
        if earlier_end == OPEN:
            return OPEN
        later = earlier_end
    return later if relations & allen.relation(a_start, a_end, b_start, b_end) else None


def waits_for_ends(relations: int) -> bool:
    """Tell whether an end can make a pair certain that its starts leave open."""
    return any(relations & group not in (0, group) for group in allen.GROUPS)
