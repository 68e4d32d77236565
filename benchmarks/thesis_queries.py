"""Generated thesis queries over the synthetic stream: every plan equals, and beats, full replay."""

from __future__ import annotations

import argparse
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean, median

import replay
from benchmarks.harness import RESULTS, Side, fail, interleave, write_results
from benchmarks.stores import SYNTHETIC, synthetic_store
from chronicle import Store
from datasets.synthetic import SEED
from datasets.thesis_queries import TO_NEXT_ROW, draw_queries

PLANS = ("full", "tree", "all", "auto")

HEAD = (
    f"\n{'':10}  {'blocks read of all':^32}  {'times as fast as full':^39}"
    f"\n  m  plan   {'mean':>17}  {'at most half':<13}"
    f"  {'mean':>28}  {'median':>6} {'best':>6} {'worst':>6}"
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """One query under one plan, its answer found equal to the full replay's."""

    number: int
    n_symbols: int
    plan: str
    chosen: str
    """The plan carried out, which ``auto`` leaves open."""
    n_matches: int
    blocks_read: int
    blocks_total: int
    entries_read: int
    seconds: float
    full_seconds: float

    @property
    def blocks_fraction(self) -> float:
        """Blocks read of blocks total."""
        return self.blocks_read / self.blocks_total

    @property
    def factor(self) -> float:
        """How many times as long the full replay takes."""
        return self.full_seconds / self.seconds


def measure(store: Store, sql: str, number: int, n_symbols: int, rounds: int) -> list[Outcome]:
    """Run one query under every plan, compare the answers, then time the plans in turn."""
    results = {plan: replay.query(store, sql, plan=plan) for plan in PLANS}
    for plan, result in results.items():
        if not result.table.equals(results["full"].table):
            fail(f"query {number} of m={n_symbols}: plan {plan} differs from full\n{sql}")

    def side(plan: str) -> Side:
        return Side(plan, lambda: replay.query(store, sql, plan=plan))

    timings = interleave([side(plan) for plan in PLANS], rounds=rounds)
    full_seconds = next(timing.median_s for timing in timings if timing.name == "full")
    return [
        Outcome(
            number=number,
            n_symbols=n_symbols,
            plan=plan,
            chosen=str(results[plan].stats["plan"]),
            n_matches=len(results[plan]),
            blocks_read=results[plan].actual.blocks_read,
            blocks_total=results[plan].actual.blocks_total,
            entries_read=results[plan].actual.entries_read,
            seconds=timing.median_s,
            full_seconds=full_seconds,
        )
        for plan, timing in zip(PLANS, timings, strict=True)
    ]


def print_summary(outcomes: list[Outcome]) -> None:
    """Print, for each m and plan, blocks read and times against the full replay."""
    print(HEAD)
    for m in sorted({outcome.n_symbols for outcome in outcomes}):
        for plan in PLANS:
            these = [o for o in outcomes if o.n_symbols == m and o.plan == plan]
            fractions, factors = [o.blocks_fraction for o in these], [o.factor for o in these]
            half = sum(fraction <= 0.5 for fraction in fractions)
            print(
                f"{m:3}  {plan:<5}  {mean(fractions):17.1%}  {half:5} of {len(these):<4}"
                f"  {mean(factors):27.2f}x {median(factors):6.2f}x {max(factors):5.1f}x"
                f" {min(factors):5.2f}x"
            )
        chosen = Counter(o.chosen for o in outcomes if o.n_symbols == m and o.plan == "auto")
        kinds = Counter(name.split("=")[0] for name in chosen.elements())
        print(f"     auto chose {', '.join(f'{kind} {n}' for kind, n in kinds.most_common())}")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.thesis_queries", description=__doc__
    )
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--queries", type=int, default=20, help="for each m")
    parser.add_argument("--symbols", default="2,4,8", help="the values of m, as 2,4,8")
    parser.add_argument("--store", type=Path, help="default: one per size below benchmarks/results")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--skip", default=TO_NEXT_ROW, help="AFTER MATCH SKIP … (%(default)s)")
    options = parser.parse_args(arguments)

    path = options.store or RESULTS / f"store-synthetic-{options.events}"
    store = synthetic_store(path, options.events, seed=options.seed)
    outcomes: list[Outcome] = []
    for m in (int(word) for word in options.symbols.split(",")):
        for number, query in enumerate(draw_queries(options.queries, m, seed=options.seed)):
            sql = query.to_sql(SYNTHETIC, skip=options.skip)
            outcomes += measure(store, sql, number, m, options.rounds)
        print(f"m = {m}: {options.queries} queries, every plan gives the full replay's answer")
    print_summary(outcomes)
    write_results(
        "thesis_queries",
        {
            "n_events": options.events,
            "seed": options.seed,
            "rounds": options.rounds,
            "goal": "m = 8: auto reads at most half the blocks in at least half the queries",
            "outcomes": [asdict(outcome) for outcome in outcomes],
        },
    )


if __name__ == "__main__":
    main()
