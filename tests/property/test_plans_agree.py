"""The one law: every plan gives exactly the answer of a full replay, and that of the oracle."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

import replay
from chronicle import create_store
from replay.errors import PlanError
from replay.language import bind, parse_query
from tests.helpers import fill_stream
from tests.oracles.matcher import match_rows
from tests.strategies import SCHEMA, SmallStream, queries, streams

INDEXED = ("a", "x", "s", "f")


def comparable(rows: list[dict[str, object]]) -> list[tuple[object, ...]]:
    """Rows with NaN made equal to itself, and -0.0 told from 0.0."""

    def plain(value: object) -> object:
        if isinstance(value, float):
            return "nan" if math.isnan(value) else repr(value)
        return value

    return [tuple(plain(value) for value in row.values()) for row in rows]


@given(stream=streams(), sql=queries(), indexes=st.sets(st.sampled_from(INDEXED)))
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_every_plan_gives_the_answer_of_the_oracle(
    stream: SmallStream, sql: str, indexes: set[str]
) -> None:
    bound = bind(parse_query(sql), SCHEMA, time="t", text=sql)
    expected = comparable(match_rows(stream.rows, bound))
    event(f"matches: {min(len(expected), 3)}")
    in_memory = replay.query({"s": stream.table}, sql)
    assert comparable(in_memory.table.to_pylist()) == expected
    with tempfile.TemporaryDirectory() as folder:
        store = create_store(Path(folder) / "store")
        fill_stream(store, "s", stream, index=tuple(sorted(indexes)))
        for plan in ("full", "tree", "all", "auto"):
            try:
                result = replay.query(store, sql, plan=plan)
            except PlanError:
                assert plan in ("tree", "all")
                continue
            read = result.actual.blocks_read
            event(f"{plan}: {'skips' if read < result.actual.blocks_total else 'reads all'}")
            assert comparable(result.table.to_pylist()) == expected, plan


@given(stream=streams(), sql=queries())
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_every_single_index_gives_the_answer_of_a_full_replay(
    stream: SmallStream, sql: str
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = create_store(Path(folder) / "store")
        fill_stream(store, "s", stream, index=INDEXED)
        full = comparable(replay.query(store, sql, plan="full").table.to_pylist())
        for symbol in ("A", "B", "C"):
            for attribute in INDEXED:
                try:
                    result = replay.query(store, sql, plan=f"indexes={symbol}.{attribute}")
                except PlanError:
                    continue
                event("named index applies")
                assert comparable(result.table.to_pylist()) == full, (symbol, attribute)


@pytest.mark.parametrize("plan", ["full", "tree", "auto"])
def test_an_empty_stream_has_no_match_under_any_plan(tmp_path: Path, plan: str) -> None:
    store = create_store(tmp_path / "store")
    fill_stream(store, "s", SmallStream([], 4, 8, 2, ()), index=("a",))
    sql = (
        "SELECT * FROM s MATCH_RECOGNIZE "
        "(ORDER BY t MEASURES A.t AS t PATTERN (A) DEFINE A AS a = 1)"
    )
    assert len(replay.query(store, sql, plan=plan)) == 0
