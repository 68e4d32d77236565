"""A plan that claims to skip is held to it: blocks read are counted, answers compared."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import replay
from chronicle import Snapshot, Store, create_store
from replay.patterns import local
from tests.helpers import fill_stream
from tests.strategies import SmallStream

N_EVENTS = 1000
BLOCK_EVENTS = 10
RARE_AT = (205, 605)
"""Two events with a = 77, each followed by one with a = 78 three events later."""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """``x`` rises with time (the tree can tell its range), ``a`` repeats (only an index can)."""
    rows = [
        {"t": 2 * i, "a": i % 5, "x": i / 10, "s": "even" if i % 2 == 0 else "odd",
         "f": i % 3 == 0, "k": i % 2}
        for i in range(N_EVENTS)
    ]  # fmt: skip
    for at in RARE_AT:
        rows[at]["a"], rows[at + 3]["a"] = 77, 78
    small = SmallStream(rows, BLOCK_EVENTS, file_events=300, fan_out=4, cuts=(500,))
    store = create_store(tmp_path_factory.mktemp("skipping") / "store")
    fill_stream(store, "s", small, index=("a", "s"))
    return store


def recognize(pattern: str, define: str, more: str = "", measures: str = "FIRST(t) AS t") -> str:
    return (
        f"SELECT * FROM s MATCH_RECOGNIZE (ORDER BY t MEASURES {measures}, MATCH_NUMBER() AS no "
        f"PATTERN ({pattern}) {more} DEFINE {define})"
    )


RARE = recognize("A Z*? B", "A AS a = 77, B AS B.a = 78", "WITHIN 10")
BESIDE = recognize("A", "A AS A.a = 77 AND PREV(A.a, 6) = 4 AND NEXT(A.a, 7) = 2", "WITHIN 0")


def blocks_read(store: Store, sql: str, plan: str) -> int:
    result = replay.query(store, sql, plan=plan)
    full = replay.query(store, sql, plan="full")
    assert result.table.equals(full.table)
    assert full.actual.blocks_read == full.actual.blocks_total == N_EVENTS // BLOCK_EVENTS
    assert result.actual.rows_replayed <= result.actual.blocks_read * BLOCK_EVENTS
    return result.actual.blocks_read


@pytest.mark.parametrize("plan", ["indexes=A.a", "indexes=B", "all", "auto"])
def test_index_plan_reads_the_blocks_around_the_rare_symbol_only(store: Store, plan: str) -> None:
    # 205 and 208 lie in block 20, a window of 10 is 5 events: at most blocks 19 to 21, twice.
    assert 2 <= blocks_read(store, RARE, plan) <= 6
    assert replay.query(store, RARE, plan=plan).table.to_pylist() == [
        {"t": 410, "no": 1},
        {"t": 1210, "no": 2},
    ]


@pytest.mark.parametrize(
    ("plan", "pattern", "more", "rows"),
    [
        # Times 410 and 416, so with a window of 10 events 205 to 210, but the last lies in a block
        # that has no B. The same 400 events later.
        pytest.param("indexes=A", "A Z*? B", "WITHIN 10", 2 * 5, id="from-the-first-on"),
        # A match ends with B, so from event 203 on.
        pytest.param("indexes=B", "A Z*? B", "WITHIN 10", 2 * 6, id="up-to-the-last"),
        pytest.param("indexes=A,B", "A Z*? B", "WITHIN 10", 2 * 4, id="both"),
        # The next B is not behind A within the window.
        pytest.param("indexes=A,B", "A Z*? B", "WITHIN 5", 0, id="too-far-apart"),
        pytest.param("indexes=A,B", "A Z Z B", "", 2 * 4, id="by-rows"),
        # All from event 205 to 608 are in it, so nearly all of blocks 20 to 60: not worth a cut.
        pytest.param("indexes=A,B", "A Z*? B", "", 410, id="without-a-window"),
    ],
)
@pytest.mark.parametrize("unit", [local.UNIT_EVENTS, 20])
def test_only_rows_of_replay_intervals_are_matched(
    store: Store, monkeypatch, plan: str, pattern: str, more: str, rows: int, unit: int
) -> None:
    monkeypatch.setattr(local, "UNIT_EVENTS", unit)
    sql = recognize(pattern, "A AS a = 77, B AS B.a = 78", more)
    blocks_read(store, sql, plan)
    assert replay.query(store, sql, plan=plan).actual.rows_replayed == rows


@pytest.mark.parametrize("plan", ["tree", "all", "auto"])
@pytest.mark.parametrize(
    ("pattern", "t"), [("^ Z*? B", 0), ("B Z* $", 1996), ("(^ Z | ^) Z*? B", 0)]
)
@pytest.mark.parametrize("semantics", ["", "SEMANTICS CONTIGUOUS"])
def test_matches_at_the_ends_of_the_stream_are_looked_for_there(
    store: Store, plan: str, pattern: str, t: int, semantics: str
) -> None:
    # The fourth event and the last but one are the first and last of a = 3.
    sql = recognize(pattern, "B AS B.a = 3", f"{semantics} WITHIN 7")
    assert blocks_read(store, sql, plan) == 1
    assert replay.query(store, sql, plan=plan).table.to_pylist() == [{"t": t, "no": 1}]


@pytest.mark.parametrize("plan", ["indexes=B", "all", "auto"])
def test_what_need_not_be_at_the_end_is_looked_for_everywhere(store: Store, plan: str) -> None:
    sql = recognize("(^ Z | A) Z*? B ($ | Z)", "A AS a = 77, B AS B.a = 78", "WITHIN 10")
    assert 2 <= blocks_read(store, sql, plan) <= 6
    starts = replay.query(store, sql, plan=plan).table["t"].to_pylist()
    assert starts == [410, 1210]


@pytest.mark.parametrize("plan", ["tree", "auto"])
def test_tree_plan_reads_only_where_minima_and_maxima_allow(store: Store, plan: str) -> None:
    sql = recognize("A B", "A AS A.x = 50, B AS B.x > 50")
    assert blocks_read(store, sql, plan) <= 3


def test_equality_with_a_pinned_symbol_uses_its_range(store: Store) -> None:
    sql = recognize("A Z*? B", "A AS a = 77, B AS B.a = A.a AND B.t > A.t", "WITHIN 1000")
    # B can only be another 77: 400 events apart, in a window of 500.
    result = replay.query(store, sql, plan="indexes=A.a,B.a")
    assert result.table.to_pylist() == [{"t": 410, "no": 1}]
    assert blocks_read(store, sql, "indexes=A.a,B.a") <= 43


def test_partitioned_query_skips_by_time(store: Store) -> None:
    sql = RARE.replace("ORDER BY t", "PARTITION BY k ORDER BY t")
    assert 0 < blocks_read(store, sql, "indexes=A.a") <= 6


def test_navigation_reads_beside_the_interval(store: Store) -> None:
    # 205 - 6 = 199 has a = 4, 205 + 7 = 212 has a = 2; both lie in other blocks.
    assert blocks_read(store, BESIDE, "indexes=A.a") <= 4
    assert len(replay.query(store, BESIDE, plan="indexes=A.a")) == 2


@pytest.mark.parametrize(
    ("sql", "n_inline", "read"),
    [
        pytest.param(RARE, 0, [["a", "t"]], id="measures of matched columns"),
        pytest.param(RARE.replace("FIRST(t)", "FIRST(x)"), 0, [["a", "t"], ["x"]], id="of others"),
        pytest.param(RARE.replace("FIRST(t)", "FIRST(x)"), 99, [["a", "t", "x"]], id="small"),
        pytest.param(BESIDE, 0, [["a", "t"]], id="several stretches that look around"),
    ],
)
def test_small_replay_reads_once(
    store: Store, monkeypatch: pytest.MonkeyPatch, sql: str, n_inline: int, read: list[list[str]]
) -> None:
    found: list[list[str]] = []
    original = Snapshot.read_blocks

    def counted(self: Snapshot, blocks: np.ndarray, columns: list[str]) -> pa.Table:
        found.append(sorted(columns))
        return original(self, blocks, columns)

    monkeypatch.setattr(Snapshot, "read_blocks", counted)
    monkeypatch.setattr(local, "INLINE_EVENTS", n_inline)
    assert len(replay.query(store, sql, plan="indexes=A.a")) == 2
    assert found == read


def test_equal_ranges_are_looked_up_once(store: Store) -> None:
    sql = recognize("A Z*? A Z*? A", "A AS a = 77", "WITHIN 2000")
    once = replay.query(store, recognize("A", "A AS a = 77"), plan="indexes=A.a")
    three = replay.query(store, sql, plan="indexes=A.a")
    assert three.actual.entries_read == once.actual.entries_read


def of_letters(text: str) -> SmallStream:
    """Return a stream with an event in each block, at the times of the letters, a from 0 for A."""
    rows = [
        {"t": t, "a": ord(letter) - ord("A"), "x": float(t), "s": letter, "f": None, "k": t % 2}
        for t, letter in enumerate(text)
    ]
    return SmallStream(rows, block_events=1, file_events=100, fan_out=4, cuts=())


@pytest.mark.parametrize(
    ("letters", "clauses", "where", "expected", "most"),
    [
        # (0, 2) is found first and covers 1, which then begins no match.
        ("AAB.....AB", "PATTERN (A Z*? B)", "began = 1", [], 3),
        ("AAB.....AB", "SKIP PATTERN (A Z*? B)", "began = 1", [(1, 2)], 3),
        ("AAB.....AB", "SKIP PATTERN (A Z*? B)", "x = 1 AND ended > 0", [(1, 2)], 10),
        ("AAB.....AB", "SKIP PATTERN (A Z*? B)", "first = 1", [(1, 2)], 3),
        ("AAB.....AB", "SKIP PATTERN (A Z*? B)", "last = 2", [(0, 2), (1, 2)], 5),
        # (0, 5) takes 3, so there is no (3, 8): what overlaps goes together.
        ("A..A.B..B..........AB", "PATTERN (A Z* B)", "ended >= 6 AND ended < 12", [], 9),
        ("A..A.B..B..........AB", "PATTERN (A Z* B)", "ended >= 12", [(19, 20)], 2),
        # What WHERE asks of a later event decides after the match is found: B at 5, not at 2.
        ("A.B..B............AB", "SKIP PATTERN (A Z* B)", "y = 2", [], 8),
        ("A.B.AB..A.B........AB", "BY PATTERN (A Z*? B)", "k = 0 AND began > 4", [(8, 10)], 3),
    ],
)
def test_a_plan_looks_for_the_matches_that_where_keeps(
    tmp_path: Path,
    letters: str,
    clauses: str,
    where: str,
    expected: list[tuple[int, int]],
    most: int,
) -> None:
    store = create_store(tmp_path / "store")
    fill_stream(store, "s", of_letters(letters), index=("a",))
    by = "PARTITION BY k " if clauses.startswith("BY") else ""
    clauses = clauses.removeprefix("BY ").replace("SKIP", "AFTER MATCH SKIP TO NEXT ROW")
    sql = (
        f"SELECT began, ended FROM s MATCH_RECOGNIZE ({by}ORDER BY t MEASURES A.t AS began, "
        f"B.t AS ended, A.x AS x, B.x AS y, FIRST(x) AS first, LAST(x) AS last "
        f"{clauses} WITHIN 5 DEFINE A AS a = 0, B AS a = 1) WHERE {where}"
    )
    for plan in ("full", "tree", "all", "auto"):
        result = replay.query(store, sql, plan=plan)
        assert [tuple(row.values()) for row in result.table.to_pylist()] == expected, plan
        if plan == "all":
            assert result.actual.blocks_read <= most
