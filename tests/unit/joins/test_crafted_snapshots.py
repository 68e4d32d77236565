"""Snapshots of joins whose bytes are well formed and whose numbers lead nowhere."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import replay
from replay.errors import QueryError
from replay.operators.packing import pack, unpack

SCHEMA = pa.schema([("t", pa.int64()), ("n", pa.int64())])
WINDOWED = "SELECT l.t AS a, r.t AS b FROM l LEFT JOIN r WITHIN 5 ON l.n = r.n"
ASOF = "SELECT l.t AS a, r.t AS b FROM l ASOF JOIN r ON l.n = r.n AND l.t >= r.t"


def online(sql: str) -> Any:
    return replay.online(sql, {"l": SCHEMA, "r": SCHEMA}, time={"l": "t", "r": "t"})


def events(times: range) -> pa.Table:
    return pa.Table.from_pylist([{"t": t, "n": t % 3} for t in times], schema=SCHEMA)


def state_of(sql: str) -> dict[str, Any]:
    query = online(sql)
    for stream in "lr":
        query.push(events(range(9)), stream=stream)
    return unpack(query.snapshot())


def operator_of(node: Any) -> dict[str, Any]:
    """Return the state of the join: the one that has keys."""
    if isinstance(node, dict) and "keys" in node:
        return node
    children = node.values() if isinstance(node, dict) else node
    found = (operator_of(child) for child in children if isinstance(child, dict | list))
    return next((operator for operator in found if operator), {})


def put(*path: Any, value: Any) -> Any:
    """Return what sets a number of an array, or a whole value, somewhere in a state."""

    def change(state: dict[str, Any]) -> None:
        node: Any = state
        for name in path[:-1]:
            node = node[name]
        node[path[-1]] = value(node[path[-1]]) if callable(value) else value

    return change


def last(number: int) -> Any:
    def change(array: np.ndarray) -> np.ndarray:
        array = array.copy()
        array.flat[-1] = number
        return array

    return change


@pytest.mark.parametrize(
    ("sql", "change"),
    [
        pytest.param(WINDOWED, put("keys", "values", 0, "values", value=last(0)), id="key-twice"),
        pytest.param(
            WINDOWED, put("keys", "values", 0, "values", value=lambda a: a.astype(float)), id="keys"
        ),
        pytest.param(
            WINDOWED, put("sides", 0, "kept", "columns", value=last(99)), id="no-such-key"
        ),
        pytest.param(
            WINDOWED, put("sides", 0, "kept", "columns", value=lambda a: a[:, 1:]), id="fewer-rows"
        ),
        pytest.param(
            WINDOWED,
            put("sides", 0, "kept", "table", value=lambda t: t.rename_columns(["u", "v"])),
            id="other-columns",
        ),
        pytest.param(WINDOWED, put("sides", 0, "kept", "first", value=-1), id="before-the-first"),
        pytest.param(WINDOWED, put("search", "state", value=last(10**6)), id="beyond-the-rows"),
        pytest.param(WINDOWED, put("search", "state", value=lambda a: a[:-1]), id="less-known"),
        pytest.param(WINDOWED, put("windows", value=lambda a: a * 0), id="other-windows"),
        pytest.param(
            WINDOWED,
            put("fates", "has_partner", value=lambda a: np.ones(10**4, np.bool_)),
            id="partners-of-no-rows",
        ),
        pytest.param(ASOF, put("latest", value=last(10**6)), id="latest-beyond-the-rows"),
        pytest.param(ASOF, put("seen", value=last(-1)), id="seen-before-the-first"),
    ],
)
def test_numbers_that_no_join_has_are_refused(sql: str, change: Any) -> None:
    state = state_of(sql)
    change(operator_of(state))
    with pytest.raises(QueryError, match="does not hold the state"):
        online(sql).restore(pack(state))
