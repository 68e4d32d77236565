"""Naive aggregate functions over the values of rows, as ``bound.Aggregate`` promises them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from replay.language.bound import Aggregate, DataType
from tests.oracles.scalar import INT64


def aggregate(part: Aggregate, values: Sequence[Any]) -> Any:
    """Return the aggregate of its argument's values, None for NULL, in row order."""
    present = [value for value in values if value is not None]
    if part.function in ("min", "max"):
        present = [value for value in present if not is_nan(value)]
    if part.distinct:
        present = distinct(present)
    if part.function == "count":
        return len(present)
    if part.function == "concat":
        return "".join(present) if present else None
    if not present:
        return None
    match part.function:
        case "sum":
            return total(present)
        case "avg":
            sum_ = total(present)
            return None if sum_ is None else _average(part, sum_, len(present))
        case "min":
            return min(present)
        case "max":
            return max(present)
    moment = part.function.split("_")
    return spread(present, sample=moment[1] == "samp", root=moment[0] == "stddev")


def is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def distinct(values: Sequence[Any]) -> list[Any]:
    """Return the first of each value; NaN equals NaN."""
    found: dict[Any, Any] = {}
    for value in values:
        found.setdefault("NaN" if is_nan(value) else (value,), value)
    return list(found.values())


def total(values: Sequence[Any]) -> Any:
    """Integers exactly, NULL where the sum is no int64; doubles one after the other from 0.0."""
    if isinstance(values[0], float):
        sum_ = 0.0
        for value in values:
            sum_ += value
        return sum_
    exact = sum(values)
    return exact if INT64[0] <= exact <= INT64[1] else None


def _average(part: Aggregate, sum_: Any, count: int) -> Any:
    assert part.type is DataType.DOUBLE, part
    return float(sum_) / count


def spread(values: Sequence[Any], *, sample: bool, root: bool) -> float | None:
    """Return variance or standard deviation, in exact rationals until the last step."""
    n = len(values)
    if sample and n < 2:
        return None
    if any(not math.isfinite(value) for value in values):
        return math.nan
    exact = [Fraction(value) for value in values]
    mean = sum(exact) / n
    variance = float(sum((value - mean) ** 2 for value in exact) / (n - 1 if sample else n))
    return math.sqrt(variance) if root else variance
