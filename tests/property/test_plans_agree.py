"""The one law: every plan gives exactly the answer of a full replay, and that of the oracle."""

from __future__ import annotations

import re
import tempfile
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import replay
from chronicle import create_store
from replay.errors import PlanError
from replay.language import bind, bind_query, parse_query
from replay.language.bound import ROW_NUMBER, BoundPatternQuery
from replay.patterns import local
from tests.helpers import fill_stream
from tests.memory_stream import memory_store, some_store
from tests.oracles.matcher import match_rows
from tests.pattern_cases import PatternCase, pattern_case
from tests.plan_cases import (
    CANDIDATES_MOST,
    Case,
    composite_queries,
    composites,
    delta_cases,
    every_lookup_within_rows,
    filled,
    keyed_cases,
    neighbour_cases,
    strategy_queries,
)
from tests.property.law import FEW, SLOW, Rows, answer, assert_plans_agree, comparable, outcome
from tests.strategies import SECOND, SEEDS, STRINGS, SmallStream, cases, streams

INDEXED = ("a", "x", "s", "f")
PLANS = ("tree", "all", "auto")


def check_plans(
    stream: SmallStream,
    sql: str,
    index: tuple[str, ...],
    plans: tuple[str, ...] = PLANS,
    expected: Rows | None = None,
) -> None:
    """Hold every plan that applies to the full replay."""
    with some_store(stream, sql, index) as store:
        fill_stream(store, "s", stream, index=index)
        assert_plans_agree(store, sql, plans, expected=expected)


def check_case(case: Case, *plans: str) -> None:
    """Hold every plan that applies to the full replay, and that to the oracle."""
    with filled(case) as store:
        assert_plans_agree(store, case.sql, (*plans, *PLANS), expected=case.expected())


@given(
    case=cases(),
    indexes=st.sets(st.sampled_from((*INDEXED, "a+s", "x+a+f"))),
    unit=st.sampled_from((local.UNIT_EVENTS, 1, 6)),
)
@SLOW
def test_every_plan_gives_the_answer_of_the_oracle(
    case: tuple[SmallStream, str], indexes: set[str], unit: int
) -> None:
    stream, sql = case
    bound = bind(parse_query(sql), stream.schema, time="t", text=sql)
    expected = comparable(match_rows(stream.rows, bound))
    assert answer(replay.query({"s": stream.table}, sql).table) == expected
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local, "UNIT_EVENTS", unit)
        named = (f"indexes={symbol}.{name}" for symbol in "ABC" for name in indexes)
        check_plans(stream, sql, tuple(sorted(indexes)), (*PLANS, *named), expected=expected)


@given(case=cases(), indexes=st.sets(st.sampled_from(INDEXED)), seed=SEEDS)
@SLOW
def test_every_plan_partitions_by_what_is_computed(
    case: tuple[SmallStream, str], indexes: set[str], seed: int
) -> None:
    stream, sql = case
    choose = Random(seed)
    by = f"PARTITION BY {choose.choice(('', '', 'f, '))}a IS NULL"
    sql = re.sub(r"\((PARTITION BY [ks, ]+)?ORDER BY t", f"({by} ORDER BY t", sql)
    rows = [{**row, "a IS NULL": row["a"] is None} for row in stream.rows]
    if choose.random() < 0.5:
        sql = sql.replace("FROM s", "FROM (SELECT * FROM s WHERE x > 0)", 1)
        rows = [row for row in rows if row["x"] is not None and row["x"] > 0]
    bound = bind_query(parse_query(sql), lambda _: (stream.schema, "t"), text=sql)
    assert isinstance(bound, BoundPatternQuery)
    expected = comparable(match_rows(rows, bound))
    check_plans(stream, sql, tuple(sorted(indexes)), expected=expected)


