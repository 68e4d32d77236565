"""Temporal patterns over situations: against a scan, Esper, DuckDB, pandas, and themselves.

Goals S1 to S10 of situations. Times are those of all the process' threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import permutations
from pathlib import Path
from statistics import median
from time import perf_counter, process_time, thread_time
from typing import Any
from unittest.mock import patch

import duckdb
import numpy as np
import pandas as pd  # noqa: TID251 -- one of those compared
import pyarrow as pa
import pyarrow.dataset as ds

import replay
from benchmarks import esper
from benchmarks.harness import (
    RESULTS,
    Measured,
    Side,
    Timing,
    fail,
    forget,
    interleave,
    measure_goals,
    new_parser,
    quantiles,
    ratio,
)
from benchmarks.stores import kept_store
from chronicle import Store, StreamSettings
from datasets import switching, traffic
from datasets.synthetic import SEED
from replay.language import bind_query, parse_query
from replay.language.bound import BoundSelect, SituationRelation
from replay.situations import matching
from replay.situations.detection import OPEN

N_CARS = 1_000
FINAL = traffic.AGGRESSIVE.format(source="cars", more="EMIT FINAL")
EARLY = traffic.AGGRESSIVE.format(source="cars", more="")
DISCONNECTED = (
    "FROM s ORDER BY t DEFINE A AS c0, B AS c1, C AS c2, D AS c3 "
    "PATTERN A starts B AND B before C AND C overlaps D WITHIN {}"
)
BOUNDS = ["car", "A_start", "A_end", "B_start", "B_end", "C_start", "C_end"]

# Situations by gaps and islands; those that go on at the end are none, as with EMIT FINAL.
_ISLANDS = """
{0} AS (SELECT car, MIN(t) AS s, MAX(behind) AS e FROM (
  SELECT car, t, {1} AS holds, LEAD(t) OVER w AS behind,
    ROW_NUMBER() OVER w - ROW_NUMBER() OVER (PARTITION BY car, {1} ORDER BY t) AS island
  FROM cars WINDOW w AS (PARTITION BY car ORDER BY t)
) WHERE holds GROUP BY car, island HAVING COUNT(behind) = COUNT(*))"""
_CONDITIONS = {"A": "accel > 8", "B": "speed > 70", "C": "accel < -9"}
DUCKDB_SQL = f"""
WITH {",".join(_ISLANDS.format(*item) for item in _CONDITIONS.items())}
SELECT A.car, A.s, A.e, B.s, B.e, C.s, C.e FROM A JOIN B ON A.car = B.car AND (
    A.e = B.s OR (A.s < B.s AND B.s < A.e AND A.e < B.e)
    OR (A.s = B.s AND A.e < B.e) OR (A.s > B.s AND A.e < B.e))
  JOIN C ON B.car = C.car AND A.e < C.s AND (
    (B.s < C.s AND C.e <= B.e) OR (B.s < C.s AND C.s < B.e AND B.e < C.e) OR B.e = C.s)
