"""COUNT(*) of rare crimes that follow each other, by every plan: T10 of aggregates over matches.

Robbery, assault and theft of a car in one neighborhood, within half an hour, a week or at any time;
over copies of the bundled crimes, with indexes over neighborhood and kind together.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import replay
from benchmarks.harness import (
    RESULTS,
    WARM,
    Side,
    fail,
    forget,
    interleave,
    new_parser,
    print_comparison,
    speedup,
    write_results,
)
from benchmarks.question_sets import NEIGHBOURHOOD
from benchmarks.real_stores import crimes_source, real_store
from chronicle import Store

GOAL = 50.0
"""Times the chosen plan is faster than a full replay, of crimes within half an hour."""

PLANS = ("full", "all", "relevant", "index-only", "auto")

KINDS = {"A": "ROBBERY", "B": "AGGRAVATED ASSAULT", "C": "MOTOR VEHICLE THEFT"}

WITHIN = {
    "within half an hour": "WITHIN INTERVAL '30' MINUTE",
    "within a week": "WITHIN INTERVAL '7' DAY",
    "at any time": "",
}


def question(within: str) -> str:
    """Return how many such triples there are."""
    defines = (
        f"{symbol} AS neighborhood = {NEIGHBOURHOOD} AND primary_type = '{kind}'"
        for symbol, kind in KINDS.items()
    )
    return (
        "SELECT COUNT(*) AS n FROM crimes MATCH_RECOGNIZE (ORDER BY ts PATTERN (A B C) "
        f"SEMANTICS SKIP TILL ANY {within} DEFINE {', '.join(defines)})"
    )


def measure(store: Store, name: str, rounds: int) -> dict[str, Any]:
    """Compare the answers of all plans, then time them in turn."""
    sql = question(WITHIN[name])
    results = {plan: replay.query(store, sql, plan=plan) for plan in PLANS}
    for plan, result in results.items():
        if result.table != results["full"].table:
            fail(f"{name}: plan {plan} gives {result.table.to_pylist()}")
    sides = [Side(plan, partial(replay.query, store, sql, plan=plan)) for plan in PLANS]
    timings = interleave(sides, rounds=rounds, before=forget)
    count = results["full"].table.column("n")[0].as_py()
    print_comparison(f"{count:,} triples {name}", timings, baseline="full")
    for plan, result in results.items():
        done = result.actual
        print(
            f"  {plan:<10} is {result.plan.name}: {done.blocks_read:,} of {done.blocks_total:,} "
            f"blocks, {done.rows_replayed:,} rows, {done.entries_read:,} entries"
        )
    return {
        "question": name,
        "count": count,
        "timings": timings,
        "blocks": {plan: result.actual.blocks_read for plan, result in results.items()},
        "speedup": speedup(timings[-1], timings[0]),
        "cpu_speedup": timings[0].cpu_s / timings[-1].cpu_s,
    }


def main(arguments: list[str] | None = None) -> None:
    parser = new_parser("relevant_rows", __doc__)
    parser.add_argument("--times", type=int, default=1, help="copies of the crimes")
    parser.add_argument("--stores", type=Path, default=RESULTS, help="where stores are kept")
    options = parser.parse_args(arguments)
    store = real_store(options.stores, crimes_source(options.times, composites=True))
    print(WARM)
    measured = [measure(store, name, options.rounds) for name in WITHIN]
    ratio = measured[0]["speedup"]
    print(f"\nauto within half an hour: {ratio:.0f}x (goal at 20 copies: {GOAL:.0f}x)")
    write_results("relevant_rows", {"goal": GOAL, "times": options.times, "measured": measured})


if __name__ == "__main__":
    main()
