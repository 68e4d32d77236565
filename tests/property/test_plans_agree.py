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
from chronicle import Store, create_store
from replay.engines import local
from replay.errors import PlanError, SkipError
from replay.language import bind, parse_query
from tests.helpers import fill_stream
from tests.oracles.matcher import match_rows
from tests.pattern_cases import pattern_case
from tests.strategies import SmallStream, cases, streams

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


@given(
    case=cases(),
    indexes=st.sets(st.sampled_from((*INDEXED, "a+s", "x+a+f"))),
    unit=st.sampled_from((local.UNIT_EVENTS, 1, 6)),
)
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_every_plan_gives_the_answer_of_the_oracle(
    case: tuple[SmallStream, str], indexes: set[str], unit: int
) -> None:
    stream, sql = case
    bound = bind(parse_query(sql), stream.schema, time="t", text=sql)
    expected = comparable(match_rows(stream.rows, bound))
    event(f"matches: {min(len(expected), 3)}")
    in_memory = replay.query({"s": stream.table}, sql)
    assert answer(in_memory.table) == expected
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(local, "UNIT_EVENTS", unit)
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


def rows_or_error(source: Store, sql: str, plan: str) -> tuple[object, int]:
    """Return the answer, or the error that is the answer, and how many blocks were left out."""
    try:
        result = replay.query(source, sql, plan=plan)
    except SkipError as error:
        return str(error), 0
    return answer(result.table), result.actual.blocks_total - result.actual.blocks_read


def check_plans(stream: SmallStream, sql: str, index: tuple[str, ...]) -> None:
    """Hold every plan that applies to the full replay."""
    with tempfile.TemporaryDirectory() as folder:
        store = create_store(Path(folder) / "store")
        fill_stream(store, "s", stream, index=index)
        full, _ = rows_or_error(store, sql, "full")
        event(f"full: {'error' if isinstance(full, str) else 'rows' if full else 'no rows'}")
        for plan in ("tree", "all", "auto"):
            try:
                given, n_skipped = rows_or_error(store, sql, plan)
            except PlanError:
                event(f"{plan}: does not apply")
                continue
            event(f"{plan}: {'skips' if n_skipped else 'reads all'}")
            assert given == full, plan


@given(seed=st.integers(0, 2**32 - 1))
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_every_plan_gives_the_full_replay_whatever_the_constructs(seed: int) -> None:
    case = pattern_case(seed)
    check_plans(case.stream, case.sql, case.indexes)


RARE = ("a = 5", "a > 4", "s = 'z'", "x > 2.0", "s LIKE 'ab%'", "a = 0")
COMMON = ("f", "a < 4", "x >= 0.0", "a <> 2", "x IS NOT NULL", "a >= {0}.a", "{0}.k = k")


@st.composite
def strategy_queries(draw: st.DrawFn, *, timestamps: bool) -> str:
    """Strategies with negations anywhere, whose symbols are so rare that blocks are skipped."""
    parts = ["A", draw(st.sampled_from(("", "B", "B+", "B?", "(B | C)", "C*"))), "D"]
    semantics = draw(st.sampled_from(("CONTIGUOUS", "SKIP TILL NEXT", "SKIP TILL ANY")))
    inner = () if semantics == "CONTIGUOUS" else (1, 2)  # there nothing lies between rows
    for place in sorted(draw(st.sets(st.sampled_from((0, *inner, 3)), max_size=2)), reverse=True):
        parts.insert(place, "!X")
    pattern = " ".join(part for part in parts if part)
    unit = "INTERVAL '{}' SECOND" if timestamps else "{}"
    within = unit.format(draw(st.sampled_from((1, 2, 3, 5))))
    names = [name for name in "ABCD" if name in pattern]
    rare = draw(st.sampled_from(names))
    defines = []
    for name in names:
        other = draw(st.sampled_from([n for n in names if n != name]))
        likely = draw(st.sampled_from(COMMON)).format(other)
        defines.append(f"{name} AS {draw(st.sampled_from(RARE)) if name == rare else likely}")
    if "!X" in pattern:
        defines.append(f"X AS {draw(st.sampled_from((*RARE, 'f', 'a = 2', 'PREV(a) = 1')))}")
    rows = draw(st.sampled_from(("", "ONE ROW PER MATCH", "ALL ROWS PER MATCH")))
    partition = draw(st.sampled_from(("", "", "PARTITION BY k")))
    measures = (
        "A.a AS m1, LAST(D.x) AS m2, COUNT(*) AS m3, MATCH_NUMBER() AS m4, CLASSIFIER() AS m5"
    )
    limit = draw(st.sampled_from(("", "", " LIMIT 2")))
    return (
        f"SELECT * FROM s MATCH_RECOGNIZE ({partition} ORDER BY t MEASURES {measures} {rows} "
        f"PATTERN ({pattern}) SEMANTICS {semantics} WITHIN {within} DEFINE {', '.join(defines)})"
        f"{limit}"
    )


@given(stream=streams(), data=st.data(), indexes=st.sets(st.sampled_from(INDEXED)))
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_every_plan_gives_every_match_of_a_strategy_and_what_forbids_it(
    stream: SmallStream, data: st.DataObject, indexes: set[str]
) -> None:
    sql = data.draw(strategy_queries(timestamps=stream.has_timestamps))
    check_plans(stream, sql, tuple(sorted(indexes)))


@pytest.mark.parametrize("plan", ["full", "tree", "auto"])
def test_an_empty_stream_has_no_match_under_any_plan(tmp_path: Path, plan: str) -> None:
    store = create_store(tmp_path / "store")
    fill_stream(store, "s", SmallStream([], 4, 8, 2, ()), index=("a",))
    sql = (
        "SELECT * FROM s MATCH_RECOGNIZE "
        "(ORDER BY t MEASURES A.t AS t PATTERN (A) DEFINE A AS a = 1)"
    )
    assert len(replay.query(store, sql, plan=plan)) == 0
