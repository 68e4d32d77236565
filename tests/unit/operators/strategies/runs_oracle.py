"""Every match of a strategy by following runs row by row: slow, and as the definitions read."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from replay.language.bound import (
    Alternate,
    BoundPatternQuery,
    Concat,
    Edge,
    Exclusion,
    Negation,
    Repeat,
    Semantics,
    Symbol,
)

COMPARE = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
COMPARE |= {"=": operator.eq, "<>": operator.ne}


@dataclass(frozen=True)
class Rule:
    """Condition of a symbol: letters it takes, and a comparison of i with an earlier row's."""

    letters: str
    compare: tuple[str, str, int] | None = None  # operator, "first" or "last", symbol


@dataclass(frozen=True)
class Answer:
    rows: tuple[int, ...]
    symbols: tuple[int, ...]
    timed_out: bool = False


Run = tuple[tuple[int, int], ...]


class _Mark:
    """Stands after the body of an iteration that has to map a row."""


def moves(stack: tuple, guards: frozenset, fresh: frozenset) -> Iterator[tuple]:
    """Yield (symbol or None for the end, rest of the pattern, guards passed)."""
    if not stack:
        yield None, (), guards
        return
    head, rest = stack[0], stack[1:]
    match head:
        case _Mark():
            if head not in fresh:
                yield from moves(rest, guards, fresh)
        case Symbol(index):
            yield index, rest, guards
        case Negation(index):
            yield from moves(rest, guards | {index}, fresh)
        case Edge(kind):
            yield from moves(rest, guards | {kind.value}, fresh)
        case Exclusion(body):
            yield from moves((body, *rest), guards, fresh)
        case Concat(parts):
            yield from moves((*parts, *rest), guards, fresh)
        case Alternate(branches):
            for branch in branches:
                yield from moves((branch, *rest), guards, fresh)
        case Repeat(body, low, high):
            fewer = None if high is None else high - 1
            if low:
                yield from moves((body, Repeat(body, low - 1, fewer), *rest), guards, fresh)
                return
            yield from moves(rest, guards, fresh)
            if high != 0:
                mark = _Mark()
                again = (body, mark, Repeat(body, 0, fewer), *rest)
                yield from moves(again, guards, fresh | {mark})


