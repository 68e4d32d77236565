"""Aggregates over every match, without making one: against scans, DuckDB and our own enumeration.

Goals T1 to T9 and T11 of aggregates over matches. Trades, quotes and landings are real ones with
``--data``, else generated. T7 runs Varpulis where ``--varpulis`` says that its program is, built by
``cargo build --release`` in ``benchmarks/varpulis``. Times are those of all the process' threads.
"""

from __future__ import annotations

import json
import subprocess
from bisect import bisect_right
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

import replay
from benchmarks.harness import (
    RESULTS,
    Measured,
    Side,
    fail,
    forget,
    interleave,
    measure_goals,
    new_parser,
    ratio,
)
from benchmarks.real_stores import FLIGHTS_FILE, TICKS_FILE
from benchmarks.stores import kept_store
from chronicle import Store, StreamSettings
from datasets.synthetic import SEED
from replay.patterns.summing import event_grain

ANY = "SEMANTICS SKIP TILL ANY"
ORDER_FLOW = "A AS size >= 5000, B AS size = 300, C AS size = 500"
"""Of the order flow that T1 and T6 count: large, then two usual sizes."""
EIGHT = ORDER_FLOW + (
    ", D AS size = 100, E AS size = 200, F AS size >= 10000, G AS size = 400, H AS size = 1000"
)
ABC = "A AS k = 0, B AS k = 1, C AS k = 2"
DOWN = (
    "SELECT {} AS n FROM {} MATCH_RECOGNIZE ({} ORDER BY t PATTERN (S T*) SEMANTICS SKIP TILL ANY "
    "DEFINE T AS v < LAST(v, 1))"
)
LANDING = (
    "SELECT COUNT(*) AS n, MAX(k) AS longest, MAX(took) AS took FROM flights MATCH_RECOGNIZE ("
    "PARTITION BY icao24 ORDER BY ts MEASURES COUNT(*) AS k, LAST(ts) - FIRST(ts) AS took, "
    "FIRST(ts) AS began PATTERN (A D* L) SEMANTICS CONTIGUOUS DEFINE A AS altitude_ft >= 10000, "
    "D AS altitude_ft <= LAST(altitude_ft, 1), "
    "L AS altitude_ft <= LAST(altitude_ft, 1) AND altitude_ft < 2000)"
)
MADE_MAX = 10_000
"""Landings of an aircraft, at most, that are made one by one."""
LANDING_SAMPLE = "collections/quickstart"
MADE = " WHERE began IS NOT NULL"
"""Says nothing, but reads a measure of each match: they are made."""


def ticks_of(data: Path | None, n_events: int) -> pa.Table:
    """Return trades and quotes with their order; those of a folder, else generated ones."""
    if data is not None:
        rows = pq.read_table(data / TICKS_FILE, columns=["ts", "size"]).slice(0, n_events)
        ts, size = rows["ts"], rows["size"].cast(pa.int64())
    else:
        random = np.random.default_rng(SEED)
        ts = pa.array(np.cumsum(random.integers(0, 100_000, n_events)), pa.timestamp("us"))
        size = pa.array(100 * np.ceil(random.exponential(9.0, n_events)).astype(np.int64))
    return pa.table({"ts": ts, "size": size, "seq": np.arange(len(ts))})


def letters(n_events: int, n_types: int) -> pa.Table:
    """Return events a tick apart, each of one of some types, all as frequent."""
    random = np.random.default_rng(SEED)
    k, v = random.integers(0, n_types, n_events), random.random(n_events)
    return pa.table({"t": np.arange(n_events), "k": k, "v": v})


def falling(n_events: int) -> pa.Table:
    """Return values that rise in the long run and fall in the short, of a tenth as many kinds.

    Their down-trends are some hundred events long: their number needs 128 bits, not thousands.
    """
    random = np.random.default_rng(SEED)
    return pa.table(
        {
            "t": np.arange(n_events),
            "v": np.arange(n_events) // 10 + random.integers(0, 150, n_events),
        }
    )


