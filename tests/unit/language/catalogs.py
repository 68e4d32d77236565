"""A catalog of streams for tests of binding, and queries bound to it."""

from __future__ import annotations

import pyarrow as pa

from chronicle.errors import StreamNotFoundError
from replay.language import bind_query, parse_query
from replay.language.bound import Attribute, BoundSelect, DataType

SCHEMA = pa.schema(
    {
        "ts": pa.timestamp("us"),
        "k": pa.string(),
        "n": pa.int32(),
        "x": pa.float64(),
        "tags": pa.list_(pa.string()),
    }
)
TS, K, N, X = (
    Attribute("ts", DataType.TIMESTAMP),
    Attribute("k", DataType.STRING),
    Attribute("n", DataType.INTEGER),
    Attribute("x", DataType.DOUBLE),
)
START, END = (Attribute(name, DataType.TIMESTAMP) for name in ("window_start", "window_end"))
WHOLE = pa.schema({"t": pa.int64(), "k": pa.string(), "x": pa.float64()})

STREAMS: dict[str, tuple[pa.Schema, str | None]] = {
    "s": (SCHEMA, "ts"),
    "r": (SCHEMA, "ts"),
    "ticks": (WHOLE, "t"),
    "memory": (SCHEMA, None),
    "whole_memory": (WHOLE, None),
}


def catalog(name: str) -> tuple[pa.Schema, str | None]:
    """Give schema and time column of a stream."""
    if name not in STREAMS:
        raise StreamNotFoundError(name, candidates=STREAMS)
    return STREAMS[name]


def bound_query(text: str, **params: object):
    """Parse and bind any query."""
    return bind_query(parse_query(text), catalog, text=text, params=params)


def bound_select(text: str, **params: object) -> BoundSelect:
    """Parse and bind a query without a row pattern."""
    bound = bound_query(text, **params)
    assert isinstance(bound, BoundSelect)
    return bound
