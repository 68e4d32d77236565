"""Where a query comes from, where its answer goes, and what bounds it."""

from __future__ import annotations

import datetime as dt
import io
import json
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer

from replay.console.options import duration, size
from replay.console.show import undisguised
from tests.cli.commands import Commands, assert_refused, write

FIRST = "SELECT t, a FROM s WHERE t < 2"
COLUMNS = ", ".join(f"x * 1000000007 + {i} AS column_{i}" for i in range(20))
WIDE = f"SELECT t, {COLUMNS} FROM s"
ROWS = [{"t": 0, "a": 0}, {"t": 1, "a": 1}]


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("a.csv", lambda path: pa.csv.read_csv(path).to_pylist()),
        ("a.json", lambda path: json.loads(path.read_text())),
        ("a.JSONL", lambda path: list(map(json.loads, path.read_text().splitlines()))),
        ("a.parquet", lambda path: pq.read_table(path).to_pylist()),
        ("a.arrow", lambda path: pa.ipc.open_stream(path.read_bytes()).read_all().to_pylist()),
    ],
)
def test_the_ending_of_a_file_names_its_format(
    command: Commands, tmp_path: Path, name: str, read: Callable[[Path], object]
) -> None:
    assert command.succeeds("query", FIRST, "--out", tmp_path / name).out == ""
    assert read(tmp_path / name) == ROWS


@pytest.mark.parametrize("options", [[], ["--format", "table"], ["-x"]])
def test_a_file_whose_format_nothing_names_is_wrong_usage(
    command: Commands, tmp_path: Path, options: list[str]
) -> None:
    done = command("query", FIRST, "--out", tmp_path / "answer", *options)
    assert done.code == 2
    assert "--format json, jsonl, csv" in done.words


SEVERAL = f"{FIRST}; -- ;\nSELECT ';' AS x FROM s LIMIT 1;\nSELECT COUNT(*) AS n FROM s;"
ANSWERS = [ROWS, [{"x": ";"}], [{"n": 40}]]


def test_several_statements_are_answered_one_after_the_other(
    command: Commands, tmp_path: Path
) -> None:
    decoder, text, found = (
        json.JSONDecoder(),
        command.succeeds("query", SEVERAL, "--format", "json").out,
        [],
    )
    while text:
        answer, end = decoder.raw_decode(text)
        found.append(answer)
        text = text[end:].lstrip()
    assert found == ANSWERS
    file = write(tmp_path / "several.sql", SEVERAL)
    command.succeeds("query", "-f", file, "--format", "json", "--out", tmp_path / "answers")
    files = sorted((tmp_path / "answers").iterdir())
    assert [path.name for path in files] == ["1.json", "2.json", "3.json"]
    assert [json.loads(path.read_text()) for path in files] == ANSWERS


def test_an_error_in_a_later_statement_has_its_place_in_the_whole_text(command: Commands) -> None:
    done = command("query", f"{FIRST};\n SELECT nothing FROM s; {FIRST}", "--format", "csv")
    assert (done.code, done.out) == (1, '"t","a"\n0,0\n1,1\n')
    assert done.err.startswith("error: line 2, column 9: no attribute 'nothing'")
    # What is no query is told before the first one is answered.
    done = command("query", f"{FIRST};\n{FIRST} OR")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("error: line 2, column 34: ")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--out", "answers.csv"], "the name of a file, and 3 statements"),
        (["--out", "answers"], "--format json, jsonl, csv"),
        (["--format", "parquet"], "cannot stand one after the other"),
        (["--report", "page.html"], "ask them one by one"),
        (["--analysis", "what.json"], "ask them one by one"),
    ],
)
def test_what_is_for_one_answer_is_refused_of_several(
    command: Commands, options: list[str], said: str
) -> None:
    done = command("query", SEVERAL, *options)
    assert (done.code, done.out) == (2, "")
    assert said in done.words


def test_a_stream_is_created_by_a_statement_alone(command: Commands) -> None:
    created = f"{FIRST};\n CREATE STREAM r AS {FIRST}"
    done = command("query", created)
    assert (done.code, done.out) == (1, "")
    assert "line 2, column 2: CREATE STREAM among several queries" in done.err


def test_a_format_that_is_given_goes_before_the_ending(command: Commands, tmp_path: Path) -> None:
    command("query", FIRST, "--format", "jsonl", "--out", tmp_path / "a.csv")
    assert (tmp_path / "a.csv").read_text() == '{"t": 0, "a": 0}\n{"t": 1, "a": 1}\n'


def test_a_query_may_come_by_standard_input(
    command: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"\xef\xbb\xbf" + FIRST.encode())))
    assert json.loads(command.succeeds("query", "-f", "-", "--format", "json").out) == ROWS


