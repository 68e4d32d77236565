"""A killed ingest on Spark adds its events wholly or not at all, and once when repeated."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chronicle import open_store
from chronicle.errors import StreamNotFoundError
from tests.campaigns.ingest_victim import STREAM
from tests.store_model import faults_of, rows_of

ROOT = Path(__file__).resolve().parents[2]
STEPS = (0, 3, 6, 9, 12, 16, 20)


def run(store: Path, source: Path, step: int | None) -> int:
    command = [sys.executable, "-m", "tests.campaigns.ingest_victim", str(store), str(source)]
    command.append("" if step is None else str(step))
    return subprocess.run(command, cwd=ROOT, check=False).returncode


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
        assert run(store, source, step) in (0, -signal.SIGKILL)
        after = sorted(rows + batch, key=lambda row: row["t"])
        try:
            assert rows_of(open_store(store).stream(STREAM)) in (rows, after)
        except StreamNotFoundError:
            assert not rows
        assert run(store, source, None) == 0
        rows = after
        assert rows_of(open_store(store).stream(STREAM)) == rows
        assert faults_of(open_store(store), deep=True) == []
