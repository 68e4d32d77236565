"""What calibration times of windows and joins, over stretches of a stream's blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa

from chronicle import Snapshot
from chronicle.tree.summary import INT_MAX
from chronicle.words import number_of
from costmodel.calibration import units_of_work
from costmodel.parameters import CostParameters
from costmodel.plan_cost import Estimate
from costmodel.windows import WindowFeatures, estimate_naive, estimate_replay, estimate_tree
from replay.calibration.facts import Facts
from replay.calibration.probes import join_probe, window_probe
from replay.calibration.timing import SEED, Operation
from replay.engines.scan import Reading, Scan
from replay.language.aggregation import to_aggregation
from replay.language.bound import (
    BoundCreate,
    BoundQuery,
    BoundSelect,
    TimeWindows,
    WindowAggregation,
)
from replay.language.required_columns import columns_of_windows
from replay.operators.outer_pieces import run_through
from replay.running.catalog import TableCatalog
from replay.running.select import Opener
from replay.running.statement import bind_over
from replay.running.steps import Chain, aggregating
from replay.windows.plan import BlockWhere, Way
from replay.windows.tree.axis import series_of
from replay.windows.tree.planning import window_plan
from replay.windows.tree.run import TreeRun

WIDTHS: Final = (1, 3)
"""Columns that windows aggregate: what each one adds is told from what there is besides."""

PER_BLOCK: Final = (16.0, 1.0, 1 / 16)
"""Slides in a block: small ones are all borders, large ones all nodes of the tree."""

OVERLAP: Final = 8
"""Slides in a window."""

STRETCHES: Final = 3
STRETCH_STEP: Final = 4
"""So many lengths of stretches, each so many times the one before."""

EVENTS_MAX: Final = 1 << 21
"""Events of the longest stretch."""

ASKED: Final = (8, 64)
"""Windows that are asked for one by one."""

JOIN_EVENTS: Final = (1 << 12, 1 << 15, 1 << 18)
"""Events of joins, which are in memory."""

JOIN_WINDOW: Final = 8
"""Events that come in a join's window."""

EVENT_S: Final = 1e-7
"""Seconds an event takes about, to size stretches before anything is known."""

RUNS: Final = 8
"""Times that all operations must fit into the time there is."""

