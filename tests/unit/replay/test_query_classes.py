"""A class of query that is entered in the table is planned, replayed, explained and run online."""

from __future__ import annotations

from random import Random
from typing import Any

import pyarrow as pa
import pytest

from chronicle import Store, create_store
from costmodel import CostParameters
from replay.engines.statistics import SnapshotStatistics
from replay.language.bound import DataType, StreamRelation
from replay.online import OnlineFlow
from replay.query_plan import to_json, to_text
from replay.running.catalog import TableCatalog, catalog_of_store
from replay.running.classes import CLASSES
from replay.running.flows import ClassFlow, Flow
from replay.running.select import Opener
from tests.helpers import fill_stream
from tests.strategies import SmallStream
from tests.toy_class.drop_query import DropQuery
from tests.toy_class.drop_requirements import Drops

N_EVENTS = 3000
STREAM = StreamRelation("s", (("t", DataType.INTEGER), ("x", DataType.DOUBLE)), "t")
QUERY = DropQuery(STREAM, high=99.0, low=1.0, within=40)
PLANS = ("full", "tree", "all", "auto", "indexes=HIGH", "indexes=LOW.x", "indexes=HIGH,LOW")


def rows_of(seed: int) -> list[dict[str, Any]]:
    choose = Random(seed)
    times = sorted(choose.randrange(4 * N_EVENTS) for _ in range(N_EVENTS))
    return [
        {"t": t, "a": 0, "x": choose.choice((*range(2, 98),)) + 0.5, "s": "a", "f": True, "k": 0}
        for t in times
    ]


def events() -> list[dict[str, Any]]:
    """Events of which thirty are high and thirty low, half of these soon after a high one."""
    rows, choose = rows_of(1), Random(2)
    for _ in range(30):
        at = choose.randrange(N_EVENTS - 20)
        rows[at]["x"] = 99.5
        rows[choose.choice((at + choose.randrange(1, 15), choose.randrange(N_EVENTS)))]["x"] = 0.5
    return rows


def expected(rows: list[dict[str, Any]]) -> list[tuple[int, int, int]]:
    found = []
    for seq, row in enumerate(rows):
        highs = [before["t"] for before in rows[: seq + 1] if before["x"] >= QUERY.high]
        if row["x"] <= QUERY.low and highs and row["t"] - highs[-1] <= QUERY.within:
            found.append((highs[-1], row["t"], seq))
    return found


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    made = create_store(tmp_path_factory.mktemp("classes") / "store")
    small = SmallStream(events(), 20, file_events=500, fan_out=4, cuts=(800,))
    fill_stream(made, "s", small, index=("x",))
    return made


@pytest.fixture(autouse=True)
def drops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CLASSES, DropQuery.__name__, Drops)


def opened(store: Store, plan: str) -> Flow:
    return Opener(catalog_of_store(store, ["s"], None), plan).open_query(QUERY)  # type: ignore[arg-type]


def answer(tables: Any) -> list[tuple[int, ...]]:
    return [tuple(row.values()) for row in pa.concat_tables(tables).to_pylist()]


@pytest.mark.parametrize("plan", PLANS)
def test_every_plan_gives_the_answer_of_a_full_replay(store: Store, plan: str) -> None:
    flow = opened(store, plan)
    assert answer(flow.tables()) == expected(events()) != []
    work = flow.work()
    assert (work.n_blocks < work.n_blocks_total) is (plan != "full")
    assert work.n_rows_total == N_EVENTS


def test_a_table_in_memory_is_replayed_in_full() -> None:
    table = pa.Table.from_pylist(events()).select(["t", "x"])
    flow = Opener(TableCatalog({"s": table}), "auto").open_query(QUERY)  # type: ignore[arg-type]
    assert answer(flow.tables()) == expected(events())


def test_the_steps_of_its_plan_are_explained(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SnapshotStatistics, "parameters", CostParameters(block_s=1e-2))
    flow = opened(store, "auto")
    assert isinstance(flow, ClassFlow)
    flow.look()
    explained = to_json(flow.plan, None)
    assert {step["lookup"] for step in explained["steps"]} == {"HIGH.x", "LOW.x"}
    assert explained["plan"].startswith("indexes=")
    assert "HIGH.x" in to_text(flow.plan, None)


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_events_as_they_come_give_the_same_answer_also_after_a_restart(size: int) -> None:
    table = pa.Table.from_pylist(events()).select(["t", "x"])

    def new() -> OnlineFlow:
        return OnlineFlow(QUERY, lambda name: (table.schema, "t"))  # type: ignore[arg-type]

    online, found = new(), []
    for at in range(0, N_EVENTS, size):
        found.append(online.push(table.slice(at, size)))
        if at // size % 100 == 3:
            kept, online = online.snapshot(), new()
            online.restore(kept)
    found.append(online.finish())
    assert answer(found) == expected(events())
