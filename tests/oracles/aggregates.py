"""Naive aggregates of a list of events: slow, obvious, plain Python."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class NaiveAggregate:
    n_events: int
    t_min: int | None
    t_max: int | None
    gap_min: int | None
    gap_max: int | None
    n_values: int
    null_count: int
    nan_count: int
    minimum: object
    maximum: object
    sum: object
    m2: float | None


def aggregate_events(times: list[int], values: list[object], *, is_number: bool) -> NaiveAggregate:
    """Aggregate events given in stream order; ``values`` as Python objects, None for null."""
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    nulls = [value for value in values if value is None]
    nans = [value for value in values if isinstance(value, float) and math.isnan(value)]
    present = [v for v in values if v is not None and not (isinstance(v, float) and math.isnan(v))]
    return NaiveAggregate(
        n_events=len(times),
        t_min=min(times, default=None),
        t_max=max(times, default=None),
        gap_min=min(gaps, default=None),
        gap_max=max(gaps, default=None),
        n_values=len(present),
        null_count=len(nulls),
        nan_count=len(nans),
        minimum=min(present, default=None),
        maximum=max(present, default=None),
        sum=exact_sum(present) if is_number and present else None,
        m2=second_moment(present) if is_number and present else None,
    )


def exact_sum(values: list[object]) -> object:
    """Integers exactly; floats exactly and then rounded once; infinities as IEEE adds them."""
    if all(isinstance(value, int) for value in values):
        return sum(values)
    if any(math.isinf(value) for value in values):
        return sum(value for value in values if math.isinf(value))
    return float(sum(Fraction(value) for value in values))


def second_moment(values: list[object]) -> float:
    """Sum of squared differences from the mean, in exact rationals; NaN with infinities."""
    if any(math.isinf(value) for value in values):
        return math.nan
    exact = [Fraction(value) for value in values]
    mean = sum(exact) / len(exact)
    return float(sum((value - mean) ** 2 for value in exact))
