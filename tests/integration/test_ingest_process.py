"""Ingests and followers that a kill or Ctrl-C ends: nothing is said, lost or taken twice."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time as clock
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chronicle.ingest import IngestOptions, follow, ingest
from chronicle.log import delta_log
from chronicle.settings import StreamSettings
from chronicle.store import create_store
from indexing import RunWriter
from tests.ingest_files import read_rows

ROOT = Path(__file__).resolve().parents[2]
OPTIONS = IngestOptions(time="t", index=("n",))

SCRIPT = """
import threading
from pathlib import Path
from chronicle.ingest import IngestOptions, follow, ingest
from chronicle.store import open_store
from indexing import RunWriter

store, log = open_store("store"), Path("spark.log")
of_i = IngestOptions(time="t", index=("n",), master="local[2]")
of_s = IngestOptions(time="t", index=("n",), block_events=16, file_events=64, master="local[2]")
commits = threading.Event()

def hold(step):  # the kill meets this ingest right before its commit
    if step == "committing":
        commits.set()
        threading.Event().wait()

ingesting = {"derived": RunWriter, "log_file": log, "progress": hold}
threading.Thread(
    target=ingest, args=(store, "i", ["0.parquet"], of_i), kwargs=ingesting, daemon=True
).start()
assert commits.wait(120)
follow(store, "s", "in", of_s, derived=RunWriter,
       progress=lambda text: print(text, flush=True), log_file=log)
"""

MOMENTS = ("reading", "checking", "writing", "merging", "committing", "batch")
_SECONDS_MAX = 300


class Feed:
    """Puts files into the folder, in the order in which they are to arrive."""

    def __init__(self, folder: Path, generator: random.Random) -> None:
        self._folder = folder
        self._generator = generator
        self._begin = clock.time() - 10_000
        self.rows: list[dict[str, int]] = []
        self._n_files = 0

    def put(self) -> None:
        times = [self._generator.randrange(40) + 10 * self._n_files for _ in range(50)]
        new = [{"t": t, "n": len(self.rows) + i} for i, t in enumerate(times)]
        draft = self._folder.parent / "draft.parquet"
        pq.write_table(pa.Table.from_pylist(new), draft)
        self._n_files += 1
        os.utime(draft, (self._begin, self._begin + self._n_files))
        # No order of names: files arrive by time.
        draft.rename(self._folder / f"{self._generator.randrange(10**9)}.parquet")
        self.rows += new


def run_killed(folder: Path, moment: str, delay: float) -> None:
    """Run a process and kill it some time after its follower first said a word."""
    with (folder / "errors").open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, "-c", SCRIPT],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    watchdog = threading.Timer(_SECONDS_MAX, process.kill)
    watchdog.start()
    said = []
    assert process.stdout is not None
    with process.stdout:
        for line in process.stdout:
            said.append(line)
            if line.startswith(moment):
                clock.sleep(delay)
                process.kill()
    watchdog.cancel()
    assert process.wait() == -signal.SIGKILL
    assert any(line.startswith(moment) for line in said), said
    assert (folder / "errors").read_text() == ""
    assert (folder / "spark.log").stat().st_size > 0


@contextmanager
def hearing_ctrl_c() -> Iterator[None]:
    """Hear Ctrl-C in the block: a process started in the background inherits that it does not."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.spark
