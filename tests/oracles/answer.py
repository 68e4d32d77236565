"""Naive rows of an answer: what ROWS PER MATCH makes of a match, and its measures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from replay.language.bound import BoundPatternQuery, RowsPerMatch
from tests.oracles.view import Mapping, Row, View

MATCH = "(match)"
"""Key of a row of the answer, where there is an outer query: the match it comes from."""


@dataclass(frozen=True)
class Found:
    """A match of a partition, or a row that no match maps (``number`` is None)."""

    rows: Sequence[Row]
    seqs: Sequence[int]
    """Places of the partition's rows in the stream."""
    start: int
    """Place in the partition of the first row, also of an empty match or an unmatched row."""
    mapping: Mapping
    number: int | None
    timed_out: bool = False

    @property
    def order(self) -> tuple[Any, ...]:
        """Canonical order: first row, last row, rows, symbols."""
        first = self.seqs[self.start]
        places = tuple(self.seqs[mapped.at] for mapped in self.mapping)
        last = places[-1] if places else first - 1
        return first, last, places, tuple(mapped.symbol for mapped in self.mapping)


def rows_of(found: Found, query: BoundPatternQuery) -> list[Row]:
    """Return the rows of the answer that a match gives."""
    if found.number is None:
        nothing = {measure.name: None for measure in query.measures}
        return [_output(found, found.start, nothing, query)]
    whole = found.mapping
    if query.rows_per_match is RowsPerMatch.ONE or not whole:
        if not whole and query.rows_per_match is RowsPerMatch.ALL_OMIT_EMPTY:
            return []
        return [_output(found, found.start, _measures(found, whole, query), query)]
    return [
        _output(found, mapped.at, _measures(found, whole[: k + 1], query), query)
        for k, mapped in enumerate(whole)
        if not mapped.excluded
    ]


def _measures(found: Found, so_far: Mapping, query: BoundPatternQuery) -> Row:
    view = View(found.rows, query, so_far, found.mapping, found.number, found.timed_out)
    return {measure.name: view.value(measure.expression) for measure in query.measures}


def _output(found: Found, at: int, measures: Row, query: BoundPatternQuery) -> Row:
    """Return the columns of the answer; a measure's name hides a column's."""
    row = found.rows[at]
    output = {
        name: measures[source] if source in measures else row[source]
        for source, name in query.output
    }
    return output if query.outer is None else {**output, MATCH: found}
