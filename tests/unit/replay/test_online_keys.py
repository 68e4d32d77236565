"""Online queries by key under WITHIN: keys long gone are forgotten, and answers stay what they are.

Key ``n`` has a row 2n and one right after it; now and then an old key comes back after a long gap.
"""

from __future__ import annotations

import pyarrow as pa
import pytest

import replay
from replay.patterns import row_intake
from replay.windows import forming

SCHEMA = pa.schema([("t", pa.int64()), ("k", pa.string()), ("x", pa.int64())])

QUERIES = {
    "a pattern": ("A.t AS a, B.t AS b", "PATTERN (A B)", ""),
    "all rows": ("CLASSIFIER() AS c", "ALL ROWS PER MATCH PATTERN (A B)", ""),
    "unmatched rows": ("t AS u", "ALL ROWS PER MATCH WITH UNMATCHED ROWS PATTERN (A B)", ""),
    "overlapping matches": ("B.t AS b", "AFTER MATCH SKIP TO NEXT ROW PATTERN (A* B)", ""),
    "texts compared": ("B.t AS b", "PATTERN (A B)", " AND B.k = A.k"),
    "texts ordered": ("B.t AS b", "PATTERN (A B)", " AND B.k >= A.k AND A.k > 'key1'"),
    "next": ("A.t AS a, B.t AS b", "PATTERN (A B) SEMANTICS SKIP TILL NEXT", ""),
    "any": ("A.t AS a, B.k AS b", "PATTERN (A B) SEMANTICS SKIP TILL ANY", " AND B.k = A.k"),
}
REMEMBERING = {
    "match numbers": ("MATCH_NUMBER() AS n", "PATTERN (A B)", ""),
    "match numbers in DEFINE": ("B.t AS b", "PATTERN (A B)", " AND MATCH_NUMBER() <= 2"),
    "numbers of a strategy": ("MATCH_NUMBER() AS n", "PATTERN (A B) SEMANTICS CONTIGUOUS", ""),
    "the first rows": ("B.t AS b", "PATTERN (^ A B)", ""),
    "the first rows of a strategy": ("B.t AS b", "PATTERN (^ A B) SEMANTICS SKIP TILL NEXT", ""),
}  # fmt: skip


def query_of(measures: str, pattern: str, condition: str) -> str:
    rows, _, strategy = pattern.partition(" SEMANTICS")
    semantics = f"SEMANTICS{strategy}" if strategy else ""
    return (
        f"SELECT * FROM s MATCH_RECOGNIZE (PARTITION BY k ORDER BY t MEASURES {measures} {rows} "
        f"{semantics} WITHIN 3 DEFINE A AS x = 0, B AS x = 1{condition})"
    )


def events(n_keys: int, *, returning: int) -> pa.Table:
    """Return two events of every key, and two more of an old one after every ``returning``."""
    rows = []
    for key in range(n_keys):
        keys = [key, key // 3] if returning and key % returning == returning - 1 else [key]
        rows += [(f"key{key}", x) for key in keys for x in (0, 1)]
    columns = [[*range(len(rows))], [k for k, _ in rows], [x for _, x in rows]]
    return pa.table(dict(zip(SCHEMA.names, columns, strict=True)), SCHEMA)


def asked_online(sql: str, table: pa.Table) -> tuple[pa.Table, list[int]]:
    """Return what comes out of an operator that others take over from, and sizes of snapshots."""
    online = replay.online(sql, SCHEMA, time="t")
    found, sizes = [], []
    for at in range(0, table.num_rows, 7):
        found.append(online.push(table.slice(at, 7)))
        state = online.snapshot()
        sizes.append(len(state))
        if at % 3 == 0:
            online = replay.online(sql, SCHEMA, time="t")
            online.restore(state)
    return pa.concat_tables([*found, online.finish()]), sizes


@pytest.mark.parametrize(
    "described", {**QUERIES, **REMEMBERING}.values(), ids={**QUERIES, **REMEMBERING}
)
def test_keys_that_come_back_are_answered_as_if_never_forgotten(
    described: tuple[str, str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_intake, "KNOWN_MIN", 4)
    sql, table = query_of(*described), events(120, returning=4)
    found, _ = asked_online(sql, table)
    answer = replay.query({"s": table}, sql).table
    assert answer.num_rows
    assert found.to_pylist() == answer.to_pylist()


SESSIONS = (
    "SELECT window_start, window_end, k, COUNT(*) AS n, SUM(x) AS x "
    "FROM TABLE(SESSION(TABLE s PARTITION BY k, DESCRIPTOR(t), 3)) "
    "GROUP BY window_start, window_end, k"
)


def test_sessions_forget_keys_and_begin_anew_where_one_comes_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(forming, "KNOWN_MIN", 4)
    table = events(300, returning=4)
    found, sizes = asked_online(SESSIONS, table)
    assert found.to_pylist() == replay.query({"s": table}, SESSIONS).table.to_pylist()
    assert max(sizes[50:]) <= 1.1 * max(sizes[:20])


def test_of_zeros_the_key_met_first_is_shown_after_long_silence_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(forming, "KNOWN_MIN", 2)
    values = [-0.0, *map(float, range(1, 40)), 0.0, 41.0]
    table = pa.table({"t": range(0, 10 * len(values), 10), "z": values})
    sql = (
        "SELECT window_start, z, COUNT(*) AS n FROM TABLE(SESSION(TABLE s PARTITION BY z, "
        "DESCRIPTOR(t), 3)) GROUP BY window_start, window_end, z"
    )
    online = replay.online(sql, table.schema, time="t")
    found = [online.push(table.slice(at, 1)) for at in range(table.num_rows)]
    pieces = pa.concat_tables([*found, online.finish()])
    assert repr(pieces.to_pylist()) == repr(replay.query({"s": table}, sql).table.to_pylist())


@pytest.mark.parametrize("described", QUERIES.values(), ids=QUERIES)
def test_state_does_not_grow_with_the_keys_ever_seen(
    described: tuple[str, str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_intake, "KNOWN_MIN", 16)
    table, sizes = events(700, returning=0), []
    online = replay.online(query_of(*described), SCHEMA, time="t")
    for at in range(0, table.num_rows, 10):
        online.push(table.slice(at, 10))
        sizes.append(len(online.snapshot()))
    assert max(sizes[70:]) <= 1.1 * max(sizes[:50])  # numbers of more digits
