"""Filters and what is composed of them: every plan gives the answer of a naive outer query."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pyarrow as pa
from hypothesis import event, example, given
from hypothesis import strategies as st

import replay
from chronicle import Store
from replay.errors import PlanError
from replay.expressions.scalars import Faults
from replay.language import bind_query, parse_query
from replay.language.bound import BoundSelect, Outer
from replay.operators.outer import apply_outer
from replay.operators.outer_pieces import OuterOperator, run_through
from tests.helpers import fill_stream
from tests.memory_stream import some_store
from tests.oracles.matcher import match_rows
from tests.oracles.outer import outer_rows
from tests.plan_cases import composites, conjunctions
from tests.property.law import FEW, SLOW, answer, assert_plans_agree, comparable
from tests.property.test_plans_agree import INDEXED
from tests.strategies import SmallStream, conditions, filters, plain_filters, queries, streams

PLANS = ("auto", "tree", "all", "indexes=a", "indexes=s.x,s.s")


def outer_of(sql: str, schema: pa.Schema) -> Outer:
    """Return the clauses of a filter, bound to a stream."""
    bound = bind_query(parse_query(sql), lambda _: (schema, "t"), text=sql)
    assert isinstance(bound, BoundSelect)
    return bound.outer


def rows_of(stream: SmallStream) -> list[dict[str, Any]]:
    """Return the rows with all columns, also the one no condition names."""
    return [{name: row.get(name) for name in stream.schema.names} for row in stream.rows]


@contextmanager
def filled(stream: SmallStream, indexes: set[str]) -> Iterator[Store]:
    """Lend a store with the stream ``s``."""
    with some_store(stream, indexes) as store:
        fill_stream(store, "s", stream, index=tuple(sorted(indexes)))
        yield store


@given(stream=streams(), sql=filters(), indexes=st.sets(st.sampled_from(INDEXED)))
@SLOW
def test_every_plan_of_a_filter_gives_the_answer_of_the_oracle(
    stream: SmallStream, sql: str, indexes: set[str]
) -> None:
    expected = outer_rows(rows_of(stream), outer_of(sql, stream.schema))
    event(f"rows: {min(len(expected), 3)}")
    with filled(stream, indexes) as store:
        assert_plans_agree(store, sql, PLANS, expected=comparable(expected))
        pieces = replay.batches(store, sql).read_all()
        assert answer(pieces) == comparable(expected)
    assert answer(replay.query({"s": stream.table}, sql).table) == comparable(expected)


@given(stream=streams(), condition=conjunctions("s"), index=composites())
@SLOW
def test_every_plan_of_a_filter_through_indexes_of_several_columns(
    stream: SmallStream, condition: str, index: tuple[str, ...]
) -> None:
    sql = f"SELECT t, a, x, s FROM s WHERE {condition}"
    expected = outer_rows(rows_of(stream), outer_of(sql, stream.schema))
    with filled(stream, set(index)) as store:
        plans = (*PLANS[:3], *(f"indexes={i}" for i in index))
        assert_plans_agree(store, sql, plans, expected=comparable(expected))


@given(stream=streams(), sql=filters(), data=st.data())
def test_rows_in_pieces_give_the_answer_of_all_at_once(
    stream: SmallStream, sql: str, data: st.DataObject
) -> None:
    outer = outer_of(sql, stream.schema)
    n = len(stream.rows)
    cuts = sorted(data.draw(st.lists(st.integers(0, n), max_size=5)))
    borders = [0, *cuts, n]
    pieces = [stream.table.slice(a, b - a) for a, b in pairwise(borders)]
    found = pa.concat_tables(run_through(OuterOperator(outer), pieces))
    whole = apply_outer(stream.table, outer, Faults())
    assert comparable(found.to_pylist()) == comparable(whole.to_pylist())


NULL_AMONG = SmallStream(
    [{"t": t, "a": a, "x": 0.5, "s": "s", "f": True, "k": 0} for t, a in enumerate((3, None, 2))],
    block_events=2,
    file_events=8,
    fan_out=2,
    cuts=(),
)


@given(
    stream=streams(),
    inner=st.one_of(filters(), plain_filters()),
    outer=st.sampled_from(
        (
            "SELECT t, a FROM ({}) AS A WHERE a > 1",
            "SELECT t FROM ({}) ORDER BY t DESC LIMIT 3",
            "SELECT DISTINCT a FROM ({})",
            "SELECT COUNT(*) AS n, MIN(t) AS low, MAX(t) AS high FROM ({}) WHERE t IS NOT NULL",
            "SELECT a, COUNT(*) AS n FROM ({}) WHERE a < 4 GROUP BY a ORDER BY a DESC",
        )
    ),
    indexes=st.sets(st.sampled_from(INDEXED)),
)
@example(
    stream=NULL_AMONG,
    inner="SELECT DISTINCT t, a, x FROM s ORDER BY a",
    outer="SELECT t FROM ({}) ORDER BY t DESC LIMIT 3",
    indexes=set(),
)
@SLOW
def test_a_query_over_a_subquery_gives_the_answer_of_both_oracles(
    stream: SmallStream, inner: str, outer: str, indexes: set[str]
) -> None:
    sql = outer.format(inner)
    below = outer_of(inner, stream.schema)
    if not {"t", "a"} <= {name for name, _ in below.items}:
        return
    bound = bind_query(parse_query(sql), lambda _: (stream.schema, "t"), text=sql)
    assert isinstance(bound, BoundSelect)
    between = outer_rows(rows_of(stream), below)
    expected = outer_rows(between, bound.outer)
    if bound.outer.group_by and not bound.outer.order_by:
        expected.sort(key=repr)
    with filled(stream, indexes) as store:
        assert_plans_agree(store, sql, ("auto", "tree"), expected=comparable(expected))


@given(stream=streams(), inner=plain_filters(), data=st.data())
@FEW
def test_a_pattern_over_a_subquery_gives_the_answer_of_both_oracles(
    stream: SmallStream, inner: str, data: st.DataObject
) -> None:
    pattern = data.draw(queries(timestamps=stream.has_timestamps))
    sql = pattern.replace("FROM s ", f"FROM ({inner}) ", 1)
    rows = outer_rows(rows_of(stream), outer_of(inner, stream.schema))
    bound = bind_query(parse_query(pattern), lambda _: (stream.schema, "t"), text=pattern)
    expected = match_rows(rows, bound)
    event(f"matches: {min(len(expected), 3)}")
    with filled(stream, {"a", "x"}) as store:
        assert_plans_agree(store, sql, ("auto", "tree", "all"), expected=comparable(expected))


@given(stream=streams(), sql=st.one_of(filters(), plain_filters()), data=st.data())
def test_a_filter_online_gives_the_answer_over_history(
    stream: SmallStream, sql: str, data: st.DataObject
) -> None:
    try:
        operator = replay.online(sql, stream.schema, time="t")
    except replay.NotSupportedError:
        assert "ORDER BY" in sql
        return
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream.rows)), max_size=4)))
    borders = [0, *cuts, len(stream.rows)]
    pieces = [operator.push(stream.table.slice(a, b - a)) for a, b in pairwise(borders)]
    table = pa.concat_tables([*pieces, operator.finish()])
    assert table.schema == operator.schema
    expected = outer_rows(rows_of(stream), outer_of(sql, stream.schema))
    assert answer(table) == comparable(expected)


SIDES = "SELECT l.t AS t, r.t AS u, r.x AS x FROM ({}) AS l"
JOINS = (
    f"{SIDES} JOIN ({{}}) AS r WITHIN {{}} ON l.k = r.k",
    f"{SIDES} JOIN ({{}}) AS r WITHIN {{}} WHERE l.a > 1",
    f"{SIDES} LEFT JOIN ({{}}) AS r WITHIN {{}} ON l.k = r.k",
    f"{SIDES} ASOF LEFT JOIN ({{}}) AS r ON l.k = r.k AND l.t >= r.t WITHIN {{}}",
    f"{SIDES} ASOF LEFT JOIN ({{}}) AS r ON l.t >= r.t WHERE l.a > 1",
    f"{SIDES} ASOF LEFT JOIN ({{}}) AS r ON l.t < r.t WHERE l.a > 1",
    f"{SIDES} ASOF JOIN ({{}}) AS r ON l.k IS NOT DISTINCT FROM r.k AND l.t <= r.t WHERE l.a > 1",
    f"{SIDES} ASOF JOIN ({{}}) AS r ON l.k = r.k AND l.t <= r.t AND r.x > 0 WITHIN {{}}",
    f"{SIDES} JOIN ({{}}) AS r WITHIN ({{}}, 2 ROWS)",
    f"{SIDES} JOIN ({{}}) AS r WITHIN {{}} SLIDE {{}}",
)
"""Joins of two subqueries, and lengths of time to be put in."""


@given(
    stream=streams(rows_max=24),
    join=st.sampled_from(JOINS),
    sides=st.tuples(*[conditions().map(lambda c: f"SELECT * FROM s AS A WHERE {c}")] * 2),
)
@FEW
def test_a_join_of_filters_is_that_of_the_rows_they_leave(
    stream: SmallStream, join: str, sides: tuple[str, str]
) -> None:
    unit = " SECOND" if stream.has_timestamps else ""
    lengths = [f"3{unit}", f"2{unit}"][: join.count("{}") - 2]
    left, right = (outer_rows(rows_of(stream), outer_of(side, stream.schema)) for side in sides)
    with filled(stream, {"a"}) as store:
        fill_stream(store, "l", replace(stream, rows=left, cuts=()))
        fill_stream(store, "r", replace(stream, rows=right, cuts=()))
        expected = replay.query(store, join.format("SELECT * FROM l", "SELECT * FROM r", *lengths))
        for plan in ("auto", "full", "tree"):
            try:
                found = replay.query(store, join.format(*sides, *lengths), plan=plan)
            except PlanError:
                assert plan == "tree"
                continue
            assert answer(found.table) == answer(expected.table), plan
