"""LIMIT, OFFSET and COUNT: a slice of the whole answer, and no more is done than they need."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import replay
from replay.engines import source as source_module
from replay.errors import SkipError
from replay.patterns import answer as answer_module
from replay.patterns import local

LETTERS = pa.table({"t": range(16), "a": [t // 2 for t in range(16)]})
EACH_ROW = "SELECT {} FROM s MATCH_RECOGNIZE (ORDER BY t MEASURES t AS u, a AS b PATTERN (A)) {}"
HEADS = ("*", "u * 2 AS v", "DISTINCT b")


def answer_of_pieces(table: pa.Table, sql: str, at_once: int) -> pa.Table:
    """Return the answer where so many events and rows are worked on at once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source_module, "TABLE_BLOCK_EVENTS", at_once)
        patch.setattr(local, "UNIT_EVENTS", at_once)
        patch.setattr(answer_module, "MEASURED_ROWS_AT_ONCE", at_once)
        patch.setattr(answer_module, "MEASURED_ROWS_FIRST", 1)
        return replay.query({"s": table}, sql).table


@given(
    head=st.sampled_from(HEADS),
    where=st.sampled_from(("", "WHERE u > 2")),
    limit=st.none() | st.integers(0, 9),
    offset=st.integers(0, 9),
    at_once=st.integers(1, 5),
)
def test_limit_and_offset_give_a_slice_of_the_whole_answer(
    head: str, where: str, limit: int | None, offset: int, at_once: int
) -> None:
    whole = replay.query({"s": LETTERS}, EACH_ROW.format(head, where)).table
    bound = "" if limit is None else f"LIMIT {limit}"
    sql = EACH_ROW.format(head, f"{where} {bound} OFFSET {offset}")
    assert answer_of_pieces(LETTERS, sql, at_once).equals(whole.slice(offset, limit))


@pytest.mark.parametrize(
    "sql", ["SELECT * FROM (SELECT * FROM s ORDER BY t) {}", EACH_ROW.format("*", "{}"),
            EACH_ROW.format("*", "WHERE b > 0 {}"), EACH_ROW.format("DISTINCT b", "{}")]
)  # fmt: skip
@pytest.mark.parametrize("limit", [3, 2**63 - 1])
def test_last_rows_wanted_may_be_beyond_64_bits(sql: str, limit: int) -> None:
    sql = sql.format(f"LIMIT {limit} OFFSET {2**63 - 1}")
    assert replay.query({"s": LETTERS}, sql).table.num_rows == 0
    assert replay.batches({"s": LETTERS}, sql).read_all().num_rows == 0
    if "DISTINCT" not in sql:
        flow = replay.online(sql, LETTERS.schema, time="t")
        assert flow.push(LETTERS).num_rows + flow.finish().num_rows == 0


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("bounds", ["LIMIT 0", "LIMIT 15", "LIMIT 5 OFFSET 10"])
def test_little_is_read_for_the_first_rows(
    monkeypatch: pytest.MonkeyPatch, head: str, bounds: str
) -> None:
    # Units of 10 events, 20, 40 and so on: 15 rows are in the first two.
    monkeypatch.setattr(source_module, "TABLE_BLOCK_EVENTS", 10)
    monkeypatch.setattr(local, "FIRST_EVENTS", 10)
    monkeypatch.setattr(answer_module, "MEASURED_ROWS_FIRST", 10)
    table = pa.table({"t": range(1000), "a": range(1000)})
    result = replay.query({"s": table}, EACH_ROW.format(head, bounds))
    # DISTINCT looks at what has come before it knows that it has enough.
    is_nothing = bounds == "LIMIT 0" and "DISTINCT" not in head
    assert result.actual.blocks_read <= (0 if is_nothing else 3)


# Each A is skipped from to the B behind it; behind the third is none, so no match comes after it.
STOPS = pa.table({"t": range(1, 7), "a": [1, 2, 1, 2, 1, 3]})
STOPPING = (
    "SELECT {} FROM s MATCH_RECOGNIZE (ORDER BY t MEASURES A.t AS u, A.a AS b "
    "AFTER MATCH SKIP TO B PATTERN (A B?) DEFINE A AS a = 1, B AS a = 2) {}"
)


