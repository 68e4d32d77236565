"""The sets of questions the planner is measured by: their stores, and what is asked of each.

Over the real streams some are thought up, some drawn from the streams' own values.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from benchmarks import real_stores
from benchmarks.harness import RESULTS
from benchmarks.planned import Question
from benchmarks.real_stores import AIRCRAFT, CRIMES, FLIGHTS, TICKS
from benchmarks.stores import SYNTHETIC, synthetic_store
from chronicle import Store
from datasets.crimes import TIME
from datasets.synthetic import SEED, SIGMAS
from datasets.thesis_queries import PAST_LAST_ROW, draw_queries

CRIME_SETS = ("crimes", "crimes20", "crimes_composite", "crimes20_composite")
"""One copy and many of the crimes, with and without indexes over several columns."""

AIRCRAFT_SETS = ("aircraft", "aircraft_long")
"""One copy and many of the one aircraft that the thesis' landings are of."""

SETS = ("synthetic", *CRIME_SETS, *AIRCRAFT_SETS, "flights", "ticks")

ASKED = tuple(name for name in SETS if name != "aircraft_long")
"""Asked by default: all but the one that takes a gigabyte."""


AIRCRAFT_TIMES = 258
"""Copies that are as many events as the thesis' stream has, 50 million."""

NEIGHBOURHOOD = 35
"""Downtown, where most is reported; stands for the thesis' beat."""

BOX = (38.6, 38.65, -90.23, -90.17)
"""Least and greatest latitude, least and greatest longitude of downtown and what is around it."""

SAMPLE_BLOCKS = 64
"""Blocks that values of drawn conditions are taken from."""

RANGE_SHARE_MAX = 0.1
"""A drawn condition holds for at most about a tenth of the events, as in the thesis."""

ROBBERY_ASSAULT_THEFT = """
SELECT * FROM crimes MATCH_RECOGNIZE (
  ORDER BY ts
  MEASURES A.ts AS robbery, B.ts AS assault, C.ts AS theft
  ONE ROW PER MATCH
  AFTER MATCH SKIP TO NEXT ROW
  PATTERN ( A T* B T* C ) WITHIN INTERVAL '30' MINUTE
  DEFINE
    A AS A.primary_type = 'ROBBERY' AND {place_a},
    B AS B.primary_type = 'AGGRAVATED ASSAULT' AND {place_b},
    C AS C.primary_type = 'MOTOR VEHICLE THEFT' AND {place_c}
)"""


def crimes_by_area() -> str:
    """Return the thesis' Listing 3.1, variant 1: one area, three kinds of crime."""
    return ROBBERY_ASSAULT_THEFT.format(
        place_a=f"A.neighborhood = {NEIGHBOURHOOD}",
        place_b="B.neighborhood = A.neighborhood",
        place_c="C.neighborhood = A.neighborhood",
    )


def crimes_by_box() -> str:
    """Return the thesis' Listing 3.1, variant 2: one box of coordinates."""
    south, north, west, east = BOX
    places = {
        f"place_{symbol.lower()}": f"{symbol}.lat BETWEEN {south} AND {north}"
        f" AND {symbol}.lon BETWEEN {west} AND {east}"
        for symbol in "ABC"
    }
    return ROBBERY_ASSAULT_THEFT.format(**places)


LANDING = """
SELECT * FROM {stream} MATCH_RECOGNIZE (
  {partition}ORDER BY ts
  MEASURES A.ts AS cruising, B.ts AS descending, C.ts AS landing, C.altitude_ft AS altitude
  ONE ROW PER MATCH
  AFTER MATCH SKIP PAST LAST ROW
  PATTERN ( A Z* B Z* C ) WITHIN INTERVAL '15' MINUTE
  DEFINE
    A AS A.altitude_ft >= 10000 AND A.groundspeed_kt >= 190,
    B AS B.altitude_ft <= 8000 AND B.vertical_rate_fpm <= -500,
    C AS C.altitude_ft <= 3000 AND C.groundspeed_kt <= 160
)"""


def landing_of_one() -> str:
    """Return the thesis' landing: one aircraft, six thresholds that step down."""
    return LANDING.format(stream=AIRCRAFT, partition="")


def landing_of_all() -> str:
    """Return the same for each of many aircraft."""
    return LANDING.format(stream=FLIGHTS, partition="PARTITION BY icao24 ")


