"""Joins give exactly what their definitions say, however the rows come in."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from replay.joins import stream_join
from replay.language.bound import JoinKind
from replay.language.join_conditions import split_conditions
from replay.operators.packing import pack, unpack
from tests.join_cases import SCHEMA, JoinCase, join_cases, to_table, values_of
from tests.property.law import SLOW


def operator_of(case: JoinCase) -> Any:
    """The operator of a join of whole rows."""
    bound = case.join
    is_asof = bound.kind in (JoinKind.ASOF, JoinKind.ASOF_LEFT)
    make: Any = stream_join.WindowJoin
    if is_asof:
        make = stream_join.ForwardAsofJoin if bound.asof_forward else stream_join.AsofJoin
    columns = [name for name, _ in bound.columns]
    return make(bound, split_conditions(bound), SCHEMA, SCHEMA, columns)


def pieces(draw: Any, table: pa.Table) -> Iterator[pa.Table]:
    n = table.num_rows
    cuts = draw(st.lists(st.integers(0, n), max_size=6).map(sorted))
    for begin, end in pairwise([0, *cuts, n]):
        yield table.slice(begin, end - begin)


@pytest.fixture(autouse=True)
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the rare cases frequent: full outputs, rows dropped, keys numbered anew."""
    monkeypatch.setattr("replay.joins.search.PAIRS_AT_ONCE", 3)
    monkeypatch.setattr(stream_join, "KEPT_ROWS_MIN", 2)
    monkeypatch.setattr(stream_join, "KEYS_PER_ROW", 0)
    monkeypatch.setattr(stream_join, "PAIRS_AT_ONCE", 3)


def moved(case: JoinCase, operator: Any) -> Any:
    """An operator that goes on from the packed state of another."""
    other = operator_of(case)
    other.take_over(unpack(pack(operator.state())))
    return other


@given(case=join_cases(), data=st.data())
@SLOW
def test_a_join_gives_the_answer_of_its_definition(case: JoinCase, data: st.DataObject) -> None:
    operator = operator_of(case)
    waiting = [
        list(pieces(data.draw, to_table(case.left))),
        list(pieces(data.draw, to_table(case.right))),
    ]
    found = [operator.schema.empty_table()]
    while any(waiting):
        side = data.draw(st.sampled_from([place for place in (0, 1) if waiting[place]]))
        operator.push(side, waiting[side].pop(0))
        ended = [not rest and data.draw(st.booleans()) for rest in waiting]
        found += operator.certain(*ended)
        if operator.is_over(*ended):
            break
        if data.draw(st.booleans()):
            operator = moved(case, operator)
        for place in (0, 1):
            rows = [time for table in waiting[place] for time in table.column("t").to_pylist()]
            if rows and data.draw(st.booleans()):
                operator.advance(place, rows[0] - data.draw(st.integers(0, 2)))
                found += operator.certain(False, False)
    found += operator.certain(True, True)
    answer = values_of(pa.concat_tables(found))
    event(f"{case.join.kind.value}: {min(len(answer), 3)} rows")
    assert answer == case.rows()
