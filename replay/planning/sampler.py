"""Samples of one query: what a block of one takes, where it is drawn, and what is read of it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import median
from typing import Final

import numpy as np

from chronicle.errors import StorageError
from costmodel.arrays import FloatArray
from costmodel.coverage import estimate_coverage
from costmodel.parameters import CostParameters
from replay.language.bound import BoundPatternQuery
from replay.planning.plan import Condition
from replay.planning.sampling import (
    CORE_BLOCKS,
    EVEN_SHARE,
    MARGIN_SHARE,
    Sample,
    SampleEvents,
    draw,
    evaluate,
    sampled_attributes,
)
from replay.planning.shape import PatternShape
from replay.planning.statistics import StreamStatistics
from replay.planning.weighing import CoarseMap, Weighed

SAMPLED_PAGE_S: Final = 20e-6
"""Seconds to find and open one column of one block that lies by itself, as those of a sample do."""

SAMPLED_REACH_MAX: Final = 1024.0
"""Blocks a window reaches beyond which no sample is thought of."""


@dataclass(frozen=True, slots=True, eq=False)
class Sampler:
    """Draws and reads samples of the blocks that the coarse pattern map leaves of a query."""

    query: BoundPatternQuery
    shape: PatternShape
    statistics: StreamStatistics
    coarse: CoarseMap
    weighed: Weighed
    parameters: CostParameters

    def block_cost(self, wanted: tuple[Condition, ...]) -> float:
        """Return the seconds it takes to read one block of a sample that tells some conditions."""
        weights, statistics = self.parameters, self.statistics
        per_block = statistics.n_events / statistics.n_blocks
        per_column = SAMPLED_PAGE_S + weights.value_s * per_block
        return weights.seek_s / CORE_BLOCKS + len(self._columns(wanted)) * per_column

    @property
    def place_blocks(self) -> int:
        """About how many blocks a place of a sample has."""
        features = self.weighed.features
        per_block = features.remaining_events / features.remaining_blocks
        reach = float(median(features.window_events.tolist())) / per_block
        if not reach >= 1 / MARGIN_SHARE:
            return CORE_BLOCKS
        return CORE_BLOCKS + 2 * math.ceil(min(reach, SAMPLED_REACH_MAX))

    def draw(
        self, plan: tuple[Condition, ...], n_blocks: int, *, even_share: float = EVEN_SHARE
    ) -> Sample | None:
        """Draw at most so many blocks, in proportion to what a plan is expected to replay there."""
        sample, _ = draw(
            self.coarse.stretches,
            self.statistics.leaves,
            self._expected_cost(plan),
            within=self.query.within,
            rows=self.shape.row_window,
            n_blocks_max=n_blocks,
            even_share=even_share,
        )
        return sample

    def read(self, sample: Sample, wanted: tuple[Condition, ...]) -> SampleEvents | None:
        """Return the events of a sample that satisfy each condition; None if it cannot be read."""
        statistics = self.statistics
        try:
            columns = statistics.sample_columns(sample.blocks, self._columns(wanted))
        except StorageError:  # the plan may have no need of the file that cannot be read
            return None
        return evaluate(
            sample,
            columns,
            wanted,
            self.query,
            self.shape,
            statistics.leaves,
            key=statistics.key,
        )

    def _columns(self, wanted: tuple[Condition, ...]) -> tuple[str, ...]:
        return sampled_attributes(self.query, self.shape, wanted, self.statistics.key)

    def _expected_cost(self, plan: tuple[Condition, ...]) -> FloatArray:
        """Return how likely the plan replays each block of the stream, shape (n_blocks,)."""
        features, segment = self.weighed.features, self.weighed.segment
        if len(features.segment_blocks) == 1:
            return np.where(segment >= 0, 1.0, 0.0)
        touched = estimate_coverage(features, self.weighed.rows_of([plan])).blocks[0]
        share = np.minimum(touched / np.maximum(features.segment_blocks, 1.0), 1.0)
        return np.where(segment >= 0, share[segment], 0.0)
