"""Subqueries, CREATE STREAM and several streams in one query: what is read, kept and refused."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import replay
from chronicle import Store, create_store, history, open_store
from chronicle.errors import CorruptBlockError, StreamExistsError
from replay.errors import NotSupportedError, PlanError, QueryError
from tests.helpers import damage_events, fill_stream
from tests.strategies import SmallStream, repeating_rows

N_EVENTS = 64
FILE_EVENTS = 16


ROWS = repeating_rows(N_EVENTS, keys=2)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = create_store(tmp_path / "store")
    small = SmallStream(ROWS, 4, FILE_EVENTS, 2, cuts=(32,))
    fill_stream(store, "s", small, index=("a",))
    fill_stream(store, "other", SmallStream(ROWS[:8], 4, FILE_EVENTS, 2, cuts=()))
    return store


HOURLY = (
    "SELECT window_start, COUNT(*) AS n, SUM(a) AS total FROM TABLE(TUMBLE(TABLE ({}), "
    "DESCRIPTOR(t), 8)) GROUP BY window_start, window_end"
)


def test_a_condition_around_a_projection_reaches_the_tree(store: Store) -> None:
    sql = "SELECT twice FROM (SELECT t, 2 * x AS twice FROM s WHERE a < 7) WHERE t BETWEEN 8 AND 9"
    result = replay.query(store, sql)

    assert result.table.column("twice").to_pylist() == [8.0, 9.0]
    assert result.actual.blocks_read == 1


def test_aggregates_over_a_filter_are_those_of_the_stream(store: Store) -> None:
    sql = "SELECT COUNT(*) AS n FROM (SELECT * FROM s WHERE t >= 8) WHERE t < 16"
    result = replay.query(store, sql)

    assert result.table.to_pylist() == [{"n": 8}]
    assert result.actual.blocks_read <= 2


def test_windows_over_a_projection_can_be_answered_by_the_tree(store: Store) -> None:
    sql = HOURLY.format("SELECT t, a FROM s")
    result = replay.query(store, sql, plan="tree")

    expected = [
        {"window_start": low, "n": 8, "total": sum(t % 7 for t in range(low, low + 8))}
        for low in range(0, N_EVENTS, 8)
    ]
    assert result.table.to_pylist() == expected
    assert result.plan.name == "tree"


@pytest.mark.parametrize("plan", ["auto", "full"])
def test_a_pattern_over_matches_is_matched_in_the_order_of_their_times(
    store: Store, plan: str
) -> None:
    # a counts to 6 again and again: there is a pair at each multiple of 7, and of these pairs.
    pairs = (
        "SELECT at FROM s MATCH_RECOGNIZE (ORDER BY t MEASURES A.t AS at PATTERN (A B) "
        "DEFINE A AS a = 0, B AS a = 1)"
    )
    sql = (
        f"SELECT * FROM ({pairs} ORDER BY at) MATCH_RECOGNIZE (ORDER BY at MEASURES P.at AS p, "
        "Q.at AS q PATTERN (P Q) DEFINE Q AS at - P.at = 7)"
    )
    found = replay.query(store, sql, plan=plan).table.to_pylist()
    assert found == [{"p": t, "q": t + 7} for t in range(0, N_EVENTS - 8, 14)]


def test_windows_over_a_filter_count_from_zero_or_from_its_first_row(store: Store) -> None:
    sql = HOURLY.format("SELECT * FROM s WHERE t >= 3 AND t < 12")
    from_first = sql.replace(", 8)", ", 8, ORIGIN FIRST EVENT)")
    for asked, expected in ((sql, [(0, 5), (8, 4)]), (from_first, [(3, 8), (11, 1)])):
        for plan in ("auto", "full", "replay"):
            found = replay.query(store, asked, plan=plan).table.to_pylist()
            assert [(row["window_start"], row["n"]) for row in found] == expected


@pytest.mark.parametrize(
    ("windows", "expected"),
    [
        # Pairs at the times 0 to 4, of which those at 3 and 4 pass.
        ("TUMBLE(TABLE pairs, DESCRIPTOR(at), 2)", [(0, 2, 0), (2, 4, 1), (4, 6, 1)]),
        ("TUMBLE_ROWS(TABLE pairs, DESCRIPTOR(at), 2)", [(0, 1, 0), (2, 3, 1)]),
        ("SESSION(TABLE pairs, DESCRIPTOR(at), 2)", [(0, 6, 2)]),
    ],
)
@pytest.mark.parametrize("plan", ["auto", "full"])
def test_windows_over_a_join_are_formed_before_where(
    windows: str, expected: list[tuple[int, int, int]], plan: str
) -> None:
    events = pa.table({"t": [0, 1, 2, 3, 4], "x": [0, 1, 2, 3, 4]})
    sql = f"""
    WITH pairs AS (SELECT join_time AS at, l.x AS x FROM (SELECT t, x FROM s ORDER BY t) l
                   JOIN (SELECT t FROM s ORDER BY t) r WITHIN 1)
    SELECT window_start, window_end, COUNT(*) AS n FROM TABLE({windows})
    WHERE x > 2 GROUP BY window_start, window_end
    """
    found = replay.query({"s": events}, sql, plan=plan).table.to_pylist()
    assert [tuple(row.values()) for row in found] == expected


@pytest.mark.parametrize(
    ("selected", "expected"),
    [
        ("window_start, COUNT(*) AS n", [(0, 2), (3, 3), (6, 1)]),
        ("window_end - window_start AS lasts, MAX(n) AS n", [(1, 1), (2, 2), (3, 3)]),
        ("n, window_end % 3 AS over, COUNT(*) AS groups", [(1, 1, 3), (2, 2, 2), (3, 0, 1)]),
    ],
)
def test_what_windows_gave_is_grouped_again_by_their_borders(
    selected: str, expected: list[tuple[int, ...]]
) -> None:
    # One event each at 0 and 1, then at 3, 4 and 5, then at 6; ends at 1, 2 and 3 of each three.
    table = pa.table({"t": [0, 1, 3, 4, 5, 6]})
    by = ", ".join(part.partition(" AS ")[0] for part in selected.split(", ") if "(" not in part)
    sql = (
        f"SELECT {selected} FROM (SELECT window_start, window_end, COUNT(*) AS n "
        "FROM TABLE(CUMULATE(TABLE s, DESCRIPTOR(t), 1, 3)) GROUP BY window_start, window_end "
        f"HAVING COUNT(*) = window_end - window_start) GROUP BY {by}"
    )
    found = replay.query({"s": table}, sql).table.to_pylist()
    assert sorted(tuple(row.values()) for row in found) == expected


def test_a_subquery_reads_no_column_that_nobody_asks_for(store: Store) -> None:
    inner = "SELECT * FROM s WHERE t >= 3"
    wide = replay.query(store, inner, plan="full")
    narrow = replay.query(store, HOURLY.format(inner), plan="full")

    assert narrow.stats["actual"]["bytes_read"] < wide.stats["actual"]["bytes_read"] / 2


def test_a_pattern_over_windows_is_found(store: Store) -> None:
    sql = (
        f"SELECT * FROM ({HOURLY.format('SELECT * FROM s')}) MATCH_RECOGNIZE ("
        "ORDER BY window_start MEASURES A.window_start AS began, B.total AS total "
        "PATTERN (A B) DEFINE B AS B.total > A.total)"
    )
    totals = [sum(t % 7 for t in range(low, low + 8)) for low in range(0, N_EVENTS, 8)]
    expected, at = [], 0
    while at + 1 < len(totals):
        rises = totals[at + 1] > totals[at]
        if rises:
            expected.append({"began": 8 * at, "total": totals[at + 1]})
        at += 2 if rises else 1

    assert replay.query(store, sql).table.to_pylist() == expected
    memory = sql.replace("SELECT * FROM s)", "SELECT * FROM s ORDER BY t)")
    found = replay.query({"s": pa.Table.from_pylist(ROWS)}, memory)
    assert found.table.to_pylist() == expected


def test_rows_that_go_back_in_time_are_refused_where_time_matters(store: Store) -> None:
    sql = HOURLY.format("SELECT a AS t, a FROM s ORDER BY a LIMIT 20").replace("SUM(a)", "SUM(a)")
    assert replay.query(store, sql).table.num_rows  # ordered by what is the time here
    with pytest.raises(QueryError):
        replay.query(store, HOURLY.format("SELECT t, a FROM s ORDER BY t DESC"))


def test_a_subquery_row_without_a_time_is_refused(store: Store) -> None:
    table = pa.table({"t": [1, 2, None], "a": [1, 2, 3]})
    sql = HOURLY.format("SELECT * FROM m ORDER BY t")
    with pytest.raises(QueryError, match="without a time in column 't'"):
        replay.query({"m": table}, sql)


# ---------------------------------------------------------------------------------------------
# CREATE STREAM


def test_a_created_stream_holds_the_answer_and_knows_where_from(store: Store) -> None:
    sql = "CREATE STREAM low AS SELECT t, a + 1 AS b FROM s WHERE a < :limit"
    result = replay.query(store, sql, params={"limit": 2})

    expected = [{"t": t, "b": t % 7 + 1} for t in range(N_EVENTS) if t % 7 < 2]
    made = {"stream": "low", "events": len(expected), "version": 1}
    assert result.table.to_pylist() == [made]
    assert replay.query(store, "SELECT * FROM low").table.to_pylist() == expected
    again = open_store(store.path).stream("low")
    assert again.settings.time == "t"
    lineage = again.lineage
    assert lineage is not None
    assert (lineage.query, dict(lineage.sources)) == (sql, {"s": store.stream("s").refresh()})
    assert dict(lineage.parameters) == {"limit": "2"}
    assert [entry.operation for entry in history(again)] == ["materialise", "create"]
    assert [entry.n_events_total for entry in history(again)] == [len(expected), 0]
    assert store.stream("s").lineage is None


def test_an_empty_answer_makes_an_empty_stream(store: Store) -> None:
    replay.query(store, "CREATE STREAM none AS SELECT t, s FROM s WHERE a > 100")

    assert store.stream("none").snapshot().n_events == 0
    assert replay.query(store, "SELECT * FROM none").table.num_rows == 0


@pytest.mark.parametrize("way", ["fails", "is interrupted"])
def test_what_cannot_be_finished_leaves_nothing_behind(
    store: Store, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = sorted(path.name for path in store.path.iterdir())
    if way == "fails":
        damage_events(store.stream("s"), 1)
        raised: type[BaseException] = CorruptBlockError
    else:
        raised = KeyboardInterrupt

        def interrupt(*_: object, **__: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr("chronicle.write.materialise.commit_change", interrupt)
    with pytest.raises(raised):
        replay.query(store, "CREATE STREAM copy AS SELECT * FROM s")

    assert sorted(path.name for path in store.path.iterdir()) == before
    assert "copy" not in store.stream_names()


def test_a_stream_that_is_there_is_not_created_again(store: Store) -> None:
    with pytest.raises(StreamExistsError, match="'other' exists"):
        replay.query(store, "CREATE STREAM other AS SELECT * FROM s")
    assert store.stream("other").snapshot().n_events == 8


def test_create_stream_needs_a_store_and_gives_no_rows() -> None:
    table = pa.table({"t": pa.array([1, 2], pa.timestamp("us"))})
    sql = "CREATE STREAM c AS SELECT * FROM m ORDER BY t"
    with pytest.raises(QueryError, match="makes a stream of a store"):
        replay.query({"m": table}, sql)
    with pytest.raises(NotSupportedError, match="gives no rows"):
        replay.batches({"m": table}, sql)
    with pytest.raises(NotSupportedError, match="from history"):
        replay.online(sql, table.schema, time="t")


# ---------------------------------------------------------------------------------------------
# Versions, and files that cannot be read


def test_a_query_is_answered_on_an_older_version(store: Store) -> None:
    sql = "SELECT COUNT(*) AS n FROM s"
    assert replay.query(store, sql, as_of=1).table.to_pylist() == [{"n": 32}]
    assert replay.query(store, sql, as_of="1", plan="full").table.to_pylist() == [{"n": 32}]
    assert replay.query(store, sql).table.to_pylist() == [{"n": N_EVENTS}]


def test_a_number_names_the_version_of_one_stream_alone(store: Store) -> None:
    sql = "SELECT a.t FROM s AS a JOIN other AS b WITHIN 3"
    with pytest.raises(PlanError, match="the query reads s, other; give a time"):
        replay.query(store, sql, as_of=1)


def test_a_pattern_over_a_filter_is_found_by_index(tmp_path: Path) -> None:
    made = [
        {"t": t, "a": 2 * (t % 5), "x": float(t % 11), "s": "ab"[t % 2], "f": None, "k": 0}
        for t in range(1000)
    ]
    for at in (203, 607):
        made[at]["a"], made[at]["s"], made[at + 2]["s"] = 7, "a", "a"
    store = create_store(tmp_path / "found")
    small = SmallStream(made, 10, 300, 4, cuts=(500,))
    fill_stream(store, "s", small, index=("a",))
    sql = (
        "SELECT * FROM (SELECT t, a, x FROM s WHERE s = 'a') MATCH_RECOGNIZE (ORDER BY t "
        "MEASURES A.t AS t, LAST(B.t) AS u, COUNT(*) AS n PATTERN (A B{2}) WITHIN 8 "
        "DEFINE A AS a = 7)"
    )
    kept = [row["t"] for row in made if row["s"] == "a"]
    expected = [{"t": at, "u": kept[kept.index(at) + 2], "n": 3} for at in (203, 607)]

    full = replay.query(store, sql, plan="full")
    assert full.table.to_pylist() == expected
    assert full.actual.blocks_read == 100
    for plan in ("all", "indexes=A.a"):
        result = replay.query(store, sql, plan=plan)
        assert result.table.equals(full.table)
        assert result.actual.blocks_read <= 6  # at most three around each of the two
