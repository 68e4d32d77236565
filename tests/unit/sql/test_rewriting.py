"""What means the same in DuckDB's part as in ours, though DuckDB reads it otherwise."""

import datetime as dt

import duckdb
import pyarrow as pa
import pytest

import replay
from replay.errors import NotSupportedError, UnknownNameError
from replay.language.cursor import RESERVED
from replay.sql.connection import Allowed, DuckDBError, Session
from replay.sql.constructs import CALLABLE
from replay.sql.overrides import NO_VALUES
from replay.sql.rewriting import NO_NAMES

BY_DUCKDB = "COUNT(*) OVER () AS c"
NOON = dt.datetime(2024, 1, 31, 12)
EVENTS = pa.table({"t": [NOON], "day": [NOON.date()], "n": [2], "k": ["abcdef"]})


def value(expression, source=EVENTS):
    """Return what DuckDB's part gives for an expression over the one row of a table."""
    return replay.query({"s": source}, f"SELECT {expression} AS v, {BY_DUCKDB} FROM s").table[0][0]


@pytest.mark.parametrize(
    ("expression", "due"),
    [
        ("t - 1 HOUR", NOON - dt.timedelta(hours=1)),
        ("t - 1.5 HOURS", NOON - dt.timedelta(minutes=90)),
        ("t + INTERVAL '1.5' HOUR", NOON + dt.timedelta(minutes=90)),
        ("t + INTERVAL '1 02:30:00' DAY TO SECOND", NOON + dt.timedelta(days=1, minutes=150)),
        ("t - TIMESTAMP '2024-01-31 10:00:00' < 3 HOURS", True),
        ("t - TIMESTAMP '2024-01-31 10:00:00' BETWEEN 1 HOUR AND 119 MINUTES", False),
        ("date_add('day', n, t)", NOON + dt.timedelta(days=2)),
        ("date_add('HOURS', n, t)", NOON + dt.timedelta(hours=2)),
        ("date_add('month', 1, t)", dt.datetime(2024, 2, 29, 12)),
        ("date_add('quarter', -n, day)", dt.date(2023, 7, 31)),
        ("date_add(t, INTERVAL 1 DAY)", NOON + dt.timedelta(days=1)),
        ("date_trunc('month', day)", dt.date(2024, 1, 1)),
        ("date_trunc('month', t)", dt.datetime(2024, 1, 1)),
        ("CAST(k AS VARCHAR(3))", "abc"),
        ("upper(CAST(n + 100 AS VARCHAR(2))) || 'x'", "10x"),
    ],
)
def test_a_value_in_duckdbs_part_is_that_of_ours(expression, due):
    assert value(expression).as_py() == due


@pytest.mark.parametrize("call", ["APPROX_COUNT_DISTINCT(x)", "APPROX_QUANTILE(x, 0.37)"])
def test_estimates_are_exact_in_duckdbs_part(call):
    many = {"s": pa.table({"t": range(5000), "x": range(5000)})}
    ours = replay.query(many, f"SELECT {call} AS v FROM s").table
    assert replay.query(many, f"SELECT {call} AS v FROM s WHERE EXISTS (SELECT 1)").table == ours
    more = f"SELECT {call} FILTER (WHERE x < 10) OVER () AS v FROM s LIMIT 1"
    assert replay.query(many, more).table[0][0].as_py() in (10, 9 * 0.37)


@pytest.mark.parametrize("word", ["k::VARCHAR(3)", "CAST([k] AS VARCHAR(3)[])"])
def test_a_length_that_duckdb_would_pass_over_is_refused(word):
    with pytest.raises(NotSupportedError, match=r"CAST\(… AS VARCHAR\(3\)\)"):
        value(word)


