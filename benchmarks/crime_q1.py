"""A rare crime question (as the thesis' Crime Q1): index plans against their full replay."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import pyarrow.dataset as ds

import replay
from benchmarks.harness import (
    RESULTS,
    ROUNDS,
    Side,
    fail,
    interleave,
    print_comparison,
    speedup,
    write_results,
)
from benchmarks.stores import CRIMES, crimes_store
from chronicle import Store
from datasets.tour import ROBBERY_TO_CAR_THEFT
from indexing import clear_caches

COLUMNS = ["ts", "primary_type", "neighborhood", "count"]
"""What the question reads."""

PLANS = ("auto", "all", "tree", "full")


def lookups_anew(store: Store) -> tuple[str, Callable[[], replay.Result], str]:
    """Return the side that remembers no lookup: runs are opened and checked anew each time."""

    def ask() -> replay.Result:
        clear_caches()
        return replay.query(store, ROBBERY_TO_CAR_THEFT, plan="auto")

    return "auto, anew", ask, "runs opened, checked and planned anew"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.crime_q1", description=__doc__)
    parser.add_argument("--store", type=Path, default=RESULTS / "store-crimes")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--calls", type=int, default=10, help="calls per measurement")
    parser.add_argument("--events", type=int, help="ignored: the bundled file has one size")
    options = parser.parse_args(arguments)

    store = crimes_store(options.store)
    stream = store.stream(CRIMES)
    events = ds.dataset([stream.path / "events" / file.name for file in stream.snapshot().files])
    results = {plan: replay.query(store, ROBBERY_TO_CAR_THEFT, plan=plan) for plan in PLANS}
    for plan, result in results.items():
        if not result.table.equals(results["full"].table):
            fail(f"plan {plan} and the full replay differ")

    def side(plan: str) -> Side:
        note = f"blocks {results[plan].actual.blocks_read:,}"
        return Side(plan, lambda: replay.query(store, ROBBERY_TO_CAR_THEFT, plan=plan), note)

    timings = interleave(
        [
            *(side(plan) for plan in PLANS),
            Side("bare scan", lambda: events.to_table(columns=COLUMNS), "pyarrow, matches nothing"),
        ],
        rounds=options.rounds,
        calls=options.calls,
    )
    timings += interleave([Side(*lookups_anew(store))], rounds=options.rounds)
    answer, total = results["full"], results["full"].actual.blocks_total
    print_comparison(
        f"Crime Q1: {len(answer):,} matches in {answer.actual.rows_total:,} events, {total:,} "
        "blocks; all warm, one process; answers equal",
        timings,
        baseline="full",
    )
    by_name = {timing.name: timing for timing in timings}
    factor = speedup(by_name["auto"], by_name["full"])
    print(f"\nauto is {factor:.1f}x as fast as the full replay (goal: 10x)")
    write_results(
        "crime_q1",
        {
            "goal": {"auto_over_full": 10},
            "auto_over_full": factor,
            "n_matches": len(answer),
            "timings": [timing.to_dict() for timing in timings],
            "stats": {plan: result.stats for plan, result in results.items()},
        },
    )


if __name__ == "__main__":
    main()
