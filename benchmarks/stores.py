"""The stores the benchmarks ask: written without Spark on first use, kept for the next run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from time import perf_counter

import pyarrow as pa

from chronicle import Store, Stream, StreamSettings, config, create_store, ensure_store
from chronicle.write.block_writer import write_ordered
from chronicle.write.commit import APPEND, OPERATION, commit_files
from datasets.synthetic import SCHEMA, SEED, SIGMAS, TIME, generate
from indexing import RunWriter
from replay.calibration.measure import calibrate, choose_stream, keep
from replay.engines.weights import CALIBRATION_FILE

SYNTHETIC = "synthetic"


def synthetic_store(path: Path, n_events: int, *, seed: int = SEED) -> Store:
    """Return a store whose stream ``synthetic`` has ``n_events`` events and five indexes."""
    store = ensure_store(path)
    if SYNTHETIC not in store.stream_names():
        started = perf_counter()
        settings, events = StreamSettings(time=TIME), generate(n_events, seed=seed)
        bulk_stream(store, SYNTHETIC, SCHEMA, settings, events, index=tuple(SIGMAS))
        print(f"wrote {n_events:,} events in {perf_counter() - started:.1f} s")
    found = store.stream(SYNTHETIC).snapshot().n_events
    if found != n_events:
        raise SystemExit(
            f"the store {path} holds {found:,} events and not {n_events:,}; "
            "name another with --store, or remove it"
        )
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
