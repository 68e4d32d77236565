"""Plans `relevant` and `index-only`: what they read, what explain tells, why they cannot apply."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from pathlib import Path

import pyarrow as pa
import pytest

import chronicle
import replay
from chronicle import StreamSettings
from costmodel.parameters import CostParameters
from indexing import RunWriter
from replay.engines.statistics import SnapshotStatistics
from replay.errors import PlanError
from tests.json_schema import violations
from tests.memory_stream import index, memory_store

SCHEMA = json.loads((Path(__file__).parents[3] / "docs" / "explain.schema.json").read_text())

N_ROWS = 120
SYMBOL_AT = {3: 1, 50: 2, 51: 3, 90: 2, 117: 4}
"""Values of ``a`` other than 0 and 9, by row; row i has time i, and blocks have three rows.

    row     3     50 51     90     117
    a       1     2  3      2      4
    block   1     16 17     30     39
"""

ROWS = pa.table(
    {
        "t": range(N_ROWS),
        # Extremes alone tell nothing of the symbols' blocks.
        "a": [SYMBOL_AT.get(row, 9 * (row % 2)) for row in range(N_ROWS)],
        "b": [row // 40 for row in range(N_ROWS)],
    }
)
PATTERN = "( A B+ D ) SEMANTICS SKIP TILL ANY"
DEFINE = "A AS a = 1, B AS a = 2, D AS a = 4"


def asking(
    select: str = "COUNT(*) AS n", pattern: str = PATTERN, define: str = DEFINE, rest: str = ""
) -> str:
    return (
        f"SELECT {select} FROM s MATCH_RECOGNIZE ( ORDER BY t MEASURES COUNT(*) AS k, B.t AS at "
        f"PATTERN {pattern} DEFINE {define}){rest}"
    )


SLIDING = pytest.param(
    asking()
    .replace("FROM s", "FROM TABLE(SLIDING(TABLE s, DESCRIPTOR(t), 9))")
    .replace("( ORDER", "( PARTITION BY window_end ORDER"),
    "SLIDING has a window for each time of the stream's events, whatever they are",
    id="sliding",
)
"""Neither plan is for it."""


@pytest.fixture(scope="module")
def store() -> Iterator[chronicle.Store]:
    with memory_store() as store:
        stream = store.create_stream("s", ROWS.schema, StreamSettings("t", 3))
        index(stream, ("a",))
        stream.append(ROWS, derived=RunWriter(("a",), "t"))
        yield store


@pytest.mark.parametrize(
    ("select", "pattern", "answer", "n_blocks"),
    [
        # Of rows 50 and 90 either or both; blocks 1, 16, 30 and 39.
        ("COUNT(*) AS n", PATTERN, [{"n": 3}], 4),
        ("SUM(B.t) AS s", PATTERN, [{"s": 280}], 4),
        ("COUNT(*) AS n", PATTERN.replace("ANY", "NEXT"), [{"n": 1}], 4),
        ("k, at", PATTERN.replace("ANY", "NEXT"), [{"k": 4, "at": 90}], 4),
        # Row 51 stands between the last B and D of one match of three, in block 17.
        ("COUNT(*) AS n", "( A B+ !X D ) SEMANTICS SKIP TILL ANY", [{"n": 2}], 5),
    ],
)
def test_runs_go_on_over_blocks_that_are_not_read(
    store: chronicle.Store, select: str, pattern: str, answer: list[object], n_blocks: int
) -> None:
    define = f"{DEFINE}, X AS a = 3" if "!X" in pattern else DEFINE
    sql = asking(select, pattern, define)
    found = replay.query(store, sql, plan="relevant")
    assert found.table.to_pylist() == answer
    assert replay.query(store, sql, plan="full").table.to_pylist() == answer
    assert found.actual.blocks_read == n_blocks
    assert found.actual.rows_replayed == 3 * n_blocks


def test_a_symbol_without_an_index_is_looked_for_by_the_tree(store: chronicle.Store) -> None:
    found = replay.query(store, asking(define=f"{DEFINE} AND b = 2"), plan="relevant")
    assert found.table.to_pylist() == [{"n": 3}]
    only_b = asking(
        define="A AS a = 1, B AS b = 1, D AS a = 4", pattern="( A B D ) SEMANTICS SKIP TILL ANY"
    )
    found = replay.query(store, only_b, plan="relevant")
    assert found.table.to_pylist() == [{"n": 40}]
    assert found.actual.blocks_read == 14 + 2  # rows 40 to 79, in blocks 13 to 26


@pytest.mark.parametrize(
    ("semantics", "within", "n", "n_blocks"),
    [
        # B is at 50 and 90, in blocks 16 and 30; X from 80 on, in blocks 26 to 39.
        ("ANY", "", 40 + 29, 1 + 14),
        ("NEXT", "", 2, 1 + 14),
        ("ANY", "WITHIN 3", 3, 14),
        ("NEXT", "WITHIN 3", 1, 14),
    ],
)
def test_rows_of_symbols_that_the_tree_has_in_no_match_are_left_out(
    store: chronicle.Store, semantics: str, within: str, n: int, n_blocks: int
) -> None:
    pattern = f"( B X ) SEMANTICS SKIP TILL {semantics} {within}"
    sql = asking(pattern=pattern, define="B AS a = 2, X AS b = 2")
    found = replay.query(store, sql, plan="relevant")
    assert found.table.to_pylist() == [{"n": n}]
    assert found.actual.blocks_read == n_blocks


def test_explain_tells_of_every_symbol_and_its_lookup(store: chronicle.Store) -> None:
    sql = asking(pattern="( A B+ !X D ) SEMANTICS SKIP TILL ANY", define=f"{DEFINE}, X AS b = 7")
    explained = replay.explain(store, sql, plan="relevant")
    told = explained.to_dict()
    assert violations(told, SCHEMA, closed=True) == []
    assert (told["plan"], told["indexes"]) == ("relevant", ["A.a", "B.a", "D.a"])
    used = {p["symbol"]: [r["used"] for r in p["ranges"]] for p in told["positions"]}
    assert used == {"A": [True], "B": [True], "D": [True], "X": [False]}
    assert sorted(step["lookup"] for step in told["steps"]) == ["A.a", "B.a", "D.a"]
    assert told["steps"][-1]["left"]["blocks"] == 4
    assert told["gaps"] == []
    assert str(explained).startswith("reads 4 of 40 blocks, through 1 index")


BLOCKS_COUNT = CostParameters(block_s=1.0, value_s=0.0, seek_s=0.0, entry_s=0.0, sort_s=0.0)
"""Weights by which nothing but blocks costs anything."""


def test_auto_takes_it_where_it_is_expected_to_pay(
    store: chronicle.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Without WITHIN replay intervals reach from the first A to the last D.
    monkeypatch.setattr(SnapshotStatistics, "parameters", BLOCKS_COUNT)
    found = replay.query(store, asking("SUM(B.b) AS s"))
    assert (found.plan.name, found.actual.blocks_read) == ("relevant", 4)
    found = replay.query(store, asking())
    assert (found.plan.name, found.actual.blocks_read) == ("index-only", 0)
    common = replay.query(store, asking(define="A AS a >= 0, B AS a = 2, D AS a = 4"))
    assert common.plan.name != "relevant"
    some = replay.query(store, asking("k", rest=" LIMIT 1"))
    assert some.plan.name != "relevant"  # a full replay may end early


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        pytest.param(
            asking(pattern="( A B+ D )"),
            "a row that fits no symbol may end a match; SEMANTICS SKIP TILL NEXT and SKIP TILL ANY "
            "alone pass it over",
            id="sql",
        ),
        pytest.param(
            asking(pattern="( A B+ D ) SEMANTICS CONTIGUOUS"),
            "a row that fits no symbol may end a match; SEMANTICS SKIP TILL NEXT and SKIP TILL ANY "
            "alone pass it over",
            id="contiguous",
        ),
        pytest.param(
            asking(define="A AS a = 1, D AS a = 4"),
            "the condition of B bounds no attribute, so that any row may be of B",
            id="any-row",
        ),
        pytest.param(
            asking(define="A AS a = 1, B AS a <> LAST(a, 1), D AS a = 4"),
            "the condition of B bounds no attribute, so that any row may be of B",
            id="no-range",
        ),
        pytest.param(
            asking(
                pattern="( A !X D ) SEMANTICS SKIP TILL ANY SUBSET B = (A)",
                define="A AS a = 1, D AS a = 4, X AS b <> A.b",
            ),
            "the condition of X bounds no attribute, so that any row may be of X",
            id="negation",
        ),
        pytest.param(
            asking(define=f"{DEFINE} AND PREV(a) = 0"),
            "PREV, NEXT, ^ and $ look at rows whatever symbol these fit",
            id="neighbour",
        ),
        pytest.param(
            asking().replace("B.t AS at", "NEXT(B.t) AS at"),
            "PREV, NEXT, ^ and $ look at rows whatever symbol these fit",
            id="neighbour-in-measures",
        ),
        pytest.param(
            asking(pattern="( ^ A B+ D ) SEMANTICS SKIP TILL ANY"),
            "PREV, NEXT, ^ and $ look at rows whatever symbol these fit",
            id="edge",
        ),
        pytest.param(
            asking().replace("ORDER BY t ", "ORDER BY t, b "),
            "ORDER BY has columns besides the time, so all events of a time must be put in order",
            id="order",
        ),
        pytest.param(
            asking("*", f"{PATTERN} WITHIN 9 WITH TIMEOUTS"),
            "WITH TIMEOUTS gives partial matches too, which lack symbols that every match has",
            id="timeouts",
        ),
        SLIDING,
        pytest.param(
            "SELECT * FROM s WHERE a = 1",
            "it is for row patterns with SEMANTICS SKIP TILL alone",
            id="filter",
        ),
    ],
)
def test_says_why_it_cannot_apply(store: chronicle.Store, sql: str, why: str) -> None:
    message = f"plan 'relevant' cannot apply: {why}; use plan 'auto'"
    with pytest.raises(PlanError, match=f"^{re.escape(message)}$"):
        replay.query(store, sql, plan="relevant")


@pytest.mark.parametrize(
    ("select", "within", "answer"),
    [
        ("COUNT(*) AS n", "", [{"n": 3}]),
        ("COUNT(B.*) AS n, MAX(k) AS k", "", [{"n": 4, "k": 4}]),  # one, one or both
        ("MIN(at) AS a, SUM(B.t) AS s", "", [{"a": 50, "s": 280}]),
        ("COUNT(*) AS n", " WITHIN 113", [{"n": 0}]),
        ("COUNT(*) AS n", " WITHIN 114", [{"n": 3}]),
    ],
)
def test_no_block_is_read_where_entries_say_all_that_is_asked(
    store: chronicle.Store, select: str, within: str, answer: list[object]
) -> None:
    sql = asking(select, PATTERN + within)
    found = replay.query(store, sql, plan="index-only")
    assert found.table.to_pylist() == answer
    assert replay.query(store, sql, plan="full").table.to_pylist() == answer
    assert (found.actual.blocks_read, found.actual.rows_replayed) == (0, 4)


def test_explain_tells_that_no_block_is_read(store: chronicle.Store) -> None:
    explained = replay.explain(store, asking(), plan="index-only")
    told = explained.to_dict()
    assert violations(told, SCHEMA, closed=True) == []
    assert (told["plan"], told["indexes"]) == ("index-only", ["A.a", "B.a", "D.a"])
    assert told["steps"][-1]["left"]["blocks"] == 0
    assert str(explained).startswith("reads 0 of 40 blocks, through 1 index")


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        pytest.param(
            asking("k"), "it is for aggregates over matches that need not be made", id="matches"
        ),
        pytest.param(
            asking("COUNT(*) AS n", rest=" WHERE k > 3"),
            "it is for aggregates over matches that need not be made",
            id="enumerated",
        ),
        pytest.param(
            asking("SUM(B.b) AS s"),
            "aggregates read 'b', which entries do not hold",
            id="value",
        ),
        pytest.param(
            asking(define="A AS a = 1, B AS a = 2 AND b >= LAST(b, 1), D AS a = 4"),
            "conditions read other rows of the match, which entries do not hold",
            id="row-before",
        ),
        pytest.param(
            asking().replace("( ORDER", "( PARTITION BY b ORDER"),
            "PARTITION BY reads 'b', and entries hold the key column alone, which the stream has "
            "not",
            id="partition",
        ),
        pytest.param(
            asking(define="A AS a = 1, B AS a = 2 AND a + b = 3, D AS a = 4"),
            "the condition of B says more than ranges of single attributes",
            id="says-more",
        ),
        pytest.param(
            asking(define="A AS a = 1, B AS a = 2 AND b = 1, D AS a = 4"),
            "no index holds 'b', which the condition of B bounds",
            id="no-index",
        ),
        pytest.param(
            asking(define="A AS a = 1, D AS a = 4"),
            "the condition of B bounds no attribute, so that any row may be of B",
            id="any-row",
        ),
        pytest.param(
            asking("SUM(B.b) AS s")
            .replace("FROM s", "FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(t), 9))")
            .replace("( ORDER", "( PARTITION BY window_end ORDER"),
            "aggregates read 'b', which entries do not hold",
            id="value-in-windows",
        ),
        SLIDING,
    ],
)
def test_says_why_entries_do_not_do(store: chronicle.Store, sql: str, why: str) -> None:
    message = f"plan 'index-only' cannot apply: {why}; use plan 'auto'"
    with pytest.raises(PlanError, match=f"^{re.escape(message)}$"):
        replay.query(store, sql, plan="index-only")


def test_a_pattern_of_symbols_no_event_can_be_of_reads_nothing(store: chronicle.Store) -> None:
    sql = asking(define="A AS a = 1 AND a = 2, B AS a > 3 AND a < 3, D AS FALSE")
    found = replay.query(store, sql, plan="relevant")
    assert found.table.to_pylist() == [{"n": 0}]
    assert found.actual.blocks_read == 0


BY_KEY = {
    "x": {3: 1, 50: 2, 90: 2, 117: 4},
    "y": {20: 1, 60: 2, 100: 4},
    None: {70: 1, 80: 2, 85: 4},
}
"""Rows of symbols with their ``a``, by key: A B+ D has 3 matches of x, 1 of y, 1 without a key."""

KEYED_AT = {row: (a, key) for key, of_key in BY_KEY.items() for row, a in of_key.items()}

KEY_VALUES = [
    pytest.param(pa.string(), {"x": "x", "y": "", None: None}, id="string"),
    pytest.param(pa.int16(), {"x": -7, "y": 9, None: None}, id="integer"),
    pytest.param(pa.bool_(), {"x": False, "y": True, None: None}, id="boolean"),
    pytest.param(
        pa.date32(), {"x": date(1969, 7, 21), "y": date(2026, 1, 1), None: None}, id="date"
    ),
    pytest.param(
        pa.timestamp("us", "UTC"),
        {
            "x": datetime(1969, 7, 21, tzinfo=UTC),
            "y": datetime(2026, 1, 1, 0, 0, 1, tzinfo=UTC),
            None: None,
        },
        id="timestamp",
    ),
]


@contextmanager
def keyed_store(of: pa.DataType, values: dict[str | None, object]) -> Iterator[chronicle.Store]:
    of_rows = [KEYED_AT.get(row, (9 * (row % 2), "xy"[row % 2])) for row in range(N_ROWS)]
    rows = pa.table(
        {
            "t": range(N_ROWS),
            "a": [a for a, _ in of_rows],
            "b": [row // 40 for row in range(N_ROWS)],
            "k": pa.array([values[key] for _, key in of_rows], of),
        }
    )
    with memory_store() as store:
        stream = store.create_stream("s", rows.schema, StreamSettings("t", 3, key="k"))
        index(stream, ("a",))
        stream.append(rows, derived=RunWriter(("a",), "t", key="k"))
        yield store


@pytest.mark.parametrize(("of", "values"), KEY_VALUES)
def test_no_block_is_read_of_partitions_whose_keys_entries_hold(
    of: pa.DataType, values: dict[str | None, object]
) -> None:
    sql = asking("k, COUNT(*) AS n, COUNT(B.k) AS ks", rest=" GROUP BY k")
    sql = sql.replace("COUNT(*) AS k", "COUNT(*) AS n_rows").replace(
        "( ORDER", "( PARTITION BY k ORDER"
    )
    with keyed_store(of, values) as store:
        found = replay.query(store, sql, plan="index-only")
        full = replay.query(store, sql, plan="full")
    # The two Bs of x are in two matches each.
    expected = [("x", 3, 4), ("y", 1, 1), (None, 1, 0)]
    assert found.table.to_pylist() == [
        {"k": values[key], "n": n, "ks": ks} for key, n, ks in expected
    ]
    assert found.table.equals(full.table)
    assert found.table.schema.field("k").type == of
    assert (found.actual.blocks_read, found.actual.rows_replayed) == (0, len(KEYED_AT))


@pytest.mark.parametrize(
    ("windows", "by", "within", "select", "answer"),
    [
        # Rows of x are 114 apart, of y 80, of no key 15.
        ("TUMBLE(TABLE s, DESCRIPTOR(t), 60)", "k", "", "window_start AS w, k", [(60, None, 1)]),
        ("TUMBLE(TABLE s, DESCRIPTOR(t), 120)", "k", "WITHIN 80", "window_start AS w", [(0, 2)]),
        # From 0, 10, … 70 on there are those of no key, from 20 on those of y too.
        (
            "HOP(TABLE s, DESCRIPTOR(t), 10, 90)",
            "k",
            "",
            "window_start AS w",
            [(w, 2 if w == 20 else 1) for w in range(0, 80, 10)],
        ),
        (
            "CUMULATE(TABLE s, DESCRIPTOR(t), 30, 120)",
            "k",
            "",
            "window_end AS w",
            [(90, 1), (120, 5)],
        ),
        # 70 is of no key and begins 50 to 85; of all keys together there is 70 80 85 alone.
        ("TUMBLE(TABLE s, DESCRIPTOR(t), 30)", "", "", "window_end AS w", [(90, 1)]),
    ],
)
def test_no_block_is_read_of_windows(
    windows: str, by: str, within: str, select: str, answer: list[tuple[object, ...]]
) -> None:
    columns = "window_start, window_end" + (f", {by}" if by else "")
    groups = select.replace(" AS w", "")
    sql = (
        asking(f"{select}, COUNT(*) AS n", f"{PATTERN} {within}", rest=f" GROUP BY {groups}")
        .replace("COUNT(*) AS k", "COUNT(*) AS n_rows")
        .replace("FROM s", f"FROM TABLE({windows})")
        .replace("( ORDER", f"( PARTITION BY {columns} ORDER")
    )
    with keyed_store(pa.string(), {"x": "x", "y": "y", None: None}) as store:
        found = replay.query(store, sql, plan="index-only")
        assert found.table.equals(replay.query(store, sql, plan="full").table)
        told = replay.explain(store, sql, plan="index-only").to_dict()
    assert [tuple(row.values()) for row in found.table.to_pylist()] == answer
    assert (found.actual.blocks_read, found.actual.rows_replayed) == (0, len(KEYED_AT))
    assert told["steps"][-1]["left"]["blocks"] == 0
    assert violations(told, SCHEMA, closed=True) == []


def test_auto_reads_no_block_of_partitions_in_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SnapshotStatistics, "parameters", BLOCKS_COUNT)
    sql = (
        asking("COUNT(*) AS n")
        .replace("COUNT(*) AS k", "COUNT(*) AS n_rows")
        .replace("FROM s", "FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(t), 120))")
        .replace("( ORDER", "( PARTITION BY window_end, k ORDER")
    )
    with keyed_store(pa.string(), {"x": "x", "y": "y", None: None}) as store:
        found = replay.query(store, sql)
    assert found.table.to_pylist() == [{"n": 5}]
    assert (found.plan.name, found.actual.blocks_read) == ("index-only", 0)


def test_entries_without_keys_do_not_do_for_partitions() -> None:
    sql = asking().replace("( ORDER", "( PARTITION BY b ORDER")
    with memory_store() as store:
        stream = store.create_stream("s", ROWS.schema, StreamSettings("t", 3, key="b"))
        index(stream, ("a",))
        stream.append(ROWS, derived=RunWriter(("a",), "t"))
        message = (
            "plan 'index-only' cannot apply: the index of 'a' was written, in part, without the "
            "stream's key column; use plan 'auto'"
        )
        with pytest.raises(PlanError, match=f"^{re.escape(message)}$"):
            replay.query(store, sql, plan="index-only")
