"""The automaton a strategy runs: from any mapping there is one way on by each symbol.

A run is a mapping, not a derivation: the subset construction joins all derivations of one mapping
in one state, so that every mapping is met exactly once.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from replay.errors import NotSupportedError
from replay.language.bound import BoundPatternQuery, Semantics
from replay.patterns.positions import (
    AT_END,
    AT_START,
    FREE,
    Guard,
    Positions,
    minimal,
    to_positions,
)

Words = npt.NDArray[np.uint64]
States = npt.NDArray[np.int32]

STATES_MAX = 4096
"""States of the automaton; each costs a row of its tables, and a byte per row of a match."""

NEGATIONS_MAX = 63
"""Negated symbols of a query: their bits share one machine word."""

Run = tuple[frozenset[tuple[int, Guard]], Guard]
"""Positions the newest row may have, each with what it asks of the rows before the match; and the
negated symbols that rows since have satisfied."""


@dataclass(frozen=True, slots=True)
class StrategyCode:
    """A pattern, compiled for SEMANTICS. Immutable.

    A state says which rows may come next; -1 is no state. Negations are numbers below
    ``len(negated)``.
    """

    semantics: Semantics
    timeouts: bool
    """WITH TIMEOUTS: whether partial matches that ran out of their window are told too."""
    step: States
    """State after a row is mapped to a symbol, shape (n_states, n_symbols)."""
    skip: States
    """State after a row is skipped that satisfies a negation, shape (n_states, n_negations); -1
    where no row can be mapped any more. A row that satisfies none changes nothing."""
    begin_first: int
    """State of the empty mapping at the first row of a partition."""
    begin: int
    """State of the empty mapping at any other row."""
    accepts: npt.NDArray[np.int64]
    """A mapping that ends in state q is a match if one of the rows ``accepts[q]:accepts[q + 1]``
    of ``conditions`` holds."""
    conditions: Words
    """Negations that no row of the window before the first row satisfies, those that none after
    the last satisfies, and whether the last row must be the partition's; shape (n, 3)."""
    negated: tuple[int, ...]
    """Symbol of each negation."""
    excluded: npt.NDArray[np.bool_]
    """By symbol: whether all its places in the pattern stand within ``{- -}``."""
    positions: Positions | None
    """Where only some of a symbol's places do: the automaton that tells them apart."""

    @property
    def n_states(self) -> int:
        """Number of states."""
        return len(self.step)

    @property
    def asks_for_start(self) -> bool:
        """Whether it matters which row is the first of its partition."""
        return bool((self.step[self.begin_first] != self.step[self.begin]).any())

    @property
    def looks_before(self) -> bool:
        """Whether rows before a match decide whether it is one."""
        return bool(self.conditions[:, 0].any())

    @property
    def looks_after(self) -> bool:
        """Whether rows after a match decide whether it is one."""
        return bool(self.conditions[:, 1].any())


def compile_strategy(query: BoundPatternQuery) -> StrategyCode:
    """Compile the pattern of a query with SEMANTICS CONTIGUOUS, SKIP TILL NEXT or ANY. Pure.

    Raises
    ------
    NotSupportedError
        If the pattern is too large, or asks for no row where there can be none.
    """
    positions = to_positions(query.pattern)
    negated = _negated(positions)
    if len(negated) > NEGATIONS_MAX:
        raise NotSupportedError(
            f"the pattern negates {len(negated)} symbols, more than {NEGATIONS_MAX} are not "
            "supported"
        )
    if query.semantics is Semantics.CONTIGUOUS:
        _refuse_empty_gaps(positions, query.symbols)
    builder = _Subsets(positions, negated, len(query.symbols))
    builder.build()
    excluded, ambiguous = _exclusion(positions, len(query.symbols))
    if ambiguous and (negated or builder.has_edges):
        raise NotSupportedError(
            "{- -} around some places of a symbol but not others is not supported together with "
            "!, ^ or $ under SEMANTICS; name the symbol within {- -} differently"
        )
    return StrategyCode(
        semantics=query.semantics,
        timeouts=query.with_timeouts,
        step=np.array(builder.step, np.int32).reshape(-1, len(query.symbols)),
        skip=np.array(builder.skip, np.int32).reshape(len(builder.step), len(negated)),
        begin_first=0,
        begin=1,
        accepts=np.cumsum([0, *map(len, builder.conditions)], dtype=np.int64),
        conditions=np.array(
            [row for rows in builder.conditions for row in rows], np.uint64
        ).reshape(-1, 3),
        negated=negated,
        excluded=excluded,
        positions=positions if ambiguous else None,
    )


def _negated(positions: Positions) -> tuple[int, ...]:
    ends = (positions.first, positions.last, *positions.follow)
    guards = (g for end in ends for options in end.values() for g in options)
    return tuple(sorted({item for guard in guards for item in guard if item >= 0}))


def _refuse_empty_gaps(positions: Positions, names: tuple[str, ...]) -> None:
    for edges in positions.follow:
        for guards in edges.values():
            if FREE not in guards:
                name = names[min(min(guard) for guard in guards)]
                raise NotSupportedError(
                    f"no row lies between the rows of a match with SEMANTICS CONTIGUOUS, so !{name}"
                    " between symbols says nothing; use SEMANTICS SKIP TILL NEXT or SKIP TILL ANY, "
                    f"or put the opposite of {name}'s condition into DEFINE"
                )


