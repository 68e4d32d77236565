"""What the cost model is told of a query and a stream: numbers only."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np

from costmodel.arrays import BoolArray, FloatArray, IntArray
from costmodel.matching import match_steps

TEXT_COLUMNS: Final = 3.0
"""Columns of numbers that take as long to decode as one of texts, whose dictionary is another in
each block: measured 8 to 11 ns a text beside 3 to 4 a number."""


@dataclass(frozen=True, eq=False)  # without slots, to keep what follows from the fields
class PlanFeatures:
    """A query over one stream, without the plans.

    C conditions belong to B basic blocks and are answered by L lookups. Events and blocks are those
    the coarse pattern map leaves, in S **segments**: groups of blocks, not necessarily neighbours,
    in each of which rates are taken as constant. A plan is a row of ``selected``, bool, shape
    (P, C); conditions of one lookup are selected together or not at all.
    """

    n_events: int
    """Events of the whole stream."""
    n_blocks: int
    """Blocks of the whole stream."""
    n_columns: float
    """Attributes the matcher must see of every event replayed, each text as `TEXT_COLUMNS`."""
    n_predicates: int
    """Distinct predicates evaluated for every event replayed."""
    bridge_blocks: int
    """Blocks between two stretches that are read rather than skipped."""
    block_lengths: IntArray
    """Positions of each basic block of the pattern, shape (B,)."""
    starts_exact: bool
    """Whether a match begins with the first basic block."""
    ends_exact: bool
    """Whether a match ends with the last basic block."""
    basic_block: IntArray
    """Basic block of each condition, shape (C,)."""
    lookup: IntArray
    """Lookup that answers each condition, shape (C,); equal ones are read once."""
    lookup_entries: FloatArray
    """Entries each lookup reads, shape (L,)."""
    segment_events: FloatArray
    """Events of each segment, shape (S,)."""
    segment_blocks: FloatArray
    """Blocks of each segment, shape (S,)."""
    segment_stretches: FloatArray
    """Stretches of the coarse pattern map that begin in each segment, shape (S,); they add up to
    all of them."""
    window_events: FloatArray
    """Events the query's window holds on average, its first and last included, shape (S,);
    infinite if nothing bounds a match."""
    density: FloatArray
    """Share of the segment's events that satisfy each condition, shape (S, C)."""
    block_density: FloatArray
    """Share of the segment's events at which each basic block occurs, from all that is known of
    it, indexed or not, shape (S, B); 1.0 where nothing is known."""
    closes_early: bool = False
    """Whether a match ends the searches that began within it, as AFTER MATCH SKIP PAST LAST ROW
    does."""
    cuts_rows: bool = False
    """Whether of the blocks read only rows in intervals are matched."""
    in_order: BoolArray = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    """Whether entries of each lookup stand in the order of the stream, as those of one key do,
    shape (L,); of shape (0,), none do."""
    n_keys: float = 1.0
    """Keys whose events take turns, where a match has rows of one key only; else 1."""
    beside_blocks: float = 0.0
    """Blocks read beside each stretch for neighbours in partitions; 0 where none are asked for."""

    @cached_property
    def steps(self) -> FloatArray:
        """The matcher's steps per event in each segment, shape (S,); see `match_steps`."""
        return match_steps(
            self.block_density,
            self.window_events,
            self.segment_events,
            closes_early=self.closes_early,
            n_keys=self.n_keys,
        )

    @property
    def is_keyed(self) -> bool:
        """Whether events found by lookups must agree on a key."""
        return self.n_keys > 1.0

    @property
    def further_steps(self) -> FloatArray:
        """The matcher's steps in each segment besides one for each event, shape (S,)."""
        return (self.steps - 1.0) * self.segment_events

    @property
    def is_in_order(self) -> BoolArray:
        """Whether entries of each lookup stand in the order of the stream, shape (L,)."""
        none = np.zeros(len(self.lookup_entries), dtype=np.bool_)
        return self.in_order if len(self.in_order) else none

    @property
    def remaining_events(self) -> float:
        """Events of all segments."""
        return float(self.segment_events.sum())

    @property
    def mean_window(self) -> float:
        """Events of a window on average, at most all."""
        n_events = max(self.remaining_events, 1.0)
        window = np.minimum(self.window_events, n_events)
        return float(self.segment_events @ window / n_events)

    def times_covered(self, n_windows: float) -> float:
        """Return how often so many windows would cover the stream, were they even in it."""
        return n_windows * self.mean_window / max(self.remaining_events, 1.0)


def whole_stream(n_events: int, n_blocks: int, n_columns: float, n_predicates: int) -> PlanFeatures:
    """Return the features of a query of which nothing can be looked up: for its full replay."""
    none = np.zeros(0)
    no_number = np.zeros(0, dtype=np.int64)
    return PlanFeatures(
        n_events=n_events,
        n_blocks=n_blocks,
        n_columns=n_columns,
        n_predicates=n_predicates,
        bridge_blocks=0,
        block_lengths=no_number,
        starts_exact=False,
        ends_exact=False,
        basic_block=no_number,
        lookup=no_number,
        lookup_entries=none,
        segment_events=np.array([float(n_events)]),
        segment_blocks=np.array([float(n_blocks)]),
        segment_stretches=np.ones(1),
        window_events=np.full(1, np.inf),
        density=np.ones((1, 0)),
        block_density=np.ones((1, 0)),
    )
