"""Answers from stores in unusual states: commits cut short, tables in memory, faults of rows."""

from __future__ import annotations

import copy
import datetime as dt
import pickle
from pathlib import Path

import pyarrow as pa
import pytest

import replay
from chronicle import Store
from chronicle.errors import SchemaError, StreamNotFoundError
from replay.engines import source as source_module
from replay.errors import NotSupportedError, PlanError
from replay.patterns import answer as answer_module
from replay.patterns import local
from tests.helpers import fill_stream
from tests.strategies import SmallStream, repeating_rows

SQL = (
    "SELECT * FROM s MATCH_RECOGNIZE (ORDER BY t MEASURES A.t AS a, B.t AS b "
    "PATTERN (A Z*? B) WITHIN 4 DEFINE A AS A.a = 1, B AS B.a = 2)"
)


def test_batches_are_the_answer_piece_by_piece(store: Store) -> None:
    small = SmallStream(repeating_rows(40), block_events=4, file_events=16, fan_out=2, cuts=())
    fill_stream(store, "s", small, index=("a",))
    for source in (store, {"s": small.table}):
        expected = replay.query(source, SQL).table
        reader = replay.batches(source, SQL)
        assert reader.schema == expected.schema
        assert reader.read_all().equals(expected)
    assert replay.batches(store, SQL, as_of=0).read_all().num_rows == 0


def test_batches_come_before_the_stream_is_read_to_its_end() -> None:
    table = pa.table({"t": list(range(1000))})
    read: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source_module, "TABLE_BLOCK_EVENTS", 10)
        patch.setattr(local, "UNIT_EVENTS", 10)
        patch.setattr(answer_module, "MEASURED_ROWS_AT_ONCE", 10)
        original = source_module.TableSource.read_blocks
        patch.setattr(
            source_module.TableSource,
            "read_blocks",
            lambda self, blocks, columns: read.extend(blocks) or original(self, blocks, columns),
        )
        batch = replay.batches({"x": table}, EACH_ROW).read_next_batch()
    assert batch.num_rows == 10
    assert len(set(read)) == 1


@pytest.mark.parametrize("sql", [SQL, f"SELECT ROW_NUMBER() OVER (ORDER BY a) AS n FROM ({SQL})"])
@pytest.mark.parametrize("is_stored", [True, False])
def test_answer_is_pickled_with_its_plan(
    store: Store, tmp_path: Path, sql: str, is_stored: bool
) -> None:
    small = SmallStream(repeating_rows(40), block_events=4, file_events=16, fan_out=2, cuts=())
    fill_stream(store, "s", small, index=("a",))
    result = replay.query(store if is_stored else {"s": small.table}, sql)
    for other in (pickle.loads(pickle.dumps(result)), copy.deepcopy(result)):
        assert len(other) > 0
        assert other.table.equals(result.table)
        assert other.stats == result.stats
        assert other.analysis() == result.analysis()
        assert (other.actual, other.sql) == (result.actual, result.sql)
        other.report(tmp_path / "page.html")


EACH_ROW = "SELECT * FROM x MATCH_RECOGNIZE (ORDER BY t MEASURES A.t AS t PATTERN (A))"

TICKS = pa.table(
    {
        "at": pa.array([dt.datetime(2024, 1, 1, 0, 0, s) for s in (3, 1, 2, 2, 9)]),
        "price": [3.0, 1.0, 2.0, 2.5, 1.0],
        "payload": pa.array([b"", b"x", None, b"", b""]),
    }
)


def test_table_in_memory_is_sorted_by_time_and_ties_keep_their_order() -> None:
    sql = (
        "SELECT * FROM ticks MATCH_RECOGNIZE (ORDER BY at MEASURES FIRST(A.price) AS low, "
        "LAST(B.price) AS high, LAST(at) - FIRST(at) AS took PATTERN (A B+) "
        "DEFINE B AS B.price > PREV(B.price))"
    )
    result = replay.query({"ticks": TICKS}, sql)
    assert result.table.to_pylist() == [{"low": 1.0, "high": 3.0, "took": dt.timedelta(seconds=2)}]


def test_columns_a_query_does_not_name_may_have_any_type() -> None:
    table = pa.table({"t": [1, 2], "odd": pa.array([1, 2], pa.uint64())})
    assert replay.query({"x": table}, EACH_ROW).table.to_pylist() == [{"t": 1}, {"t": 2}]


def test_table_without_a_time_in_some_row_is_refused() -> None:
    table = pa.table({"t": [1, None]})
    with pytest.raises(SchemaError, match="1 rows without a time"):
        replay.query({"x": table}, EACH_ROW)


@pytest.mark.parametrize("order", ["t", "k, x", "t DESC"])
def test_rows_without_a_value_that_orders_a_subquery_are_ordered_anew(order: str) -> None:
    table = pa.table({"t": [1, 2, 3], "x": [5, None, 4], "k": ["b", "a", "a"]})
    found = replay.query(
        {"s": table}, f"SELECT t FROM (SELECT * FROM s ORDER BY x LIMIT 5) ORDER BY {order}"
    )
    due = {"t": [1, 2, 3], "k, x": [3, 2, 1], "t DESC": [3, 2, 1]}
    assert found.table["t"].to_pylist() == due[order]