LARGE_TRADES = """
SELECT * FROM ticks MATCH_RECOGNIZE (
  ORDER BY ts
  MEASURES A.ts AS first_trade, B.ts AS second_trade, C.ts AS third_trade
  ONE ROW PER MATCH
  AFTER MATCH SKIP PAST LAST ROW
  PATTERN ( A Z* B Z* C ) WITHIN INTERVAL '10' SECOND
  DEFINE
    A AS A.symbol = 'IBM' AND A.event_type = 'trade' AND A.size >= 5000,
    B AS B.symbol = 'AIG' AND B.event_type = 'trade' AND B.size >= 10000,
    C AS C.symbol = 'BAC' AND C.event_type = 'trade' AND C.size >= 20000
)"""


@dataclass(frozen=True, slots=True)
class DrawnFrom:
    """What questions are drawn from."""

    stream: str
    attributes: tuple[str, ...]
    windows: tuple[str, ...]
    """WITHIN, of which one is drawn."""


DRAWN_FROM = {
    CRIMES: DrawnFrom(
        CRIMES,
        ("primary_type", "neighborhood", "lat", "lon"),
        ("INTERVAL '10' MINUTE", "INTERVAL '1' HOUR", "INTERVAL '6' HOUR"),
    ),
    FLIGHTS: DrawnFrom(
        FLIGHTS,
        ("altitude_ft", "groundspeed_kt", "vertical_rate_fpm"),
        ("INTERVAL '1' SECOND", "INTERVAL '5' SECOND", "INTERVAL '1' MINUTE"),
    ),
    AIRCRAFT: DrawnFrom(
        AIRCRAFT,
        ("altitude_ft", "groundspeed_kt", "vertical_rate_fpm"),
        ("INTERVAL '10' SECOND", "INTERVAL '1' MINUTE", "INTERVAL '15' MINUTE"),
    ),
    TICKS: DrawnFrom(
        TICKS,
        ("symbol", "price", "size"),
        ("INTERVAL '0.1' SECOND", "INTERVAL '1' SECOND", "INTERVAL '10' SECOND"),
    ),
}


def drawn(
    store: Store, source: DrawnFrom, n_queries: int, n_symbols: int, *, seed: int = SEED
) -> list[str]:
    """Draw questions of ``n_symbols`` gapped symbols, each with one range of one attribute.

    A range lies between two quantiles of the attribute's values; of strings it is one value, drawn
    as often as it occurs. Equal arguments give equal questions.
    """
    random = np.random.default_rng([seed, n_symbols, len(source.attributes)])
    values = _values(store, source, random)
    return [_draw(source, values, n_symbols, random) for _ in range(n_queries)]


def _values(
    store: Store, source: DrawnFrom, random: np.random.Generator
) -> dict[str, pa.ChunkedArray]:
    """Return values of each attribute from some blocks."""
    snapshot = store.stream(source.stream).snapshot()
    n = min(SAMPLE_BLOCKS, snapshot.n_blocks)
    blocks = np.sort(random.choice(snapshot.n_blocks, n, replace=False))
    table = snapshot.read_blocks(blocks, list(source.attributes))
    return {name: table[name].drop_null() for name in source.attributes}


def _draw(
    source: DrawnFrom,
    values: dict[str, pa.ChunkedArray],
    n_symbols: int,
    random: np.random.Generator,
) -> str:
    symbols = [f"S{x}" for x in range(1, n_symbols + 1)]
    defines = ",\n    ".join(
        f"{symbol} AS {_condition(symbol, source.attributes, values, random)}" for symbol in symbols
    )
    gaps = [" Z* " if random.random() < 0.5 else " " for _ in symbols[1:]]
    pattern = symbols[0] + "".join(
        gap + symbol for gap, symbol in zip(gaps, symbols[1:], strict=True)
    )
    window = source.windows[int(random.integers(len(source.windows)))]
    return (
        f"SELECT * FROM {source.stream} MATCH_RECOGNIZE (\n"
        f"  ORDER BY {TIME}\n"
        f"  MEASURES S1.{TIME} AS first_t, S{n_symbols}.{TIME} AS last_t\n"
        f"  ONE ROW PER MATCH\n"
        f"  AFTER MATCH SKIP PAST LAST ROW\n"
        f"  PATTERN ( {pattern} ) WITHIN {window}\n"
        f"  DEFINE\n    {defines}\n)"
    )


def _condition(
    symbol: str,
    attributes: Sequence[str],
    values: dict[str, pa.ChunkedArray],
    random: np.random.Generator,
) -> str:
    attribute = attributes[int(random.integers(len(attributes)))]
    column = values[attribute]
    name = f"{symbol}.{attribute}"
    kind = column.type.value_type if pat.is_dictionary(column.type) else column.type
    if pat.is_string(kind) or pat.is_large_string(kind):
        return f"{name} = '{column[int(random.integers(len(column)))].as_py()}'"
    width = float(random.uniform(0.0, RANGE_SHARE_MAX))
    low = float(random.uniform(0.0, 1.0 - width))
    least, most = np.quantile(column.to_numpy().astype(np.float64), [low, low + width])
    return f"{name} BETWEEN {_number(least)} AND {_number(most)}"