def _exclusion(positions: Positions, n_symbols: int) -> tuple[npt.NDArray[np.bool_], bool]:
    """Return which symbols stand only within {- -}, and whether any stands within and without."""
    inside, outside = np.zeros(n_symbols, np.bool_), np.zeros(n_symbols, np.bool_)
    for symbol, excluded in zip(positions.symbols, positions.excluded, strict=True):
        (inside if excluded else outside)[symbol] = True
    return inside & ~outside, bool((inside & outside).any())


@dataclass(slots=True)
class _Subsets:
    """The subset construction: runs that can go on alike share a state."""

    positions: Positions
    negated: tuple[int, ...]
    n_symbols: int
    numbers: dict[Run, int] = field(default_factory=dict)
    runs: list[Run] = field(default_factory=list)
    step: list[list[int]] = field(default_factory=list)
    skip: list[list[int]] = field(default_factory=list)
    conditions: list[list[tuple[int, int, int]]] = field(default_factory=list)
    has_edges: bool = False

    def build(self) -> None:
        """Fill the tables: states 0 and 1 begin a match, the others follow from them."""
        self.runs += [(frozenset(), FREE)] * 2
        for at_start in (True, False):
            self.step.append(self._number_all(self._begin(at_start=at_start)))
            self.skip.append([-1] * len(self.negated))
            self.conditions.append([])
        state = 2
        while state < len(self.runs):
            run = self.runs[state]
            self.step.append(self._number_all(self._steps(run)))
            self.skip.append([self._after_skip(run, state, x) for x in self.negated])
            self.conditions.append(self._accepting(run))
            state += 1

    def _number(self, run: Run) -> int:
        number = self.numbers.get(run)
        if number is None:
            number = len(self.runs)
            if number == STATES_MAX:
                raise NotSupportedError(
                    f"the pattern needs more than {STATES_MAX} states to tell its mappings apart; "
                    "use smaller repetition counts, or fewer alternatives that begin alike"
                )
            self.numbers[run] = number
            self.runs.append(run)
        return number

    def _number_all(self, targets: dict[int, set[tuple[int, Guard]]]) -> list[int]:
        row = [-1] * self.n_symbols
        for symbol, places in sorted(targets.items()):
            row[symbol] = self._number((_least(places), FREE))
        return row

    def _begin(self, *, at_start: bool) -> dict[int, set[tuple[int, Guard]]]:
        targets: dict[int, set[tuple[int, Guard]]] = {}
        for position, guards in self.positions.first.items():
            for guard in guards:
                self.has_edges |= AT_START in guard
                if AT_START in guard and not at_start:
                    continue
                place = position, guard - {AT_START}
                targets.setdefault(self.positions.symbols[position], set()).add(place)
        return targets

    def _open_edges(self, run: Run) -> list[tuple[int, Guard, Guard]]:
        """Return (position, what it asks before the match, guard) of each way on."""
        places, seen = run
        return [
            (target, before, guard)
            for position, before in places
            for target, guards in self.positions.follow[position].items()
            for guard in guards
            if not guard & seen
        ]

    def _steps(self, run: Run) -> dict[int, set[tuple[int, Guard]]]:
        targets: dict[int, set[tuple[int, Guard]]] = {}
        for target, before, _ in self._open_edges(run):
            targets.setdefault(self.positions.symbols[target], set()).add((target, before))
        return targets

    def _after_skip(self, run: Run, state: int, negation: int) -> int:
        edges = self._open_edges(run)
        if not any(negation in guard for _, _, guard in edges):
            return state
        skipped = run[0], run[1] | {negation}
        rest = self._open_edges(skipped)
        if not rest:
            return -1
        asked = frozenset(x for position, _ in run[0] for x in self._asked(position))
        return self._number((run[0], skipped[1] & asked))

    def _asked(self, position: int) -> frozenset[int]:
        options = self.positions.follow[position].values()
        return frozenset(x for guards in options for guard in guards for x in guard)

    def _accepting(self, run: Run) -> list[tuple[int, int, int]]:
        """Return the conditions of which one makes the mapping a match: before, after, at end."""
        number = {symbol: k for k, symbol in enumerate(self.negated)}

        def bits(guard: Guard) -> int:
            return sum(1 << number[x] for x in guard if x >= 0)

        places, _ = run
        found = {
            (bits(before), bits(after), int(AT_END in after))
            for position, before in places
            for after in self.positions.last.get(position, ())
        }
        self.has_edges |= any(at_end for _, _, at_end in found)
        return sorted(c for c in found if not any(_asks_less(d, c) for d in found))


def _asks_less(one: tuple[int, int, int], other: tuple[int, int, int]) -> bool:
    subset = all(a & b == a for a, b in zip(one, other, strict=True))
    return subset and one != other


def _least(places: set[tuple[int, Guard]]) -> frozenset[tuple[int, Guard]]:
    """Drop places that ask more before the match than the same place does otherwise."""
    guards: dict[int, set[Guard]] = {}
    for position, before in places:
        guards.setdefault(position, set()).add(before)
    return frozenset((p, guard) for p, options in guards.items() for guard in minimal(options))
