"""Clauses of MATCH_RECOGNIZE that other engines have, with answers derived by hand."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import replay
from chronicle import QueryError, SchemaError, StreamSettings, create_store
from chronicle.store import Store

EVENTS = pa.table(
    {
        "t": [1, 2, 3, 4, 5, 6, 7, 8],
        "k": ["a", "A", "a", "b", "B", "b", "a", "b"],
        "x": [1, 2, 3, 4, 5, 6, None, 8],
        "s": ["p", "q", None, "r", "s", "t", "u", "v"],
    }
)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    store = create_store(tmp_path_factory.mktemp("clauses") / "store")
    store.create_stream("m", EVENTS.schema, StreamSettings("t", block_events=2)).append(EVENTS)
    return store


@pytest.mark.parametrize(
    ("inside", "expected"),
    [
        pytest.param(
            """PARTITION BY UPPER(k) ORDER BY t
            MEASURES COUNT(*) AS n, ARRAY_AGG(x) AS xs, STRING_AGG(s, '-') AS ss PATTERN (A+)""",
            [("A", 4, [1, 2, 3, None], "p-q-u"), ("B", 4, [4, 5, 6, 8], "r-s-t-v")],
            id="partitions by an expression; NULL is in an array, in no text",
        ),
        pytest.param(
            """PARTITION BY m.k, t > 3 ORDER BY m.t MEASURES LAST(t) AS l PATTERN (A+)""",
            [("a", False, 3), ("A", False, 2), ("b", True, 8), ("B", True, 5), ("a", True, 7)],
            id="by a column and an expression",
        ),
        pytest.param(
            """ORDER BY t MEASURES ARRAY_AGG(x) FILTER (WHERE x > 2) AS xs,
              COUNT(*) FILTER (WHERE x > 2) AS n, SUM(A.x) FILTER (WHERE A.t % 2 = 0) AS even,
              SUM(x * MATCH_NUMBER()) AS by_number, ARRAY_AGG(DISTINCT UPPER(k)) AS ks,
              LISTAGG(DISTINCT k, ', ') FILTER (WHERE x <> 2) AS texts PATTERN (A A B)""",
            [([3], 1, 2, 6, ["A"], "a"), ([4, 5, 6], 3, 4, 30, ["B"], "b, B")],
            id="filters, numbers inside, distinct values",
        ),
        pytest.param(
            "ORDER BY t MEASURES ARRAY_AGG(B.x) AS bs, STRING_AGG(B.s, '') AS ss, A.t AS t "
            "PATTERN (A B?) DEFINE B AS x >= 6",
            [(None, None, t) for t in (1, 2, 3, 4)] + [([6], "t", 5), ([8], "v", 7)],
            id="of no rows they are NULL",
        ),
        pytest.param(
            "ORDER BY t MEASURES FIRST(A.x) AS low, low * 10 AS ten, ten + MATCH_NUMBER() AS last "
            "PATTERN (A{2})",
            [(1, 10, 11), (3, 30, 32), (5, 50, 53), (None, None, None)],
            id="a measure reads those before",
        ),
        pytest.param(
            "MEASURES A.t AS t, CAST(s AS VARCHAR(1)) || CAST(t * 1111 AS VARCHAR(2)) AS v "
            "PATTERN (A B{,}) DEFINE B AS x > PREV(x)",
            [(1, "t66"), (7, "u77"), (8, "v88")],
            id="no order but the stream's time, any number, texts cut",
        ),
    ],
)
def test_clause_has_the_answer_derived_by_hand(
    store: Store, inside: str, expected: list[tuple[Any, ...]]
) -> None:
    sql = f"SELECT * FROM m MATCH_RECOGNIZE ({inside})"
    for plan in ("full", "auto"):
        found = replay.query(store, sql, plan=plan).table
        assert [tuple(row.values()) for row in found.to_pylist()] == expected
    online = replay.online(sql, EVENTS.schema, time="t")
    pieces = [online.push(EVENTS.slice(at, 1)) for at in range(len(EVENTS))]
    assert pa.concat_tables([*pieces, online.finish()]).equals(found)


@pytest.mark.parametrize(("source", "n"), [("m", 3), ("(SELECT * FROM m WHERE t > 2)", 2)])
def test_a_pattern_by_what_is_computed_reads_the_blocks_it_needs(
    store: Store, source: str, n: int
) -> None:
    # x is below 4 in two of four blocks, t above 2 in one of these; WITHIN reaches into the next.
    sql = f"""SELECT * FROM {source} MATCH_RECOGNIZE (PARTITION BY UPPER(k) ORDER BY t
      MEASURES FIRST(t) AS a, LAST(t) AS b PATTERN (A+) WITHIN 1 DEFINE A AS x < 4)"""
    result = replay.query(store, sql, plan="tree")
    expected = [{"UPPER(k)": "A", "a": 1, "b": 2}, {"UPPER(k)": "A", "a": 3, "b": 3}]
    assert result.table.to_pylist() == expected[3 - n :]
    assert result.actual.blocks_read == n


def test_measures_read_the_values_of_subqueries(store: Store) -> None:
    sql = """SELECT * FROM m MATCH_RECOGNIZE (ORDER BY t
      MEASURES LAST(x) - (SELECT MIN(x) FROM m WHERE k = 'b') AS above,
        SUM(x * (SELECT COUNT(*) FROM m MATCH_RECOGNIZE (ORDER BY t PATTERN (A{3})))) AS doubled,
        (SELECT s FROM m WHERE t > 99) AS none, (SELECT MAX(s) FROM m) AS last
      PATTERN (A B) DEFINE A AS x = 2 OR x = 5)"""
    expected = [
        {"above": -1, "doubled": 10, "none": None, "last": "v"},
        {"above": 2, "doubled": 22, "none": None, "last": "v"},
    ]
    for plan in ("auto", "full", "tree"):
        assert replay.query(store, sql, plan=plan).table.to_pylist() == expected
    assert replay.query({"m": EVENTS}, sql).table.to_pylist() == expected
    assert "with values of subqueries" in str(replay.explain(store, sql))
    with pytest.raises(QueryError, match="a value gives 8 rows; aggregate them, or write LIMIT 1"):
        replay.query(store, sql.replace("MAX(s)", "s"))
    with pytest.raises(QueryError, match="a subquery in MEASURES or DEFINE needs its whole answer"):
        replay.online(sql, EVENTS.schema, time="t")


def test_measures_test_what_subqueries_hold(store: Store) -> None:
    sql = """SELECT * FROM m MATCH_RECOGNIZE (ORDER BY t
      MEASURES B.x AS x, B.x IN (SELECT x FROM m WHERE k = 'b') AS among,
        B.x / 2.0 NOT IN (SELECT x FROM m WHERE x < 7) AS beyond,
        B.x IN (SELECT x FROM m WHERE x > 99) AS empty, EXISTS (SELECT t, s FROM m) AS some,
        NOT EXISTS (SELECT * FROM m WHERE x = 5) OR B.x NOT IN (SELECT NULLIF(x, 3) FROM m) AS no
      PATTERN (A B) DEFINE A AS x = 2 OR x = 5)"""
    # 'b' has 4, 6 and 8. The last list has NULL and no 3: whether 3 is in it is not known.
    expected = [
        {"x": 3, "among": False, "beyond": True, "empty": False, "some": True, "no": None},
        {"x": 6, "among": True, "beyond": False, "empty": False, "some": True, "no": False},
    ]
    assert replay.query(store, sql).table.to_pylist() == expected
    assert replay.query({"m": EVENTS}, sql).table.to_pylist() == expected
    with pytest.raises(QueryError, match=r"cannot compare 'a' \(STRING\)"):
        replay.query(store, sql.replace("B.x IN (", "'a' IN ("))


def test_arrays_grow_with_the_rows_of_a_match_unless_they_are_final(store: Store) -> None:
    sql = """SELECT t, xs, ts FROM m MATCH_RECOGNIZE (ORDER BY t
      MEASURES ARRAY_AGG(B.x) AS xs, FINAL ARRAY_AGG(B.t) AS ts
      ALL ROWS PER MATCH WITH UNMATCHED ROWS PATTERN (A B B) DEFINE A AS x = 2)"""
    rows = [tuple(row.values()) for row in replay.query(store, sql).table.to_pylist()]
    assert rows[:4] == [(1, None, None), (2, None, [3, 4]), (3, [3], [3, 4]), (4, [3, 4], [3, 4])]


def test_arrays_are_no_columns_of_a_stream(store: Store) -> None:
    arrays = "SELECT * FROM m MATCH_RECOGNIZE (MEASURES A.t AS t, ARRAY_AGG(k) AS ks PATTERN (A B))"
    with pytest.raises(SchemaError, match="column 'ks' is list<item: string>; events are flat"):
        replay.query(store, f"CREATE STREAM pairs AS {arrays}")
    with pytest.raises(QueryError, match="'ks' has a type that"):
        replay.query(store, f"{arrays} WHERE ks = 'a'")


def test_a_subquery_orders_by_its_time_where_nothing_else_is_said(store: Store) -> None:
    sql = "SELECT * FROM (SELECT t AS at, x FROM m WHERE x > 3) MATCH_RECOGNIZE ({}PATTERN (A A))"
    measured = sql.format("{}MEASURES A.at AS at, LAST(x) AS x ")
    expected = [{"at": 5, "x": 5}, {"at": 8, "x": 8}]
    for order in ("", "ORDER BY at "):
        assert replay.query(store, measured.format(order)).table.to_pylist() == expected


@pytest.mark.parametrize(
    ("inside", "expected"),
    [
        pytest.param(
            "ORDER BY t DESC MEASURES A.t AS a, LAST(B.t) AS b PATTERN (A B+) "
            "DEFINE B AS x < PREV(x)",
            [(6, 1)],
            id="time descends, and so no NULL is in between from 6 on",
        ),
        pytest.param(
            "ORDER BY s DESC NULLS FIRST, t MEASURES A.t AS t PATTERN (A)",
            [(3,), (8,), (7,), (6,), (5,), (4,), (2,), (1,)],
            id="a text, NULL first",
        ),
        pytest.param(
            "PARTITION BY x > 3 ORDER BY x MEASURES LAST(t) AS t, COUNT(*) AS n PATTERN (A A?)",
            [(False, 2, 2), (False, 3, 1), (True, 5, 2), (True, 8, 2), (None, 7, 1)],
            id="a number that is not the time, beside a partition",
        ),
        pytest.param(
            "ORDER BY h, x DESC MEASURES A.t AS a, B.t AS b PATTERN (A B) WITHIN 0",
            [(3, 2), (5, 4), (6, 7)],
            id="a time of ties, in which x descends; NULL last",
        ),
        pytest.param(
            "ORDER BY k DESC, t MEASURES MATCH_NUMBER() AS no ALL ROWS PER MATCH PATTERN (A B C)",
            [
                *(("b", 4, 1, 4), ("b", 6, 1, 6), ("b", 8, 1, 8)),
                *(("a", 1, 2, 1), ("a", 3, 2, 3), ("a", 7, 2, None)),
            ],
            id="rows of the answer stand in that order",
        ),
    ],
)
def test_rows_at_hand_are_matched_in_any_order(
    store: Store, inside: str, expected: list[tuple[Any, ...]]
) -> None:
    halves = EVENTS.append_column("h", pa.array([t // 2 for t in range(1, 9)]))
    shown = "k, t, no, x" if "ALL ROWS" in inside else "*"
    in_order = "(SELECT *, t / 2 AS h FROM m ORDER BY t)"
    # A whole number would be the time of a table in memory.
    by_number = "ORDER BY x" in inside
    memory = ({"m": EVENTS}, in_order) if by_number else ({"m": halves}, "m")
    for source, inner in (memory, (store, in_order)):
        sql = f"SELECT {shown} FROM {inner} MATCH_RECOGNIZE ({inside})"
        found = replay.query(source, sql).table.to_pylist()
        assert [tuple(row.values()) for row in found] == expected
    with pytest.raises(QueryError, match="need the whole answer, which an online query never has"):
        replay.online(sql.replace(in_order, "(SELECT * FROM m)"), halves.schema, time="t")
