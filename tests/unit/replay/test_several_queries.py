"""Several queries at once: the answers of each alone, over one version, from blocks read once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import replay
from chronicle import Store, create_store, open_store
from chronicle.tree.blocks import BlockReader
from replay.engines import source
from replay.engines.shared_blocks import Room, SharedBlocks
from replay.query import answers_in_pieces
from replay.running.flows import Flow
from replay.running.select import Opener
from replay.running.statement import Statement
from tests.helpers import fill_stream
from tests.strategies import SmallStream

COUNTS = (
    "SELECT window_start, COUNT(*) AS n, MAX(x) AS x FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(t), 7)) "
    "WHERE s <> 'loud' GROUP BY window_start, window_end"
)
SUMS = (
    "SELECT COUNT(*) AS n, SUM(B.x) AS x FROM s MATCH_RECOGNIZE (PARTITION BY a ORDER BY t "
    "PATTERN (A B) SEMANTICS SKIP TILL ANY WITHIN 9 DEFINE A AS x < 5, B AS s = 'loud')"
)
FILTERED = (
    "SELECT * FROM (SELECT t, x + 1 AS y FROM s WHERE a = 1) MATCH_RECOGNIZE (ORDER BY t "
    "MEASURES B.y AS y PATTERN (A B) DEFINE B AS B.y > A.y + 1)"
)
RISE = (
    "SELECT * FROM s MATCH_RECOGNIZE (ORDER BY t MEASURES A.t AS a, LAST(B.x) AS x "
    "PATTERN (A B+) DEFINE A AS A.a = 3, B AS B.x > PREV(B.x) AND B.a <> 2)"
)
SQLS = (
    RISE,
    "SELECT t, x, s FROM s WHERE x > :above",
    "SELECT t FROM s ORDER BY t DESC LIMIT 3",
    COUNTS,
    SUMS,
    "SELECT l.t, r.x FROM s AS l JOIN s AS r WITHIN 2 ON l.a = r.a WHERE l.x > 8",
    f"SELECT a, ROW_NUMBER() OVER (ORDER BY a DESC) AS n FROM ({RISE}) AS found",
    "FROM s DEFINE A AS x > 1 AND x < 8, B AS a = 3 PATTERN A overlaps; contains B WITHIN 30",
    FILTERED,
    "SHOW STREAMS",
)
FULL_SQLS = (RISE, *SQLS[1:2] * 2, SUMS, SQLS[6])
"""Those that read the stream through with plan full, by flows that share blocks."""


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Make a store whose stream ``s`` has 40 events in ten blocks of four files, indexed by a."""
    rows: list[dict[str, Any]] = [
        {
            "t": t,
            "a": t * 7 % 5,
            "x": t / 4,
            "s": ("quiet", "loud")[t % 3 > 1],
            "f": None,
            "k": None,
        }
        for t in range(40)
    ]
    store = create_store(tmp_path / "store")
    small = SmallStream(rows, block_events=4, file_events=64, fan_out=4, cuts=(8, 20, 32))
    fill_stream(store, "s", small, index=("a",))
    return store


def told(result: replay.Result) -> Any:
    """Return what is told of an answer, but for the time it took."""
    stats = result.stats
    del stats["actual"]["seconds"]
    return stats


@pytest.mark.parametrize("plan", ["auto", "full"])
def test_each_answer_is_that_of_its_query_alone(store: Store, plan: str) -> None:
    params = {"above": 7}
    found = replay.query_many(store, SQLS, params=params, plan=plan)

    for sql, result in zip(SQLS, found, strict=True):
        alone = replay.query(store, sql, params=params, plan=plan)
        assert result.table.equals(alone.table, check_metadata=True), sql
        assert told(result) == told(alone), sql
        assert len(result), sql


def test_tables_in_memory_are_asked_as_well(store: Store) -> None:
    tables = {"s": pa.table(replay.query(store, "SELECT * FROM s"))}
    found = replay.query_many(tables, SQLS[1:3], params={"above": 7})
    assert [result.table for result in found] == [
        replay.query(tables, sql, params={"above": 7}).table for sql in SQLS[1:3]
    ]


