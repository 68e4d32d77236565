"""Selective joins of trades and quotes: by index against reading all, and DuckDB over the files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import replay
from benchmarks.harness import (
    RESULTS,
    Side,
    Timing,
    fail,
    forget,
    interleave,
    new_parser,
    print_comparison,
    speedup,
    write_results,
)
from benchmarks.stores import duckdb_files, kept_store, moments
from chronicle import Store, StreamSettings

TRADES, QUOTES = "trades", "quotes"
QUOTES_PER_TRADE = 10
SYMBOLS = np.array(["AIG", "BAC", "IBM", "SPY"])
SEED = 7

SIZE_MAX = 1_000
LARGE = SIZE_MAX + 1
"""Size of a few trades spread evenly over the stream; all others are smaller."""

TRADES_PER_LARGE = 50_000

WINDOW = 1_000
"""Of joins, in units of time; a quote comes in each."""

READ_GOAL = 0.05
"""Share of the other side's blocks that a selective join may read, its own side's among them."""

SELECT = f"SELECT a.t, b.t AS u, a.size, bid FROM {TRADES} a"
WHERE = f"WHERE a.size = {LARGE}"

QUERIES = {
    "join": f"{SELECT} JOIN {QUOTES} b WITHIN {WINDOW} ON a.sym = b.sym {WHERE}",
    "left join": f"{SELECT} LEFT JOIN {QUOTES} b WITHIN 2 ON a.sym = b.sym AND b.bid > 90 {WHERE}",
    "ASOF join": f"{SELECT} ASOF JOIN {QUOTES} b ON a.t >= b.t {WHERE}",
    "ASOF join by symbol": f"{SELECT} ASOF JOIN {QUOTES} b ON a.sym = b.sym AND a.t >= b.t {WHERE}",
}

NEAR = "a.sym = b.sym AND abs(a.t - b.t)"

DUCKDB_JOINS = {
    "join": f"a JOIN {{quotes}} b ON {NEAR} < {WINDOW}",
    "left join": f"a LEFT JOIN {{quotes}} b ON {NEAR} < 2 AND b.bid > 90",
    "ASOF join": "a ASOF JOIN {quotes} b ON a.t >= b.t",
    "ASOF join by symbol": "a ASOF JOIN {quotes} b ON a.sym = b.sym AND a.t >= b.t",
}

TRADE = pa.schema([("t", pa.int64()), ("sym", pa.string()), ("size", pa.int64())])
QUOTE = pa.schema([("t", pa.int64()), ("sym", pa.string()), ("bid", pa.float64())])

Digest = tuple[int, int, int, float]
"""Rows, and the sums of both sides' times and of the bids; nothing else differs between rows."""


def quotes(n_events: int) -> Iterator[pa.RecordBatch]:
    """Generate a quote in every unit of time."""
    random = np.random.default_rng(SEED)
    for times in moments(n_events):
        n = len(times)
        symbols = SYMBOLS[random.integers(4, size=n)]
        # Whole numbers, so that their sums are exact whoever adds them.
        bids = random.integers(100, size=n).astype(np.float64)
        yield pa.record_batch([pa.array(times), pa.array(symbols), pa.array(bids)], schema=QUOTE)


