"""Row pattern matching against Flink SQL: the same rows, the same answers, each engine whole."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.csv

import replay
from benchmarks.harness import RESULTS, Side, Timing, fail, interleave, new_parser, write_results
from chronicle import Store, create_store
from chronicle.settings import StreamSettings
from datasets.synthetic import SEED

STREAM = "s"
WARM_UP = 5_000
"""Rows of the query that Flink answers before it is timed: its code is generated and loaded."""

GOAL = 50.0


@dataclass(frozen=True, slots=True)
class Pattern:
    """One query, and what is written otherwise in Flink."""

    name: str
    measures: str
    pattern: str
    define: str
    within_s: int | None = None

    def to_sql(self, *, within: str = "") -> str:
        """Return the query; both engines take the text but for WITHIN."""
        return (
            f"SELECT * FROM {STREAM} MATCH_RECOGNIZE (ORDER BY ts MEASURES {self.measures} "
            f"AFTER MATCH SKIP PAST LAST ROW PATTERN ({self.pattern}) {within} "
            f"DEFINE {self.define})"
        )

    def ours(self) -> str:
        """Return the query for Chronicle."""
        return self.to_sql(
            within="" if self.within_s is None else f"WITHIN {self.within_s} SECONDS"
        )

    def flinks(self) -> str:
        """Return the query for Flink, whose window is half-open: a second is added to it."""
        if self.within_s is None:
            return self.to_sql()
        return self.to_sql(within=f"WITHIN INTERVAL '{self.within_s + 1}' SECOND(4)")


PATTERNS = (
    Pattern(
        "A B{2}",
        "A.id AS first_id, LAST(B.id) AS last_id",
        "A B{2}",
        "A AS A.x < 0.1, B AS B.x > 0.5",
    ),
    Pattern(
        "A X*? B Y*? C",
        "A.id AS first_id, C.id AS last_id",
        "A X*? B Y*? C",
        "A AS A.x < 0.01, B AS B.x > 0.99, C AS C.x BETWEEN 0.500 AND 0.505",
        within_s=300,
    ),
)
"""One row a second, so a window of 300 s is one of 300 rows."""


def rows(n_rows: int) -> pa.Table:
    """Return events a second apart, with one double uniform in [0, 1)."""
    begin = np.datetime64("2020-01-01T00:00:00", "us")
    return pa.table(
        {
            "id": pa.array(np.arange(n_rows)),
            "ts": pa.array(begin + np.arange(n_rows) * np.timedelta64(1, "s")),
            "x": np.random.default_rng(SEED).random(n_rows),
        }
    )


def write_csv(table: pa.Table, folder: Path) -> None:
    """Write a table as Flink reads it: no header, times in milliseconds."""
    folder.mkdir()
    times = table.column("ts").cast(pa.timestamp("ms"))
    pyarrow.csv.write_csv(
        table.set_column(1, "ts", times),
        folder / "rows.csv",
        pyarrow.csv.WriteOptions(include_header=False),
    )


def run_flink(python: Path, folder: Path, n_rounds: int) -> tuple[list[list[float]], list[Path]]:
    """Return Flink's seconds of each query, round by round, and the folders of its answers."""
    sinks = [folder / f"answer-{number}" for number in range(len(PATTERNS))]
    queries = [(p.flinks(), str(sink)) for p, sink in zip(PATTERNS, sinks, strict=True)]
    seconds: list[list[float]] = [[] for _ in PATTERNS]
    for number in range(n_rounds):
        job = {
            "source": str(folder / "source"),
            "warm_up": str(folder / "warm-up"),
            "queries": [(sql, sink if not number else f"{sink}-{number}") for sql, sink in queries],
        }
        done = subprocess.run(
            [str(python), str(Path(__file__).with_name("flink_job.py"))],
            input=json.dumps(job), text=True, capture_output=True, check=False,
        )  # fmt: skip
        if done.returncode:
            fail(f"Flink could not answer: {done.stderr[-2000:]}")
        for one, taken in zip(json.loads(done.stdout)["seconds"], seconds, strict=True):
            taken.append(one)
    return seconds, sinks


def check_same(store: Store, pattern: Pattern, answer: Path) -> int:
    """End the benchmark unless both answers are the same; return how many matches there are."""
    ours = replay.query(store, pattern.ours(), plan="full").table
    theirs = sorted(
        tuple(int(cell) for cell in line.split(","))
        for part in answer.glob("part-*")
        for line in part.read_text().splitlines()
    )
    found = sorted(zip(*(column.to_pylist() for column in ours.columns), strict=True))
    if found != theirs:
        fail(f"{pattern.name}: {len(found)} matches here, {len(theirs)} in Flink, or other ones")
    return len(found)


def main(arguments: list[str] | None = None) -> None:
    parser = new_parser("flink_sql", __doc__, rounds=3)
    parser.add_argument(
        "--flink-python",
        type=Path,
        required=True,
        help="Python of an environment with apache-flink",
    )
    parser.add_argument("--events", type=int, default=200_000)
    options = parser.parse_args(arguments)
    RESULTS.mkdir(exist_ok=True)
    with TemporaryDirectory(dir=RESULTS) as name:
        folder = Path(name)
        table = rows(options.events)
        write_csv(table, folder / "source")
        write_csv(table.slice(0, WARM_UP), folder / "warm-up")
        store = create_store(folder / "store")
        store.create_stream(STREAM, table.schema, StreamSettings(time="ts")).append(table)
        seconds, answers = run_flink(options.flink_python, folder, options.rounds)
        outcomes = []
        for pattern, theirs, answer in zip(PATTERNS, seconds, answers, strict=True):
            n_matches = check_same(store, pattern, answer)
            side = Side("chronicle", partial(replay.query, store, pattern.ours(), plan="full"))
            [ours] = interleave([side], rounds=options.rounds)
            flink = Timing("flink", tuple(theirs))
            ratio = flink.median_s / ours.median_s
            print(
                f"{pattern.name:<16} {n_matches:6,} matches: Flink "
                f"{options.events / flink.median_s:12,.0f} rows/s, Chronicle (full replay) "
                f"{options.events / ours.median_s:12,.0f} rows/s, {ratio:8.0f}x (goal {GOAL:.0f}x)"
            )
            timings = [flink, ours]
            outcomes.append({"pattern": pattern.name, "ratio": ratio, "timings": timings})
    print(
        "\nFlink reads CSV, and its own start is not counted; Chronicle reads its blocks. Flink "
        "runs one task, as a pattern without PARTITION BY has; Chronicle uses all cores."
    )
    write_results(
        "flink_sql", {"goal": {"ratio": GOAL}, "n_events": options.events, "outcomes": outcomes}
    )


if __name__ == "__main__":
    main()
