"""Index lookups against bisecting one sorted array, by entries returned and number of runs."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.harness import Side, fail, interleave, new_parser, print_comparison, write_results
from benchmarks.stores import bulk_stream
from chronicle import StreamSettings, create_store
from chronicle.store import Stream
from chronicle.time import to_int64
from indexing import (
    Index,
    IndexSet,
    KeyRange,
    KeyRanges,
    RunWriter,
    clear_caches,
    merge_runs,
    open_indexes,
)
from indexing.config import FENCE_ENTRIES
from indexing.index import RunTable

ATTRIBUTE, TIME = "x", "t"
RUNS = (1, 4, 16, 64)
RETURNED = (10, 1_000, 10_000, 100_000)
CHECKED = 5
"""Ranges of each size whose answers are compared before any is timed."""


@dataclass(frozen=True, slots=True)
class SortedArray:
    """All entries of an attribute in memory, sorted by key: the least a lookup could cost."""

    key: np.ndarray
    seq: np.ndarray
    t: np.ndarray

    @classmethod
    def of(cls, events: pa.Table) -> SortedArray:
        """Sort the entries of a table of events."""
        key = events[ATTRIBUTE].to_numpy()
        order = np.argsort(key, kind="stable")
        return cls(key[order], order, events[TIME].to_numpy()[order])

    def lookup(self, low: float, high: float) -> tuple[np.ndarray, np.ndarray]:
        """Return ``seq`` and ``t`` of keys from ``low`` to ``high``, in order of ``seq``."""
        first, end = np.searchsorted(self.key, [low, np.nextafter(high, np.inf)])
        # Times ascend with seq, so each may be sorted for itself.
        return np.sort(self.seq[first:end]), np.sort(self.t[first:end])

    def ranges(self, n_returned: int, seed: int) -> Iterator[tuple[float, float]]:
        """Yield ranges that hold ``n_returned`` entries, without end."""
        random = np.random.default_rng([seed, n_returned])
        while True:
            first = int(random.integers(0, len(self.key) - n_returned + 1))
            yield float(self.key[first]), float(self.key[first + n_returned - 1])


def make_events(n_events: int, seed: int) -> pa.Table:
    """Return events with a uniform random double each, at random milliseconds."""
    random = np.random.default_rng(seed)
    t = 1_000 * np.cumsum(random.integers(0, 100, n_events))  # kept in microseconds
    return pa.table({TIME: t, ATTRIBUTE: random.random(n_events)})


def make_stream(folder: Path, events: pa.Table, n_files: int) -> Stream:
    """Write the events as ``n_files`` data files with a run each; needs no Spark."""
    file_events = -(-events.num_rows // n_files)
    settings = StreamSettings(time=TIME, file_events=file_events)
    store, batches = create_store(folder / "store"), events.to_batches(max_chunksize=file_events)
    return bulk_stream(store, "events", events.schema, settings, batches, index=(ATTRIBUTE,))


def index_of(stream: Stream, n_runs: int) -> Index:
    """Return the stream's index with its runs merged until there are ``n_runs``."""
    snapshot = stream.snapshot()
    names = [file.name for file in snapshot.files]
    if len(names) % n_runs:
        fail(f"{len(names)} data files make no {n_runs} runs of equal size")
    width = len(names) // n_runs
    if width == 1:
        return open_indexes(snapshot).index(ATTRIBUTE)
    merged = [f"merged-{n_runs}-{first}.parquet" for first in range(0, len(names), width)]
    for i, target in enumerate(merged):
        some = names[i * width : (i + 1) * width]
        merge_runs(stream.path, ATTRIBUTE, some, live=names, target=target)
    return IndexSet(snapshot, {ATTRIBUTE: RunTable(0, tuple(merged))}).index(ATTRIBUTE)


def check(index: Index, array: SortedArray, n_returned: int, seed: int) -> dict[str, Any]:
    """Return entries and bytes read by the lookup that read most.

    Ends the benchmark unless answers agree and no row group out of range is read.
    """
    most_entries, most_bytes = 0, 0
    for low, high in islice(array.ranges(n_returned, seed + 1), CHECKED):
        found = index.lookup(KeyRanges.of([KeyRange(low, high)]))
        seq, t = array.lookup(low, high)
        if not (np.array_equal(found.seq, seq) and np.array_equal(found.t, t)):
            fail(f"keys {low!r} to {high!r}: {index.n_runs} runs and the sorted array disagree")
        # Of each run, what lies in range and at most the rest of a row group at either rim.
        if found.n_entries_read > len(seq) + 2 * FENCE_ENTRIES * index.n_runs:
            fail(f"{found.n_entries_read:,} entries were read to find {len(seq):,}")
        most_entries = max(most_entries, found.n_entries_read)
        most_bytes = max(most_bytes, found.n_bytes_read)
    return {"n_entries_read": most_entries, "n_bytes_read": most_bytes}


