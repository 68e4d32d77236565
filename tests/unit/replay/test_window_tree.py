"""Windows from the tree: what is read is counted, plans are named, choices are told."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import replay
from chronicle import Store, StreamSettings, create_store
from replay.errors import PlanError
from replay.language.bound import TimeWindows
from replay.windows.tree.axis import series_of
from tests.json_schema import violations

SCHEMA = json.loads((Path(__file__).parents[3] / "docs" / "explain.schema.json").read_text())
N_EVENTS = 20_000
BLOCK_EVENTS = 10
N_BLOCKS = N_EVENTS // BLOCK_EVENTS


def filled(folder: Path, events: pa.Table) -> Store:
    """Make a stream with ``k`` as its key and a summary of ``x`` by key."""
    settings = StreamSettings(
        "t", block_events=BLOCK_EVENTS, file_events=5000, fan_out=4, key="k", derived=("by(x)",)
    )
    store = create_store(folder / "store")
    store.create_stream("s", events.schema, settings).append(events)
    return store


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Event i is at time 2 i; ``x`` rises with time, ``k`` takes turns, ``n`` is i mod 7."""
    i = np.arange(N_EVENTS)
    table = pa.table(
        {
            "t": pa.array(2 * i),
            "x": pa.array(i / 10),
            "n": pa.array(i % 7),
            "k": pa.array(np.array(["a", "b", "c"])[i % 3]),
        }
    )
    return filled(tmp_path_factory.mktemp("trees"), table)


SESSIONS = (
    "SELECT window_start, COUNT(*) AS c FROM TABLE(SESSION(TABLE s, DESCRIPTOR(t), 10)) "
    "GROUP BY window_start, window_end"
)


def hop(
    size: int, slide: int, *, of: str = "COUNT(*) AS c, SUM(n) AS total", more: str = ""
) -> str:
    return (
        f"SELECT window_start, {of} FROM TABLE(HOP(TABLE s, DESCRIPTOR(t), {slide}, {size})) "
        f"{more} GROUP BY window_start, window_end"
    )


def blocks_read(store: Store, sql: str, plan: str = "tree") -> int:
    """Return how many blocks a plan reads, once its answer is that of a replay."""
    result = replay.query(store, sql, plan=plan)
    replayed = replay.query(store, sql, plan="replay")
    assert result.table.equals(replayed.table)
    assert result.actual.rows_replayed == result.actual.blocks_read * BLOCK_EVENTS
    return result.actual.blocks_read


