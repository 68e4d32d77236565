"""Planning a windowed aggregation on a snapshot: what its tree tells, and the way to go."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from chronicle import Snapshot
from chronicle.tree.summary import Ints
from costmodel.parameters import DEFAULT_PARAMETERS, CostParameters
from costmodel.windows import WindowFeatures, break_even_slide, with_slide
from replay.engines.block_truth import MUST_READ, NONE_PASS, classify_blocks
from replay.language.bound import (
    CumulateWindows,
    RowWindows,
    SessionWindows,
    TimeWindows,
    WholeRange,
    WindowAggregation,
)
from replay.language.fold import conjuncts, joined
from replay.language.required_columns import columns_of_windows
from replay.windows.borders import TimeGrid, grid_of
from replay.windows.plan import (
    BlockWhere,
    WindowPlan,
    choose_way,
    estimate_ways,
    may_pass,
    rivals_of,
)
from replay.windows.tree.axis import axis_of, series_of
from replay.windows.tree.keyed import (
    groups_of,
    n_blocks_of_ends,
    where_by_key,
    why_no_groups,
)
from replay.windows.tree.terms import needed_of, plain_counts, why_not_tree
from replay.windows.where import SplitWhere, split_where


def window_plan(
    what: WindowAggregation,
    snapshot: Snapshot,
    requested: str = "auto",
    *,
    parameters: CostParameters = DEFAULT_PARAMETERS,
) -> WindowPlan:
    """Choose how a windowed aggregation of a stream is answered.

    Reads summaries, and events of those data files alone whose tree files lack declared ones.
    ``requested`` is one of `KINDS`. Raises a PlanError for a plan that cannot answer the query, and
    a QueryError for windows longer than times can tell.
    """
    where = block_where(what, snapshot)
    leaves = snapshot.leaves
    passes = None
    if what.where is not None and not isinstance(what.windows, RowWindows | SessionWindows):
        passes = may_pass(where, leaves.t_min, leaves.t_max)
    why_not, groups = why_not_tree(what, snapshot.schema), None
    if why_not is None and what.keys:
        needed = needed_of(plain_counts(what), snapshot.schema)
        why_not = why_no_groups(what, needed, snapshot)
        if why_not is None:
            groups = groups_of(needed, snapshot)
            rest = split_where(what.where, snapshot.settings.time).rest
            where = where_by_key(where, rest, groups, snapshot)
            groups = groups.that_may(where.by_key)
    features = _features(what, snapshot, where, passes)
    if groups is not None and not isinstance(what.windows, WholeRange):
        n_ends = n_blocks_of_ends(groups, may_pass(where, leaves.t_min, leaves.t_max))
        features = replace(features, read_blocks=features.read_blocks + n_ends)
    way, reason = choose_way(features, requested, why_not, parameters)
    estimates = estimate_ways(features, parameters, by_tree=why_not is None)
    return WindowPlan(
        way=way,
        estimated=estimates[way],
        rivals=rivals_of(way, estimates),
        reason=reason,
        where=where,
        n_blocks=snapshot.n_blocks,
        windows=what.windows,
        n_windows=None if why_not is not None else int(features.n_windows),
        break_even=None
        if why_not is not None
        else _break_even(what, snapshot, features, parameters),
        in_timestamps=snapshot.time_type != "integer",
        weights=parameters,
    )


def block_where(what: WindowAggregation, snapshot: Snapshot) -> BlockWhere:
    """Return what the WHERE of an aggregation leaves, as the tree's least and greatest tell."""
    split = split_where(what.where, snapshot.settings.time)
    if isinstance(what.windows, RowWindows):  # whose windows hold rows that do not pass, too
        split = SplitWhere(None, None, tuple(conjuncts(what.where)))
    start, stop, rest = split.start, split.stop, split.rest
    if start is not None and stop is not None:
        stop = max(start, stop)
    classes = classify_blocks(rest, snapshot.leaves.count, snapshot.bounds)
    return BlockWhere(start, stop, joined(rest), classes)


