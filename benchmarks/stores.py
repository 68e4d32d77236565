"""The stores the benchmarks ask: written without Spark on first use, kept for the next run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from time import perf_counter

import numpy as np
import pyarrow as pa

from chronicle import Store, Stream, StreamSettings, config, create_store, ensure_store
from chronicle.write.materialise import materialise
from datasets.synthetic import SCHEMA, SEED, SIGMAS, TIME, generate
from indexing import RunWriter
from replay.calibration.measure import calibrate, choose_stream, keep
from replay.engines.weights import CALIBRATION_FILE

SYNTHETIC = "synthetic"
CHUNK_EVENTS = 1 << 18


def synthetic_store(path: Path, n_events: int, *, seed: int = SEED) -> Store:
    """Return a store whose stream ``synthetic`` has ``n_events`` events and five indexes."""
    events = generate(n_events, seed=seed)
    settings = StreamSettings(time=TIME)
    store = kept_store(path, SYNTHETIC, SCHEMA, settings, events, index=tuple(SIGMAS))
    check_size(store, SYNTHETIC, n_events)
    return store


def kept_store(
    path: Path,
    name: str,
    schema: pa.Schema,
    settings: StreamSettings,
    batches: Iterable[pa.RecordBatch],
    *,
    index: tuple[str, ...],
    then: Callable[[Stream], object] = lambda _: None,
) -> Store:
    """Return the store of a stream, written on first use; what comes ``then`` is done to it."""
    store = ensure_store(path)
    if name not in store.stream_names():
        started = perf_counter()
        stream = bulk_stream(store, name, schema, settings, batches, index=index)
        then(stream)
        n_events = stream.snapshot().n_events
        print(f"{name}: wrote {n_events:,} events in {perf_counter() - started:.1f} s")
    return store


def check_size(store: Store, name: str, n_events: int) -> None:
    """End the benchmark unless a stream has as many events as are asked for."""
    found = store.stream(name).snapshot().n_events
    if found != n_events:
        raise SystemExit(
            f"stream {name} in {store.path} holds {found:,} events and not {n_events:,}; remove it"
        )


def duckdb_files(stream: Stream) -> str:
    """Return a stream's data files as DuckDB reads them."""
    paths = (f"'{stream.path / 'events' / file.name}'" for file in stream.snapshot().files)
    return f"read_parquet([{', '.join(paths)}])"


def moments(n_events: int) -> Iterator[np.ndarray]:
    """Yield the numbers from 0 to ``n_events``, some at a time: int64 arrays."""
    for first in range(0, n_events, CHUNK_EVENTS):
        yield np.arange(first, min(first + CHUNK_EVENTS, n_events), dtype=np.int64)


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
    derived = RunWriter(index, settings.time, key=settings.key)
    return materialise(store, name, batches, schema=schema, settings=settings, derived=derived)


def shifted(n_events: int, first: int, *, seed: int = SEED) -> Iterator[pa.RecordBatch]:
    """Generate synthetic events at times from ``first + 1`` on."""
    for batch in generate(n_events, seed=seed):
        times = pa.array(batch.column(0).to_numpy() + first)
        yield pa.record_batch([times, *batch.columns[1:]], schema=SCHEMA)
