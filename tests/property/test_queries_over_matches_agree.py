"""A query around a subquery of matches answers as if they had been found first."""

from __future__ import annotations

import operator
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

import replay
from chronicle import create_store
from replay.errors import PlanError, SkipError
from tests.helpers import fill_stream
from tests.property.law import ANY_SIZE, comparable
from tests.strategies import SmallStream, cases

OPERATORS = {"<": operator.lt, ">=": operator.ge, "=": operator.eq}


@given(
    case=cases(),
    op=st.sampled_from(list(OPERATORS)),
    value=st.integers(-1, 6),
    place=st.integers(0, 5),
    limit=st.sampled_from(["", "LIMIT 2", "LIMIT 2 OFFSET 1"]),
)
@settings(max_examples=60, suppress_health_check=ANY_SIZE, deadline=None)
def test_conditions_and_limits_around_matches_are_those_of_their_rows(
    case: tuple[SmallStream, str], op: str, value: int, place: int, limit: str
) -> None:
    stream, matches = case
    with TemporaryDirectory() as folder:
        store = create_store(Path(folder) / "store")
        fill_stream(store, "s", stream, index=("a", "x"))
        try:
            rows = replay.query({"s": stream.table}, matches).table
        except SkipError:
            return
        numbers = [f.name for f in rows.schema if pa.types.is_integer(f.type)]
        numbers += [f.name for f in rows.schema if pa.types.is_floating(f.type)]
        where, kept = "", rows.to_pylist()
        if numbers:
            name = numbers[place % len(numbers)]
            where = f"WHERE {name} {op} {value}"
            kept = [r for r in kept if r[name] is not None and OPERATORS[op](r[name], value)]
        start = 1 if "OFFSET" in limit else 0
        expected = kept[start : start + 2] if limit else kept
        sql = f"SELECT * FROM ({matches}) AS m {where} {limit}"
        for plan in ("full", "tree", "all", "auto"):
            try:
                found = replay.query(store, sql, plan=plan).table
            except PlanError:
                assert plan in ("tree", "all")
                continue
            assert comparable(found.to_pylist()) == comparable(expected), plan