def over(
    pattern: str,
    define: str,
    *,
    select: str = "COUNT(*) AS n",
    of: str = "s",
    within: str = "",
    time: str = "t",
) -> str:
    """Return an aggregate over every match of a pattern over a whole stream."""
    return (
        f"SELECT {select} FROM {of} MATCH_RECOGNIZE (ORDER BY {time} MEASURES FIRST({time}) AS "
        f"began PATTERN ({pattern}) {ANY} {within} DEFINE {define})"
    )  # fmt: skip


def in_windows(windows: str, pattern: str = "A B C", define: str = ABC, where: str = "") -> str:
    """Return the number of matches of each window."""
    return (
        f"SELECT window_start AS w, COUNT(*) AS n FROM TABLE({windows}) MATCH_RECOGNIZE ("
        "PARTITION BY window_start, window_end ORDER BY t MEASURES FIRST(t) AS began "
        f"PATTERN ({pattern}) {ANY} DEFINE {define}) {where} GROUP BY window_start, window_end"
    )


def sliding(size: int) -> str:
    return f"SLIDING(TABLE s, DESCRIPTOR(t), {size})"


def hop(slide: int, size: int) -> str:
    return f"HOP(TABLE s, DESCRIPTOR(t), {slide}, {size})"


def ask(table: pa.Table, sql: str) -> list[dict[str, Any]]:
    """Return the answer over a table in memory, as rows."""
    return replay.query({"s": table}, sql).table.to_pylist()


def side(name: str, table: pa.Table, sql: str) -> Side:
    return Side(name, partial(replay.query, {"s": table}, sql))


def same(what: str, *answers: object) -> None:
    """End the benchmark unless all answers are equal."""
    if any(answer != answers[0] for answer in answers[1:]):
        fail(f"{what}: answers differ")


def ticks_store(folder: Path, ticks: pa.Table, *, real: bool) -> Store:
    kind = "real" if real else "made"
    path = folder / f"store-trend-ticks-{kind}-{ticks.num_rows}"
    batches = ticks.to_batches(1 << 18)
    settings = StreamSettings(time="ts")
    return kept_store(path, "ticks", ticks.schema, settings, batches, index=())


def scan(store: Store, rounds: int) -> Measured:
    """T1: a full replay from Parquet against reading the same columns."""
    stream = store.stream("ticks")
    dataset = ds.dataset([stream.path / "events" / f.name for f in stream.snapshot().files])
    n_events = stream.snapshot().n_events
    three, eight = (
        over(pattern, define, select=f"{digits} AS n", of="ticks", time="ts")
        for pattern, define, digits in (
            ("A B C", ORDER_FLOW, "COUNT(*)"),
            ("A B C D E F G H", EIGHT, "CAST(COUNT(*) AS VARCHAR)"),
        )
    )
    rows = dataset.to_table(columns=["size"])["size"].to_numpy()
    count = replay.query(store, three, plan="full").table["n"][0].as_py()
    same("A B C", int(count), triples(rows))
    print(f"\n{count:,} matches of A B C in {n_events:,} ticks")
    sides = [
        Side("A B C", partial(replay.query, store, three, plan="full")),
        Side("A to H", partial(replay.query, store, eight, plan="full")),
        Side("scan of two columns", partial(dataset.to_table, columns=["ts", "size"])),
    ]
    timings = interleave(sides, rounds=rounds, before=forget)
    seen = {
        "A B C, of the scan's speed (0.5)": ratio(timings[0], timings[2]),
        "A to H, of the scan's speed (0.5)": ratio(timings[1], timings[2]),
    }
    return Measured("T1: type grain from Parquet against a bare scan", seen, timings)


def triples(sizes: np.ndarray) -> int:
    """Return the number of A, then B, then C of the order flow, in Python's whole numbers."""
    a = b = c = 0
    for size in sizes.tolist():
        if size >= 5000:
            a += 1
        elif size == 300:
            b += a
        elif size == 500:
            c += b
    return c


