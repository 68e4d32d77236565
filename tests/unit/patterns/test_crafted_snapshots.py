"""Snapshots of matchers whose bytes are well formed and whose rows are not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import replay
from replay.errors import QueryError
from replay.operators.packing import pack, unpack

SCHEMA = pa.schema([("t", pa.int64()), ("a", pa.int32()), ("s", pa.string())])
SQL = """
SELECT * FROM s MATCH_RECOGNIZE (PARTITION BY s ORDER BY t MEASURES A.t AS u, B.t AS v
PATTERN (A Z*? B) WITHIN 30 DEFINE A AS a = 1, B AS a = 2)
"""


def online() -> replay.OnlineQuery:
    return replay.online(SQL, SCHEMA, time="t")


@pytest.fixture
def state() -> dict[str, Any]:
    """State with rows of open starts in three partitions."""
    query = online()
    rows = [{"t": t, "a": 1, "s": f"k{t % 3}"} for t in range(9)]
    query.push(pa.Table.from_pylist(rows, schema=SCHEMA))
    return unpack(query.snapshot())


def with_value(value: int) -> Any:
    def change(array: np.ndarray) -> np.ndarray:
        array = array.copy()
        array.flat[-1] = value
        return array

    return change


@pytest.mark.parametrize(
    ("name", "change"),
    [
        pytest.param("rows.group", with_value(99), id="partition-too-great"),
        pytest.param("rows.group", with_value(-1), id="partition-below-zero"),
        pytest.param("rows.group", lambda a: a[:-1], id="fewer-partitions"),
        pytest.param("rows.times", lambda a: a[:0], id="no-times"),
        pytest.param("rows.words", lambda a: a.astype(np.uint8), id="narrow-words"),
        pytest.param("rows.seq", lambda a: a[:-2], id="fewer-numbers"),
        pytest.param("partitions", lambda a: a[:, :-1], id="an-unknown-partition"),
        pytest.param("header", lambda h: h.update(n_inbox=10**9), id="rows-that-are-not-there"),
        pytest.param("header", lambda h: h.update(n_inbox=-1), id="fewer-rows-than-none"),
        pytest.param("header", lambda h: h.update(partition_keys=[]), id="no-keys"),
    ],
)
def test_rows_that_no_matcher_has_are_refused(
    state: dict[str, Any], name: str, change: Any
) -> None:
    matcher = state["operator"]["matcher"]
    if name == "header":
        change(matcher)
    else:
        matcher["arrays"][name] = change(matcher["arrays"][name])
    with pytest.raises(QueryError, match="does not hold the state"):
        online().restore(pack(state))