def _features(
    what: WindowAggregation,
    snapshot: Snapshot,
    where: BlockWhere,
    passes: np.ndarray[tuple[int], np.dtype[np.bool_]] | None,
) -> WindowFeatures:
    """Return what the cost model is told; numbers of blocks are exact."""
    leaves = snapshot.leaves
    replayed = np.ones(snapshot.n_blocks, np.bool_) if passes is None else passes
    cut, n_borders, n_windows = _cuts(what, snapshot, where)
    read = cut.copy()
    whole = replayed.copy()
    if where.classes is not None:
        if not isinstance(what.windows, RowWindows):
            read &= where.classes != NONE_PASS
        read |= replayed & (where.classes == MUST_READ)
        whole = replayed & (where.classes != NONE_PASS)
    aggregated = needed_of(plain_counts(what), snapshot.schema)
    columns = columns_of_windows(what)
    return WindowFeatures(
        n_events=snapshot.n_events,
        n_blocks=snapshot.n_blocks,
        replay_events=int(leaves.count[replayed].sum()),
        replay_blocks=int(replayed.sum()),
        read_blocks=int(read.sum()),
        whole_blocks=int((whole & ~read).sum()),
        n_windows=n_windows,
        n_slices=max(n_borders - 1, 1),
        n_columns=len(columns),
        n_columns_cut=len(columns),
        n_attributes=len(aggregated),
        n_predicates=0 if where.condition is None else 1,
        fan_out=snapshot.settings.fan_out,
        n_levels=snapshot.tree.n_levels,
    )


def _cuts(
    what: WindowAggregation, snapshot: Snapshot, where: BlockWhere
) -> tuple[np.ndarray[tuple[int], np.dtype[np.bool_]], int, int]:
    """Return which blocks a border cuts, how many borders and how many windows there are."""
    none = np.zeros(snapshot.n_blocks, np.bool_)
    if not snapshot.n_blocks or isinstance(what.windows, SessionWindows):
        return none, 1, 1
    axis, n_windows = axis_of(snapshot, what.windows), series_of(snapshot, what.windows).n_windows
    before = _border_counter(what, snapshot)
    low, high = where.clip(axis.low), where.clip(axis.high)
    cut = before(high) > before(low)
    for end in (where.start, where.stop):
        if end is not None:
            cut |= (axis.low < end) & (end <= axis.high)
    n_borders = int(before(high[-1:])[0] - before(low[:1])[0]) + 2
    return cut, n_borders, n_windows


def _border_counter(what: WindowAggregation, snapshot: Snapshot) -> Callable[[Ints], Ints]:
    """Return a function that numbers the borders of windows up to each position."""
    windows = what.windows
    if isinstance(windows, WholeRange):
        return np.zeros_like
    grid: TimeGrid | None = None
    if isinstance(windows, RowWindows):
        origin, width, rest = 0, windows.slide, windows.size % windows.slide
    else:
        assert isinstance(windows, TimeWindows | CumulateWindows), "sessions have no such borders"
        assert snapshot.t_min is not None
        grid = grid_of(windows, snapshot.t_min)
        origin, (width, rest) = grid.origin, grid.pane

    def count(positions: Ints) -> Ints:
        along = (positions if grid is None else grid.units(positions)) - origin
        return along // width + (along - rest) // width if rest else along // width

    return count


def _break_even(
    what: WindowAggregation,
    snapshot: Snapshot,
    features: WindowFeatures,
    parameters: CostParameters,
) -> float | None:
    """Return the slide from which on the tree is expected to win; None where nothing slides."""
    windows = what.windows
    if isinstance(windows, RowWindows):
        length = float(snapshot.n_events)
    elif (
        isinstance(windows, TimeWindows)
        and windows.calendar is None  # whose units the cost of a slide is no function of
        and snapshot.t_min is not None
    ):
        assert snapshot.t_max is not None
        length = float(snapshot.t_max - snapshot.t_min)
    else:
        return None
    divides = windows.size % windows.slide == 0
    size = float(windows.size)
    return break_even_slide(
        lambda slide: with_slide(features, slide, size, length=length, divides=divides),
        size,
        parameters,
    )
