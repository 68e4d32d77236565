"""Full replay of an 8-symbol contiguous pattern over A5 against a bare scan of that column."""

from __future__ import annotations

from pathlib import Path

import pyarrow.dataset as ds
import pyarrow.parquet as pq

import replay
from benchmarks.harness import (
    RESULTS,
    Side,
    interleave,
    new_parser,
    print_comparison,
    speedup,
    write_results,
)
from benchmarks.stores import SYNTHETIC, synthetic_store
from datasets.synthetic import SEED
from datasets.thesis_queries import ThesisQuery, draw_queries

ATTRIBUTE = "A5"
N_SYMBOLS = (2, 8)
"""Two lengths: the cost of a full replay should grow with rows and not with symbols."""


def contiguous(n_symbols: int, seed: int) -> str:
    """Return a thesis query without Kleene symbols and without a window: it reads A5 alone."""
    drawn = draw_queries(1, n_symbols, attributes=(ATTRIBUTE,), seed=seed)[0]
    return ThesisQuery(drawn.symbols, frozenset()).to_sql(SYNTHETIC, window=None)


def main(arguments: list[str] | None = None) -> None:
    parser = new_parser("full_replay", __doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--store", type=Path, help="default: one per size below benchmarks/results")
    parser.add_argument("--seed", type=int, default=SEED)
    options = parser.parse_args(arguments)

    path = options.store or RESULTS / f"store-synthetic-{options.events}"
    store = synthetic_store(path, options.events, seed=options.seed)
    stream = store.stream(SYNTHETIC)
    files = [stream.path / "events" / file.name for file in stream.snapshot().files]
    dataset = ds.dataset(files)
    queries = {m: contiguous(m, options.seed) for m in N_SYMBOLS}

    def side(m: int) -> Side:
        return Side(f"replay m={m}", lambda: replay.query(store, queries[m], plan="full"))

    def read_files() -> None:
        for file in files:
            pq.ParquetFile(file).read(columns=[ATTRIBUTE])

    timings = interleave(
        [
            *(side(m) for m in N_SYMBOLS),
            Side("scan, dataset", lambda: dataset.to_table(columns=[ATTRIBUTE]), "all cores"),
            Side(
                "scan, file by file",
                read_files,
                "threads go by column, footers anew",
            ),
        ],
        rounds=options.rounds,
    )
    by_name = {timing.name: timing for timing in timings}
    scans = [timing for timing in timings if timing.name.startswith("scan")]
    fastest = min(scans, key=lambda timing: timing.median_s)
    print_comparison(
        f"Full replay over {ATTRIBUTE}, {options.events:,} events in {len(files):,} files, warm",
        timings,
        baseline=fastest.name,
    )
    eight = by_name[f"replay m={N_SYMBOLS[-1]}"]
    fraction = speedup(eight, fastest)
    rate = options.events / eight.median_s / 1e6
    print(f"\n8 symbols: {rate:.0f} M events/s, {fraction:.2f} of the faster scan (goal: 0.5)")
    write_results(
        "full_replay",
        {
            "goal": {"replay_over_scan": 0.5},
            "replay_over_scan": fraction,
            "n_events": options.events,
            "queries": queries,
            "timings": timings,
        },
    )


if __name__ == "__main__":
    main()
