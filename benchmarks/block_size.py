"""Events per block: what a scan, one block and scattered blocks cost by size and codec."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.harness import Side, fail, interleave, new_parser, print_comparison, write_results
from chronicle.config import BLOCK_EVENTS
from datasets.synthetic import SEED, SIGMAS, TIME, write_parquet

SIZES = (1024, 2048, 4096, 8192)
CODECS = ("snappy", "lz4", "zstd")
CODEC = "lz4"
"""What streams are written with."""

COLUMNS = [TIME, *list(SIGMAS)[:3]]
"""What a gapped question over three attributes reads."""

Reads = dict[str, Callable[[], object]]
Files = dict[str, Path]


def name_of(codec: str, block_events: int) -> str:
    """Return what a file is called in the results."""
    return f"{codec} {block_events}"


def write_files(events: pa.Table, folder: Path) -> Files:
    """Write the events once per codec and size; return the files by name."""
    files: Files = {}
    for codec in CODECS:
        for block_events in SIZES:
            path = folder / f"{codec}-{block_events}.parquet"
            pq.write_table(
                events,
                path,
                row_group_size=block_events,
                compression=codec,
                use_dictionary=False,
                write_page_checksum=True,
                column_encoding={TIME: "DELTA_BINARY_PACKED"},
            )
            files[name_of(codec, block_events)] = path
    return files


def reads_of(path: Path) -> Reads:
    """Return what is timed on a file, each in one thread and with its footer parsed before."""
    footer = pq.read_metadata(path)
    opened = pq.ParquetFile(path, metadata=footer)
    n_blocks = footer.num_row_groups
    scattered = [n_blocks // 7, n_blocks // 2, n_blocks - 2]
    one_column = [COLUMNS[-1]]

    def read(blocks: list[int], columns: list[str]) -> pa.Table:
        return opened.read_row_groups(blocks, columns=columns, use_threads=False)

    return {
        "scan of one double": partial(read, list(range(n_blocks)), one_column),
        "one block, four columns": partial(read, scattered[:1], COLUMNS),
        "three scattered blocks, four columns": partial(read, scattered, COLUMNS),
        "footer": partial(pq.read_metadata, path),
    }


def check(events: pa.Table, files: Files) -> None:
    """End the benchmark unless every file holds the events."""
    expected = events.select(COLUMNS)
    for name, path in files.items():
        if not pq.read_table(path, columns=COLUMNS).equals(expected):
            fail(f"{name} does not hold the events that were written")


def main(arguments: list[str] | None = None) -> None:
    parser = new_parser("block_size", __doc__)
    parser.add_argument("--events", type=int, default=1 << 20)
    parser.add_argument("--calls", type=int, default=3, help="calls per measurement")
    parser.add_argument("--seed", type=int, default=SEED)
    options = parser.parse_args(arguments)
    if options.events < 4 * max(SIZES):
        parser.error(f"--events must be at least {4 * max(SIZES)}: four blocks of the largest size")

    results = []
    with TemporaryDirectory() as directory:
        folder = Path(directory)
        source = folder / "events.parquet"
        write_parquet(source, options.events, seed=options.seed)
        events = pq.read_table(source)
        files = write_files(events, folder)
        check(events, files)
        reads = {name: reads_of(path) for name, path in files.items()}
        for what in next(iter(reads.values())):
            timings = interleave(
                [Side(name, of_file[what]) for name, of_file in reads.items()],
                rounds=options.rounds,
                calls=options.calls,
            )
            print_comparison(
                f"{what}: {options.events:,} events, one thread, warm cache, equal contents",
                timings,
                baseline=name_of(CODEC, BLOCK_EVENTS),
            )
            results.append({"what": what, "timings": timings})
        sizes = {name: path.stat().st_size for name, path in files.items()}
    write_results(
        "block_size",
        {
            "n_events": options.events,
            "seed": options.seed,
            "columns": COLUMNS,
            "file_bytes": sizes,
            "comparisons": results,
        },
    )


if __name__ == "__main__":
    main()
