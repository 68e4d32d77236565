"""Adopting is killed at every step: run again it does the rest, and the table is as it was."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chronicle import check_stream, open_store
from chronicle.maintenance.finding import faults_of
from indexing.check import check_runs
from tests.campaigns.adopt_victim import KILLED, adopt_it

ROOT = Path(__file__).resolve().parents[2]

STEPS_MAX = 90
"""More than adopting two files takes."""


def run_all(folder: Path, steps: range) -> None:
    lake = folder / "lake"
    lake.mkdir()
    for i in range(2):
        events = pa.table({"t": range(i * 50, i * 50 + 50), "a": [t % 7 for t in range(50)]})
        pq.write_table(events, lake / f"{i}.parquet", row_group_size=20)
    before = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in lake.iterdir()}
    words = [sys.executable, "-m", "tests.campaigns.adopt_victim", str(folder), str(lake)]
    done = subprocess.run(
        [*words, *map(str, steps)], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True
    )
    statuses = [int(line) for line in done.stdout.split()]
    assert statuses[0] == KILLED
    assert set(statuses) <= {0, KILLED}
    for step in steps:
        assert adopt_it(folder / f"store-{step}", lake) == 100, step
        stream = open_store(folder / f"store-{step}").stream("s")
        assert faults_of(check_stream(stream, deep=True, derived_checks=[check_runs])) == [], step
    after = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in lake.iterdir()}
    assert after == before


def test_adopting_is_killed_at_some_steps(tmp_path: Path) -> None:
    run_all(tmp_path, range(5, STEPS_MAX, 25))


@pytest.mark.slow
def test_adopting_is_killed_at_every_step(tmp_path: Path) -> None:
    run_all(tmp_path, range(STEPS_MAX))
