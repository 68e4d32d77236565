"""Filters, windows, compositions and CREATE STREAM on the command line."""

from __future__ import annotations

import json

import pytest

from tests.cli.commands import Commands, assert_refused

LATE = "SELECT t, a FROM s WHERE x > 9 ORDER BY t DESC LIMIT 2"
COUNTS = (
    "SELECT window_start, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(t), 16)) "
    "GROUP BY window_start, window_end"
)


def test_a_filter_is_answered_and_analysed(command: Commands) -> None:
    done = command("query", LATE, "--format", "json", "--analyze")

    assert json.loads(done.out) == [{"t": 39, "a": 4}, {"t": 38, "a": 3}]
    assert done.err.startswith("plan      ")
    assert "replayed" in done.err


def test_windows_take_plans_of_their_own(command: Commands) -> None:
    expected = [
        {"window_start": 0, "n": 16},
        {"window_start": 16, "n": 16},
        {"window_start": 32, "n": 8},
    ]
    for plan in ("auto", "replay", "tree", "tree-naive"):
        done = command("query", COUNTS, "--plan", plan, "--format", "json")
        assert json.loads(done.out) == expected, plan
    told = json.loads(command("query", COUNTS, "--explain", "--format", "json").out)
    assert told["operator"].startswith("window aggregation")


def test_a_created_stream_is_described_with_its_lineage(command: Commands) -> None:
    sql = "CREATE STREAM late AS SELECT t, a FROM s WHERE x > :above"
    done = command("query", sql, "--param", "above=9", "--format", "json")

    [made] = json.loads(done.out)
    assert (made["stream"], made["events"]) == ("late", 3)
    assert f"made by       {sql} (read s version" in command("describe", "late").out
    shown = json.loads(command("describe", "late", "--json").out)
    assert shown["made_by"]["parameters"] == {"above": "9"}
    assert json.loads(command("describe", "s", "--json").out)["made_by"] is None
    assert_refused(command("query", sql, "--param", "above=9"), "stream 'late' exists")


def test_what_a_query_reads_must_be_there(command: Commands) -> None:
    assert_refused(command("query", "SELECT t FROM (SELECT t FROM nothing)"), "no stream 'nothing'")


@pytest.mark.parametrize("output_format", ["csv", "parquet", "arrow"])
def test_explain_refuses_formats_of_rows(command: Commands, output_format: str) -> None:
    done = command("query", COUNTS, "--explain", "--format", output_format)
    assert (done.code, done.out) == (2, "")
    said = " ".join(done.err.replace("│", " ").split())
    assert "--format: --explain prints no rows; use table or json" in said