def test_rows_without_a_value_that_orders_a_subquery_are_matched_by_their_time() -> None:
    table = pa.table({"t": [1, 2, 3], "x": [5, None, 4]})
    sql = EACH_ROW.replace("FROM x", "FROM (SELECT * FROM x ORDER BY x)")
    assert replay.query({"x": table}, sql).table["t"].to_pylist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("sql", "rows", "n_faults"),
    [
        pytest.param(f"{EACH_ROW[:-1]} DEFINE A AS n / d = 2)", [{"t": 2}], 2, id="condition"),
        pytest.param(
            EACH_ROW.replace("A.t AS t", "A.n / A.d AS q"),
            [{"q": None}, {"q": 2}, {"q": None}],
            2,
            id="measure",
        ),
    ],
)
def test_faults_are_null_and_counted(sql: str, rows: list[dict[str, int]], n_faults: int) -> None:
    table = pa.table({"t": [1, 2, 3], "n": [10, 10, 10], "d": [0, 5, 0]})
    result = replay.query({"x": table}, sql)
    assert result.table.to_pylist() == rows
    assert result.stats["actual"]["faults"] == n_faults


def test_parameter_types_are_kept_apart() -> None:
    table = pa.table({"t": [1, 2, 3], "n": [0, 1, 2], "b": [True, False, True]})
    for condition, value, times in (("n = :v", 1, [2]), ("b = :v", True, [1, 3])):
        sql = f"{EACH_ROW[:-1]} DEFINE A AS {condition})"
        found = replay.query({"x": table}, sql, params={"v": value})
        assert found["t"].to_pylist() == times


def test_zeros_of_both_signs_are_parameters_of_their_own() -> None:
    sql = EACH_ROW.replace("A.t AS t", "CAST(:p AS VARCHAR) AS m")
    table = pa.table({"t": [1]})
    given = [replay.query({"x": table}, sql, params={"p": p}).table for p in (0.0, -0.0)]
    assert given[0].to_pylist() != given[1].to_pylist()


def test_entry_points_refuse_what_they_cannot_do() -> None:
    table = {"x": pa.table({"t": [1]})}
    with pytest.raises(NotSupportedError, match="spark"):
        replay.query(table, EACH_ROW, engine="spark")
    with pytest.raises(PlanError, match="in memory"):
        replay.query(table, EACH_ROW, plan="all")
    with pytest.raises(PlanError, match="as_of"):
        replay.query(table, EACH_ROW, as_of=1)
    with pytest.raises(StreamNotFoundError, match="did you mean 'x'"):
        replay.query(table, EACH_ROW.replace("FROM x", "FROM xx"))


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT t\nFROM xx", "line 2, column 6: no stream 'xx' …; did you mean 'x'?"),
        ("WITH early AS (SELECT t FROM x) SELECT t FROM earyl",
         "line 1, column 47: no stream 'earyl' …; did you mean 'early'?"),
        ("WITH w AS (SELECT t FROM y), y AS (SELECT t FROM x) SELECT y.t FROM w JOIN y WITHIN 1",
         "line 1, column 26: no stream 'y' …"),
        ("SELECT y, t, ROW_NUMBER() OVER () FROM x, y", "line 1, column 43: no stream 'y' …"),
        ("SELECT x.t, y.t FROM x AS x, y AS y ORDER BY 'FROM y'",
         "line 1, column 30: no stream 'y' …"),
        ('SELECT t FROM (SELECT t FROM "y z")', "line 1, column 30: no stream 'y z' …"),
        ("DESCRIBE SELECT t FROM xx", "line 1, column 24: no stream 'xx' …; did you mean 'x'?"),
    ],
)  # fmt: skip
def test_a_stream_that_is_not_there_is_told_at_its_place(store: Store, sql: str, said: str) -> None:
    x = SmallStream(repeating_rows(3), 4, 16, 2, ())
    fill_stream(store, "x", x)
    for source in (store, {"x": x.table}):
        with pytest.raises(StreamNotFoundError) as told:
            replay.query(source, sql)
        message, line, caret = str(told.value).split("\n")
        assert message == said.replace("…", "in this store (streams: x)")
        assert line.strip() == sql.splitlines()[-1]
        assert f"column {caret.index('^') - 1}:" in message


def test_result_shows_itself(store: Store) -> None:
    fill_stream(store, "s", SmallStream(repeating_rows(20), 4, 16, 2, ()), index=("a",))
    result = replay.query(store, SQL)
    assert "3 rows" in repr(result)
    assert "<td>1</td>" in result._repr_html_()
    assert result.to_pandas()["a"].tolist() == [1, 8, 15]
    assert "plan" in str(replay.explain(store, SQL))


@pytest.mark.parametrize(
    ("source", "said"), [("a path", "chronicle.open_store"), ({"s": [{"t": 1}]}, "pyarrow.Table")]
)
def test_what_is_no_source_is_refused_in_words(source, said):
    with pytest.raises(TypeError, match=said):
        replay.query(source, "SELECT COUNT(*) FROM s MATCH_RECOGNIZE (ORDER BY t PATTERN (A))")
