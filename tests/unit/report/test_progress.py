"""How far work has come: told by those who do it, drawn in terminals alone."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Iterator

import pyarrow as pa
import pytest

import replay
from chronicle import Store
from chronicle.jobs import run_locally
from chronicle.maintenance.check import check_stream
from replay.console import progress
from replay.console.progress import Progress, shown
from replay.query import answer_in_pieces

WAIT_MAX_S = 20


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def as_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Let stderr be a terminal from here on, and a bar come at once."""
    found = Terminal()
    monkeypatch.setattr(sys, "stderr", found)
    monkeypatch.setattr(progress, "FIRST_S", 0.0)
    monkeypatch.setattr(progress, "EACH_S", 0.01)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    return found


def appears(terminal: Terminal, text: str) -> bool:
    until = time.monotonic() + WAIT_MAX_S
    while text not in terminal.getvalue() and time.monotonic() < until:
        time.sleep(0.01)
    return text in terminal.getvalue()


def test_terminal_has_a_bar_until_the_work_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = as_terminal(monkeypatch)
    with Progress("indexing") as told:
        assert shown() is told
        told.count(3, 12)
        assert appears(terminal, "25%")
        assert "indexing" in terminal.getvalue()
        told.step("compiling x")
        assert appears(terminal, "compiling x")
        told("a line that stays")
        assert appears(terminal, "a line that stays")
    assert shown() is None


def test_work_that_cannot_say_how_far_it_is_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = as_terminal(monkeypatch)

    def look() -> tuple[int, int]:
        raise RuntimeError("nobody knows")

    with Progress("reading", look):
        assert appears(terminal, "reading")


def test_pipe_has_words_and_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = io.StringIO()
    monkeypatch.setattr(sys, "stderr", pipe)
    monkeypatch.setattr(progress, "FIRST_S", 0.0)
    with Progress("indexing") as told:
        told.count(1, 2)
        told("indexed 1 of 2 data files")
        assert shown() is None
    assert pipe.getvalue() == "indexed 1 of 2 data files\n"


def test_tables_are_handed_on_while_the_bar_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    as_terminal(monkeypatch)

    def tables() -> Iterator[pa.Table]:
        assert shown() is not None
        yield pa.table({"a": [1]})

    assert [table.num_rows for table in Progress("reading").over(tables())] == [1]
    assert shown() is None


@pytest.mark.parametrize("n", [0, 1, 5])
def test_jobs_tell_how_many_are_done(n: int) -> None:
    heard: list[tuple[int, int]] = []
    tasks = [str(i) for i in range(n)]
    done = run_locally(str.upper, tasks, told=lambda *share: heard.append(share))
    assert done == tasks
    assert heard == [(i, n) for i in range(n + 1)]


def test_check_tells_which_data_file_it_reads(store: Store) -> None:
    heard: list[tuple[int, int]] = []
    check_stream(store.stream("s"), told=lambda *share: heard.append(share))
    assert heard == [(i, 4) for i in range(4)]


def test_query_on_its_way_tells_how_many_blocks_it_has_read(store: Store) -> None:
    answer = answer_in_pieces(store, "SELECT t FROM s WHERE x < 30")
    assert answer.share() == (0, 0)
    n_rows = sum(table.num_rows for table in answer.tables)
    assert n_rows == len(replay.query(store, "SELECT t FROM s WHERE x < 30"))
    done, total = answer.share()
    assert done == total == answer.told().actual.blocks_read
