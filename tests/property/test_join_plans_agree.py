"""The law for joins: whatever is left out of what is read, the answer is that of reading all."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
from hypothesis import event, given
from hypothesis import strategies as st

from chronicle import Store
from replay.engines.statistics import statistics_of
from replay.errors import PlanError
from replay.expressions.columns import Columns
from replay.expressions.evaluate import truths
from replay.expressions.scalars import Faults
from replay.joins.plan import ways_to_read
from replay.joins.run import JoinRun, JoinSide
from replay.language.bound import JOIN_TIME, Expression, Literal, Relation, StreamRelation
from tests.helpers import fill_stream
from tests.join_cases import (
    SCHEMA,
    JoinCase,
    call,
    column,
    join_cases,
    values_of,
)
from tests.memory_stream import some_store
from tests.property.law import SLOW
from tests.strategies import SmallStream


def run(case: JoinCase, store: Store, where: Expression | None, plan: str) -> JoinRun:
    def open_side(relation: Relation, columns: tuple[str, ...]) -> JoinSide:
        assert isinstance(relation, StreamRelation)
        snapshot = store.stream(relation.name).snapshot()
        schema = pa.schema([SCHEMA.field(name) for name in columns])
        return JoinSide(lambda: iter([schema.empty_table()]), snapshot, statistics_of(snapshot))

    names = [name for name, _ in case.join.columns]
    return JoinRun(case.join, open_side, where=where, columns=names, requested=plan)


def statistics_in(store: Store) -> tuple[Any, Any]:
    left, right = (statistics_of(store.stream(name).snapshot()) for name in "lr")
    return left, right


def answer_of(run: JoinRun, where: Expression | None) -> list[tuple[Any, ...]]:
    table = pa.concat_tables(run.tables())
    if where is not None:
        table = table.filter(pa.array(truths(where, Columns(table), Faults())))
    return values_of(table)


def small(draw: st.DrawFn, rows: list[dict[str, Any]]) -> SmallStream:
    cuts = draw(st.lists(st.integers(0, len(rows)), max_size=2).map(sorted))
    return SmallStream(rows, draw(st.integers(1, 4)), 12, 2, tuple(cuts), SCHEMA)


@st.composite
def conditions(draw: st.DrawFn) -> Expression:
    """A condition on one side alone, most of them a range."""
    side = draw(st.sampled_from(("l", "l", "r")))
    name = draw(st.sampled_from(("t", "k", "x")))
    attribute = column(f"{side}.{name}")
    value = draw(st.integers(-2, 20 if name == "t" else 2))
    literal = Literal(float(value) if name == "x" else value, attribute.type)
    return call(draw(st.sampled_from(("=", ">=", "<", "<>"))), attribute, literal)


def oracle(case: JoinCase, where: Expression | None) -> list[tuple[Any, ...]]:
    """The rows of the definition that pass WHERE."""
    fields = [
        pa.field(name, pa.int64() if name == JOIN_TIME else SCHEMA.field(name[2:]).type)
        for name, _ in case.join.columns
    ]
    rows = case.raw_rows()
    columns = [list(values) for values in zip(*rows, strict=True)] or [[]] * len(fields)
    table = pa.table(columns, schema=pa.schema(fields))
    if where is not None:
        table = table.filter(pa.array(truths(where, Columns(table), Faults())))
    return values_of(table)


@given(case=join_cases(rows_max=24), data=st.data())
@SLOW
def test_every_plan_of_a_join_gives_the_answer_of_the_oracle(
    case: JoinCase, data: st.DataObject
) -> None:
    asked = data.draw(st.lists(conditions(), max_size=2))
    where = None
    if asked:
        where = asked[0] if len(asked) == 1 else call("and", *asked)
    expected = oracle(case, where)
    with some_store(case, where) as store:
        index = tuple(data.draw(st.sets(st.sampled_from(("k", "x")))))
        fill_stream(store, "l", small(data.draw, case.left), index=index)
        fill_stream(store, "r", small(data.draw, case.right), index=index)
        for plan in ("full", "tree", "all", "auto", "indexes=l.x", "indexes=r.k"):
            try:
                made = run(case, store, where, plan)
            except PlanError:
                assert plan not in ("full", "auto")
                continue
            assert answer_of(made, where) == expected, plan
            if plan not in ("tree", "all"):
                continue
            for way in ways_to_read(case.join, made.plan.sides, statistics_in(store)):
                made = run(case, store, where, plan)
                made.plan = replace(way, is_adaptive=False)
                assert answer_of(made, where) == expected, (plan, way.drives, way.prunes)
                event(f"{plan}: {way.drives or 'neither'} drives, prunes: {way.prunes}")
