"""The TAB+-tree of a stream: levels within files as persisted, levels above files built here."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from chronicle.tree.summary import AttributeSummary, Ints, Kind, TimeSummary, integer_sums
from chronicle.tree.tree_file import build_levels

_Summary = TypeVar("_Summary", TimeSummary, AttributeSummary)


@dataclass(frozen=True, slots=True)
class TreeLevel:
    """One level of n entries; level 0 has one entry per block."""

    first_block: Ints
    """int64, shape (n + 1,): entry i covers blocks ``first_block[i]`` to ``first_block[i + 1]``."""

    first_child: Ints
    """int64, shape (n + 1,): likewise entries of the level below; blocks for level 0."""

    times: TimeSummary
    attribute: AttributeSummary | None = None
    """Summaries of the attribute asked for, if one was."""


@dataclass(frozen=True, slots=True)
class NodeEntries:
    """Entries of several levels that make up many ranges of blocks, range by range."""

    level: Ints
    """Level of each of the n entries, shape (n,)."""

    entry: Ints
    """Position of each in its level, shape (n,); in time order within a range."""

    offsets: Ints
    """int64, shape (n_ranges + 1,): range i has the entries ``offsets[i]`` to
    ``offsets[i + 1]``."""

    def __len__(self) -> int:
        return len(self.level)


class TabTree:
    """Time index and aggregates over the blocks of one snapshot.

    Entries of a level never reach across data files until each file is down to one entry; a file
    with fewer levels than others shows its root entry on the levels it lacks. So a file that is
    rewritten changes nothing in the others' levels. Thread-safe.

    ``files`` has for each data file in stream order its levels, level 0 first; ``load`` returns
    likewise, for an attribute, each file's levels of its summaries.

    Notes
    -----
    Körber, dissertation (2021), section 3.2: the TAB+-tree of ChronicleDB; bulk-loaded, so the
    right flank is the last entry of each level.
    """

    def __init__(
        self,
        files: Sequence[list[TimeSummary]],
        *,
        fan_out: int,
        load: Callable[[str], Sequence[list[AttributeSummary]]],
    ) -> None:
        self._fan_out = fan_out
        self._load = load
        self._lock = threading.Lock()
        self._attributes: dict[str, list[AttributeSummary]] = {}
        times = _stack(files, fan_out) if files else [TimeSummary.concat([])]
        self._levels = _link(times, [[len(level) for level in file] for file in files], fan_out)

    @property
    def n_levels(self) -> int:
        """Number of levels, at least 1."""
        return len(self._levels)

    @property
    def n_blocks(self) -> int:
        """Number of blocks, the entries of level 0."""
        return len(self._levels[0].times)

    def level(self, k: int, attribute: str | None = None) -> TreeLevel:
        """Return level k, 0 being the blocks, as histogram over time.

        Raises
        ------
        IndexError
            If there is no such level.
        """
        if not 0 <= k < self.n_levels:
            raise IndexError(f"the tree has levels 0 to {self.n_levels - 1}, not {k}")
        level = self._levels[k]
        if attribute is None or self.n_blocks == 0:
            return level
        summaries = self._attribute(attribute)[k]
        return TreeLevel(level.first_block, level.first_child, level.times, summaries)

    def covering(self, start: int | None, stop: int | None) -> tuple[int, int]:
        """Return the blocks, half-open, that can hold events of [start, stop); O(log n).

        None is unbounded. The blocks may be empty of such events only where the two ends meet.
        """
        times = self._levels[0].times
        first = 0 if start is None else int(np.searchsorted(times.t_max, start, "left"))
        last = len(times) if stop is None else int(np.searchsorted(times.t_min, stop, "left"))
        return first, max(first, last)

    def nodes_of_ranges(self, first: Ints, stop: Ints) -> NodeEntries:
        """Return the fewest entries that make up each of many ranges of blocks.

        Of a range they are at most two stretches of fewer than ``fan_out`` entries per level,
        besides the levels where files of one entry stand side by side.

        ``first`` and ``stop`` are half-open block ranges, int64, each of shape (n_ranges,), in any
        order.
        """
        n_ranges = len(first)
        found: list[tuple[Ints, ...]] = []
        ranges = np.flatnonzero(first < stop)
        first, stop = first[ranges], stop[ranges]
        for k in range(self.n_levels):
            right_order = 2 * self.n_levels - k
            if k + 1 == self.n_levels:
                found.append(_slices(ranges, k, k, first, stop))
                break
            borders = self._levels[k + 1].first_child
            up_first = np.searchsorted(borders, first, "left")
            up_stop = np.searchsorted(borders, stop, "right") - 1
            ends = up_first >= up_stop
            found.append(_slices(ranges, k, k, first, np.where(ends, stop, borders[up_first])))
            goes_on = ~ends
            ranges, stop, up_stop = ranges[goes_on], stop[goes_on], up_stop[goes_on]
            found.append(_slices(ranges, right_order, k, borders[up_stop], stop))
            first, stop = up_first[goes_on], up_stop
        owner, order, level, start, length = (
            np.concatenate(column) for column in zip(*found, strict=True)
        )
        chosen = np.lexsort((order, owner))
        lengths = length[chosen]
        before = np.cumsum(lengths) - lengths
        within = np.arange(lengths.sum(), dtype=np.int64) - np.repeat(before, lengths)
        counts = np.bincount(np.repeat(owner, length), minlength=n_ranges)
        return NodeEntries(
            level=np.repeat(level[chosen], lengths),
            entry=np.repeat(start[chosen], lengths) + within,
            offsets=np.concatenate(([0], np.cumsum(counts))).astype(np.int64),
        )

    def counts_of_entries(self, nodes: NodeEntries) -> Ints:
        """Return the events of each entry."""
        counts = np.zeros(len(nodes), np.int64)
        for k, level in enumerate(self._levels):
            here = nodes.level == k
            counts[here] = level.times.count[nodes.entry[here]]
        return counts

    def attribute_of_entries(self, nodes: NodeEntries, attribute: str) -> AttributeSummary:
        """Return an attribute's summaries of the entries, in their order; needs a block."""
        return _gather(self._attribute(attribute), nodes)

    def times_of_entries(self, nodes: NodeEntries) -> TimeSummary:
        """Return the time summaries of the entries, in their order."""
        return _gather([level.times for level in self._levels], nodes)

    def _attribute(self, name: str) -> list[AttributeSummary]:
        with self._lock:
            found = self._attributes.get(name)
        if found is None:
            found = _stack(self._load(name), self._fan_out)
            with self._lock:
                self._attributes[name] = found
        return found

    def _check(self) -> None:
        """Verify every invariant; raises AssertionError that names level and entry."""
        blocks = self._levels[0].times
        assert (blocks.count > 0).all(), "a block without events"
        assert (blocks.t_min <= blocks.t_max).all(), "a block whose times are reversed"
        assert (blocks.t_max[:-1] <= blocks.t_min[1:]).all(), "blocks overlap in time"
        for k, level in enumerate(self._levels):
            at = f"level {k} of {self.n_levels}"
            assert len(level.first_block) == len(level.times) + 1, at
            assert level.first_block[0] == 0, at
            assert level.first_block[-1] == self.n_blocks, at
            assert (np.diff(level.first_block) > 0).all(), f"{at}: an entry covers no block"
            if k:
                self._check_inner(level, self._levels[k - 1], at)
        assert len(self._levels[-1].times) <= 1, "the top level has more than one entry"

    def _check_inner(self, level: TreeLevel, below: TreeLevel, at: str) -> None:
        children = np.diff(level.first_child)
        assert ((children >= 1) & (children <= self._fan_out)).all(), f"{at}: number of children"
        assert level.first_child[-1] == len(below.times), f"{at}: children left over"
        assert (below.first_block[level.first_child] == level.first_block).all(), at
        merged = below.times.merge(level.first_child[:-1])
        for name, found, expected in zip(
            TimeSummary.__slots__, level.times.columns(), merged.columns(), strict=True
        ):
            wrong = np.flatnonzero(found != expected)
            assert len(wrong) == 0, f"{at}: {name} of entry {wrong[0]} is not its children's"


