"""A plan that asks indexes in a part of the history reads fewer entries, says so, and is exact."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import replay
from benchmarks.stores import bulk_stream
from chronicle import Store, StreamSettings, create_store
from costmodel import CostParameters
from indexing.config import FENCE_ENTRIES
from replay.engines.statistics import SnapshotStatistics
from replay.planning import parts
from replay.planning.joins.plan import JoinPlan
from replay.planning.telling import FlowPlan
from tests.json_schema import violations

SCHEMA = json.loads((Path(__file__).parents[3] / "docs" / "explain.schema.json").read_text())
N, BLOCK = 120_000, 1_000
HALF = N // BLOCK // 2

QUERY = """
SELECT * FROM s MATCH_RECOGNIZE (
  {partition} ORDER BY t MEASURES A.t AS a, C.t AS c AFTER MATCH SKIP PAST LAST ROW
  PATTERN ( {pattern} ) {within} DEFINE A AS A.x > 0.5, B AS B.y > 0.5, C AS C.z > 0.5)"""


def asked(pattern: str = "A B C", within: str = "WITHIN 30", partition: str = "") -> str:
    return QUERY.format(pattern=pattern, within=within, partition=partition)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Three readings, two standard deviations lower in the second half: one file for each half."""
    fields = [("t", pa.int64()), ("k", pa.int32()), *((name, pa.float64()) for name in "xyz")]
    schema = pa.schema(fields)

    def batches() -> Iterator[pa.RecordBatch]:
        random = np.random.default_rng(7)
        t = np.arange(N)
        level = np.where(t < N // 2, 0.0, -2.0)
        readings = [level + random.standard_normal(N) for _ in "xyz"]
        yield pa.record_batch([t, (t % 3).astype(np.int32), *readings], schema=schema)

    made = create_store(tmp_path_factory.mktemp("parts") / "store")
    settings = StreamSettings("t", block_events=BLOCK, file_events=N // 2, key="k")
    bulk_stream(made, "s", schema, settings, batches(), index=("x", "y", "z"))
    return made


@pytest.fixture(autouse=True)
def thought_of_at_once(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let parts be thought of in streams as small as this one, and forget plans made otherwise."""
    monkeypatch.setattr(parts, "SAVED_MIN_S", 0.0)
    weights = CostParameters(block_s=15e-6, value_s=8e-9)  # so that what is not read is a gain
    monkeypatch.setattr(SnapshotStatistics, "parameters", property(lambda _: weights))
    replay.clear_caches()
    yield
    replay.clear_caches()


def test_entries_of_what_is_read_through_are_not_read(store: Store):
    everywhere = replay.query(store, asked(), plan="indexes=A.x,B.y,C.z")
    replay.clear_caches()
    found = replay.query(store, asked())
    assert found.table.equals(everywhere.table)
    assert found.plan.name == "indexes=A.x,B.y,C.z"
    # 31 % of the first half is above, 0.6 % of the second: of its run a row group or two.
    assert everywhere.actual.entries_read > 3 * 0.3 * N / 2
    assert found.actual.entries_read <= 3 * 2 * FENCE_ENTRIES
    assert found.actual.candidates < 10
    assert HALF <= found.actual.blocks_read <= HALF + 10
    assert found.actual.switched is None


def test_explain_tells_the_parts(store: Store):
    explained = replay.explain(store, asked())
    through = explained.to_dict()["through"]
    assert through["count"] == 1
    # A window of 30 events reaches one block of 1,000 further.
    assert through["blocks"] in (HALF, HALF + 1)
    assert through["blocks_asked"] == 2 * HALF - through["blocks"] + 1
    assert through["times"] == [[0, through["blocks"] * BLOCK - 1]]
    assert violations(explained.to_dict(), SCHEMA, closed=True) == []
    text = str(explained)
    assert f"\nthrough   1 stretch of {through['blocks']:,} blocks read without asking" in text
    assert "asked in" in explained.to_dict()["reason"]
    assert "full" in {rival["plan"] for rival in explained.to_dict()["rivals"]}


def test_a_plan_asked_for_by_name_is_looked_up_everywhere(store: Store):
    for plan in ("indexes=A.x,B.y,C.z", "all"):
        found = replay.query(store, asked(), plan=plan)
        assert found.plan.part is None
        assert found.stats["through"] is None


@pytest.mark.parametrize(
    "sql",
    [
        asked(pattern="A Z* B Z* C", within=""),
        asked(partition="PARTITION BY k"),
        f"{asked()} LIMIT 1000000",
    ],
    ids=["nothing bounds a match", "candidates agree on the key", "a limit"],
)
def test_some_questions_are_asked_everywhere_or_nowhere(store: Store, sql: str):
    assert replay.query(store, sql).plan.part is None


def test_a_filter_is_asked_in_a_part(store: Store):
    sql = "SELECT t FROM s WHERE x > 0.5 AND y > 0.5"
    found = replay.query(store, sql)
    assert found.table.equals(replay.query(store, sql, plan="full").table)
    assert found.plan.part is not None


def test_what_is_quick_anyway_is_not_parted(store: Store, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(parts, "SAVED_MIN_S", 2e-3)
    replay.clear_caches()
    assert replay.query(store, asked()).plan.part is None


def test_a_join_expects_to_read_all_around_what_is_read_through(store: Store):
    sql = "SELECT a.t FROM s AS a JOIN s AS b WITHIN 30 WHERE a.x > 0.5 AND a.y > 0.5"
    flow = replay.explain(store, sql).plan
    assert isinstance(flow, FlowPlan)
    join = flow.inputs[0]
    assert isinstance(join, JoinPlan)
    assert join.left is not None
    assert join.drives == "left"
    plan = join.left.plan
    assert plan.part is not None
    assert plan.full_estimate is not None
    # Half of one side is read through: as much of the other one, which is the same stream, lies
    # around. Events found are read once more, and joined.
    one_side_s = join.rivals[-1].cost / 2
    joined_s = plan.estimated.alpha * (one_side_s - plan.full_estimate.cost)
    again_s = plan.estimated.cost - plan.estimated.index_cost + joined_s
    assert join.cost >= plan.estimated.cost + min(again_s, one_side_s) + one_side_s / 2
