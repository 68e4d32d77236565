"""What leads through rows from one state to another: each factor of the patterns is summed once.

Where rows are summed apart from those before them, as in a queue of two stacks, a run may be in any
state before the first of them: so there is a sum for each pair of a state and one that it leads to,
or a query whose matches it becomes. It is that of a *factor* of a pattern, the symbols between the
two. Pairs whose sums are changed alike by all rows share a cell, so that a factor which several
queries have, or one query more than once, is summed once, wherever it stands: in A-Seq (SIGMOD
2014, section 4.2) patterns are chopped into such factors, and connected by the product of the sums.
Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np
import numpy.typing as npt

from replay.language.bound import Semantics
from replay.patterns.automaton import StrategyCode
from replay.patterns.trends.machine import BEGIN, Change, Changes, goes_on_from

IntArray = npt.NDArray[np.int64]

EMPTY = 1
"""The state of the empty mapping: pairs from there are of the runs that begin in the rows."""

Pair = tuple[int, int]
"""A state, and one that it leads to; or a query, by its number behind those of the states."""


@dataclass(frozen=True, slots=True)
class Cells:
    """The cells of pairs: those of the runs that begin in the rows come first, each by itself."""

    of_pair: dict[Pair, int]
    firsts: dict[int, Pair]
    """Of each cell the pair by whose changes it is changed."""
    n_begun: int
    """How many there are of runs that begin in the rows."""

    @classmethod
    def of(
        cls, begun: Sequence[Pair], others: Iterable[Pair], told: Callable[[Pair], Hashable]
    ) -> Cells:
        """Return numbers for them: of the others those share one of which the same is ``told``."""
        of_pair = {pair: cell for cell, pair in enumerate(begun)}
        numbers: dict[Hashable, int] = {}
        for pair in others:
            of_pair[pair] = numbers.setdefault(told(pair), len(begun) + len(numbers))
        firsts: dict[int, Pair] = {}
        for pair, cell in of_pair.items():
            firsts.setdefault(cell, pair)
        return cls(of_pair, firsts, len(begun))

    def __len__(self) -> int:
        return len(self.firsts)

    def changed(self, pair: Pair) -> int | None:
        """Return the cell that changes of this pair change; None: there is none, or others do."""
        cell = self.of_pair.get(pair)
        return cell if cell is not None and self.firsts[cell] == pair else None

    @property
    def ones(self) -> IntArray:
        """The cells of a state and itself, which lead through no rows as one run."""
        return np.array(sorted({c for (s, t), c in self.of_pair.items() if s == t}), np.int64)


class Factors:
    """The cells of an automaton's factors, and how rows before or behind all others change them.

    Parameters
    ----------
    with_matches
        Whether matches are also summed of rows that go before others.
    """

    def __init__(self, code: StrategyCode, *, with_matches: bool) -> None:
        self._code = code
        self._with_matches = with_matches
        ways = _ways(code)
        self._order = _in_order(ways)
        self._reached = _reached(code, ways)
        self._stays = {state: _stays(code, state) for state in self._order}
        self._ends = [match for _, match in self._matches()]

    @cached_property
    def behind(self) -> Cells:
        """The cells of rows that are put behind each other."""
        begun = [(EMPTY, end) for end in (*self._order, *self._ends)]
        return Cells.of(begun, self._inner(), _told(self._read_behind, self._mark_behind))

    @cached_property
    def before(self) -> Cells:
        """The cells of rows that are put before each other."""
        ends = self._ends if self._with_matches else []
        begun = [(EMPTY, end) for end in (*self._order, *ends)]
        is_there = {end for _, end in begun}
        places = {state: place for place, state in enumerate(self._order)}
        inner = [pair for pair in self._inner() if pair[1] in is_there]
        inner.sort(key=lambda pair: places[pair[0]], reverse=True)
        return Cells.of(begun, inner, _told(self._read_before, self._mark_before))

    def _inner(self) -> list[Pair]:
        """Return the pairs of runs that began before the rows."""
        return [
            (source, target)
            for target in (*self._order, *self._ends)
            for source in self._order
            if target in self._reached[source]
        ]

    # -----------------------------------------------------------------------------------------
    # Where sums are found

    def joins(self) -> IntArray:
        """Return where matches are found that begin in some rows and end in others behind them.

        By query and state between: the query, the cell in `before`, and that in `behind`.
        """
        found = [
            (query, self.before.of_pair[EMPTY, state], self.behind.of_pair[state, match])
            for query, match in self._matches()
            for state in self._order
            if match in self._reached[state]
        ]
        return np.array(found, np.int64).reshape(-1, 3)

    def own(self) -> IntArray:
        """Return of each query the cells of matches that begin and end in the same rows.

        That in `before`, -1 for none, and that in `behind`.
        """
        pairs = [(EMPTY, match) for _, match in self._matches()]
        found = [(self.before.of_pair.get(p, -1), self.behind.of_pair[p]) for p in pairs]
        return np.array(found, np.int64)

    def _matches(self) -> Iterator[tuple[int, int]]:
        for query in range(self._code.n_queries):
            yield query, self._match(query)

    def _match(self, query: int) -> int:
        return self._code.n_states + query

    # -----------------------------------------------------------------------------------------
    # What a row does

    @cached_property
    def _starts(self) -> list[int]:
        """The states from which a pair is by whose changes a cell is changed."""
        return sorted({start for start, _ in self.behind.firsts.values()} - {EMPTY})

    def put_behind(self, of_states: Changes, *, is_begun: bool) -> Changes:
        """Return what a row behind all others changes in the cells.

        ``of_states`` is what it changes in the states of a lane; ``is_begun``: of the runs that
        begin in the rows, or of the others.
        """
        changes, left = of_states
        found: list[Change] = []
        gone: list[int] = []
        cells = self.behind
        for start in (EMPTY,) if is_begun else self._starts:
            for change in changes:
                sources = tuple(
                    BEGIN if state == BEGIN else cells.of_pair[start, state]
                    for state in change.sources
                    if state == BEGIN or (start, state) in cells.of_pair
                )
                matches = map(self._match, change.queries)
                into = [cells.changed((start, end)) for end in chain(change.targets, matches)]
                targets = tuple(cell for cell in into if cell is not None)
                if sources and targets:
                    found.append(Change(change.symbol, sources, targets))
            gone += _known(cells.changed((start, state)) for state in left)
        return found, gone

    def put_before(self, of_states: Changes) -> Changes:
        """Return what a row before all others changes in the cells; see `put_behind`."""
        changes, left = of_states
        found: list[Change] = []
        cells = self.before
        for change in changes:
            matches = {self._match(query) for query in change.queries}
            states = [EMPTY if state == BEGIN else state for state in change.sources]
            for end in self._ends_of((*change.targets, *matches)):
                sources = [cells.of_pair[t, end] for t in change.targets if self._leads(t, end)]
                sources += [BEGIN] * (end in matches)
                into = _known(cells.changed((state, end)) for state in states)
                if into:
                    found.append(Change(change.symbol, tuple(sources), tuple(into)))
        gone = [cells.changed((state, end)) for state in left for end in self._ends_of((state,))]
        return found, _known(gone)

    def _ends_of(self, states: Iterable[int]) -> list[int]:
        """Return the ends of pairs, with cells of rows before others, that begin in some states."""
        ends = {end for state in states for end in self._reached.get(state, {state})}
        return sorted(end for end in ends if (EMPTY, end) in self.before.of_pair)

    def _leads(self, state: int, end: int) -> bool:
        return end in self._reached.get(state, ())

    # -----------------------------------------------------------------------------------------
    # Which pairs are changed alike

    @cached_property
    def _comes_to(self) -> dict[int, list[tuple[int, int]]]:
        """Of each end from where runs come to it, and by which symbol."""
        code, found = self._code, dict[int, list[tuple[int, int]]]()
        for state in self._order:
            for symbol, target in enumerate(code.step[state].tolist()):
                if target >= 0:
                    for end in (target, *map(self._match, code.answers[target])):
                        found.setdefault(end, []).append((symbol, state))
            for place, target in enumerate(code.skip[state].tolist()):
                if target != state:
                    found.setdefault(target, []).append((-1 - place, state))
        return found

    def _read_behind(self, pair: Pair) -> Iterator[tuple[int, Pair]]:
        """Yield the pairs from which runs come to one by a row behind all, and by which symbol."""
        start, end = pair
        for by, state in self._comes_to.get(end, ()):
            if state in self._reached[start]:
                yield by, (start, state)

    def _mark_behind(self, pair: Pair) -> Hashable:
        start, end = pair
        is_match = end >= self._code.n_states
        return start == end, None if is_match else self._stays[end]

    def _read_before(self, pair: Pair) -> Iterator[tuple[int, Pair]]:
        """Yield the pairs from which runs come to one by a row before all, and by which symbol."""
        start, end = pair
        code = self._code
        for symbol, target in enumerate(code.step[start].tolist()):
            if target >= 0 and self._leads(target, end):
                yield symbol, (target, end)
        for place, target in enumerate(code.skip[start].tolist()):
            if target != start and self._leads(target, end):
                yield -1 - place, (target, end)

    def _mark_before(self, pair: Pair) -> Hashable:
        start, end = pair
        code = self._code
        ends_by = [
            symbol
            for symbol, target in enumerate(code.step[start].tolist())
            if target >= 0 and end in map(self._match, code.answers[target])
        ]
        return start == end, tuple(ends_by), self._stays[start]


def _known(cells: Iterable[int | None]) -> list[int]:
    return [cell for cell in cells if cell is not None]


def _told(
    read: Callable[[Pair], Iterator[tuple[int, Pair]]], mark: Callable[[Pair], Hashable]
) -> Callable[[Pair], Hashable]:
    """Return what tells how a pair is changed, for pairs asked for in the order of their changes.

    What was told of the pairs that it reads stands for them. One that comes later, by a repetition
    of several symbols, stands for itself.
    """
    numbers: dict[Hashable, int] = {}
    known: dict[Pair, int] = {}

    def told(pair: Pair) -> Hashable:
        reads = Counter(
            (by, "itself" if other == pair else known.get(other, other)) for by, other in read(pair)
        )
        found = mark(pair), frozenset(reads.items())
        known[pair] = numbers.setdefault(found, len(numbers))
        return found

    return told


def _ways(code: StrategyCode) -> dict[int, list[int]]:
    """Return where a row leads to from each state, of the states that go on."""
    goes = goes_on_from(code)
    leads = np.concatenate([code.step, code.skip], axis=1).tolist()
    return {
        state: sorted({way for way in leads[state] if way >= 0 and goes[way]})
        for state in range(code.n_states)
        if goes[state] or state <= EMPTY
    }


def _stays(code: StrategyCode, state: int) -> Hashable:
    """Return what tells which rows leave the runs of a state where they are."""
    places = np.flatnonzero(code.skip[state] == state).tolist()
    ways: Collection[int] = ()
    if code.semantics is Semantics.SKIP_TILL_NEXT:  # a row that such a run may map moves it
        ways = np.flatnonzero(code.step[state] >= 0).tolist()
    return tuple(places), tuple(ways)


def _in_order(ways: Mapping[int, Sequence[int]]) -> list[int]:
    """Return the states that go on, each before those that it leads to, as far as that can be."""
    order: list[int] = []
    seen = set[int]()
    for begin in range(EMPTY + 1):
        open_ways = [(begin, iter(ways[begin]))]
        while open_ways:
            state, left = open_ways[-1]
            way = next((way for way in left if way not in seen), None)
            if way is None:
                open_ways.pop()
                order.append(state)
            else:
                seen.add(way)
                open_ways.append((way, iter(ways[way])))
    return [state for state in reversed(order) if state > EMPTY]


def _reached(code: StrategyCode, ways: Mapping[int, Sequence[int]]) -> dict[int, set[int]]:
    """Return of each state that goes on itself, what it leads to, and the queries it ends in."""
    targets = code.step.tolist()
    ends_in = {
        state: {code.n_states + q for to in targets[state] if to >= 0 for q in code.answers[to]}
        for state in ways
    }
    found: dict[int, set[int]] = {}
    for start in ways:
        reached, open_states = {start}, [start]
        while open_states:
            more = [way for way in ways[open_states.pop()] if way not in reached]
            reached.update(more)
            open_states += more
        found[start] = reached.union(*(ends_in[state] for state in reached))
    return found
