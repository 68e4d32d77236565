"""An online query whose process is killed goes on in another one as if it had never died."""

from __future__ import annotations

import random
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.campaigns.online_worker import QUERIES, Job, not_killed, told
from tests.campaigns.seeds import seeds
from tests.campaigns.worker_server import WorkerServer

N_SEEDS = 200

KILLS = 2
"""In a row."""

PIECES_MIN = 10
"""Of at most 40 events each there are no fewer."""


@pytest.fixture(scope="module")
def server() -> Iterator[WorkerServer]:
    with WorkerServer("online_worker") as opened:
        yield opened


@pytest.mark.parametrize("seed", seeds(N_SEEDS, fast=2))
def test_rows_are_those_of_a_run_that_was_not_killed(
    tmp_path: Path, server: WorkerServer, seed: int
) -> None:
    rng = random.Random(seed)
    whole = {query: not_killed(query, seed) for query in QUERIES}
    folders = {query: str(tmp_path / query) for query in QUERIES}
    for folder in folders.values():
        Path(folder).mkdir()

    def run(die_in: int | None) -> list[int]:
        pieces = rng.randrange(1 << 30)
        return server.run(*(Job(of, query, seed, pieces, die_in) for query, of in folders.items()))

    for kill in range(KILLS):
        # The next ones may have fewer pieces left than that.
        ends = run(rng.randrange(PIECES_MIN))
        assert set(ends) <= ({-signal.SIGKILL} if kill == 0 else {0, -signal.SIGKILL})
        for query, rows in whole.items():
            given = told(folders[query])
            assert len(rows) > 1
            assert given == rows[: len(given)], query
    assert set(run(None)) == {0}
    for query, rows in whole.items():
        assert told(folders[query]) == rows, query
