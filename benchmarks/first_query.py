"""Processor seconds of a first query, which compiles what it needs, against the same one later.

Each question is asked by a new process, first with an empty folder of compiled code and then with
the one it has filled. Small questions are run as plain Python unless all is to be compiled. Prints
what it compares as JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa

from chronicle import Store, StreamSettings, create_index, create_store

_PATTERN = """
    SELECT a, b FROM ticks MATCH_RECOGNIZE (
      ORDER BY t MEASURES A.t AS a, B.t AS b {} PATTERN (A Z* B)
      WITHIN 60 DEFINE A AS price > 990, B AS price > A.price)"""

QUESTIONS = {
    "filter": "SELECT * FROM ticks WHERE price > 999",
    "pattern": _PATTERN.format(""),
    "skip-till": _PATTERN.format("SEMANTICS SKIP TILL NEXT").replace("A Z* B", "A B"),
    "window": (
        "SELECT window_start, AVG(price) AS mean "
        "FROM TUMBLE(TABLE ticks, DESCRIPTOR(t), 1000) GROUP BY window_start"
    ),
    "join": (
        "SELECT a.t AS a, b.t AS b FROM ticks AS a JOIN ticks AS b WITHIN 5 ON a.symbol = b.symbol"
    ),
}

_ASK = "import sys, chronicle; chronicle.query(chronicle.open_store(sys.argv[1]), sys.argv[2])"
_COMPILED = "from chronicle.compiled import compile_at_once; compile_at_once(); "


def make_store(folder: Path, n_events: int) -> Store:
    """Make a stream of random ticks with an index on their price."""
    random = np.random.default_rng(1)
    ticks = pa.table(
        {
            "t": np.arange(n_events),
            "symbol": random.integers(0, 50, n_events),
            "price": random.uniform(0, 1000, n_events),
        }
    )
    store = create_store(folder)
    store.create_stream("ticks", ticks.schema, StreamSettings(time="t")).append(ticks)
    create_index(store.stream("ticks"), ["price"])
    return store


def processor_seconds(store: Path, question: str, compiled: Path, script: str) -> float:
    """Return the processor seconds of a process that asks one question."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, "-c", script, str(store), question],
        env={**os.environ, "NUMBA_CACHE_DIR": str(compiled)},
        check=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main(arguments: list[str] | None = None) -> int:
    """Ask each question by a first and a second process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=10_000)
    parser.add_argument("--only", choices=QUESTIONS, nargs="*", default=list(QUESTIONS))
    parser.add_argument("--compiled", action="store_true", help="nothing as plain Python")
    options = parser.parse_args(arguments)
    script = _COMPILED + _ASK if options.compiled else _ASK
    found = {}
    with TemporaryDirectory() as folder:
        store = Path(folder, "store")
        make_store(store, options.events)
        for name in options.only:
            compiled = Path(folder, "compiled", name)
            compiled.mkdir(parents=True, mode=0o700)
            first, later = (
                processor_seconds(store, QUESTIONS[name], compiled, script) for _ in range(2)
            )
            found[name] = {"first_cpu_s": round(first, 2), "later_cpu_s": round(later, 2)}
    print(json.dumps({"events": options.events, "questions": found}, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
