"""A selective join reads of the other side only what lies around the events it finds."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import replay
from chronicle import Store, create_store
from replay.errors import PlanError
from tests.helpers import fill_stream
from tests.strategies import SmallStream

TRADES, QUOTES = 2000, 40_000
RARE_AT = (300, 900, 1555)
"""Trades with size 1000; all others are smaller."""

QUOTES_BLOCKS = QUOTES // 100
TRADES_BLOCKS = TRADES // 10

TRADE = pa.schema([("t", pa.int64()), ("sym", pa.string()), ("size", pa.int64())])
QUOTE = pa.schema([("t", pa.int64()), ("sym", pa.string()), ("bid", pa.float64())])


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """A trade every 20 units and a quote every unit, of three symbols each."""
    rng = np.random.default_rng(7)
    names = ("A", "B", "C")
    trades = [
        {"t": 20 * i, "sym": names[rng.integers(3)], "size": int(rng.integers(1, 900))}
        for i in range(TRADES)
    ]
    for at in RARE_AT:
        trades[at]["size"] = 1000
    quotes = [
        {"t": i, "sym": names[rng.integers(3)], "bid": float(rng.integers(50))}
        for i in range(QUOTES)
    ]
    store = create_store(tmp_path_factory.mktemp("joins") / "store")
    of_trades = SmallStream(trades, 10, 500, 4, (), TRADE)
    fill_stream(store, "trades", of_trades, index=("size", "sym+size"))
    fill_stream(store, "quotes", SmallStream(quotes, 100, 9000, 4, (), QUOTE), index=("bid",))
    return store


SELECT = "SELECT a.t, b.t AS u, a.size, bid FROM trades AS a"

JOINS = {
    "time": f"{SELECT} JOIN quotes AS b WITHIN 30 ON a.sym = b.sym",
    "two sizes": f"{SELECT} JOIN quotes AS b WITHIN (5, 60) ON a.sym = b.sym",
    "slides": f"{SELECT} JOIN quotes AS b WITHIN 60 SLIDE 20 ON a.sym = b.sym",
    "rows": f"{SELECT} JOIN quotes AS b WITHIN (2 ROWS, 50 ROWS) ON a.sym = b.sym",
    "rows that slide": f"{SELECT} JOIN quotes AS b WITHIN (4 ROWS SLIDE 3, 50 ROWS SLIDE 30)",
    "range": f"{SELECT} JOIN quotes AS b WITHIN 30 ON a.sym = b.sym AND b.bid < a.size / 40",
    "left": f"{SELECT} LEFT JOIN quotes AS b WITHIN 2 ON a.sym = b.sym AND b.bid > 40",
    "asof": f"{SELECT} ASOF JOIN quotes AS b ON a.t >= b.t",
    "asof, before": f"{SELECT} ASOF JOIN quotes AS b ON a.t > b.t",
    "asof by key": f"{SELECT} ASOF JOIN quotes AS b ON a.sym = b.sym AND a.t >= b.t",
    "next": f"{SELECT} ASOF JOIN quotes AS b ON a.t <= b.t",
    "next, later": f"{SELECT} ASOF LEFT JOIN quotes AS b ON a.t < b.t AND b.bid > 10",
    "next by key": f"{SELECT} ASOF JOIN quotes AS b ON a.sym = b.sym AND a.t <= b.t",
    "next within": f"{SELECT} ASOF LEFT JOIN quotes AS b ON a.sym = b.sym AND a.t < b.t WITHIN 2",
    "asof within": f"{SELECT} ASOF LEFT JOIN quotes AS b ON a.sym = b.sym AND a.t > b.t WITHIN 2",
}


@pytest.mark.parametrize("requested", ["all", "indexes=a.sym+size"])
def test_one_side_is_found_by_an_index_over_two_of_its_columns(
    store: Store, requested: str
) -> None:
    size = replay.query(store, "SELECT sym FROM trades WHERE size = 1000", plan="full")
    sql = f"{JOINS['time']} WHERE a.size = 1000 AND a.sym = '{size.table['sym'][0].as_py()}'"
    result = replay.query(store, sql, plan=requested)
    full = replay.query(store, sql, plan="full")
    assert full.table.num_rows
    assert result.table.equals(full.table)
    assert result.stats["plan"] == "indexes=trades.sym+size"
    assert result.actual.blocks_read < 0.05 * full.actual.blocks_total


@pytest.mark.parametrize("plan", ["auto", "indexes=size", "tree", "all"])
@pytest.mark.parametrize("name", JOINS)
def test_a_selective_join_reads_less_than_5_percent_of_the_other_side(
    store: Store, name: str, plan: str
) -> None:
    sql = f"{JOINS[name]} WHERE a.size = 1000"
    result = replay.query(store, sql, plan=plan)
    full = replay.query(store, sql, plan="full")
    assert full.table.num_rows
    assert result.table.equals(full.table)
    assert full.actual.blocks_total == QUOTES_BLOCKS + TRADES_BLOCKS
    # Each rare trade lies in one block of trades, which is found first and read again; "rows" reads
    # on to the end of the block that holds the trade after the next.
    of_trades = 4 * len(RARE_AT)
    assert result.actual.blocks_read - of_trades < 0.05 * QUOTES_BLOCKS


def test_an_index_on_several_columns_is_named_by_its_side_once(store: Store) -> None:
    on = "JOIN trades AS b WITHIN 30 ON a.sym = b.sym"
    sql = f"SELECT a.t, b.t AS u FROM trades AS a {on} WHERE a.sym = 'A' AND a.size >= 800"
    full = replay.query(store, sql, plan="full")
    for requested in ("indexes=a.sym+size", "indexes=a.sym+a.size"):
        result = replay.query(store, sql, plan=requested)
        assert result.table.equals(full.table)
        assert result.stats["plan"] == "indexes=trades.sym+size"


def test_the_right_may_drive_a_join(store: Store) -> None:
    sql = f"{JOINS['time']} WHERE bid = 49 AND b.t < 2000"
    result = replay.query(store, sql)
    assert result.table.equals(replay.query(store, sql, plan="full").table)
    assert result.actual.blocks_read < 0.2 * result.actual.blocks_total


def test_what_is_asked_of_a_key_holds_for_both_sides(store: Store) -> None:
    # 300 trades in one span of time; its quotes are found by their own key.
    sql = f"{SELECT} JOIN quotes AS b WITHIN 30 ON a.t = b.t WHERE a.t BETWEEN 1000 AND 1200"
    result = replay.query(store, sql)
    assert result.table.num_rows == 11
    assert result.actual.blocks_read <= 10


def test_a_join_that_leaves_nothing_out_is_read_in_full(store: Store) -> None:
    result = replay.query(store, JOINS["asof"])
    assert result.stats["plan"] == "full"
    assert result.actual.blocks_read == result.actual.blocks_total


@pytest.mark.parametrize(
    ("name", "constant", "value", "said"),
    [
        ("time", "COVERED_MAX", 0.0, "events found: reads all"),
        ("time", "HITS_MAX", 1, "more than 1 events"),
        ("asof by key", "BACK_MAX", 0.0, "on the way back"),
    ],
)
def test_estimates_that_err_end_in_reading_all(
    store: Store, monkeypatch: pytest.MonkeyPatch, name: str, constant: str, value: float, said: str
) -> None:
    sql = f"{JOINS[name]} WHERE a.size = 1000"
    expected = replay.query(store, sql, plan="full").table
    monkeypatch.setattr(f"replay.joins.run.{constant}", value)
    result = replay.query(store, sql)
    assert said in str(result.actual.switched)
    assert result.table.equals(expected)


@pytest.mark.parametrize(
    ("plan", "says"),
    [
        ("indexes=price", "the join has no column 'price'"),
        ("indexes=size,bid", "names columns of both sides"),
        ("tree", "neither WHERE nor ON asks anything of one side alone"),
    ],
)
def test_a_plan_that_cannot_apply_says_why(store: Store, plan: str, says: str) -> None:
    with pytest.raises(PlanError, match=says):
        replay.query(store, JOINS["time"], plan=plan)


def test_explain_tells_which_side_is_found_first(store: Store) -> None:
    text = str(replay.explain(store, f"{JOINS['time']} WHERE a.size = 1000"))
    assert "left      its events are found first" in text
    assert "right     only around the events of the other side" in text


@pytest.mark.parametrize("order", [">=", ">", "<=", "<"])
@pytest.mark.parametrize("on", ["", " AND b.bid = 1"])
def test_a_partner_far_away_is_found_where_the_right_is_filtered(
    store: Store, order: str, on: str
) -> None:
    right = "quotes" if on else "(SELECT * FROM quotes WHERE bid = 1)"
    sql = f"{SELECT} ASOF LEFT JOIN {right} AS b ON a.t {order} b.t{on} WHERE a.size = 1000"
    quotes = replay.query(store, "SELECT t, bid FROM quotes WHERE bid = 1").table.column("t")
    expected = []
    for t in replay.query(store, "SELECT t FROM trades WHERE size = 1000").table.column("t"):
        ahead = order[0] == "<"
        near = [u for u in quotes.to_pylist() if (u >= t.as_py() if ahead else u <= t.as_py())]
        near = [u for u in near if len(order) == 2 or u != t.as_py()]
        expected.append((near[0] if ahead else near[-1]) if near else None)
    assert any(u is not None for u in expected)
    for plan in ("auto", "tree", "all", "full"):
        assert replay.query(store, sql, plan=plan).table.column("u").to_pylist() == expected


@pytest.mark.parametrize(
    "right",
    [
        "(SELECT * FROM quotes WHERE bid > 20)",
        "(SELECT sym, bid, t AS t FROM (SELECT * FROM quotes WHERE bid > 20) WHERE bid < 45)",
    ],
)
@pytest.mark.parametrize("kind", ["ASOF JOIN", "ASOF LEFT JOIN"])
def test_indexes_reach_through_filters_and_projections(store: Store, kind: str, right: str) -> None:
    trades = "(SELECT t AS at, sym AS s, size FROM trades WHERE size = 1000)"
    on = "a.s = b.sym AND a.at >= b.t"
    sql = f"SELECT a.at, b.t, bid FROM {trades} AS a {kind} {right} AS b ON {on}"
    result = replay.query(store, sql)
    tables = {name: store.stream(name).snapshot() for name in ("trades", "quotes")}
    whole = {
        name: snapshot.read_blocks(np.arange(snapshot.n_blocks), snapshot.schema.names)
        for name, snapshot in tables.items()
    }
    trade_rows = [row for row in whole["trades"].to_pylist() if row["size"] == 1000]
    at_most = 45 if "< 45" in right else 50
    quote_rows = [row for row in whole["quotes"].to_pylist() if 20 < row["bid"] < at_most]
    expected = []
    for trade in trade_rows:
        before = [q for q in quote_rows if q["sym"] == trade["sym"] and q["t"] <= trade["t"]]
        expected.append({"at": trade["t"], "t": before[-1]["t"], "bid": before[-1]["bid"]})
    assert result.table.to_pylist() == expected
    assert result.actual.blocks_read < 0.05 * result.actual.blocks_total
