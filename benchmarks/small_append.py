"""A small append into a large store and into a small one: the same time, well below a second."""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter

import pyarrow as pa

from benchmarks.harness import (
    Side,
    fail,
    interleave,
    new_parser,
    print_comparison,
    run_child,
    write_results,
)
from benchmarks.stores import SYNTHETIC, bulk_store, shifted
from chronicle import Store, open_store
from datasets.synthetic import TIME, generate
from indexing import RunWriter
from indexing.config import TAIL_FILE_EVENTS

INDEX = ("A1", "A5")


@dataclass
class Target:
    """A store that events are appended to, and where it ends."""

    name: str
    store: Store
    end: int
    """Time of its last event, which is also their number."""


def append_once(store: Store, events: pa.Table) -> None:
    """Append, which includes the commit and automatic compaction."""
    derived = RunWriter(INDEX, TIME, least_events=TAIL_FILE_EVENTS)
    store.stream(SYNTHETIC).append(events, derived=derived)


def next_events(target: Target, n_events: int, *, n_late: int = 0) -> pa.Table:
    """Return events behind the end of a stream, the first of them before it if late ones are."""
    events = pa.Table.from_batches(shifted(n_events, target.end - n_late))
    target.end += n_events - n_late
    return events


def check_end(target: Target, n_events: int) -> None:
    """End the benchmark unless the store holds what was put in."""
    snapshot = open_store(target.store.path).stream(SYNTHETIC).snapshot()
    if (snapshot.n_events, snapshot.t_max) != (n_events, target.end):
        fail(f"{target.name} holds {snapshot.n_events:,} events up to {snapshot.t_max}")


def cold(target: Target, n_events: int) -> dict[str, float]:
    """Append in a process of its own; return its seconds and those the append alone took."""
    options = ("--append-to", str(target.store.path), "--size", str(n_events))
    started = perf_counter()
    append_s = run_child("-m", "benchmarks.small_append", *options, "--end", str(target.end))
    target.end += n_events
    return {"process_s": perf_counter() - started, "append_s": append_s}


def append_from_process(path: Path, size: int, end: int) -> None:
    """Be the process that ``cold`` starts."""
    events = pa.Table.from_batches(shifted(size, end))
    started = perf_counter()
    append_once(open_store(path), events)
    print(json.dumps(perf_counter() - started))


def to_arguments(arguments: list[str] | None) -> argparse.Namespace:
    parser = new_parser("small_append", __doc__, rounds=40)
    parser.add_argument("--events", type=int, default=1_000_000, help="of the large store")
    parser.add_argument("--small", type=int, default=100_000, help="events of the small store")
    parser.add_argument("--size", type=int, default=1_000, help="events of an append")
    parser.add_argument("--late", type=int, default=0, help="events of an append that are late")
    parser.add_argument("--append-to", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--end", type=int, help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def appending(target: Target, options: argparse.Namespace, *, n_late: int = 0) -> Side:
    """Return the side that appends to a store; the events of all rounds are made beforehand."""
    batches = iter(
        [next_events(target, options.size, n_late=n_late) for _ in range(options.rounds + 1)]
    )
    return Side(target.name, lambda: append_once(target.store, next(batches)))


def main(arguments: list[str] | None = None) -> None:
    options = to_arguments(arguments)
    if options.append_to is not None:
        append_from_process(options.append_to, options.size, options.end)
        return
    with TemporaryDirectory() as folder:
        sizes = {"large": options.events, "small": options.small}
        targets = [
            Target(name, bulk_store(Path(folder) / name, generate(n), index=INDEX), n)
            for name, n in sizes.items()
        ]
        sides = [appending(target, options, n_late=options.late) for target in targets]
        timings = [
            replace(timing, note=f"slowest {1e3 * max(timing.rounds_s):.0f} ms")
            for timing in interleave(sides, rounds=options.rounds)
        ]
        for target in targets:
            check_end(target, sizes[target.name] + (options.rounds + 1) * options.size)
        in_process = {
            target.name: [cold(target, options.size) for _ in range(3)] for target in targets
        }
    print_comparison(
        f"{options.size:,} events appended to {options.events:,} and to {options.small:,}, two "
        "indexes; nothing lost",
        timings,
        baseline="small",
    )
    large, small = (timing.median_s for timing in timings)
    cold_s = {
        name: {part: median(run[part] for run in runs) for part in ("process_s", "append_s")}
        for name, runs in in_process.items()
    }
    for name, found in cold_s.items():
        print(
            f"  {name}, in a process of its own: {found['process_s']:.2f} s, of which the append "
            f"took {found['append_s']:.2f} s"
        )
    print(f"\nthe large store takes {large / small:.2f}x the time of the small one (goal: 1x)")
    write_results(
        "small_append",
        {
            "n_events": options.events,
            "n_events_small": options.small,
            "size": options.size,
            "n_late": options.late,
            "goal": {"seconds": 1.0, "large_over_small": 1.0},
            "large_over_small": large / small,
            "timings": timings,
            "cold": cold_s,
        },
    )


if __name__ == "__main__":
    main()
