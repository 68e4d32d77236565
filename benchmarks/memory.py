"""Memory of a query: it grows with the window and the answer, not with the stream."""

from __future__ import annotations

import argparse
import json
import resource
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import replay
from benchmarks.harness import fail, run_child, write_results
from benchmarks.stores import SYNTHETIC, bulk_store
from chronicle import open_store
from datasets.synthetic import SCHEMA, SIGMAS, generate
from datasets.thesis_queries import draw_queries

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


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.memory", description=__doc__)
    parser.add_argument("--events", type=int, default=2_000_000, help="of the longest stream")
    parser.add_argument("--limit-mib", type=int, default=256, help="most that a query may take")
    parser.add_argument("--symbols", type=int, default=4, help="of the query")
    parser.add_argument("--ask", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--plan", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.ask is not None:
        ask(options.ask, options.plan, sys.stdin.read())
        return

    sql = draw_queries(1, options.symbols, attributes=("A5",))[0].to_sql(SYNTHETIC)
    row_bytes = 8 * len(SCHEMA)
    outcomes: list[dict[str, Any]] = []
    with TemporaryDirectory() as folder:
        for n_events in (options.events // 4, options.events):
            path = Path(folder) / str(n_events)
            bulk_store(path, generate(n_events), index=tuple(SIGMAS))
            answers = set()
            for plan in PLANS:
                asked = ("--ask", str(path), "--plan", plan)
                found = run_child("-m", "benchmarks.memory", *asked, given=sql)
                answers.add(found["n_matches"])
                taken = found["peak_mib"] - found["before_mib"]
                stream_mib = n_events * row_bytes / MIB
                outcomes.append({"n_events": n_events, "plan": plan, "taken_mib": taken, **found})
                print(
                    f"{n_events:12,} events ({stream_mib:6.0f} MiB as columns), plan {plan:<5}"
                    f" {found['n_matches']:8,} matches  {found['blocks_read']:7,} of "
                    f"{found['blocks_total']:,} blocks read  {taken:7.1f} MiB"
                )
            if len(answers) > 1:
                fail(f"plans differ in the number of matches: {sorted(answers)}")
    worst = max(outcome["taken_mib"] for outcome in outcomes)
    print(
        f"\na query took {worst:.0f} MiB at most (limit {options.limit_mib} MiB, of which footers "
        "and answers of lookups are kept for the next query up to 64 MiB each)"
    )
    write_results(
        "memory",
        {
            "goal": {"taken_mib": options.limit_mib},
            "stream_mib": options.events * row_bytes / MIB,
            "worst_mib": worst,
            "outcomes": outcomes,
        },
    )


if __name__ == "__main__":
    main()