def _number(value: float) -> str:
    """Return a number as a query takes it, without an exponent."""
    return f"{value:.6f}".rstrip("0").rstrip(".")


def add_set_options(parser: argparse.ArgumentParser, *, sets: Sequence[str] = ASKED) -> None:
    """Add which sets are asked, some of them by default, and where their stores and data lie."""
    parser.add_argument(
        "--sets", type=_some_of_them, default=list(sets), help=f"some of {','.join(SETS)}"
    )
    parser.add_argument("--events", type=int, default=1_000_000, help="of the synthetic stream")
    parser.add_argument("--real-events", type=int, help="take only so many events of real data")
    parser.add_argument("--times", type=int, default=20, help="copies of the crimes in crimes20")
    parser.add_argument(
        "--aircraft-times",
        type=int,
        default=AIRCRAFT_TIMES,
        help="copies of the aircraft in aircraft_long",
    )
    parser.add_argument("--data", type=Path, help="folder with the files of flights and ticks")
    parser.add_argument("--stores", type=Path, default=RESULTS, help="where stores are kept")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where results are written")


def _some_of_them(words: str) -> list[str]:
    names = [word for word in words.split(",") if word]
    unknown = sorted(set(names) - set(SETS))
    if unknown:
        raise argparse.ArgumentTypeError(f"not known: {', '.join(unknown)}")
    return names


def open_set(name: str, options: argparse.Namespace) -> Store | None:
    """Return the store of a set, made if need be; None if its data is not there.

    ``options`` are those of `add_set_options`.
    """
    stores: Path = options.stores
    if name == "synthetic":
        return synthetic_store(stores / f"store-synthetic-{options.events}", options.events)
    if name in CRIME_SETS:
        source = real_stores.crimes_source(
            options.times if name.startswith("crimes20") else 1,
            options.real_events,
            composites=name.endswith("composite"),
        )
        return real_stores.real_store(stores, source)
    if options.data is None:
        print(f"{name}: left out, as no --data tells where its file is")
        return None
    if name in AIRCRAFT_SETS:
        times = options.aircraft_times if name == "aircraft_long" else 1
        source = real_stores.aircraft_source(options.data, times, options.real_events)
        return real_stores.real_store(stores, source)
    make = {"flights": real_stores.flights_source, "ticks": real_stores.ticks_source}[name]
    return real_stores.real_store(stores, make(options.data, options.real_events))


def synthetic_questions(
    store: Store, n_queries: int, n_symbols: Sequence[int]
) -> Iterator[tuple[str, Question]]:
    """Yield the thesis' queries: even data for each m, then one attribute of five for m = 8."""
    cases: list[tuple[str, int, tuple[str, ...]]] = [(f"A5, m={m}", m, ("A5",)) for m in n_symbols]
    cases.append(("A1 to A5, m=8", 8, tuple(SIGMAS)))
    for name, m, attributes in cases:
        for k, query in enumerate(draw_queries(n_queries, m, attributes=attributes)):
            sql = query.to_sql(SYNTHETIC, skip=PAST_LAST_ROW)
            yield f"synthetic {name}", Question(store, sql, f"{name} #{k}")


def real_questions(
    name: str, store: Store, n_queries: int, n_symbols: Sequence[int]
) -> Iterator[tuple[str, Question]]:
    """Yield the questions thought up for a stream, then drawn ones."""
    of_crimes = (CRIMES, [crimes_by_area(), crimes_by_box()])
    stream, thought_up = {
        **dict.fromkeys(CRIME_SETS, of_crimes),
        **dict.fromkeys(AIRCRAFT_SETS, (AIRCRAFT, [landing_of_one()])),
        "flights": (FLIGHTS, [landing_of_all()]),
        "ticks": (TICKS, [LARGE_TRADES]),
    }[name]
    for k, sql in enumerate(thought_up):
        yield f"{name}, Q{k + 1}", Question(store, sql, f"{name} Q{k + 1}")
    source = DRAWN_FROM[stream]
    for m in n_symbols:
        for k, sql in enumerate(drawn(store, source, n_queries, m)):
            yield f"{name}, drawn", Question(store, sql, f"{name} m={m} #{k}")
