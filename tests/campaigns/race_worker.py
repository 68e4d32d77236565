"""Uses a stream, or drops and makes it again, at random beside others; tells what it did.

A worker holds its store and its streams for as long as it lives, as a service does.
"""

from __future__ import annotations

import json
import random
import time as clock
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from chronicle import Store, Stream, StreamSettings, open_store
from chronicle.errors import ChronicleError, StreamExistsError, StreamNotFoundError
from chronicle.maintenance.check import check_stream
from chronicle.maintenance.compaction import compact_events
from chronicle.maintenance.finding import Severity
from chronicle.maintenance.repair import repair_stream
from chronicle.maintenance.vacuum import vacuum
from chronicle.write.lifecycle import delete_range, drop_stream, rename_stream
from indexing.check import check_runs
from indexing.lifecycle import compact_index, create_index, drop_index, list_indexes
from indexing.writer import writer_for
from replay import query
from tests.campaigns.worker_server import serve

STREAM, ASIDE = "s", "aside"

SCHEMA = pa.schema([("t", pa.int64()), ("life", pa.int64()), ("batch", pa.int64())])

BATCH_EVENTS = 3
"""Events of each append. Fewer of a batch, or more, are a torn or a doubled append."""


@dataclass(frozen=True)
class RaceJob:
    """What a worker is to do."""

    store: str
    journal: str
    number: int
    seed: int
    seconds: float
    role: str
    """``write``, ``read``, ``tend`` or ``remake``."""


class Worker:
    """Does what a job says and notes it.

    Each life of a stream has a number, which all events appended under that life carry: events of
    two lives in one answer, or of another life than the stream was opened in, are wrong.
    """

    def __init__(self, job: RaceJob) -> None:
        self.job = job
        self.rng = random.Random(job.seed)
        self.store: Store = open_store(job.store)
        self.held: Stream | None = None
        self.life: int | None = None
        self.n_done = 0

    def run(self) -> None:
        """Work until the time is over."""
        end = clock.monotonic() + self.job.seconds
        with Path(self.job.journal).open("a", encoding="utf-8") as journal:
            while clock.monotonic() < end:
                name, action = self.choose()
                try:
                    said = action()
                except ChronicleError as error:
                    said = {"refused": f"{type(error).__name__}: {error}"}
                    self.held = None  # opened again by name
                    if isinstance(error, StreamNotFoundError):
                        clock.sleep(0.02)
                journal.write(json.dumps({"what": name, **said}) + "\n")
                journal.flush()

    def choose(self) -> tuple[str, Callable[[], dict[str, Any]]]:
        """Return the next thing to do."""
        actions: dict[str, dict[str, Callable[[], dict[str, Any]]]] = {
            "write": {"append": self.append},
            "read": {"count": self.count, "list": self.list, "check": self.check},
            "tend": {
                "compact": self.on_stream(lambda s: compact_events(s, derived=None, full=True)),
                "index": self.on_stream(lambda s: create_index(s, ["batch"], least_events=0)),
                "drop index": self.on_stream(lambda s: drop_index(s, "batch")),
                "merge runs": self.on_stream(lambda s: compact_index(s, full=True)),
                "vacuum": self.on_stream(lambda s: vacuum(s, derived=writer_for(s))),
                "delete": self.on_stream(lambda s: delete_range(s, 900, None, derived=None)),
                "repair": self.on_stream(lambda s: repair_stream(s, derived=writer_for(s))),
            },
            "remake": {"drop": self.drop, "rename": self.rename, "make": self.make},
        }
        chosen = self.rng.choice(sorted(actions[self.job.role]))
        if self.job.role == "remake":
            there = STREAM in self.store.stream_names()
            if there:
                clock.sleep(self.rng.uniform(0.0, 0.8))
            else:
                chosen = self.rng.choice(("make", "make", "make", chosen))
        return chosen, actions[self.job.role][chosen]

    def open(self) -> Stream:
        """Return the stream held, or open it and learn which life it is in."""
        if self.held is None:
            self.held = self.store.stream(STREAM)
            self.life = int(self.held.settings.file_events)  # what tells lives apart, see ``make``
        return self.held

    def append(self) -> dict[str, Any]:
        stream = self.open()
        self.n_done += 1
        batch = self.job.number * 1_000_000 + self.n_done
        start = self.rng.randrange(800)
        events = pa.table(
            {
                "t": [start + i for i in range(BATCH_EVENTS)],
                "life": [self.life] * BATCH_EVENTS,
                "batch": [batch] * BATCH_EVENTS,
            },
            SCHEMA,
        )
        runs = writer_for(stream, least_events=0) if self.rng.random() < 0.5 else None
        report = stream.append(events, derived=runs)
        return {"batch": batch, "life": self.life, "fault": report.fault}

    def count(self) -> dict[str, Any]:
        found = query(
            self.store, f"SELECT life, batch, COUNT(*) AS n FROM {STREAM} GROUP BY life, batch"
        )
        return {"groups": [list(row.values()) for row in found.table.to_pylist()]}

    def list(self) -> dict[str, Any]:
        stream = self.open()
        snapshot = stream.snapshot()
        tables = [snapshot.read_blocks(range(snapshot.n_blocks), ["life", "batch"])]
        rows = [(row["life"], row["batch"]) for table in tables for row in table.to_pylist()]
        list_indexes(snapshot)
        groups = [[life, batch, rows.count((life, batch))] for life, batch in sorted(set(rows))]
        return {"groups": groups, "life": self.life}

    def check(self) -> dict[str, Any]:
        stream = self.open()
        found = check_stream(stream, derived_checks=[check_runs])
        # Of an index that is dropped while it is checked, runs that are gone are told as missing.
        faults = [f for f in found if f.severity is Severity.FAULT and "/index/" not in f.file]
        return {"faults": [str(fault) for fault in faults]}

    def on_stream(self, act: Callable[[Stream], object]) -> Callable[[], dict[str, Any]]:
        def acting() -> dict[str, Any]:
            report = act(self.open())
            return {"fault": getattr(report, "fault", None)}

        return acting

    def drop(self) -> dict[str, Any]:
        drop_stream(self.store, self.rng.choice((STREAM, STREAM, ASIDE)))
        return {}

    def rename(self) -> dict[str, Any]:
        old, new = self.rng.choice(((STREAM, ASIDE), (ASIDE, STREAM)))
        rename_stream(self.store, old, new)
        return {}

    def make(self) -> dict[str, Any]:
        life = self.rng.randrange(1_000, 1_000_000)
        settings = StreamSettings(time="t", block_events=3, file_events=life, fan_out=2)
        try:
            self.store.create_stream(STREAM, SCHEMA, settings)
        except StreamExistsError:
            return {"existed": True}
        return {"made": life}


def work(job: RaceJob) -> None:
    """Do a job."""
    Worker(job).run()


if __name__ == "__main__":
    serve(RaceJob, work)
