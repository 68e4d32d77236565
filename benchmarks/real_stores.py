"""Stores of real events, written without Spark on first use and kept for the next run."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.stores import check_size, kept_store
from chronicle import Store, Stream, StreamSettings
from datasets import crimes
from indexing.lifecycle import compact_index

CRIMES = "crimes"
CRIME_INDEXES = ("primary_type", "neighborhood", "district", "lat", "lon")
CRIMES_COMPOSITE = "crimes_composite"
COMPOSITE_INDEXES = ("neighborhood+primary_type", "primary_type+lat+lon")
"""What questions on places and kinds of crime ask for, as one key each."""

CRIME_PERIOD = dt.timedelta(weeks=627)
"""How far apart copies of the crimes lie: twelve years, in whole weeks, so that weekday and time of
day stay what they were."""

FLIGHTS = "flights"
FLIGHTS_FILE = "flights_opensky_samples.parquet"
FLIGHT_INDEXES = ("altitude_ft", "groundspeed_kt", "vertical_rate_fpm")
AIRCRAFT = "aircraft"
AIRCRAFT_SAMPLE = "collections/savan"
"""One aircraft, every second, March and April 2022."""
AIRCRAFT_PERIOD = dt.timedelta(weeks=6)

TICKS = "ticks"
TICKS_FILE = "us_equity_ticks_2013.parquet"
TICK_INDEXES = ("symbol", "event_type", "price", "size")

TICKS_BY_SYMBOL = "ticks_by_symbol"

BATCH_EVENTS = 1 << 18


@dataclass(frozen=True, slots=True)
class Source:
    """A table of real events, how often it is repeated, and how it is kept."""

    stream: str
    load: Callable[[], pa.Table]
    index: tuple[str, ...]
    key: str | None = None
    derived: tuple[str, ...] = ()
    """Derived attributes and summaries by key."""
    times: int = 1
    period: dt.timedelta = dt.timedelta(0)
    """Time between one copy and the next."""
    n_events: int | None = None
    """Take only so many events from the front of each copy."""
    kept_as: str = ""
    """Name of the store, where it is not the stream's."""
    merged: bool = False
    """Whether all runs of an index are made one, as ``chronicle index compact --full`` does."""

    def table(self) -> pa.Table:
        """Return one copy."""
        table = self.load()
        return table if self.n_events is None else table.slice(0, self.n_events)


def crimes_source(
    times: int = 1, n_events: int | None = None, *, composites: bool = False
) -> Source:
    """Return the bundled crimes, one copy after the other; ``composites`` adds such indexes."""
    return Source(
        CRIMES,
        lambda: crimes.to_usable(crimes.load()),
        (*CRIME_INDEXES, *COMPOSITE_INDEXES) if composites else CRIME_INDEXES,
        times=times,
        period=CRIME_PERIOD,
        n_events=n_events,
        kept_as=CRIMES_COMPOSITE if composites else "",
        merged=True,
    )


def flights_source(data: Path, n_events: int | None = None) -> Source:
    """Return all aircraft; ``data`` is the folder that holds the file."""
    return Source(
        FLIGHTS,
        lambda: pq.read_table(data / FLIGHTS_FILE),
        FLIGHT_INDEXES,
        key="icao24",
        n_events=n_events,
    )


def aircraft_source(data: Path, times: int = 1, n_events: int | None = None) -> Source:
    """Return the one aircraft that is told of every second for weeks."""

    def load() -> pa.Table:
        table = pq.read_table(data / FLIGHTS_FILE)
        return table.filter(pc.equal(table["sample"].cast(pa.string()), AIRCRAFT_SAMPLE))

    return Source(
        AIRCRAFT, load, FLIGHT_INDEXES, times=times, period=AIRCRAFT_PERIOD, n_events=n_events
    )


def ticks_source(data: Path, n_events: int | None = None) -> Source:
    """Return the trades and quotes of a week."""
    return Source(TICKS, lambda: pq.read_table(data / TICKS_FILE), TICK_INDEXES, n_events=n_events)


def keyed_ticks_source(data: Path) -> Source:
    """Return the same with summaries of the price for each symbol."""
    return Source(
        TICKS_BY_SYMBOL,
        lambda: pq.read_table(data / TICKS_FILE),
        (),
        key="symbol",
        derived=("by(price)",),
    )


def real_store(folder: Path, source: Source) -> Store:
    """Return a store that holds the source's events in a stream of its name.

    In ``folder`` each source has a store of its own, by name and size, written on first use.
    """
    size = "" if source.n_events is None else f"-{source.n_events}"
    path = folder / f"store-{source.kept_as or source.stream}-x{source.times}{size}"
    table = source.table()

    def merge(stream: Stream) -> None:
        if source.merged:
            compact_index(stream, full=True)

    store = kept_store(
        path,
        source.stream,
        table.schema,
        StreamSettings(time=crimes.TIME, key=source.key, derived=source.derived),
        repeated(table, source.times, source.period),
        index=source.index,
        then=merge,
    )
    check_size(store, source.stream, table.num_rows * source.times)
    return store


def repeated(table: pa.Table, times: int, period: dt.timedelta) -> Iterator[pa.RecordBatch]:
    """Yield a table's events several times, each copy a period after the one before.

    Raises
    ------
    ValueError
        If a copy would begin before the one before it has ended.
    """
    time = table.schema.get_field_index(crimes.TIME)
    clock = table.column(time)
    if times > 1 and pc.min_max(clock)["max"].as_py() - clock[0].as_py() > period:
        raise ValueError(f"copies of the events would overlap: they last longer than {period}")
    name = table.schema.field(time)
    for copy in range(times):
        later = pc.add(clock, pa.scalar(copy * period, pa.duration(clock.type.unit)))
        yield from table.set_column(time, name, later).to_batches(BATCH_EVENTS)
