"""Naive oracle of the matching strategies: every run, one row after the other.

A run is a partial mapping: rows to symbols such that its word begins a word of the pattern's
language, each row's condition is TRUE given the rows mapped before it, and it fits the window.
What a run may map next is read off the pattern by its derivatives (Antimirov, Partial derivatives
of regular expressions, 1996): `steps` says which symbols may come first and what remains then,
`ends` under which assertions nothing need come. Thesis Def. 2.15-2.17 and Fig. 2.6; COGRA 2.2.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

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
from tests.oracles.answer import Found
from tests.oracles.view import Budget, Mapped, Mapping, Row, fits_window, holds

Asserts = tuple[Edge | Negation, ...]
"""What is to hold between two rows that are mapped one after the other."""


@dataclass(frozen=True)
class Step:
    """A symbol that may come first, and what remains of the pattern behind it."""

    asserts: Asserts
    symbol: int
    excluded: bool
    rest: Pattern


def steps(pattern: Pattern) -> list[Step]:
    """Return every way to map a first row."""
    match pattern:
        case Symbol(index):
            return [Step((), index, False, Concat(()))]
        case Concat(()) | Edge() | Negation():
            return []
        case Concat((head, *tail)):
            rest = Concat(tuple(tail))
            within = [replace(s, rest=_then(s.rest, rest)) for s in steps(head)]
            return within + [
                replace(s, asserts=asserts + s.asserts)
                for asserts in ends(head)
                for s in steps(rest)
            ]
        case Alternate(branches):
            return [step for branch in branches for step in steps(branch)]
        case Exclusion(body):
            return [replace(s, excluded=True, rest=Exclusion(s.rest)) for s in steps(body)]
        case Repeat(body, low, high):
            # Iterations that map no row come first only to make up the least number.
            return [
                replace(
                    s,
                    asserts=sum(empties, ()) + s.asserts,
                    rest=_then(s.rest, _rest_of(pattern, n + 1)),
                )
                for n in range(low + 1)
                if high is None or n < high
                for empties in product(ends(body), repeat=n)
                for s in steps(body)
            ]
    raise AssertionError(pattern)


def ends(pattern: Pattern) -> list[Asserts]:
    """Return the assertions of every way to map no row."""
    match pattern:
        case Symbol():
            return []
        case Edge() | Negation():
            return [(pattern,)]
        case Concat(parts):
            return [sum(chosen, ()) for chosen in product(*(ends(part) for part in parts))]
        case Alternate(branches):
            return [asserts for branch in branches for asserts in ends(branch)]
        case Exclusion(body):
            return ends(body)
        case Repeat(body, low):
            return [sum(chosen, ()) for chosen in product(ends(body), repeat=low)]
    raise AssertionError(pattern)


def _then(left: Pattern, right: Pattern) -> Pattern:
    return right if left == Concat(()) else left if right == Concat(()) else Concat((left, right))


def _rest_of(repeat: Repeat, done: int) -> Pattern:
    high = None if repeat.high is None else repeat.high - done
    return Concat(()) if high == 0 else Repeat(repeat.body, max(repeat.low - done, 0), high)


@dataclass(frozen=True)
class _Derivation:
    """One way the pattern takes through a run."""

    mapping: Mapping
    rest: Pattern
    before: tuple[int, ...] = ()
    """Symbols negated at the start, which are judged when the match is complete."""


_Run = tuple[_Derivation, ...]
"""All derivations of one partial mapping; they differ in what is excluded and what remains."""


def strategy_matches(
    rows: Sequence[Row],
    seqs: Sequence[int],
    query: BoundPatternQuery,
    newest: int,
    budget: Budget,
) -> list[Found]:
    """Return the matches of a partition in canonical order, and the timeouts if asked for.

    ``newest`` is the time of the stream's newest event.
    """
    search = _Search(rows, query, newest, budget)
    found = []
    for run in search.runs():
        mapping = search.match_of(run)
        timed_out = mapping is None
        if mapping is None and query.with_timeouts and search.is_timed_out(run):
            mapping = run[0].mapping
        if mapping is not None:
            found.append(Found(rows, seqs, mapping[0].at, mapping, 0, timed_out))
    found.sort(key=lambda match: match.order)
    return [replace(match, number=k) for k, match in enumerate(found, 1)]


@dataclass(frozen=True)
class _Search:
    rows: Sequence[Row]
    query: BoundPatternQuery
    newest: int
    budget: Budget

    def runs(self) -> Iterator[_Run]:
        """Yield every partial mapping of at least one row that the strategy builds."""
        nothing = (_Derivation((), self.query.pattern),)
        for at in range(len(self.rows)):
            for run in self._extended(nothing, at):
                yield from self._grown(run)

    def _grown(self, run: _Run) -> Iterator[_Run]:
        yield run
        for longer in self._extensions(run):
            yield from self._grown(longer)

    def _extensions(self, run: _Run) -> list[_Run]:
        """Return the runs that the strategy makes of one."""
        found: list[_Run] = []
        for at in self._window_after(run[0].mapping):
            found += self._extended(run, at)
            # A relevant row must be taken under NEXT: no later one is looked at.
            if found and self.query.semantics is Semantics.SKIP_TILL_NEXT:
                break
            if self.query.semantics is Semantics.CONTIGUOUS:
                break
        return found

    def _extended(self, run: _Run, at: int) -> list[_Run]:
        """Return the runs with this row as the next one, one for each symbol that accepts it."""
        longer: dict[int, dict[_Derivation, None]] = {}
        for derivation in run:
            for step in steps(derivation.rest):
                taken = self._taken(derivation, step, at)
                if taken is not None:
                    longer.setdefault(step.symbol, {})[taken] = None
        return [tuple(longer[symbol]) for symbol in sorted(longer)]

    def _taken(self, derivation: _Derivation, step: Step, at: int) -> _Derivation | None:
        self.budget.spend()
        mapping = derivation.mapping
        negated = tuple(a.index for a in step.asserts if isinstance(a, Negation))
        for edge in step.asserts:
            # A row follows, so this is not the end; and the start only at the first row.
            if isinstance(edge, Edge) and (edge.kind is EdgeKind.END or at > 0 or mapping):
                return None
        longer = (*mapping, Mapped(at, step.symbol, step.excluded))
        if not holds(self.rows, self.query, longer):
            return None
        if not mapping:
            return _Derivation(longer, step.rest, negated)
        if self._any_holds(negated, range(mapping[-1].at + 1, at), mapping):
            return None
        return _Derivation(longer, step.rest, derivation.before)

    def _any_holds(self, symbols: Sequence[int], places: Sequence[int], mapping: Mapping) -> bool:
        """Return whether a row satisfies a negated symbol, given the rows mapped before it."""
        return any(
            holds(self.rows, self.query, (*mapping, Mapped(at, symbol)))
            for at in places
            for symbol in symbols
        )

    def _window_after(self, mapping: Mapping) -> list[int]:
        """Return the rows after the last one, to the end of the window of the first."""
        return [
            at
            for at in range(mapping[-1].at + 1, len(self.rows))
            if fits_window(self.rows, self.query, mapping[0].at, at)
        ]

    def _window_before(self, mapping: Mapping) -> list[int]:
        """Return the rows before the first one, in the window that ends at the last."""
        return [
            at
            for at in range(mapping[0].at)
            if fits_window(self.rows, self.query, at, mapping[-1].at)
        ]

    def match_of(self, run: _Run) -> Mapping | None:
        """Return the mapping if the run is complete, as its first complete derivation has it."""
        for derivation in run:
            mapping = derivation.mapping
            if self._any_holds(derivation.before, self._window_before(mapping), ()):
                continue
            if any(self._may_end(asserts, mapping) for asserts in ends(derivation.rest)):
                return mapping
        return None

    def _may_end(self, asserts: Asserts, mapping: Mapping) -> bool:
        negated = tuple(a.index for a in asserts if isinstance(a, Negation))
        edges = {a.kind for a in asserts if isinstance(a, Edge)}
        is_last = mapping[-1].at == len(self.rows) - 1
        return (
            EdgeKind.START not in edges
            and (is_last or EdgeKind.END not in edges)
            and not self._any_holds(negated, self._window_after(mapping), mapping)
        )

    def is_timed_out(self, run: _Run) -> bool:
        """Return whether the window of an incomplete run ended while a row could extend it."""
        mapping = run[0].mapping
        assert self.query.within is not None
        if self.rows[mapping[0].at][self.query.time] + self.query.within >= self.newest:
            return False
        after = self._window_after(mapping)
        if after and self.query.semantics is Semantics.CONTIGUOUS:
            return False
        if self.query.semantics is Semantics.SKIP_TILL_NEXT and self._extensions(run):
            return False
        return any(
            not any(isinstance(a, Edge) for a in step.asserts)
            and not self._any_holds([a.index for a in step.asserts], after, mapping)
            for derivation in run
            for step in steps(derivation.rest)
        )
