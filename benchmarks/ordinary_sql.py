"""What the boundary to DuckDB costs: a statement, against its parts and DuckDB's own time.

A statement whose part Chronicle answers is compared with that part asked alone, and DuckDB on an
open connection over the part's answer; one over a stream with DuckDB over the stream's files. What
is left is the boundary's: taking apart, registering, the thread, types.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import pyarrow as pa

import replay
from benchmarks.first_query import make_store
from benchmarks.harness import (
    RESULTS,
    Side,
    Timing,
    fail,
    interleave,
    new_parser,
    print_comparison,
    write_results,
)
from chronicle import Store
from replay.sql.apart import Apart, take_apart
from replay.sql.relations import select_of

GOAL_MS = 5.0
"""Most milliseconds that the boundary may take."""

PATTERN = """ticks MATCH_RECOGNIZE (
  ORDER BY t MEASURES A.t AS a, B.t AS b PATTERN ( A Z* B ) WITHIN 60
  DEFINE A AS price > 999, B AS price < 1 )"""

STATEMENTS = {
    "over matches": f"SELECT a, b, LAG(b) OVER (ORDER BY a) AS before FROM {PATTERN}",
    "matches in IN": f"SELECT * FROM range(1000) AS r(t) WHERE t IN (SELECT a FROM {PATTERN})",
    "over a stream": "SELECT symbol, MAX_BY(t, price) AS at FROM ticks GROUP BY ALL ORDER BY ALL",
}


def apart_of(store: Store, sql: str, connection: Any) -> tuple[list[str], Callable[[], pa.Table]]:
    """Return the parts that are Chronicle's, and what runs the rest on an open connection."""
    apart = take_apart(sql)
    assert isinstance(apart, Apart), sql
    selects = {}
    for read in apart.reads:
        snapshot = store.stream(read.name).snapshot()
        names = snapshot.schema.names
        selects[read.relation] = select_of(snapshot, snapshot.stored_files(names), names)
    for cut in apart.cuts:
        connection.register(cut.relation, replay.query(store, cut.query.text).table)
    text = apart.main.with_selects(selects).text
    return (
        [cut.query.text for cut in apart.cuts],
        lambda: connection.sql(text).to_arrow_reader(1 << 16).read_all(),
    )


def compare(store: Store, name: str, *, rounds: int, calls: int) -> dict[str, Any]:
    """Measure one statement; ends the benchmark where the answers differ."""
    sql = STATEMENTS[name]
    connection = duckdb.connect(config={"threads": 1})
    parts, rest = apart_of(store, sql, connection)
    whole = replay.query(store, sql).table
    if whole.to_pylist() != rest().to_pylist():
        fail(f"{name}: DuckDB over the parts gives another answer")

    def ask_parts() -> None:
        for part in parts:
            replay.query(store, part)

    sides = [
        Side("statement", lambda: replay.query(store, sql)),
        Side("parts", ask_parts, "Chronicle's part alone"),
        Side("duckdb", rest, "the rest, one thread, connection open"),
    ]
    timings = interleave(sides, rounds=rounds, calls=calls)
    print_comparison(f"{name}: {len(whole):,} rows", timings, baseline="statement")
    by_name: dict[str, Timing] = {timing.name: timing for timing in timings}
    whole_of, *rest_of = (by_name[side.name] for side in sides)
    over_ms = 1e3 * (whole_of.median_s - sum(timing.median_s for timing in rest_of))
    cpu_ms = 1e3 * (whole_of.cpu_s - sum(timing.cpu_s for timing in rest_of))
    print(
        f"  the boundary takes {over_ms:.2f} ms, of processor time {cpu_ms:.2f} ms "
        f"(goal: {GOAL_MS:g} ms)"
    )
    connection.close()
    taken = {"boundary_ms": over_ms, "boundary_cpu_ms": cpu_ms}
    return {"sql": sql, "n_rows": len(whole), **taken, "timings": timings}


def main(arguments: list[str] | None = None) -> None:
    parser: argparse.ArgumentParser = new_parser("ordinary_sql", __doc__, rounds=15)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--calls", type=int, default=5)
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args(arguments)
    with TemporaryDirectory() as folder:
        store = make_store(Path(folder) / "store", options.events)
        found = {
            name: compare(store, name, rounds=options.rounds, calls=options.calls)
            for name in STATEMENTS
        }
    goal = {"boundary_ms": GOAL_MS}
    results = {"goal": goal, "n_events": options.events, "statements": found}
    write_results("ordinary-sql", results, folder=options.results)


if __name__ == "__main__":
    main()
