"""Windowed aggregation: replay, both ways of the tree, and DuckDB over the same Parquet files."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

import replay
from benchmarks.harness import (
    RESULTS,
    Side,
    fail,
    forget,
    interleave,
    new_parser,
    print_comparison,
    speedup,
    write_results,
)
from benchmarks.real_stores import TICKS_BY_SYMBOL, keyed_ticks_source, real_store
from benchmarks.stores import duckdb_files, kept_store, moments
from benchmarks.thesis.figures import new_figure, save
from chronicle import Store, StreamSettings
from costmodel.thesis.formulas import printed_break_even

WEEK_EVENTS = 60_480_000
"""One week at 100 events a second: thesis 3.5.2."""

STEP_US = 10_000
WEEK = "week"
TIME = "ts"
FIRST_US = 1_704_067_200_000_000
SEED = 1

SLIDES_S = (0.01, 0.1, 1, 5, 10, 20, 30, 60, 120, 300, 900, 3600, 6 * 3600, 86400)
"""Slides of thesis Fig. 3.8, from one event to the whole window; all divide the day."""

NAIVE_WINDOWS_MAX = 2_000
"""More windows than that are not asked one by one: each takes a millisecond."""

DUCKDB_WINDOWS_MAX = 1_000_000
"""More windows than that are not asked of DuckDB: its frames of millions of slices take hours."""

SIZE_S = 86_400

GOALS = {3600: 20.0, 86400: 100.0}
"""Times that the tree is to be faster than replay at these slides (seconds)."""

TOLERANCE = 1e-9
"""Relative difference allowed between sums of DuckDB, which are not compensated, and ours."""


def week_schema(n_doubles: int) -> pa.Schema:
    """Return a time and so many doubles."""
    doubles = [(f"x{i}", pa.float64()) for i in range(1, n_doubles + 1)]
    return pa.schema([(TIME, pa.timestamp("us", "UTC")), *doubles])


def week_events(n_events: int, n_doubles: int) -> Iterator[pa.RecordBatch]:
    """Generate random doubles in [0, 100), every ten milliseconds."""
    random = np.random.default_rng(SEED)
    schema = week_schema(n_doubles)
    for places in moments(n_events):
        columns = [pa.array(random.random(len(places)) * 100.0) for _ in range(n_doubles)]
        clock = pa.array(FIRST_US + places * STEP_US).cast(schema.field(TIME).type)
        yield pa.record_batch([clock, *columns], schema=schema)


def week_store(folder: Path, n_events: int, n_doubles: int) -> Store:
    """Return a store of the week, written on first use."""
    path = folder / f"store-week-{n_events}-{n_doubles}"
    events = week_events(n_events, n_doubles)
    return kept_store(path, WEEK, week_schema(n_doubles), StreamSettings(TIME), events, index=())


def hop_sql(slide_s: float) -> str:
    """Return the query of thesis 3.5.2: sum, average and count of one attribute."""
    slide = f"INTERVAL '{slide_s:g}' SECOND"
    return (
        "SELECT window_start, COUNT(*) AS n, SUM(x1) AS total, AVG(x1) AS mean FROM TABLE("
        f"HOP(TABLE {WEEK}, DESCRIPTOR({TIME}), {slide}, INTERVAL '{SIZE_S}' SECOND, "
        "ORIGIN FIRST EVENT)) GROUP BY window_start, window_end"
    )


def duckdb_sql(files: str, slide_s: float, last_us: int) -> str:
    """Return the same for DuckDB: aggregates of slices, summed by a sliding frame."""
    slide = round(slide_s * 1e6)
    per_window = SIZE_S * 1_000_000 // slide
    n_starts = (last_us - FIRST_US) // slide + 1
    return (
        f"WITH slices AS (SELECT (epoch_us({TIME}) - {FIRST_US}) // {slide} AS k, COUNT(*) AS m, "
        f"SUM(x1) AS x FROM {files} GROUP BY k), "
        f"grid AS (SELECT range AS k FROM range(0, {n_starts + per_window - 1})) "
        "SELECT grid.k AS k, CAST(SUM(COALESCE(m, 0)) OVER w AS BIGINT) AS n, "
        "SUM(x) OVER w AS total, SUM(x) OVER w / SUM(m) OVER w AS mean "
        "FROM grid LEFT JOIN slices ON grid.k = slices.k "
        f"WINDOW w AS (ORDER BY grid.k ROWS BETWEEN {per_window - 1} PRECEDING AND CURRENT ROW) "
        "ORDER BY k"
    )


class Digest(NamedTuple):
    """An answer in a few numbers; rows that change places or values change them."""

    n_rows: int
    counts: int
    """The windows' counts of events, each times a number of its place."""
    totals: float
    """Their sums, likewise."""
    means: float