@pytest.mark.parametrize(
    ("seed", "n_kills"),
    [pytest.param(5, 1, id="one"), pytest.param(6, 25, id="many", marks=pytest.mark.slow)],
)
def test_what_a_kill_or_ctrl_c_ends_takes_each_file_once_or_not_at_all(
    tmp_path: Path,
    request: pytest.FixtureRequest,
    capfd: pytest.CaptureFixture[str],
    seed: int,
    n_kills: int,
) -> None:
    generator = random.Random(seed)
    store = create_store(tmp_path / "store")
    events = [pa.table({"t": range(at, at + 10), "n": range(10)}) for at in (0, 10, 20)]
    store.create_stream("i", events[0].schema, StreamSettings("t")).append(events[0])
    for i, table in enumerate(events[1:]):
        pq.write_table(table, tmp_path / f"{i}.parquet")
    (tmp_path / "in").mkdir()
    feed = Feed(tmp_path / "in", generator)
    feed.put()
    for n in range(n_kills):
        # The first kill hits what a first batch says; later ones meet late events too.
        moments = [one for one in MOMENTS if n > 0 or one != "merging"]
        moment, delay = generator.choice(moments), generator.random() / 2
        feed.put()
        run_killed(tmp_path, moment, delay)
    assert [row["t"] for row in read_rows(store, "i")] == list(range(10))
    assert list(store.path.glob(".ingest-*"))

    request.getfixturevalue("spark")
    driver = os.getpid()

    class Interrupting(RunWriter):
        """Presses Ctrl-C in the driver while a task writes."""

        def write(self, *args: Any) -> Any:
            os.kill(driver, signal.SIGINT)
            return super().write(*args)

    capfd.readouterr()
    with hearing_ctrl_c(), pytest.raises(KeyboardInterrupt):
        ingest(store, "i", [tmp_path / "1.parquet"], OPTIONS, derived=Interrupting)
    assert not list(store.path.glob(".ingest-*"))
    assert [row["t"] for row in read_rows(store, "i")] == list(range(10))
    ingest(store, "i", [tmp_path / "0.parquet"], OPTIONS)
    assert [row["t"] for row in read_rows(store, "i")] == list(range(20))

    feed.put()
    said: list[str] = []

    def interrupt(text: str) -> None:
        said.append(text)
        if text.startswith("writing"):
            os.kill(driver, signal.SIGINT)

    with hearing_ctrl_c():
        follow(store, "s", tmp_path / "in", OPTIONS, derived=RunWriter, progress=interrupt)
    assert "interrupted; ending after the running batch" in said
    # What it ended after may have been a batch that a kill had left undone.
    follow(store, "s", tmp_path / "in", OPTIONS, derived=RunWriter, once=True)
    assert read_rows(store) == sorted(feed.rows, key=lambda row: row["t"])
    assert delta_log.live_files(store.path / "s" / "index" / "n")
    assert capfd.readouterr() == ("", "")


STARTING = """
import os, signal, sys, threading
import pyspark.java_gateway
from pyspark import SparkContext
from replay.console.app import main

def press_soon():
    threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()

def interrupted(call):
    def begin(*args, **kwargs):
        press_soon()
        return call(*args, **kwargs)
    return begin

signal.signal(signal.SIGINT, signal.default_int_handler)
if os.environ["MOMENT"] == "launch":
    pyspark.java_gateway.launch_gateway = interrupted(pyspark.java_gateway.launch_gateway)
else:
    SparkContext._initialize_context = interrupted(SparkContext._initialize_context)
main()
"""


def processes_of(session: int) -> list[str]:
    """Return the names of the processes of a session that have not ended."""
    names = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # ended by now
            name, rest = stat.read_text().rsplit(")", 1)
            state, _, _, of = rest.split()[:4]
            if int(of) == session and state != "Z":
                names.append(name)
    return names


@pytest.mark.spark
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are listed elsewhere")
@pytest.mark.parametrize("moment", [pytest.param("launch", marks=pytest.mark.slow), "context"])
def test_ctrl_c_while_spark_starts_is_one_line_and_leaves_no_jvm_and_no_store(
    tmp_path: Path, moment: str
) -> None:
    pq.write_table(pa.table({"t": pa.array(range(10), pa.int64())}), tmp_path / "0.parquet")
    words = ["ingest", "0.parquet", "--store", "store", "--stream", "s", "--time", "t"]
    # Into a file: a JVM that is left would keep a pipe open, and its end would be waited for.
    with (
        (tmp_path / "said").open("wb") as said,
        subprocess.Popen(
            [sys.executable, "-c", STARTING, *words],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT), "MOMENT": moment},
            stdout=said,
            stderr=said,
            start_new_session=True,
        ) as process,
    ):
        assert process.wait(timeout=120) == 130
    assert processes_of(process.pid) == []
    assert (tmp_path / "said").read_text() == (
        "interrupted; every commit is whole or not there, 'chronicle history' lists them\n"
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0.parquet", "said"]
