"""The sets of questions the planner is measured by: their stores, and what is asked of each."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks import query_sets, real_stores
from benchmarks.harness import RESULTS
from benchmarks.planned import Question
from benchmarks.stores import SYNTHETIC, synthetic_store
from chronicle import Store
from datasets.synthetic import SIGMAS
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
    of_crimes = (real_stores.CRIMES, [query_sets.crimes_by_area(), query_sets.crimes_by_box()])
    stream, thought_up = {
        **dict.fromkeys(CRIME_SETS, of_crimes),
        **dict.fromkeys(AIRCRAFT_SETS, (real_stores.AIRCRAFT, [query_sets.landing_of_one()])),
        "flights": (real_stores.FLIGHTS, [query_sets.landing_of_all()]),
        "ticks": (real_stores.TICKS, [query_sets.LARGE_TRADES]),
    }[name]
    for k, sql in enumerate(thought_up):
        yield f"{name}, Q{k + 1}", Question(store, sql, f"{name} Q{k + 1}")
    source = query_sets.DRAWN_FROM[stream]
    for m in n_symbols:
        for k, sql in enumerate(query_sets.drawn(store, source, n_queries, m)):
            yield f"{name}, drawn", Question(store, sql, f"{name} m={m} #{k}")
