"""Plans over real stores: what they say keeps to the schema, and what they need not is not read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import indexing
import replay
from chronicle import Store, create_store
from costmodel import CostParameters
from replay.engines.index_phase import Lookups
from replay.engines.statistics import SnapshotStatistics, statistics_of
from replay.engines.weights import CALIBRATION_FILE
from replay.language import bind, parse_query
from replay.patterns.plan import plan_pattern
from replay.planning.steps import carry_out
from tests.helpers import fill_stream
from tests.json_schema import violations
from tests.strategies import SmallStream

SCHEMA = json.loads((Path(__file__).parents[3] / "docs" / "explain.schema.json").read_text())
N_EVENTS = 2000
RARE_AT = 1207


def filled(folder: Path) -> Store:
    """Make a stream where ``a`` is even but for one 7, and every block has values around it."""
    rows = [
        {"t": 2 * i, "a": 2 * (i % 10), "x": i / 10, "s": "abc"[i % 3], "f": i % 7 == 0, "k": i % 5}
        for i in range(N_EVENTS)
    ]
    rows[RARE_AT]["a"] = 7
    store = create_store(folder / "store")
    small = SmallStream(rows, 20, file_events=500, fan_out=4, cuts=(800,))
    fill_stream(store, "s", small, index=("a", "s"))
    return store


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return filled(tmp_path_factory.mktemp("explaining"))


def asking(define: str, pattern: str = "A Z* B", within: str = "WITHIN 50") -> str:
    return (
        f"SELECT * FROM s MATCH_RECOGNIZE (ORDER BY t MEASURES A.t AS t "
        f"PATTERN ({pattern}) {within} DEFINE {define})"
    )


DEAR_BLOCKS = CostParameters(block_s=1e-2, entry_s=8e-9, seek_s=30e-6)
"""By which what is left is looked at behind each lookup, and none is too dear."""

RARE = asking("A AS a = 7, B AS B.a > 10")
ABSENT = asking("A AS a = 9, B AS B.a > 10")


@pytest.mark.parametrize("plan", ["auto", "full", "tree", "all", "indexes=A.a"])
@pytest.mark.parametrize(
    "sql",
    [
        pytest.param(RARE, id="rare"),
        pytest.param(ABSENT, id="absent"),
        pytest.param(asking("A AS a = 7, Z AS Z.s = 'a', B AS B.a > 10"), id="gap"),
        pytest.param(asking("A AS x > 1e9 AND a = 7, B AS B.a > 10"), id="ruled-out"),
        pytest.param(asking("A AS a = 7 AND x > 3, B AS TRUE"), id="no-index"),
    ],
)
def test_explanations_and_analyses_keep_to_the_schema(store: Store, sql: str, plan: str) -> None:
    explained = replay.explain(store, sql, plan=plan).to_dict()
    result = replay.query(store, sql, plan=plan)
    for written in (explained, result.stats):
        assert violations(json.loads(json.dumps(written)), SCHEMA, closed=True) == []
    assert timeless(explained) == timeless({**result.stats, "actual": None})
    actual = result.actual
    head, plan_line, *_ = result.analysis().splitlines()
    n_read = "all" if actual.blocks_read == 100 else f"{actual.blocks_read} of"
    assert head.startswith(f"reads {n_read} 100 blocks")
    assert (", through" in head) == bool(explained["indexes"])
    assert plan_line == f"├─ plan      {explained['plan']}"
    assert result.table.equals(replay.query(store, sql, plan="full").table)


@pytest.mark.parametrize("plan", ["all", "indexes=A"])
def test_symbol_no_event_is_is_answered_without_reading_a_block(store: Store, plan: str) -> None:
    # Every block and every fence has keys on both sides of 9: only the lookup tells.
    result = replay.query(store, ABSENT, plan=plan)
    assert len(result) == 0
    assert result.actual.blocks_read == result.actual.rows_replayed == 0


def test_symbol_beyond_all_values_is_answered_without_reading_anything(store: Store) -> None:
    replay.clear_caches()
    for plan in ("auto", "tree", "all", "indexes=B.a"):
        actual = replay.query(store, asking("A AS a = 99, B AS B.a > 10"), plan=plan).actual
        assert actual.blocks_read == actual.entries_read == actual.count_bytes() == 0


def test_analysis_sets_what_happened_beside_what_was_expected(store: Store) -> None:
    text = replay.query(store, RARE, plan="indexes=A.a").analysis()
    bare = [line.lstrip("│├└─ ") for line in text.splitlines()]
    lines = {line.split()[0]: line for line in bare}
    assert lines["plan"] == "plan      indexes=A.a"
    assert "<- looked up" in text
    read = replay.query(store, RARE, plan="indexes=A.a").actual.entries_read
    assert lines["entries"].split()[2] == f"{read:,}"
    assert {"blocks", "candidates", "events", "replayed", "time"} <= lines.keys()


@pytest.mark.parametrize("requested", ["auto", "all", "indexes=A.a", "tree", "full"])
def test_index_dropped_while_a_query_is_planned_is_no_error(tmp_path: Path, requested: str) -> None:
    store = filled(tmp_path)
    stream = store.stream("s")
    expected = replay.query(store, RARE, plan="full").table
    assert len(expected) == 1
    indexing.clear_caches()
    snapshot = stream.snapshot()
    statistics = statistics_of(snapshot)
    assert statistics.indexed == {"a", "s"}
    indexing.drop_index(stream, "a")
    # Whoever began before goes on with what there was.
    bound = bind(parse_query(RARE), snapshot.schema, time="t", text=RARE)
    plan = plan_pattern(bound, statistics, requested=requested)
    settled = carry_out(plan, statistics, Lookups(plan, statistics), lambda: 0.0)
    block = RARE_AT // 20
    assert any(first <= block < last for first, last in settled.stretches.blocks.tolist())
    # Whoever begins now plans without it.
    assert replay.query(store, RARE).table.equals(expected)
    with pytest.raises(replay.PlanError, match="no attribute the pattern bounds has an index"):
        replay.query(store, RARE, plan="indexes=A.a")


def test_measured_weights_are_used_and_named_as_soon_as_they_are_there(tmp_path: Path) -> None:
    store = filled(tmp_path)
    assert replay.explain(store, RARE).to_dict()["weights"] == "defaults"
    damaged = Path(store.path) / CALIBRATION_FILE
    damaged.write_text("{}")
    result = replay.query(store, RARE)
    assert result.stats["weights"].startswith("defaults, as calibration.json cannot be used")
    assert any("calibrate" in warning for warning in result.actual.warnings)


def test_clearing_caches_makes_the_next_query_look_up_again(store: Store) -> None:
    replay.query(store, RARE, plan="indexes=A.a")
    kept = replay.query(store, RARE, plan="indexes=A.a")
    assert kept.stats["actual"]["bytes_read"] > 0
    first = replay.explain(store, RARE).plan.required
    assert replay.explain(store, RARE).plan.required is first
    replay.clear_caches()
    assert replay.explain(store, RARE).plan.required is not first
    fresh = replay.query(store, RARE, plan="indexes=A.a")
    assert fresh.stats["actual"]["bytes_read"] > kept.stats["actual"]["bytes_read"]


@pytest.mark.parametrize(
    "sql",
    [
        pytest.param(RARE, id="pattern"),
        pytest.param("SELECT t FROM s WHERE a = 7", id="filter"),
        pytest.param(
            asking("A AS a = 7, B AS B.a > 10").replace(
                "FROM s", "FROM (SELECT * FROM s WHERE x > 3)"
            ),
            id="filtered-pattern",
        ),
        pytest.param(f"{RARE} ORDER BY t", id="ordered"),
    ],
)
def test_explanations_tell_what_the_query_reads(
    store: Store, sql: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SnapshotStatistics, "parameters", DEAR_BLOCKS)
    replay.clear_caches()
    explained = replay.explain(store, sql).to_dict()
    while "steps" not in explained:
        (explained,) = explained["inputs"]
    replay.clear_caches()
    actual = replay.query(store, sql).actual
    (rare, *_) = explained["steps"]
    assert rare["taken"]
    assert rare["left"]["blocks"] == actual.blocks_read > 0
    assert rare["left"]["intervals"] == actual.intervals == 1


def test_no_lookup_is_carried_out_in_no_time(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SnapshotStatistics, "parameters", DEAR_BLOCKS)
    replay.clear_caches()
    explained = replay.explain(store, RARE, seconds=0.0).to_dict()
    assert explained["plan"] in ("full", "tree")
    assert {step["why"] for step in explained["steps"]} == {"not asked: the time is over"}


def timeless(explained: Any) -> Any:
    """Return what is explained without the seconds that steps took."""
    if isinstance(explained, dict):
        return {k: 0.0 if k == "seconds" else timeless(v) for k, v in explained.items()}
    return [timeless(v) for v in explained] if isinstance(explained, list) else explained


WINDOWED = (
    "SELECT window_start, COUNT(*) AS n, MAX(x) AS top FROM TABLE(HOP(TABLE {}, DESCRIPTOR(t), "
    "100, 300)) {} GROUP BY window_start, window_end"
)


@pytest.mark.parametrize(
    ("sql", "plans"),
    [
        pytest.param("SELECT t FROM s WHERE a = 7", ("tree", "all", "full"), id="filter"),
        pytest.param(WINDOWED.format("s", ""), ("tree", "tree-naive", "replay"), id="windows"),
        pytest.param(WINDOWED.format("s", "WHERE x > 150"), ("tree", "replay", "full"), id="where"),
        pytest.param(
            WINDOWED.format("(SELECT * FROM s WHERE a = 7)", ""), ("tree", "all"), id="over-filter"
        ),
        pytest.param(
            "SELECT a.t FROM s AS a JOIN s AS b WITHIN 3 WHERE a.a = 7", ("full",), id="join"
        ),
    ],
)
def test_queries_of_other_kinds_keep_to_the_schema_too(
    store: Store, sql: str, plans: tuple[str, ...]
) -> None:
    full = replay.query(store, sql, plan="full").table
    for plan in ("auto", *plans):
        explained = replay.explain(store, sql, plan=plan)
        result = replay.query(store, sql, plan=plan)
        for written in (explained.to_dict(), result.stats):
            assert violations(json.loads(json.dumps(written)), SCHEMA, closed=True) == []
        if "JOIN" not in sql:  # whose sides are looked up only as they are read
            written = timeless({**result.stats, "actual": None})
            assert timeless(explained.to_dict()) == written
        assert str(explained).splitlines()[1] == result.analysis().splitlines()[1]
        assert result.table.equals(full)
