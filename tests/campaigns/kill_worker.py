"""Does random things to a store until it is killed, or its job is done.

Before each operation the worker writes to its journal what it is about to do, and after it that it
is done.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import random
import signal
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from chronicle import open_store
from chronicle.errors import CommitConflictError
from chronicle.maintenance.compaction import compact_events
from chronicle.maintenance.repair import repair_stream
from chronicle.maintenance.vacuum import vacuum
from chronicle.store import Stream
from chronicle.write.lifecycle import delete_range
from indexing.check import check_runs
from indexing.lifecycle import compact_index, create_index, drop_index
from indexing.tables import indexed_attributes
from tests.campaigns.worker_server import serve
from tests.crash_points import dying_at
from tests.store_model import INDEXABLE, NUMBERED, Row, writer_of

STREAM = "s"
KINDS = (
    *("append",) * 5,
    *("compact", "compact", "index", "merge runs", "drop index", "delete", "repair"),
    *("repair at once", "vacuum at once"),
)
"""What is done at once takes no regard for other processes."""


@dataclass(frozen=True)
class Job:
    """What a worker is to do."""

    store: str
    journal: str
    seed: int
    n_operations: int
    first_arrival: int
    """Arrival number of its first event."""

    die_at: int | None
    """Step at which it kills itself."""

    die_after_s: float | None = None
    """Time after which the system ends it, as abruptly."""

    kinds: tuple[str, ...] = KINDS
    """Operations to choose from; some stand for more."""


def random_events(rng: random.Random, first_arrival: int, *, n_max: int = 12) -> list[Row]:
    """Events that arrive together, in no order, mostly near the end of the stream."""
    middle, span = rng.choice((30, 30, 10, 45)), rng.choice((0, 2, 15))
    return [
        {
            "t": rng.randint(middle - span, middle + span),
            "a": rng.choice((None, 0, 1, 2, 3)),
            "x": rng.choice((None, -1.5, 0.5, 2.5)),
            "s": rng.choice((None, "", "a", "ab")),
            "f": rng.choice((None, True, False)),
            "k": rng.choice((None, 0, 1)),
            "n": first_arrival + i,
        }
        for i in range(rng.randint(1, n_max))
    ]


def choose(rng: random.Random, stream: Stream, job: Job, n: int) -> tuple[dict[str, Any], Any]:
    """Return the next operation: what the journal says of it, and what does it."""
    kind = rng.choice(job.kinds)
    runs = writer_of(stream, rng.choice((0, 6)))
    if kind == "append":
        rows = random_events(rng, n)
        table = pa.Table.from_pylist(rows, schema=NUMBERED)
        derived = rng.choice((None, runs, runs))
        return {"append": rows}, partial(stream.append, table, derived=derived)
    if kind == "delete":
        start = rng.randint(0, 60)
        stop = start + rng.choice((1, 5))
        return {"delete": [start, stop]}, partial(delete_range, stream, start, stop, derived=runs)
    known = indexed_attributes(stream.path, stream.schema.names)
    repair = partial(repair_stream, stream, derived=runs, derived_checks=(check_runs,))
    actions: dict[str, Callable[[], Any]] = {
        "compact": partial(compact_events, stream, derived=runs, full=rng.random() < 0.5),
        "index": partial(create_index, stream, [rng.choice(INDEXABLE)], least_events=0),
        "merge runs": partial(compact_index, stream, full=rng.random() < 0.5),
        "repair": repair,
        "repair at once": partial(repair, leftover_age=dt.timedelta(0)),
        "vacuum at once": partial(
            vacuum,
            stream,
            derived=writer_of(stream),
            retention=dt.timedelta(0),
            now=dt.datetime.now(dt.UTC) + dt.timedelta(seconds=5),
        ),
        "drop index": partial(drop_index, stream, known[0]) if known else lambda: None,
    }
    return {kind: None}, actions[kind]


def work(job: Job) -> None:
    """Do the job, or die."""
    if job.die_after_s is not None:
        signal.setitimer(signal.ITIMER_REAL, job.die_after_s)  # nobody handles it
    rng = random.Random(job.seed)
    n = job.first_arrival
    with (
        Path(job.journal).open("a", encoding="utf-8") as journal,
        dying_at(job.die_at, lambda: os.kill(os.getpid(), signal.SIGKILL)),
    ):

        def log(entry: dict[str, Any]) -> None:
            journal.write(json.dumps(entry) + "\n")
            journal.flush()
            os.fsync(journal.fileno())

        stream = open_store(job.store).stream(STREAM)
        for _ in range(job.n_operations):
            what, action = choose(rng, stream, job, n)
            n += len(what.get("append", ()))
            log(what)
            try:
                report = action()
            except CommitConflictError as error:
                log({"refused": str(error)})
                continue
            fault = getattr(report, "fault", None)
            # Where others drop indexes meanwhile, merging their runs may stop halfway.
            if fault is not None and not (job.die_at is None and "/index/" in fault):
                raise RuntimeError(fault)
            log({"done": getattr(report, "version", None)})


if __name__ == "__main__":
    serve(Job, work)
