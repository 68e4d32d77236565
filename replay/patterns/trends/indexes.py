"""How the cells are found behind which a condition holds, without looking at each.

Most conditions compare a value of the row with one of the live row: ``f(row) < g(live)``. Where all
that is asked of the cells of a state compares with one g, cells of equal g are one, and sums over
those below or above a value stand in a tree by the rank of g. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from replay.language.bound import Semantics
from replay.patterns.automaton import StrategyCode
from replay.patterns.conditions import kernels as conditions
from replay.patterns.conditions.across import AcrossCode
from replay.patterns.trends.references import NEVER, EventGrain, Move, Told

IntArray = npt.NDArray[np.int64]


class By(IntEnum):
    """Which cells of a state an edge takes, by their value of g."""

    SCAN = 0
    """Each is looked at."""
    ALL = 1
    """All or none: no condition reads the live row."""
    BELOW = 2
    """Those less than a value of the row."""
    UP_TO = 3
    """Those less or equal."""
    ABOVE = 4
    FROM = 5
    """Those greater or equal."""
    EQUAL = 6
    OTHERS = 7
    """Those less or greater."""


_BY_COMPARISON = (By.EQUAL, By.OTHERS, By.ABOVE, By.FROM, By.BELOW, By.UP_TO)
"""Of f op g, op one of = <> < <= > >=."""

_TURNED = (By.EQUAL, By.OTHERS, By.BELOW, By.UP_TO, By.ABOVE, By.FROM)
"""Of g op f."""


@dataclass(frozen=True, slots=True)
class Indexes:
    """How the edges of each state find cells."""

    by: IntArray
    """By state and symbol: a `By`."""
    asked: IntArray
    """By state and symbol: leaf of f, -1 where nothing is compared."""
    leaf: IntArray
    """By state: leaf of g, -1 where its cells are looked at one by one."""
    is_double: npt.NDArray[np.bool_]
    """By state: whether g and f are DOUBLE."""
    takes: bool
    """Whether cells that an edge takes leave their state."""


def to_indexes(code: StrategyCode, grain: EventGrain) -> Indexes:
    """Return how cells are found."""
    by = np.full(grain.step.shape, By.SCAN, np.int64)
    asked = np.full(grain.step.shape, -1, np.int64)
    takes = code.semantics is Semantics.SKIP_TILL_NEXT
    leaf, is_double = np.full(code.n_states, -1, np.int64), np.zeros(code.n_states, np.bool_)
    for state in range(2, code.n_states):
        ways = np.flatnonzero(grain.step[state] >= 0).tolist()
        found = {symbol: _of_edge(grain, state, symbol) for symbol in ways}
        compared = {(g, real) for kind, _, g, real in found.values() if kind > By.ALL}
        is_scanned = any(kind is By.SCAN for kind, *_ in found.values())
        # They leave by one edge alone, and not all but some in the middle.
        is_scanned |= takes and (len(found) != 1 or found[ways[0]][0] is By.OTHERS)
        if is_scanned or len(compared) != 1 or not _stays(code, grain, state):
            continue
        ((leaf[state], is_double[state]),) = compared
        for symbol, (kind, f, _, _) in found.items():
            by[state, symbol], asked[state, symbol] = kind, f
    return Indexes(by, asked, leaf, is_double, takes)


def told_edges(
    code: StrategyCode, grain: EventGrain, names: tuple[str, ...]
) -> tuple[tuple[str | None, str, str, str], ...]:
    """Return the conditioned edges for people, each once.

    Symbol before and symbol, condition, and how the cells behind which it holds are found.
    """
    indexes = to_indexes(code, grain)
    found = {
        (edge.before, names[edge.symbol], edge.condition, _told_by(code, grain, indexes, edge))
        for edge in grain.edges
    }
    return tuple(sorted(found, key=lambda edge: (edge[0] or "", *edge[1:])))


def _told_by(code: StrategyCode, grain: EventGrain, indexes: Indexes, edge: Told) -> str:
    if not grain.has_live[edge.state]:
        return "state"
    if indexes.leaf[edge.state] >= 0:
        by = By(int(indexes.by[edge.state, edge.symbol]))
        return {By.ALL: "state", By.EQUAL: "value"}.get(by, "tree")
    enters = grain.step == edge.state
    is_last = bool((grain.moves[enters] == Move.ROW).all())
    return "last row" if is_last and code.semantics is Semantics.CONTIGUOUS else "scan"


def _stays(code: StrategyCode, grain: EventGrain, state: int) -> bool:
    """Tell whether the runs of a state all have a live row, and stay but for what they map."""
    is_moved = (code.skip[state] != state) & (grain.negations[:, state] != NEVER).any(axis=0)
    is_skipping = code.semantics is not Semantics.CONTIGUOUS
    is_there = bool(grain.has_live[state] and not grain.may_miss[state])
    return is_skipping and is_there and not is_moved.any()


def _of_edge(grain: EventGrain, state: int, symbol: int) -> tuple[By, int, int, bool]:
    """Return how an edge finds cells, the leaves of f and g, and whether they are DOUBLE."""
    target = grain.step[state, symbol]
    if grain.has_live[target] and grain.moves[state, symbol] != Move.ROW:
        return By.SCAN, -1, -1, False
    condition = int(grain.conditions[1, state, symbol])
    return _of_condition(grain.across, condition)


def _of_condition(across: AcrossCode, condition: int) -> tuple[By, int, int, bool]:
    if condition < 0:
        return By.ALL, -1, -1, False
    begin, end, _, _, shape = across.by_symbol[condition].tolist()
    code = across.code[begin:end].tolist()
    leaves = [x for x in code if x[0] in (conditions.X_LEAF_I, conditions.X_LEAF_F)]
    is_live = [anchor != conditions.ANCHOR_CURRENT for _, _, anchor, *_ in leaves]
    if not any(is_live):
        return By.ALL, -1, -1, False
    if shape not in (conditions.SHAPE_COMPARE_I, conditions.SHAPE_COMPARE_F) or all(is_live):
        return By.SCAN, -1, -1, False
    real = shape == conditions.SHAPE_COMPARE_F
    op = code[2][0] - (conditions.X_COMPARE_F if real else conditions.X_COMPARE_I)
    g = is_live.index(True)
    kind = (_TURNED if g == 0 else _BY_COMPARISON)[op]
    return kind, leaves[1 - g][1], leaves[g][1], real
