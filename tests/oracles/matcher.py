"""Naive oracle of row pattern matching: every mapping in order of preferment, row by row.

Pure Python over dictionaries: recursion over the pattern tree yields the ways to go on, the
preferred first; the first that reaches the end of the pattern is the match of a start row
(ISO/IEC 19075-5, chapter 4; preferment as in Perl's backtracking). `strategies` has the matches
of SEMANTICS other than SQL, `answer` the rows they give, `outer` the outer query.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from replay.errors import SkipError
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
    RowsPerMatch,
    Semantics,
    SkipMode,
    Symbol,
)
from tests.oracles.answer import Found, rows_of
from tests.oracles.outer import may_end_early, outer_rows
from tests.oracles.pattern_windows import rows_in, windows_of
from tests.oracles.row_aggregates import is_nan
from tests.oracles.strategies import strategy_matches
from tests.oracles.view import Budget, Mapped, Mapping, Row, fits_window, holds


def match_rows(
    rows: Sequence[Row], query: BoundPatternQuery, *, steps_max: int | None = None
) -> list[Row]:
    """Return the rows of the answer, in its order.

    Parameters
    ----------
    rows
        The stream in order of arrival, ascending in time: values as bound expressions carry them
        (times as int).
    query
        The query; LIMIT and the outer query are applied.
    steps_max
        Conditions to try at most; None: no limit.

    Raises
    ------
    SkipError
        Where AFTER MATCH SKIP TO has no row to go to, and no LIMIT comes before.
    OutOfStepsError
        After ``steps_max`` conditions.
    """
    answer = inner_rows(rows, query, steps_max)
    return answer[: query.limit] if query.outer is None else outer_rows(answer, query.outer)


def inner_rows(rows: Sequence[Row], query: BoundPatternQuery, steps_max: int | None) -> list[Row]:
    """Return the rows of the answer before LIMIT and the outer query, each with its match."""
    if query.windows is not None:
        inside = replace(query, windows=None)
        times = [row[query.time] for row in rows]
        return [
            found
            for start, end in windows_of(times, query.windows)
            for found in inner_rows(rows_in(rows, query.time, start, end), inside, steps_max)
        ]
    stream = in_matching_order(rows, query)
    newest = stream[-1][query.time] if stream else 0
    budget = Budget(steps_max)
    found: list[Found] = []
    failed: list[Found] = []
    for seqs in partitions(stream, query).values():
        members = [stream[seq] for seq in seqs]
        if query.semantics is Semantics.SQL:
            of_partition, failure = _sql_matches(members, seqs, query, budget)
            failed += [failure] if failure is not None else []
        else:
            of_partition = strategy_matches(members, seqs, query, newest, budget)
        found += of_partition
        if query.rows_per_match is RowsPerMatch.ALL_WITH_UNMATCHED:
            found += unmatched(members, seqs, of_partition)
    found.sort(key=lambda match: match.order)
    if failed:
        _raise_unless_limited(min(failed, key=lambda match: match.order), found, query)
    return [row for match in found for row in rows_of(match, query)]


def in_matching_order(rows: Sequence[Row], query: BoundPatternQuery) -> list[Row]:
    """Put rows of equal time in the order of the further columns of ORDER BY."""

    def place(row: Row) -> tuple[Any, ...]:
        missing = [row[name] is None or is_nan(row[name]) for name in query.order_by]
        values = [
            (True,) if gone else (False, row[name])
            for name, gone in zip(query.order_by, missing, strict=True)
        ]
        return (row[query.time], *values)

    return sorted(rows, key=place)


def partitions(stream: Sequence[Row], query: BoundPatternQuery) -> dict[tuple[Any, ...], list[int]]:
    """Return the places in the stream of each partition's rows."""
    found: dict[tuple[Any, ...], list[int]] = {}
    for seq, row in enumerate(stream):
        found.setdefault(tuple(_key(row[name]) for name in query.partition_by), []).append(seq)
    return found


def _key(value: Any) -> Any:
    return "NaN" if value != value else (None,) if value is None else (type(value), value)


def unmatched(rows: Sequence[Row], seqs: Sequence[int], found: Sequence[Found]) -> list[Found]:
    """Return the rows that no match maps and at which no empty match starts."""
    taken = {mapped.at for match in found for mapped in match.mapping}
    taken |= {match.start for match in found if not match.mapping}
    return [Found(rows, seqs, at, (), number=None) for at in range(len(rows)) if at not in taken]


def _raise_unless_limited(failure: Found, found: Sequence[Found], query: BoundPatternQuery) -> None:
    """Raise, unless LIMIT has its rows by the failing match in canonical order.

    The LIMIT of an outer query counts where no later row can change the first ones of it.
    """
    until = [
        row for match in found if match.order <= failure.order for row in rows_of(match, query)
    ]
    wanted = query.limit
    if query.outer is not None and may_end_early(query.outer):
        until = outer_rows(until, query.outer)
        wanted = query.outer.limit
    if wanted is None or len(until) < wanted:
        raise SkipError("no row to skip to after this match", first_seq=failure.order[0])


