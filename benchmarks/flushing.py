"""What it costs to wait for the disk: appends and a bulk load with flushing and without."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.harness import (
    Side,
    Timing,
    interleave,
    new_parser,
    print_comparison,
    speedup,
    write_results,
)
from benchmarks.small_append import INDEX, Target, appending, check_end
from benchmarks.stores import bulk_store
from chronicle.disk import SYNC_VARIABLE
from datasets.synthetic import generate

SIDES = ("on", "off")


@contextmanager
def flushing(said: str) -> Iterator[None]:
    """Turn flushing on or off for the length of the block."""
    before = os.environ.get(SYNC_VARIABLE)
    os.environ[SYNC_VARIABLE] = said
    try:
        yield
    finally:
        os.environ.pop(SYNC_VARIABLE)
        if before is not None:
            os.environ[SYNC_VARIABLE] = before


def flushed(side: Side) -> Side:
    """Return the same with flushing as the side's name says."""

    def run() -> None:
        with flushing(side.name):
            side.run()

    return Side(side.name, run)


def measure_appends(folder: Path, options: argparse.Namespace) -> list[Timing]:
    """Append to a store of each side in turn."""
    targets = [
        Target(
            said, bulk_store(folder / said, generate(options.events), index=INDEX), options.events
        )
        for said in SIDES
    ]
    sides = [flushed(appending(target, options)) for target in targets]
    timings = interleave(sides, rounds=options.rounds)
    for target in targets:
        check_end(target, options.events + (options.rounds + 1) * options.size)
    return timings


def measure_bulk(folder: Path, options: argparse.Namespace) -> list[Timing]:
    """Load a store of each side in turn."""
    paths = (folder / f"bulk-{number}" for number in count())

    def load() -> None:
        bulk_store(next(paths), generate(options.bulk), index=INDEX)

    # What the other side left unwritten is not this one's to wait for.
    sides = [flushed(Side(said, load)) for said in SIDES]
    return interleave(sides, rounds=options.bulk_rounds, before=os.sync)


def main(arguments: list[str] | None = None) -> None:
    parser = new_parser("flushing", __doc__, rounds=40)
    parser.add_argument("--events", type=int, default=100_000, help="of the stores appended to")
    parser.add_argument("--size", type=int, default=1_000, help="events of an append")
    parser.add_argument("--bulk", type=int, default=1_000_000, help="events of a bulk load")
    parser.add_argument("--bulk-rounds", type=int, default=3, help="bulk loads of each")
    options = parser.parse_args(arguments)
    with TemporaryDirectory(dir=Path.cwd()) as folder:
        appends = measure_appends(Path(folder), options)
        bulk = measure_bulk(Path(folder), options)
    title = f"{options.size:,} events appended to {options.events:,}, two indexes; flushing on, off"
    print_comparison(title, appends, baseline="off")
    print_comparison(f"{options.bulk:,} events loaded at once", bulk, baseline="off")
    ratios = {
        "append_on_over_off": 1 / speedup(appends[0], appends[1]),
        "bulk_on_over_off": 1 / speedup(bulk[0], bulk[1]),
    }
    write_results(
        "flushing",
        {
            "n_events": options.events,
            "size": options.size,
            "n_bulk": options.bulk,
            "ratios": ratios,
            "appends": appends,
            "bulk": bulk,
        },
    )


if __name__ == "__main__":
    main()