def trades(n_events: int) -> Iterator[pa.RecordBatch]:
    """Generate a trade for every ten quotes."""
    random = np.random.default_rng(SEED + 1)
    n_large = max(n_events // TRADES_PER_LARGE, 1)
    large = np.linspace(0, n_events - 1, n_large + 2).astype(np.int64)[1:-1]
    for times in moments(n_events):
        symbols = SYMBOLS[random.integers(4, size=len(times))]
        sizes = random.integers(1, SIZE_MAX + 1, size=len(times))
        sizes[np.isin(times, large)] = LARGE
        columns = [pa.array(times * QUOTES_PER_TRADE), pa.array(symbols), pa.array(sizes)]
        yield pa.record_batch(columns, schema=TRADE)


def join_store(path: Path, n_quotes: int) -> Store:
    """Return a store of both streams, trades indexed by size; written on first use."""
    settings, events = StreamSettings("t"), trades(n_quotes // QUOTES_PER_TRADE)
    kept_store(path, TRADES, TRADE, settings, events, index=("size",))
    return kept_store(path, QUOTES, QUOTE, settings, quotes(n_quotes), index=())


def digest(table: pa.Table) -> Digest:
    """Return what tells answers apart."""
    sums = (
        int(np.sum(table.column(name).fill_null(0).to_numpy(), dtype=np.int64)) for name in "tu"
    )
    bids = float(table.column("bid").fill_null(0.0).to_numpy().sum())
    return table.num_rows, *sums, bids


def sides_of(store: Store, name: str, *, duckdb: bool) -> dict[str, Side]:
    """Return what is compared; each side gives its digest."""
    sql = QUERIES[name]

    def ours(plan: str) -> Callable[[], Digest]:
        return lambda: digest(replay.query(store, sql, plan=plan).table)

    sides = {plan: Side(plan, ours(plan)) for plan in ("full", "auto", "indexes=size")}
    if duckdb:
        files = {name: duckdb_files(store.stream(name)) for name in (TRADES, QUOTES)}

        def theirs() -> Digest:
            import duckdb as library

            joined = DUCKDB_JOINS[name].format(quotes=files[QUOTES])
            text = f"SELECT a.t AS t, b.t AS u, bid FROM {files[TRADES]} {joined} {WHERE}"
            return digest(library.connect().sql(text).to_arrow_table())

        sides["duckdb"] = Side("duckdb", theirs, "all cores, footers anew")
    return sides


def compare(store: Store, name: str, *, rounds: int, duckdb: bool) -> dict[str, Any]:
    """Measure one join; ends the benchmark where answers differ or too much is read."""
    sides = sides_of(store, name, duckdb=duckdb)
    answers = {side: compared.run() for side, compared in sides.items()}
    for side, answer in answers.items():
        if answer != answers["full"]:
            fail(f"{name}: {side} gives {answer}, full {answers['full']}")
    result = replay.query(store, QUERIES[name])
    n_blocks = store.stream(QUOTES).snapshot().n_blocks
    share = result.actual.blocks_read / n_blocks
    timings = interleave(list(sides.values()), rounds=rounds, before=forget, warm_up=False)
    print_comparison(f"{name}: {len(result):,} rows", timings, baseline="full")
    print(f"  auto reads {result.actual.blocks_read:,} blocks, {share:.1%} of those of {QUOTES}")
    if share >= READ_GOAL:
        fail(f"{name}: {share:.1%} of the other side's blocks are read (goal: {READ_GOAL:.0%})")
    by_name: dict[str, Timing] = {timing.name: timing for timing in timings}
    return {
        "sql": QUERIES[name],
        "n_rows": len(result),
        "plan": result.stats["plan"],
        "blocks_read": result.actual.blocks_read,
        "blocks_of_quotes": n_blocks,
        "auto_over_full": speedup(by_name["auto"], by_name["full"]),
        "timings": timings,
    }


def main(arguments: list[str] | None = None) -> None:
    parser = new_parser("joins", __doc__)
    parser.add_argument("--quotes", type=int, default=10_000_000)
    parser.add_argument("--stores", type=Path, default=RESULTS, help="folder of the store")
    parser.add_argument("--no-duckdb", dest="duckdb", action="store_false")
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args(arguments)
    store = join_store(options.stores / f"store-joins-{options.quotes}", options.quotes)
    joins = {
        name: compare(store, name, rounds=options.rounds, duckdb=options.duckdb) for name in QUERIES
    }
    goal = {"share_of_blocks_read": READ_GOAL}
    results = {"goal": goal, "n_quotes": options.quotes, "joins": joins}
    write_results("joins", results, folder=options.results)


if __name__ == "__main__":
    main()
