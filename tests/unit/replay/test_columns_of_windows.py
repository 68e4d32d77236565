"""window_start and window_end in aggregates and WHERE around a pattern in windows."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import pyarrow as pa
import pytest

import replay
from chronicle import Store, create_store
from tests.helpers import fill_stream
from tests.strategies import SmallStream

N_EVENTS, SLIDE, SIZE = 20, 4, 8
ROWS = [{"t": t, "x": float(t), "a": t % 3, "k": t % 2} for t in range(N_EVENTS)]
MATCHED = f"""FROM TABLE(HOP(TABLE s, DESCRIPTOR(t), {SLIDE}, {SIZE})) MATCH_RECOGNIZE (
  PARTITION BY window_start, window_end ORDER BY t MEASURES A.t AS at
  PATTERN (A B) SEMANTICS SKIP TILL ANY DEFINE A AS a >= 1)"""
MATCHES = [
    (start, start + SIZE, first["t"])
    for start in range(-SIZE + SLIDE, N_EVENTS, SLIDE)
    for first, _ in combinations([row for row in ROWS if 0 <= row["t"] - start < SIZE], 2)
    if first["a"] >= 1
]
"""Begin and end of the window, and the time of the first event, of each match."""


def groups(of: int) -> dict[int, list[tuple[int, int, int]]]:
    """Return the matches by begin (0) or end (1) of their window."""
    found: dict[int, list[tuple[int, int, int]]] = {}
    for match in MATCHES:
        found.setdefault(match[of], []).append(match)
    return found


EXPECTED = {
    "SELECT window_start, MAX(window_end) AS w, COUNT(*) AS n {} GROUP BY window_start": [
        {"window_start": start, "w": start + SIZE, "n": len(of)} for start, of in groups(0).items()
    ],
    "SELECT window_end, SUM(window_end - at) AS d {} GROUP BY window_end": [
        {"window_end": end, "d": sum(end - at for _, _, at in of)} for end, of in groups(1).items()
    ],
    "SELECT window_end {} GROUP BY window_end HAVING MIN(window_start) > 3": [
        {"window_end": end} for end in groups(1) if end - SIZE > 3
    ],
    "SELECT window_end {} GROUP BY window_end ORDER BY AVG(window_start) DESC": [
        {"window_end": end} for end in sorted(groups(1), reverse=True)
    ],
    "SELECT COUNT(window_end) AS n, MAX(window_end) AS w {}": [
        {"n": len(MATCHES), "w": max(end for _, end, _ in MATCHES)}
    ],
    "SELECT window_start, COUNT(*) AS n {} WHERE window_end > 10 AND at > 5 GROUP BY 1": [
        {"window_start": start, "n": sum(at > 5 for _, _, at in of)}
        for start, of in groups(0).items()
        if start + SIZE > 10
    ],
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    made: Path = tmp_path_factory.mktemp("windows")
    store = create_store(made / "store")
    fill_stream(store, "s", SmallStream(ROWS, 4, 16, 2, cuts=()), index=("a",))
    return store


@pytest.mark.parametrize("sql", EXPECTED)
def test_columns_of_windows_are_read_of_each_match(store: Store, sql: str) -> None:
    query, expected = sql.format(MATCHED), EXPECTED[sql]
    table = pa.Table.from_pylist(ROWS)
    assert replay.query({"s": table}, query).table.to_pylist() == expected
    for plan in ("auto", "full"):
        assert replay.query(store, query, plan=plan).table.to_pylist() == expected
    if "GROUP BY" in sql and "ORDER BY" not in sql:
        flow = replay.online(query, table.schema, time="t")
        pieces = [flow.push(table[at : at + 3]) for at in range(0, N_EVENTS, 3)]
        assert pa.concat_tables([*pieces, flow.finish()]).to_pylist() == expected
