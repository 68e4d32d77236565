"""A thousand small appends: files and runs stay few, queries about as fast as on a bulk load."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa

import replay
from benchmarks.harness import Side, Timing, fail, interleave, write_results
from benchmarks.stores import SYNTHETIC, bulk_store
from chronicle import Store, StreamSettings, config, create_store
from chronicle.maintenance.compaction import compact_events, files_bound
from datasets.synthetic import SCHEMA, SEED, SIGMAS, TIME, generate
from datasets.thesis_queries import draw_queries
from indexing import RunWriter, open_indexes
from indexing.config import TAIL_FILE_EVENTS
from indexing.lifecycle import compact_index

INDEX = tuple(SIGMAS)
PLANS = ("full", "auto")


def in_arrival_order(events: pa.Table, late: float, spread: int) -> pa.Table:
    """Return events with a share of them up to ``spread`` positions late."""
    rng = np.random.default_rng(SEED)
    n = events.num_rows
    delay = np.where(rng.random(n) < late, rng.integers(1, spread, n), 0)
    return events.take(pa.array(np.argsort(np.arange(n) + delay, kind="stable")))


def append_all(store: Store, events: pa.Table, n_appends: int) -> list[float]:
    """Append everything in equal parts; return the seconds of each."""
    stream = store.stream(SYNTHETIC)
    derived = RunWriter(INDEX, TIME, least_events=TAIL_FILE_EVENTS)
    seconds = []
    size = -(-events.num_rows // n_appends)
    for start in range(0, events.num_rows, size):
        started = perf_counter()
        stream.append(events.slice(start, size), derived=derived)
        seconds.append(perf_counter() - started)
    return seconds


def shape(store: Store) -> dict[str, Any]:
    """Count files and runs, and the files that the compaction promises at most."""
    snapshot = store.stream(SYNTHETIC).snapshot()
    cap = min(snapshot.settings.file_events, config.AUTO_COMPACT_EVENTS)
    n_large = sum(2 * file.n_events > cap for file in snapshot.files)
    indexes = open_indexes(snapshot)
    return {
        "n_files": len(snapshot.files),
        "n_files_bound": files_bound(n_large, cap=cap, fan_in=config.COMPACTION_FAN_IN),
        "n_runs": {name: indexes.index(name).n_runs for name in indexes.attributes},
        "n_tail_events": max(indexes.index(name).n_tail_events for name in indexes.attributes),
    }


def compare(
    title: str, stores: Sequence[tuple[str, Store]], queries: Sequence[str], rounds: int
) -> dict[str, Any]:
    """Time queries on two stores of the same events; return the median ratio by plan."""
    (name, store), (base_name, base) = stores
    found: dict[str, Any] = {}
    for plan in PLANS:
        ratios = []
        for sql in queries:
            answers = [replay.query(each, sql, plan=plan).table for each in (store, base)]
            if not answers[0].equals(answers[1]):
                fail(f"{name} and {base_name} differ under plan {plan}\n{sql}")
            timings = interleave([_side(store, sql, plan), _side(base, sql, plan)], rounds=rounds)
            ratios.append(_ratio(timings))
        found[plan] = {"median": median(ratios), "worst": max(ratios), "ratios": ratios}
        print(
            f"  {title}, plan {plan}: {median(ratios):.2f}x the time of the {base_name} "
            f"(worst query {max(ratios):.2f}x)"
        )
    return found


def _side(store: Store, sql: str, plan: str) -> Side:
    return Side(str(store.path), lambda: replay.query(store, sql, plan=plan))


def _ratio(timings: list[Timing]) -> float:
    return timings[0].median_s / timings[1].median_s


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.many_appends", description=__doc__)
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--appends", type=int, default=200)
    parser.add_argument("--late", type=float, default=0.0, help="share of events that come late")
    parser.add_argument("--queries", type=int, default=6, help="for each m of 2, 4, 8")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args(arguments)

    events = pa.Table.from_batches(generate(options.events))
    spread = 5 * options.events // options.appends
    queries = [
        query.to_sql(SYNTHETIC)
        for m in (2, 4, 8)
        for query in draw_queries(options.queries, m, attributes=INDEX)
    ]
    with TemporaryDirectory() as folder:
        bulk = bulk_store(Path(folder) / "bulk", generate(options.events), index=INDEX)
        store = create_store(Path(folder) / "appended")
        store.create_stream(SYNTHETIC, SCHEMA, StreamSettings(time=TIME))
        seconds = append_all(store, in_arrival_order(events, options.late, spread), options.appends)
        tenth = max(1, len(seconds) // 10)
        found: dict[str, Any] = {"appended": shape(store)}
        print(
            f"{len(seconds):,} appends: first tenth {1e3 * median(seconds[:tenth]):.0f} ms each, "
            f"last tenth {1e3 * median(seconds[-tenth:]):.0f} ms, slowest "
            f"{1e3 * max(seconds):.0f} ms\n{found['appended']}"
        )
        sides = (("appended store", store), ("bulk load", bulk))
        found["appended_over_bulk"] = compare("after the appends", sides, queries, options.rounds)
        derived = RunWriter(INDEX, TIME)
        compact_events(store.stream(SYNTHETIC), derived=derived, full=True)
        compact_index(store.stream(SYNTHETIC), full=True)
        found["compacted"] = shape(store)
        print(f"after full compaction: {found['compacted']}")
        found["compacted_over_bulk"] = compare("compacted", sides, queries, options.rounds)
    write_results(
        "many_appends",
        {
            "n_events": options.events,
            "n_appends": len(seconds),
            "late": options.late,
            "goal": {"appended_over_bulk": 2.0, "compacted_over_bulk": 1.1},
            "append_seconds": seconds,
            **found,
        },
    )


if __name__ == "__main__":
    main()