WHERE GREATEST(A.e, B.e, C.e) - LEAST(A.s, B.s, C.s) <= 300
"""


def by_pandas(cars: pd.DataFrame) -> pd.DataFrame:
    """Return the matches by runs of neighbouring rows and two merges."""
    rows = cars.sort_values(["car", "t"], kind="stable")
    car, t = rows["car"].to_numpy(), rows["t"].to_numpy()
    first_of_car = np.append(True, car[1:] != car[:-1])

    def runs(holds: Any, name: str) -> pd.DataFrame:
        begins = np.flatnonzero(holds & (first_of_car | ~np.append(False, holds[:-1])))
        stops = np.flatnonzero(~holds | first_of_car)
        place = np.searchsorted(stops, begins, "right")
        known = place < len(stops)
        begins, ends = begins[known], stops[place[known]]
        same = car[begins] == car[ends]
        begins, ends = begins[same], ends[same]
        return pd.DataFrame({"car": car[begins], f"{name}s": t[begins], f"{name}e": t[ends]})

    speed, accel = rows["speed"].to_numpy(), rows["accel"].to_numpy()
    found = runs(accel > 8, "a").merge(runs(speed > 70, "b"), on="car")
    a_e, b_s, b_e = (found[name] for name in ("ae", "bs", "be"))
    within = (b_s < a_e) & (a_e < b_e)  # overlaps, starts or during
    found = found[(a_e == b_s) | within].merge(runs(accel < -9, "c"), on="car")
    b_s, b_e, c_s, c_e = (found[name] for name in ("bs", "be", "cs", "ce"))
    inside = (b_s < c_s) & ((c_e <= b_e) | ((c_s < b_e) & (b_e < c_e)))
    found = found[(found["ae"] < c_s) & (inside | (b_e == c_s))]
    ends, starts = found[["ae", "be", "ce"]].max(axis=1), found[["as", "bs", "cs"]].min(axis=1)
    return found[ends - starts <= 300]


def cars_store(folder: Path, seconds: int) -> Store:
    """Return a store of the cars."""
    settings = StreamSettings(time="t", key="car")
    return kept_store(
        folder / f"store-cars-{seconds}",
        "cars",
        traffic.SCHEMA,
        settings,
        traffic.generate(N_CARS, seconds).to_batches(),
        index=("accel",),
    )


def scan(store: Store, rounds: int) -> Measured:
    """S1: a full replay against reading the same columns."""
    stream = store.stream("cars")
    files = [stream.path / "events" / file.name for file in stream.snapshot().files]
    dataset = ds.dataset(files)
    whole = EARLY.replace("PARTITION BY car ", "")
    sides = [
        Side("by car", partial(replay.query, store, EARLY, plan="full")),
        Side("all cars as one", partial(replay.query, store, whole, plan="full")),
        Side("scan of four columns", partial(dataset.to_table, columns=traffic.SCHEMA.names)),
        Side("scan of three", partial(dataset.to_table, columns=["t", "speed", "accel"])),
    ]
    timings = interleave(sides, rounds=rounds, before=forget)
    seen = {
        "by car, of the scan's speed (0.5)": ratio(timings[0], timings[2]),
        "unpartitioned, of the scan's speed (0.7)": ratio(timings[1], timings[3]),
    }
    return Measured("S1: full replay from the store against a bare scan", seen, timings)


ESPER_SECONDS = 1_000
"""Of all cars at most: rows are objects in Java's memory."""


def by_esper(folder: Path, seconds: int, rounds: int) -> Measured:
    """S2: against Esper, which is given rows that are objects in memory."""
    seconds = min(seconds, ESPER_SECONDS)
    cars = traffic.generate(N_CARS, seconds)
    goal = f"S2: against Esper {esper.VERSION}, {cars.num_rows:,} rows"
    try:
        taken, theirs = esper.run(cars, _CONDITIONS, folder / "esper", rounds=rounds)
    except esper.NoEsperError as reason:
        return Measured(f"{goal}: {reason}", {})
    store = cars_store(folder, seconds)
    ours = replay.query(store, FINAL).table.select(BOUNDS)
    if sorted(zip(*ours.to_pydict().values(), strict=True)) != theirs:
        fail("Esper's matches are others")
    sides = [
        Side("from the store", partial(replay.query, store, FINAL, plan="full")),
        Side("from memory", partial(replay.query, {"cars": cars}, FINAL)),
    ]
    from_store, from_memory = interleave(sides, rounds=rounds, before=forget)
    name = f"Esper, {len(theirs):,} matches"
    timing = Timing(name, tuple(s[0] for s in taken), cpu_rounds_s=tuple(s[1] for s in taken))
    seen = {
        "Esper over ours, from the store (30)": ratio(from_store, timing),
        "Esper over ours, from memory (100)": ratio(from_memory, timing),
    }
    return Measured(goal, seen, [from_store, from_memory, timing])