def _gather(levels: Sequence[_Summary], nodes: NodeEntries) -> _Summary:
    """Return the summaries of entries, in their order, from those of each level."""
    by_level = [np.flatnonzero(nodes.level == k) for k in range(len(levels))]
    parts = [level.take(nodes.entry[here]) for level, here in zip(levels, by_level, strict=True)]
    back = np.empty(len(nodes), np.int64)
    back[np.concatenate(by_level)] = np.arange(len(nodes))
    return type(levels[0]).concat(parts).take(back)


def _slices(owner: Ints, order: int, level: int, start: Ints, stop: Ints) -> tuple[Ints, ...]:
    """Return owner, order, level, start and length of slices of a level, empty ones left out."""
    kept = np.flatnonzero(start < stop)
    owner, start, stop = owner[kept], start[kept], stop[kept]
    same = np.ones(len(kept), np.int64)
    return owner, same * order, same * level, start, stop - start


def _stack(files: Sequence[list[_Summary]], fan_out: int) -> list[_Summary]:
    """Lay the files' levels side by side, then aggregate the files' roots."""
    height = max(len(levels) for levels in files)
    concat = type(files[0][0]).concat
    stacked: list[_Summary] = [
        concat([levels[min(k, len(levels) - 1)] for levels in files]) for k in range(height)
    ]
    return stacked + build_levels(stacked[-1], fan_out)[1:]


def _link(
    times: list[TimeSummary], sizes: Sequence[Sequence[int]], fan_out: int
) -> tuple[TreeLevel, ...]:
    """Find the children of each entry; ``sizes`` are the files' entries by level."""
    n_blocks = len(times[0])
    blocks = np.arange(n_blocks + 1, dtype=np.int64)
    levels = [TreeLevel(blocks, blocks, times[0])]
    height = max((len(file) for file in sizes), default=1)
    for k in range(1, len(times)):
        starts: list[Ints] = []
        base = 0
        widths = [file[min(k - 1, len(file) - 1)] for file in sizes] if k < height else []
        for width in widths or [len(times[k - 1])]:
            starts.append(np.arange(base, base + width, fan_out, dtype=np.int64))
            base += width
        first_child = np.concatenate([*starts, [base]])
        first_block = levels[-1].first_block[first_child]
        levels.append(TreeLevel(first_block, first_child, times[k]))
    return tuple(levels)


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
