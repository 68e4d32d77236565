"""A query with a rare and a common symbol, and a stream whose extremes prune nothing."""

from __future__ import annotations

from replay.language.bound import Symbol
from tests.unit.planning.streams import SmallStatistics, compare, query_of, seq, star

A, B, C = (Symbol(i) for i in range(3))
RARE_AND_COMMON = query_of(
    seq(A, star(C), B), [compare("=", "a", 1), compare("=", "b", 1), None], within=20
)


def mixed(n: int, rare_every: int) -> list[dict]:
    """Values 0 and 2 everywhere, so that minima and maxima prune nothing; 1 now and then."""
    return [
        {
            "t": i,
            "a": 1 if i % rare_every == 7 else 2 * (i % 2),
            "b": i % 3,
            "k": 0,
        }
        for i in range(n)
    ]


def statistics_of(n=40_000, rare_every=4_000, block=100, indexed=("a", "b")) -> SmallStatistics:
    return SmallStatistics(mixed(n, rare_every), block, indexed)