def others(store: Store, cars: pa.Table, rounds: int) -> Measured:
    """S3: against DuckDB and pandas over the same rows in memory."""
    connection = duckdb.connect(config={"threads": 1})
    connection.register("cars", cars)
    frame = cars.to_pandas()
    ours = replay.query({"cars": cars}, FINAL).table.select(BOUNDS)
    expected = connection.sql(DUCKDB_SQL).to_arrow_table().rename_columns(BOUNDS)
    told = [(name, "ascending") for name in BOUNDS]
    if not ours.sort_by(told).equals(expected.sort_by(told).cast(ours.schema)):
        fail("DuckDB's matches are others")
    if len(by_pandas(frame)) != ours.num_rows:
        fail("pandas has other matches")
    print(f"\n{ours.num_rows:,} matches in {cars.num_rows:,} rows, the same by all")
    sides = [
        Side("from the store", partial(replay.query, store, FINAL, plan="full")),
        Side("from memory", partial(replay.query, {"cars": cars}, FINAL)),
        Side("DuckDB", lambda: connection.sql(DUCKDB_SQL).to_arrow_table()),
        Side("pandas", partial(by_pandas, frame)),
    ]
    timings = interleave(sides, rounds=rounds, before=forget)
    from_store, from_memory, by_duckdb, frames = timings
    seen = {
        "DuckDB over ours, from the store (3)": ratio(from_store, by_duckdb),
        "pandas over ours, from the store (8)": ratio(from_store, frames),
        "DuckDB over ours, from memory (8)": ratio(from_memory, by_duckdb),
        "pandas over ours, from memory (20)": ratio(from_memory, frames),
        "ns a row, from memory": 1e9 * from_memory.cpu_s / cars.num_rows,
    }
    return Measured("S3: against DuckDB and pandas", seen, timings)


def windows(seconds: int, rounds: int) -> Measured:
    """S4: the cost of an event does not grow with the window."""
    table = switching.generate(seconds, 4)
    sql = DISCONNECTED
    spans = (500, 5_000, 50_000, 100_000)
    ask = partial(replay.query, {"s": table})
    counts = [ask(sql.format(span)).table.num_rows for span in spans]
    sides = [Side(f"WITHIN {span:,}", partial(ask, sql.format(span))) for span in spans]
    timings = interleave(sides, rounds=rounds)
    seen = {}
    for timing, n in zip(timings, counts, strict=True):
        less = timing.cpu_s - 200e-9 * n  # what matches may take
        seen[f"{timing.name}, {n:,} matches: over the first (2)"] = less / (
            timings[0].cpu_s - 200e-9 * counts[0]
        )
    return Measured("S4: windows of any length", seen, timings)


def many(seconds: int, rounds: int) -> Measured:
    """S5: time grows with the situations as a line does."""
    timings = []
    for n in (4, 8, 16, 24):
        table = switching.generate(seconds, n)
        defines = ", ".join(f"S{k} AS c{k}" for k in range(n))
        chain = " AND ".join(
            f"S{k} before;meets;overlaps;starts;during;equals S{k + 1}" for k in range(n - 1)
        )
        sql = f"FROM s ORDER BY t DEFINE {defines} PATTERN {chain} WITHIN 60"
        timings += interleave(
            [Side(f"{n} situations", partial(replay.query, {"s": table}, sql))], rounds=rounds
        )
    first = timings[0].cpu_s / 4
    seen = {f"{t.name}: each, over each of four": t.cpu_s / n / first
            for t, n in zip(timings, (4, 8, 16, 24), strict=True)}  # fmt: skip
    return Measured("S5: 4 to 24 situations, six relations each", seen, timings)


@dataclass(frozen=True, slots=True)
class FixedOrder:
    """Stands in for `Ordering`: one order for all, behind the situation that is begun with."""

    order: tuple[int, ...]

    def __call__(self, _: SituationRelation) -> FixedOrder:
        """Return itself: it is the same for all patterns."""
        return self

    @property
    def names(self) -> np.ndarray:
        """Of each situation, in which order the others are looked for."""
        rows = [[first, *(name for name in self.order if name != first)] for first in self.order]
        return np.array(sorted(rows))

    def see(self, *_: object) -> bool:
        """Keep it."""
        return False


