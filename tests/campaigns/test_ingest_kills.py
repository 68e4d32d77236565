"""A killed ingest on Spark, or adopting, adds its events wholly or not at all, and once again."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chronicle import check_stream, open_store
from chronicle.errors import StreamNotFoundError
from chronicle.maintenance.finding import faults_of as faults_in
from indexing.check import check_runs
from tests.campaigns.victims import STREAM, adopt_it
from tests.store_model import faults_of, rows_of

ROOT = Path(__file__).resolve().parents[2]
STEPS = (0, 3, 6, 9, 12, 16, 20)

ADOPTING_STEPS_MAX = 90
"""More than adopting two files takes."""


def run(*words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.campaigns.victims", *map(str, words)]
    return subprocess.run(command, cwd=ROOT, check=False, stdout=subprocess.PIPE, text=True)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("step", STEPS)
def test_killed_ingest_adds_all_or_nothing_and_can_be_run_again(tmp_path: Path, step: int) -> None:
    rng = random.Random(step)
    batches = [
        [{"t": rng.randint(0, 50) + late, "a": rng.randint(0, 3), "n": i} for i in range(300)]
        for late in (20, 0)  # the second is late in part
    ]
    store = tmp_path / "store"
    rows: list[dict[str, int]] = []
    for number, batch in enumerate(batches):
        source = tmp_path / f"{number}.parquet"
        pq.write_table(pa.Table.from_pylist(batch), source)
        assert run("ingest", store, source, step).returncode in (0, -signal.SIGKILL)
        after = sorted(rows + batch, key=lambda row: row["t"])
        try:
            assert rows_of(open_store(store).stream(STREAM)) in (rows, after)
        except StreamNotFoundError:
            assert not rows
        assert run("ingest", store, source).returncode == 0
        rows = after
        assert rows_of(open_store(store).stream(STREAM)) == rows
        assert faults_of(open_store(store), deep=True) == []


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param(range(5, ADOPTING_STEPS_MAX, 25), id="some steps"),
        pytest.param(range(ADOPTING_STEPS_MAX), id="every step", marks=pytest.mark.slow),
    ],
)
def test_killed_adopting_run_again_does_the_rest_and_leaves_the_table(
    tmp_path: Path, steps: range
) -> None:
    lake = tmp_path / "lake"
    lake.mkdir()
    for i in range(2):
        events = pa.table({"t": range(i * 50, i * 50 + 50), "a": [t % 7 for t in range(50)]})
        pq.write_table(events, lake / f"{i}.parquet", row_group_size=20)

    def content() -> dict[str, tuple[bytes, int]]:
        return {one.name: (one.read_bytes(), one.stat().st_mtime_ns) for one in lake.iterdir()}

    before = content()
    statuses = [int(line) for line in run("adopt", tmp_path, lake, *steps).stdout.split()]
    assert len(statuses) == len(steps)
    assert statuses[0] == -signal.SIGKILL
    assert set(statuses) <= {0, -signal.SIGKILL}
    for step in steps:
        assert adopt_it(tmp_path / f"store-{step}", lake) == 100, step
        stream = open_store(tmp_path / f"store-{step}").stream(STREAM)
        assert faults_in(check_stream(stream, deep=True, derived_checks=[check_runs])) == [], step
    assert content() == before
