"""``chronicle replay``: a stretch of history on standard output, in a file, in a topic."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pytest

import replay
from chronicle import open_store
from tests.cli.commands import Commands


def rows_of(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        pytest.param("--columns t", [{"t": t} for t in range(40)], id="every event"),
        pytest.param(
            "--from 10 --to 30 --where 'a = :a' --param a=2 --columns x,t",
            [{"x": t / 4, "t": t} for t in (12, 17, 22, 27)], id="a stretch and a condition",
        ),
        pytest.param("--columns a --to 3 --speed 1000", [{"a": 0}, {"a": 1}, {"a": 2}],
                     id="the time is not among the columns"),
        pytest.param("--to 2 --loop 3 --columns t", [{"t": t} for t in (0, 1, 0, 1, 0, 1)],
                     id="more than once"),
    ],
)  # fmt: skip
def test_events_come_as_lines_of_json(
    command: Commands, words: str, expected: list[dict[str, object]]
) -> None:
    done = command.succeeds("replay", "s", *shlex.split(words))
    assert rows_of(done.out) == expected
    assert done.err.startswith(f"{len(expected)} events in ")


def test_a_file_gets_the_rows_as_csv(command: Commands, tmp_path: Path) -> None:
    out = tmp_path / "events.csv"
    done = command("replay", "s", "--columns", "t,s", "--to", "2", "--format", "csv", "--out", out)
    assert (done.code, done.out) == (0, "")
    assert out.read_text() == '"t","s"\n0,"quiet"\n1,"quiet"\n'


@pytest.mark.parametrize(
    "sql",
    [
        """SELECT window_start, COUNT(*) AS n, SUM(x) AS total
        FROM TABLE(HOP(TABLE s, DESCRIPTOR(t), 3, 7)) WHERE a <> 1
        GROUP BY window_start, window_end""",
        """SELECT * FROM s MATCH_RECOGNIZE (ORDER BY t MEASURES A.t AS a, B.t AS b
        PATTERN (A Z* B) WITHIN 6 DEFINE A AS a = 1, B AS a = 4)""",
        "SELECT l.t, r.t AS u FROM s AS l JOIN s AS r WITHIN 3 ON l.a = r.a - 2",
        """FROM s DEFINE A AS a IN (2, 3) AT LEAST 2, B AS x > 5
        PATTERN A overlaps;starts;during B WITHIN 15 RETURN COUNT(A.*) AS n""",
    ],
)
def test_a_query_attached_gives_the_answer_it_gives_over_history(
    command: Commands, sql: str
) -> None:
    expected = replay.query(open_store(command.store), sql).table.to_pylist()
    assert expected
    for pace in ([], ["--speed", "1000"]):
        assert rows_of(command("replay", "s", "--query", sql, *pace).out) == expected, pace


@pytest.mark.parametrize("threads", ["3", "auto"])
def test_threads_that_share_situations_print_the_same_lines(
    command: Commands, threads: str
) -> None:
    sql = """FROM s DEFINE A AS a IN (2, 3) AT LEAST 2, B AS x > 5
    PATTERN A overlaps;starts;during B WITHIN 15"""
    alone = command("replay", "s", "--query", sql).out
    assert alone
    for pace in ([], ["--speed", "60"]):
        assert command("replay", "s", "--query", sql, "--threads", threads, *pace).out == alone


def test_threads_have_nothing_to_share_in_a_query_without_situations(command: Commands) -> None:
    done = command("replay", "s", "--query", "SELECT t FROM s WHERE a = 1", "--threads", "2")
    assert (done.code, done.out) == (1, "")
    assert "over situations" in done.words


def test_a_replay_ends_when_the_query_attached_has_enough(command: Commands) -> None:
    sql = "SELECT t FROM s WHERE a = 1 LIMIT 1"
    done = command("replay", "s", "--query", sql, "--speed", "10")
    assert (done.code, rows_of(done.out)) == (0, [{"t": 1}])
    assert "40 events" not in done.err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--from", "noon"], "'noon' is no time of this stream"),
        (["--from", "5", "--to", "5"], "nothing lies from 5 to before 5"),
        (["--columns", "q"], "has no column 'q'"),
        (["--where", "q = 1"], "no attribute 'q'"),
        (["--from", "5", "--to", "6", "--where", "a = 1) OR (a = 2"], "expected"),
        (["--speed", "0"], "does not go forward"),
        (["--loop", "0"], "replays nothing"),
    ],
)
def test_what_makes_no_sense_is_refused(command: Commands, options: list[str], said: str) -> None:
    done = command("replay", "s", *options)
    assert (done.code, done.out) == (1, "")
    assert said in done.err


def test_a_query_over_two_streams_is_refused_by_their_names(command: Commands) -> None:
    done = command("replay", "s", "--query", "SELECT s.t FROM s JOIN other WITHIN 2")
    assert (done.code, done.out) == (2, "")
    assert "reads s, other" in done.words


def test_a_query_without_a_stream_is_refused(command: Commands) -> None:
    done = command("replay", "s", "--query", "SELECT 1 + 1")
    assert (done.code, done.out) == (1, "")
    assert "a SELECT without FROM has no events to wait for" in done.err


@pytest.mark.parametrize("source", ["other", "S"])
def test_a_query_over_another_stream_is_not_answered_by_the_events_of_this_one(
    command: Commands, source: str
) -> None:
    done = command("replay", "s", "--query", f"SELECT t FROM {source} WHERE a = 1")
    assert (done.code, done.out) == (2, "")
    assert f"hands out the events of 's', and the query reads '{source}'" in done.words


def test_ctrl_c_says_where_it_was_and_nothing_of_commits(command: Commands) -> None:
    taken = []

    def write(_: object, table: pa.Table) -> None:
        taken.append(table.num_rows)
        raise KeyboardInterrupt

    with patch("replay.pacing.outlets._Streamed.write", write):
        done = command("replay", "s")
    assert done.code == 130
    assert done.err == f"interrupted after {taken[0]} events, at {taken[0] - 1}\n"