@pytest.mark.parametrize(
    ("head", "bounds", "rows"),
    [
        ("u", "LIMIT 3", [1, 3, 5]),
        ("u", "WHERE u > 1 LIMIT 2", [3, 5]),
        ("DISTINCT b", "LIMIT 1", [1]),
        ("DISTINCT u", "LIMIT 3", [1, 3, 5]),  # looked at after one and two, and at the error
        ("DISTINCT u", "WHERE u > 1 LIMIT 1 OFFSET 1", [5]),
    ],
)
def test_an_error_behind_the_rows_that_limit_wants_is_not_met(
    head: str, bounds: str, rows: list[int]
) -> None:
    sql = STOPPING.format(head, bounds)
    for found in (replay.query({"s": STOPS}, sql).table, answer_of_pieces(STOPS, sql, 1)):
        assert found.column(0).to_pylist() == rows


@pytest.mark.parametrize("head", ["*", "u", "DISTINCT u"])
@pytest.mark.parametrize("bounds", ["", "LIMIT 4", "WHERE u > 1 LIMIT 3", "ORDER BY u LIMIT 1"])
def test_an_error_before_the_answer_is_whole_is_met(head: str, bounds: str) -> None:
    with pytest.raises(SkipError, match="maps no row to B"):
        replay.query({"s": STOPS}, STOPPING.format(head, bounds))


def test_matches_before_an_error_come_first() -> None:
    reader = replay.batches({"s": STOPS}, STOPPING.format("*", ""))
    assert reader.read_next_batch().column(0).to_pylist() == [1, 3, 5]
    with pytest.raises(SkipError, match="maps no row to B"):
        reader.read_next_batch()


ABOVE = "SEMANTICS SKIP TILL ANY"
COUNTED = "SELECT COUNT(*) AS n FROM s MATCH_RECOGNIZE (ORDER BY t MEASURES MATCH_NUMBER() AS m {})"


def test_count_of_more_matches_than_can_be_enumerated_is_exact() -> None:
    # Any non-empty set of the 62 rows is a match.
    table = pa.table({"t": range(62), "a": range(62)})
    sql = COUNTED.format(f"PATTERN (A+) {ABOVE}")
    assert replay.query({"s": table}, sql).table.to_pylist() == [{"n": 2**62 - 1}]


def test_count_that_no_integer_holds_is_exact() -> None:
    table = pa.table({"t": range(80), "a": range(80)})
    result = replay.query({"s": table}, COUNTED.format(f"PATTERN (A+) {ABOVE}"))
    assert result.table.to_pylist() == [{"n": Decimal(2**80 - 1)}]  # all sets of rows but none
    assert result.actual.faults == 0


@pytest.mark.parametrize(
    ("clauses", "n"),
    [
        # Over 0 1 2 0 1 2: 0 before 1, and what lies between.
        pytest.param(f"PATTERN (A B) {ABOVE} DEFINE A AS a = 0, B AS a = 1", 3, id="counted"),
        pytest.param(
            f"ALL ROWS PER MATCH PATTERN (A B) {ABOVE} DEFINE A AS a = 0, B AS a = 1", 6, id="rows"
        ),
        pytest.param(
            f"PATTERN (A B) {ABOVE} DEFINE A AS a = 0, B AS a = A.a + 1", 3, id="across-rows"
        ),
        pytest.param("PATTERN (A B) DEFINE A AS a = 0, B AS a = 1", 2, id="sql"),
        pytest.param(
            f"PATTERN (A !X B) {ABOVE} DEFINE A AS a = 0, B AS a = 1, X AS a = 2", 2, id="negation"
        ),
    ],
)
def test_counts_are_those_of_the_rows(clauses: str, n: int) -> None:
    table = pa.table({"t": range(6), "a": [0, 1, 2, 0, 1, 2]})
    sql = COUNTED.format(clauses)
    assert replay.query({"s": table}, sql).table.to_pylist() == [{"n": n}]


def test_limit_ends_a_search_for_more_matches_than_there_is_time_for() -> None:
    table = pa.table({"t": range(400), "a": range(400)})
    sql = (
        "SELECT * FROM s MATCH_RECOGNIZE (ORDER BY t MEASURES COUNT(*) AS n, LAST(t) AS u "
        f"PATTERN (A+) {ABOVE})"
    )
    limited = replay.query({"s": table}, f"{sql} LIMIT 3").table.to_pylist()
    # By first row, then last row, then the rows between: 0; 0 1; then 0 1 2 and 0 2.
    assert limited == [{"n": 1, "u": 0}, {"n": 2, "u": 1}, {"n": 3, "u": 2}]
    distinct = sql.replace("*", "DISTINCT n", 1)
    assert replay.query({"s": table}, f"{distinct} LIMIT 2").table.to_pylist() == [
        {"n": 1},
        {"n": 2},
    ]
    reader = replay.batches({"s": table}, sql)
    assert reader.read_next_batch().num_rows > 0
