"""Read a source with one column more: whether an event passes a condition."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from replay.engines.source import EventSource
from replay.expressions.columns import Columns
from replay.expressions.evaluate import truths
from replay.expressions.scalars import Faults
from replay.language.bound import Expression, attributes

IntArray = npt.NDArray[np.int64]


class FilteredSource:
    """Events of a source, marked by a condition.

    Parameters
    ----------
    source
        Where to read.
    where
        The condition, over columns of the source.
    mark
        Name of the column that says whether it holds.
    """

    def __init__(self, source: EventSource, where: Expression, mark: str) -> None:
        self._source = source
        self._where = where
        self._mark = mark
        self._faults: list[int] = []
        self.n_events = source.n_events
        self.n_blocks = source.n_blocks
        self.bases = source.bases

    @property
    def n_faults(self) -> int:
        """Faults of rows in the condition so far."""
        return sum(self._faults)

    def read_blocks(self, blocks: IntArray, columns: list[str]) -> pa.Table:
        """Return the rows of ``blocks``, which ascend."""
        if self._mark not in columns:
            return self._source.read_blocks(blocks, columns)
        named = {attribute.name for attribute in attributes(self._where)}
        plain = sorted({*columns, *named} - {self._mark})
        table = self._source.read_blocks(blocks, plain)
        faults = Faults()
        passes = truths(self._where, Columns(table), faults)
        self._faults.append(faults.count)
        return table.append_column(self._mark, pa.array(passes)).select(columns)