def _sql_matches(
    rows: Sequence[Row], seqs: Sequence[int], query: BoundPatternQuery, budget: Budget
) -> tuple[list[Found], Found | None]:
    """Return the matches of a partition, and the one after which there is no row to skip to."""
    found: list[Found] = []
    start = 0
    while start < len(rows):
        mapping = _Search(rows, query, budget, start, len(found) + 1).first()
        if mapping is None:
            start += 1
            continue
        found.append(Found(rows, seqs, start, mapping, number=len(found) + 1))
        after = _next_start(start, mapping, query)
        if after is None:
            return found, found[-1]
        start = after
    return found, None


def _next_start(start: int, mapping: Mapping, query: BoundPatternQuery) -> int | None:
    """Return where the search goes on after a match, None if there is no such row."""
    if not mapping or query.skip is SkipMode.TO_NEXT_ROW:
        return start + 1
    if query.skip is SkipMode.PAST_LAST_ROW:
        return mapping[-1].at + 1
    assert query.skip_to is not None
    places = [mapped.at for mapped in mapping if mapped.symbol in query.skip_to]
    if not places:
        return None
    target = places[0] if query.skip is SkipMode.TO_FIRST else places[-1]
    return target if target != start else None


@dataclass(frozen=True)
class _Search:
    """The search for the match that starts at one row."""

    rows: Sequence[Row]
    query: BoundPatternQuery
    budget: Budget
    start: int
    number: int

    def first(self) -> Mapping | None:
        """Return the preferred mapping, None if there is no match."""
        return next(self._ways(self.query.pattern, (), excluded=False), None)

    def _ways(self, pattern: Pattern, mapping: Mapping, *, excluded: bool) -> Iterator[Mapping]:
        """Yield the mappings after the pattern was matched behind ``mapping``, preferred first."""
        match pattern:
            case Symbol(index):
                longer = (*mapping, Mapped(self.start + len(mapping), index, excluded))
                if self._holds(longer):
                    yield longer
            case Concat(parts):
                yield from self._sequence(with_negations(parts), mapping, excluded=excluded)
            case Alternate(branches):
                for branch in branches:
                    yield from self._ways(branch, mapping, excluded=excluded)
            case Repeat():
                yield from self._repeat(pattern, 0, mapping, excluded=excluded)
            case Exclusion(body):
                yield from self._ways(body, mapping, excluded=True)
            case Edge(kind):
                at = self.start + len(mapping)
                if at == (0 if kind is EdgeKind.START else len(self.rows)):
                    yield mapping
            case _:
                raise AssertionError(pattern)

    def _sequence(
        self, parts: Sequence[NegatedPart], mapping: Mapping, *, excluded: bool
    ) -> Iterator[Mapping]:
        if not parts:
            yield mapping
            return
        part, *rest = parts
        for between in self._ways(part.pattern, mapping, excluded=excluded):
            if self._has_none(part.negated, between[len(mapping) :], mapping):
                yield from self._sequence(rest, between, excluded=excluded)

    def _repeat(
        self, repeat: Repeat, done: int, mapping: Mapping, *, excluded: bool
    ) -> Iterator[Mapping]:
        """Yield the ways to go on after ``done`` iterations."""
        if done >= repeat.low and not repeat.greedy:
            yield mapping
        if repeat.high is None or done < repeat.high:
            for longer in self._ways(repeat.body, mapping, excluded=excluded):
                if done >= repeat.low and longer == mapping:
                    yield mapping  # an iteration beyond the least that maps no row is the last
                else:
                    yield from self._repeat(repeat, done + 1, longer, excluded=excluded)
        if done >= repeat.low and repeat.greedy:
            yield mapping

    def _holds(self, mapping: Mapping) -> bool:
        """Return whether the last row of the mapping exists, fits the window and its condition."""
        self.budget.spend()
        at = mapping[-1].at
        return (
            at < len(self.rows)
            and fits_window(self.rows, self.query, self.start, at)
            and holds(self.rows, self.query, mapping, number=self.number)
        )

    def _has_none(self, negated: Sequence[int], gap: Mapping, before: Mapping) -> bool:
        """Return whether no row of the gap satisfies a negated symbol's condition."""
        return not any(
            holds(self.rows, self.query, (*before, Mapped(row.at, symbol)), number=self.number)
            for row in gap
            for symbol in negated
        )


@dataclass(frozen=True)
class NegatedPart:
    """A part of a sequence, and the symbols that none of its rows may satisfy."""

    pattern: Pattern
    negated: tuple[int, ...] = ()


def with_negations(parts: Sequence[Pattern]) -> list[NegatedPart]:
    """Give each negation of a sequence to the unbounded repetitions of one symbol beside it."""
    solid = [part for part in parts if not isinstance(part, Negation)]
    negated: list[list[int]] = [[] for _ in solid]
    before = -1
    for part in parts:
        if not isinstance(part, Negation):
            before += 1
            continue
        beside = [k for k in (before, before + 1) if 0 <= k < len(solid) and _is_gap(solid[k])]
        assert beside, "a negation in SQL semantics stands beside a repetition"
        for k in beside:
            negated[k].append(part.index)
    return [NegatedPart(part, tuple(of)) for part, of in zip(solid, negated, strict=True)]


def _is_gap(pattern: Pattern) -> bool:
    return isinstance(pattern, Repeat) and isinstance(pattern.body, Symbol) and pattern.high is None
