"""An ingest in a process of its own: what it prints, and what Ctrl-C and a kill leave behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chronicle.ingest import IngestOptions
from chronicle.ingest.pipeline import ingest
from chronicle.store import Store, create_store, open_store

ROOT = Path(__file__).resolve().parents[2]

SCRIPT = """
import os, signal, sys
from contextlib import suppress
from pathlib import Path
from chronicle.ingest import IngestOptions, ingest
from chronicle.store import open_store
from indexing import RunWriter

class Interrupting(RunWriter):
    # Presses Ctrl-C in the driver while a task writes.
    def write(self, *args):
        os.kill(int(os.environ["DRIVER_PID"]), signal.SIGINT)
        return super().write(*args)

def kill_at(step):
    def progress(text):
        if text == step:
            os.kill(os.getpid(), signal.SIGKILL)
    return progress

# A process started in the background inherits that Ctrl-C is ignored; this one must hear it.
signal.signal(signal.SIGINT, signal.default_int_handler)
os.environ["DRIVER_PID"] = str(os.getpid())
store = open_store("store")
options = IngestOptions(time="t", index=("n",), master="local[2]")
log = Path("spark.log")
ingest(store, "s", ["0.parquet"], options, derived=RunWriter, log_file=log)
try:
    ingest(store, "s", ["1.parquet"], options, derived=Interrupting, log_file=log)
except KeyboardInterrupt:
    assert not list(Path("store").glob(".ingest-*")), "staging is left"
else:
    sys.exit("the interrupt was swallowed")
ingest(store, "s", ["2.parquet"], options, derived=RunWriter, log_file=log,
       progress=kill_at("committing"))
"""


def read_times(store: Store) -> list[int]:
    snapshot = store.stream("s").snapshot()
    times = snapshot.read_blocks(np.arange(snapshot.n_blocks), ["t"]).column("t").to_pylist()
    return [int(time) for time in times]


@pytest.mark.spark
def test_killed_and_interrupted_ingests_are_silent_and_change_nothing(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    create_store(tmp_path / "store")
    for i in range(3):
        times = pa.array(range(10 * i, 10 * i + 10), pa.int64())
        pq.write_table(pa.table({"t": times, "n": times}), tmp_path / f"{i}.parquet")
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("", "")
    assert done.returncode == -signal.SIGKILL
    assert (tmp_path / "spark.log").stat().st_size > 0

    store = open_store(tmp_path / "store")
    assert read_times(store) == list(range(10))
    assert len(list(store.path.glob(".ingest-*"))) == 1

    request.getfixturevalue("spark")
    ingest(store, "s", [tmp_path / "2.parquet"], IngestOptions(time="t"))
    assert read_times(store) == [*range(10), *range(20, 30)]
    assert not list(store.path.glob(".ingest-*"))


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
@pytest.mark.parametrize("moment", ["launch", "context"])
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
