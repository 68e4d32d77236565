"""Memory of a query: it grows with the window and the answer, not with the stream.

Nor with how long a situation lasts: one goes on through ten times as much as the limit; nor with
the events of windows in which sequences are counted.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa

import replay
from benchmarks.harness import fail, run_child, write_results
from benchmarks.stores import SYNTHETIC, bulk_store
from chronicle import open_store
from datasets.synthetic import SCHEMA, SIGMAS, generate
from datasets.thesis_queries import draw_queries
from replay.console.startup import keep_heavy_libraries_out

MIB = 1 << 20
PLANS = ("full", "auto")


def peak_mib() -> float:
    """Return the most memory this process has held, in MiB."""
    status = Path("/proc/self/status")
    if status.exists():  # what getrusage says begins with what the parent had held
        lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
        return int(lines["VmHWM"].split()[0]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / MIB


def ask(path: Path, plan: str, sql: str) -> None:
    """Be the process that is measured: warm up on nothing, then ask."""
    empty = {SYNTHETIC: SCHEMA.empty_table()}
    replay.query(empty, sql)
    before = peak_mib()
    result = replay.query(open_store(path), sql, plan=plan)
    print(
        json.dumps(
            {
                "before_mib": before,
                "peak_mib": peak_mib(),
                "n_matches": len(result),
                "blocks_read": result.actual.blocks_read,
                "blocks_total": result.actual.blocks_total,
            }
        )
    )


LASTING = """FROM s DEFINE H AS "on" EMIT FINAL
RETURN COUNT(H.*) AS n, AVG(H.x) AS mean, MAX(H.x) AS top"""
"""One situation of all events but the last."""

INSIDE = """FROM s DEFINE H AS "on", X AS x > 999
PATTERN H before;meets;overlaps;contains X WITHIN 60
RETURN COUNT(X.*) AS n, COUNT(DISTINCT H.x) AS m"""
"""Others inside of it, each of which begins later than WITHIN behind its start."""

ROW_BYTES = 24
PUSHED_ROWS = 1 << 16


def ask_lasting(limit_mib: int) -> None:
    """Be the process in which one situation lasts through ten times the limit."""
    schema = pa.schema(
        [("t", pa.int64()), ("on", pa.bool_()), ("x", pa.int64()), ("k", pa.int64())]
    )
    n_pushes = 10 * limit_mib * MIB // (ROW_BYTES * PUSHED_ROWS)
    found = []
    for sql in (LASTING, INSIDE):
        warm = replay.online(sql, schema, time="t")
        for number in range(4):
            warm.push(_lasting_rows(schema, number, goes_on=number < 3))
        before, flow, rows = peak_mib(), replay.online(sql, schema, time="t"), list[Any]()
        for number in range(n_pushes):
            goes_on = number < n_pushes - 1
            rows += flow.push(_lasting_rows(schema, number, goes_on=goes_on)).to_pylist()
        rows += flow.finish().to_pylist()
        found.append({"taken_mib": peak_mib() - before, "rows": rows})
    print(json.dumps({"n_rows": n_pushes * PUSHED_ROWS, "found": found}))


def _lasting_rows(schema: pa.Schema, number: int, *, goes_on: bool) -> pa.Table:
    """Return a second a row; ``x`` counts to a thousand again and again."""
    t = np.arange(number * PUSHED_ROWS, (number + 1) * PUSHED_ROWS)
    on = np.ones(PUSHED_ROWS, np.bool_)
    on[-1] = goes_on
    return pa.table([t, on, t % 1_010, t], schema=schema)


def check_lasting(limit_mib: int) -> dict[str, Any]:
    """Return what one situation through ten times the limit takes; fail where answers are wrong."""
    found = run_child("-m", "benchmarks.memory", "--lasting", "--limit-mib", str(limit_mib))
    whole, inside = found["found"]
    n = found["n_rows"]
    expected = {"n": n - 1, "top": 1_009, "H_start": 0, "H_end": n - 1, "detection_time": n - 1}
    if len(whole["rows"]) != 1 or not expected.items() <= whole["rows"][0].items():
        fail(f"the situation of all events is another: {whole}")
    if inside["rows"]:
        fail("a situation older than WITHIN is in a match")
    for name, one in (("told at its end", whole), ("in no match", inside)):
        print(
            f"{n:12,} events ({n * ROW_BYTES / MIB:6.0f} MiB as columns), one situation of all, "
            f"{name:<15} {one['taken_mib']:7.1f} MiB"
        )
    return {"n_rows": n, "taken_mib": {"whole": whole["taken_mib"], "inside": inside["taken_mib"]}}


COUNTED = """SELECT window_start, COUNT(*) AS n FROM TABLE(HOP(TABLE s, DESCRIPTOR(t), 60, 600))
MATCH_RECOGNIZE (PARTITION BY window_start ORDER BY t SEMANTICS SKIP TILL ANY PATTERN (A B C)
DEFINE A AS A.x = 0, B AS B.x = 1, C AS C.x = 2) GROUP BY window_start"""
"""Of ten minutes of a thousand events a second, and that every minute."""

N_COUNTED = math.comb(60_000 + 2, 3)
"""Sequences in a window: ``x`` counts to ten, so B is of A's ten or of a later, as C is of B's."""

COUNTED_BYTES_MAX = 300_000_000
"""Of the whole process that counts them, Python and libraries included."""


def ask_counted(n_events: int) -> None:
    """Be the process in which sequences are counted in windows, with what a command loads."""
    keep_heavy_libraries_out()
    schema = pa.schema([("t", pa.int64()), ("x", pa.int64())])
    flow, rows, before = replay.online(COUNTED, schema, time="t"), list[Any](), 0.0
    for first in range(0, n_events, PUSHED_ROWS):
        number = np.arange(first, min(first + PUSHED_ROWS, n_events))
        rows += flow.push(pa.table([number // 1_000, number % 10], schema=schema)).to_pylist()
        if first == 4 * PUSHED_ROWS:
            before = peak_mib()
    wrong = [row for row in rows if row["window_start"] >= 0 and row["n"] != N_COUNTED]
    peak = {"peak_mib": peak_mib(), "taken_mib": peak_mib() - before}
    print(json.dumps({**peak, "n_rows": len(rows), "wrong": wrong[:1]}))


def check_counted(n_events: int) -> dict[str, Any]:
    """Return what counting in windows takes; fail where a count is wrong, or it takes much."""
    found = run_child("-m", "benchmarks.memory", "--counted", str(n_events))
    if found["wrong"] or not found["n_rows"]:
        fail(f"a window holds {N_COUNTED} sequences: {found}")
    if found["peak_mib"] * MIB > COUNTED_BYTES_MAX:
        fail(f"the process took {found['peak_mib']:.0f} MiB")
    print(
        f"{n_events:12,} events pushed, {found['n_rows']} windows of {N_COUNTED:,} sequences each "
        f"{found['taken_mib']:7.1f} MiB, the whole process {found['peak_mib']:.1f}"
    )
    return {"n_events": n_events, **found}


def check_plans(n_events: int, n_symbols: int) -> list[dict[str, Any]]:
    """Return what plans take over a stream and over a quarter of it; fail where they differ."""
    sql = draw_queries(1, n_symbols, attributes=("A5",))[0].to_sql(SYNTHETIC)
    row_bytes = 8 * len(SCHEMA)
    outcomes: list[dict[str, Any]] = []
    with TemporaryDirectory() as folder:
        for n in (n_events // 4, n_events):
            path = Path(folder) / str(n)
            bulk_store(path, generate(n), index=tuple(SIGMAS))
            answers = set()
            for plan in PLANS:
                asked = ("--ask", str(path), "--plan", plan)
                found = run_child("-m", "benchmarks.memory", *asked, given=sql)
                answers.add(found["n_matches"])
                taken = found["peak_mib"] - found["before_mib"]
                stream_mib = n * row_bytes / MIB
                outcomes.append({"n_events": n, "plan": plan, "taken_mib": taken, **found})
                print(
                    f"{n:12,} events ({stream_mib:6.0f} MiB as columns), plan {plan:<5}"
                    f" {found['n_matches']:8,} matches  {found['blocks_read']:7,} of "
                    f"{found['blocks_total']:,} blocks read  {taken:7.1f} MiB"
                )
            if len(answers) > 1:
                fail(f"plans differ in the number of matches: {sorted(answers)}")
    return outcomes


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.memory", description=__doc__)
    parser.add_argument("--events", type=int, default=2_000_000, help="of the longest stream")
    parser.add_argument("--limit-mib", type=int, default=256, help="most that a query may take")
    parser.add_argument("--symbols", type=int, default=4, help="of the query")
    parser.add_argument("--ask", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--plan", help=argparse.SUPPRESS)
    parser.add_argument(
        "--pushed-events", type=int, default=50_000_000, help="in windows of ten minutes"
    )
    parser.add_argument("--counted", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--lasting", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.lasting:
        ask_lasting(options.limit_mib)
        return
    if options.counted is not None:
        ask_counted(options.counted)
        return
    if options.ask is not None:
        ask(options.ask, options.plan, sys.stdin.read())
        return

    outcomes = check_plans(options.events, options.symbols)
    lasting = check_lasting(options.limit_mib // 4)
    counted = check_counted(options.pushed_events)
    worst = max(outcome["taken_mib"] for outcome in outcomes)
    print(
        f"\na query took {worst:.0f} MiB at most (limit {options.limit_mib} MiB, of which footers "
        "and answers of lookups are kept for the next query up to 64 MiB each); a situation took "
        f"{max(lasting['taken_mib'].values()):.0f} MiB (limit {options.limit_mib // 4} MiB); "
        f"counting in windows took {counted['taken_mib']:.0f} MiB"
    )
    write_results(
        "memory",
        {
            "goal": {"taken_mib": options.limit_mib},
            "stream_mib": options.events * 8 * len(SCHEMA) / MIB,
            "worst_mib": worst,
            "outcomes": outcomes,
            "lasting": lasting,
            "counted": counted,
        },
    )


if __name__ == "__main__":
    main()
