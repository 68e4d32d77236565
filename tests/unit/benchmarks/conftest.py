"""Toy streams for the benchmarks: seconds to write, no Spark, nothing that cannot be shipped."""

import datetime as dt
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.real_stores import AIRCRAFT_SAMPLE, FLIGHTS_FILE, TICKS_FILE
from benchmarks.stores import bulk_store
from datasets.synthetic import SIGMAS, generate

N_EVENTS = 20_000
BLOCK_EVENTS = 256
N_FLIGHT_EVENTS = 6_000
FLIGHT_SECONDS = 1_500


@pytest.fixture(scope="session")
def stores(tmp_path_factory) -> Path:
    """Return a folder with a toy synthetic store, in which others may be made."""
    folder = tmp_path_factory.mktemp("stores")
    path = folder / f"store-synthetic-{N_EVENTS}"
    bulk_store(path, generate(N_EVENTS), index=tuple(SIGMAS), block_events=BLOCK_EVENTS)
    return folder


@pytest.fixture(scope="session")
def data(tmp_path_factory) -> Path:
    """Return a folder with made-up flights and ticks under the names of the real ones."""
    folder = tmp_path_factory.mktemp("data")
    pq.write_table(flights(), folder / FLIGHTS_FILE)
    pq.write_table(ticks(), folder / TICKS_FILE)
    return folder


def flights() -> pa.Table:
    """One aircraft that climbs, cruises and lands, again and again: four landings."""
    second = np.arange(N_FLIGHT_EVENTS) % FLIGHT_SECONDS
    altitude = np.interp(second, [0, 200, 1000, 1400], [2000.0, 22000.0, 22000.0, 1000.0])
    speed = np.interp(second, [0, 200, 1000, 1400], [150.0, 270.0, 270.0, 120.0])
    climb = np.select([second < 200, second < 1000, second < 1400], [6000.0, 0.0, -3000.0], 0.0)
    return pa.table(
        {
            "ts": times(np.arange(N_FLIGHT_EVENTS) * 1000),
            "icao24": pa.array(["3cd123"] * N_FLIGHT_EVENTS),
            "altitude_ft": altitude.astype(np.float32),
            "groundspeed_kt": speed.astype(np.float32),
            "vertical_rate_fpm": climb.astype(np.float32),
            "sample": pa.array([AIRCRAFT_SAMPLE] * N_FLIGHT_EVENTS),
        }
    )


def ticks() -> pa.Table:
    n, random = 5_000, np.random.default_rng(1)
    return pa.table(
        {
            "ts": times(np.arange(n) * 40),
            "symbol": pa.array(random.choice(["AIG", "BAC", "IBM", "SPY"], n)),
            "event_type": pa.array(random.choice(["ask", "bid", "trade"], n)),
            "price": random.normal(100.0, 5.0, n).round(2),
            "size": (random.exponential(4_000, n) // 100 * 100).astype(np.int32),
        }
    )


def times(milliseconds: np.ndarray) -> pa.Array:
    start = int(dt.datetime(2022, 3, 1, tzinfo=dt.UTC).timestamp() * 1000)
    return pa.array(start + milliseconds, pa.timestamp("ms", tz="UTC"))
