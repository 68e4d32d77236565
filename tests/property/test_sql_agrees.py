"""The law at the boundary to DuckDB: whatever plan Chronicle's part has, the answer is the same.

And it is that of DuckDB alone, given the events and the part's answer as tables.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

import replay
from chronicle import create_store
from replay.errors import PlanError, SkipError
from tests.helpers import fill_stream
from tests.property.law import ANY_SIZE, comparable
from tests.strategies import SmallStream, cases

INDEXED = ("a", "x", "s")

STATEMENTS = (
    "SELECT *, ROW_NUMBER() OVER () AS place FROM ({cut}) AS m",
    "SELECT t, a, x, (SELECT COUNT(*) FROM ({cut}) AS m) AS n FROM s",
    "WITH m AS ({cut}) SELECT s.*, LAG(x) OVER (ORDER BY t) AS l FROM s WHERE EXISTS (FROM m)",
    "SELECT * FROM ({cut}) AS m UNION ALL SELECT * FROM ({cut}) AS m",
    "SELECT COUNT(*) FILTER (WHERE x > 1) AS n, ARRAY_AGG(a) AS a, MAX_BY(t, x) AS at FROM s",
)
"""Statements whose rows come in one order, whichever way DuckDB goes."""


def by_duckdb(stream: SmallStream, statement: str, matches: pa.Table) -> list[tuple[object, ...]]:
    """Return the answer of DuckDB alone."""
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("s", stream.table)
        connection.register("matches", matches)
        return connection.execute(statement.format(cut="SELECT * FROM matches")).fetchall()


@given(
    case=cases(),
    statement=st.sampled_from(STATEMENTS),
    indexes=st.sets(st.sampled_from(INDEXED)),
)
@settings(max_examples=30, suppress_health_check=ANY_SIZE, deadline=None)
def test_every_plan_of_the_part_gives_the_answer_of_duckdb_alone(
    case: tuple[SmallStream, str], statement: str, indexes: set[str]
) -> None:
    stream, cut = case
    sql = statement.format(cut=cut)
    with TemporaryDirectory() as folder:  # whose files DuckDB reads
        store = create_store(Path(folder) / "store")
        fill_stream(store, "s", stream, index=tuple(sorted(indexes)))
        try:
            matches = replay.query({"s": stream.table}, cut).table
        except SkipError:
            return
        expected = comparable(by_duckdb(stream, statement, matches))
        for plan in ("full", "tree", "all", "auto"):
            try:
                found = replay.query(store, sql, plan=plan).table
            except PlanError:
                assert plan in ("tree", "all")
                continue
            assert comparable(found.to_pylist()) == expected, plan
