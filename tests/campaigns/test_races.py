"""Several processes at once on one stream: each append lands whole, in the order of commits."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from chronicle import StreamSettings, create_store, open_store
from tests.campaigns.kill_worker import STREAM, Job
from tests.campaigns.seeds import seeds
from tests.campaigns.worker_server import WorkerServer
from tests.store_model import (
    NUMBERED,
    PROBE,
    Row,
    check_answers,
    faults_of,
    in_order,
    plain,
    rows_of,
)

ARRIVALS = 1_000_000
"""Arrival numbers of a worker: as many as it will ever use."""

TIDY = ("compact", "index", "merge runs", "drop index", "repair")
ROLES = (("append",), ("append",), TIDY)


@pytest.fixture(scope="module")
def server() -> Iterator[WorkerServer]:
    with WorkerServer("kill_worker") as opened:
        yield opened


def batches(journals: list[Path]) -> dict[int, list[Row]]:
    """Return what was appended, by the version that holds it."""
    found: dict[int, list[Row]] = {}
    for journal in journals:
        rows: list[Row] = []
        for line in journal.read_text(encoding="utf-8").splitlines():
            [(kind, detail)] = json.loads(line).items()
            if kind == "append":
                rows = detail
            elif kind == "refused":
                assert not rows, f"an append gave up: {detail}"
            elif kind == "done" and rows:
                assert detail not in found
                found[detail] = rows
                rows = []
    return found


@pytest.mark.parametrize("seed", seeds(10, fast=2))
def test_appends_of_many_land_whole_and_in_order_of_their_commits(
    tmp_path: Path, server: WorkerServer, seed: int
) -> None:
    rng = random.Random(seed)
    store = create_store(tmp_path / "store")
    knobs = StreamSettings(time="t", block_events=3, file_events=rng.randint(5, 12), fan_out=2)
    stream = store.create_stream(STREAM, NUMBERED, knobs)
    journals = [tmp_path / f"journal-{i}" for i in range(len(ROLES))]
    jobs = [
        Job(
            store=str(store.path),
            journal=str(journals[i]),
            seed=rng.randrange(1 << 30),
            n_operations=8,
            first_arrival=i * ARRIVALS,
            die_at=None,
            kinds=kinds,
        )
        for i, kinds in enumerate(ROLES)
    ]
    seen: list[tuple[int, list[Row]]] = []
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(server.run, *jobs)
        while not running.done():
            version = stream.refresh()
            rows = rows_of(stream, version)
            check_answers(store, STREAM, rows, PROBE, as_of=version)
            seen.append((version, rows))
        assert running.result() == [0] * len(jobs)
    seen.append((stream.refresh(), rows_of(stream)))
    appended = batches(journals)
    for version, rows in seen:
        landed = [row for at in sorted(appended) if at <= version for row in appended[at]]
        assert plain(rows) == plain(in_order(landed)), version
    check_answers(open_store(store.path), STREAM, seen[-1][1], PROBE)
    assert faults_of(store, deep=True) == []
