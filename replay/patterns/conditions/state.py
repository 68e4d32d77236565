"""The arrays that conditions across rows read and write, as their kernels take them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from replay.patterns.conditions.across import AcrossCode

IntArray = npt.NDArray[np.int64]
Doubles = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

Conditions = tuple[
    IntArray, IntArray, IntArray, IntArray, IntArray, Doubles, IntArray, Doubles, Bools, bool | None
]
"""``conds`` as ``kernels.py`` says; plain tuples, for the reason given there."""

Mapped = tuple[
    IntArray, IntArray, IntArray, Doubles, npt.NDArray[np.uint8], IntArray, Doubles, Bools
]
"""``mapped`` likewise."""


def to_conditions(
    across: AcrossCode,
    leaves: IntArray,
    known: npt.NDArray[np.bool_],
    ranks: IntArray | None = None,
) -> Conditions:
    """Return compiled conditions together with the leaves of rows.

    Parameters
    ----------
    leaves, known
        Values (int64, or the bits of doubles) and whether they are not NULL, C-contiguous, shape
        (n_leaves, n_rows). Both are viewed, not copied, unless texts are ranked.
    ranks
        By code of a text its place in the order of texts, and -1 for the code -1: what stands for
        texts where conditions order them. None: the codes themselves do.
    """
    constants = across.constants
    if ranks is not None:
        leaves, constants = leaves.copy(), constants.copy()
        texts = across.text_leaves
        leaves[texts] = ranks[leaves[texts]]
        constants[across.text_places] = ranks[constants[across.text_places]]
    return (
        across.code,
        across.by_symbol,
        across.slots,
        across.totals,
        constants,
        constants.view(np.float64),
        leaves,
        leaves.view(np.float64),
        known,
        True if across.has_calls else None,
    )


def new_mapped(across: AcrossCode, n_rows: int) -> Mapped:
    """Return an empty mapping that has room for ``n_rows`` rows.

    Memory is touched only as rows are bound.
    """
    n_slots, n_totals = across.n_slots, len(across.totals)
    totals_i = np.empty((n_totals, n_rows + 1, 3), np.int64)
    totals_f = np.empty((n_totals, n_rows + 1, 2), np.float64)
    totals_i[:, 0] = 0
    totals_f[:, 0] = 0.0
    depth = len(across.code) + 3
    return (
        np.zeros(n_slots, np.int64),
        np.empty((n_slots, n_rows), np.int64),
        totals_i,
        totals_f,
        np.empty(n_rows + 1, np.uint8),
        np.empty(depth, np.int64),
        np.empty(depth, np.float64),
        np.zeros(depth, np.bool_),
    )