def windows(n_events: int, rounds: int) -> Measured:
    """T2: WITHIN and SLIDING cost the same for windows of any length."""
    table = letters(n_events, 3)
    head = table.slice(0, 200)
    counted = over("A B C", ABC, within="WITHIN {}")
    same("WITHIN", ask(head, counted.format(20)), ask(head, counted.format(20) + MADE))
    made = in_windows(sliding(20), where=MADE)
    same("SLIDING", ask(head, in_windows(sliding(20))), ask(head, made))
    sums = over("A B C", ABC, select="SUM(B.v) AS s", within="WITHIN {}")
    spans = [w for w in (10, 100, 1_000, 10_000, 100_000) if w < n_events]
    sides = [side(f"WITHIN {w:,}", table, counted.format(w)) for w in spans]
    sides += [side(f"SUM WITHIN {w:,}", table, sums.format(w)) for w in spans]
    sides += [side(f"SLIDING {w:,}", table, in_windows(sliding(w))) for w in spans]
    timings = interleave(sides, rounds=rounds)
    seen = {}
    for place, name in enumerate(("COUNT(*) WITHIN", "SUM WITHIN", "SLIDING")):
        of = [t.cpu_s for t in timings[place * len(spans) : (place + 1) * len(spans)]]
        seen[f"{name}, slowest over fastest (2)"] = max(of) / min(of)
        seen[f"{name}, M events/s (8)"] = n_events / max(of) / 1e6
    return Measured("T2: windows of any length", seen, timings)


def panes(n_events: int, rounds: int) -> Measured:
    """T3: 60 windows around each event against one pass without windows."""
    table = letters(n_events, 3)
    head = table.slice(0, 240)
    for made in (hop(2, 120), "CUMULATE(TABLE s, DESCRIPTOR(t), 20, 120)"):
        same(made, ask(head, in_windows(made)), ask(head, in_windows(made, where=MADE)))
    slides = [slide for slide in (1_000, 100, 10) if 60 * slide < n_events][:2]
    sides = [side("no window", table, over("A B C", ABC))]
    sides += [side(f"HOP of {s:,}", table, in_windows(hop(s, 60 * s))) for s in slides]
    cumulate = f"CUMULATE(TABLE s, DESCRIPTOR(t), {slides[-1]}, {60 * slides[-1]})"
    sides.append(side(f"CUMULATE of {slides[-1]:,}", table, in_windows(cumulate)))
    timings = interleave(sides, rounds=rounds)
    seen = {f"{t.name}, over no window (8)": t.cpu_s / timings[0].cpu_s for t in timings[1:]}
    return Measured("T3: windows of 60 panes", seen, timings)


