"""Writers, readers and tending beside processes that drop, rename and make the stream again."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chronicle import create_store, open_store
from chronicle.maintenance.check import check_store
from chronicle.maintenance.finding import Severity
from indexing.check import check_runs
from replay import query
from tests.campaigns.race_worker import BATCH_EVENTS, STREAM, RaceJob
from tests.campaigns.seeds import seeds
from tests.campaigns.worker_server import WorkerServer

N_RACES, N_RACES_FAST = 20, 1
SECONDS, SECONDS_FAST = 12.0, 2.0
ROLES = ("write", "write", "read", "tend", "remake")


@pytest.fixture(scope="module")
def server() -> Iterator[WorkerServer]:
    with WorkerServer("race_worker") as opened:
        yield opened


def race(server: WorkerServer, folder: Path, seed: int, seconds: float) -> list[dict[str, Any]]:
    """Let several processes loose on one store; return what they say they did."""
    rng = random.Random(seed)
    jobs = [
        RaceJob(
            store=str(folder / "store"),
            journal=str(folder / f"journal-{number}"),
            number=number,
            seed=rng.randrange(1 << 30),
            seconds=seconds,
            role=role,
        )
        for number, role in enumerate(ROLES)
    ]
    assert server.run(*jobs) == [0] * len(jobs)
    lines = [
        json.loads(line)
        for job in jobs
        for line in Path(job.journal).read_text(encoding="utf-8").splitlines()
    ]
    assert lines
    return lines


def check_answer(groups: list[list[int]], life: int | None) -> None:
    """Hold an answer to what any moment of any one life can give: whole appends of that life."""
    assert len({group[0] for group in groups}) <= 1, f"events of several lives: {groups}"
    assert all(group[2] == BATCH_EVENTS for group in groups), groups
    if life is not None and groups:
        assert groups[0][0] == life


@pytest.mark.parametrize("seed", seeds(N_RACES, fast=N_RACES_FAST))
def test_nothing_is_lost_doubled_or_mixed_where_a_stream_is_made_again_and_again(
    tmp_path: Path, server: WorkerServer, seed: int
) -> None:
    store = create_store(tmp_path / "store")
    lines = race(server, tmp_path, seed, SECONDS_FAST if seed < N_RACES_FAST else SECONDS)
    acknowledged: dict[int, set[int]] = {}
    for line in lines:
        if "groups" in line:
            check_answer(line["groups"], line.get("life"))
        assert not line.get("faults"), line
        if line["what"] == "append" and "batch" in line:
            acknowledged.setdefault(line["life"], set()).add(line["batch"])
    print(Counter((line["what"], "refused" in line) for line in lines))
    for name in open_store(store.path).stream_names():
        life = int(open_store(store.path).stream(name).settings.file_events)
        found = query(
            open_store(store.path), f"SELECT batch, COUNT(*) AS n FROM {name} GROUP BY batch"
        )
        rows = found.table.to_pylist()
        assert {row["batch"] for row in rows} == acknowledged.get(life, set()), (seed, name)
        assert all(row["n"] == BATCH_EVENTS for row in rows)
    found_wrong = check_store(open_store(store.path), deep=True, derived_checks=[check_runs])
    assert [f for f in found_wrong if f.severity is Severity.FAULT] == []
    assert (STREAM in open_store(store.path).stream_names()) or not (store.path / STREAM).exists()
