"""Run and tree files are not trusted: damaged or crafted, they cost time or are one stated error.

Goal: no byte of a derived file ends the process, allocates without bound or gives a traceback.
Method: files of a small stream with indexes are damaged (no checksum is right any more) or crafted
(all of them are, and what they cover is wrong); a child process asks questions that read every
column, so that a signal is seen. A crafted file may say consistently what is false: then the deep
check has to name it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from chronicle import StreamSettings, create_store
from indexing import RunWriter, compact_index
from tests.helpers import commit_table

ATTRIBUTES = ("n", "x", "word")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stream of three files with tree files, of whose three indexes one is merged."""
    path = tmp_path_factory.mktemp("untrusted") / "store"
    n = 360
    events = pa.table(
        {
            "t": pa.array([i + i // 9 for i in range(n)], pa.int64()),
            "n": pa.array([None if i % 11 == 0 else i * 7 % 10 for i in range(n)], pa.int64()),
            "x": [float("nan") if i % 13 == 0 else i * 31 % 97 / 8 for i in range(n)],
            "word": [None if i % 17 == 0 else f"w{i * 5 % 7}" for i in range(n)],
            "flag": [i % 3 == 0 for i in range(n)],
            "object": [None if i % 29 == 0 else f"o{i % 5}" for i in range(n)],
        }
    )
    settings = StreamSettings(time="t", key="object", block_events=16, file_events=120, fan_out=4)
    stream = create_store(path).create_stream("s", events.schema, settings)
    writer = RunWriter(ATTRIBUTES, "t", key="object", fence_entries=16)
    commit_table(stream, events, derived=writer)
    compact_index(stream, "n")
    return path


def run_cases(store: Path, kind: str, first: int, last: int) -> dict[str, int]:
    """Try cases in a process of their own; return how many had which outcome."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.campaigns.file_worker", store, kind, str(first), str(last)],
        capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    lines = done.stdout.splitlines()
    at = lines[-1] if lines else "the start"
    assert done.returncode == 0, f"ended with {done.returncode} at {at}:\n{done.stderr[-3000:]}"
    outcomes: dict[str, int] = json.loads(lines[-1])
    assert sum(outcomes.values()) == last - first
    return outcomes


@pytest.mark.parametrize(("kind", "n_cases"), [("damage", 15), ("craft", 60)])
def test_some_files_that_lie_end_no_process(store: Path, kind: str, n_cases: int) -> None:
    outcomes = run_cases(store, kind, 0, n_cases)
    assert any("right" in how for how in outcomes)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "first", "last"),
    [("damage", 1000, 1300), *(("craft", n, n + 500) for n in range(10_000, 20_000, 500))],
)
def test_many_files_that_lie_end_no_process(store: Path, kind: str, first: int, last: int) -> None:
    print(run_cases(store, kind, first, last))
