"""The automaton a strategy runs: from any mapping there is one way on by each symbol.

First Glushkov's construction: one position for each place of a symbol in the unrolled pattern, and
an edge wherever one position may map the row after another. What maps no row (``!X``, ``^``, ``$``)
becomes a guard on the edges that pass it.

Then the subset construction. A run is a mapping, not a derivation: all derivations of one mapping
are joined in one state, so that every mapping is met exactly once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from replay.errors import NotSupportedError
from replay.language.bound import (
    Alternate,
    BoundPatternQuery,
    Concat,
    Edge,
    EdgeKind,
    Exclusion,
    Negation,
    Pattern,
    Repeat,
    Semantics,
    Symbol,
)

IntArray = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Words = npt.NDArray[np.uint64]
States = npt.NDArray[np.int32]

STATES_MAX = 4096
"""States of the automaton; each costs a row of its tables, and a byte per row of a match."""

NEGATIONS_MAX = 63
"""Negated symbols of a query: their bits share one machine word."""

Guard = frozenset[int]
"""What must hold where an edge passes: symbols no row there may satisfy, or an edge below."""

AT_START = -1
"""No row of the partition comes before."""

AT_END = -2
"""No row of the partition comes after."""

FREE: Guard = frozenset()

POSITIONS_MAX = 2048
"""Places of symbols, repetitions unrolled; edges may be as many as their square."""

EDGES_MAX = 1 << 18
"""Edges between positions: beyond, compiling would take seconds."""


def minimal(guards: Iterable[Guard]) -> frozenset[Guard]:
    """Drop guards that ask more than another one does."""
    distinct = frozenset(guards)
    if FREE in distinct:
        return frozenset((FREE,))
    return frozenset(g for g in distinct if not any(other < g for other in distinct))


@dataclass(frozen=True, slots=True)
class Positions:
    """The automaton. Positions are numbers; an edge exists under any one of its guards."""

    symbols: tuple[int, ...]
    """Symbol of each position."""
    excluded: tuple[bool, ...]
    """Whether the position stands within ``{- -}``."""
    first: dict[int, frozenset[Guard]]
    """Positions a match may begin with."""
    follow: tuple[dict[int, frozenset[Guard]], ...]
    """By position: those that may map the next row."""
    last: dict[int, frozenset[Guard]]
    """Positions a match may end with."""
    of_pattern: tuple[int, ...]
    """Of which of the patterns each position is."""


def to_positions(patterns: Sequence[Pattern]) -> Positions:
    """Return the position automaton of patterns, less what can never be part of a match. Pure."""
    builder = _Builder()
    parts: list[_Part] = []
    of_pattern: list[int] = []
    for number, pattern in enumerate(patterns):
        parts.append(builder.build(pattern))
        of_pattern += [number] * (len(builder.symbols) - len(of_pattern))
    whole = _either(parts)
    # A row follows every edge but the last, and precedes every edge but the first.
    first = _without(whole.first, AT_END)
    follow = [_without(_without(edges, AT_END), AT_START) for edges in builder.follow]
    last = _without(whole.last, AT_START)
    alive = _alive(follow, last)
    return Positions(
        symbols=tuple(builder.symbols),
        excluded=tuple(builder.excluded),
        first={p: g for p, g in first.items() if p in alive},
        follow=tuple({p: g for p, g in edges.items() if p in alive} for edges in follow),
        last=last,
        of_pattern=tuple(of_pattern),
    )


Ends = dict[int, frozenset[Guard]]


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of the pattern: where it begins and ends, and under what guards it maps no row."""

    empty: frozenset[Guard]
    first: Ends
    last: Ends


