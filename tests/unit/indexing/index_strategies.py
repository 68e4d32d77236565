"""Hypothesis strategies: columns of every indexable type, and ranges that fit them."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from indexing.key_range import Key, KeyRange, KeyRanges
from tests.oracles.index import to_key

_MANY_ALIKE = st.integers(-3, 3)
_INTEGERS = st.one_of(_MANY_ALIKE, st.integers(-(1 << 63), (1 << 63) - 1))
_DOUBLES = st.one_of(
    st.sampled_from([0.0, -0.0, 1.5, float("nan"), float("inf"), float("-inf"), 2.0**53]),
    st.floats(allow_nan=True, allow_infinity=True),
)
_SINGLES = st.floats(width=32)
_STRINGS = st.one_of(
    st.sampled_from(["", "a", "ab", "é", "\U0001f600", "x" * 300, "x" * 300 + "y", "x" * 257]),
    st.text(max_size=4),
)
_MOMENTS = st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2100, 1, 1))
_DAYS = st.dates(dt.date(1900, 1, 1), dt.date(2100, 1, 1))

TYPES: dict[str, tuple[pa.DataType, st.SearchStrategy]] = {
    "int64": (pa.int64(), _INTEGERS),
    "int8": (pa.int8(), _MANY_ALIKE),
    "bool": (pa.bool_(), st.booleans()),
    "double": (pa.float64(), _DOUBLES),
    "float": (pa.float32(), _SINGLES),
    "string": (pa.string(), _STRINGS),
    "timestamp": (pa.timestamp("us"), _MOMENTS),
    "timestamp_utc": (pa.timestamp("us", "UTC"), _MOMENTS),
    "date": (pa.date32(), _DAYS),
}


@st.composite
def columns(draw: st.DrawFn, max_size: int = 60) -> pa.Array:
    """A column of any indexable type, with nulls and duplicates."""
    data_type, values = draw(st.sampled_from(list(TYPES.values())))
    pool = draw(st.lists(st.one_of(st.none(), values), min_size=1, max_size=12))
    some = st.one_of(st.sampled_from(pool), values)
    return pa.array(draw(st.lists(some, min_size=1, max_size=max_size)), data_type)


def keys_like(column: pa.Array) -> st.SearchStrategy[Key]:
    """Keys of the column and others it could be asked for."""
    present = [key for key in map(to_key, column.to_pylist()) if key is not None]
    if pa.types.is_string(column.type):
        others: st.SearchStrategy = _STRINGS
    elif pa.types.is_floating(column.type):
        others = st.one_of(st.floats(allow_nan=False), st.integers(-5, 5))
    else:
        others = st.one_of(_INTEGERS, st.floats(-5, 5))
    return st.one_of(st.sampled_from(present), others) if present else others


@st.composite
def ranges_for(draw: st.DrawFn, column: pa.Array) -> KeyRanges:
    """Sets of ranges for the keys of a column."""
    bound = st.one_of(st.none(), keys_like(column))
    one = st.builds(KeyRange, bound, bound, st.booleans(), st.booleans())
    return KeyRanges.of(draw(st.lists(one, min_size=1, max_size=4)))


@st.composite
def streams(draw: st.DrawFn, max_size: int = 60) -> pa.Table:
    """Events ``t, x`` in time order, with ties."""
    x = draw(columns(max_size))
    gaps = draw(st.lists(st.integers(0, 3), min_size=len(x), max_size=len(x)))
    return pa.table({"t": pa.array(np.cumsum(gaps), pa.int64()), "x": x})
