"""What the queries calibration asks are made of: columns, their values, and the stream's pace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from chronicle import Snapshot
from replay.language.tokens import in_quotes, quoted

COLUMNS_MAX: Final = 6
"""Columns that queries are drawn over."""

COLUMNS_LOOKED_AT: Final = 24
"""Columns whose values are looked at; of wide streams the others are not."""

EVEN_MIN: Final = 0.5
"""Variance within blocks, as a share of that of the stream, from which on a column is even."""

BLOCKS_SAMPLED: Final = 32
"""Blocks whose values are looked at, spread evenly over the stream."""

DISTINCT_MAX: Final = 4096
"""Columns with more distinct values among those looked at have none that is common."""

ALIKE: Final = 4
"""Values of about the wanted share that are taken in turn."""

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Column:
    """A column and values of it."""

    name: str
    indexed: bool
    numbers: np.ndarray[Any, Any] | None
    """Sorted, as often as they were met; None of a column of text."""
    is_whole: bool
    is_even: bool = True
    """Whether any block has values from all over, and not only near ones."""
    frequent: tuple[tuple[str, float], ...] = ()
    """Values as queries write them, and their share of the events, most frequent first; none of
    numbers that are not whole or differ too much."""

    @property
    def n_distinct(self) -> int:
        """Values met that differ."""
        return len(self.frequent) if self.numbers is None else len(np.unique(self.numbers))

    def condition(self, symbol: str, share: float, at: float) -> str:
        """Return a condition on a symbol that about ``share`` of the events satisfy.

        Where single values are common, the one whose share is nearest. ``at`` says where in the
        column's distribution, from 0 to 1; a column that drifts is asked in the middle, since two
        places far apart are never met in one window.
        """
        name = f"{symbol}.{quoted(self.name)}"
        if self.frequent and (self.numbers is None or share <= self.frequent[0][1]):
            near = sorted(self.frequent, key=lambda one: abs(np.log(one[1] / share)))[:ALIKE]
            return f"{name} = {near[int(at * len(near)) % len(near)][0]}"
        assert self.numbers is not None
        at = at if self.is_even else 0.5
        first = at * (1 - share)
        low, high = np.quantile(self.numbers, (first, min(first + share, 1.0))).tolist()
        if self.is_whole:
            return f"{name} BETWEEN {int(np.floor(low))} AND {int(np.floor(high))}"
        return f"{name} BETWEEN {low!r} AND {high!r}"

    def mild_condition(self, symbol: str) -> str:
        """Return a condition that nearly all events satisfy: work, and no filter."""
        name = f"{symbol}.{quoted(self.name)}"
        if self.numbers is None:
            return f"{name} <> {self.frequent[-1][0]}"
        low = float(np.quantile(self.numbers, 0.01))
        return f"{name} >= {int(np.floor(low)) if self.is_whole else repr(low)}"


@dataclass(frozen=True, slots=True)
class Facts:
    """A stream as calibration sees it."""

    stream: str
    time: str
    is_timestamp: bool
    time_per_event: float
    """Typical time between events, in the stream's unit (microseconds of a timestamp)."""
    columns: tuple[Column, ...]
    """Indexed ones first, then those with even and with many values."""

    def window(self, n_events: float) -> str:
        """Return a duration in which about so many events come."""
        time = max(n_events * self.time_per_event, 1.0)
        if self.is_timestamp:
            return f"INTERVAL '{max(round(time / 1e6), 1)}' SECOND"
        return str(max(round(time), 1))


def look_at(snapshot: Snapshot, indexed: frozenset[str]) -> Facts:
    """Read some blocks of a stream with events and return what queries can be made of."""
    n = snapshot.n_blocks
    blocks = np.unique(np.linspace(0, n - 1, min(n, BLOCKS_SAMPLED)).astype(np.int64))
    time = snapshot.settings.time
    names = [name for name in snapshot.schema.names if name != time]
    # Indexed columns are those that are asked for; of the others, numbers are read most.
    names.sort(key=lambda name: (name not in indexed, _rank(snapshot.schema.field(name).type)))
    columns: list[Column] = []
    for name in names[:COLUMNS_LOOKED_AT]:
        values = snapshot.read_blocks(blocks, [name]).column(name)
        found = _to_column(name, values, snapshot.leaves.count[blocks], name in indexed)
        if found is not None:
            columns.append(found)
    columns.sort(key=lambda one: (not one.indexed, not one.is_even, -one.n_distinct))
    del columns[COLUMNS_MAX:]
    leaves = snapshot.leaves
    return Facts(
        snapshot.name,
        time,
        snapshot.time_type != "integer",
        typical_time(leaves.t_min, leaves.t_max, leaves.count),
        tuple(columns),
    )


def typical_time(t_min: IntArray, t_max: IntArray, count: IntArray) -> float:
    """Return the time between events in the median block; 0 where no block has two events.

    Not the mean over the stream: where it pauses for years, or was put together from recordings,
    hardly any event is as far from the next one as that.

    Examples
    --------
    >>> typical_time(np.array([0, 1000]), np.array([8, 1004]), np.array([5, 3]))
    2.0
    """
    has_two = count > 1
    if not has_two.any():
        return 0.0
    return float(np.median((t_max[has_two] - t_min[has_two]) / (count[has_two] - 1)))


def _rank(type_: pa.DataType) -> int:
    """Return 0 for the widest numbers, which are read most; text comes last."""
    if pa.types.is_floating(type_):
        return 0
    return 1 if pa.types.is_integer(type_) else 2


def _to_column(
    name: str, values: pa.ChunkedArray, counts: IntArray, indexed: bool
) -> Column | None:
    """Return a column that conditions can be written on, or None."""
    if pa.types.is_dictionary(values.type):
        values = pa.chunked_array([chunk.dictionary_decode() for chunk in values.chunks])
    is_whole = pa.types.is_integer(values.type)
    if is_whole or pa.types.is_floating(values.type):
        numbers = values.cast(pa.float64()).fill_null(np.nan).to_numpy()
        known = np.sort(numbers[np.isfinite(numbers)])
        if len(known) == 0 or known[0] == known[-1]:
            return None
        values = values.drop_null() if is_whole else values.slice(0, 0)
        frequent = tuple((str(value), share) for value, share in _frequent(values, len(numbers)))
        return Column(name, indexed, known, is_whole, _is_even(numbers, counts), frequent)
    if not pa.types.is_string(values.type):
        return None
    texts = _frequent(values.drop_null(), len(values))
    if len(texts) < 2:
        return None
    literals = tuple((in_quotes(text), share) for text, share in texts)
    return Column(name, indexed, None, is_whole=False, frequent=literals)


def _frequent(values: pa.ChunkedArray, n: int) -> list[tuple[Any, float]]:
    """Return distinct values and their share of ``n`` events; none if they are too many."""
    found = pc.value_counts(values.combine_chunks())
    if len(found) > DISTINCT_MAX:
        return []
    counted = [(one["values"], one["counts"] / n) for one in found.to_pylist()]
    return sorted(counted, key=lambda one: (-one[1], one[0]))


def _is_even(numbers: np.ndarray[Any, Any], counts: IntArray) -> bool:
    """Return whether values differ within blocks of so many events about as over the stream."""
    finite = np.isfinite(numbers)
    block = np.repeat(np.arange(len(counts)), counts)[finite]
    known = numbers[finite]
    n = np.maximum(np.bincount(block, minlength=len(counts)), 1)
    means = np.bincount(block, weights=known, minlength=len(counts)) / n
    within = float(((known - means[block]) ** 2).mean())
    return within >= EVEN_MIN * float(known.var())