def compared(choose: Random, stream: SmallStream, name: str) -> str:
    """Return a condition on a column of an answer of `cases`, or of the stream."""
    value = str(choose.randint(0, 5))
    if name in ("m2", "m6", "t"):
        t = stream.rows[choose.randrange(len(stream.rows))]["t"] if stream.rows else 0
        value = str(t)
        if stream.has_timestamps:
            moment = datetime.fromtimestamp(t // SECOND, UTC).replace(tzinfo=None).isoformat()
            value = f"'{moment}{'Z' * (stream.schema.field('t').type.tz is not None)}'"
    elif name in ("m8", "s"):
        value = f"'{choose.choice(STRINGS)}'"
    return f"{name} {choose.choice(('<', '<=', '=', '>=', '>', 'IS DISTINCT FROM'))} {value}"


@given(case=cases(), indexes=st.sets(st.sampled_from(INDEXED)), seed=SEEDS)
@SLOW
def test_every_plan_finds_the_matches_that_where_keeps(
    case: tuple[SmallStream, str], indexes: set[str], seed: int
) -> None:
    stream, sql = case
    choose = Random(seed)
    sql = re.sub(r", ARRAY_AGG.*? AS m10", "", sql)  # the outer query takes no arrays
    sql = sql if choose.random() < 0.2 else sql.replace("MATCH_NUMBER() AS m4, ", "")
    if choose.random() < 0.3:
        strategy = choose.choice(("CONTIGUOUS", "SKIP TILL NEXT", "SKIP TILL ANY"))
        sql = re.sub(r"ONE ROW PER MATCH.*?PATTERN", f"SEMANTICS {strategy} PATTERN", sql)
    elif choose.random() < 0.2:
        sql = re.sub(r"MATCH_NUMBER\(\) AS m4, |MEASURES.*?ONE ROW", "", sql)
        sql = sql.replace("PER MATCH", "ALL ROWS PER MATCH", 1).replace("*", "t, a, x, s, k", 1)
    columns = ["m1", "m2", "m2", "m5", "m6", "m6", "m8"] if "m6" in sql else ["t", "a"]
    columns += ["k", "k"] * ("k" in sql.split("ORDER")[0]) + ["s"] * ("s, k" in sql)
    names = choose.choices(columns, k=choose.choice((1, 1, 2)))
    asked = [compared(choose, stream, name) for name in names]
    sql = f"{sql} WHERE {choose.choice((' AND ', ' AND ', ' OR ')).join(asked)}"
    check_plans(stream, sql, tuple(sorted(indexes)))


@given(case=cases(), indexes=st.sets(st.sampled_from(INDEXED)))
@FEW
def test_every_plan_reads_the_values_of_subqueries(
    case: tuple[SmallStream, str], indexes: set[str]
) -> None:
    stream, sql = case
    found = [row["a"] for row in stream.rows if row["f"] and row["a"] is not None]
    known = str(max(found)) if found else "CAST(NULL AS INTEGER)"
    texts = [
        sql.replace("MEASURES", f"MEASURES {value} AS m0, COUNT(*) - {value} AS m11,", 1)
        for value in (f"({known})", "(SELECT MAX(a) FROM s WHERE f)")
    ]
    bound = bind(parse_query(texts[0]), stream.schema, time="t", text=texts[0])
    expected = comparable(match_rows(stream.rows, bound))
    check_plans(stream, texts[1], tuple(sorted(indexes)), expected=expected)


def put_in_order(rows: list[dict[str, Any]], keys: list[tuple[str, bool, bool]]) -> None:
    """Sort rows by columns, each maybe descending, maybe with missing values first."""
    for name, descending, missing_first in reversed(keys):
        lacks = [row for row in rows if row[name] is None or row[name] != row[name]]
        there = [row for row in rows if row not in lacks]
        there.sort(key=lambda row: row[name], reverse=descending)
        rows[:] = lacks + there if missing_first else there + lacks


@given(case=cases(), seed=SEEDS)
@FEW
def test_every_plan_matches_rows_that_are_sorted_before(
    case: tuple[SmallStream, str], seed: int
) -> None:
    stream, sql = case
    choose = Random(seed)
    names = choose.sample(("s", "x", "a", "f", "t"), 2)
    keys = [(name, choose.random() < 0.6, choose.random() < 0.4) for name in names]
    keys[0] = keys[0] if keys[0][0] not in "at" else (keys[0][0], True, keys[0][2])
    order = ", ".join(f"{n} {'DESC' * d} {'NULLS FIRST' * f}" for n, d, f in keys)
    sql = re.sub(r"ORDER BY t|WITHIN (INTERVAL '\d+' SECOND|\d+)", "", sql)
    sql = sql.replace("MEASURES", f"ORDER BY {order} MEASURES", 1)
    rows = [dict(row) for row in stream.rows]
    put_in_order(rows, keys)
    rows = [{**row, ROW_NUMBER: number} for number, row in enumerate(rows)]
    sql = sql.replace("FROM s", "FROM (SELECT * FROM s)", 1)
    bound = bind_query(parse_query(sql), lambda _: (stream.schema, "t"), text=sql)
    assert isinstance(bound, BoundPatternQuery)
    expected = comparable(match_rows(rows, bound))
    assert answer(replay.query({"s": stream.table}, sql).table) == expected
    check_plans(stream, sql, (), expected=expected)


@given(stream=streams(), data=st.data(), indexes=st.sets(st.sampled_from(INDEXED)))
@SLOW
def test_every_plan_gives_every_match_of_a_strategy_and_what_forbids_it(
    stream: SmallStream, data: st.DataObject, indexes: set[str]
) -> None:
    sql = data.draw(strategy_queries(timestamps=stream.has_timestamps))
    check_plans(stream, sql, tuple(sorted(indexes)))


@given(stream=streams(), data=st.data(), index=composites(), most=CANDIDATES_MOST)
@SLOW
def test_every_plan_over_indexes_of_several_columns_gives_the_full_replay(
    stream: SmallStream, data: st.DataObject, index: tuple[str, ...], most: float | None
) -> None:
    sql = data.draw(composite_queries(timestamps=stream.has_timestamps))
    named = (f"indexes={symbol}.{name}" for symbol in "ABD" for name in index)
    with every_lookup_within_rows(most):
        check_plans(stream, sql, index, (*PLANS, "indexes=A", *named))


@given(case=keyed_cases(), most=CANDIDATES_MOST)
@SLOW
def test_every_plan_gives_the_answer_of_the_oracle_over_keys(
    case: Case, most: float | None
) -> None:
    with every_lookup_within_rows(most):
        check_case(case, "indexes=A", "indexes=B", "indexes=A,B", "indexes=A,B,Z")


@given(neighbour_cases())
@SLOW
def test_every_plan_finds_the_neighbours_of_a_full_replay(case: Case) -> None:
    check_case(case, "indexes=A", "indexes=B", "indexes=A,B")


@given(delta_cases())
@SLOW
def test_every_plan_finds_what_compares_with_the_event_before(case: Case) -> None:
    check_case(case, "indexes=A.delta(x)", "indexes=A.delta(n)")


@given(SEEDS.map(pattern_case))
@settings(max_examples=12)
def test_a_store_in_memory_answers_and_skips_as_one_on_the_disk(case: PatternCase) -> None:
    with tempfile.TemporaryDirectory() as folder, memory_store() as in_memory:
        found: list[list[object]] = [[], []]
        for place, store in enumerate((in_memory, create_store(Path(folder) / "store"))):
            fill_stream(store, "s", case.stream, index=case.indexes)
            for plan in ("full", "tree", "all"):
                with suppress(PlanError):
                    rows, actual, _ = outcome(store, case.sql, plan)
                    found[place].append((plan, rows, actual and actual.blocks_read))
        assert found[0] == found[1]


@pytest.mark.parametrize("plan", ["full", "tree", "auto"])
def test_an_empty_stream_has_no_match_under_any_plan(tmp_path: Path, plan: str) -> None:
    store = create_store(tmp_path / "store")
    fill_stream(store, "s", SmallStream([], 4, 8, 2, ()), index=("a",))
    sql = (
        "SELECT * FROM s MATCH_RECOGNIZE "
        "(ORDER BY t MEASURES A.t AS t PATTERN (A) DEFINE A AS a = 1)"
    )
    assert len(replay.query(store, sql, plan=plan)) == 0