@pytest.mark.parametrize("word", ["at", "left", "desc", "user", "end_", "limit", "order", "group"])
def test_a_column_with_a_name_that_duckdb_reserves_is_read_without_quotes(word):
    table = {"s": pa.table({"t": [1, 2], word: [3, 4]})}
    sql = f"SELECT {word}, {word} - 1 AS a, SUM({word}) OVER (ORDER BY {word} DESC) AS b FROM s"
    asked = f"{sql} WHERE s.{word} > 0 ORDER BY {word} + 0"
    assert replay.query(table, asked).table.to_pydict() == {word: [3, 4], "a": [2, 3], "b": [7, 4]}


def test_words_that_begin_something_stay_words():
    source = {"s": pa.table({"t": [1, 2, 2], "k": ["a", " b ", " b "]})}
    sql = """SELECT DISTINCT trim(BOTH FROM k) AS k, t IS NOT DISTINCT FROM 2 AS two,
             COUNT(DISTINCT k) OVER (ORDER BY t DESC) AS n, CASE WHEN t = ANY (SELECT 1) THEN 1 END
             AS one FROM s GROUP BY ALL, t, k ORDER BY ALL"""
    sql = sql.replace("GROUP BY ALL, t, k ", "")
    assert replay.query(source, sql).table.to_pylist() == [
        {"k": "a", "two": False, "n": 2, "one": 1},
        {"k": "b", "two": True, "n": 1, "one": None},
    ]


def test_the_words_that_name_nothing_unquoted_are_those_of_duckdb():
    rows = duckdb.sql("SELECT upper(keyword_name), keyword_category FROM duckdb_keywords()")
    words = {word for word, kind in rows.fetchall() if kind in ("reserved", "type_function")}
    refused = set()
    for word in words - RESERVED:
        try:
            duckdb.sql(f'SELECT {word}, 1 FROM (SELECT 1 AS "{word}")')
        except duckdb.Error:
            refused.add(word)
    assert refused == NO_NAMES


def test_every_function_without_arguments_may_be_called_or_is_hidden():
    rows = duckdb.sql(
        "SELECT DISTINCT function_name FROM duckdb_functions() WHERE len(parameters) = 0 "
        "AND varargs IS NULL AND function_type IN ('scalar', 'macro')"
    )
    assert {name for (name,) in rows.fetchall()} - CALLABLE == set(NO_VALUES)


def test_no_word_is_a_value_where_it_names_no_column():
    session = Session(Allowed((), 1, None))
    rows = session.execute(
        "SELECT keyword_name FROM duckdb_keywords() UNION SELECT function_name FROM "
        "duckdb_functions()",
        {},
    )
    words = ["current_timestamp", "current_time", "localtime", "localtimestamp"]
    read = []
    for word in words + [name.replace('"', '""') for (name,) in rows]:
        try:
            session.bind(f'SELECT "{word}"', {})
        except DuckDBError:
            continue
        read.append(word)
    session.close()
    assert read == []


@pytest.mark.parametrize("word", ["user", '"current_timestamp"', "SUM(session_user)"])
def test_a_word_of_duckdbs_session_is_told_as_a_column_that_is_not_there(word):
    with pytest.raises(UnknownNameError, match=r"no column '.*_?(user|timestamp)' .there are: t, "):
        value(f"CAST({word} AS VARCHAR)")
    assert value("user", pa.table({"t": [1], "user": ["me"]})).as_py() == "me"


@pytest.mark.parametrize(
    ("values", "due"),
    [
        ([1, None], [False, None, None]),
        ((1, 2), [False, False, None]),
        ([], [True, True, True]),
        ([None], [None, None, None]),
    ],
)
def test_none_in_a_list_is_sqls_null(values, due):
    source = {"s": pa.table({"t": [1, 2, 3], "x": [1, 2, None]})}
    sql = "SELECT x NOT IN $v AS r, COUNT(*) OVER () AS c FROM s"
    assert replay.query(source, sql, params={"v": values}).table["r"].to_pylist() == due
    ours = "SELECT x NOT IN (SELECT unnest($v)) AS r FROM s"  # DuckDB's own NULL
    assert replay.query(source, ours, params={"v": [*values, 7]}).table["r"].to_pylist()[1] == (
        None if None in values else 2 not in values
    )
