"""Allen's thirteen relations of two periods as bits: names, inverses, groups, composition. Pure.

Periods are half-open, ``[start, end)`` with ``start < end``. A set of relations is an int, one bit
each; "A finishes B" means, as in Allen (1983), that A starts later and both end together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import combinations, product
from typing import Final

Signs = tuple[int, int, int, int]
"""Signs of B's start minus A's start, B's start minus A's end, B's end minus A's start, B's end
minus A's end."""

_SIGNS: Final[dict[str, Signs]] = {
    "before": (1, 1, 1, 1),
    "meets": (1, 0, 1, 1),
    "overlaps": (1, -1, 1, 1),
    "finished by": (1, -1, 1, 0),
    "contains": (1, -1, 1, -1),
    "starts": (0, -1, 1, 1),
    "equals": (0, -1, 1, 0),
    "started by": (0, -1, 1, -1),
    "during": (-1, -1, 1, 1),
    "finishes": (-1, -1, 1, 0),
    "overlapped by": (-1, -1, 1, -1),
    "met by": (-1, -1, 0, -1),
    "after": (-1, -1, -1, -1),
}
"""By the name of a relation of A to B, in the order of their bits."""

NAMES: Final = tuple(_SIGNS)
BITS: Final[Mapping[str, int]] = {name: 1 << place for place, name in enumerate(NAMES)}
ALL: Final = (1 << len(NAMES)) - 1

_BY_SIGNS = {signs: BITS[name] for name, signs in _SIGNS.items()}


def _mask(*names: str) -> int:
    return sum(BITS[name] for name in names)


APART: Final = _mask("before", "meets", "met by", "after")
"""Relations of periods that share no time."""
GROUPS: Final = (
    _mask("overlaps", "finished by", "contains"),
    _mask("starts", "equals", "started by"),
    _mask("overlapped by", "finishes", "during"),
)
"""Relations that only the ends tell apart: A starts first, both together, B first."""


def members(relations: int) -> Iterator[int]:
    """Yield the bit of each relation of a set."""
    while relations:
        bit = relations & -relations
        yield bit
        relations ^= bit


def names_of(relations: int) -> tuple[str, ...]:
    """Return the names of the relations of a set."""
    return tuple(name for name, bit in BITS.items() if relations & bit)


def relation(a_start: float, a_end: float, b_start: float, b_end: float) -> int:
    """Return the bit of the relation that two periods have."""
    pairs = ((a_start, b_start), (a_end, b_start), (a_start, b_end), (a_end, b_end))
    signs = tuple((b > a) - (b < a) for a, b in pairs)
    return _BY_SIGNS[signs]  # type: ignore[index]  # four of them


def inverse(relations: int) -> int:
    """Return the relations of B to A where A has some of these to B."""
    result = 0
    for bit in members(relations):
        a_start, a_end, b_start, b_end = _SIGNS[names_of(bit)[0]]
        result |= _BY_SIGNS[-a_start, -b_start, -a_end, -b_end]
    return result


@lru_cache(1 << 13)
def hull(relations: int) -> tuple[tuple[int, int], ...]:
    """Return the least and the greatest sign of each of the four differences of `Signs`."""
    signs = [_SIGNS[name] for name in names_of(relations)]
    return tuple((min(column), max(column)) for column in zip(*signs, strict=True))


@lru_cache(1 << 13)
def compose(first: int, second: int) -> int:
    """Return the relations A can have to C, where A has some of ``first`` to B, B some to C."""
    table = _composition()
    result = 0
    for pair in product(members(first), members(second)):
        result |= table[pair]
    return result


@lru_cache(1)
def _composition() -> dict[tuple[int, int], int]:
    """Return Allen's composition table.

    Why: a relation is told by the order of the ends. Around a fixed B there are three stretches of
    time where A and C can have all four ends; four points in each show every order there is.
    """
    b = (4, 9)
    periods = list(combinations(range(14), 2))
    to_b = {period: relation(*period, *b) for period in periods}
    table = {(first, second): 0 for first in BITS.values() for second in BITS.values()}
    for a, c in product(periods, repeat=2):
        table[to_b[a], inverse(to_b[c])] |= relation(*a, *c)
    return table


def path_consistent(n: int, pairs: Mapping[tuple[int, int], int]) -> list[list[int]] | None:
    """Return for every two of ``n`` periods the relations that constraints of pairs leave.

    None where no periods can satisfy them; not every contradiction is seen.
    """
    allowed = [[ALL] * n for _ in range(n)]
    for i in range(n):
        allowed[i][i] = BITS["equals"]
    for (i, j), relations in pairs.items():
        allowed[i][j] &= relations
        allowed[j][i] &= inverse(relations)
    changed = True
    while changed:
        changed = False
        for middle, i, j in product(range(n), repeat=3):
            if ALL in (allowed[i][middle], allowed[middle][j]):
                continue
            left = allowed[i][j] & compose(allowed[i][middle], allowed[middle][j])
            if left != allowed[i][j]:
                allowed[i][j], allowed[j][i], changed = left, inverse(left), True
    return None if any(0 in row for row in allowed) else allowed