@dataclass(slots=True)
class _Builder:
    """Numbers positions and collects the edges between them."""

    symbols: list[int] = field(default_factory=list)
    excluded: list[bool] = field(default_factory=list)
    follow: list[Ends] = field(default_factory=list)
    n_edges: int = 0

    def build(self, pattern: Pattern, *, excluded: bool = False) -> _Part:
        match pattern:
            case Symbol(index):
                return self._symbol(index, excluded=excluded)
            case Negation(index):
                return _Part(frozenset((frozenset((index,)),)), {}, {})
            case Edge(kind):
                at = AT_START if kind is EdgeKind.START else AT_END
                return _Part(frozenset((frozenset((at,)),)), {}, {})
            case Exclusion(body):
                return self.build(body, excluded=True)
            case Concat(parts):
                whole = _EMPTY
                for part in parts:
                    whole = self._then(whole, self.build(part, excluded=excluded))
                return whole
            case Alternate(branches):
                return _either([self.build(branch, excluded=excluded) for branch in branches])
            case Repeat():
                return self._repeat(pattern, excluded=excluded)

    def _symbol(self, index: int, *, excluded: bool) -> _Part:
        position = len(self.symbols)
        if position == POSITIONS_MAX:
            raise _too_large()
        self.symbols.append(index)
        self.excluded.append(excluded)
        self.follow.append({})
        here = {position: frozenset((FREE,))}
        return _Part(frozenset(), here, here)

    def _repeat(self, repeat: Repeat, *, excluded: bool) -> _Part:
        def once() -> _Part:
            return self.build(repeat.body, excluded=excluded)

        unlimited = repeat.high is None
        whole = _EMPTY
        for _ in range(max(repeat.low - 1, 0) if unlimited else repeat.low):
            begun = len(self.symbols)
            whole = self._then(whole, once())
            if len(self.symbols) == begun:
                break  # it maps no row, so that doing it once more asks nothing more
        if repeat.high is None:
            more = once()
            self._link(more.last, more.first)
            return self._then(whole, more if repeat.low else _optional(more))
        rest = _EMPTY
        for _ in range(repeat.high - repeat.low):
            begun = len(self.symbols)
            rest = _optional(self._then(once(), rest))
            if len(self.symbols) == begun:
                break
        return self._then(whole, rest)

    def _then(self, one: _Part, two: _Part) -> _Part:
        self._link(one.last, two.first)
        return _Part(
            empty=_both(one.empty, two.empty),
            first=_union(one.first, _guarded(two.first, one.empty)),
            last=_union(two.last, _guarded(one.last, two.empty)),
        )

    def _link(self, lasts: Ends, firsts: Ends) -> None:
        self.n_edges += len(lasts) * len(firsts)
        if self.n_edges > EDGES_MAX:
            raise _too_large()
        for position, guards in lasts.items():
            self.follow[position] = _union(self.follow[position], _guarded(firsts, guards))


_EMPTY = _Part(frozenset((FREE,)), {}, {})


def _too_large() -> NotSupportedError:
    return NotSupportedError(
        f"the pattern unrolls to more than {POSITIONS_MAX} symbols or {EDGES_MAX} ways from one "
        "symbol to the next, which SEMANTICS does not support; use smaller repetition counts"
    )


def _optional(part: _Part) -> _Part:
    return _Part(frozenset((FREE,)), part.first, part.last)


def _either(parts: list[_Part]) -> _Part:
    if len(parts) == 1:
        return parts[0]
    empty = minimal(guard for part in parts for guard in part.empty)
    # Parts have no positions in common.
    first = {p: guards for part in parts for p, guards in part.first.items()}
    last = {p: guards for part in parts for p, guards in part.last.items()}
    return _Part(empty, first, last)


def _both(one: frozenset[Guard], two: frozenset[Guard]) -> frozenset[Guard]:
    return minimal(a | b for a in one for b in two)


def _guarded(ends: Ends, guards: frozenset[Guard]) -> Ends:
    """Return the ends under the guards too; none if there is no way at all."""
    return {p: _both(own, guards) for p, own in ends.items()} if guards else {}


def _union(one: Ends, two: Ends) -> Ends:
    joined = dict(one)
    for position, guards in two.items():
        joined[position] = minimal(joined.get(position, frozenset()) | guards)
    return joined


def _without(ends: Ends, item: int) -> Ends:
    """Return the ends whose guards do not ask for ``item``."""
    kept = {p: frozenset(g for g in guards if item not in g) for p, guards in ends.items()}
    return {p: guards for p, guards in kept.items() if guards}


def _alive(follow: list[Ends], last: Ends) -> set[int]:
    """Return the positions from which the end of the pattern can be reached."""
    before: list[set[int]] = [set() for _ in follow]
    for position, edges in enumerate(follow):
        for target in edges:
            before[target].add(position)
    alive, stack = set(last), list(last)
    while stack:
        for position in before[stack.pop()] - alive:
            alive.add(position)
            stack.append(position)
    return alive


Run = tuple[frozenset[tuple[int, Guard]], Guard]
"""Positions the newest row may have, each with what it asks of the rows before the match; and the
negated symbols that rows since have satisfied."""