def trees(n_events: int, rounds: int) -> Measured:
    """T4: down-trends by tree against a look at each row, and as the events grow."""
    table, tenth = falling(n_events), falling(n_events // 10)
    size = min(20_000, n_events // 2)
    whole = DOWN.format("CAST(COUNT(*) AS VARCHAR)", "s", "")
    tumble = f"TABLE(TUMBLE(TABLE s, DESCRIPTOR(t), {size}))"
    by_window = DOWN.format("CAST(COUNT(*) AS VARCHAR)", tumble, "PARTITION BY window_start")
    window = table.slice(0, size)
    count = int(ask(window, whole)[0]["n"])
    same("down-trends", count, down_trends(window["v"].to_numpy()))
    same("down-trends of one window", count, int(ask(window, by_window)[0]["n"]))
    print(f"\n{count.bit_length()} bits of down-trends in a window of {size:,} events")

    def one_by_one() -> None:
        with patch.object(event_grain, "ROWS_MIN", 1 << 62):
            replay.query({"s": window}, whole)

    sides = [
        side("a window", window, whole),
        Side("a window, row by row", one_by_one),
        side("windows", table, by_window),
        side("all", table, whole),
        side("a tenth", tenth, whole),
    ]
    timings = interleave(sides, rounds=rounds)
    of_window, scanned, all_windows, everything, part = timings
    seen = {
        "row by row over tree (20)": ratio(of_window, scanned),
        "ten times the events over a tenth (13)": ratio(part, everything),
        "M events/s in windows (4)": n_events / all_windows.cpu_s / 1e6,
    }
    return Measured("T4: down-trends", seen, timings)


def down_trends(values: np.ndarray) -> int:
    """Return the number of falling subsequences: a Fenwick tree of Python's whole numbers."""
    distinct = np.unique(values).tolist()
    tree, total = [0] * (len(distinct) + 1), 0
    for value in values.tolist():
        place = at = len(distinct) - bisect_right(distinct, value) + 1  # from the greatest on
        ended = 1
        at -= 1
        while at > 0:
            ended += tree[at]
            at -= at & -at
        total += ended
        while place < len(tree):
            tree[place] += ended
            place += place & -place
    return total


def flights_of(data: Path | None, n_events: int) -> tuple[pa.Table, pa.Table]:
    """Return all aircraft, and of those whose landings can all be made the one with the most."""
    if data is not None:
        columns = ["ts", "icao24", "altitude_ft", "sample"]
        rows = pq.read_table(data / FLIGHTS_FILE, columns=columns)
        rows = rows.filter(pc.equal(rows["sample"].cast(pa.string()), LANDING_SAMPLE))
        rows = rows.drop_columns("sample")
        rows = rows.set_column(1, "icao24", rows["icao24"].cast(pa.string()))
    else:
        n_craft = min(100, 1 + n_events // 1_000)
        second, craft = np.divmod(np.arange(n_events), n_craft)
        altitude = np.maximum(12_000 - 50 * ((second + 31 * craft) % 280), 1_000)
        names = np.array([f"{one:06x}" for one in range(n_craft)])[craft]
        ts = pa.array(second * 1_000_000, pa.timestamp("us"))
        rows = pa.table({"ts": ts, "icao24": names, "altitude_ft": altitude})
    grouped = LANDING.replace("COUNT(*)", "icao24, COUNT(*)", 1)
    order = f"GROUP BY icao24 HAVING COUNT(*) < {MADE_MAX} ORDER BY COUNT(*) DESC LIMIT 1"
    found = replay.query({"flights": rows}, f"{grouped} {order}").table
    return rows, rows.filter(pc.is_in(rows["icao24"], found["icao24"]))


def enumerated(data: Path | None, n_events: int, n_rows: int, rounds: int) -> Measured:
    """T5: against our own matching, where it makes every match."""
    flights, some = flights_of(data, n_events)
    everything = replay.query({"flights": flights}, LANDING).table.to_pylist()[0]
    print(f"\n{flights.num_rows:,} positions: {everything}")
    summed, made = (
        replay.query({"flights": some}, LANDING + where).table.to_pylist()[0]
        for where in ("", MADE)
    )
    same("landings", summed, made)
    rows = letters(n_rows, 1)
    subsets = over("A+", "A AS k = 0")
    same("A+", ask(rows, subsets), ask(rows, subsets + MADE), [{"n": 2**n_rows - 1}])
    sides = [
        Side("landings", partial(replay.query, {"flights": some}, LANDING)),
        Side("landings, made", partial(replay.query, {"flights": some}, LANDING + MADE)),
        side("A+", rows, subsets),
        side("A+, made", rows, subsets + MADE),
    ]
    timings = interleave(sides, rounds=rounds, warm_up=False)
    seen = {
        f"landings of one aircraft, {summed['n']:,} (3,000 of all)": ratio(*timings[:2]),
        f"A+ over {n_rows} rows (10,000 over 24)": ratio(*timings[2:]),
    }  # fmt: skip
    return Measured("T5: against making the matches", seen, timings)


DUCKDB_SQL = """
WITH first AS (SELECT seq, size, SUM((size >= 5000)::HUGEINT) OVER before AS a FROM ticks
    WINDOW before AS (ORDER BY seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)),
  second AS (SELECT seq, size, SUM(CASE WHEN size = 300 THEN a ELSE 0 END) OVER before AS b
    FROM first WINDOW before AS (ORDER BY seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING))
SELECT CAST(SUM(CASE WHEN size = 500 THEN b ELSE 0 END) AS HUGEINT) AS n FROM second
"""
"""A B C by sums over prefixes; further steps are further windows, Kleene's plus has none."""


def by_duckdb(ticks: pa.Table, rounds: int) -> Measured:
    """T6: against sums over prefixes in SQL."""
    connection = duckdb.connect(config={"threads": 1})
    connection.register("ticks", ticks)
    sql = over("A B C", ORDER_FLOW, of="ticks", time="ts")
    theirs = connection.sql(DUCKDB_SQL).fetchall()[0]
    ours = replay.query({"ticks": ticks}, sql).table["n"][0].as_py()
    same("DuckDB", int(ours), int(theirs[0]))
    sides = [
        Side("summed", partial(replay.query, {"ticks": ticks}, sql)),
        Side("DuckDB", lambda: connection.sql(DUCKDB_SQL).fetchall()),
    ]
    timings = interleave(sides, rounds=rounds)
    return Measured("T6: against DuckDB", {"DuckDB over ours (10)": ratio(*timings)}, timings)


def by_varpulis(program: Path | None, n_events: int, rounds: int) -> Measured:
    """T7: `Ai B+` in windows of an A of each query and 30 B, all flushed one after the other."""
    if program is None:
        return Measured("T7: no --varpulis tells where benchmarks/varpulis was built", {})
    burst, seen, timings = 30, {}, []
    for n_queries, goal in ((1, 8), (10, 20), (50, 20)):
        size = n_queries + burst
        n_windows = n_events // size
        k = np.concatenate([np.arange(n_queries), np.full(burst, -1)])
        table = pa.table({"t": np.arange(n_windows * size), "k": np.tile(k, n_windows)})
        tumble = f"TUMBLE(TABLE s, DESCRIPTOR(t), {size})"
        texts = [in_windows(tumble, "A B+", f"A AS k = {q}, B AS k = -1") for q in range(n_queries)]
        answers = replay.query_many({"s": table}, texts)
        ours = sum(sum(answer.table["n"].to_pylist()) for answer in answers)
        same("trends", ours, n_windows * n_queries * (2**burst - 1))
        given = [str(program), *map(str, (n_windows, n_queries, burst))]

        def run(given: list[str] = given) -> dict[str, Any]:
            found: dict[str, Any] = json.loads(subprocess.check_output(given, text=True))
            return found

        theirs = [run() for _ in range(rounds)]
        name = f"{n_queries} queries"
        right = "as many" if int(theirs[0]["trends"]) == ours else "other"
        ask_all = partial(replay.query_many, {"s": table}, texts)
        (timing,) = interleave([Side(name, ask_all)], rounds=rounds)
        timings.append(timing)
        their_s = sorted(one["seconds"] for one in theirs)[rounds // 2]
        seen[f"{name}: theirs over ours ({goal}), {right} trends"] = their_s / timing.cpu_s
        seen[f"{name}: theirs, M events/s"] = theirs[0]["events"] / their_s / 1e6
    return Measured("T7: against Varpulis' Hamlet", seen, timings)


def many(folder: Path, n_events: int, n_queries: int, rounds: int) -> Measured:
    """T8: queries that begin with the same three types, asked together against each alone."""
    table = letters(n_events, 20)
    store = kept_store(
        folder / f"store-trend-letters-{n_events}", "letters", table.schema,
        StreamSettings(time="t"), table.to_batches(1 << 18), index=(),
    )  # fmt: skip
    random = np.random.default_rng(SEED)
    texts = []
    for _ in range(n_queries):
        types = [0, 1, 2, *random.choice(np.arange(3, 20), random.integers(1, 4), replace=False)]
        names = [f"S{place}" for place in range(len(types))]
        define = ", ".join(f"{name} AS k = {k}" for name, k in zip(names, types, strict=True))
        texts.append(over(" ".join(names), define, of="letters"))

    def apart(texts: Iterable[str]) -> list[replay.Result]:
        return [replay.query(store, sql) for sql in texts]

    together = partial(replay.query_many, store)
    same("query_many", *([r.table for r in run(texts)] for run in (apart, together)))
    sides = [
        Side("together", partial(together, texts)),
        Side("apart", partial(apart, texts)),
    ]
    alone = [
        Side("one by query_many", partial(together, texts[:1])),
        Side("one", partial(apart, texts[:1])),
    ]
    timings = interleave(sides, rounds=rounds, before=forget)
    timings += interleave(alone, rounds=10 * rounds, before=forget)  # some milliseconds each
    seen = {
        f"{n_queries} apart over together (15)": ratio(*timings[:2]),
        "one apart over by query_many (0.95)": ratio(*timings[2:]),
    }
    return Measured("T8: several queries at once", seen, timings)


def kleene(n_events: int, rounds: int) -> Measured:
    """T9: one Kleene query over events in memory, of which 200 may be taken or left: 4 words."""
    random = np.random.default_rng(SEED)
    k = 2 * random.integers(0, 2, n_events)
    k[:: max(1, n_events // 200)] = 1
    table = pa.table({"t": np.arange(n_events), "k": k})
    sql = over("A B+ C", ABC, select="CAST(COUNT(*) AS VARCHAR) AS n")
    a = b = c = 0
    for value in k.tolist():
        if value == 0:
            a += 1
        elif value == 1:
            b += a + b
        else:
            c += b
    same("A B+ C", int(ask(table, sql)[0]["n"]), c)
    timings = interleave([side("A B+ C", table, sql)], rounds=rounds)
    (timing,) = timings
    seen = {
        f"M events/s, a number of {c.bit_length()} bits (20)": n_events / timing.cpu_s / 1e6,
        "M events/s of wall time": n_events / timing.median_s / 1e6,
    }
    return Measured("T9: one Kleene query", seen, timings)


def latency(n_events: int, rounds: int) -> Measured:
    """T11: what an event costs in a pattern of ten, whatever the window."""
    table = letters(n_events, 10)
    names = [f"S{k}" for k in range(10)]
    define = ", ".join(f"{name} AS k = {k}" for k, name in enumerate(names))
    sql = over(" ".join(names), define, within="WITHIN {}")
    head = table.slice(0, 150)
    same("ten", ask(head, sql.format(100)), ask(head, sql.format(100) + MADE))
    spans = [w for w in (10, 1_000, 100_000) if w < n_events]
    timings = interleave(
        [side(f"WITHIN {w:,}", table, sql.format(w)) for w in spans], rounds=rounds
    )
    seen = {f"{t.name}, µs an event (1)": 1e6 * t.cpu_s / n_events for t in timings}
    return Measured("T11: the cost of an event, ten types", seen, timings)


def main(arguments: list[str] | None = None) -> None:
    parser = new_parser("trends", __doc__, rounds=3)
    parser.add_argument("--events", type=int, default=300_000, help="default: %(default)s")
    parser.add_argument("--kleene-events", type=int, help="of T9; default: as many")
    parser.add_argument("--rows", type=int, default=16, help="of A+, whose subsets are made")
    parser.add_argument("--queries", type=int, default=50, help="asked at once")
    parser.add_argument("--data", type=Path, help="folder of ticks and flights; generated without")
    parser.add_argument("--varpulis", type=Path, help="program built of benchmarks/varpulis")
    parser.add_argument("--stores", type=Path, default=RESULTS, help="where stores are kept")
    parser.add_argument("--only", help="some of what is measured, as scan,panes; default: all")
    options = parser.parse_args(arguments)
    n, rounds, data = options.events, options.rounds, options.data
    ticks = ticks_of(data, n)
    if data is None:
        print("ticks and landings are generated, as no --data tells where real ones are")
    store = partial(ticks_store, options.stores, ticks, real=data is not None)
    run: dict[str, Callable[[], Measured]] = {
        "scan": lambda: scan(store(), rounds),
        "windows": lambda: windows(n, rounds),
        "panes": lambda: panes(n, rounds),
        "trees": lambda: trees(n, rounds),
        "enumerated": lambda: enumerated(data, n, options.rows, rounds),
        "duckdb": lambda: by_duckdb(ticks, rounds),
        "varpulis": lambda: by_varpulis(options.varpulis, n, rounds),
        "many": lambda: many(options.stores, n, options.queries, rounds),
        "kleene": lambda: kleene(options.kleene_events or n, rounds),
        "latency": lambda: latency(n, rounds),
    }
    measure_goals("trends", options, run, n_events=n, is_real=data is not None)


if __name__ == "__main__":
    main()
