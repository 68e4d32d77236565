"""Pushes events into an online query until it is killed, or until there are no more.

What is given out is written down at once, and now and then a snapshot with how far it has come:
the next process goes on from there, and forgets what was given out since.
"""

from __future__ import annotations

import json
import os
import random
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

import replay
from tests.campaigns.worker_server import serve

N_EVENTS: Final = 400

SCHEMA: Final = pa.schema({"t": pa.int64(), "k": pa.string(), "a": pa.int32(), "x": pa.float64()})

QUERIES: Final = {
    "panes, by key": """
        SELECT window_start, k, COUNT(*) AS n, SUM(B.x) AS s, MAX(took) AS longest
        FROM TABLE(HOP(TABLE s, DESCRIPTOR(t), 5, 20)) MATCH_RECOGNIZE (
          PARTITION BY window_start, k ORDER BY t MEASURES LAST(t) - FIRST(t) AS took
          PATTERN (A B+) SEMANTICS SKIP TILL ANY DEFINE A AS a = 1, B AS a >= 2
        ) GROUP BY window_start, k""",
    "conditions on the row before": """
        SELECT window_start, k, COUNT(*) AS n, MAX(m) AS longest
        FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(t), 30)) MATCH_RECOGNIZE (
          PARTITION BY window_start, k ORDER BY t MEASURES COUNT(*) AS m
          PATTERN (S T*) SEMANTICS SKIP TILL NEXT DEFINE T AS x < LAST(x, 1)
        ) GROUP BY window_start, k""",
    "a window for each time": """
        SELECT window_end, COUNT(*) AS n, AVG(A.x) AS mean
        FROM TABLE(SLIDING(TABLE s, DESCRIPTOR(t), 12)) MATCH_RECOGNIZE (
          PARTITION BY window_end ORDER BY t
          PATTERN (A B C) SEMANTICS SKIP TILL NEXT DEFINE A AS a = 1, B AS a = 2, C AS a = 3
        ) GROUP BY window_end""",
    "negation, WITHIN": """
        SELECT window_end, COUNT(*) AS n, MIN(B.x) AS least
        FROM TABLE(CUMULATE(TABLE s, DESCRIPTOR(t), 10, 40)) MATCH_RECOGNIZE (
          PARTITION BY window_start, window_end, k ORDER BY t
          PATTERN (A !X B) SEMANTICS SKIP TILL ANY WITHIN 25
          DEFINE A AS a = 1, X AS a = 0, B AS a = 2
        ) GROUP BY window_end""",
}

Row = dict[str, Any]


@dataclass(frozen=True)
class Job:
    """What a worker is to do, and in which pieces."""

    folder: str
    """Where what it gives out and its snapshots lie, `OUT` and `STATE`."""
    query: str
    """Which of `QUERIES`."""
    events_seed: int
    pieces_seed: int
    die_in: int | None
    """Number of the piece that it kills itself in."""


OUT: Final = "out"
STATE: Final = "state"


def some_events(seed: int) -> pa.Table:
    """Return events in the order of their times, many at one."""
    rng = random.Random(seed)
    times = sorted(rng.randrange(N_EVENTS) for _ in range(N_EVENTS))
    rows = [
        {
            "t": t,
            "k": rng.choice(("u", "v", "", None)),
            "a": rng.choice((0, 0, 1, 2, 3, None)),
            "x": rng.choice((0.1, 0.2, 0.3, 1e9, None)),
        }
        for t in times
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def told(folder: str) -> list[Row]:
    """Return what was given out until the end, or the kill."""
    out = Path(folder) / OUT
    lines = out.read_text(encoding="utf-8").splitlines() if out.exists() else []
    return [json.loads(line) for line in lines]


def not_killed(query: str, events_seed: int) -> list[Row]:
    """Return what is given out by a process that takes all events at once."""
    flow = replay.online(QUERIES[query], SCHEMA, time="t")
    return flow.push(some_events(events_seed)).to_pylist() + flow.finish().to_pylist()


def work(job: Job) -> None:
    """Do the job, or die."""
    rng, state = random.Random(job.pieces_seed), Path(job.folder) / STATE
    flow, at, n_told = replay.online(QUERIES[job.query], SCHEMA, time="t"), 0, 0
    if state.exists():
        head, _, snapshot = state.read_bytes().partition(b"\n")
        at, n_told = json.loads(head)
        flow.restore(snapshot)
    events, n_pieces, rows_told = some_events(job.events_seed), 0, told(job.folder)[:n_told]
    with (Path(job.folder) / OUT).open("w", encoding="utf-8") as out:

        def tell(rows: list[Row]) -> None:
            out.writelines(json.dumps(row) + "\n" for row in rows)
            out.flush()

        tell(rows_told)
        while at < events.num_rows:
            n = rng.randint(1, 40)
            given = flow.push(events.slice(at, n)).to_pylist()
            at = min(at + n, events.num_rows)
            if at < events.num_rows and rng.random() < 0.3:
                given += flow.advance(events.column("t")[at].as_py()).to_pylist()
            tell(given)
            n_told += len(given)
            if n_pieces == job.die_in:
                os.kill(os.getpid(), signal.SIGKILL)
            n_pieces += 1
            if rng.random() < 0.4:
                draft = state.with_suffix(".draft")
                draft.write_bytes(json.dumps([at, n_told]).encode() + b"\n" + flow.snapshot())
                draft.replace(state)
        tell(flow.finish().to_pylist())


if __name__ == "__main__":
    for query in QUERIES:
        not_killed(query, 0)  # so that workers need compile nothing
    serve(Job, work)