@dataclass(frozen=True, slots=True)
class StrategyCode:
    """A pattern, compiled for SEMANTICS. Immutable.

    A state says which rows may come next; -1 is no state, 0 that of the empty mapping at the first
    row of a partition, and 1 at any other row. Negations are numbers below ``len(negated)``.
    """

    semantics: Semantics
    timeouts: bool
    """WITH TIMEOUTS: whether partial matches that ran out of their window are told too."""
    step: States
    """State after a row is mapped to a symbol, shape (n_states, n_symbols)."""
    skip: States
    """State after a row is skipped that satisfies a negation, shape (n_states, n_negations); -1
    where no row can be mapped any more. A row that satisfies none changes nothing."""
    accepts: IntArray
    """A mapping that ends in state q is a match if one of the rows ``accepts[q]:accepts[q + 1]``
    of ``conditions`` holds."""
    conditions: Words
    """Negations that no row of the window before the first row satisfies, those that none after
    the last satisfies, and whether the last row must be the partition's; shape (n, 3)."""
    negated: tuple[int, ...]
    """Symbol of each negation."""
    excluded: Bools
    """By symbol: whether all its places in the pattern stand within ``{- -}``."""
    positions: Positions | None
    """Where only some of a symbol's places do: the automaton that tells them apart."""
    answers: tuple[tuple[int, ...], ...]
    """By state: of which of the queries asked at once a mapping that ends there is a match, where
    the conditions of ``accepts`` let it be one; 0 of a query by itself."""
    n_queries: int
    """Of how many queries it is."""

    @property
    def n_states(self) -> int:
        """Number of states."""
        return len(self.step)

    @property
    def asks_for_start(self) -> bool:
        """Whether it matters which row is the first of its partition."""
        return bool((self.step[0] != self.step[1]).any())

    @property
    def looks_before(self) -> bool:
        """Whether rows before a match decide whether it is one."""
        return bool(self.conditions[:, 0].any())

    @property
    def looks_after(self) -> bool:
        """Whether rows after a match decide whether it is one."""
        return bool(self.conditions[:, 1].any())


def compile_strategy(query: BoundPatternQuery, patterns: Sequence[Pattern] = ()) -> StrategyCode:
    """Compile the pattern of a query with SEMANTICS CONTIGUOUS, SKIP TILL NEXT or ANY. Pure.

    ``patterns``: those of several queries over its symbols, instead of its own. A mapping is in one
    state for all of them, so that what they begin with alike is one.

    NotSupportedError is raised if it is too large, or asks for no row where there can be none.
    """
    branches = tuple(patterns) or (query.pattern,)
    positions = to_positions(branches)
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
        accepts=np.cumsum([0, *map(len, builder.conditions)], dtype=np.int64),
        conditions=np.array(
            [row for rows in builder.conditions for row in rows], np.uint64
        ).reshape(-1, 3),
        negated=negated,
        excluded=excluded,
        positions=positions if ambiguous else None,
        answers=tuple(
            tuple(sorted({positions.of_pattern[p] for p, _ in places if p in positions.last}))
            for places, _ in builder.runs
        ),
        n_queries=len(branches),
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


def _exclusion(positions: Positions, n_symbols: int) -> tuple[Bools, bool]:
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


def excluded_rows(code: StrategyCode, offsets: IntArray, symbols: npt.NDArray[np.uint8]) -> Bools:
    """Return whether ``{- -}`` leaves out each row of matches.

    Symbols of the rows of match k are ``symbols[offsets[k] : offsets[k + 1]]``. Where one mapping
    has several derivations, the preferred one tells: that of earlier branches, and of one more
    iteration. ``Positions.first`` and ``follow`` are in that order.
    """
    if code.positions is None:
        return code.excluded[symbols]
    known: dict[bytes, list[bool]] = {}
    found: list[bool] = []
    for begin, end in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
        word = symbols[begin:end].tobytes()
        if word not in known:
            known[word] = _excluded(code.positions, word)
        found += known[word]
    return np.array(found, np.bool_)


def _excluded(positions: Positions, word: bytes) -> list[bool]:
    """Return whether each symbol of a word stands within ``{- -}`` in its preferred derivation."""
    reached: list[set[int]] = []
    ways = set(positions.first)
    for symbol in word:
        reached.append({p for p in ways if positions.symbols[p] == symbol})
        ways = {q for p in reached[-1] for q in positions.follow[p]}
    whole = reached[-1] & positions.last.keys()
    alive = [whole or reached[-1]]  # a partial match has no whole derivation
    for places in reversed(reached[:-1]):
        alive.append({p for p in places if alive[-1] & positions.follow[p].keys()})
    options = list(positions.first)
    excluded = []
    for places in reversed(alive):
        chosen = next(p for p in options if p in places)
        excluded.append(positions.excluded[chosen])
        options = list(positions.follow[chosen])
    return excluded