def sides_of(
    indexes: dict[int, Index], array: SortedArray, n_returned: int, seed: int
) -> list[Side]:
    """Return what is timed; no range is asked for twice, since answers are kept."""

    def side(index: Index) -> Callable[[], object]:
        ranges = array.ranges(n_returned, seed)
        return lambda: index.lookup(KeyRanges.of([KeyRange(*next(ranges))]))

    ranges = array.ranges(n_returned, seed)
    return [
        Side("sorted array", lambda: array.lookup(*next(ranges)), note="all keys in memory"),
        *(Side(f"{n} runs", side(index)) for n, index in indexes.items()),
    ]


def measure_lookups(stream: Stream, array: SortedArray, options: argparse.Namespace) -> list[Any]:
    """Check and time lookups of every size on every number of runs."""
    indexes = {n_runs: index_of(stream, n_runs) for n_runs in RUNS if n_runs <= options.files}
    results = []
    for n_returned in (n for n in RETURNED if n <= len(array.key)):
        read = {n: check(index, array, n_returned, options.seed) for n, index in indexes.items()}
        timings = interleave(
            sides_of(indexes, array, n_returned, options.seed),
            rounds=options.rounds,
            calls=options.calls,
        )
        print_comparison(
            f"{n_returned:,} of {len(array.key):,} entries, equal answers, warm, never kept ones",
            timings,
            baseline="sorted array",
        )
        for n, counters in read.items():
            print(
                f"  {n} runs: at most {counters['n_entries_read']:,} entries and "
                f"{counters['n_bytes_read']:,} bytes of {indexes[n].size_bytes:,} were read"
            )
        results.append(
            {
                "n_returned": n_returned,
                "read": read,
                "timings": timings,
            }
        )
    return results


def measure_size(events: pa.Table, file_events: int) -> dict[str, Any]:
    """Return bytes an entry before and after a merge of all runs, and how fast that is."""
    time = to_int64(events[TIME], name=TIME)
    writer = RunWriter((ATTRIBUTE,), TIME)
    with TemporaryDirectory() as directory:
        folder, files = Path(directory), []
        for first in range(0, events.num_rows, file_events):
            part = events.slice(first, file_events)
            name = f"{first:012d}.parquet"
            files += writer.write(
                folder, name, part, time.slice(first, file_events), [part.num_rows]
            )
        names = [file.name for file in files]
        merge_runs(folder, ATTRIBUTE, names[:1], live=names, target="warm.parquet")
        started = perf_counter()
        merged = merge_runs(folder, ATTRIBUTE, names, live=names, target="merged.parquet")
        seconds = perf_counter() - started
    result: dict[str, Any] = {
        "what": "uniform doubles",
        "n_entries": merged.n_rows,
        "n_runs": len(names),
        "bytes_per_entry": sum(file.size_bytes for file in files) / merged.n_rows,
        "bytes_per_entry_merged": merged.size_bytes / merged.n_rows,
        "merged_entries_per_s": merged.n_rows / seconds,
    }
    print(
        f"uniform doubles: {result['bytes_per_entry']:.2f} bytes an entry in {len(names)} runs, "
        f"{result['bytes_per_entry_merged']:.2f} in one ({merged.n_rows:,} entries, merged at "
        f"{result['merged_entries_per_s'] / 1e6:.1f} million a second)"
    )
    return result


def main(arguments: list[str] | None = None) -> None:
    parser = new_parser("lookup_scaling", __doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--files", type=int, default=max(RUNS), help="data files, a run each")
    parser.add_argument("--calls", type=int, default=20, help="calls per measurement")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--file-events", type=int, default=1 << 20, help="events of a level-0 run")
    options = parser.parse_args(arguments)

    events = make_events(options.events, options.seed)
    sizes = [measure_size(events, options.file_events)]
    clear_caches()
    with TemporaryDirectory() as directory:
        stream = make_stream(Path(directory), events, options.files)
        lookups = measure_lookups(stream, SortedArray.of(events), options)
    write_results(
        "lookup_scaling",
        {
            "n_events": options.events,
            "seed": options.seed,
            "fence_entries": FENCE_ENTRIES,
            "sizes": sizes,
            "lookups": lookups,
        },
    )


if __name__ == "__main__":
    main()