WAYS: Final[dict[Way, tuple[str, Callable[[WindowFeatures, CostParameters], Estimate]]]] = {
    Way.REPLAY: ("windows by replay", estimate_replay),
    Way.TREE: ("windows by the tree", estimate_tree),
    Way.TREE_NAIVE: ("windows one by one", estimate_naive),
}
"""How an operation is called and estimated, by the way windows are answered."""


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Blocks, and how long a slide is there."""

    first: int
    stop: int
    n_events: int
    span: tuple[int, int]
    """Times of the first event and the last."""

    def __len__(self) -> int:
        return self.stop - self.first


def flow_operations(snapshot: Snapshot, facts: Facts, *, seconds: float) -> Iterator[Operation]:
    """Yield what can be timed of windows and joins on a stream with events, in about that time."""
    numbers = [column for column in facts.columns if column.numbers is not None]
    widths = [width for width in WIDTHS if width <= len(numbers)]
    n_runs = max(len(widths), 1) * 2 * len(PER_BLOCK) * RUNS
    stretches = list(_stretches(snapshot, seconds / n_runs))
    for width in widths:
        what = aggregation_of(snapshot, window_probe(facts, width))
        for stretch in stretches:
            for per_block in PER_BLOCK:
                n_slides = round(len(stretch) * per_block)
                if n_slides >= 1:
                    sliding = _sliding(what, stretch, n_slides)
                    if per_block != 1.0:
                        yield _windows(snapshot, sliding, stretch, width, Way.REPLAY)
                    yield _windows(snapshot, sliding, stretch, width, Way.TREE)
    if widths:
        what = aggregation_of(snapshot, window_probe(facts, 1))
        for n_windows in ASKED:
            sliding = _sliding(what, stretches[-1], n_windows)
            yield _windows(snapshot, sliding, stretches[-1], 1, Way.TREE_NAIVE)
    yield from _joins(snapshot, facts)


def _stretches(snapshot: Snapshot, seconds: float) -> Iterator[_Stretch]:
    """Yield stretches of blocks, the shortest first."""
    per_block = snapshot.n_events / snapshot.n_blocks
    longest = min(seconds / EVENT_S, EVENTS_MAX) / per_block
    random = np.random.default_rng(SEED)
    leaves, bases = snapshot.leaves, snapshot.bases
    sizes = {
        int(np.clip(longest / STRETCH_STEP**back, 1, snapshot.n_blocks))
        for back in range(STRETCHES)
    }
    for size in sorted(sizes):
        first = int(random.integers(snapshot.n_blocks - size + 1))
        stop = first + size
        span = (int(leaves.t_min[first]), int(leaves.t_max[stop - 1]))
        yield _Stretch(first, stop, int(bases[stop] - bases[first]), span)


def aggregation_of(snapshot: Snapshot, sql: str) -> WindowAggregation:
    """Return a windowed aggregation of a stream."""
    bound = bind_over(sql, lambda _: (snapshot.schema, snapshot.settings.time), {})
    assert isinstance(bound, BoundSelect)
    what = to_aggregation(bound)
    assert what is not None
    return what


def _sliding(what: WindowAggregation, stretch: _Stretch, n_slides: int) -> WindowAggregation:
    """Return the aggregation with so many slides in a stretch; fewer where time is too coarse."""
    first, last = stretch.span
    slide = max((last - first + 1) // n_slides, 1)
    return replace(what, windows=TimeWindows(slide * OVERLAP, slide, origin=first))


def _windows(
    snapshot: Snapshot, what: WindowAggregation, stretch: _Stretch, width: int, way: Way
) -> Operation:
    """Return the windows of a stretch alone as an operation, by replay or by the tree."""
    where = BlockWhere(start=stretch.span[0], stop=stretch.span[1] + 1)
    columns = columns_of_windows(what)
    blocks = np.array([[stretch.first, stretch.stop]], np.int64)
    plan = replace(window_plan(what, snapshot, way.value), where=where)

    def run() -> tuple[int, int]:
        """Return the windows there are, and the blocks that the tree needs read."""
        if way is Way.REPLAY:
            scan = Scan(snapshot, blocks, Reading(columns, encoded=True))
            tables = run_through(Chain(aggregating(what, span=stretch.span)), scan.tables())
            return sum(table.num_rows for table in tables), 0
        tree = TreeRun(snapshot, what, plan, span=stretch.span)
        return sum(table.num_rows for table in tree.tables()), tree.work.n_blocks

    n_windows, n_read = run()
    features = _features(snapshot, what, stretch, where, n_windows, n_read)
    kind, estimate = WAYS[way]
    if way is Way.TREE_NAIVE:
        # Each window reads its own blocks, which the estimate takes to be two in a slice cut.
        features = replace(features, read_blocks=min(features.read_blocks, features.n_slices))
    of = number_of(width, "column")
    name = f"{kind}, {of}: {len(stretch)} blocks, {features.n_windows:,.0f} windows"
    units = units_of_work(lambda weights: estimate(features, weights).cost)
    return Operation(name, kind, units, run)


def _features(
    snapshot: Snapshot,
    what: WindowAggregation,
    stretch: _Stretch,
    where: BlockWhere,
    n_windows: int,
    n_read: int,
) -> WindowFeatures:
    """Return what the cost model is told; blocks and windows are those there were."""
    n_columns = len(columns_of_windows(what))
    windows = series_of(snapshot, what.windows).within(stretch.span)
    borders = np.unique(where.clip(windows.borders(None, INT_MAX)))
    return WindowFeatures(
        n_events=stretch.n_events,
        n_blocks=len(stretch),
        replay_events=stretch.n_events,
        replay_blocks=len(stretch),
        read_blocks=n_read,
        whole_blocks=max(len(stretch) - n_read, 0),
        n_windows=n_windows,
        n_slices=max(len(borders) - 1, 1),
        n_columns=n_columns,
        n_columns_cut=n_columns,
        n_attributes=n_columns - 1,
        n_predicates=0,
        fan_out=snapshot.settings.fan_out,
        n_levels=snapshot.tree.n_levels,
    )


def _joins(snapshot: Snapshot, facts: Facts) -> Iterator[Operation]:
    """Yield joins of events in memory with themselves: reading is none of their price."""
    sql, column = join_probe(facts, JOIN_WINDOW)
    time = snapshot.settings.time
    bound = bind_over(sql, lambda _: (snapshot.schema, time), {})
    assert not isinstance(bound, BoundCreate)
    for n_events in JOIN_EVENTS:
        if n_events > snapshot.n_events and n_events != JOIN_EVENTS[0]:
            return
        n_blocks = int(np.searchsorted(snapshot.bases, n_events))
        blocks = np.arange(min(n_blocks, snapshot.n_blocks))
        events = snapshot.read_blocks(blocks, [time, column]).slice(0, n_events)
        yield _joined(bound, snapshot.name, events)


def _joined(bound: BoundQuery, stream: str, events: pa.Table) -> Operation:
    catalog = TableCatalog({stream: events})

    def run() -> int:
        flow = Opener(catalog, "full").open_query(bound)
        return sum(table.num_rows for table in flow.tables())

    n_joined = 2 * events.num_rows  # each event is one of the left and one of the right
    units = units_of_work(lambda weights: weights.join_s * n_joined)
    return Operation(f"join of {events.num_rows:,} events", "joins in memory", units, run)
