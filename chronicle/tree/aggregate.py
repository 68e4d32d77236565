"""Aggregates of a time range, put together from tree entries and border blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from chronicle.tree.summary import AttributeSummary, Kind, TimeSummary, integer_sums

Value = int | float | str


@dataclass(frozen=True, slots=True)
class Aggregate:
    """Aggregates of the events of a time range; attribute fields need an attribute."""

    n_events: int
    t_min: int | None
    """Time of the first event; None without events."""

    t_max: int | None
    gap_min: int | None
    """Smallest time between neighbouring events; None below two events."""

    gap_max: int | None
    n_values: int = 0
    """Values neither null nor NaN."""

    null_count: int = 0
    nan_count: int = 0
    minimum: Value | None = None
    """Least value, in internal form; None without values or order."""

    maximum: Value | None = None
    sum: int | float | None = None
    """Exact for integers, compensated for floats; None without values or for other types."""

    m2: float | None = None
    """Sum of squared differences from the mean."""

    n_entries: int = 0
    """Tree entries and border blocks that were merged."""

    n_blocks_read: int = 0
    """Border blocks that were read."""

    @property
    def mean(self) -> float | None:
        """Mean of the values; None without values or sum."""
        return None if self.sum is None else self.sum / self.n_values

    @property
    def variance(self) -> float | None:
        """Population variance of the values; None without values or sum."""
        return None if self.m2 is None else self.m2 / self.n_values


def to_aggregate(
    parts: Sequence[tuple[TimeSummary, AttributeSummary | None]],
    *,
    kind: Kind | None,
    n_blocks_read: int,
) -> Aggregate:
    """Merge consecutive summaries into one aggregate.

    ``parts`` are in time order, each of at least one entry, with attribute summaries in all or
    none; ``n_blocks_read`` of the entries were made by reading a block.
    """
    if not parts:
        return Aggregate(0, None, None, None, None, n_blocks_read=n_blocks_read)
    entries = TimeSummary.concat([times for times, _ in parts])
    start = np.zeros(1, np.int64)
    times = entries.merge(start)
    has_gap = times.gap_min[0] >= 0
    fields: dict[str, Any] = {}
    if kind is not None:
        whole = AttributeSummary.concat([part for _, part in parts if part is not None])
        fields = _attribute_fields(whole.merge(start), kind)
    return Aggregate(
        n_events=int(times.count[0]),
        t_min=int(times.t_min[0]),
        t_max=int(times.t_max[0]),
        gap_min=int(times.gap_min[0]) if has_gap else None,
        gap_max=int(times.gap_max[0]) if has_gap else None,
        n_entries=len(entries),
        n_blocks_read=n_blocks_read,
        **fields,
    )


def _attribute_fields(summary: AttributeSummary, kind: Kind) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "n_values": int(summary.n_values[0]),
        "null_count": int(summary.null_count[0]),
        "nan_count": int(summary.nan_count[0]),
    }
    if not fields["n_values"]:
        return fields
    if kind is Kind.STRING:
        fields |= {"minimum": summary.minimum[0].as_py(), "maximum": summary.maximum[0].as_py()}
    elif kind.has_extremes:
        fields |= {"minimum": summary.minimum[0].item(), "maximum": summary.maximum[0].item()}
    if kind is Kind.INTEGER:
        fields["sum"] = integer_sums(summary.sum_high, summary.sum_low)[0]
    elif kind is Kind.FLOAT:
        fields["sum"] = float(summary.sum_high[0] + summary.sum_low[0])
    if kind.has_sum:
        fields["m2"] = float(summary.m2[0])
    return fields
