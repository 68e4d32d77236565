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
from replay.errors import SkipError
from tests.helpers import fill_stream
from tests.property.law import ANY_SIZE, answer, assert_plans_agree
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
        where, kept = "", list(range(rows.num_rows))
        if numbers:
            name = numbers[place % len(numbers)]
            values = rows.column(name).to_pylist()
            where = f"WHERE {name} {op} {value}"
            kept = [i for i in kept if values[i] is not None and OPERATORS[op](values[i], value)]
        start = 1 if "OFFSET" in limit else 0
        kept = kept[start : start + 2] if limit else kept
        expected = answer(rows.take(pa.array(kept, pa.int64())))
        sql = f"SELECT * FROM ({matches}) AS m {where} {limit}"
        assert_plans_agree(store, sql, ("tree", "all", "auto"), expected=expected)
