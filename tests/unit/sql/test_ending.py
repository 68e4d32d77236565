"""DuckDB's process ends when a limit is passed, whatever DuckDB does there."""

import os
import resource
import subprocess
import sys
from _thread import interrupt_main
from signal import SIGINT, SIGKILL, SIGTERM, default_int_handler, signal
from threading import Timer
from time import perf_counter, sleep

import pyarrow as pa
import pytest

import replay
from replay.errors import LimitExceededError, QueryError
from replay.sql import connection
from replay.sql.connection import Allowed, Session

EVENTS = {"s": pa.table({"t": range(3000), "u": ["ab"] * 3000})}
OVER = "COUNT(*) OVER () AS c"
PAD = "MAX(length(lpad(u, 50000000, 'x')))"


def ask(value, **limits):
    return replay.query(EVENTS, f"SELECT {value} AS v, {OVER} FROM s", **limits)


def check_that_it_ends(value, **limits):
    begun, peak = perf_counter(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(LimitExceededError):
        ask(value, **limits)
    assert perf_counter() - begun < 20
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak < 500_000  # KB


def test_a_text_that_grows_ends_with_the_time_allowed():
    check_that_it_ends(PAD, timeout=0.5)


def test_a_list_that_grows_ends_with_the_memory_allowed():
    check_that_it_ends("list_resize([t], 100000)", memory=400_000_000)


@pytest.mark.slow
@pytest.mark.parametrize(
    "value",
    [
        "list_resize([1], 200000000)",
        "length(repeat(repeat(u, 100000), 1000))",
        "length(replace(repeat(u, 10000), 'a', repeat(u, 10000)))",
        "len(range(500000000 + t))",
        "length(format('{:>500000000}', u || t))",
        "length(array_to_string(list_resize([u], 100000000, u), ','))",
        "len(list_transform(range(100000), lambda x: range(100000 + t)))",
        "len(ARRAY_AGG(t) OVER ()) + len(list_resize([t], 5000000))",
        "levenshtein(repeat(u, 300000), repeat('ba', 300000 + t))",
    ],
)
def test_whatever_grows_ends_with_a_limit(value):
    check_that_it_ends(value, timeout=3, memory=500_000_000)


def test_ctrl_c_ends_what_duckdb_would_not_leave():
    before = signal(SIGINT, default_int_handler)  # in the background it is ignored
    begun = perf_counter()
    try:
        Timer(0.5, interrupt_main).start()
        with pytest.raises(KeyboardInterrupt):
            ask(PAD)
    finally:
        signal(SIGINT, before)
    assert perf_counter() - begun < 20
    assert ask("length(u)").table["v"][0].as_py() == 2  # by another process


def test_a_process_that_the_system_ended_is_told_and_the_next_statement_has_another():
    session = Session(Allowed((), 1, None))
    os.kill(session._worker.process.pid, SIGKILL)
    with pytest.raises(LimitExceededError, match="needs too much memory"):
        session.execute("SELECT 1", {})
    session.close()
    session = Session(Allowed((), 1, None))
    assert session.execute("SELECT 1", {}) == [(1,)]
    session.close()


def test_a_process_that_somebody_ended_is_told_by_its_signal():
    session = Session(Allowed((), 1, None))
    os.kill(session._worker.process.pid, SIGTERM)
    for _ in range(2):
        with pytest.raises(QueryError, match="ended by signal 15; ask again"):
            session.execute("SELECT 1", {})
    session.close()


def test_a_process_that_finds_no_duckdb_names_the_package(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    session = Session(Allowed((), 1, None))
    os.kill(session._worker.process.pid, SIGTERM)
    with pytest.raises(QueryError, match="pip install 'duckdb"):
        session.execute("SELECT 1", {})


def test_a_process_that_was_ended_while_it_waited_leaves_no_folder(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    while connection._idle.get(os.getpid()):
        connection._idle[os.getpid()].pop().end()
    Session(Allowed((), 1, None)).close()
    (folder,) = tmp_path.iterdir()
    worker = connection._idle[os.getpid()][0]
    worker.process.kill()
    worker.process.wait()
    assert ask("length(u)").table["v"][0].as_py() == 2
    assert not folder.exists()


@pytest.mark.parametrize("end", ["os._exit(0)", "os.kill(os.getpid(), 9)"])
def test_a_process_that_ends_without_a_word_leaves_no_folder(tmp_path, end):
    text = (
        "import os; from replay.sql.connection import Allowed, Session;"
        f"Session(Allowed((), 1, None)).close(); {end}"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", text], env=environment, check=False)
    until = perf_counter() + 20
    while list(tmp_path.iterdir()) and perf_counter() < until:
        sleep(0.02)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("memory", [1, 100_000])
def test_memory_that_holds_not_one_block_of_duckdb_is_a_limit(memory):
    with pytest.raises(LimitExceededError, match="more memory than it may have"):
        ask("length(u)", memory=memory)


def test_texts_that_no_array_of_arrow_holds_are_a_limit():
    with pytest.raises(LimitExceededError, match="more memory than it may have"):
        replay.query(
            {"s": EVENTS["s"].slice(0, 3)}, f"SELECT repeat('x', 800000000), {OVER} FROM s"
        )


def test_a_value_that_no_process_takes_is_refused_and_leaves_duckdb_there():
    with pytest.raises(QueryError, match="no such value as a parameter"):
        ask("$x", params={"x": lambda: 1})
    assert ask("$x", params={"x": 5}).table["v"][0].as_py() == 5