def digest(batches: Iterator[pa.RecordBatch]) -> Digest:
    """Return what tells answers apart, in bounded memory."""
    n_rows = counts = 0
    totals: list[float] = []
    means: list[float] = []
    for batch in batches:
        place = np.arange(n_rows, n_rows + batch.num_rows) % 97 + 1
        counts += int((batch.column("n").to_numpy() * place).sum())
        for name, sums in (("total", totals), ("mean", means)):
            values = batch.column(name).fill_null(0.0).to_numpy(zero_copy_only=False)
            sums.append(float((values.astype(np.float64) * place).sum()))
        n_rows += batch.num_rows
    return Digest(n_rows, counts, math.fsum(totals), math.fsum(means))


def alike(one: Digest, other: Digest) -> bool:
    """Return whether two digests are of one answer."""
    return one[:2] == other[:2] and all(
        math.isclose(mine, theirs, rel_tol=TOLERANCE)
        for mine, theirs in zip(one[2:], other[2:], strict=True)
    )


def sides_of(store: Store, slide_s: float, *, duckdb: bool) -> dict[str, Side]:
    """Return what is compared at one slide."""
    sql = hop_sql(slide_s)
    stream = store.stream(WEEK)
    snapshot = stream.snapshot()
    assert snapshot.t_max is not None
    files = duckdb_files(stream)
    last_us = snapshot.t_max

    def ours(plan: str) -> Callable[[], Digest]:
        return lambda: digest(iter(replay.batches(store, sql, plan=plan)))

    def theirs() -> Digest:
        import duckdb as library

        answer = library.connect().sql(duckdb_sql(files, slide_s, last_us))
        return digest(iter(answer.to_arrow_reader(1 << 16)))

    sides = {name: Side(name, ours(name)) for name in ("replay", "tree", "auto")}
    n_windows = (snapshot.n_events * STEP_US / 1e6 + SIZE_S) / slide_s
    if n_windows <= NAIVE_WINDOWS_MAX:
        sides["tree-naive"] = Side("tree-naive", ours("tree-naive"))
    if duckdb and n_windows <= DUCKDB_WINDOWS_MAX:
        sides["duckdb"] = Side("duckdb", theirs, "all cores, footers anew")
    return sides


def compare(store: Store, slide_s: float, *, rounds: int, duckdb: bool) -> dict[str, Any]:
    """Measure one slide; ends the benchmark where answers differ."""
    sides = sides_of(store, slide_s, duckdb=duckdb)
    answers = {name: side.run() for name, side in sides.items()}
    for name, answer in answers.items():
        if not alike(answer, answers["replay"]):
            fail(f"slide {slide_s:g} s: {name} gives {answer}, replay {answers['replay']}")
    timings = interleave(list(sides.values()), rounds=rounds, before=forget, warm_up=False)
    by_name = {timing.name: timing for timing in timings}
    print_comparison(
        f"slide {slide_s:g} s, {answers['replay'][0]:,} windows", timings, baseline="replay"
    )
    explained = replay.explain(store, hop_sql(slide_s)).to_dict()
    best = min(by_name["replay"].median_s, by_name["tree"].median_s)
    return {
        "slide_s": slide_s,
        "n_windows": answers["replay"][0],
        "timings": timings,
        "tree_over_replay": speedup(by_name["tree"], by_name["replay"]),
        "auto_over_best": by_name["auto"].median_s / best,
        "chosen": explained["plan"],
        "break_even_s": explained["windows"]["break_even_slide"] / 1e6
        if explained["windows"]["break_even_slide"]
        else None,
    }


