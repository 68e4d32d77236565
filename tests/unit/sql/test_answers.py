"""What comes back from statements that DuckDB runs around Chronicle's answers."""

import datetime as dt
import json
import subprocess
import sys
from _thread import interrupt_main
from decimal import Decimal
from pathlib import Path
from signal import SIGINT, default_int_handler, signal
from threading import Timer

import duckdb
import numpy as np
import pandas as pd  # noqa: TID251 -- users have frames
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import replay
from chronicle import StreamSettings, add_column, adopt, create_store, open_store
from chronicle.errors import CorruptBlockError, StreamNotFoundError
from replay.errors import (
    BindError,
    LimitExceededError,
    NotSupportedError,
    PatternSyntaxError,
    QueryError,
    UnknownNameError,
)
from replay.sql.answers import in_38_digits
from tests.helpers import commit_table, damage_events
from tests.json_schema import violations
from tests.unit.sql.sql_cases import FALLS, PLACES, TICKS, ticks_store

SCHEMA = json.loads((Path(__file__).parents[3] / "docs" / "explain.schema.json").read_text())
CORRELATED = FALLS.replace("D AS price", "D AS o.price")
OVER = "LAG(1) OVER () AS l"
"""What sends a statement to DuckDB."""


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return ticks_store(tmp_path_factory.mktemp("sql") / "store")


def rows(source, sql, **how):
    return replay.query(source, sql, **how).table.to_pylist()


def values(result):
    return [tuple(row.values()) for row in result.table.to_pylist()]


def column(source, sql, **how):
    [name] = replay.query(source, sql, **how).table.column_names
    return [row[name] for row in rows(source, sql, **how)]


# --- parts of both engines ------------------------------------------------------------------------


def test_matches_meet_window_functions_joins_and_subqueries(store):
    tables = {"places": PLACES}
    ranked = (
        f"SELECT began, RANK() OVER (ORDER BY top - bottom DESC, began) AS r FROM ticks {FALLS}"
    )
    assert rows(store, ranked) == [
        {"began": 2, "r": 1},
        {"began": 4, "r": 2},
        {"began": 8, "r": 3},
        {"began": 3, "r": 4},
    ]
    joined = (
        f"SELECT m.began, p.place FROM ticks {FALLS} m LEFT JOIN places p USING (symbol) ORDER BY 1"
    )
    assert rows(store, joined, tables=tables) == [
        {"began": 2, "place": "north"},
        {"began": 3, "place": None},
        {"began": 4, "place": "north"},
        {"began": 8, "place": None},
    ]
    assert column(store, f"SELECT t FROM ticks WHERE t IN (SELECT began FROM ticks {FALLS})") == [
        2,
        3,
        4,
        8,
    ]
    assert column(
        store, f"SELECT (SELECT MAX(top) FROM ticks {FALLS}) - MAX(price) AS x FROM ticks"
    ) == [0]
    both = f"SELECT began AS x FROM ticks {FALLS} EXCEPT SELECT t FROM ticks WHERE t < 4 ORDER BY x"
    assert column(store, both) == [4, 8]


def test_a_pattern_over_what_duckdb_answered_first(store):
    sql = """WITH d AS (
        SELECT t, price - LAG(price) OVER (PARTITION BY symbol ORDER BY t) AS step FROM ticks)
      SELECT * FROM d MATCH_RECOGNIZE (
        ORDER BY t MEASURES A.t AS a PATTERN ( A ) DEFINE A AS step > 3 )
      WHERE a IN (SELECT t FROM ticks)"""
    assert column(store, sql) == [7, 12]


@pytest.mark.parametrize(
    ("before", "name", "times"),
    [
        ("ticks AS (SELECT t, symbol, price * 2 AS price FROM ticks)", "ticks", 2),
        ("a AS (SELECT * FROM ticks), ticks AS (SELECT 1 AS x)", "a", 1),
        ("a AS (SELECT * FROM ticks), ticks AS (SELECT t, LAG(t) OVER () AS l FROM a)", "a", 1),
        ("ticks AS (SELECT *, 1::INT AS k FROM ticks), a AS (SELECT * FROM ticks)", "a", 1),
    ],
)
def test_in_a_query_of_with_a_name_is_what_it_was_there(store, before, name, times):
    sql = f"WITH {before} SELECT bottom, {OVER} FROM {name} {FALLS} ORDER BY began"
    assert [row["bottom"] for row in rows(store, sql)] == [
        bottom * times for bottom in (9, 49, 9, 48)
    ]


