"""The queries calibration times and checks, as text over what a stream holds. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from chronicle.words import number_of
from replay.calibration.facts import Column, Facts
from replay.language.tokens import quoted

WIDE: Final = 3
"""Columns that wide queries read besides."""

LOOKUP_ENTRIES: Final = (100, 1_000, 10_000, 100_000, 1_000_000)
"""Entries that lookups are timed with, as far as the stream has them."""

LOOKUP_SHARE_MAX: Final = 0.3
"""Lookups of a larger share of the stream are in no plan worth choosing."""

LOOKUP_COLUMNS_MAX: Final = 3


@dataclass(frozen=True, slots=True)
class Probe:
    """A query that does one kind of work."""

    kind: str
    sql: str


def replay_probes(facts: Facts) -> list[Probe]:
    """Return queries whose replay costs differ: by columns, predicates, gaps and open searches.

    Matches are rare in all of them, since the price of measures is no matter of the plan. Further
    columns only add work: their conditions hold nearly always.
    """
    row = (0.05, 0.05, 0.05, 0.05)
    gap, open_gap, gaps = (0.003, 0.0005), (0.05, 0.0005), (0.05, 0.05, 0.0005)
    n = min(len(facts.columns) - 1, WIDE)
    probes = [
        Probe("one symbol", _query(facts, (0.001,), gaps=False)),
        Probe("four symbols in a row", _query(facts, row, gaps=False)),
        Probe("a gap", _query(facts, gap, gaps=True, window=60)),
        Probe("an open gap", _query(facts, open_gap, gaps=True)),
        Probe("two open gaps", _query(facts, gaps, gaps=True)),
    ]
    if n > 0:
        more = number_of(n, "more column")
        probes += [
            Probe(f"four symbols, {more}", _query(facts, row, gaps=False, n_more=n)),
            Probe(f"a gap, {more}", _query(facts, gap, gaps=True, window=60, n_more=n)),
        ]
    return probes


def lookup_probes(facts: Facts, n_events: int) -> list[tuple[Probe, str]]:
    """Return queries and the plans whose lookups and sweeps are to be timed."""
    probes = []
    for column in [one for one in facts.columns if one.indexed][:LOOKUP_COLUMNS_MAX]:
        for wanted in LOOKUP_ENTRIES:
            share = wanted / n_events
            if share > LOOKUP_SHARE_MAX:
                continue
            sql = _query(facts, (share, share), gaps=True, column=column)
            probes.append((Probe("one lookup", sql), "indexes=S1"))
            if column.is_even:  # else both symbols have the same range, which is read once
                probes.append((Probe("two lookups", sql), "indexes=S1,S2"))
    return probes


def window_probe(facts: Facts, n_columns: int) -> str:
    """Return a windowed aggregation of so many columns of numbers, of which there are as many."""
    return _windows_text(facts, n_columns, f"TUMBLE(TABLE {{}}, {facts.window(1)})")


def join_probe(facts: Facts, n_events: float) -> tuple[str, str]:
    """Return a join of a stream with itself in a window of so many events, and its other column.

    Rows are counted: what is done with partners is no part of looking for them.
    """
    column = max(facts.columns, key=lambda one: one.n_distinct).name
    stream, key = quoted(facts.stream), quoted(column)
    within = facts.window(n_events)
    sql = (
        f"SELECT COUNT(*) AS n FROM {stream} a JOIN {stream} b WITHIN {within} ON a.{key} = b.{key}"
    )
    return sql, column


def draw_windows(facts: Facts, n_events: int, random: np.random.Generator) -> str | None:
    """Draw a windowed aggregation as somebody might ask it; None where nothing can be added.

    Slides are even on a logarithmic scale, from a hundred events to a quarter of the stream;
    windows are one to twenty slides.
    """
    numbers = [column for column in facts.columns if column.numbers is not None]
    if not numbers:
        return None
    slide = float(10 ** random.uniform(2, max(np.log10(n_events / 4), 2)))
    size = facts.window(slide * int(random.integers(1, 21)))
    n_columns = int(random.integers(1, len(numbers) + 1))
    return _windows_text(facts, n_columns, f"HOP(TABLE {{}}, {facts.window(slide)}, {size})")


def draw_query(facts: Facts, random: np.random.Generator) -> str:
    """Draw a query as somebody might ask it: two to four symbols over random ranges.

    Indexed columns are drawn where there are any. Shares are even on a logarithmic scale, from one
    event in ten thousand to one in five.
    """
    columns = [column for column in facts.columns if column.indexed] or list(facts.columns)
    n_symbols = int(random.integers(2, 5))
    shares = 10 ** random.uniform(-4, np.log10(0.2), n_symbols)
    conditions = [
        columns[int(random.integers(len(columns)))].condition(f"S{number}", share, place)
        for number, share, place in zip(
            range(1, n_symbols + 1), shares.tolist(), random.uniform(0, 1, n_symbols), strict=True
        )
    ]
    return _text(facts, conditions, gaps=True, window=float(10 ** random.uniform(1.5, 3)))


def _query(
    facts: Facts,
    shares: Sequence[float],
    *,
    gaps: bool,
    window: float = 300,
    n_more: int = 0,
    column: Column | None = None,
) -> str:
    """Return a query whose symbols take these shares of a column, by default the first."""
    column = facts.columns[0] if column is None else column
    conditions = [
        column.condition(f"S{number}", share, (0.37 * number) % 1)
        for number, share in enumerate(shares, start=1)
    ]
    for extra in facts.columns[1 : n_more + 1]:
        conditions[0] += f" AND {extra.mild_condition('S1')}"
    return _text(facts, conditions, gaps=gaps, window=window)


def _text(facts: Facts, conditions: Sequence[str], *, gaps: bool, window: float) -> str:
    """Return the query whose symbols S1, S2, … have these conditions."""
    names = [f"S{number}" for number in range(1, len(conditions) + 1)]
    pairs = zip(names, conditions, strict=True)
    defines = ", ".join(f"{name} AS {condition}" for name, condition in pairs)
    pattern = " Z* ".join(names) if gaps else " ".join(names)
    within = f" WITHIN {facts.window(window)}" if gaps else ""
    time = quoted(facts.time)
    return (
        f"SELECT * FROM {quoted(facts.stream)} MATCH_RECOGNIZE (ORDER BY {time} "
        f"MEASURES S1.{time} AS first_t PATTERN ({pattern}){within} DEFINE {defines})"
    )


def _windows_text(facts: Facts, n_columns: int, windows: str) -> str:
    """Return the query that aggregates columns of numbers over windows.

    ``windows`` has ``{}`` in the place of the stream and its time.
    """
    names = [quoted(column.name) for column in facts.columns if column.numbers is not None]
    parts = [
        f"AVG({name}) AS mean_{number}, MAX({name}) AS most_{number}"
        for number, name in enumerate(names[:n_columns], start=1)
    ]
    of = windows.format(f"{quoted(facts.stream)}, DESCRIPTOR({quoted(facts.time)})")
    return (
        f"SELECT window_start, COUNT(*) AS n, {', '.join(parts)} FROM TABLE({of}) "
        "GROUP BY window_start, window_end"
    )