def break_even(rows: Sequence[dict[str, Any]]) -> float | None:
    """Return the slide from which on the tree is measured to win, between two that were run."""
    ratios = [row["tree_over_replay"] for row in rows]
    losing = [i for i, ratio in enumerate(ratios) if ratio <= 1.0]
    if not losing:
        return float(rows[0]["slide_s"])
    at = losing[-1]
    if at + 1 == len(rows):
        return None
    low, high = math.log(ratios[at]), math.log(ratios[at + 1])
    share = -low / (high - low) if high > low else 1.0
    first, second = math.log(rows[at]["slide_s"]), math.log(rows[at + 1]["slide_s"])
    return math.exp(first + share * (second - first))


def printed_slide(store: Store) -> float:
    """Return the slide in seconds at which thesis 3.3.2, as printed, has the tree win."""
    snapshot = store.stream(WEEK).snapshot()
    return printed_break_even(
        1e6 / STEP_US,
        per_leaf=round(snapshot.n_events / snapshot.n_blocks),
        fan_out=snapshot.settings.fan_out,
        height=snapshot.tree.n_levels,
    )


def run_week(options: argparse.Namespace, n_doubles: int) -> dict[str, Any]:
    """Run all slides over one of the streams."""
    store = week_store(options.stores, options.events, n_doubles)
    print(f"\n{options.events:,} events of {n_doubles} doubles, windows of a day")
    rows = [
        compare(store, slide, rounds=options.rounds, duckdb=options.duckdb)
        for slide in options.slides
    ]
    measured = break_even(rows)
    predicted = rows[-1]["break_even_s"]
    printed = printed_slide(store)
    print(
        f"\nbreak-even slide: predicted {predicted} s, by the thesis' formula {printed:.3g} s, "
        f"measured {measured} s"
    )
    for row in rows:
        if row["slide_s"] in GOALS:
            goal = GOALS[row["slide_s"]]
            print(f"slide {row['slide_s']:g} s: {row['tree_over_replay']:.1f}x (goal {goal:g}x)")
    return {
        "n_events": options.events,
        "n_doubles": n_doubles,
        "slides": rows,
        "break_even": {
            "predicted_s": predicted,
            "printed_s": printed,
            "measured_s": measured,
        },
    }


def hourly_sql(where: str = "", *, by_symbol: bool = True) -> str:
    """Return least, greatest and mean price of every hour."""
    key = ", symbol" if by_symbol else ""
    return (
        f"SELECT window_start{key}, MIN(price) AS low, MAX(price) AS high, AVG(price) AS mean FROM "
        f"TABLE(TUMBLE(TABLE {TICKS_BY_SYMBOL}, DESCRIPTOR(ts), INTERVAL '1' HOUR)) {where} "
        f"GROUP BY window_start, window_end{key}"
    )


TICK_QUERIES = {
    "hourly by symbol": hourly_sql(),
    "hourly, price above 0": hourly_sql("WHERE price > 0", by_symbol=False),
    "hourly by symbol, price above 0": hourly_sql("WHERE price > 0"),
    # Of two symbols every price passes or none does, of the two others those of some days.
    "hourly by symbol, price from 48 to 182": hourly_sql("WHERE price BETWEEN 48 AND 182"),
    # Every block has prices on both sides; of each symbol all lie on one.
    "hourly by symbol, price above 100": hourly_sql("WHERE price > 100"),
}


