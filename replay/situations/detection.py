"""When a match of situations is certain, whatever events may follow. Pure.

The instant is the greatest of one term of each situation and one of each pair, which `kernels`
computes. An end that is not known yet is `OPEN`, later than all times; so is a term that waits for
one, or that never comes.
"""

from __future__ import annotations

from typing import Final

from replay.language import allen

OPEN: Final = (1 << 63) - 1


def waits_for_ends(relations: int) -> bool:
    """Tell whether an end can make a pair certain that its starts leave open."""
    return any(relations & group not in (0, group) for group in allen.GROUPS)