def cut_blocks(borders: Iterable[int]) -> set[int]:
    """Return the blocks with events on both sides of a border: block b has 20 b to 20 b + 18."""
    return {border // 20 for border in borders if 0 < border % 20 <= 18}


def test_an_aggregate_of_a_range_reads_at_most_two_blocks(store: Store) -> None:
    asked = "SELECT SUM(n) AS s, MIN(x) AS l, MAX(x) AS h, COUNT(*) AS c FROM s"
    assert blocks_read(store, asked) == 0
    assert blocks_read(store, f"{asked} WHERE t >= 1001") == 1
    assert blocks_read(store, f"{asked} WHERE t >= 1001 AND t < 30001") == 2
    assert blocks_read(store, f"{asked} WHERE t >= 1001 AND t < 1003") == 1
    # Blocks begin at multiples of 20: borders there cut none.
    assert blocks_read(store, f"{asked} WHERE t >= 1000 AND t < 30000") == 0
    assert blocks_read(store, f"{asked} WHERE t BETWEEN 100000 AND 200000") == 0


def test_auto_takes_the_tree_for_an_aggregate_of_a_range(store: Store) -> None:
    result = replay.query(store, "SELECT AVG(x) AS m FROM s WHERE t >= 1001 AND t < 30001")
    assert result.table.to_pylist() == [{"m": (501 + 15000) / 2 / 10}]
    assert result.stats["plan"] == "tree"
    assert result.stats["actual"]["blocks_read"] == 2
    assert result.stats["actual"]["bytes_read"] > 0


def test_each_border_costs_a_block_and_none_is_read_twice(store: Store) -> None:
    borders = cut_blocks(range(0, 39_999, 1007))
    assert blocks_read(store, hop(5 * 1007, 1007)) == len(borders)
    # Each window asks for itself: its two borders, where they lie inside the stream and cut.
    naive = replay.query(store, hop(5 * 1007, 1007), plan="tree-naive")
    assert naive.actual.blocks_read == 2 * len(borders)
    assert naive.table.equals(replay.query(store, hop(5 * 1007, 1007), plan="replay").table)


def test_a_slide_that_does_not_divide_the_size_has_twice_the_borders(store: Store) -> None:
    # Starts at k * 1007, ends 500 after each: thesis 3.3.3's two slices per slide.
    cut = cut_blocks([*range(0, 39_999, 1007), *range(500, 39_999, 1007)])
    assert blocks_read(store, hop(2 * 1007 + 500, 1007)) == len(cut)


def test_windows_of_rows_read_the_blocks_that_begin_or_end_inside(store: Store) -> None:
    sql = (
        "SELECT window_start, window_end, SUM(n) AS total FROM TABLE(HOP_ROWS(TABLE s, 1005, 2010))"
        " GROUP BY window_start, window_end"
    )
    # Rows 1005, 2010, 3015, ... begin windows: every other one is the first of its block.
    assert blocks_read(store, sql) == len([r for r in range(0, 20_000, 1005) if r % 10])


def test_blocks_that_where_passes_or_fails_as_a_whole_are_not_read(store: Store) -> None:
    # x = t / 20, so x > 700.05 fails up to t = 14000, inside block 700; hourly borders cut others.
    more = "WHERE x > 700.05 AND n >= 0"
    borders = [p for p in range(0, 40_000, 5000) if p % 20]
    assert not borders
    assert blocks_read(store, hop(10_000, 5000, more=more)) == 1


def test_a_condition_that_no_block_decides_is_read_everywhere(store: Store) -> None:
    assert blocks_read(store, hop(10_000, 5000, more="WHERE n = 3")) == N_BLOCKS


def test_keys_come_from_summaries_by_key(store: Store) -> None:
    sql = (
        "SELECT window_start, k, MIN(x) AS low, MAX(x) AS high, COUNT(*) AS c "
        "FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(t), 5000)) GROUP BY window_start, window_end, k"
    )
    # No border cuts a block: only the first and the last event of each key are looked for.
    assert blocks_read(store, sql) == 2
    told = replay.explain(store, sql, plan="tree").to_dict()
    assert told["estimated"]["blocks"] == 2


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        (hop(100, 10, of="COUNT(DISTINCT n) AS d"), r"COUNT\(DISTINCT n\) is not among"),
        (hop(100, 10, of="SUM(x * 2) AS d"), r"SUM\(…\) is of an expression"),
        (hop(100, 10, of="MEDIAN(x) AS d"), "is not among what summaries hold"),
        (
            "SELECT n, COUNT(*) AS c FROM s GROUP BY n",
            "GROUP BY has keys besides the stream's key column 'k'",
        ),
        ("SELECT k, SUM(n) AS c FROM s GROUP BY k", r"declare 'by\(n\)'"),
        (
            SESSIONS,
            "sessions begin and end where events do",
        ),
    ],
)
@pytest.mark.parametrize("plan", ["tree", "tree-naive"])
def test_a_plan_by_the_tree_that_cannot_apply_says_why(
    store: Store, sql: str, why: str, plan: str
) -> None:
    with pytest.raises(PlanError, match=why):
        replay.query(store, sql, plan=plan)
    assert replay.explain(store, sql).to_dict()["plan"] == "replay"


def test_explain_names_rivals_the_break_even_slide_and_what_where_decides(store: Store) -> None:
    explained = replay.explain(store, hop(5000, 1000, more="WHERE x > 700.05"))
    told = explained.to_dict()
    assert violations(told, SCHEMA) == []
    assert told["plan"] == "tree"
    assert {rival["plan"] for rival in told["rivals"]} == {"replay", "tree-naive"}
    assert told["windows"]["kind"] == "HOP"
    assert told["windows"]["origin"] == "0"
    assert told["windows"]["count"] == 44  # from -4000 to 39000 by 1000
    assert 1 <= told["windows"]["break_even_slide"] < 5000
    # 700.1 is the x of event 7001: block 700 passes in part.
    assert told["where"] == {"all_pass": N_BLOCKS - 701, "none_pass": 700, "must_read": 1}
    assert "break-even at a slide of about" in str(explained)


