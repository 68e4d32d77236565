"""The stores the benchmarks ask: made on first use with Spark, kept for the next run."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from chronicle import Store, ensure_store
from chronicle.ingest import IngestOptions, ingest
from datasets.crimes import TIME as CRIME_TIME
from datasets.crimes import write_usable
from datasets.synthetic import SEED, SIGMAS, TIME, write_parquet
from datasets.tour import INDEXES as CRIME_INDEXES
from indexing import RunWriter

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


def _ingest(store: Store, stream: str, source: Path, options: IngestOptions) -> None:
    started = perf_counter()
    print(ingest(store, stream, [source], options, derived=RunWriter, progress=print))
    print(f"ingested into {stream} in {perf_counter() - started:.1f} s, Spark's start included")
