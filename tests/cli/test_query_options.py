"""Where a query comes from, where its answer goes, and what bounds it."""

from __future__ import annotations

import io
import json
from pathlib import Path
from unittest.mock import patch

import pyarrow.parquet as pq
import pytest

from replay.console.options import size
from tests.cli.commands import Commands, assert_refused

FIRST = "SELECT t, a FROM s WHERE t < 2"
COLUMNS = ", ".join(f"x * 1000000007 + {i} AS column_{i}" for i in range(20))
WIDE = f"SELECT t, {COLUMNS} FROM s"


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("a.csv", lambda path: path.read_text().splitlines()[1:] == ["0,0", "1,1"]),
        ("a.json", lambda path: json.loads(path.read_text())[1] == {"t": 1, "a": 1}),
        ("a.JSONL", lambda path: json.loads(path.read_text().splitlines()[1])["t"] == 1),
        ("a.parquet", lambda path: pq.read_table(path).column("t").to_pylist() == [0, 1]),
    ],
)
def test_the_ending_of_a_file_names_its_format(
    command: Commands, tmp_path: Path, name: str, read: object
) -> None:
    done = command("query", FIRST, "--out", tmp_path / name)

    assert (done.code, done.out) == (0, "")
    assert callable(read)
    assert read(tmp_path / name)


@pytest.mark.parametrize("options", [[], ["--format", "table"], ["-x"]])
def test_a_file_whose_format_nothing_names_is_wrong_usage(
    command: Commands, tmp_path: Path, options: list[str]
) -> None:
    done = command("query", FIRST, "--out", tmp_path / "answer", *options)

    assert done.code == 2
    assert "--format json, jsonl, csv" in " ".join(done.err.replace("│", " ").split())


def test_a_format_that_is_given_goes_before_the_ending(command: Commands, tmp_path: Path) -> None:
    command("query", FIRST, "--format", "jsonl", "--out", tmp_path / "a.csv")

    assert (tmp_path / "a.csv").read_text() == '{"t": 0, "a": 0}\n{"t": 1, "a": 1}\n'


def test_a_query_may_come_by_standard_input(
    command: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"\xef\xbb\xbf" + FIRST.encode())))

    assert len(command("query", "-f", "-", "--format", "jsonl").out.splitlines()) == 2


def test_the_environment_names_the_store_and_an_option_another(
    command: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHRONICLE_STORE", str(command.store))

    assert "s" in command("streams", store=False).out
    assert_refused(command("streams", "--store", "nowhere", store=False), "no Chronicle store")


def test_rows_says_how_many_a_table_shows(command: Commands) -> None:
    done = command("query", "SELECT t FROM s", "--rows", "3")

    assert [line.strip() for line in done.out.splitlines()[2:5]] == ["0", "1", "2"]
    assert done.out.splitlines()[-1] == "… 37 more rows (--rows 40 shows them)"


def test_x_prints_a_column_a_line(command: Commands) -> None:
    done = command("query", FIRST, "-x", "--rows", "1")

    assert done.out.splitlines()[:3] == ["─── row 1 ───", "t  0", "a  0"]
    assert command("query", FIRST, "-x", "--format", "csv").code == 2


def test_a_terminal_leaves_columns_out_and_a_pipe_none(
    command: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    piped = command("query", WIDE, "--rows", "2").out
    monkeypatch.setenv("COLUMNS", "80")
    with patch("sys.stdout.isatty", return_value=True):
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
@pytest.mark.parametrize("output_format", ["table", "csv", "json", "parquet"])
def test_a_query_beyond_a_limit_writes_nothing_and_says_which(
    command: Commands, tmp_path: Path, option: list[str], said: str, output_format: str
) -> None:
    assert_refused(command("query", "SELECT * FROM s", *option, "--format", output_format), said)
    out = tmp_path / "answer.csv"
    out.write_text("as it was")
    assert_refused(command("query", "SELECT * FROM s", *option, "--out", out), said)
    assert out.read_text() == "as it was"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["answer.csv", "store"]


def test_generous_limits_leave_an_answer_as_it_is(command: Commands) -> None:
    bounds = ["--timeout", "1 hour", "--max-rows", "40", "--memory", "900GB"]
    plain = command("query", "SELECT * FROM s", "--format", "csv")

    assert command("query", "SELECT * FROM s", "--format", "csv", *bounds) == plain


@pytest.mark.parametrize(
    "bounds", [["--timeout", "soon"], ["--timeout", "0"], ["--memory", "2 XB"]]
)
def test_a_limit_that_is_none_is_wrong_usage(command: Commands, bounds: list[str]) -> None:
    assert command("query", FIRST, *bounds).code == 2


@pytest.mark.parametrize(
    ("text", "n_bytes"),
    [("2GB", 2 * 10**9), ("1.5 mb", 1_500_000), ("4KiB", 4096), ("17", 17), ("1 GiB", 2**30)],
)
def test_an_amount_of_memory_is_read_with_its_unit(text: str, n_bytes: int) -> None:
    assert size(text, hint="--memory") == n_bytes
