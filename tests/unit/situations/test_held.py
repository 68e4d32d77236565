"""What is held of rows: as much as WITHIN and RETURN ask for, however long a situation lasts."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from replay.language import bind_query, parse_query
from replay.language.bound import BoundSelect, SituationRelation
from replay.situations.operator import SituationOperator
from replay.situations.returns import HELD_MIN
from replay.windows.group_aggregator import GroupAggregator

SCHEMA = pa.schema({"t": pa.int64(), "k": pa.int64(), "x": pa.int64()})
PUSHED = 1_000
N = 10 * HELD_MIN


def operator(clauses: str) -> SituationOperator:
    text = f"FROM s {clauses}"
    query = bind_query(parse_query(text), lambda _: (SCHEMA, "t"), text=text)
    assert isinstance(query, BoundSelect)
    assert isinstance(query.source, SituationRelation)
    return SituationOperator(query.source, SCHEMA, GroupAggregator)


@pytest.mark.parametrize(
    ("clauses", "n_situations"),
    [
        ("DEFINE B AS x >= 0 EMIT FINAL RETURN {}", 1),
        ("PARTITION BY k DEFINE B AS x >= 0 EMIT FINAL RETURN {}", 3),
        ("PARTITION BY k VALID FOR 9 DEFINE B AS PREV(x) >= 0 AT LEAST 9 EMIT FINAL RETURN {}", 3),
    ],
)
def test_a_situation_that_lasts_all_the_stream_is_held_as_an_entry(
    clauses: str, n_situations: int
) -> None:
    """The stream is ten times as long as what is held, and at its end the situations end."""
    aggregates = "COUNT(B.*) AS n, SUM(B.x) AS total, LAST(B.x) AS last"
    situations = operator(clauses.format(aggregates))
    t = np.arange(N)
    events = pa.table([t, t % 3, np.where(t < N - 6, t % 7, -1)], schema=SCHEMA)
    held, found = [], []
    for first in range(0, N, PUSHED):
        found += situations.push(events.slice(first, PUSHED))
        held.append(situations.n_held)
    found += situations.finish()
    assert max(held) <= HELD_MIN + PUSHED + n_situations
    answer = pa.concat_tables(found).select(["n", "total", "last"]).to_pylist()
    expected = []
    for key in range(n_situations):
        own = [i % 7 for i in range(N - 6) if n_situations == 1 or i % 3 == key]
        if "PREV" in clauses:  # it begins at the second row, and ends one row later
            own = [*own[1:], -1]
        expected.append({"n": len(own), "total": sum(own), "last": own[-1]})
    assert sorted(map(repr, answer)) == sorted(map(repr, expected))


def test_values_of_situations_older_than_within_are_dropped() -> None:
    """Situations of 900 rows, each of which could be the A of a match for 3,000."""
    situations = operator(
        "DEFINE A AS x >= 0, B AS x > 9 PATTERN A before B WITHIN 3000 RETURN MEDIAN(A.x) AS m"
    )
    t = np.arange(N)
    events = pa.table([t, t, np.where(t % 1_000 < 900, 1, -1)], schema=SCHEMA)
    held = []
    for first in range(0, N, PUSHED):
        assert not any(len(table) for table in situations.push(events.slice(first, PUSHED)))
        held.append(situations.n_held)
    assert max(held) <= HELD_MIN + PUSHED + 3_000
