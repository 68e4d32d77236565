"""Windows over a stream on their way from its tree."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from chronicle import Snapshot
from replay.engines.evidence import BlocksRead
from replay.engines.execution_stats import ExecutionStats
from replay.language.bound import WindowAggregation
from replay.windows.plan import WindowPlan
from replay.windows.tree.run import TreeRun


@dataclass(slots=True, eq=False)
class TreeFlow:
    """Windows of a version of a stream, aggregated from its tree."""

    snapshot: Snapshot
    what: WindowAggregation
    plan: WindowPlan
    faults: tuple[str, ...]
    told_max: int | None = None
    """How many windows there may be to tell; None: any number."""
    _run: TreeRun | None = field(default=None, init=False)

    def tables(self) -> Iterator[pa.Table]:
        """Yield the rows of the answer."""
        self._run = TreeRun(self.snapshot, self.what, self.plan, told_max=self.told_max)
        return self._run.tables()

    def work(self) -> ExecutionStats:
        """Return what was done so far."""
        total = ExecutionStats(
            n_blocks_total=self.snapshot.n_blocks,
            n_rows_total=self.snapshot.n_events,
            warnings=self.faults,
        )
        if self._run is None:
            return total
        done = self._run.work
        blocks = np.unique(
            np.concatenate([np.empty(0, np.int64), *(read for read, _ in done.reads)])
        )
        return total + ExecutionStats(
            n_blocks=done.n_blocks,
            n_rows=done.n_rows,
            n_faults=done.n_faults,
            read_s=done.seconds_read,
            byte_counters=(self._run.count_bytes,),
            reads=(BlocksRead(self.snapshot, np.stack((blocks, blocks + 1), axis=1), len(blocks)),),
        )