def test_the_number_of_blocks_is_known_before(store: Store) -> None:
    for sql in (hop(5 * 1007, 1007), hop(2 * 1007 + 500, 1007), hop(10_000, 5000)):
        told = replay.explain(store, sql, plan="tree").to_dict()
        assert told["estimated"]["blocks"] == blocks_read(store, sql)


def test_a_slide_of_an_event_is_replayed(store: Store) -> None:
    assert replay.explain(store, hop(100, 2)).to_dict()["plan"] == "replay"


def test_borders_are_those_of_the_windows_there_are(store: Store) -> None:
    series = series_of(store.stream("s").snapshot(), TimeWindows(25, 10))
    # Windows begin at -20, -10, 0, ... and end 25 later; those that end by 0 are not there.
    assert series.borders(None, 31).tolist() == [-20, -10, 0, 5, 10, 15, 20, 25, 30]
    assert series.borders(20, 31).tolist() == [25, 30]
    assert series.n_borders(0, 31) == 3 + 3  # begin: 10, 20, 30; end: 5, 15, 25


@pytest.mark.parametrize(
    ("far", "size"),
    [
        pytest.param(10**12, 3, id="short windows"),
        pytest.param(10**12, 10**11, id="windows that overlap without number"),
        # As many windows as no len() can tell.
        pytest.param((1 << 62) - 1, 3, id="all of time"),
    ],
)
def test_windows_without_number_between_two_events_come_piece_by_piece(
    tmp_path: Path, far: int, size: int
) -> None:
    times = [-far, -far + 1, -far + 70_000, far - 5, far]
    table = pa.table({"t": pa.array(times), "n": pa.array([1, 2, 4, 8, 16])})
    store = create_store(tmp_path / "store")
    store.create_stream("s", table.schema, StreamSettings("t")).append(table)

    def first_rows(plan: str) -> pa.Table:
        batches, rows = replay.batches(store, hop(size, 1), plan=plan), 0
        found: list[pa.RecordBatch] = []
        while rows < 100_000:
            found.append(batches.read_next_batch())
            rows += found[-1].num_rows
        return pa.Table.from_batches(found).slice(0, 100_000)

    by_tree = first_rows("tree")
    assert by_tree.equals(first_rows("replay"))
    totals = dict(zip(*(by_tree.column(i).to_pylist() for i in (0, 2)), strict=True))
    # The first window that ends after -far begins size - 1 before; each event is in size of them.
    assert totals[-far - size + 1] == 1
    assert totals[-far - size + 2] == 1 + 2
    if size == 3:
        assert totals[-far + 69_998] == 4
        assert totals[-far + 30_000] is None
    told = replay.explain(store, hop(size, 1)).to_dict()
    assert told["plan"] == "replay"
    assert told["windows"]["count"] == 2 * far + size


def test_counting_a_constant_is_counting_rows(store: Store) -> None:
    assert blocks_read(store, hop(10_000, 5000, of="COUNT(1) AS c, COUNT('a') AS d")) == 0


def test_a_stream_read_more_than_once_is_said_to_be_replayed_as_a_whole(store: Store) -> None:
    result = replay.query(store, hop(58, 29), plan="tree-naive")
    assert result.actual.rows_replayed > result.actual.rows_total
    assert result.actual.alpha == 1.0
    assert violations(result.stats, SCHEMA) == []


# ---------------------------------------------------------------------------------------------
# WHERE told by the values of each key: which blocks are read; the answer is that of a replay