def match_alone(changes: np.ndarray, query: SituationRelation, ordering: Any) -> int:
    """Return how many matches there are, found in stretches of 1,000 s."""
    n = 0
    with patch.object(matching, "Ordering", ordering):
        matcher = matching.Matcher(query)
    times = _times_of(changes)
    borders = np.flatnonzero(np.diff(times // 1_000)) + 1
    for stretch, seen in zip(np.split(changes, borders), np.split(times, borders), strict=True):
        matcher.note(stretch, 0, 1)
        n += sum(len(found.detections) for found in matcher.until(int(seen[-1]) - 1))
    return n


def changes_of(columns: Sequence[np.ndarray], since: int) -> np.ndarray:
    """Return where booleans of a value a second begin and end to be true, for `Matcher.note`."""
    rows = []
    for name, column in enumerate(columns):
        at = np.flatnonzero(column[1:] != column[:-1]) + 1
        begins, times, zero = column[at].astype(np.bool_), since + at, np.zeros_like(at)
        first, end = np.where(begins, times, -1), np.where(begins, OPEN, times)
        rows.append(np.stack([zero, zero + name, first, first, end, end], axis=1))
    listed = np.concatenate(rows)
    return listed[np.lexsort((listed[:, 4] == OPEN, _times_of(listed)))]


def _times_of(changes: np.ndarray) -> np.ndarray:
    """Return when what `changes_of` gives happens."""
    return np.where(changes[:, 4] == OPEN, changes[:, 2], changes[:, 4])


def orders(seconds: int, rounds: int) -> Measured:
    """S6: the order taken against all orders, and as what is frequent changes."""

    def phase(number: int, rarer: tuple[int, int, int]) -> np.ndarray:
        spans = [((10 * k, 100 * k), (10 * k, 50 * k)) for k in rarer]
        tables = [
            switching.generate(seconds, 1, on=on, off=off, seed=SEED + 3 * number + name)
            for name, (on, off) in enumerate(spans)
        ]
        return changes_of([table["c0"].to_numpy() for table in tables], number * seconds)

    phases = [phase(*each) for each in enumerate(((1, 1, 1), (50, 1, 1), (1, 50, 1)))]
    table = switching.generate(2, 3)
    seen, timings = {}, []
    asked = {
        "Q1": ("A overlaps B AND A overlaps C AND B starts C", phases[:1]),
        "Q2": ("A overlaps B AND A before C AND B overlaps C", phases[:1]),
        "Q3": ("A before B AND A before C AND B before C", phases[:1]),
        "Q3 in 1:1:1, 1:50:50, 50:1:50": ("A before B AND A before C AND B before C", phases),
    }
    for name, (pattern, parts) in asked.items():
        text = f"FROM s ORDER BY t DEFINE A AS c0, B AS c1, C AS c2 PATTERN {pattern} WITHIN 1000"
        bound = bind_query(parse_query(text), lambda _: (table.schema, None), text=text)
        assert isinstance(bound, BoundSelect)
        assert isinstance(bound.source, SituationRelation)
        everything = np.concatenate(parts)
        kinds = {"as it is seen": matching.Ordering} | {
            "".join("ABC"[place] for place in order): FixedOrder(order)
            for order in permutations(range(3))
        }
        counts = {match_alone(everything, bound.source, kind) for kind in kinds.values()}
        if len(counts) != 1:
            fail(f"orders of {name} give other numbers of matches: {counts}")
        sides = [
            Side(f"{name} {kind} {i}", partial(match_alone, part, bound.source, ordering))
            for kind, ordering in kinds.items()
            for i, part in enumerate([everything] if kind == "as it is seen" else parts)
        ]
        found = interleave(sides, rounds=rounds)
        ours, fixed = found[0], found[1:]
        best = sum(min(t.cpu_s for t in fixed[i :: len(parts)]) for i in range(len(parts)))
        goal = 1.1 if len(parts) == 1 else 1.05
        seen[f"{name}, {counts.pop():,} matches: over the best ({goal})"] = ours.cpu_s / best
        timings += found
    return Measured("S6: orders", seen, timings)


def _hurried(seconds: int) -> Iterator[pa.RecordBatch]:
    """Yield the readings of 100 cars that accelerate harder three times, in all for 2 % of them."""
    cars = traffic.generate(100, seconds)
    t, accel = cars["t"].to_numpy(), cars["accel"].to_numpy()
    more = (t * 150 // seconds % 50 == 25) & (accel > 8)
    yield from cars.set_column(3, "accel", pa.array(accel + 4 * more)).to_batches()


def index(store: Store, folder: Path, seconds: int, rounds: int) -> Measured:
    """S7: a plan by index where one of three conditions is true of a row of a thousand.

    Of 1,000 cars one is always near, whatever is rare of each, so that everything is read; where
    what is rare comes together in time, little is.
    """
    settings = StreamSettings(time="t", key="car")
    together = kept_store(
        folder / f"store-hurried-{seconds}", "cars", traffic.SCHEMA, settings, _hurried(seconds),
        index=("accel",),
    )  # fmt: skip
    seen: dict[str, float] = {}
    timings: list[Timing] = []
    asked = (
        ("of 1,000 cars at any time", store, "accel > 10.95", "0.9"),
        ("of 100 cars, harder in a few minutes", together, "accel > 12", "10"),
    )
    for name, of, rare, goal in asked:
        sql = FINAL.replace("accel > 8", rare)
        full, auto = (replay.query(of, sql, plan=plan) for plan in ("full", "auto"))
        if not full.table.equals(auto.table):
            fail("auto gives other matches than a full replay")
        sides = [
            Side(f"{plan}, {name}", partial(replay.query, of, sql, plan=plan))
            for plan in ("auto", "full")
        ]
        timings += interleave(sides, rounds=rounds, before=forget)
        seen |= {
            f"{name}: full replay over auto ({goal})": ratio(*timings[-2:]),
            f"{name}: share of blocks read": auto.actual.blocks_read / auto.actual.blocks_total,
            f"{name}: matches": float(auto.table.num_rows),
        }
    return Measured("S7: a rare condition of three", seen, timings)


_SLOW = pa.schema([("t", pa.int64()), ("level", pa.float64()), ("x", pa.float64())])


def _slow(n_rows: int) -> Iterator[pa.RecordBatch]:
    """Yield rows whose level changes in one of 100 blocks."""
    random, n = np.random.default_rng(SEED), n_rows // 20
    for t in (np.arange(first, first + n) for first in range(0, n_rows, n)):
        level = (t + 100_000) // (100 * StreamSettings(time="t").block_events) % 2 * 10.0
        yield pa.record_batch([t, level, random.random(n)], schema=_SLOW)


def slow(folder: Path, n_rows: int, rounds: int) -> Measured:
    """S8: a slow signal is read where its conditions change."""
    place, settings = folder / f"store-slow-{n_rows}", StreamSettings(time="t")
    store = kept_store(place, "slow", _SLOW, settings, _slow(n_rows), index=())
    sql = (
        "FROM slow DEFINE H AS level > 5 AT LEAST 1000 WITHIN 500000 EMIT FINAL "
        "RETURN AVG(H.x) AS mean"
    )
    full, tree = (replay.query(store, sql, plan=plan) for plan in ("full", "tree"))
    if not full.table.equals(tree.table):
        fail("the tree gives other situations than a full replay")
    sides = [
        Side("tree", partial(replay.query, store, sql, plan="tree")),
        Side("full", partial(replay.query, store, sql, plan="full")),
    ]
    timings = interleave(sides, rounds=rounds, before=forget)
    seen = {
        "full replay over tree (20)": ratio(*timings),
        "share of blocks read (0.02)": tree.actual.blocks_read / tree.actual.blocks_total,
    }
    return Measured("S8: a slow signal", seen, timings)


def threads(store: Store, cars: pa.Table, rounds: int) -> Measured:
    """S9: how much faster two threads are, of a replay by processor time, of pushes by the clock.

    Threads of a replay read and decode ahead of the one that answers, so with a processor each it
    takes as long as they or that one.
    """
    seen = {}
    whole = EARLY.replace("PARTITION BY car ", "")
    for name, sql in {"by car": EARLY, "all cars as one": whole}.items():
        times = []
        for _ in range(rounds + 1):
            forget()
            began = process_time(), thread_time()
            replay.query(store, sql, plan="full")
            times.append((process_time() - began[0], thread_time() - began[1]))
        total, own = (median(each) for each in zip(*times[1:], strict=True))
        seen[f"replay {name}, two threads over one (1.6)"] = total / max(own, total - own)
    for size in (1, 1_000, 8_192, 32_768, 131_072):
        one, two = _push_s(cars, size)
        seen[f"ms a push of {size:,}"] = 1e3 * one
        seen[f"push of {size:,}, two threads over one"] = one / two
    return Measured("S9: two threads", seen)


def _push_s(cars: pa.Table, size: int) -> tuple[float, float]:
    """Return the median times of pushes of so many rows, behind 100 seconds, of one thread and two.

    Each is pushed to both before the next, and both give the same.
    """
    flows = [replay.online(EARLY, cars.schema, time="t", threads=n) for n in (1, 2)]
    taken: list[list[float]] = [[], []]
    for flow in flows:
        flow.push(cars.slice(0, 100 * N_CARS))
    for first in range(100 * N_CARS, min(cars.num_rows, 100 * N_CARS + 300 * size) - size, size):
        rows, found = cars.slice(first, size), []
        for flow, times in zip(flows, taken, strict=True):
            began = perf_counter()
            found.append(flow.push(rows))
            times.append(perf_counter() - began)
        if not found[0].equals(found[1]):
            fail(f"two threads give another answer than one to a push of {size} rows")
    return median(taken[0]), median(taken[1])


def online(cars: pa.Table) -> Measured:
    """S10: pushes of a thousand events, and of one with `advance`."""
    rows = cars.slice(0, min(cars.num_rows, 500_000))
    flow = replay.online(EARLY, cars.schema, time="t")
    began = process_time()
    for first in range(0, rows.num_rows, 1_000):
        flow.push(rows.slice(first, 1_000))
    rate = rows.num_rows / (process_time() - began)
    single, taken = replay.online(EARLY, cars.schema, time="t"), []
    single.push(cars.slice(0, 100 * N_CARS))
    for second in range(100, cars.num_rows // N_CARS):
        event = cars.slice(second * N_CARS, 1)
        started = perf_counter()
        single.push(event)
        single.advance(event["t"][0].as_py() + 1)
        taken.append(perf_counter() - started)
    half, most = quantiles(taken, [0.5, 0.99])
    seen = {
        "M events/s, 1,000 a push (1)": rate / 1e6,
        "ms an event with advance, median (1)": 1e3 * half,
        "ms an event with advance, 99 of 100": 1e3 * most,
    }
    return Measured("S10: online", seen)


def main(arguments: list[str] | None = None) -> None:
    parser = new_parser("situations", __doc__, rounds=3)
    parser.add_argument("--seconds", type=int, default=5_000, help=f"of {N_CARS:,} cars")
    parser.add_argument("--switching", type=int, default=1_000_000, help="seconds of booleans")
    parser.add_argument("--stores", type=Path, default=RESULTS, help="where stores are kept")
    parser.add_argument("--only", help="some of what is measured, as scan,esper; default: all")
    options = parser.parse_args(arguments)
    rounds = options.rounds
    cars = traffic.generate(N_CARS, options.seconds)
    store = cars_store(options.stores, options.seconds)
    run: dict[str, Callable[[], Measured]] = {
        "scan": lambda: scan(store, rounds),
        "esper": lambda: by_esper(options.stores, options.seconds, rounds),
        "others": lambda: others(store, cars, rounds),
        "windows": lambda: windows(options.switching, rounds),
        "many": lambda: many(options.switching // 10, rounds),
        "orders": lambda: orders(options.switching // 5, rounds),
        "index": lambda: index(store, options.stores, 24 * options.seconds, rounds),
        "slow": lambda: slow(options.stores, 4_000 * options.seconds, rounds),
        "threads": lambda: threads(store, cars, rounds),
        "online": lambda: online(cars),
    }
    measure_goals("situations", options, run, n_rows=cars.num_rows)


if __name__ == "__main__":
    main()
