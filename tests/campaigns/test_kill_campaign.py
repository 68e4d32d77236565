"""A process that writes to a store is killed, again and again: nothing is lost or doubled."""

from __future__ import annotations

import datetime as dt
import json
import random
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from chronicle import Store, StreamSettings, create_store, open_store
from chronicle.maintenance.repair import repair_store
from indexing.check import check_runs
from tests.campaigns.kill_worker import STREAM, Job, random_events
from tests.campaigns.seeds import FAST, seeds
from tests.campaigns.worker_server import FAILED, WorkerServer
from tests.store_model import (
    NUMBERED,
    PROBE,
    Row,
    check_answers,
    faults_of,
    in_order,
    plain,
    rows_of,
    writer_of,
)

N_SEEDS = 200
KILLS_IN_A_ROW = 3
"""Per store; one in the fast runs."""

STEPS_MAX = 160
"""Most steps a worker lives for; about what its operations take."""

N_OPERATIONS = 8


@pytest.fixture(scope="module")
def server() -> Iterator[WorkerServer]:
    with WorkerServer("kill_worker") as opened:
        yield opened


def outcomes(rows: list[Row], journal: Path) -> list[list[Row]]:
    """Return what the stream may be after the operations of a journal, from ``rows`` on.

    What was acknowledged is there; the last operation of a killed worker is there or is not.
    """
    pending: list[Row] | None = None
    for line in journal.read_text(encoding="utf-8").splitlines():
        [(kind, detail)] = json.loads(line).items()
        if kind == "done":
            assert pending is not None
            rows, pending = pending, None
        elif kind == "refused":
            pending = None
        elif kind == "append":
            pending = in_order(rows + detail)
        elif kind == "delete":
            pending = [row for row in rows if not detail[0] <= row["t"] < detail[1]]
        else:
            pending = rows
    return [rows] if pending is None else [rows, pending]


def check_after_kill(store: Store, allowed: list[list[Row]], rng: random.Random) -> list[Row]:
    """Hold the store to what it may be, before and after a repair; return what it is."""
    found = rows_of(store.stream(STREAM))
    assert plain(found) in [plain(rows) for rows in allowed]
    check_answers(store, STREAM, found, PROBE)
    assert faults_of(store, deep=False) == []
    if rng.random() < 0.5:
        derived = writer_of(store.stream(STREAM))
        repair_store(
            store, derived=derived, derived_checks=(check_runs,), leftover_age=dt.timedelta(0)
        )
        assert faults_of(store, deep=True) == []
        check_answers(open_store(store.path), STREAM, found, PROBE)
    fresh = random_events(rng, 1_000_000 + rng.randrange(1_000_000))
    stream = open_store(store.path).stream(STREAM)
    stream.append(pa.Table.from_pylist(fresh, schema=NUMBERED), derived=writer_of(stream))
    found = in_order(found + fresh)
    assert plain(rows_of(store.stream(STREAM))) == plain(found)
    check_answers(store, STREAM, found, PROBE)
    return found


@pytest.mark.parametrize("seed", seeds(N_SEEDS))
def test_no_event_is_lost_or_doubled_by_a_kill(
    tmp_path: Path, server: WorkerServer, seed: int
) -> None:
    rng = random.Random(seed)
    store = create_store(tmp_path / "store")
    knobs = StreamSettings(
        time="t", block_events=rng.randint(1, 5), file_events=rng.randint(5, 12), fan_out=2
    )
    store.create_stream(STREAM, NUMBERED, knobs)
    rows: list[Row] = []
    for kill in range(1 if seed < FAST else KILLS_IN_A_ROW):
        by_time = rng.random() < 0.25
        job = Job(
            store=str(store.path),
            journal=str(tmp_path / f"journal-{kill}"),
            seed=rng.randrange(1 << 30),
            n_operations=N_OPERATIONS,
            first_arrival=1000 * kill,
            die_at=None if by_time else rng.randrange(STEPS_MAX),
            die_after_s=rng.uniform(0.01, 0.6) if by_time else None,
        )
        assert server.run(job) != [FAILED]
        rows = check_after_kill(store, outcomes(rows, Path(job.journal)), rng)
