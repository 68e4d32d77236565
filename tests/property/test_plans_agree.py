"""The one law: every plan gives exactly the answer of a full replay, and that of the oracle."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

import replay
from chronicle import create_store
from replay.errors import PlanError
from replay.language import bind, parse_query
from tests.helpers import fill_stream
from tests.oracles.matcher import match_rows
from tests.strategies import SmallStream, cases

INDEXED = ("a", "x", "s", "f")


def comparable(rows: list[dict[str, object]]) -> list[tuple[object, ...]]:
    """Rows with NaN made equal to itself, and -0.0 told from 0.0."""

    def plain(value: object) -> object:
        if isinstance(value, float):
            return "nan" if math.isnan(value) else repr(value)
        return value

    return [tuple(plain(value) for value in row.values()) for row in rows]


def answer(table: pa.Table) -> list[tuple[object, ...]]:
    """Rows of an answer as the oracle has them: times and intervals in microseconds."""
    for index, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type) or pa.types.is_duration(field.type):
            table = table.set_column(index, field.name, table.column(index).cast(pa.int64()))
    return comparable(table.to_pylist())


@given(case=cases(), indexes=st.sets(st.sampled_from(INDEXED)))
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_every_plan_gives_the_answer_of_the_oracle(
    case: tuple[SmallStream, str], indexes: set[str]
) -> None:
    stream, sql = case
    bound = bind(parse_query(sql), stream.schema, time="t", text=sql)
    expected = comparable(match_rows(stream.rows, bound))
    event(f"matches: {min(len(expected), 3)}")
    in_memory = replay.query({"s": stream.table}, sql)
    assert answer(in_memory.table) == expected
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
            assert answer(result.table) == expected, plan


@given(case=cases())
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_every_single_index_gives_the_answer_of_a_full_replay(
    case: tuple[SmallStream, str],
) -> None:
    stream, sql = case
    with tempfile.TemporaryDirectory() as folder:
        store = create_store(Path(folder) / "store")
        fill_stream(store, "s", stream, index=INDEXED)
        full = answer(replay.query(store, sql, plan="full").table)
        for symbol in ("A", "B", "C"):
            for attribute in INDEXED:
                try:
                    result = replay.query(store, sql, plan=f"indexes={symbol}.{attribute}")
                except PlanError:
                    continue
                event("named index applies")
                assert answer(result.table) == full, (symbol, attribute)


@pytest.mark.parametrize("plan", ["full", "tree", "auto"])
def test_an_empty_stream_has_no_match_under_any_plan(tmp_path: Path, plan: str) -> None:
    store = create_store(tmp_path / "store")
    fill_stream(store, "s", SmallStream([], 4, 8, 2, ()), index=("a",))
    sql = (
        "SELECT * FROM s MATCH_RECOGNIZE "
        "(ORDER BY t MEASURES A.t AS t PATTERN (A) DEFINE A AS a = 1)"
    )
    assert len(replay.query(store, sql, plan=plan)) == 0
