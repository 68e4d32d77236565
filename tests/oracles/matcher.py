"""Naive oracle of row pattern matching: every mapping in order of preferment, row by row.

Pure Python over dictionaries: recursion over the pattern tree yields the ways to go on, the
preferred first; the first that reaches the end of the pattern is the match of a start row
(ISO/IEC 19075-5, chapter 4; preferment as in Perl's backtracking).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from replay.language.bound import (
    Alternate,
    AnchorKind,
    Attribute,
    BoundPatternQuery,
    Classifier,
    Concat,
    MatchNumber,
    Pattern,
    Repeat,
    SkipMode,
    Symbol,
)
from tests.oracles.scalar import evaluate

Row = dict[str, Any]
Mapping = tuple[int, ...]
"""Symbols of the rows mapped so far, from the start row on."""


def match_rows(rows: Sequence[Row], query: BoundPatternQuery) -> list[Row]:
    """Return the rows of the answer, in canonical order.

    Parameters
    ----------
    rows
        The stream in order of ``seq``: values as bound expressions carry them (times as int).
    query
        The query; LIMIT is applied.
    """
    partitions: dict[tuple[Any, ...], list[int]] = {}
    for seq, row in enumerate(rows):
        key = tuple(_key(row[name]) for name in query.partition_by)
        partitions.setdefault(key, []).append(seq)
    found = []
    for seqs in partitions.values():
        found += _match_partition([rows[seq] for seq in seqs], seqs, rows, query)
    found.sort(key=lambda pair: pair[0])
    return [row for _, row in found][: query.limit]


def _key(value: Any) -> Any:
    return "NaN" if value != value else (None,) if value is None else (type(value), value)


def _match_partition(
    rows: Sequence[Row], seqs: Sequence[int], stream: Sequence[Row], query: BoundPatternQuery
) -> list[tuple[int, Row]]:
    found = []
    start = 0
    while start < len(rows):
        mapping = first_mapping(rows, start, query)
        if mapping is None:
            start += 1
            continue
        number = len(found) + 1
        neighbours, at = (rows, start) if query.partition_by else (stream, seqs[start])
        found.append((seqs[start], _answer(neighbours, at, mapping, number, query)))
        skips = query.skip is SkipMode.PAST_LAST_ROW and mapping
        start += len(mapping) if skips else 1
    return found


def first_mapping(rows: Sequence[Row], start: int, query: BoundPatternQuery) -> Mapping | None:
    """Return the preferred mapping of the rows from ``start`` on, None if there is no match."""
    return next(_ways(query.pattern, (), rows, start, query), None)


def _ways(
    pattern: Pattern, mapping: Mapping, rows: Sequence[Row], start: int, query: BoundPatternQuery
) -> Iterator[Mapping]:
    """Yield the mappings after the pattern was matched behind ``mapping``, preferred first."""
    match pattern:
        case Symbol(index):
            longer = (*mapping, index)
            if _holds(longer, rows, start, query):
                yield longer
        case Concat(parts):
            if not parts:
                yield mapping
                return
            for between in _ways(parts[0], mapping, rows, start, query):
                yield from _ways(Concat(parts[1:]), between, rows, start, query)
        case Alternate(branches):
            for branch in branches:
                yield from _ways(branch, mapping, rows, start, query)
        case Repeat():
            yield from _repeat(pattern, 0, mapping, rows, start, query)


def _repeat(
    repeat: Repeat,
    done: int,
    mapping: Mapping,
    rows: Sequence[Row],
    start: int,
    query: BoundPatternQuery,
) -> Iterator[Mapping]:
    """Yield the ways to go on after ``done`` iterations."""
    if done >= repeat.low and not repeat.greedy:
        yield mapping
    if repeat.high is None or done < repeat.high:
        for longer in _ways(repeat.body, mapping, rows, start, query):
            if done >= repeat.low and longer == mapping:
                yield mapping  # an iteration beyond the least that maps no row is the last
            else:
                yield from _repeat(repeat, done + 1, longer, rows, start, query)
    if done >= repeat.low and repeat.greedy:
        yield mapping


def _holds(mapping: Mapping, rows: Sequence[Row], start: int, query: BoundPatternQuery) -> bool:
    """Return whether the last row of the mapping exists, fits the window and its condition."""
    at = start + len(mapping) - 1
    if at >= len(rows):
        return False
    if query.within is not None and rows[at][query.time] - rows[start][query.time] > query.within:
        return False
    condition = query.defines[mapping[-1]]
    if condition is None:
        return True

    def lookup(attribute: Attribute | Classifier | MatchNumber) -> Any:
        assert isinstance(attribute, Attribute)
        if attribute.anchor.kind is AnchorKind.CURRENT:
            return _read(rows, at, attribute)
        return _read(rows, _anchor(mapping, start, attribute), attribute)

    return evaluate(condition, lookup) is True


def _anchor(mapping: Mapping, start: int, attribute: Attribute) -> int | None:
    symbol = attribute.anchor.symbol
    places = [start + i for i, s in enumerate(mapping) if symbol is None or s == symbol]
    if not places:
        return None
    return places[0] if attribute.anchor.kind is AnchorKind.FIRST else places[-1]


def _read(rows: Sequence[Row], at: int | None, attribute: Attribute) -> Any:
    if at is None or not 0 <= at + attribute.offset < len(rows):
        return None
    return rows[at + attribute.offset][attribute.name]


def _answer(
    rows: Sequence[Row], start: int, mapping: Mapping, number: int, query: BoundPatternQuery
) -> Row:
    """Return the measures and partition columns of a match."""

    def lookup(part: Attribute | Classifier | MatchNumber) -> Any:
        if isinstance(part, MatchNumber):
            return number
        if isinstance(part, Classifier):
            return query.symbols[mapping[-1]] if mapping else None
        return _read(rows, _anchor(mapping, start, part), part)

    measures = {m.name: evaluate(m.expression, lookup) for m in query.measures}
    return {
        name: measures[source] if source in measures else rows[start][source]
        for source, name in query.output
    }
