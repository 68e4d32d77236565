"""The arrays that conditions across rows read and write, as their kernels take them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from replay.operators.conditions.across import AcrossCode
from replay.operators.conditions.kernels import Conditions, Mapped

IntArray = npt.NDArray[np.int64]


def to_conditions(across: AcrossCode, leaves: IntArray, known: npt.NDArray[np.bool_]) -> Conditions:
    """Return compiled conditions together with the leaves of rows.

    Parameters
    ----------
    leaves, known
        Values (int64, or the bits of doubles) and whether they are not NULL, C-contiguous, shape
        (n_leaves, n_rows). Both are viewed, not copied.
    """
    return Conditions(
        code=across.code,
        slices=across.slices,
        const_i=across.constants,
        const_f=across.constants.view(np.float64),
        leaf_i=leaves,
        leaf_f=leaves.view(np.float64),
        leaf_ok=known,
        slot_begins=across.slot_begins,
        slots=across.slots,
        total_begins=across.total_begins,
        totals=across.totals,
    )


def new_mapped(across: AcrossCode, n_rows: int) -> Mapped:
    """Return an empty mapping that has room for ``n_rows`` rows.

    Memory is touched only as rows are bound.
    """
    n_slots, n_totals = len(across.total_begins) - 1, len(across.totals)
    totals_i = np.empty((n_totals, n_rows + 1, 3), np.int64)
    totals_f = np.empty((n_totals, n_rows + 1, 2), np.float64)
    totals_i[:, 0] = 0
    totals_f[:, 0] = 0.0
    depth = len(across.code) + 3
    return Mapped(
        counts=np.zeros(n_slots, np.int64),
        rows=np.empty((n_slots, n_rows), np.int64),
        totals_i=totals_i,
        totals_f=totals_f,
        path=np.empty(n_rows + 1, np.uint8),
        stack_i=np.empty(depth, np.int64),
        stack_f=np.empty(depth, np.float64),
        stack_ok=np.zeros(depth, np.bool_),
    )
