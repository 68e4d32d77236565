"""Sums over every match within a time, from one start after the other.

The rows within the time of a start are gone through with the runs that begin there alone.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from replay.limits import check_limits
from replay.patterns.search import Rows
from replay.patterns.summing import kernels
from replay.patterns.summing.within import WithinTrendOperator, segments_of
from replay.patterns.trends.machine import Steps, steps_of

IntArray = npt.NDArray[np.int64]


class StartTrendOperator(WithinTrendOperator):
    """Sums over every match of one query with WITHIN; the type grain."""

    kind = "sums over matches by start"

    def _sum(self, rows: Rows, parts: IntArray) -> None:
        rows, segments = segments_of(rows, parts, self._summed_to)
        seen = self._seen(rows, rows.times)
        at, status = np.zeros(kernels.AT_SIZE, np.int64), kernels.STATUS_WIDE
        while status != kernels.STATUS_DONE:
            check_limits()
            status = kernels.sum_starts(
                at, segments, self._within, self._new_cells(self._code.n_states),
                self._new_cells(self._n_slots), self._new_cells(1), self._totals,
                tuple(self._fields()), tuple(seen), self._program_of_codes,
            )  # fmt: skip
            if status == kernels.STATUS_WIDE:
                self._more_words()

    def _steps_of(self, word: int, begin: int) -> list[Steps]:
        going_on = steps_of(self._code, word, None)
        return [going_on, steps_of(self._code, word, begin, goes_on=False)]
