"""Naive index: keys are Python values, a lookup looks at every one of them."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable

from indexing.key_range import Key, KeyRange

_EPOCH = dt.datetime(1970, 1, 1)


def to_key(value: object) -> Key | None:
    """Return the key of a value; None for null and NaN."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, float):
        return None if math.isnan(value) else value
    if isinstance(value, dt.datetime):
        return (value.replace(tzinfo=None) - _EPOCH) // dt.timedelta(microseconds=1)
    if isinstance(value, dt.date):
        return (value - _EPOCH.date()).days
    assert value is None or isinstance(value, int | str)
    return value


def admits(r: KeyRange, key: Key) -> bool:
    """Return whether a range holds a key, by its definition."""
    above = r.low is None or key > r.low or (r.low_closed and key == r.low)
    below = r.high is None or key < r.high or (r.high_closed and key == r.high)
    return above and below


def matching_rows(values: Iterable[object], ranges: Iterable[KeyRange]) -> list[int]:
    """Return the rows whose value lies in any of the ranges, ascending."""
    wanted = list(ranges)
    keys = [to_key(value) for value in values]
    return [
        row
        for row, key in enumerate(keys)
        if key is not None and any(admits(r, key) for r in wanted)
    ]
