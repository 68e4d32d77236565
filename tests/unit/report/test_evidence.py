"""What a query leaves for its report: the blocks it read, and the spans of what it found."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import replay
from chronicle import Store
from replay.engines.evidence import SPANS_MAX, BlocksRead, SpanSample

ONE_OF_A_HUNDRED = """SELECT {what} FROM s MATCH_RECOGNIZE (ORDER BY t
  MEASURES A.t AS first, B.t AS last {rows} PATTERN (A C B)
  DEFINE A AS a = 10, B AS a = 12) {end}"""


def matching(what: str = "*", rows: str = "", end: str = "") -> str:
    return ONE_OF_A_HUNDRED.format(what=what, rows=rows, end=end)


WINDOWS = (
    "SELECT window_start, SUM(a) AS n FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(t), 17)) "
    "GROUP BY window_start, window_end"
)


@pytest.mark.parametrize("plan", ["auto", "full"])
@pytest.mark.parametrize(
    "sql",
    [
        matching(),
        matching(end="LIMIT 2"),
        "SELECT t, x FROM s WHERE x < 3.05",
        "SELECT t FROM s LIMIT 30",
        "SELECT t FROM s ORDER BY t DESC LIMIT 30",
        "SELECT t, x FROM s WHERE a = 3 ORDER BY t DESC LIMIT 2",
        "SELECT COUNT(*) AS n, SUM(x) AS x FROM s WHERE t >= 15 AND t < 1003",
        WINDOWS,
        "SELECT s.t AS t, r.t AS u FROM s JOIN r WITHIN 4 ON s.k = r.k WHERE s.x < 2",
        "SELECT s.t AS t, r.t AS u FROM s JOIN r WITHIN 3 ROWS ON s.k = r.k WHERE s.x < 2",
        "SELECT n FROM (SELECT a + 1 AS n, t FROM s WHERE x < 7) WHERE n = 3",
    ],
)
def test_blocks_of_the_evidence_are_those_that_were_counted(
    store: Store, sql: str, plan: str
) -> None:
    actual = replay.query(store, sql, plan=plan).actual
    assert sum(read.n_read for read in actual.reads) == actual.blocks_read
    n_rows = 0
    for read in actual.reads:
        bases, blocks = read.snapshot.bases, read.blocks()
        n_rows += int((bases[blocks + 1] - bases[blocks]).sum())
    assert n_rows <= actual.rows_replayed  # blocks read twice are replayed twice
    if plan == "full" and "LIMIT" not in sql and "window" not in sql and "COUNT" not in sql:
        assert n_rows == actual.rows_total


def test_what_ends_early_has_read_the_first_or_the_last_of_its_blocks(store: Store) -> None:
    snapshot = store.stream("s").snapshot()
    planned = np.array([[2, 5], [7, 9]])
    forward = BlocksRead(snapshot, planned, 4)
    assert forward.blocks().tolist() == [2, 3, 4, 7]
    assert BlocksRead(snapshot, planned, 3, backward=True).blocks().tolist() == [4, 7, 8]
    assert forward.n_planned == 5


@pytest.mark.parametrize(
    ("sql", "offset"),
    [
        (matching(), 0),
        (matching(end="LIMIT 4 OFFSET 3"), 3),
        (matching(what="last, first + 1 AS first"), 0),
        (matching(what="first", end="WHERE first > 900"), None),
        (matching(what="COUNT(*) + 0 AS n, MAX(first) AS first"), None),
    ],
)
def test_matches_lie_where_their_events_are(store: Store, sql: str, offset: int | None) -> None:
    [found] = replay.query(store, sql).actual.found
    first, last = found.times()
    # Events 10, 110, … 910 begin matches of three events, of times twice as great.
    n = len(first)
    assert first.tolist() == [20 + 200 * i for i in range(n)]
    assert last.tolist() == [24 + 200 * i for i in range(n)]
    assert found.row_offset == offset
    assert found.sample.n_spans == n >= min(10, 7 if "LIMIT" in sql else 10)
    assert found.sample.kept()[2].tolist() == list(range(n))


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT SUM(first) AS n FROM ({matching()})",
        f"SELECT first FROM ({matching()}) ORDER BY first DESC",
        f"SELECT first, LAG(first) OVER (ORDER BY first) AS x FROM ({matching()}) ORDER BY 1 DESC",
        f"SELECT m.last AS a FROM ({matching('first, last')}) m JOIN r WITHIN 9 ON m.last = r.t",
    ],
)
def test_rows_made_of_those_of_matches_are_not_taken_for_them(store: Store, sql: str) -> None:
    found = replay.query(store, sql).actual.found
    assert [(one.sample.n_spans, one.row_offset) for one in found] == [(10, None)]


def test_matches_of_all_rows_tell_the_rows_they_have(store: Store) -> None:
    result = replay.query(store, matching(what="t, first", rows="ALL ROWS PER MATCH"))
    [found] = result.actual.found
    _, _, begins, ends = found.sample.kept()
    assert (ends - begins).tolist() == [3] * 10
    times = result["t"].to_pylist()
    assert [times[begin] for begin in begins] == found.times()[0].tolist()


def test_matches_that_are_only_counted_leave_no_span(store: Store) -> None:
    sql = matching(what="COUNT(*) AS n").replace("(A C B)", "(A C B) SEMANTICS CONTIGUOUS WITHIN 9")
    result = replay.query(store, sql)
    assert result[0]["n"] == 10
    assert [found.sample.n_spans for found in result.actual.found] == [0]


@given(st.lists(st.integers(0, 3 * SPANS_MAX), max_size=8), st.booleans())
def test_a_sample_keeps_every_second_fourth_and_so_on(sizes: list[int], many: bool) -> None:
    sample, n = SpanSample(), 0
    for size in sizes:
        firsts = np.arange(n, n + size)
        sample.add(firsts, firsts + 1, np.full(size, 2) if many else None)
        n += size
    first, last, begins, ends = sample.kept()
    expected = list(range(0, n, sample.step))
    assert sample.n_spans == n
    assert first.tolist() == expected
    assert last.tolist() == [each + 1 for each in expected]
    rows = 2 if many else 1
    assert begins.tolist() == [rows * each for each in expected]
    assert ends.tolist() == [rows * each + rows for each in expected]
    assert len(first) <= 2 * SPANS_MAX
    assert len(first) >= min(n, SPANS_MAX)


def test_a_report_of_a_table_in_memory_finds_its_matches_too() -> None:
    table = pa.table({"t": [3, 1, 2], "a": [12, 10, 11]})
    sql = matching().replace("FROM s", "FROM ticks")
    [found] = replay.query({"ticks": table}, sql).actual.found
    assert [times.tolist() for times in found.times()] == [[1], [3]]
