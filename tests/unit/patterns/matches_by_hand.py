"""Matches written down by hand, as matchers give them with their rows, for the tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa

from replay.expressions.scalars import Faults
from replay.language.bound import (
    Attribute,
    BoundPatternQuery,
    Classifier,
    Expression,
    Measure,
    RowsPerMatch,
    Symbol,
    walk,
)
from replay.patterns.matches import NO_SYMBOL, Matches, MatchRows
from tests.oracles.answer import Found
from tests.oracles.view import Mapped
from tests.unit.patterns.bound_queries import measured, query

ALL = RowsPerMatch.ALL_SHOW_EMPTY


def measuring(
    measures: Sequence[Expression],
    *,
    rows: RowsPerMatch = ALL,
    n_symbols: int = 3,
    partition_by: tuple[str, ...] = (),
    columns: tuple[str, ...] = (),
) -> BoundPatternQuery:
    """Return a query whose answer has columns of the stream, then measures m0, m1, ….

    Its pattern means nothing; the matches come by hand.
    """
    bound = query(Symbol(0), [None] * n_symbols, partition_by=partition_by)
    named = tuple(Measure(f"m{k}", measure) for k, measure in enumerate(measures))
    names = [*partition_by, *columns, *(measure.name for measure in named)]
    output = tuple((name, name) for name in names)
    changed = {"measures": named, "output": output, "rows_per_match": rows}
    return BoundPatternQuery(**{f: changed.get(f, getattr(bound, f)) for f in bound.__slots__})


def row_offsets(bound: BoundPatternQuery) -> tuple[int, ...]:
    """Return how far from rows of a match the measures read in partitions."""
    if not bound.partition_by:
        return ()
    parts = [part for measure in bound.measures for part in walk(measure.expression)]
    offsets = {part.offset for part in parts if isinstance(part, Attribute | Classifier)}
    return tuple(sorted(offsets - {0}))


def to_matches(found: Sequence[Found], offsets: tuple[int, ...] = ()) -> Matches:
    """Return the oracle's matches as a matcher gives them."""
    mapped = [[(f, m) for m in f.mapping or (Mapped(f.start, NO_SYMBOL),)] for f in found]
    flat = list(chain.from_iterable(mapped))
    moved = [
        f.seqs[m.at + offset] if 0 <= m.at + offset < len(f.seqs) else -1
        for f, m in flat
        for offset in offsets
    ]
    rows = MatchRows(
        np.cumsum([0, *map(len, mapped)], dtype=np.int64),
        np.array([f.seqs[m.at] for f, m in flat], np.int64),
        np.array([m.symbol for _, m in flat], np.uint8),
        np.array([m.excluded for _, m in flat], np.bool_),
        np.array(moved, np.int64).reshape(len(flat), len(offsets)),
    )
    first = [f.seqs[f.start] for f in found]
    last = [f.seqs[f.mapping[-1].at] if f.mapping else f.seqs[f.start] - 1 for f in found]
    classifier = [f.mapping[-1].symbol if f.mapping else -1 for f in found]
    number = [f.number or 0 for f in found]
    columns = (np.array(c, np.int64) for c in (first, last, number, classifier))
    timed_out = np.array([f.timed_out for f in found], np.bool_)
    return Matches(*columns, np.empty((len(found), 0), np.int64), rows, timed_out)


def answer(
    bound: BoundPatternQuery,
    table: pa.Table,
    found: Sequence[Found],
    *,
    faults: Faults | None = None,
    on_fetch: Callable[[list[str], list[int]], object] = lambda _, __: None,
) -> pa.Table:
    """Evaluate measures of matches by hand; every fetch is checked to be a proper one."""

    def fetch(columns: list[str], seqs: np.ndarray[Any, Any]) -> pa.Table:
        assert columns
        assert seqs.tolist() == sorted(set(seqs.tolist()))
        assert all(0 <= seq < table.num_rows for seq in seqs.tolist())
        on_fetch(columns, seqs.tolist())
        return table.select(columns).take(pa.array(seqs))

    offsets = row_offsets(bound)
    program: Any = SimpleNamespace(needs_rows=True, row_offsets=offsets)
    matches = to_matches(found, offsets)
    return measured(bound, program, matches, fetch, n_events=table.num_rows, faults=faults)