def test_windows_meet_lag(store):
    sql = """WITH w AS (SELECT window_start, SUM(volume) AS v
        FROM TABLE(TUMBLE(TABLE ticks, DESCRIPTOR(t), 4, ORIGIN => 0)) GROUP BY window_start)
      SELECT window_start, v - LAG(v) OVER (ORDER BY window_start) AS more FROM w"""
    assert [row["more"] for row in rows(store, sql)] == [None, 230, -300, -180]


@pytest.mark.parametrize(
    ("aggregate", "values"),
    [
        ("FIRST(m.a)", [1, 2]),
        ("LAST(a)", [1, 3]),
        ("ROUND(MEDIAN(a) + 0.5)", [2.0, 3.0]),
        ("PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY a)", [1.0, 2.5]),
    ],
)
@pytest.mark.parametrize("source", ["m", "({matches})"])
def test_windows_over_matches_have_all_aggregates_of_windows(aggregate, values, source):
    table = pa.table({"t": [1, 2, 3], "a": [1, 2, 3]})
    matches = """SELECT m1, a FROM s MATCH_RECOGNIZE (
        ORDER BY t MEASURES A.t AS m1, A.a AS a PATTERN (A))"""
    over = source.format(matches=matches)
    windows = f"""SELECT window_start AS w, {aggregate} AS v
        FROM TABLE(TUMBLE(TABLE {over}, DESCRIPTOR(m1), 2)) {"" if source == "m" else "AS m"}
        GROUP BY window_start"""
    sql = f"WITH m AS ({matches}) SELECT v, COUNT(*) OVER () AS n FROM ({windows}) ORDER BY w"
    assert rows({"s": table}, sql) == [{"v": value, "n": 2} for value in values]


def test_a_join_of_ours_is_a_subquery_of_its_own(store):
    sql = """SELECT seen, COUNT(*) AS n FROM (
        SELECT a.t AS seen FROM ticks a JOIN ticks b WITHIN 2
        ON a.symbol = 'A' AND b.symbol = 'B' AND a.volume > 100
      ) GROUP BY ALL ORDER BY seen"""
    assert rows(store, sql) == [{"seen": 2, "n": 1}, {"seen": 5, "n": 1}, {"seen": 7, "n": 2}]


def test_tables_beside_a_store_are_asked_by_our_language_too(store):
    tables = {"places": PLACES}
    assert column(store, "SELECT place FROM places WHERE symbol = 'C'", tables=tables) == ["south"]
    with pytest.raises(QueryError, match="call the table otherwise"):
        rows(store, "SELECT t FROM ticks", tables={"ticks": PLACES})


