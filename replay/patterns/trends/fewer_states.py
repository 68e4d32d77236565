"""States that nothing to come can tell apart are one, so that fewer cells are summed over. Pure.

The states of a pattern also say which symbol the last row was mapped to, as measures read it; sums
do not. In ``S T*`` runs go on alike behind S and behind T.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from replay.patterns.automaton import StrategyCode
from replay.patterns.trends.machine import Rule, Sums
from replay.patterns.trends.references import EventGrain

IntArray = npt.NDArray[np.int64]


def with_fewer_states(code: StrategyCode, sums: Sums) -> tuple[StrategyCode, Sums]:
    """Return the automaton and what is held over it, with one state for all that go on alike.

    The empty mapping keeps its states, 0 and 1.
    """
    marks = [_mark(code, sums, state) for state in range(code.n_states)]
    class_of = _numbered(marks)
    while True:  # Moore's refinement: one that leads elsewhere is another
        ways = np.concatenate([code.step, code.skip], axis=1)
        leads = np.append(class_of, -1)[ways]
        finer = _numbered(
            [(own, *to) for own, to in zip(class_of.tolist(), leads.tolist(), strict=True)]
        )
        if finer.max() == class_of.max():
            break
        class_of = finer
    _, kept = np.unique(class_of, return_index=True)
    if len(kept) == code.n_states:
        return code, sums
    places = np.append(class_of, -1)
    accepting = [code.conditions[code.accepts[q] : code.accepts[q + 1]] for q in kept]
    fewer = replace(
        code,
        step=places[code.step[kept]].astype(code.step.dtype),
        skip=places[code.skip[kept]].astype(code.skip.dtype),
        accepts=np.cumsum([0, *map(len, accepting)], dtype=np.int64),
        conditions=np.concatenate(accepting),
        answers=tuple(code.answers[q] for q in kept),
    )
    if sums.grain is None:
        return fewer, sums
    return fewer, replace(sums, grain=_with_fewer(sums.grain, kept, places))


def _with_fewer(grain: EventGrain, kept: IntArray, places: IntArray) -> EventGrain:
    return replace(
        grain,
        step=places[grain.step[kept]].astype(grain.step.dtype),
        conditions=grain.conditions[:, kept],
        negations=grain.negations[:, kept],
        moves=grain.moves[kept],
        keeps=grain.keeps[kept],
        has_live=grain.has_live[kept],
        may_miss=grain.may_miss[kept],
        edges=tuple(replace(edge, state=int(places[edge.state])) for edge in grain.edges),
    )


def _mark(code: StrategyCode, sums: Sums, state: int) -> Hashable:
    """Return what tells a state from others, but for where it leads."""
    accepting = code.conditions[code.accepts[state] : code.accepts[state + 1]]
    mark: tuple[Hashable, ...] = (min(state, 2), accepting.tobytes(), code.answers[state])
    grain = sums.grain
    if grain is None:
        return mark
    # What comes to a state of this grain is mapped to one symbol, whichever fields look at it.
    symbols = np.flatnonzero((grain.step == state).any(axis=0)).tolist()
    fields = [f for f in sums.fields if f.rule is not Rule.KEEP]
    looks = {tuple(f.symbols is None or s in f.symbols for f in fields) for s in symbols}
    arrays = (
        grain.step[state] >= 0, grain.conditions[:, state], grain.negations[:, state],
        grain.moves[state], grain.keeps[state],
    )  # fmt: skip
    told = bool(grain.has_live[state]), bool(grain.may_miss[state])
    return (*mark, frozenset(looks), *told, *(array.tobytes() for array in arrays))


def _numbered(marks: Sequence[Hashable]) -> IntArray:
    """Return numbers from 0 in the order in which marks come, equal where they are."""
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(mark, len(numbers)) for mark in marks], np.int64)
