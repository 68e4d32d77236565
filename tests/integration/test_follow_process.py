"""A follower in a process of its own that is killed again and again: each file is taken once."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time as clock
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chronicle.ingest import IngestOptions, follow
from chronicle.log import delta_log
from chronicle.store import Store, create_store, open_store
from indexing import RunWriter

ROOT = Path(__file__).resolve().parents[2]

SCRIPT = """
import signal, sys
from pathlib import Path
from chronicle.ingest import IngestOptions, follow
from chronicle.store import open_store
from indexing import RunWriter

# A process started in the background inherits that Ctrl-C is ignored; this one must hear it.
signal.signal(signal.SIGINT, signal.default_int_handler)
options = IngestOptions(time="t", index=("n",), block_events=16, file_events=64, master="local[2]")
report = follow(open_store("store"), "s", "in", options, derived=RunWriter,
                progress=lambda text: print(text, flush=True), log_file=Path("spark.log"))
print(report)
"""

MOMENTS = ("reading", "checking", "writing", "merging", "committing", "batch")
_SECONDS_MAX = 300


class Feed:
    """Puts files into the folder, in the order in which they are to arrive."""

    def __init__(self, folder: Path, generator: random.Random) -> None:
        self._folder = folder
        self._generator = generator
        self._begin = clock.time() - 10_000
        self.rows: list[tuple[int, int]] = []
        self._n_files = 0

    def put(self) -> None:
        times = [self._generator.randrange(40) + 10 * self._n_files for _ in range(50)]
        new = [(t, len(self.rows) + i) for i, t in enumerate(times)]
        columns = [pa.array(column, pa.int64()) for column in zip(*new, strict=True)]
        draft = self._folder.parent / "draft.parquet"
        pq.write_table(pa.table(columns, names=["t", "n"]), draft)
        self._n_files += 1
        os.utime(draft, (self._begin, self._begin + self._n_files))
        # No order of names: files arrive by time.
        draft.rename(self._folder / f"{self._generator.randrange(10**9)}.parquet")
        self.rows += new


def run(folder: Path, on_line: Callable[[str, int], None]) -> tuple[int, str]:
    """Run a follower, telling ``on_line`` each line it says and its process id."""
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    watchdog = threading.Timer(_SECONDS_MAX, process.kill)
    watchdog.start()
    said = []
    assert process.stdout is not None
    with process.stdout:
        for line in process.stdout:
            said.append(line)
            on_line(line, process.pid)
    code = process.wait()
    watchdog.cancel()
    return code, "".join(said)


def kill_at(moment: str, delay: float) -> Callable[[str, int], None]:
    """Return what kills a follower some time after it first said something, without a warning."""

    def on_line(line: str, pid: int) -> None:
        if line.startswith(moment):
            clock.sleep(delay)
            os.kill(pid, signal.SIGKILL)

    return on_line


def interrupt(line: str, pid: int) -> None:
    if line.startswith("writing"):
        os.kill(pid, signal.SIGINT)


def read(store: Store) -> list[tuple[int, int]]:
    snapshot = store.stream("s").snapshot()
    table = snapshot.read_blocks(np.arange(snapshot.n_blocks), ["t", "n"])
    columns = [table.column(name).to_pylist() for name in ("t", "n")]
    return list(zip(*columns, strict=True))


@pytest.mark.spark
@pytest.mark.parametrize(
    ("seed", "n_kills"),
    [pytest.param(5, 1, id="one"), pytest.param(6, 25, id="many", marks=pytest.mark.slow)],
)
def test_killed_follower_takes_each_file_once_and_ctrl_c_ends_it_after_its_batch(
    tmp_path: Path, request: pytest.FixtureRequest, seed: int, n_kills: int
) -> None:
    generator = random.Random(seed)
    create_store(tmp_path / "store")
    (tmp_path / "in").mkdir()
    feed = Feed(tmp_path / "in", generator)
    feed.put()
    for n in range(n_kills):
        # The first kill hits what a first batch says; later ones meet late events too.
        moments = [one for one in MOMENTS if n > 0 or one != "merging"]
        moment, delay = generator.choice(moments), generator.random() / 2
        feed.put()
        code, said = run(tmp_path, kill_at(moment, delay))
        assert code == -signal.SIGKILL, said
    feed.put()
    code, said = run(tmp_path, interrupt)
    assert code == 0, said
    assert "interrupted; ending after the running batch" in said

    # What it ended after may have been a batch that a kill had left undone.
    request.getfixturevalue("spark")
    store = open_store(tmp_path / "store")
    options = IngestOptions(time="t", index=("n",))
    follow(store, "s", tmp_path / "in", options, derived=RunWriter, once=True)
    assert read(store) == sorted(feed.rows, key=lambda row: row[0])
    runs = {file.name for file in delta_log.live_files(store.path / "s" / "index" / "n")}
    assert runs