def test_the_environment_names_the_store_and_an_option_another(
    command: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHRONICLE_STORE", str(command.store))
    assert "s" in command("streams", store=False).out
    assert_refused(command("streams", "--store", "nowhere", store=False), "no Chronicle store")


def test_rows_says_how_many_a_table_shows(command: Commands) -> None:
    lines = command("query", "SELECT t FROM s", "--rows", "3").out.splitlines()
    assert [line.strip() for line in lines[2:5]] == ["0", "1", "2"]
    assert lines[-1] == "… 37 more rows (--rows 40 shows them)"


def test_x_prints_a_column_a_line(command: Commands) -> None:
    done = command("query", FIRST, "-x", "--rows", "1")
    assert done.out.splitlines()[:3] == ["─── row 1 ───", "t  0", "a  0"]


@pytest.mark.parametrize(
    "sql", ["SELECT t FROM s LIMIT 1", "SELECT t FROM s LIMIT 1; SELECT 2 AS t FROM s LIMIT 1"]
)
def test_out_minus_is_standard_output(
    command: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sql: str
) -> None:
    monkeypatch.chdir(tmp_path)
    done = command.succeeds("query", sql, "--format", "csv", "--out", "-")
    assert done.out == command.succeeds("query", sql, "--format", "csv").out
    assert not (tmp_path / "-").exists()


def test_a_terminal_leaves_columns_out_and_a_pipe_none(
    command: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    piped = command("query", WIDE, "--rows", "2").out
    monkeypatch.setenv("COLUMNS", "80")
    with patch.object(undisguised(sys.stdout), "isatty", return_value=True):
        shown = command("query", WIDE, "--rows", "2").out
    assert "column_19" in piped.splitlines()[0]
    *table, rows, columns = shown.splitlines()
    assert max(map(len, table)) <= 80
    assert rows.startswith("… 38 more rows")
    assert "more columns: column_" in columns


def test_version_and_help_are_short_options(command: Commands) -> None:
    assert command("--version", store=False).out.startswith("chronicle 0.")
    shown = command("-h", store=False).out
    sections = ["Ask:", "Take events in:", "Keep streams whole and tidy:", "Make queries faster:"]
    assert [shown.index(section) for section in sections] == sorted(map(shown.index, sections))
    assert "Example:" in command("query", "-h", store=False).out


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (["--max-rows", "39"], "more than 39 rows (limit --max-rows"),
        (["--timeout", "0.000001s"], "(limit --timeout)"),
        (["--memory", "1"], "(limit --memory)"),
    ],
)
def test_a_query_beyond_a_limit_writes_nothing_and_says_which(
    command: Commands, tmp_path: Path, option: list[str], said: str
) -> None:
    for output_format in ("table", "csv", "json", "parquet"):
        done = command("query", "SELECT * FROM s", *option, "--format", output_format)
        assert_refused(done, said)
    out = tmp_path / "answer.csv"
    out.write_text("as it was")
    assert_refused(command("query", "SELECT * FROM s", *option, "--out", out), said)
    assert out.read_text() == "as it was"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["answer.csv", "store"]


@pytest.mark.parametrize(
    ("text", "n_bytes"),
    [("2GB", 2 * 10**9), ("1.5 mb", 1_500_000), ("4KiB", 4096), ("17", 17), ("1 GiB", 2**30)],
)
def test_an_amount_of_memory_is_read_with_its_unit(text: str, n_bytes: int) -> None:
    assert size(text, hint="--memory") == n_bytes


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("7 days", 604_800), ("1 hour", 3600), ("90 minutes", 5400), ("1.5 hours 30 seconds", 5430),
     ("2 WEEKS", 1_209_600), ("0", 0)],
)  # fmt: skip
def test_a_duration_is_read_in_words(text: str, seconds: int) -> None:
    assert duration(text, hint="--retain") == dt.timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "7", "days", "7 fortnights", "-1 day", "1 day x", "9e9 days"])
def test_what_is_no_duration_is_told(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="is no duration"):
        duration(text, hint="--retain")


def test_times_finer_than_microseconds_are_told_in_words(command: Commands, tmp_path: Path) -> None:
    path = tmp_path / "fine.parquet"
    pq.write_table(pa.table({"at": pa.array([1, 1000], pa.timestamp("ns"))}), path)
    with warnings.catch_warnings(action="default"):
        done = command("query", "SELECT at FROM n", "--table", f"n={path}")
    told = "1 time in column 'at' of table 'n' was finer than a microsecond, and cut to it"
    assert done.err == f"warning: {told}\n"
    # Python's datetime has no nanoseconds, and without pandas Arrow fails to make one of them.
    with patch("pyarrow.lib._pandas_api", SimpleNamespace(have_pandas=False)):
        done = command("query", f"SELECT at FROM '{path}'")
    assert_refused(done, "a time between two microseconds")