def test_files_that_are_named_are_read(store, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a[1]*").mkdir()
    pq.write_table(PLACES, "a[1]*/p?.parquet")
    (tmp_path / "p.csv").write_text("symbol;place\nA;west\n")
    assert column(store, "SELECT place FROM 'p.csv'") == ["west"]
    Path("q.csv").write_text("place,symbol\n01067,A\n7,B\n")
    found = replay.query(
        store, "SELECT a.place, b.place AS p FROM 'q.csv' a JOIN 'q.csv' b USING (symbol)"
    )
    assert values(found) == [("01067", "01067"), ("7", "7")]
    assert found.actual.warnings == ("'q.csv': place read as STRING, since line 2 holds '01067'",)
    Path("q.csv").write_text("place,symbol\n1,A\n2,B,C\n")
    with pytest.raises(QueryError, match=r"line 3 of 'q.csv': .* more cells than") as caught:
        rows(store, "SELECT place FROM 'q.csv'")
    assert caught.value.column == len("SELECT place FROM '")
    Path("q.jsonl").write_text('{"v":1}\n{"v":"a"}\n')
    assert column(store, "SELECT v FROM '*.jsonl'") == ["1", "a"]
    [schema] = [replay.query(store, "SELECT v FROM 'q.jsonl' WHERE FALSE").table.schema]
    assert schema.types == [pa.string()]
    assert column(store, "SELECT place FROM 'a[[]1][*]/*.parquet' ORDER BY 1") == ["north", "south"]
    for sql in (
        f"SELECT {OVER} FROM 'https://x.example/p.parquet'",
        f"SELECT {OVER} FROM 'none.csv'",
        f"SELECT {OVER} FROM 'p.xyz'",
    ):
        with pytest.raises(QueryError) as caught:
            rows(store, sql)
        assert caught.value.column == sql.index("'") + 1


# --- streams --------------------------------------------------------------------------------------


def test_a_stream_has_its_columns_types_and_order_whatever_its_files_hold(tmp_path):
    store = create_store(tmp_path / "store")
    kinds = {"t": pa.timestamp("us", "UTC"), "k": pa.string(), "n": pa.int8(), "x": pa.float32()}
    kinds |= {"b": pa.bool_(), "d": pa.date32(), "m": pa.decimal128(9, 2), "raw": pa.binary()}
    settings = StreamSettings("t", block_events=4, file_events=8)
    stream = store.create_stream("s", pa.schema(kinds), settings)

    def events(first, stop, **more):
        at = [dt.datetime(2024, 1, 1) + dt.timedelta(minutes=i) for i in range(first, stop)]
        made = {
            "t": pa.array(at, kinds["t"]),
            "k": pa.array(["ab"[i % 2] for i in range(first, stop)]),
            "n": pa.array([i % 7 for i in range(first, stop)], kinds["n"]),
            "x": pa.array([None if i % 5 else i for i in range(first, stop)], kinds["x"]),
            "b": pa.array([i % 3 == 0 for i in range(first, stop)]),
            "d": pa.array([dt.date(2024, 1, 1)] * (stop - first)),
            "m": pa.array([Decimal(i) / 100 for i in range(first, stop)], kinds["m"]),
            "raw": pa.array([bytes([i]) for i in range(first, stop)]),
        }
        return pa.table(made | more)

    commit_table(stream, events(0, 20))
    add_column(stream, "late", pa.int32())
    stream = store.stream("s")
    commit_table(stream, events(20, 30, late=pa.array(range(10), pa.int32())))
    stream.append(events(5, 7, late=pa.array([77, 78], pa.int32())))  # late events
    ours = replay.query(store, "SELECT * FROM s").table
    found = replay.query(store, f"SELECT *, {OVER} FROM s").table.drop_columns(["l"])
    assert found.schema == ours.schema
    assert found.equals(ours)
    assert column(store, "SELECT COUNT(*) OVER () AS n FROM s LIMIT 1", as_of=1) == [20]


@pytest.mark.parametrize("block_events", [1, 2, 8])
@pytest.mark.parametrize("kind", [pa.float64(), pa.float32()])
def test_nan_is_greater_than_any_number_whatever_its_block_holds_beside_it(
    tmp_path, kind, block_events
):
    nan = float("nan")
    table = pa.table(
        {"t": range(8), "x": pa.array([0.5, nan, -0.0, None, 2.0, nan, nan, 1.0], kind)}
    )
    store = create_store(tmp_path / "store")
    settings = StreamSettings("t", block_events=block_events)
    commit_table(store.create_stream("s", table.schema, settings), table)
    asked = {
        "x > 0.5": [1, 4, 5, 6, 7],
        "x >= 2.5": [1, 5, 6],
        "x = 'nan'": [1, 5, 6],
        "NOT (x <= 1)": [1, 4, 5, 6],
        "x IN (SELECT x FROM s WHERE t = 5)": [1, 5, 6],
        "x BETWEEN 1 AND 'nan'": [1, 4, 5, 6, 7],
        "x < 1": [0, 2],
    }
    for condition, times in asked.items():
        sql = f"SELECT t, LAG(t) OVER () AS l FROM s WHERE {condition}"
        assert [row["t"] for row in rows(store, sql)] == times, condition
    values = rows(store, "SELECT x, LAG(1) OVER () AS l FROM s")
    assert [repr(row["x"]) for row in values] == [repr(x) for x in table["x"].to_pylist()]


def test_an_adopted_table_is_read_where_it_is(tmp_path):
    for day, place in ((1, "north"), (2, "south")):
        folder = tmp_path / "lake" / f"place={place}"
        folder.mkdir(parents=True)
        text = pa.array(["a", "b"]).dictionary_encode()
        table = pa.table(
            {"x": [1.5, 2.5], "t": pa.array([day, day], pa.timestamp("ms")), "s": text}
        )
        pq.write_table(table, folder / "f.parquet")
    store = create_store(tmp_path / "store")
    adopt(store, "lake", tmp_path / "lake", time="t")
    ours = replay.query(store, "SELECT * FROM lake").table
    assert replay.query(store, f"SELECT *, {OVER} FROM lake").table.drop_columns(["l"]).equals(ours)


def test_a_stream_without_events_has_its_columns(tmp_path):
    store = create_store(tmp_path / "store")
    store.create_stream("s", TICKS.schema, StreamSettings("t"))
    assert replay.query(store, f"SELECT *, {OVER} FROM s").table.column_names == [
        *TICKS.column_names,
        "l",
    ]


def test_damage_is_found_before_duckdb_reads(tmp_path):
    store = ticks_store(tmp_path / "store")
    damage_events(store.stream("ticks"), 0)
    damaged = open_store(tmp_path / "store")
    sql = "SELECT price, LAG(price) OVER (ORDER BY t) AS l FROM ticks"
    with pytest.raises(CorruptBlockError, match="checksum"):
        rows(damaged, sql)
    result = replay.query(damaged, sql, skip_damaged=True)
    assert len(result) == 0
    assert "was left out" in result.actual.warnings[0]


# --- the boundary ---------------------------------------------------------------------------------

D = pa.table(
    {
        "i": pa.array([2**62, 2**62]),
        "x": pa.array([float("nan"), None]),
        "z": pa.array([0, None], pa.timestamp("us", "Europe/Berlin")),
        "m": pa.array([Decimal("1.50"), None]),
        "took": pa.array([1_500_000, None], pa.duration("us")),
        "n": pa.array([Decimal(7), None], pa.decimal256(20, 0)),
        "hundreds": pa.array([Decimal(700), None], pa.decimal128(3, -2)),
    }
)


@pytest.mark.parametrize(
    ("what", "value"),
    [
        ("SUM(i) / 2 ** 62", 2.0),
        ("SUM(i)::DECIMAL(38, 0)", Decimal(2**63)),
        ("COUNT(*) FILTER (WHERE x > 1)", 1),  # NaN is greater than any number
        ("COUNT(*) FILTER (WHERE x = x)", 1),  # and equal to itself
        ("COUNT(*) FILTER (WHERE x IS NULL)", 1),
        ("MAX(z)::VARCHAR", "1970-01-01 00:00:00+00"),
        ("SUM(m)", Decimal("1.50")),
        ("MAX(m) * MAX(m)", Decimal("2.2500")),
        ("MAX(took)", dt.timedelta(seconds=1.5)),
        ("MAX(took) * 2_000_000_000 * 5", dt.timedelta(seconds=15_000_000_000)),  # 475 years
        ("INTERVAL '-1 day 00:00:01'", dt.timedelta(seconds=1 - 86_400)),
        ("MAX(n)", Decimal(7)),
        ("MAX(hundreds)", Decimal(700)),
        ("MAX(i) // 3", 2**62 // 3),
        ("7 / 2", 3.5),
        ("-7 // 2", -3),
        ("1 / 0", None),
        ("7 % 0", None),
        ("SUM(1)", 2),
        ("CAST(2.5e0 AS BIGINT)", 2),
        ("CAST(2e0 AS VARCHAR)", "2.0"),
        ("CAST('inf'::DOUBLE AS VARCHAR)", "inf"),
        ("TRY(CAST('a' AS INTEGER))", None),
        ("TRY_CAST('a' AS INTEGER)", None),
        ("date_diff('hour', TIMESTAMP '2024-01-01 00:59:00', TIMESTAMP '2024-01-01 01:00:00')", 1),
        ("MAX(z) - TIMESTAMPTZ '1969-12-31 00:00:00+00'", dt.timedelta(days=1)),
    ],
)
def test_values_at_the_boundary(what, value):
    [row] = rows({"d": D}, f"SELECT {what} AS v, ARRAY_AGG(1) AS a FROM d")
    assert row["v"] == value
    assert type(row["v"]) is type(value)


@pytest.mark.parametrize(
    ("table", "sql", "said"),
    [
        ({"a": [1], "A": [1]}, f"SELECT {OVER} FROM d", "differ in case only"),
        ({"a": [1]}, f"SELECT a AS k, 1 AS K, {OVER} FROM d", "'k' and 'K', which differ in case"),
        ({"a": [1]}, f"SELECT *, a, {OVER} FROM d", "two columns of the answer are named 'a'"),
        ({"a": [2**62] * 2}, "SELECT SUM(a) AS s, ARRAY_AGG(1) AS b FROM d", "beyond 64 bits"),
        ({"a": [1]}, f"SELECT INTERVAL 1 MONTH AS s, {OVER} FROM d", "an INTERVAL of months"),
        ({"a": [1]}, f"SELECT INTERVAL 200000000 DAYS AS s, {OVER} FROM d", "of more than 64 bits"),
        (
            {"a": [1]},
            f"SELECT '12:00+01'::TIMETZ AS s, {OVER} FROM d",
            "TIME WITH TIME ZONE, which",
        ),
        ({"a": [1]}, f"SELECT '101'::BIT AS s, {OVER} FROM d", "is a BIT, which .*; CAST it to V"),
        (
            {"a": [1]},
            f"SELECT '1970-01-01 00:00:00.000000001'::TIMESTAMP_NS AS s, {OVER} FROM d",
            "a time between two microseconds",
        ),
        ({"a": [1]}, f"SELECT 'infinity'::TIMESTAMP AS s, {OVER} FROM d", "the years 1 to 9999"),
        ({"a": [1]}, "SELECT DATE 'infinity' AS s, [1] AS l FROM d", "the years 1 to 9999"),
        ({"a": [2**62]}, f"SELECT a * 4 AS s, {OVER} FROM d", "Overflow in multiplication"),
        ({"a": [-1]}, f"SELECT sqrt(a) AS s, {OVER} FROM d", "square root of a negative"),
        (
            {"a": pa.array([Decimal(1)], pa.decimal256(50, 0))},
            f"SELECT {OVER} FROM d",
            "a DECIMAL of 50 digits",
        ),
    ],
)
def test_what_cannot_cross_the_boundary_is_refused(table, sql, said):
    with pytest.raises(QueryError, match=said):
        rows({"d": pa.table(table)}, sql)


def test_times_that_matches_took_keep_their_length_and_order_in_duckdbs_part():
    years = [dt.timedelta(days=365 * n) for n in (0, 300, 301, 700, 9000)]
    times = pa.array([(one - dt.timedelta()) // dt.timedelta(microseconds=1) for one in years])
    table = pa.table({"t": times.cast(pa.timestamp("us"))})
    sql = """SELECT took, COUNT(*) OVER () AS n FROM s MATCH_RECOGNIZE (
        ORDER BY t MEASURES B.t - A.t AS took AFTER MATCH SKIP TO NEXT ROW PATTERN (A B)
    ) ORDER BY took DESC"""
    found = [row["took"] for row in rows({"s": table}, sql)]
    assert found == [dt.timedelta(days=365 * n) for n in (8300, 399, 300, 1)]


def test_order_without_order_by_is_that_of_the_stream_and_nulls_come_last():
    table = pa.table({"x": [3, None, 1]})
    assert column({"d": table}, "SELECT x FROM d WHERE x IN (1, 3) OR [1] = [1]") == [3, None, 1]
    for way in ("", " DESC"):
        assert column({"d": table}, f"SELECT x FROM d WHERE [1] = [1] ORDER BY x{way}")[-1] is None


def test_streams_whose_names_differ_in_case_are_told_apart():
    tables = {"d": pa.table({"x": [1]}), "D": pa.table({"x": [2]})}
    sql = 'SELECT a.x AS a, b.x AS b FROM d a, "D" b'
    assert rows(tables, sql) == [{"a": 1, "b": 2}]


def test_a_text_that_looks_like_a_part_is_that_text(store):
    assert rows(store, f"SELECT 'chronicle_part_0' AS x, {OVER} FROM ticks LIMIT 1") == [
        {"x": "chronicle_part_0", "l": None}
    ]
    assert column(store, "SELECT ARRAY(SELECT t FROM ticks WHERE t < 3) AS a") == [[1, 2]]


# --- parameters, plans, errors --------------------------------------------------------------------


def test_parameters_of_every_kind_reach_both_engines(store):
    cut = FALLS.replace("price > PREV(price)", "price > PREV(price) AND price < :most")
    sql = f"SELECT began FROM ticks {cut} WHERE symbol IN $keys AND bottom > :low ORDER BY began"
    values = {"most": 52, "keys": ["B"], "low": 1}
    assert column(store, sql, params=values) == [3]
    assert column(store, "SELECT t FROM ticks WHERE price > ? AND t < ?", params=[50, 9]) == [8]
    folded = "SELECT list_reduce([1, 2], lambda x,y:x + y + :low) AS s"
    assert column(store, folded, params={"low": 4}) == [7]
    assert column(store, "SELECT t FROM ticks WHERE price > $low", params={"low": 51}) == [12]
    for params in ([1], [1, 2, 3], {}):
        with pytest.raises(QueryError, match="and params has"):
            rows(store, "SELECT t FROM ticks WHERE price > ? AND t < ?", params=params)
    with pytest.raises(QueryError, match=": no parameter 'low'"):
        rows(store, sql, params={"most": 52, "keys": ["B"]})
    with pytest.raises(QueryError, match=r"no parameter written \?, and params has 1 values"):
        rows(store, "SELECT t FROM ticks", params=[50])


@pytest.mark.parametrize("call", ["", ", LAG(t) OVER () AS before"])
def test_a_parameter_has_one_value_in_both_engines(store, call):
    def value(given):
        sql = f"SELECT :given AS v{call} FROM ticks LIMIT 1"
        return rows(store, sql, params={"given": given})[0]["v"]

    assert value(np.int64(7)) == value(pa.scalar(7)) == 7
    assert value(pd.NaT) is None
    longest = dt.timedelta(microseconds=2**63 - 1)
    assert value(longest) == longest
    refused = [
        (longest + dt.timedelta(microseconds=1), "longer than 64 bits of microseconds"),
        ("\ud800", "holds '.ud800', half a surrogate pair"),
    ]
    for given, said in refused:
        with pytest.raises(BindError, match=f"^line 1, column 8: the parameter ':given' .*{said}"):
            value(given)


@pytest.mark.parametrize("call", ["", ", LAG(t) OVER () AS before"])
@pytest.mark.parametrize("text", ["'\ud800'", '"\ud800"'])
def test_half_a_surrogate_pair_in_a_query_is_told_at_its_place(store, call, text):
    sql = f"SELECT t{call} FROM ticks WHERE symbol = {text}"
    with pytest.raises(PatternSyntaxError, match="half a surrogate pair") as caught:
        rows(store, sql)
    assert caught.value.column == len(sql) - 1
    str(caught.value).encode()


def test_every_plan_gives_the_same(store):
    cut = "MATCH_RECOGNIZE (ORDER BY t MEASURES A.t AS a PATTERN (A B) DEFINE A AS price > 50)"
    sql = f"SELECT a, LAG(a) OVER (ORDER BY a) AS l FROM ticks {cut}"
    full = replay.query(store, sql, plan="full").table
    for plan in ("auto", "tree"):
        assert replay.query(store, sql, plan=plan).table.equals(full)


def test_a_pattern_in_a_subquery_reads_only_its_blocks(store):
    sql = """SELECT t FROM ticks WHERE t IN (SELECT a FROM ticks MATCH_RECOGNIZE (
        ORDER BY t MEASURES A.t AS a PATTERN ( A B ) DEFINE A AS price > 51 ))"""
    result = replay.query(store, sql)
    assert result.table.to_pylist() == []  # the one event above 51 is the last
    assert result.stats["actual"]["blocks_read"] == 1
    assert result.stats["actual"]["blocks_total"] == 4


@pytest.mark.parametrize("zone", [None, "UTC"])
@pytest.mark.parametrize("source", ["quotes {match} AS m", "(SELECT * FROM quotes {match}) AS m"])
def test_bounds_of_time_around_a_part_leave_blocks_out_and_no_row(tmp_path, source, zone):
    seconds = pa.array([s * 1_000_000 for s in range(200)]).cast(pa.timestamp("us", zone))
    prices = pa.array([float(s % 7) if s % 11 else float("nan") for s in range(200)])
    table = pa.table({"ts": seconds, "price": prices})
    stores = create_store(tmp_path / "store")
    settings = StreamSettings("ts", block_events=10)
    commit_table(stores.create_stream("quotes", table.schema, settings), table)
    match = """MATCH_RECOGNIZE (ORDER BY ts MEASURES A.ts AS began, B.price AS low
        AFTER MATCH SKIP TO NEXT ROW PATTERN (A B) WITHIN INTERVAL '5' SECOND
        DEFINE B AS price < A.price)"""
    first, last = "1970-01-01 00:01:00", "1970-01-01 00:01:30.5"
    where = f"WHERE m.began >= TIMESTAMP '{first}' AND began < '{last}' AND low < 1"
    columns = "m.*, ROW_NUMBER() OVER (ORDER BY began) AS n"
    sql = f"SELECT {columns} FROM {source.format(match=match)} {where}"
    matches = replay.query(stores, f"SELECT * FROM quotes {match}").table
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("matches", matches)
        expected = connection.execute(f"SELECT {columns} FROM matches AS m {where}").fetchall()
    found = replay.query(stores, sql)
    assert [tuple(row.values()) for row in found] == expected
    assert len(expected) > 2
    assert found.actual.blocks_read <= 5  # of 20: seconds 60 to 95, and a block before


def test_bounds_around_a_part_on_what_is_no_time_are_left_to_duckdb(store):
    sql = f"SELECT LAG(top) OVER () AS l FROM ticks {FALLS} AS m WHERE began = '1970-01-01'"
    with pytest.raises(QueryError, match="Could not convert string"):
        replay.query(store, sql)


def test_explain_shows_the_boundary(store):
    sql = (
        f"SELECT m.began, LAG(top) OVER () AS l FROM ticks {FALLS} m JOIN ticks t ON t.t = m.began"
    )
    shown = str(replay.explain(store, sql))
    assert "ordinary SQL by DuckDB over 1 part of Chronicle's, ticks (1 file)" in shown
    assert "by Chronicle: the part at line 1" in shown
    assert "pattern   S … D … U" in shown
    assert "Window" in shown
    assert "chronicle_part" not in shown
    beside = {"places": PLACES}
    assert "full replay of a table" in str(
        replay.explain(store, "SELECT place FROM places", tables=beside)
    )
    told = replay.explain(store, sql).to_dict()
    for written in (told, replay.query(store, sql).stats):
        assert violations(json.loads(json.dumps(written)), SCHEMA, closed=True) == []
    assert told["inputs"][0]["inputs"][0]["pattern"] == "S … D … U"
    assert "Window" in told["tree"]


def test_statements_that_tell(store):
    tables = {"places": PLACES}
    assert rows(store, "SHOW STREAMS", tables=tables) == [
        {"stream": "places", "events": 2, "version": None},
        {"stream": "ticks", "events": 12, "version": 1},
    ]
    assert rows(store, "DESCRIBE ticks")[1] == {"column": "symbol", "type": "STRING"}
    counted = rows(store, f"DESCRIBE SELECT began, COUNT(*) OVER () AS n FROM ticks {FALLS}")
    assert counted == [{"column": "began", "type": "BIGINT"}, {"column": "n", "type": "BIGINT"}]
    assert rows(store, "DESCRIBE SELECT price FROM ticks") == [
        {"column": "price", "type": "BIGINT"}
    ]
    told = column(store, f"EXPLAIN SELECT began FROM ticks {FALLS}")
    assert any("S … D … U" in line for line in told)
    ran = column(store, f"EXPLAIN ANALYZE SELECT LAG(began) OVER () AS l FROM ticks {FALLS}")
    assert any("replayed" in line for line in ran)
    assert any("Total Time" in line for line in ran)
    for sql in ("SHOW", "SHOW x", "DESCRIBE", "EXPLAIN DROP TABLE x"):
        with pytest.raises(QueryError):
            rows(store, sql)


@pytest.mark.parametrize(
    ("sql", "error", "said", "at"),
    [
        (f"SELECT prise, {OVER} FROM ticks", UnknownNameError, "did you mean 'price'", "prise"),
        (f"SELECT q.price, {OVER} FROM ticks", UnknownNameError, "source or alias 'q'", "q.price"),
        (f"SELECT ticks.t, {OVER} FROM ticks s", UnknownNameError, r"\(there are: s\)", "ticks.t"),
        (f"SELECT m.prise, {OVER} FROM ticks {FALLS} m", UnknownNameError, "'prise'", "m.prise"),
        (f"SELECT 'ä€😀' AS s, prise, {OVER} FROM ticks", UnknownNameError, "'prise'", "prise"),
        (f"SELECT price::INTEGR AS x, {OVER} FROM ticks", UnknownNameError, "'INTEGER'", ""),
        (f"SELECT price, {OVER} FRM ticks", QueryError, "'FRM' does not fit", "FRM"),
        ("SELECT * FROM ticks a JOIN ticks b", BindError, "JOIN needs WITHIN .* with ON", "JOIN"),
        ("SELECT * FROM ticks a LEFT JOIN ticks b WHERE a.t = b.t", BindError, "needs", "LEFT"),
        (f"SELECT price, {OVER} FROM ticks GROUP BY t", BindError, "nor in GROUP BY", "price"),
        (f"SELECT CAST('a' AS INTEGER) AS x, {OVER} FROM ticks", BindError, "converted", "CAST"),
        (
            f"SELECT {OVER} FROM ticks {FALLS.replace('(price)', '(prise)')}",
            UnknownNameError,
            "'prise'",
            "prise",
        ),
        (
            f"SELECT MEDIAN(d.price) AS m FROM ticks {FALLS}",
            BindError,
            r"'d' is a symbol of PATTERN.*aggregate it in a subquery: FROM \(SELECT SUM\(d.x\)",
            "d.price",
        ),
        (
            f"SELECT o.t FROM ticks o WHERE EXISTS (SELECT 1 FROM ticks {CORRELATED})",
            NotSupportedError,
            "cannot refer to a row outside",
            "o.price",
        ),
    ],
)
def test_errors_of_either_engine_are_ours_at_their_place(store, sql, error, said, at):
    with pytest.raises(error, match=said) as caught:
        rows(store, sql)
    lines = sql.splitlines()
    place = sum(len(line) + 1 for line in lines[: caught.value.line - 1]) + caught.value.column - 1
    assert sql[place:].startswith(at)
    assert "chronicle_part" not in str(caught.value)


def test_what_duckdb_refuses_only_as_it_plans_is_refused_in_a_sentence_by_explain_too(store):
    sql = f"SELECT t FROM ticks EXCEPT SELECT t FROM ticks WHERE price > {10**40}"
    for ask in (replay.query, replay.explain):
        with pytest.raises(QueryError, match="too large"):
            ask(store, sql)


def test_a_stream_that_is_not_there(store):
    with pytest.raises(StreamNotFoundError, match="did you mean 'ticks'"):
        rows(store, f"SELECT {OVER} FROM tick")


def test_what_goes_online_or_becomes_a_stream_is_refused_by_name(store):
    sql = "SELECT t, LAG(t) OVER () AS l FROM ticks"
    with pytest.raises(NotSupportedError, match="cannot go online"):
        replay.online(sql, TICKS.schema, time="t")
    with pytest.raises(NotSupportedError, match="CREATE STREAM of a statement"):
        rows(store, f"CREATE STREAM x AS {sql}")


# --- limits and isolation -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limit", "sql"),
    [
        (
            {"timeout": 0.2},
            "SELECT COUNT(*) AS n FROM range(100000) a(x), range(100000) b(y) WHERE x * y % 7 = 1",
        ),
        ({"max_rows": 3}, "SELECT * FROM range(10)"),
        ({"memory": 50_000_000}, "SELECT ARRAY_AGG(range) AS a FROM range(100000000)"),
    ],
)
def test_limits_hold_in_duckdbs_part(store, limit, sql):
    with pytest.raises(LimitExceededError) as caught:
        replay.query(store, sql, **limit)
    assert caught.value.limit == next(iter(limit))


def test_ctrl_c_ends_duckdbs_part_and_not_the_session(store):
    long = "SELECT x FROM range(1000000) a(x), range(1000000) b(y) WHERE x * y = -1"
    before = signal(SIGINT, default_int_handler)  # in the background it is ignored
    try:
        Timer(0.3, interrupt_main).start()
        with pytest.raises(KeyboardInterrupt):
            replay.query(store, long)
    finally:
        signal(SIGINT, before)
    assert column(store, "SELECT COUNT(*) OVER () AS n FROM range(1)") == [1]


def test_a_statement_sees_nothing_but_what_it_names(store):
    not_named = PLACES
    assert not_named.num_rows
    rows(store, f"SELECT {OVER} FROM places", tables={"places": PLACES})
    for name in ("not_named", "places"):
        with pytest.raises(StreamNotFoundError):
            rows(store, f"SELECT {OVER} FROM {name}")


def test_the_connection_is_locked(tmp_path):
    from replay.sql.connection import Allowed, DuckDBError, Session

    named, other = tmp_path / "named.csv", tmp_path / "other.csv"
    for file in (named, other):
        file.write_text("a\n1\n")
    session = Session(Allowed((str(named),), 1, None))
    local_table = PLACES
    assert local_table.num_rows
    assert session.execute(f"FROM '{named}'", {}) == [(1,)]
    for sql in (
        f"FROM '{other}'",
        f"COPY (SELECT 1) TO '{other}'",
        f"ATTACH '{tmp_path}/x.db'",
        "SET threads = 8",
        "SET enable_external_access = true",
        "INSTALL httpfs",
        "LOAD httpfs",
        "FROM local_table",
        "FROM read_text('/etc/hosts')",
        "FROM glob('/*')",
    ):
        with pytest.raises(DuckDBError):
            session.execute(sql, {})
    session.close()


def test_a_query_of_our_language_imports_nothing_of_it():
    code = """if True:
        import sys, replay, pyarrow as pa
        replay.query({"s": pa.table({"t": [1]})}, "SELECT t FROM s WHERE t > 0")
        assert not [name for name in sys.modules if name.startswith(("replay.sql", "duckdb"))]
        try:
            replay.query({"s": pa.table({"t": [1]})}, "SELECT t FORM s")
        except replay.QueryError:
            assert "duckdb" not in sys.modules"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_threads_give_determinism_up_and_say_so(store):
    sql = "SELECT SUM(price) AS s, ARRAY_AGG(1) AS a FROM ticks"
    assert replay.query(store, sql).actual.warnings == ()
    [said] = replay.query(store, sql, threads=2).actual.warnings
    assert "2 threads" in said
    with pytest.raises(ValueError, match="threads"):
        replay.query(store, sql, threads=0)


def test_rows_come_piece_by_piece(store):
    reader = replay.batches(store, "SELECT range AS r FROM range(200000)")
    first = next(batch for batch in reader if len(batch))
    assert len(first) < 200_000
    assert len(first) + sum(map(len, reader)) == 200_000


def test_large_numbers_of_ours_are_decimals_of_38_digits_or_an_error():
    def table(number):
        return pa.table({"n": pa.array([Decimal(number), None], pa.decimal256(76, 0))})

    fitted = in_38_digits(table(10**38 - 1), "a part")
    assert fitted.schema.field("n").type == pa.decimal128(38, 0)
    assert fitted.column("n").to_pylist() == [10**38 - 1, None]
    cents = pa.table({"s": pa.array([Decimal("12.34")], pa.decimal256(76, 2))})
    assert in_38_digits(cents, "a part").schema.field("s").type == pa.decimal128(38, 2)
    with pytest.raises(QueryError, match=r"more than 38 digits, .* write CAST\(… AS VARCHAR\)"):
        in_38_digits(table(10**38), "a part")
