"""Statements that DuckDB runs around Chronicle's answers, by the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.commands import Commands

LAG = "SELECT t, LAG(t) OVER (ORDER BY t) AS before FROM s WHERE t < 2"


def test_a_statement_is_answered_explained_and_analyzed(command: Commands) -> None:
    found = [{"t": 0, "before": None}, {"t": 1, "before": 0}]
    done = command.succeeds("query", LAG, "--format", "json", "--threads", "2", "--analyze")
    assert json.loads(done.out) == found
    assert "ordinary SQL by DuckDB" in done.err
    assert "DuckDB's plan" in command.succeeds("query", LAG, "--explain").out
    assert "column" in command.succeeds("query", f"DESCRIBE {LAG}").out


@pytest.mark.parametrize("name", ["a.csv", "a.parquet", "a.jsonl"])
def test_a_small_table_stands_beside_the_streams(
    command: Commands, tmp_path: Path, name: str
) -> None:
    path = tmp_path / name
    table = pa.table({"t": [1], "what": ["one"]})
    if name.endswith("parquet"):
        pq.write_table(table, path)
    else:
        path.write_text("t,what\n1,one\n" if name == "a.csv" else '{"t": 1, "what": "one"}\n')
    sql = "SELECT what FROM s JOIN names USING (t) WHERE t IN :ts"
    done = command.succeeds(
        *("query", sql, "--table", f"names={path}", "--param", "ts=[0, 1]", "--format", "json")
    )
    assert json.loads(done.out) == [{"what": "one"}]


def test_a_small_table_is_read_as_append_reads_it(command: Commands, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("t,what,id\n1,,12345678901234567890\n2,007,2\n")
    sql = "SELECT what, CAST(id AS VARCHAR) AS id FROM names ORDER BY t"
    done = command.succeeds("query", sql, "--table", f"names={path}", "--format", "jsonl")
    found = [json.loads(line) for line in done.out.splitlines()]
    assert found == [{"what": None, "id": "12345678901234567890"}, {"what": "007", "id": "2"}]
    told = f"warning: '{path}': id read as STRING, since line 2 holds '12345678901234567890'"
    assert told in done.err.splitlines()
    path.write_text("t,what\n1,2\n3,4,5\n")
    done = command("query", sql, "--table", f"names={path}")
    assert done.code == 2
    assert f"line 3 of '{path}': the record does not parse" in done.words


def test_lists_and_structs_are_json_in_every_text(command: Commands) -> None:
    sql = "SELECT ARRAY_AGG(t) AS l, {'a': MAX(t)} AS s FROM s WHERE t < 2"
    made = {"l": [0, 1], "s": {"a": 1}}
    assert json.loads(command.succeeds("query", sql, "--format", "json").out) == [made]
    head, row = command.succeeds("query", sql, "--format", "csv").out.splitlines()
    assert (head, row) == ('"l","s"', '"[0, 1]","{""a"": 1}"')


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--table", "names=none.csv"], "cannot read 'none.csv'"),
        (["--table", "names=a.xls"], "does not end with"),
        (["--table", "names"], "is not name=value"),
        (["--param", "q=1"], "the query has no parameter 'q'"),
    ],
)
def test_options_of_no_use_are_refused(command: Commands, options: list[str], said: str) -> None:
    done = command("query", LAG, *options)
    assert done.code == 2
    assert said in done.words


def test_a_mistake_is_told_at_its_place(command: Commands) -> None:
    done = command("query", LAG.replace("SELECT t", "SELECT tt"))
    assert (done.code, done.out) == (1, "")
    first, _, caret = done.err.splitlines()
    assert first == "error: line 1, column 8: no column 'tt'; did you mean 't'?"
    assert caret.index("^") == 2 + 7