def test_blocks_are_read_once_for_all_queries(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: Counter[tuple[str, int, str]] = Counter()
    plain = BlockReader.read

    def counted(
        reader: BlockReader, name: str, groups: Sequence[int], columns: Sequence[str]
    ) -> pa.Table:
        read.update((name, int(group), column) for group in groups for column in columns)
        return plain(reader, name, groups, columns)

    monkeypatch.setattr(BlockReader, "read", counted)
    params = {"above": 7}
    for sql in FULL_SQLS:
        replay.query(store, sql, params=params, plan="full")
    by_each = dict(read)
    read.clear()
    replay.query_many(store, FULL_SQLS, params=params, plan="full")

    assert max(by_each.values()) == len(FULL_SQLS)
    assert set(read) == set(by_each)
    assert set(read.values()) == {1}


def test_patterns_that_are_summed_together_are_opened_once(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    plain = Opener.open_statement

    def noted(opener: Opener, statement: Statement) -> Flow:
        opened.append(statement.plain.stream)
        return plain(opener, statement)

    monkeypatch.setattr(Opener, "open_statement", noted)
    sqls = [SUMS.replace("WITHIN 9", within) for within in ("WITHIN 9", "", "WITHIN 8")]
    found = replay.query_many(store, [*sqls, sqls[1]])
    assert opened == ["s"] * 4
    for result in found:
        seconds = result.actual.seconds
        assert 0 < seconds.plan < seconds.total


def test_what_finds_no_room_is_read_again(store: Store) -> None:
    snapshot = store.stream("s").snapshot()
    for n_bytes in (0, 100, 1 << 20):
        shared = SharedBlocks(snapshot, Room(n_bytes))
        for blocks in ([0, 1, 2], [1], [0, 2, 3, 9], [2, 3], []):
            for columns in (["x", "s"], ["t", "s", "x"], ["f"], []):
                asked = np.array(blocks, np.int64)
                expected = snapshot.read_blocks(asked, columns)
                found = shared.read_blocks(asked, columns)
                assert found.schema.equals(expected.schema)
                assert found.num_rows == expected.num_rows
                assert found.to_pylist() == expected.to_pylist()


def test_what_comes_between_two_answers_is_in_none_of_them(store: Store) -> None:
    sqls = ("SELECT COUNT(*) AS n FROM s", "SELECT MAX(x) OVER () AS n FROM s LIMIT 1")
    found = []
    for answer in answers_in_pieces(store, sqls):
        found += pa.concat_tables(answer.tables)["n"].to_pylist()
        other = open_store(store.path).stream("s")
        late = {"t": [99], "a": [1], "x": [99.0], "s": ["loud"], "f": [None], "k": [None]}
        other.append(pa.table(late, schema=other.schema))
    assert found == [40, 39 / 4]


def test_what_query_many_does_not_take_is_refused(store: Store) -> None:
    with pytest.raises(replay.NotSupportedError, match="CREATE STREAM among several queries"):
        replay.query_many(store, [f"CREATE STREAM r AS {SQLS[2]}"])
    with pytest.raises(TypeError, match="a list of queries"):
        replay.query_many(store, SQLS[2])
    with pytest.raises(replay.PatternSyntaxError):
        replay.query_many(store, [SQLS[2], "SELEC"])
    assert replay.query_many(store, []) == ()


def test_tables_in_memory_are_put_in_order_once_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    ordered: list[list[str]] = []
    plain = source.in_order

    def noted(table: pa.Table, time: str, order_by: tuple[str, ...]) -> pa.Table:
        ordered.append(table.column_names)
        return plain(table, time, order_by)

    monkeypatch.setattr(source, "in_order", noted)
    table = pa.table({"t": [3, 1, 2], "x": [9.0, 2.0, 8.0], "a": [1, 1, 2]})
    count = (
        "SELECT COUNT(*) AS n FROM s MATCH_RECOGNIZE (ORDER BY t PATTERN (A B) SEMANTICS SKIP TILL "
        "ANY DEFINE B AS x > {})"
    )
    found = replay.query_many({"s": table}, [count.format(x) for x in (5, 8, 9)])
    assert [result.table["n"].to_pylist() for result in found] == [[1 + 2], [2], [0]]
    assert ordered == [["t", "x"]]
