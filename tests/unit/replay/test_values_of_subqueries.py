"""Subqueries in MEASURES and DEFINE give what DuckDB says they do, under every plan."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import chronicle
import replay
from replay.errors import NotSupportedError, QueryError

duckdb = pytest.importorskip("duckdb")

TABLES: dict[str, pa.Table] = {
    "s": pa.table({"t": range(6), "k": list("abacab"), "x": pa.array([5, 1, None, 2, 9, 3])}),
    "o": pa.table({"t": [1, 3, 4], "y": pa.array([5, None, 2])}),
    "e": pa.table({"t": pa.array([], pa.int64()), "y": pa.array([], pa.int64())}),
}
CONDITIONS = [
    "x IN (SELECT y FROM o)",
    "x NOT IN (SELECT y FROM o)",
    "x NOT IN (SELECT y FROM o WHERE y > 0)",
    "x IN (SELECT y FROM e)",
    "x NOT IN (SELECT y FROM e)",
    "x > (SELECT y FROM e)",
    "(x > (SELECT y FROM e)) IS NULL",
    "EXISTS (SELECT y FROM e)",
    "NOT EXISTS (SELECT y FROM e)",
    "x > (SELECT AVG(x) FROM s)",
    "x = (SELECT MAX(y) FROM o) OR t IN (SELECT t FROM o)",
    "k = (SELECT MIN(k) FROM s) AND x < (SELECT MAX(x) FROM s)",
    "1 IN (SELECT 1)",
    "EXISTS (SELECT 1)",
    "x > (SELECT 2) AND x IN (SELECT t + 1)",
]
PATTERN = (
    "SELECT t FROM s MATCH_RECOGNIZE (ORDER BY t MEASURES A.t AS t PATTERN (A) DEFINE A AS {})"
)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> chronicle.Store:
    path: Path = tmp_path_factory.mktemp("values") / "store"
    store = chronicle.create_store(path)
    for name, table in TABLES.items():
        settings = chronicle.StreamSettings(time="t", block_events=2)
        stream = store.create_stream(name, table.schema, settings)
        if table.num_rows:
            stream.append(table)
    chronicle.create_index(store.stream("s"), ["x"])
    return store


def of_duckdb(sql: str) -> list[Any]:
    with duckdb.connect() as connection:
        for name, table in TABLES.items():
            connection.register(name, table)
        return [value for (value,) in connection.execute(sql).fetchall()]


def asked(
    source: chronicle.Store | Mapping[str, pa.Table], sql: str, plan: str = "auto"
) -> list[Any]:
    return replay.query(source, sql, plan=plan).table.column(0).to_pylist()


@pytest.mark.parametrize("condition", CONDITIONS)
def test_values_of_subqueries_decide_what_matches(store: chronicle.Store, condition: str) -> None:
    due = of_duckdb(f"SELECT t FROM s WHERE {condition} ORDER BY t")
    sql = PATTERN.format(condition)
    assert asked(TABLES, sql) == due
    for plan in ("auto", "full"):
        assert asked(store, sql, plan) == due


@pytest.mark.parametrize("condition", CONDITIONS)
def test_values_of_subqueries_are_measures(condition: str) -> None:
    sql = f"SELECT v FROM s MATCH_RECOGNIZE (ORDER BY t MEASURES {condition} AS v PATTERN (A))"
    assert asked(TABLES, sql) == of_duckdb(f"SELECT {condition} FROM s ORDER BY t")


def test_indexes_are_asked_for_the_value_of_a_subquery(store: chronicle.Store) -> None:
    sql = PATTERN.format("x = (SELECT MAX(x) FROM s)")
    result = replay.query(store, sql, plan="indexes=A.x")
    assert result.stats["inputs"][0]["plan"] == "indexes=A.x"
    assert result.table.column(0).to_pylist() == [4]


def test_a_statement_reads_one_version_of_a_stream(store: chronicle.Store) -> None:
    result = replay.query(store, PATTERN.format("t = (SELECT MAX(t) FROM s)"), as_of=1)
    assert result.table.column(0).to_pylist() == [5]


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ("x > (SELECT x FROM s)", "gives 6 rows; aggregate them"),
        ("(x, t) IN (SELECT y, t FROM o)", "join what MATCH_RECOGNIZE gives with that query"),
        ("x > (SELECT COUNT(*))", "write SELECT … FROM stream"),
        ("x IN (SELECT x FROM s UNION SELECT 1)", "write such a query in WITH and read that"),
    ],
)
def test_a_subquery_that_is_no_value_is_told(condition: str, said: str) -> None:
    with pytest.raises(QueryError, match=said):
        asked(TABLES, PATTERN.format(condition))


def test_a_subquery_reads_what_duckdb_answers_in_with() -> None:
    moves = "WITH w AS (SELECT x - LAG(x) OVER (ORDER BY t) AS move FROM s) "
    found = asked(TABLES, moves + PATTERN.format("x >= (SELECT MAX(move) FROM w)"))
    assert found == of_duckdb(
        f"{moves} SELECT t FROM s WHERE x >= (SELECT MAX(move) FROM w) ORDER BY t"
    )
    assert found


OF_DUCKDB = "(SELECT t, x FROM s WHERE x IN (SELECT x FROM s)) MATCH_RECOGNIZE"


@pytest.mark.parametrize(
    "named",
    ["w AS (SELECT MIN(x) AS x FROM s)", "w AS (SELECT 1 AS x UNION SELECT 9)", "s AS (FROM s)"],
)
def test_a_subquery_reads_with_where_duckdb_answers_what_is_matched(named: str) -> None:
    read = named.split(maxsplit=1)[0]
    sql = PATTERN.replace("s MATCH_RECOGNIZE", OF_DUCKDB).format(f"x > (SELECT MIN(x) FROM {read})")
    assert asked(TABLES, f"WITH {named} {sql}") == [0, 3, 4, 5]


def test_a_subquery_reads_the_nearest_of_a_name() -> None:
    sql = PATTERN.replace("s MATCH_RECOGNIZE", OF_DUCKDB).format("x = (SELECT MAX(x) FROM s)")
    assert asked(TABLES, f"WITH s AS (SELECT * FROM s WHERE x < 5) {sql}") == [5]


def test_subqueries_have_no_value_online() -> None:
    with pytest.raises(NotSupportedError, match="give its value as a parameter"):
        replay.online(PATTERN.format("x > (SELECT AVG(x) FROM s)"), TABLES["s"].schema, time="t")


RENAMED = "(SELECT * FROM s) q(a)"
OVER_3 = "PATTERN (A) DEFINE A AS {}x > 2"
NAMES = [
    (f"s MATCH_RECOGNIZE (ORDER BY t MEASURES s.t AS t {OVER_3.format('s.')})", "t"),
    (f"s AS q MATCH_RECOGNIZE (ORDER BY t MEASURES Q.t AS t {OVER_3.format('q.')})", "t"),
    (f"s MATCH_RECOGNIZE (ORDER BY t MEASURES A.t AS t {OVER_3.format('')}) AS m(n)", "n"),
    ("s MATCH_RECOGNIZE (ORDER BY t MEASURES t AS t PATTERN (A)) m(n) WHERE m.n IN (0, 4, 5)", "n"),
    ("(SELECT t, x FROM s) AS q(a, b) WHERE q.b > 2", "a"),
    ("s AS q(a) WHERE x > 2", "a"),
    (f"{RENAMED} MATCH_RECOGNIZE (ORDER BY a MEASURES q.a AS t {OVER_3.format('q.')})", "t"),
]


@pytest.mark.parametrize(("source", "column"), NAMES)
def test_names_given_to_columns_and_what_stands_before_them(source: str, column: str) -> None:
    assert asked(TABLES, f"SELECT {column} FROM {source}") == [0, 4, 5]


def test_the_name_of_a_stream_before_a_column_is_no_symbol_of_an_aggregate() -> None:
    measures = "COUNT(s.*) AS n, SUM(s.x) AS x, SUM(B.x) AS b"
    sql = (
        f"SELECT n, x, b FROM s MATCH_RECOGNIZE (ORDER BY t MEASURES {measures} PATTERN (A+? B+) )"
    )
    assert replay.query(TABLES, sql).table.to_pylist() == [{"n": 6, "x": 20, "b": 15}]


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("(SELECT t FROM s) AS q(a, b)", "has 1 column, and 2 names"),
        ("(SELECT t, x FROM s) AS q(a, a)", "two columns are called 'a'"),
        ("(SELECT t, x FROM s) AS q(x)", "two columns are called 'x'"),
    ],
)
def test_names_that_columns_cannot_have_are_told(source: str, said: str) -> None:
    with pytest.raises(QueryError, match=said):
        asked(TABLES, f"SELECT * FROM {source}")


EVERY = "s MATCH_RECOGNIZE (ORDER BY t MEASURES A.t AS a, A.k AS k PATTERN (A))"
DEAR = "s MATCH_RECOGNIZE (ORDER BY t MEASURES A.t AS b, A.k AS k PATTERN (A) DEFINE A AS x > 2)"
JOINED = [
    ("{} AS m JOIN {} AS n WITHIN 3 ON m.k = n.k", "abs(a - b) < 3 AND m.k = n.k"),
    ("{} AS m JOIN {} AS n ON m.k = n.k", "m.k = n.k"),
    ("{} AS m, {} AS n WHERE m.k = n.k", "m.k = n.k"),
    ("{} m ASOF JOIN {} n ON m.k = n.k AND m.a <= n.b", "m.k = n.k AND a <= b AND b = nearest"),
]


@pytest.mark.parametrize(("source", "condition"), JOINED)
def test_answers_of_several_patterns_are_joined(
    store: chronicle.Store, source: str, condition: str
) -> None:
    sql = f"SELECT a * 10 + b AS v FROM {source.format(EVERY, DEAR)}"
    due = of_duckdb(f"""
        WITH m AS (SELECT t AS a, k FROM s), n AS (SELECT t AS b, k FROM s WHERE x > 2)
        SELECT a * 10 + b AS v FROM m, n,
          LATERAL (SELECT MIN(b) AS nearest FROM n AS o WHERE o.k = m.k AND o.b >= m.a) AS next
        WHERE {condition} ORDER BY v""")
    assert due
    assert sorted(asked(TABLES, sql)) == due
    assert sorted(asked(store, sql)) == due
    in_subqueries = source.format(f"(SELECT * FROM {EVERY})", f"(SELECT * FROM {DEAR})")
    assert sorted(asked(store, f"SELECT a * 10 + b AS v FROM {in_subqueries}")) == due
