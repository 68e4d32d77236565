"""Gapped and nested row patterns: time grows with the rows, whatever the pattern and the data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import replay
from benchmarks.harness import (
    RESULTS,
    Side,
    Timing,
    interleave,
    new_parser,
    print_comparison,
    write_results,
)
from benchmarks.real_stores import crimes_source, real_store
from chronicle import Store
from datasets.synthetic import SEED

GOAL_GROWTH = 2.3
"""Twice the rows may take 15 % more than twice the time."""

GOAL_CRIMES_S = 1.0

ROBBERY_BATTERY_THEFT = """
SELECT * FROM crimes MATCH_RECOGNIZE (
  ORDER BY ts MEASURES R.ts AS robbery, M.ts AS theft AFTER MATCH {skip} PATTERN (R Z* B Z* M)
  DEFINE R AS primary_type = 'ROBBERY', B AS primary_type = 'AGGRAVATED ASSAULT',
         M AS primary_type = 'MOTOR VEHICLE THEFT' AND district = {district})
"""
"""A pattern on which engines that backtrack take minutes over twenty thousand rows."""

DISTRICTS = (5, 99)
"""One with thefts, and one that is none: every start fails at the end of the stream."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """A pattern and conditions that make it hard."""

    name: str
    pattern: str
    define: str
    clauses: str = ""
    within: str = ""

    def to_sql(self) -> str:
        """Return the query."""
        return (
            "SELECT * FROM s MATCH_RECOGNIZE (ORDER BY t MEASURES FIRST(t) AS began "
            f"{self.clauses} PATTERN ({self.pattern}) {self.within} DEFINE {self.define})"
        )


AB = "A AS x < 0.9, B AS x BETWEEN 0.3 AND 0.95"
C_NEVER = f"{AB}, C AS x > 2"
"""No row is a C: whatever is tried fails in the end."""

C_RARE = f"{AB}, C AS x > 0.999"
NEXT_ROW = "AFTER MATCH SKIP TO NEXT ROW"

PATTERNS = (
    Pattern(
        "A Z* B Z* C within 300",
        "A Z* B Z* C",
        "A AS x < 0.1, B AS x > 0.9, C AS x > 0.999",
        NEXT_ROW,
        "WITHIN 300",
    ),
    Pattern("A Z* B Z* C within 3,000, no C", "A Z* B Z* C", C_NEVER, "", "WITHIN 3000"),
    Pattern("A B+ C", "A B+ C", "A AS x < 0.5, B AS x < 0.9, C AS x > 0.999", NEXT_ROW),
    Pattern("A Z* B Z* C, no C", "A Z* B Z* C", C_NEVER),
    Pattern("((A+ B?)+)+ C, no C", "((A+ B?)+)+ C", C_NEVER),
    Pattern("((A+ B?)+)+ C, rare C", "((A+ B?)+)+ C", C_RARE),
    Pattern("(((A|B)*?)*?)*? C, no C", "(((A|B)*?)*?)*? C", C_NEVER),
    Pattern("(((A|B)*?)*?)*? C, rare C", "(((A|B)*?)*?)*? C", C_RARE),
    Pattern(
        "A Z* B Z* C within 300, B > A",
        "A Z* B Z* C",
        "A AS x < 0.1, B AS x > A.x + 0.8, C AS x > 0.999 AND x > B.x",
        "",
        "WITHIN 300",
    ),
)


def rows(n_rows: int) -> pa.Table:
    """Return events a tick apart with one double uniform in [0, 1)."""
    return pa.table({"t": np.arange(n_rows), "x": np.random.default_rng(SEED).random(n_rows)})


def growth(pattern: Pattern, n_rows: int, rounds: int) -> dict[str, Any]:
    """Return how the time grows from half the rows to all of them."""
    tables = {n: rows(n) for n in (n_rows // 2, n_rows)}

    def side(n: int) -> Side:
        ask: Callable[[], replay.Result] = partial(replay.query, {"s": tables[n]}, pattern.to_sql())
        return Side(f"{n:,} rows", ask)

    half, whole = interleave([side(n) for n in tables], rounds=rounds)
    ratio = whole.median_s / half.median_s
    rate = n_rows / whole.median_s / 1e6
    print(
        f"  {pattern.name:<30} {1e3 * whole.median_s:9.1f} ms  {rate:7.1f} M rows/s  "
        f"twice the rows take {ratio:5.2f}x (goal: at most {GOAL_GROWTH})"
    )
    return {
        "pattern": pattern.name,
        "sql": pattern.to_sql(),
        "growth": ratio,
        "timings": [half, whole],
    }


def crimes(store: Store, rounds: int) -> list[Timing]:
    """Time the gapped pattern over all crimes, with thefts that come and that never come."""
    sides = [
        Side(
            f"{skip}, {'some' if district == DISTRICTS[0] else 'no'} theft",
            partial(
                replay.query,
                store,
                ROBBERY_BATTERY_THEFT.format(skip=skip, district=district),
                plan="full",
            ),
        )
        for skip in ("SKIP PAST LAST ROW", "SKIP TO NEXT ROW")
        for district in DISTRICTS
    ]
    timings = interleave(sides, rounds=rounds)
    print_comparison("R Z* B Z* M over the crimes", timings, baseline=timings[0].name)
    worst = max(timing.median_s for timing in timings)
    print(f"\nthe slowest takes {worst:.3f} s (goal: under {GOAL_CRIMES_S:.0f} s)")
    return timings


def main(arguments: list[str] | None = None) -> None:
    parser = new_parser("row_patterns", __doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--stores", type=Path, default=RESULTS, help="where stores are kept")
    options = parser.parse_args(arguments)
    print(f"{options.events // 2:,} and {options.events:,} rows in memory, full replay")
    grown = [growth(pattern, options.events, options.rounds) for pattern in PATTERNS]
    timings = crimes(real_store(options.stores, crimes_source()), options.rounds)
    write_results(
        "row_patterns",
        {
            "goal": {"growth": GOAL_GROWTH, "crimes_s": GOAL_CRIMES_S},
            "n_events": options.events,
            "growth": grown,
            "crimes": timings,
        },
    )


if __name__ == "__main__":
    main()
