"""Joins against DuckDB's joins by ranges and ASOF joins, over the same rows."""

from __future__ import annotations

from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.joins.stream_join import AsofJoin, ForwardAsofJoin, WindowJoin
from replay.language.bound import DataType, JoinKind, JoinWindow, Literal
from replay.language.join_conditions import split_conditions
from tests.join_cases import SCHEMA, call, column, join_of, row, to_table, values_of
from tests.property.law import SLOW
from tests.strategies import seeded

duckdb = pytest.importorskip("duckdb")

DOUBLE = DataType.DOUBLE
COLUMNS = ", ".join(f'{side}.{name} AS "{side}.{name}"' for side in "lr" for name in SCHEMA.names)
LEFT_JOIN = {JoinKind.INNER: "JOIN", JoinKind.LEFT: "LEFT JOIN"}


@seeded
def tables(choose: Random, *, unique_times: bool = False) -> pa.Table:
    """Rows whose x is their number, so that rows can be told apart."""
    n = choose.randint(0, 40)
    times = (
        choose.sample(range(-40, 41), n) if unique_times else choose.choices(range(-40, 41), k=n)
    )
    keys = (0, 1, 2, 3, None)
    return to_table(
        [row(t, choose.choice(keys), "a", float(i)) for i, t in enumerate(sorted(times))]
    )


def answer_of_duckdb(sql: str, left: pa.Table, right: pa.Table) -> list[tuple[Any, ...]]:
    with duckdb.connect() as connection:
        connection.execute("SET threads = 1")
        connection.register("l", left)
        connection.register("r", right)
        return values_of(connection.sql(sql).to_arrow_table())


def answer_of(operator: Any, left: pa.Table, right: pa.Table) -> list[tuple[Any, ...]]:
    operator.push(0, left)
    operator.push(1, right)
    found = operator.certain(True, True)
    return values_of(pa.concat_tables([operator.schema.empty_table(), *found]))


@given(
    left=tables(),
    right=tables(),
    sizes=st.tuples(st.integers(1, 20), st.integers(1, 20)),
    kind=st.sampled_from((JoinKind.INNER, JoinKind.LEFT)),
    keyed=st.booleans(),
    ranged=st.booleans(),
)
@SLOW
def test_sliding_windows_are_a_join_by_ranges(
    left: pa.Table,
    right: pa.Table,
    sizes: tuple[int, int],
    kind: JoinKind,
    keyed: bool,
    ranged: bool,
) -> None:
    join = join_of(
        kind,
        equal=("k",) if keyed else (),
        condition=call("<", column("l.x"), column("r.x")) if ranged else None,
        windows=(JoinWindow(sizes[0]), JoinWindow(sizes[1])),
    )
    sql = f"""
        SELECT {COLUMNS}, greatest(l.t, r.t) AS now
        FROM l {LEFT_JOIN[kind]} r
        ON r.t - l.t < {sizes[0]} AND l.t - r.t < {sizes[1]}
        {"AND l.k = r.k" if keyed else ""} {"AND l.x < r.x" if ranged else ""}
        ORDER BY now, (r.x IS NULL OR l.t = now),
            CASE WHEN l.t = now THEN l.x ELSE r.x END,
            CASE WHEN l.t = now THEN r.x ELSE l.x END
    """
    names = [name for name, _ in join.columns]
    operator = WindowJoin(join, split_conditions(join), SCHEMA, SCHEMA, names)
    assert answer_of(operator, left, right) == answer_of_duckdb(sql, left, right)


@given(
    left=tables(),
    right=tables(unique_times=True),
    kind=st.sampled_from((JoinKind.ASOF, JoinKind.ASOF_LEFT)),
    keys=st.sampled_from(("", "l.k = r.k AND ", "l.k IS NOT DISTINCT FROM r.k AND ")),
    order=st.sampled_from((">=", ">", "<=", "<")),
    above=st.one_of(st.none(), st.integers(0, 20)),
)
@SLOW
def test_an_asof_join_is_that_of_duckdb(
    left: pa.Table, right: pa.Table, kind: JoinKind, keys: str, order: str, above: int | None
) -> None:
    condition = None if above is None else call(">", column("r.x"), Literal(float(above), DOUBLE))
    join = join_of(
        kind,
        equal=("k",) if keys else (),
        condition=condition,
        strict=len(order) == 1,
        forward=order[0] == "<",
        null_safe=("IS" in keys,) if keys else (),
    )
    # DuckDB takes no condition on one side: the rows of the right are chosen before.
    chosen = "r" if above is None else f"(SELECT * FROM r WHERE x > {above})"
    sql = f"SELECT {COLUMNS} FROM l {kind.value} {chosen} r ON {keys} l.t {order} r.t ORDER BY l.x"
    names = [name for name, _ in join.columns]
    make = ForwardAsofJoin if join.asof_forward else AsofJoin
    operator = make(join, split_conditions(join), SCHEMA, SCHEMA, names)
    assert answer_of(operator, left, right) == answer_of_duckdb(sql, left, right)
