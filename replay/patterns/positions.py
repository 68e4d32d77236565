"""A row pattern as an automaton of positions: which symbol may follow which, under what guards.

Glushkov's construction: one position for each place of a symbol in the unrolled pattern, and an
edge wherever one position may map the row after another. What maps no row (``!X``, ``^``, ``$``)
becomes a guard on the edges that pass it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from replay.errors import NotSupportedError
from replay.language.bound import (
    Alternate,
    Concat,
    Edge,
    EdgeKind,
    Exclusion,
    Negation,
    Pattern,
    Repeat,
    Symbol,
)

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


def to_positions(pattern: Pattern) -> Positions:
    """Return the position automaton of a pattern, less what can never be part of a match. Pure.

    Raises
    ------
    NotSupportedError
        If the unrolled pattern has more than ``POSITIONS_MAX`` places of symbols.
    """
    builder = _Builder()
    whole = builder.build(pattern)
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
    empty = minimal(guard for part in parts for guard in part.empty)
    first: Ends = {}
    last: Ends = {}
    for part in parts:
        first, last = _union(first, part.first), _union(last, part.last)
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