def run_ticks(options: argparse.Namespace) -> dict[str, Any]:
    """Run the queries over equity ticks with summaries by symbol."""
    store = real_store(options.stores, keyed_ticks_source(options.data))
    results = {}
    for name, sql in TICK_QUERIES.items():

        def ask(plan: str, sql: str = sql) -> pa.Table:
            return replay.query(store, sql, plan=plan).table

        replayed, by_tree = ask("replay"), ask("tree")
        if not tables_alike(replayed, by_tree):
            fail(f"ticks, {name}: tree and replay differ")
        sides = [Side(plan, lambda plan=plan: ask(plan)) for plan in ("replay", "tree", "auto")]
        timings = interleave(sides, rounds=options.rounds, before=forget, warm_up=False)
        print_comparison(f"ticks, {name}: {len(replayed):,} rows", timings, baseline="replay")
        blocks = replay.query(store, sql, plan="tree").actual.blocks_read
        n_blocks = store.stream(TICKS_BY_SYMBOL).snapshot().n_blocks
        print(f"  the tree reads {blocks:,} of {n_blocks:,} blocks")
        results[name] = {
            "timings": timings,
            "tree_over_replay": speedup(timings[1], timings[0]),
            "blocks_read": blocks,
        }
    return results


def tables_alike(one: pa.Table, other: pa.Table) -> bool:
    """Return whether two answers are equal but for the last digits of doubles."""
    if one.schema != other.schema or len(one) != len(other):
        return False
    for mine, theirs in zip(one.columns, other.columns, strict=True):
        if not pa.types.is_floating(mine.type):
            if mine.to_pylist() != theirs.to_pylist():
                return False
            continue
        left, right = (c.fill_null(math.inf).to_numpy() for c in (mine, theirs))
        if not np.allclose(left, right, rtol=TOLERANCE, atol=0.0, equal_nan=True):
            return False
    return True


def draw(results: Sequence[dict[str, Any]], folder: Path) -> None:
    """Draw time over slide, one panel for each stream, and where the plans break even."""
    figure, panels = new_figure(len(results))
    for panel, result in zip(panels, results, strict=True):
        names = dict.fromkeys(t["name"] for row in result["slides"] for t in row["timings"])
        for name in names:
            points = [
                (row["slide_s"], timing["median_s"])
                for row in result["slides"]
                for timing in row["timings"]
                if timing["name"] == name
            ]
            panel.plot(*zip(*points, strict=True), marker="o", markersize=3, label=name)
        for kind, style in (("predicted_s", "--"), ("measured_s", ":")):
            if result["break_even"][kind] is not None:
                panel.axvline(result["break_even"][kind], color="grey", linestyle=style)
        panel.set_xscale("log")
        panel.set_yscale("log")
        panel.set_title(f"{result['n_doubles']} doubles", fontsize=9)
        panel.set_xlabel("slide (s); break-even predicted -- measured ···", fontsize=8)
        panel.set_ylabel("seconds", fontsize=8)
        panel.legend(fontsize=7)
    save(figure, "windows", folder)


def main(arguments: list[str] | None = None) -> None:
    parser = new_parser("windows", __doc__, rounds=3)
    parser.add_argument("--events", type=int, default=WEEK_EVENTS)
    parser.add_argument("--doubles", type=int, nargs="*", default=[1, 9])
    parser.add_argument("--slides", type=float, nargs="+", default=list(SLIDES_S))
    parser.add_argument("--stores", type=Path, default=RESULTS, help="folder of the stores")
    parser.add_argument("--data", type=Path, help="folder of the equity ticks; left out without")
    parser.add_argument("--no-duckdb", dest="duckdb", action="store_false")
    parser.add_argument("--no-figures", dest="figures", action="store_false")
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args(arguments)
    weeks = [run_week(options, n_doubles) for n_doubles in options.doubles]
    results: dict[str, Any] = {"weeks": weeks}
    if options.data is not None:
        results["ticks"] = run_ticks(options)
    if options.figures and weeks:
        draw(weeks, options.results)
    write_results("windows", results, folder=options.results)


if __name__ == "__main__":
    main()