class Partition:
    """The rows of one partition: (place in the stream, time, letter, i)."""

    def __init__(
        self, query: BoundPatternQuery, rules: list[Rule], rows: list[tuple], newest: int
    ) -> None:
        self.query, self.rules, self.rows, self.newest = query, rules, rows, newest

    def satisfies(self, row: int, symbol: int, run: Run) -> bool:
        _, _, letter, i = self.rows[row]
        rule = self.rules[symbol]
        if letter not in rule.letters:
            return False
        if rule.compare is None:
            return True
        op, which, of = rule.compare
        mapped = [r for r, s in (*run, (row, symbol)) if s == of]
        if not mapped:
            return False
        other = self.rows[mapped[0] if which == "first" else mapped[-1]][3]
        return i is not None and other is not None and COMPARE[op](i, other)

    def in_window(self, first: int, row: int) -> bool:
        within = self.query.within
        return within is None or self.rows[row][1] - self.rows[first][1] <= within

    def extensions(self, run: Run, states: list, row: int) -> dict[int, list]:
        """Return, by symbol, what the run with one row more may go on with."""
        found: dict[int, list] = {}
        if run and not self.in_window(run[0][0], row):
            return found
        for stack, before in states:
            for symbol, rest, guards in moves(stack, frozenset(), frozenset()):
                if symbol is None or "$" in guards or ("^" in guards and (run or row > 0)):
                    continue
                negated = {g for g in guards if g != "^"}
                if run and any(
                    self.satisfies(between, x, run)
                    for between in range(run[-1][0] + 1, row)
                    for x in negated
                ):
                    continue
                if self.satisfies(row, symbol, run) and can_end(rest):
                    asked = before if run else frozenset(negated)
                    found.setdefault(symbol, []).append((rest, asked))
        return found

    def is_match(self, run: Run, states: list) -> bool:
        first, last = run[0][0], run[-1][0]
        for stack, before in states:
            for symbol, _, guards in moves(stack, frozenset(), frozenset()):
                if symbol is not None or "^" in guards:
                    continue
                if "$" in guards and last < len(self.rows) - 1:
                    continue
                negated = guards - {"$"}
                ahead = [r for r in range(last + 1, len(self.rows)) if self.in_window(first, r)]
                behind = [r for r in range(first) if self.in_window(r, last)]
                if not any(self.satisfies(r, x, run) for r in ahead for x in negated) and not any(
                    self.satisfies(r, x, ()) for r in behind for x in before
                ):
                    return True
        return False

    def has_timed_out(self, run: Run, states: list) -> bool:
        first, last = run[0][0], run[-1][0]
        within = self.query.within
        assert within is not None
        if self.newest - self.rows[first][1] <= within:
            return False
        ahead = [r for r in range(last + 1, len(self.rows)) if self.in_window(first, r)]
        if self.query.semantics is Semantics.CONTIGUOUS and ahead:
            return False
        if self.query.semantics is Semantics.SKIP_TILL_NEXT and any(
            self.extensions(run, states, row) for row in ahead
        ):
            return False
        return any(
            symbol is not None
            and not guards & {"^", "$"}
            and can_end(rest)
            and not any(self.satisfies(row, x, run) for row in ahead for x in guards)
            for stack, _ in states
            for symbol, rest, guards in moves(stack, frozenset(), frozenset())
        )

    def answers(self, run: Run, states: list) -> Iterator[Answer]:
        """Yield the matches and timeouts that begin with a run."""
        if run:
            rows, symbols = zip(*run, strict=True)
            places = tuple(self.rows[row][0] for row in rows)
            if self.is_match(run, states):
                yield Answer(places, symbols)
            elif self.query.with_timeouts and self.has_timed_out(run, states):
                yield Answer(places, symbols, timed_out=True)
        begin = run[-1][0] + 1 if run else 0
        for row in range(begin, len(self.rows)):
            longer = self.extensions(run, states, row)
            for symbol, after in longer.items():
                yield from self.answers((*run, (row, symbol)), after)
            if run and self.query.semantics is Semantics.CONTIGUOUS:
                return
            if run and longer and self.query.semantics is Semantics.SKIP_TILL_NEXT:
                return


def can_end(stack: tuple) -> bool:
    """Whether the rest of a pattern can be mapped at all after a row."""
    seen, todo = set(), [_plain(stack)]
    while todo:
        for symbol, rest, guards in moves(todo.pop(), frozenset(), frozenset()):
            if "^" in guards or (symbol is not None and "$" in guards):
                continue
            if symbol is None:
                return True
            rest = _plain(rest)
            if rest not in seen:
                seen.add(rest)
                todo.append(rest)
    return False


def _plain(stack: tuple) -> tuple:
    return tuple(part for part in stack if not isinstance(part, _Mark))


def every_match(
    query: BoundPatternQuery, rules: list[Rule], rows: list[dict[str, Any]]
) -> list[Answer]:
    """Return matches and timeouts in canonical order; rows have t, s, i and p."""
    partitions: dict[Any, list[tuple]] = {}
    for place, row in enumerate(rows):
        key = tuple(row[name] for name in query.partition_by)
        partitions.setdefault(key, []).append((place, row["t"], row["s"], row["i"]))
    newest = rows[-1]["t"] if rows else 0
    found: list[Answer] = []
    for members in partitions.values():
        partition = Partition(query, rules, members, newest)
        found += partition.answers((), [((query.pattern,), frozenset())])
    return sorted(found, key=lambda a: (a.rows[0], a.rows[-1], a.rows, a.symbols))
