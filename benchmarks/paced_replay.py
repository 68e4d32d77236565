"""Replay at a pace, and as fast as it goes, against a bare scan of the same columns."""

from __future__ import annotations

import argparse
import io
from collections.abc import Iterable
from pathlib import Path
from time import perf_counter
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

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
from benchmarks.stores import SYNTHETIC, synthetic_store
from chronicle.store import Store
from replay.pacing.outlets import open_outlet

HOUR = 3600
"""Units of time: the synthetic stream has an event in each, from 1 on."""

COLUMNS = ["A1", "A5"]


class _Sink(io.RawIOBase):
    """Takes bytes and forgets them."""

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        return len(memoryview(data).cast("B"))


def paced_hour(store: Store, time: str) -> dict[str, float]:
    """Replay an hour in a second; return how long it took and how late events came."""
    began = perf_counter()
    late, expected = [], 1
    for table in replay.events(store, SYNTHETIC, start=1, stop=HOUR + 1, speed=HOUR):
        came = 1 + (perf_counter() - began) * HOUR
        times = table.column(time).to_pylist()
        if times[0] != expected or times != sorted(times):
            fail("events came out of order")
        expected = times[-1] + 1
        late.append(came - times[-1])
    if expected != HOUR + 1:
        fail(f"{expected - 1} events of {HOUR} came")
    return {"seconds": perf_counter() - began, "late_max_s": max(late) / HOUR}


def sides_of(store: Store, columns: list[str]) -> list[Side]:
    """Return the replay and the scans it is compared with; each gives its number of rows."""
    snapshot = store.stream(SYNTHETIC).snapshot()
    files = [snapshot.stream_dir / "events" / file.name for file in snapshot.files]
    dataset = ds.dataset(files)

    def write(tables: Iterable[pa.Table], schema: pa.Schema) -> int:
        outlet = open_outlet("arrow", io.BufferedWriter(_Sink()), schema)
        n_rows = 0
        for table in tables:
            outlet.write(table)
            n_rows += table.num_rows
        outlet.close()
        return n_rows

    def replayed() -> int:
        paced = replay.events(store, SYNTHETIC, columns=columns)
        return write(paced, paced.schema)

    def scanned() -> int:
        return int(dataset.to_table(columns=columns).num_rows)

    def scanned_by_file() -> int:
        return sum(pq.ParquetFile(file).read(columns=columns).num_rows for file in files)

    def scanned_in_order() -> int:
        scanner = dataset.scanner(columns=columns)
        tables = (pa.Table.from_batches([batch]) for batch in scanner.to_batches())
        return write(tables, scanner.projected_schema)

    return [
        Side("replay to Arrow, max", replayed),
        Side("scan to a table", scanned, "all cores, nothing written"),
        Side("scan, file by file", scanned_by_file, "threads go by column, nothing written"),
        Side("scan to Arrow", scanned_in_order, "all cores"),
    ]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.paced_replay", description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--store", type=Path, help="default: one per size below benchmarks/results")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args(arguments)

    path = options.store or RESULTS / f"store-synthetic-{options.events}"
    store = synthetic_store(path, options.events)
    time = store.stream(SYNTHETIC).settings.time
    sides = sides_of(store, [time, *COLUMNS])
    if {side.run() for side in sides} != {options.events}:
        fail("the sides did not hand out the same events")
    hours = [paced_hour(store, time) for _ in range(options.rounds)]
    for hour in hours:
        print(f"an hour at 3600x: {hour['seconds']:.3f} s, at most {hour['late_max_s']:.4f} s late")
    timings = interleave(sides, rounds=options.rounds)
    fastest = min(timings[1:3], key=lambda timing: timing.median_s)
    print_comparison(
        f"{options.events:,} events, columns {time}, {', '.join(COLUMNS)}, warm",
        timings,
        baseline=fastest.name,
    )
    write_results(
        "paced_replay",
        {
            "goal": {"hour_at_3600x_s": [0.98, 1.02], "max_over_scan": 0.5},
            "hours": hours,
            "max_over_scan": speedup(timings[0], fastest),
            "n_events": options.events,
            "timings": [timing.to_dict() for timing in timings],
        },
    )


if __name__ == "__main__":
    main()
