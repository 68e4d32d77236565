"""An ingest with tree and indexes against Spark's own sort and write, in one Spark session."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.harness import (
    RESULTS,
    Side,
    fail,
    interleave,
    new_parser,
    print_comparison,
    write_results,
)
from benchmarks.stores import SYNTHETIC, shifted
from chronicle import create_store, open_store
from chronicle.ingest import IngestOptions, ingest
from chronicle.ingest.session import open_spark
from chronicle.log import delta_log
from datasets.synthetic import SCHEMA, SEED, TIME, write_parquet
from indexing import RunWriter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INDEX = ("A1", "A5")


@dataclass(frozen=True)
class Work:
    """Where everything lies."""

    folder: Path
    source: Path
    time: str
    index: tuple[str, ...]

    def fresh(self, name: str) -> Path:
        """Return a path at which nothing lies."""
        path = self.folder / name
        shutil.rmtree(path, ignore_errors=True)
        return path


def has_delta(spark: SparkSession) -> bool:
    """Return whether the session can write Delta itself; what PySpark brings cannot."""
    return "delta" in (spark.conf.get("spark.sql.catalog.spark_catalog", "") or "").lower()


def plain_write(spark: SparkSession, work: Work) -> Path:
    """Sort by time and write with Spark alone; commit what it wrote as a Delta table."""
    path = work.fresh("plain")
    ordered = spark.read.parquet(str(work.source)).orderBy(work.time)
    if has_delta(spark):
        ordered.write.format("delta").save(str(path))
        return path
    ordered.write.option("compression", "snappy").parquet(str(path))
    files = sorted(path.glob("*.parquet"))
    delta_log.create_table(path, pq.read_schema(files[0]).remove_metadata(), {})
    entries = ((file.name, file.stat().st_size, pq.read_metadata(file).num_rows) for file in files)
    delta_log.commit_changes(path, add=delta_log.new_files(entries), read_version=None, metadata={})
    return path


def chronicle_ingest(work: Work) -> Path:
    """Ingest with tree and indexes into a new store."""
    path = work.fresh("store")
    _ingest(path, work.source, work, new=True)
    return path


def _ingest(path: Path, source: Path, work: Work, *, new: bool) -> None:
    store = create_store(path) if new else open_store(path)
    options = IngestOptions(time=work.time, index=work.index)
    ingest(store, SYNTHETIC, [source], options, derived=RunWriter)


def check_same_rows(work: Work, plain: Path, store: Path) -> int:
    """End the benchmark unless both hold the source's events in order; return how many."""
    snapshot = open_store(store).stream(SYNTHETIC).snapshot()
    blocks = np.arange(snapshot.n_blocks)
    ours = snapshot.read_blocks(blocks, [work.time]).column(0)
    names = [file.name for file in delta_log.live_files(plain)]
    theirs = pa.concat_tables(
        pq.read_table(plain / name, columns=[work.time]) for name in sorted(names)
    ).column(0)
    source = pc.sort_indices(pq.read_table(work.source, columns=[work.time]).column(0))
    expected = pq.read_table(work.source, columns=[work.time]).column(0).take(source)
    for name, times in (("chronicle", ours), ("plain", theirs)):
        if not times.combine_chunks().equals(expected.cast(times.type).combine_chunks()):
            fail(f"{name} does not hold the source's events in order of time")
    return snapshot.n_events


def late_sides(work: Work, n_events: int, late: float) -> list[Side]:
    """Return ingests of as many events as a stream holds: all behind its end, or some late."""
    base = work.folder / "base"
    first = work.folder / "first.parquet"
    write_parquet(first, n_events)
    _ingest(base, first, work, new=True)
    n_late = int(late * n_events)
    rng = np.random.default_rng(SEED)
    new = pa.Table.from_batches(shifted(n_events, n_events, seed=SEED + 1), SCHEMA)
    older = np.sort(rng.integers(1, n_events, n_late))
    with_late = new.set_column(
        0, TIME, pa.array(np.concatenate([older, new.column(0).to_numpy()[n_late:]]))
    )

    def side(name: str, events: pa.Table) -> Side:
        source = work.folder / f"{name}.parquet"
        pq.write_table(events, source)

        def run() -> None:
            path = work.fresh("more")
            shutil.copytree(base, path)
            _ingest(path, source, work, new=False)
            found = open_store(path).stream(SYNTHETIC).snapshot().n_events
            if found != 2 * n_events:
                fail(f"{found:,} events after the ingest '{name}'")

        return Side(name, run, "copying the store included")

    return [side("in order", new), side("late", with_late)]


def measure(work: Work, options: argparse.Namespace) -> dict[str, Any]:
    """Run both comparisons in one Spark session."""
    is_small = options.source is None and options.events < 1_000_000
    with open_spark(options.master, is_small=is_small) as lease:
        paths: dict[str, Path] = {}

        def keep(name: str, make: Callable[[], Path]) -> Side:
            def run() -> None:
                paths[name] = make()

            return Side(name, run)

        sides = [
            keep("plain", lambda: plain_write(lease.spark, work)),
            keep("chronicle", lambda: chronicle_ingest(work)),
        ]
        timings = interleave(sides, rounds=options.rounds)
        n_events = check_same_rows(work, paths["plain"], paths["chronicle"])
        writer = "Delta" if has_delta(lease.spark) else "Parquet, committed to Delta afterwards"
        print_comparison(
            f"{n_events:,} events, tree and {len(work.index)} indexes, against Spark's sort and "
            f"write ({writer}); same session, same rows in the same order",
            timings,
            baseline="plain",
        )
        found = {
            "n_events": n_events,
            "baseline": writer,
            "chronicle_over_plain": timings[1].median_s / timings[0].median_s,
            "timings": timings,
        }
        if options.source is None:
            late = interleave(late_sides(work, options.events, options.late), rounds=options.rounds)
            print_comparison(
                f"{options.events:,} more events, {options.late:.0%} of them late anywhere",
                late,
                baseline="in order",
            )
            found["late_over_in_order"] = late[1].median_s / late[0].median_s
            found["late_timings"] = late
    return found


def main(arguments: list[str] | None = None) -> None:
    parser = new_parser("ingest", __doc__, rounds=3)
    parser.add_argument("--events", type=int, default=500_000)
    parser.add_argument("--source", type=Path, help="a Parquet file to ingest instead")
    parser.add_argument("--time", default=TIME, help="its time column")
    parser.add_argument("--index", default=",".join(INDEX), help="attributes, as A1,A5")
    parser.add_argument("--late", type=float, default=0.1, help="share of late events")
    parser.add_argument("--master", default="local[*]")
    options = parser.parse_args(arguments)
    RESULTS.mkdir(exist_ok=True)
    with TemporaryDirectory(dir=RESULTS) as name:
        folder = Path(name)
        source = options.source
        if source is None:
            # Out of order, or Spark's sort would have nothing to do.
            source = folder / "source.parquet"
            write_parquet(folder / "ordered.parquet", options.events)
            ordered = pq.read_table(folder / "ordered.parquet")
            order = np.random.default_rng(SEED).permutation(ordered.num_rows)
            pq.write_table(ordered.take(pa.array(order)), source)
        work = Work(folder, source, options.time, tuple(options.index.split(",")))
        found = measure(work, options)
    write_results(
        "ingest", {"goal": {"chronicle_over_plain": 1.0, "late_over_in_order": 2.0}, **found}
    )


if __name__ == "__main__":
    main()
