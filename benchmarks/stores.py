"""The stores the benchmarks ask: made on first use with Spark, kept for the next run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import pyarrow as pa

from chronicle import Store, Stream, StreamSettings, config, create_store, ensure_store
from chronicle.ingest import IngestOptions, ingest
from chronicle.write.block_writer import write_ordered
from chronicle.write.commit import APPEND, OPERATION, commit_files
from datasets.crimes import TIME as CRIME_TIME
from datasets.crimes import write_usable
from datasets.synthetic import SCHEMA, SEED, SIGMAS, TIME, generate, write_parquet
from datasets.tour import INDEXES as CRIME_INDEXES
from indexing import RunWriter
from replay.calibration.measure import calibrate, choose_stream, keep
from replay.engines.weights import CALIBRATION_FILE

SYNTHETIC = "synthetic"
CRIMES = "crimes"


def synthetic_store(path: Path, n_events: int, *, seed: int = SEED) -> Store:
    """Return a store whose stream ``synthetic`` has ``n_events`` events and five indexes."""
    store = ensure_store(path)
    if SYNTHETIC not in store.stream_names():
        with TemporaryDirectory() as directory:
            source = Path(directory) / "synthetic.parquet"
            started = perf_counter()
            write_parquet(source, n_events, seed=seed)
            print(f"generated {n_events:,} events in {perf_counter() - started:.1f} s")
            _ingest(store, SYNTHETIC, source, IngestOptions(time=TIME, index=tuple(SIGMAS)))
    found = store.stream(SYNTHETIC).snapshot().n_events
    if found != n_events:
        raise SystemExit(
            f"the store {path} holds {found:,} events and not {n_events:,}; "
            "name another with --store, or remove it"
        )
    return store


def crimes_store(path: Path) -> Store:
    """Return a store whose stream ``crimes`` is the bundled one, indexed as in the demo."""
    store = ensure_store(path)
    if CRIMES not in store.stream_names():
        with TemporaryDirectory() as directory:
            source = Path(directory) / "crimes.parquet"
            print(write_usable(source))
            options = IngestOptions(time=CRIME_TIME, index=CRIME_INDEXES)
            _ingest(store, CRIMES, source, options)
    return store


def calibrated(store: Store, seconds: float) -> Store:
    """Return the store with weights measured on it, as ``chronicle calibrate`` does.

    Those that are there are kept; 0 seconds leave the store as it is.
    """
    if seconds and not (store.path / CALIBRATION_FILE).exists():
        done = calibrate(choose_stream(store, None), seconds=seconds)
        print(f"{done.stream}: weights measured, {keep(store, done)}")
    return store


def bulk_store(
    path: Path,
    batches: Iterable[pa.RecordBatch],
    *,
    index: tuple[str, ...],
    block_events: int = config.BLOCK_EVENTS,
    file_events: int = config.FILE_EVENTS,
) -> Store:
    """Write synthetic events in order of time into a new store, without Spark, in one commit."""
    store = create_store(path)
    settings = StreamSettings(time=TIME, block_events=block_events, file_events=file_events)
    bulk_stream(store, SYNTHETIC, SCHEMA, settings, batches, index=index)
    return store


def bulk_stream(
    store: Store,
    name: str,
    schema: pa.Schema,
    settings: StreamSettings,
    batches: Iterable[pa.RecordBatch],
    *,
    index: tuple[str, ...],
) -> Stream:
    """Write events in order of time into a new stream, without Spark, in one commit."""
    stream = store.create_stream(name, schema, settings)
    files = write_ordered(
        batches,
        stream_dir=stream.path,
        schema=stream.schema,
        settings=settings,
        ordinal_prefix=f"{0:06d}-{0:06d}",
        derived=RunWriter(index, settings.time, key=settings.key),
    )
    n_events = sum(file.n_events for file in files)
    metadata = {OPERATION: APPEND, "n_events": str(n_events), "n_late": "0"}
    commit_files(stream, files, read_version=stream.refresh(), metadata=metadata)
    return stream


def shifted(n_events: int, first: int, *, seed: int = SEED) -> Iterator[pa.RecordBatch]:
    """Generate synthetic events at times from ``first + 1`` on."""
    for batch in generate(n_events, seed=seed):
        times = pa.array(batch.column(0).to_numpy() + first)
        yield pa.record_batch([times, *batch.columns[1:]], schema=SCHEMA)


def _ingest(store: Store, stream: str, source: Path, options: IngestOptions) -> None:
    started = perf_counter()
    print(ingest(store, stream, [source], options, derived=RunWriter, progress=print))
    print(f"ingested into {stream} in {perf_counter() - started:.1f} s, Spark's start included")
