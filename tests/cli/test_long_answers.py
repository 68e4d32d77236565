"""Answers are written as they are found: what an error leaves of them, and what is told."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import replay.console.answers
from chronicle import StreamSettings, create_store
from replay.console.show import print_rows
from tests.cli.commands import Commands, assert_refused

N = 100
SQL = (
    "SELECT window_start, SUM(a) AS total FROM TABLE(TUMBLE(TABLE big, DESCRIPTOR(t), 1)) "
    "GROUP BY window_start, window_end"
)


@pytest.fixture
def overflowing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Commands:
    """A stream whose last window overflows."""
    most = (1 << 63) - 1
    table = pa.table({"t": [*range(N), N - 1], "a": [*range(N - 1), most, most]})
    store = create_store(tmp_path / "store")
    store.create_stream("big", table.schema, StreamSettings("t")).append(table)
    return Commands(store.path, monkeypatch, capsys)


def test_an_error_among_the_first_rows_leaves_nothing_written(overflowing: Commands) -> None:
    for extra in ((), ("--format", "csv")):
        assert_refused(overflowing("query", SQL, *extra), "does not fit 64 bits")


def test_a_later_error_comes_after_the_rows_before_it(
    overflowing: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay.console.answers, "ROWS_HELD", 10)
    done = overflowing("query", SQL, "--format", "csv")
    assert done.code == 1
    assert "does not fit 64 bits" in done.err
    assert len(done.out.splitlines()) == 1 + (N - 1)


@pytest.mark.parametrize("nameless", [True, False])
@pytest.mark.parametrize("output_format", ["csv", "json", "parquet", "arrow"])
def test_a_file_is_the_whole_answer_or_as_it_was(
    overflowing: Commands,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    output_format: str,
    nameless: bool,
) -> None:
    monkeypatch.setattr(replay.console.answers, "ROWS_HELD", 10)
    if not nameless:
        monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    folder = tmp_path / "answers"
    folder.mkdir()
    (folder / "old").write_text("before")
    for name in ("old", "new"):
        done = overflowing("query", SQL, "--format", output_format, "--out", folder / name)
        assert (done.code, "does not fit 64 bits" in done.err) == (1, True)
    assert [(file.name, file.read_text()) for file in folder.iterdir()] == [("old", "before")]

    overflowing.succeeds(
        "query", "SELECT t FROM big", "--format", output_format, "--out", folder / "old"
    )
    assert [file.name for file in folder.iterdir()] == ["old"]
    assert (folder / "old").read_bytes() != b"before"


@pytest.mark.parametrize("output_format", ["json", "parquet", "arrow"])
def test_what_is_piped_of_an_answer_with_a_late_error_is_not_read_as_whole(
    overflowing: Commands, monkeypatch: pytest.MonkeyPatch, output_format: str
) -> None:
    monkeypatch.setattr(replay.console.answers, "ROWS_HELD", 10)
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(piped := io.BytesIO()))
    done = overflowing("query", SQL, "--format", output_format)
    assert (done.code, "does not fit 64 bits" in done.err) == (1, True)
    assert piped.getvalue()  # rows before the error have left by then
    read = {
        "json": json.loads,
        "parquet": lambda written: pq.read_table(io.BytesIO(written)),
        "arrow": lambda written: pa.ipc.open_stream(written).read_all(),
    }
    with pytest.raises((json.JSONDecodeError, pa.ArrowInvalid)):
        read[output_format](piped.getvalue())


COMPILES = (
    b"compiling what this query needs; it takes some seconds, once for each version of Chronicle\n"
)
INTERRUPTIBLE = (  # interrupts are ignored by what a shell starts in the background
    "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "from replay.console.app import main; sys.exit(main())"
)


def _writes_into(folder: Path, process: int) -> bool:
    """Whether a process has a file open in the folder, with or without a name."""
    for descriptor in Path(f"/proc/{process}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed by now
            if descriptor.readlink().is_relative_to(folder):
                return True
    return False


@pytest.mark.skipif(not hasattr(os, "O_TMPFILE"), reason="files have names from the first byte")
@pytest.mark.parametrize(
    "sent",
    [signal.SIGINT, signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)],
)
def test_a_signal_leaves_of_a_file_what_was_there(
    overflowing: Commands, tmp_path: Path, sent: signal.Signals
) -> None:
    folder = tmp_path / "answers"
    folder.mkdir()
    (folder / "old").write_text("before")
    endless = (  # 2^100 matches
        "SELECT * FROM big MATCH_RECOGNIZE (ORDER BY t MEASURES LAST(t) AS last PATTERN (A+) "
        "SEMANTICS SKIP TILL ANY DEFINE A AS a >= 0)"
    )
    words = ["query", endless, "--store", overflowing.store, "--format", "csv", "--out"]
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTIBLE, *words, folder / "old"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    try:
        while not _writes_into(folder, process.pid):
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(sent)
        said, _ = process.communicate(timeout=30)
    finally:
        process.kill()
        process.wait()
    said = said.replace(COMPILES, b"")  # which tests ran before decides whether it has to
    ended = (130, b"interrupted\n") if sent is signal.SIGINT else (-sent, b"")
    assert (process.returncode, said) == ended
    assert [(file.name, file.read_text()) for file in folder.iterdir()] == [("old", "before")]


def test_what_happened_is_told_of_a_long_answer(
    overflowing: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay.console.answers, "ROWS_HELD", 1)
    done = overflowing.succeeds("query", "SELECT t FROM big", "--format", "csv", "--analyze")
    assert done.out.splitlines() == ['"t"', *map(str, [*range(N), N - 1])]
    assert f"{N + 1} of {N + 1}" in done.err


def test_a_table_shows_the_first_rows_of_all_pieces(capsys: pytest.CaptureFixture[str]) -> None:
    pieces = [pa.table({"n": pa.array(range(first, first + 3))}) for first in range(0, 45, 3)]

    def found() -> Iterator[pa.Table]:
        yield pieces[0].slice(0, 0)
        yield from pieces

    print_rows(found())
    lines = capsys.readouterr().out.splitlines()
    assert [line.strip() for line in lines[2:42]] == list(map(str, range(40)))
    assert lines[-1] == "… 5 more rows (--rows 45 shows them)"