KEYED_BLOCKS = 40
"""Blocks of ten events: six of ``a``, three of ``b`` and one without a key."""


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """x is about 10 for a, about 100 for b and 55 without a key, in every block; it rises by 0.1.

    ``n`` has six values in a block, as many as ``a`` has events, but only four of them are a's.
    """
    i = np.arange(KEYED_BLOCKS * BLOCK_EVENTS)
    place = i % BLOCK_EVENTS
    keys = [["a", "a", "b", "a", "a", None, "b", "a", "b", "a"][p] for p in place]
    base = {"a": 10.0, "b": 100.0, None: 55.0}
    has_n = np.isin(place, [0, 1, 2, 3, 4, 6])
    table = pa.table(
        {
            "t": pa.array(i),
            "k": pa.array(keys),
            "x": pa.array([base[key] + at // BLOCK_EVENTS / 10 for at, key in enumerate(keys)]),
            "n": pa.array(i % 7, mask=~has_n),
        }
    )
    return filled(tmp_path_factory.mktemp("keys"), table)


def by_key(where: str, windows: str = "TUMBLE(TABLE s, DESCRIPTOR(t), 100)") -> str:
    return (
        f"SELECT window_start, k, COUNT(*) AS c, SUM(x) AS total FROM TABLE({windows}) "
        f"WHERE {where} GROUP BY window_start, window_end, k"
    )


def told(keyed: Store, sql: str) -> tuple[int, dict[str, int]]:
    """Return blocks read by the tree and what WHERE says of them, once the answer is a replay's."""
    result = replay.query(keyed, sql, plan="tree")
    assert result.table.equals(replay.query(keyed, sql, plan="replay").table)
    assert violations(result.stats, SCHEMA) == []
    where: dict[str, int] = result.stats["where"]
    return result.actual.blocks_read, where


# The first and the last event of each key are looked for in the blocks they lie in: two here.
ENDS = 2


@pytest.mark.parametrize(
    ("where", "mixed"),
    [
        pytest.param("x > 50", KEYED_BLOCKS, id="a fails, the others pass"),
        pytest.param("x < 50 OR x > 90", KEYED_BLOCKS, id="two ranges"),
        pytest.param("x > 20 AND x < 90", KEYED_BLOCKS, id="only events without a key"),
        pytest.param("k = 'b'", KEYED_BLOCKS, id="the key itself"),
        pytest.param("k <> 'b' AND x > 0", KEYED_BLOCKS, id="the key and a range"),
        pytest.param("x > 0", 0, id="all pass"),
    ],
)
def test_blocks_whose_keys_pass_or_fail_as_a_whole_are_not_read(
    keyed: Store, where: str, mixed: int
) -> None:
    blocks, classes = told(keyed, by_key(where))
    assert blocks == ENDS
    assert classes == {
        "all_pass": KEYED_BLOCKS - mixed, "none_pass": 0, "must_read": 0, "by_key": mixed,
    }  # fmt: skip
    assert (
        f"those of some keys in {mixed}" in str(replay.explain(keyed, by_key(where))) or not mixed
    )


def test_blocks_are_read_where_the_range_ends_within_one_keys_values(keyed: Store) -> None:
    # x of a passes 12 in block 20: 10 + 2.0 is not above it, 10 + 2.1 is.
    assert told(keyed, by_key("x > 12"))[1]["must_read"] == 0
    narrow = "SELECT k, COUNT(*) AS c FROM s WHERE x + 0 > 12 GROUP BY k"
    assert told(keyed, narrow)[1]["must_read"] == KEYED_BLOCKS


def test_a_block_that_is_cut_is_read_and_its_events_filtered(keyed: Store) -> None:
    # Slides of 55 cut every other border's block: 55, 165, 275, 385.
    sql = by_key("x > 50", "TUMBLE(TABLE s, DESCRIPTOR(t), 55)")
    assert told(keyed, sql)[0] == 4 + ENDS


def test_values_missing_of_other_keys_are_not_taken_for_ones_own(keyed: Store) -> None:
    # There are six values of n in a block and six events of a; yet two of a's lack one. No other
    # key's events pass.
    blocks, classes = told(keyed, by_key("n >= 0 AND x < 50"))
    assert classes["must_read"] == KEYED_BLOCKS
    assert blocks >= KEYED_BLOCKS


def test_aggregates_by_key_without_windows_read_nothing(keyed: Store) -> None:
    sql = "SELECT k, COUNT(*) AS c, MAX(x) AS most FROM s WHERE x > 50 GROUP BY k"
    assert told(keyed, sql)[0] == 0
    rows = replay.query(keyed, sql, plan="tree").table.to_pylist()
    assert rows == [
        {"k": "b", "c": 3 * KEYED_BLOCKS, "most": 103.9},
        {"k": None, "c": KEYED_BLOCKS, "most": 58.9},
    ]
