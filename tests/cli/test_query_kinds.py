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
    done = command.succeeds("query", LATE, "--format", "json", "--analyze")
    assert json.loads(done.out) == [{"t": 39, "a": 4}, {"t": 38, "a": 3}]
    assert done.err.startswith("reads ")
    assert "replayed" in done.err


def test_windows_take_plans_of_their_own(command: Commands) -> None:
    expected = [{"window_start": start, "n": n} for start, n in ((0, 16), (16, 16), (32, 8))]
    for plan in ("auto", "replay", "tree", "tree-naive"):
        assert command.rows(COUNTS, "--plan", plan) == expected, plan
    assert command.rows(COUNTS, "--explain")["operator"].startswith("window aggregation")


def test_situations_are_asked_in_the_form_of_the_papers(command: Commands) -> None:
    sql = (
        "FROM s DEFINE A AS a = 4, B AS x > 9 PATTERN A finishes;during;starts;equals;overlaps;"
        "contains;started by;finished by;overlapped by B WITHIN 5"
    )
    # x > 9 from 37 on, a = 4 at 39; both go on at the end, so only their starts are known.
    expected = [{"A_start": 39, "A_end": None, "B_start": 37, "B_end": None, "detection_time": 39}]
    for plan in ("full", "auto", "tree", "indexes=A.a"):
        assert command.rows(sql, "--plan", plan) == expected, plan
    explained = command.rows(sql, "--plan", "indexes=A.a", "--explain")
    assert explained["plan"] == "indexes=A.a"
    done = command.succeeds("query", sql, "--analyze", "--format", "json", "--plan", "tree")
    assert done.err.startswith("reads ")


def test_a_created_stream_is_described_with_its_lineage(command: Commands) -> None:
    sql = "CREATE STREAM late AS SELECT t, a FROM s WHERE x > :above"
    [made] = command.rows(sql, "--param", "above=9")
    assert (made["stream"], made["events"]) == ("late", 3)
    assert f"made by       {sql} (read s version" in command("describe", "late").out
    assert command.json("describe", "late")["made_by"]["parameters"] == {"above": "9"}
    assert command.json("describe", "s")["made_by"] is None
    assert_refused(command("query", sql, "--param", "above=9"), "stream 'late' exists")


def test_a_stream_without_events_has_no_times(command: Commands) -> None:
    command.succeeds("query", "CREATE STREAM nothing AS SELECT * FROM s WHERE t < 0 AND t > 0")
    assert "time range    none\n" in command.succeeds("describe", "nothing").out
    listed = command.succeeds("streams").out
    assert "nothing       0\n" in listed


@pytest.mark.parametrize("output_format", ["csv", "parquet", "arrow"])
def test_explain_refuses_formats_of_rows(command: Commands, output_format: str) -> None:
    done = command("query", COUNTS, "--explain", "--format", output_format)
    assert (done.code, done.out) == (2, "")
    assert "--format: --explain prints no rows; use table or json" in done.words
